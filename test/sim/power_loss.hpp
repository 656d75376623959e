// power_loss.hpp - a disk that forgets what was not synced.
//
// The child's system calls are watched (os/fault.hpp).  Before a call changes anything, what it
// replaces is put into a journal in memory shared with the parent; a successful sync strikes out
// what it covers.  After the child's death the parent may cut the power: of what is left in the
// journal a random part is put back.
//   - data: for each 512-byte sector any of its versions since the last sync, independently of its
//     neighbours: so pages and log rounds tear, and writes are reordered
//   - size: as it is, or as it was at the last sync
//   - names (create, rename, unlink): the first so many of a directory's changes since its last
//     sync happened, in order
// What was written before a plain kill stays unsynced through the following lives.
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "os/fault.hpp"
#include "unit/recovery/child_process.hpp"

namespace ls::test {

class PowerLossDisk {
 public:
  explicit PowerLossDisk(const std::string &root)
      : root_(root), backups_(root + "/power_loss_backups") {
    void *memory = mmap(nullptr, kJournalBytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    journal_ = static_cast<Journal *>(memory);
    std::filesystem::create_directory(backups_);
  }
  ~PowerLossDisk() { munmap(journal_, kJournalBytes); }
  PowerLossDisk(const PowerLossDisk &) = delete;
  PowerLossDisk &operator=(const PowerLossDisk &) = delete;

  // In the child, before it touches the store.
  void watch() {
    FaultRule nothing;  // keeps writes away from io_uring, which is not seen
    nothing.op = FaultOp::kUnlink;
    nothing.path_part = "/no such directory/";
    fault_add(nothing);
    file_observer.store(new Watcher(*this), std::memory_order_release);
  }

  // In the parent, between two lives.  Returns how many sectors and names were put back.
  u64 cut_power(std::mt19937_64 &random) {
    u64 undone = undo_data(random) + undo_names(random);
    std::filesystem::remove_all(backups_);
    std::filesystem::create_directory(backups_);
    std::memset(journal_->bytes, 0, journal_->used.load());
    journal_->used.store(0);
    return undone;
  }

 private:
  static constexpr size_t kJournalBytes = size_t{192} << 20;
  static constexpr u64 kSectorBytes = 512;

  struct Journal {
    std::atomic<u64> used;      // bytes of entries
    std::atomic<u64> sequence;  // of completions and syncs
    std::atomic<u64> backups;
    u8 bytes[1];
  };

  enum class Kind : u32 { kData = 1, kCreate, kRename, kUnlink };
  struct Entry {
    Kind kind;
    u32 bytes;          // whole entry, 8-aligned
    u64 inode;          // of the file; names: of the directory
    u64 offset;         // kData: what is replaced is old_bytes at offset
    u64 old_bytes;
    u64 size;           // kData: of the file before
    u64 backup;         // names: number of the hard link that keeps the replaced file; 0: none
    std::atomic<u64> completed;  // sequence number; 0: under way
    std::atomic<u32> synced;
    u32 path_bytes;     // names: path, then `to`, both terminated
    u8 *data() { return reinterpret_cast<u8 *>(this + 1); }
    const char *path() { return reinterpret_cast<const char *>(this + 1); }
    const char *to() { return path() + path_bytes; }
  };

  template <typename Each>
  void each_entry(const Each &each) {
    for (u64 at = 0; at < journal_->used.load(std::memory_order_acquire);) {
      Entry *entry = reinterpret_cast<Entry *>(journal_->bytes + at);
      each(entry);
      at += entry->bytes;
    }
  }

  std::string backup_path(u64 number) const { return backups_ + "/" + std::to_string(number); }

  // ---- the child's side

  class Watcher : public FileObserver {
   public:
    explicit Watcher(PowerLossDisk &disk) : disk_(disk), journal_(*disk.journal_) {
      disk_.each_entry([&](Entry *entry) {
        // A call that the death of its process interrupted is over now, done or not: a sync from
        // here on covers it.
        if (entry->completed.load() == 0) entry->completed.store(++journal_.sequence);
        if (!entry->synced.load()) open_[entry->inode].push_back(entry);
      });
    }

    u64 before(const FileCall &call) override {
      std::lock_guard lock(mutex_);
      switch (call.op) {
        case FaultOp::kWrite: return record_data(call.fd, call.offset, call.bytes);
        case FaultOp::kExtend: return record_data(call.fd, 0, 0);
        case FaultOp::kSync: return ++journal_.sequence;
        case FaultOp::kOpen:
          return access(call.path, F_OK) == 0 ? 0 : record_name(Kind::kCreate, call.path, "");
        case FaultOp::kRename: return record_name(Kind::kRename, call.path, call.to);
        case FaultOp::kUnlink:
          return access(call.path, F_OK) == 0 ? record_name(Kind::kUnlink, call.path, "") : 0;
        default: return 0;
      }
    }

    void after(const FileCall &call, u64 token, bool success) override {
      std::lock_guard lock(mutex_);
      if (call.op != FaultOp::kSync) {
        if (token) reinterpret_cast<Entry *>(token)->completed.store(++journal_.sequence);
        return;
      }
      struct stat st;
      if (!success || fstat(call.fd, &st) != 0) return;
      // What was complete when the sync began.
      std::erase_if(open_[st.st_ino], [&](Entry *entry) {
        u64 completed = entry->completed.load();
        if (completed == 0 || completed > token) return false;
        entry->synced.store(1);
        return true;
      });
    }

   private:
    Entry *allocate(Kind kind, size_t payload) {
      u64 bytes = (sizeof(Entry) + payload + 7) / 8 * 8;
      u64 at = journal_.used.load();
      if (sizeof(Journal) + at + bytes > kJournalBytes) die_at_once();  // as good a moment as any
      Entry *entry = reinterpret_cast<Entry *>(journal_.bytes + at);
      entry->kind = kind;
      entry->bytes = static_cast<u32>(bytes);
      return entry;
    }
    u64 publish(Entry *entry) {
      open_[entry->inode].push_back(entry);
      journal_.used.store(journal_.used.load() + entry->bytes, std::memory_order_release);
      return reinterpret_cast<u64>(entry);
    }

    u64 record_data(int fd, u64 offset, size_t bytes) {
      Entry *entry = allocate(Kind::kData, bytes);
      struct stat st;
      if (fstat(fd, &st) != 0) return 0;
      entry->inode = st.st_ino;
      entry->offset = offset;
      entry->size = static_cast<u64>(st.st_size);
      ssize_t got = bytes ? pread(fd, entry->data(), bytes, static_cast<off_t>(offset)) : 0;
      entry->old_bytes = got > 0 ? static_cast<u64>(got) : 0;
      // Beyond the old end there was nothing: zeros, should the size survive.
      std::memset(entry->data() + entry->old_bytes, 0, bytes - entry->old_bytes);
      entry->old_bytes = bytes;
      return publish(entry);
    }

    u64 record_name(Kind kind, const char *path, const char *to) {
      size_t path_bytes = std::strlen(path) + 1, to_bytes = std::strlen(to) + 1;
      struct stat st;
      if (stat(std::filesystem::path(path).parent_path().c_str(), &st) != 0) return 0;
      Entry *entry = allocate(kind, path_bytes + to_bytes);
      entry->inode = st.st_ino;
      entry->path_bytes = static_cast<u32>(path_bytes);
      std::memcpy(entry->data(), path, path_bytes);
      std::memcpy(entry->data() + path_bytes, to, to_bytes);
      const char *replaced = kind == Kind::kRename ? to : path;
      u64 number = ++journal_.backups;
      entry->backup = link(replaced, disk_.backup_path(number).c_str()) == 0 ? number : 0;
      return publish(entry);
    }

    PowerLossDisk &disk_;
    Journal &journal_;
    std::mutex mutex_;
    std::map<u64, std::vector<Entry *>> open_;   // by inode, not synced, in order
  };

  // ---- the parent's side

  static void collect_paths(const std::string &directory, std::map<u64, std::string> *paths) {
    for (auto &file : std::filesystem::recursive_directory_iterator(directory)) {
      struct stat st;
      if (stat(file.path().c_str(), &st) == 0 && S_ISREG(st.st_mode))
        (*paths)[st.st_ino] = file.path();
    }
  }

  u64 undo_data(std::mt19937_64 &random) {
    std::map<u64, std::vector<Entry *>> by_file;
    each_entry([&](Entry *entry) {
      if (entry->kind == Kind::kData && !entry->synced.load())
        by_file[entry->inode].push_back(entry);
    });
    std::map<u64, std::string> paths;
    collect_paths(root_, &paths);
    u64 undone = 0;
    for (auto &[inode, entries] : by_file) {
      auto path = paths.find(inode);
      if (path != paths.end()) undone += undo_file(path->second, entries, random);
    }
    return undone;
  }

  u64 undo_file(const std::string &path, const std::vector<Entry *> &entries,
                std::mt19937_64 &random) {
    int fd = open(path.c_str(), O_RDWR);
    if (fd < 0) return 0;
    std::map<u64, std::vector<Entry *>> by_sector;
    for (Entry *entry : entries) {
      if (entry->old_bytes == 0) continue;
      for (u64 s = entry->offset / kSectorBytes;
           s <= (entry->offset + entry->old_bytes - 1) / kSectorBytes; s++)
        by_sector[s].push_back(entry);
    }
    u64 mode = random() % 4;  // 0: nothing of it reached the disk, 1: all, else: by sector
    u64 undone = 0;
    for (auto &[sector, versions] : by_sector) {
      size_t keep = mode == 0 ? 0 : mode == 1 ? versions.size() : random() % (versions.size() + 1);
      // Backwards, because versions may cover different parts of the sector.
      for (size_t i = versions.size(); i-- > keep; undone++) {
        u64 from = std::max(versions[i]->offset, sector * kSectorBytes);
        u64 to =
            std::min(versions[i]->offset + versions[i]->old_bytes, (sector + 1) * kSectorBytes);
        if (pwrite(fd, versions[i]->data() + (from - versions[i]->offset), to - from,
                   static_cast<off_t>(from)) < 0)
          break;
      }
    }
    u64 old_size = entries.front()->size;
    struct stat st;
    if (fstat(fd, &st) == 0 && old_size < static_cast<u64>(st.st_size) && random() % 2) {
      if (ftruncate(fd, static_cast<off_t>(old_size)) == 0) undone++;
    }
    close(fd);
    return undone;
  }

  u64 undo_names(std::mt19937_64 &random) {
    std::map<u64, std::vector<Entry *>> by_directory;
    each_entry([&](Entry *entry) {
      if (entry->kind != Kind::kData && !entry->synced.load())
        by_directory[entry->inode].push_back(entry);
    });
    u64 undone = 0;
    for (auto &[inode, entries] : by_directory) {
      size_t keep = random() % (entries.size() + 1);
      for (size_t i = entries.size(); i-- > keep; undone++) undo_name(entries[i]);
    }
    return undone;
  }

  // A call that was under way may not have happened.
  void undo_name(Entry *entry) {
    std::string backup = backup_path(entry->backup);
    switch (entry->kind) {
      case Kind::kCreate:
        unlink(entry->path());
        break;
      case Kind::kRename:
        if (access(entry->path(), F_OK) != 0) (void)rename(entry->to(), entry->path());
        if (entry->backup) (void)link(backup.c_str(), entry->to());
        break;
      case Kind::kUnlink:
        if (entry->backup) (void)link(backup.c_str(), entry->path());
        break;
      case Kind::kData:
        break;
    }
  }

  std::string root_, backups_;
  Journal *journal_;
};

}  // namespace ls::test
