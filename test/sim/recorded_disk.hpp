// recorded_disk.hpp - remembers every change that a store makes to its files, one after the other,
// and makes the files as they are, or could be, after a crash between any two of them, or in the
// middle of one.
//
// What a crash leaves: everything (the process was killed), or of the log, of the other files, or
// of all only what was synced (the power was cut).  power_loss.hpp draws from all possibilities at
// random; here the extreme ones are all gone through.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "os/fault.hpp"

namespace ls::test {

struct DiskEvent {
  enum class Kind : u8 { kWrite, kResize, kSync, kCreate, kRename, kUnlink, kSyncDirectory };
  Kind kind;
  u32 file = 0;             // number; not of kRename, kUnlink, kSyncDirectory
  u64 offset = 0;           // kWrite; kResize: the new size
  std::vector<u8> bytes{};  // kWrite
  std::string path{};       // kCreate, kRename, kUnlink, kSyncDirectory; relative to the root
  std::string to{};         // kRename
  bool host = false;        // by the host, which sees to it itself that it lasts
  bool is_sync() const { return kind == Kind::kSync || kind == Kind::kSyncDirectory; }
};

class DiskRecorder : public FileObserver {
 public:
  // What is under `root` now is the beginning.
  explicit DiskRecorder(const std::string &root) : root_(root) {
    for (auto &entry : std::filesystem::recursive_directory_iterator(root)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      beginning_.emplace_back(relative(entry.path()),
                              std::vector<u8>(std::istreambuf_iterator<char>(in), {}));
      numbers_[inode_of(entry.path())] = static_cast<u32>(beginning_.size() - 1);
    }
    files_ = static_cast<u32>(beginning_.size());
  }
  ~DiskRecorder() override { stop(); }

  void start() {
    FaultRule nothing;  // keeps writes away from io_uring, which is not seen
    nothing.op = FaultOp::kUnlink;
    nothing.path_part = "/no such directory/";
    fault_add(nothing);
    file_observer.store(this, std::memory_order_release);
  }
  // The crash.  Threads may still be in a call: this has to outlive them.
  void stop() {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    file_observer.store(nullptr, std::memory_order_release);
  }

  using Files = std::vector<std::pair<std::string, std::vector<u8>>>;
  const Files &beginning() const { return beginning_; }
  const std::vector<DiskEvent> &events() const { return events_; }
  size_t position() {
    std::lock_guard lock(mutex_);
    return events_.size();
  }

  // ---- what the host does to relation files

  void host_create(const std::string &path) {
    std::lock_guard lock(mutex_);
    std::ofstream(root_ + "/" + path).flush();
    add_file(path, true);
  }
  void host_empty(const std::string &path) {
    std::lock_guard lock(mutex_);
    std::filesystem::resize_file(root_ + "/" + path, 0);
    add({.kind = DiskEvent::Kind::kResize,
         .file = numbers_.at(inode_of(root_ + "/" + path)),
         .host = true});
  }
  void host_unlink(const std::string &path) {
    std::lock_guard lock(mutex_);
    std::filesystem::remove(root_ + "/" + path);
    add({.kind = DiskEvent::Kind::kUnlink, .path = path, .host = true});
  }

  // ---- the store's calls, one at a time

  u64 before(const FileCall &call) override {
    mutex_.lock();
    return call.op == FaultOp::kOpen && access(call.path, F_OK) == 0;
  }
  void after(const FileCall &call, u64 existed, bool success) override {
    if (success && !stopped_) record(call, existed != 0);
    mutex_.unlock();
  }

 private:
  using Kind = DiskEvent::Kind;

  std::string relative(const std::string &path) const { return path.substr(root_.size() + 1); }
  static u64 inode_of(const std::string &path) {
    struct stat st{};
    return stat(path.c_str(), &st) == 0 ? st.st_ino : 0;
  }
  void add(DiskEvent event) {
    if (!stopped_) events_.push_back(std::move(event));
  }
  void add_file(const std::string &path, bool host) {
    numbers_[inode_of(root_ + "/" + path)] = files_;
    add({.kind = Kind::kCreate, .file = files_++, .path = path, .host = host});
  }

  void record(const FileCall &call, bool existed) {
    struct stat st{};
    if (call.fd >= 0 && fstat(call.fd, &st) != 0) return;
    switch (call.op) {
      case FaultOp::kWrite: {
        DiskEvent event{
            .kind = Kind::kWrite, .file = numbers_.at(st.st_ino), .offset = call.offset};
        event.bytes.resize(call.bytes);
        if (pread(call.fd, event.bytes.data(), call.bytes, static_cast<off_t>(call.offset)) ==
            static_cast<ssize_t>(call.bytes)) {
          add(std::move(event));
        }
        return;
      }
      case FaultOp::kExtend:
        return add({.kind = Kind::kResize,
                    .file = numbers_.at(st.st_ino),
                    .offset = static_cast<u64>(st.st_size)});
      case FaultOp::kSync:
        if (!S_ISDIR(st.st_mode)) return add({.kind = Kind::kSync, .file = numbers_.at(st.st_ino)});
        return add({.kind = Kind::kSyncDirectory, .path = directory_name(call.fd)});
      case FaultOp::kOpen:
        if (!existed) return add_file(relative(call.path), false);
        stat(call.path, &st);  // it may have been emptied
        if (st.st_size == 0) add({.kind = Kind::kResize, .file = numbers_.at(st.st_ino)});
        return;
      case FaultOp::kRename:
        return add({.kind = Kind::kRename, .path = relative(call.path), .to = relative(call.to)});
      case FaultOp::kUnlink:
        return add({.kind = Kind::kUnlink, .path = relative(call.path)});
      case FaultOp::kRead:
        return;
    }
  }

  std::string directory_name(int fd) const {
    std::string path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd));
    return path.size() > root_.size() ? relative(path) : "";
  }

  const std::string root_;
  Files beginning_;
  std::mutex mutex_;   // from before a call until after it
  std::vector<DiskEvent> events_;
  std::map<u64, u32> numbers_;   // by inode
  u32 files_ = 0;
  bool stopped_ = false;
};

// The files after so many events.
class DiskImage {
 public:
  enum class Keep : u8 { kAll, kLog, kOthers, kSynced };

  explicit DiskImage(const DiskRecorder::Files &beginning) {
    for (auto &[path, bytes] : beginning) {
      names_[path] = synced_names_[path] = static_cast<u32>(files_.size());
      files_.push_back({bytes, bytes, {}, is_log(path)});
    }
  }

  void apply(const DiskEvent &e) {
    switch (e.kind) {
      case DiskEvent::Kind::kWrite: return write(e, 0, e.bytes.size());
      case DiskEvent::Kind::kResize: {
        File &file = files_[e.file];
        file.now.resize(e.offset);
        if (e.host) file.synced.resize(e.offset);
        return;
      }
      case DiskEvent::Kind::kSync: return sync(files_[e.file]);
      case DiskEvent::Kind::kCreate:
        files_.resize(std::max<size_t>(files_.size(), e.file + 1));
        files_[e.file].log = is_log(e.path);
        names_[e.path] = e.file;
        if (e.host) synced_names_[e.path] = e.file;
        return;
      case DiskEvent::Kind::kRename:
        names_[e.to] = names_.at(e.path);
        names_.erase(e.path);
        return;
      case DiskEvent::Kind::kUnlink:
        names_.erase(e.path);
        if (e.host) synced_names_.erase(e.path);
        return;
      case DiskEvent::Kind::kSyncDirectory: return sync_names(e.path);
    }
  }
  // Of a write only bytes [from, to).
  void write(const DiskEvent &e, u64 from, u64 to) {
    File &file = files_[e.file];
    if (file.now.size() < e.offset + to) file.now.resize(e.offset + to);
    std::memcpy(file.now.data() + e.offset + from, e.bytes.data() + from, to - from);
    file.pending.emplace_back(e.offset + from, to - from);
  }
  // Whether a crash now may leave different things, of the log or of the other files.
  bool unsynced(bool log) const {
    for (const File &file : files_) {
      if (file.log == log && (!file.pending.empty() || file.now.size() != file.synced.size()))
        return true;
    }
    return false;
  }

  // Make the files under `root`, and nothing else.
  void make(const std::string &root, Keep keep) const {
    std::filesystem::remove_all(root);
    for (const char *directory : {"base/5", "leanstore/wal", "leanstore/versions",
                                  "leanstore/prepared", "leanstore/undo"}) {
      std::filesystem::create_directories(root + "/" + directory);
    }
    for (bool log : {true, false}) {
      bool all = keep == Keep::kAll || keep == (log ? Keep::kLog : Keep::kOthers);
      for (auto &[path, number] : all ? names_ : synced_names_) {
        if (is_log(path) == log)
          make_file(root + "/" + path, all ? files_[number].now : files_[number].synced);
      }
    }
  }
  bool has(const std::string &path) const { return names_.contains(path); }

 private:
  struct File {
    std::vector<u8> now{}, synced{};
    std::vector<std::pair<u64, u64>> pending{};  // written since the last sync: offset, bytes
    bool log = false;
  };

  static bool is_log(const std::string &path) { return path.starts_with("leanstore/wal/"); }

  static void sync(File &file) {
    file.synced.resize(file.now.size());
    for (auto [offset, bytes] : file.pending) {
      if (offset + bytes <= file.now.size())
        std::memcpy(file.synced.data() + offset, file.now.data() + offset, bytes);
    }
    file.pending.clear();
  }
  void sync_names(const std::string &directory) {
    auto within = [&](const auto &name) {
      return std::filesystem::path(name.first).parent_path() == std::filesystem::path(directory);
    };
    std::erase_if(synced_names_, within);
    std::copy_if(names_.begin(), names_.end(), std::inserter(synced_names_, synced_names_.end()),
                 within);
  }

  static void make_file(const std::string &path, const std::vector<u8> &bytes) {
    constexpr size_t kBlock = 4096;
    static const std::vector<u8> zeros(kBlock, 0);
    int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    bool good = fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes.size())) == 0;
    for (size_t at = 0; good && at < bytes.size(); at += kBlock) {
      size_t n = std::min(kBlock, bytes.size() - at);
      if (std::memcmp(bytes.data() + at, zeros.data(), n) == 0) continue;
      good = pwrite(fd, bytes.data() + at, n, static_cast<off_t>(at)) == static_cast<ssize_t>(n);
    }
    close(fd);
    if (!good) throw std::runtime_error("cannot make " + path);
  }

  std::vector<File> files_;
  std::map<std::string, u32> names_, synced_names_;
};

}  // namespace ls::test
