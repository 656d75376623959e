// index_cleaner.cpp - which index is due for a sweep, and the sweep of one.
#include "index/index_cleaner.hpp"

#include "buffer/file_use.hpp"
#include "index/index_clean.hpp"

namespace ls {

namespace {

constexpr u32 kSlotsPerRound = 256;
constexpr u32 kLeavesPerRound = 64;
// A sweep looks at every row of the table: it must be worth it.  Of about 150 entries in a leaf one
// in ten.
constexpr u64 kFewRows = 1000, kRowsPerPage = 15;

FileNo number_of(const FileSlot &file) { return file.file_no.load(std::memory_order_acquire); }

bool is_active(const FileSlot &file) {
  return file.state.load(std::memory_order_acquire) == FileState::kActive;
}

// The table of an index as it was noted; null when it is not that file any more.
FileSlot *table_of(Worker &w, const FileSlot &index, FileNo *number) {
  *number = index.table_no.load(std::memory_order_acquire);
  if (*number == 0) return nullptr;
  FileSlot &table = w.pool->file(index.table_slot.load(std::memory_order_relaxed));
  return number_of(table) == *number && is_active(table) ? &table : nullptr;
}

bool is_due(Worker &w, const FileSlot &index) {
  if (!is_active(index) || __atomic_load_n(&index.kind, __ATOMIC_RELAXED) != LS_REL_INDEX)
    return false;
  FileNo number;
  const FileSlot *table = table_of(w, index, &number);
  if (table == nullptr) return false;
  const u64 gone = table->rows_gone.load(std::memory_order_relaxed) -
                   (index.rows_gone_swept.load(std::memory_order_relaxed) & ~kNotSwept);
  return gone >= kFewRows + kRowsPerPage * index.pages_allocated.load(std::memory_order_relaxed);
}

void find_due(Worker &w, IndexCleaner &cleaner) {
  const u32 files = w.pool->shared()->max_files;
  for (u32 i = 0; i < kSlotsPerRound && i < files; i++) {
    const FileSlot &index = w.pool->file(cleaner.cursor);
    cleaner.cursor = (cleaner.cursor + 1) % files;
    if (!is_due(w, index)) continue;
    FileNo number;
    const FileSlot *table = table_of(w, index, &number);
    if (table == nullptr) continue;
    cleaner.sweeping = true;
    cleaner.index_slot = index.index;
    cleaner.index_no = number_of(index);
    cleaner.table_no = number;
    cleaner.gone = table->rows_gone.load(std::memory_order_relaxed);
    cleaner.position = ls_index_position{};
    return;
  }
}

}  // namespace

void note_table(const IndexAt &at) {
  const FileNo number = number_of(at.table);
  const bool same = at.index.table_no.load(std::memory_order_relaxed) == number;
  // Several workers may do so at once, all with the same values.  A table that was closed may be
  // open in another slot now.
  if (at.index.table_slot.load(std::memory_order_relaxed) != at.table.index)
    at.index.table_slot.store(at.table.index, std::memory_order_relaxed);
  if (same) return;
  at.index.rows_gone_swept.store(at.table.rows_gone.load(std::memory_order_relaxed) | kNotSwept,
                                 std::memory_order_relaxed);
  at.index.table_no.store(number, std::memory_order_release);
}

void note_swept(const IndexAt &at, u64 gone) {
  if (at.index.table_no.load(std::memory_order_acquire) == number_of(at.table))
    at.index.rows_gone_swept.store(gone, std::memory_order_release);
}

u64 rows_gone_since_sweep(const IndexAt &at) {
  if (at.index.table_no.load(std::memory_order_acquire) != number_of(at.table)) return ~u64{0};
  // What the sweep has removed is not there for those that ask.
  const u64 swept = at.index.rows_gone_swept.load(std::memory_order_acquire);
  if (swept & kNotSwept) return ~u64{0};
  return at.table.rows_gone.load(std::memory_order_relaxed) - swept;
}

Status sweep_some_index(Worker &w, IndexCleaner &cleaner, u64 *removed) {
  *removed = 0;
  if (!cleaner.sweeping) find_due(w, cleaner);
  if (!cleaner.sweeping) return kOk;
  FileSlot &index = w.pool->file(cleaner.index_slot);
  FileNo table_no;
  FileSlot *table = table_of(w, index, &table_no);
  cleaner.sweeping = false;
  FileUse of_index, of_table;
  // Another file of the table counts anew.
  if (table == nullptr || table_no != cleaner.table_no) return kOk;
  if (!of_index.begin_open(w.ctx, {&index, cleaner.index_no})) return kOk;
  if (!of_table.begin_open(w.ctx, {table, table_no})) return kOk;
  u64 entries;
  const Status s = sweep_leaves(w, {index, *table}, table_no, kLeavesPerRound, &cleaner.position,
                                &entries, removed);
  cleaner.sweeping = ok(s);
  if (code(s) == LS_END) note_swept({index, *table}, cleaner.gone);
  // A file that was dropped meanwhile is no failure.
  return code(s) == LS_END || code(s) == LS_NOT_FOUND ? kOk : s;
}

}  // namespace ls
