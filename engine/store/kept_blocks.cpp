// kept_blocks.cpp - the file `row_blocks`, written and read in pieces.
#include "store/kept_blocks.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/crc32c.hpp"
#include "btree/closed_files.hpp"
#include "buffer/pool_shared.hpp"
#include "os/file.hpp"
#include "txn/row_blocks.hpp"

namespace ls {

namespace {

constexpr u64 kKeptMagic = 0x53574f5253424c4bull;
constexpr u32 kKeptVersion = 1;
constexpr size_t kPieceBytes = 256 << 10;

struct KeptHeader {
  u64 magic;
  u32 version;
  u32 crc;   // checksum()
  StoreId store;
  u64 run;
  u64 files, cells;
};
static_assert(sizeof(KeptHeader) == 56 && sizeof(RowBlocks::Known) == 176);

// body: the checksum of the files and cells.  The header's bytes come last, for the writer knows
// only then how many cells there are.
u32 checksum(u32 body, const KeptHeader &header) {
  constexpr u32 kFrom = offsetof(KeptHeader, crc) + sizeof(KeptHeader::crc);
  return crc32c(body, reinterpret_cast<const u8 *>(&header) + kFrom, sizeof header - kFrom);
}

using Known = RowBlocks::Known;

class KeptWriter {
 public:
  explicit KeptWriter(const char *path) : path_(path) {}
  Status open() {
    LS_TRY(file_.open(path_, O_CREAT | O_TRUNC));
    piece_.reserve(kPieceBytes);
    at_ = sizeof(KeptHeader);
    return kOk;
  }
  template <typename T>
  Status add(const T &value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (piece_.size() + sizeof value > kPieceBytes) LS_TRY(write_piece());
    const u8 *bytes = reinterpret_cast<const u8 *>(&value);
    piece_.insert(piece_.end(), bytes, bytes + sizeof value);
    return kOk;
  }
  Status finish(KeptHeader header) {
    LS_TRY(write_piece());
    header.crc = checksum(crc_, header);
    return file_.write_at(0, &header, sizeof header);
  }

 private:
  Status write_piece() {
    crc_ = crc32c(crc_, piece_.data(), piece_.size());
    LS_TRY(file_.write_at(at_, piece_.data(), piece_.size()));
    at_ += piece_.size();
    piece_.clear();
    return kOk;
  }

  const char *path_;
  File file_;
  std::vector<u8> piece_;
  u64 at_ = 0;
  u32 crc_ = 0;
};

class KeptReader {
 public:
  // LS_NOT_FOUND: there is none, or none of this run, or it is damaged.
  Status open(const char *path, const StoreId &store, u64 run) {
    LS_TRY(file_.open(path, 0));
    u64 bytes;
    LS_TRY(file_.size(&bytes));
    size_t got;
    LS_TRY(file_.read_at(0, &header_, sizeof header_, &got));
    const bool fits = got == sizeof header_ && header_.magic == kKeptMagic &&
                      header_.version == kKeptVersion && header_.store == store &&
                      header_.run == run;   // KEPT-1
    if (!fits || header_.files > bytes / sizeof(ClosedFile) ||
        header_.cells > bytes / sizeof(Known) ||
        bytes != sizeof header_ + header_.files * sizeof(ClosedFile) +
                     header_.cells * sizeof(Known))
      return make_status(LS_NOT_FOUND);
    u32 crc = 0;
    const auto add = [&](std::span<const u8> piece) {
      crc = crc32c(crc, piece.data(), piece.size());
      return kOk;
    };
    LS_TRY(each_piece(sizeof header_, bytes, 1, add));
    return checksum(crc, header_) == header_.crc ? kOk : make_status(LS_NOT_FOUND);
  }

  template <typename Each>
  Status each_file(const Each &each) {
    return each_of<ClosedFile>(sizeof header_, header_.files, each);
  }
  template <typename Each>
  Status each_cell(const Each &each) {
    return each_of<Known>(sizeof header_ + header_.files * sizeof(ClosedFile), header_.cells, each);
  }

 private:
  // Pieces have a multiple of so many bytes.
  template <typename Each>
  Status each_piece(u64 from, u64 to, size_t multiple, const Each &each) {
    std::vector<u8> piece(kPieceBytes / multiple * multiple);
    while (from < to) {
      size_t got;
      const size_t wanted = static_cast<size_t>(std::min<u64>(piece.size(), to - from));
      LS_TRY(file_.read_at(from, piece.data(), wanted, &got));
      if (got != wanted) return make_status(LS_NOT_FOUND);
      LS_TRY(each(std::span<const u8>(piece.data(), got)));
      from += got;
    }
    return kOk;
  }
  template <typename T, typename Each>
  Status each_of(u64 from, u64 count, const Each &each) {
    return each_piece(from, from + count * sizeof(T), sizeof(T), [&](std::span<const u8> piece) {
      for (size_t at = 0; at < piece.size(); at += sizeof(T)) {
        T value;
        std::memcpy(static_cast<void *>(&value), piece.data() + at, sizeof value);
        LS_TRY(each(value));
      }
      return kOk;
    });
  }

  File file_;
  KeptHeader header_{};
};

// Of a session that is gone by then?
bool outlives_sessions(const ClosedFile &file) { return file.record.owner < 0; }

// Files of which something is known, and indexes that were last used with such a table.
class KnownFiles {
 public:
  explicit KnownFiles(Worker &w) : w_(w) {}

  Status find(const RowBlocks &blocks) {
    LS_TRY(blocks.each_known([&](const Known &known) {
      known_.insert(known.file_no);
      return kOk;
    }));
    // What a file was when it was closed counts only if it is not open.
    std::vector<ClosedFile> closed;
    LS_TRY(closed_file_ops().all(w_.ctx, &closed));
    std::unordered_set<FileNo> open;
    for (u32 i = 0; i < w_.pool->shared()->max_files; i++) {
      const FileSlot &slot = w_.pool->file(i);
      if (slot.state.load(std::memory_order_acquire) != FileState::kActive) continue;
      open.insert(slot.file_no.load(std::memory_order_relaxed));
      note(closing_name(slot));
    }
    for (const ClosedFile &file : closed)
      if (!open.contains(file.record.file)) note(file);
    return kOk;
  }
  bool has(FileNo number) const { return numbers_.contains(number); }
  const std::vector<ClosedFile> &files() const { return files_; }

 private:
  void note(const ClosedFile &file) {
    const bool wanted = known_.contains(file.record.file) ||
                        (file.record.kind == LS_REL_INDEX && known_.contains(file.table_no));
    if (!wanted || !outlives_sessions(file)) return;
    numbers_.insert(file.record.file);
    files_.push_back(file);
  }

  Worker &w_;
  std::vector<ClosedFile> files_;
  std::unordered_set<FileNo> known_, numbers_;   // with a cell; and those of files_
};

std::string path_of(const ls_store &store) {
  return std::string(store.config.data_dir) + "/row_blocks";
}

Status write_blocks(Worker &w, const ls_store &store, const char *path) {
  const RowBlocks &blocks = w.txns->row_blocks;
  KnownFiles known(w);
  LS_TRY(known.find(blocks));
  KeptHeader header{.magic = kKeptMagic, .version = kKeptVersion, .crc = 0,
                    .store = w.pool->shared()->store, .run = store.run,
                    .files = known.files().size(), .cells = 0};
  KeptWriter writer(path);
  LS_TRY(writer.open());
  for (const ClosedFile &file : known.files()) LS_TRY(writer.add(file));
  LS_TRY(blocks.each_known([&](const Known &cell) {
    if (!known.has(cell.file_no)) return Status(kOk);
    header.cells++;
    return writer.add(cell);
  }));
  return writer.finish(header);
}

bool is_usable(const ClosedFile &file) {
  return outlives_sessions(file) && file.record.file != 0 && file.record.tablespace != 0 &&
         (has_rows(file.record.kind) || file.record.kind == LS_REL_INDEX) &&
         file.record.path_bytes < sizeof file.path;
}

Status read_blocks(Worker &w, const char *path, u64 run) {
  KeptReader reader;
  LS_TRY(reader.open(path, w.pool->shared()->store, run));
  std::unordered_map<FileNo, FileNo> numbers;   // from those of that run
  std::vector<ClosedFile> files;
  LS_TRY(reader.each_file([&](const ClosedFile &file) {
    if (is_usable(file) && numbers.emplace(file.record.file, w.pool->draw_file_no()).second)
      files.push_back(file);
    return kOk;
  }));
  const auto number_of = [&](FileNo before) {
    const auto found = numbers.find(before);
    return found == numbers.end() ? FileNo{0} : found->second;
  };
  for (ClosedFile &file : files) {
    file.record.file = number_of(file.record.file);
    file.table_no = number_of(file.table_no);
    file.table_slot = 0;   // note_table() finds it
    LS_TRY(closed_file_ops().put(w.ctx, file));   // KEPT-2
  }
  return reader.each_cell([&](Known cell) {
    cell.file_no = number_of(cell.file_no);
    if (cell.file_no != 0) w.txns->row_blocks.put(cell);
    return kOk;
  });
}

}  // namespace

void keep_blocks(Worker &w, const ls_store &store) {
  const std::string path = path_of(store);
  // One that is not complete has a wrong checksum.
  [[maybe_unused]] const Status ignored =
      with_memory([&] { return write_blocks(w, store, path.c_str()); });
}

void take_kept_blocks(Worker &w, const ls_store &store, u64 run) {
  const std::string path = path_of(store);
  [[maybe_unused]] const Status ignored =
      with_memory([&] { return read_blocks(w, path.c_str(), run); });
}

Status drop_kept_blocks(const ls_store &store) { return file_unlink(path_of(store).c_str()); }

}  // namespace ls
