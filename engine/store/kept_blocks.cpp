// kept_blocks.cpp - which files something is known of, and their numbers in the next start.
#include "store/kept_blocks.hpp"

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "btree/closed_files.hpp"
#include "buffer/pool_shared.hpp"
#include "os/file.hpp"
#include "recovery/kept_file.hpp"
#include "txn/row_blocks.hpp"

namespace ls {

namespace {

using Known = RowBlocks::Known;

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
    if (!wanted || file.record.owner >= 0) return;   // one of a session is gone by then
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
  KeptWriter writer(path);
  LS_TRY(writer.open(w.pool->shared()->store, store.run));
  for (const ClosedFile &file : known.files()) LS_TRY(writer.add(file));
  LS_TRY(blocks.each_known(
      [&](const Known &cell) { return known.has(cell.file_no) ? writer.add(cell) : kOk; }));
  return writer.finish();
}

Status read_blocks(Worker &w, const char *path, u64 run) {
  KeptReader reader;
  LS_TRY(reader.open(path, w.pool->shared()->store, run));
  std::unordered_map<FileNo, FileNo> numbers;   // from those of that run
  std::vector<ClosedFile> files;
  LS_TRY(reader.each_file([&](const ClosedFile &file) {
    if (numbers.emplace(file.record.file, w.pool->draw_file_no()).second)
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
