// value_keeper.cpp - which file of values has something to do.
#include "txn/value_keeper.hpp"

#include "buffer/file_use.hpp"
#include "os/clock.hpp"
#include "vlog/value_pages.hpp"

namespace ls {

namespace {

constexpr u32 kSlotsPerRound = 1024;
// Where nothing can be moved, as beside an old snapshot, passes over the rows take this share of
// the thread's time at most.
constexpr u64 kVainShare = 16;

// The next one in the file table; null: it is no open file of values, or keeps nothing.
FileSlot *next_file(ValueKeeper &keeper, u32 *cursor) {
  Worker &w = keeper.w;
  FileSlot &file = w.pool->file(*cursor);
  *cursor = (*cursor + 1) % w.pool->shared()->max_files;
  const bool kept = file.state.load(std::memory_order_acquire) == FileState::kActive &&
                    __atomic_load_n(&file.kind, __ATOMIC_RELAXED) == LS_REL_VALUES &&
                    file.values.old_end.load(std::memory_order_acquire) != ~PageNo{0};
  return kept ? &file : nullptr;
}

bool is_to_be_counted(const FileSlot &file) {
  return !file.values.is_counted() &&
         !file.values.counting_failed.load(std::memory_order_relaxed);
}

// step(file) for some files, each in use meanwhile.
template <typename Step>
Status for_some_files(ValueKeeper &keeper, u32 *cursor, const Step &step) {
  Worker &w = keeper.w;
  const u32 files = w.pool->shared()->max_files;
  for (u32 i = 0; i < kSlotsPerRound && i < files && !keeper.stops(); i++) {
    FileSlot *file = next_file(keeper, cursor);
    FileUse use;
    if (!file || !use.begin_open(w.ctx, {file, file->file_no.load(std::memory_order_relaxed)}))
      continue;
    const Status status = step(*file);
    if (code(status) != LS_NOT_FOUND) LS_TRY(status);   // dropped meanwhile
  }
  return kOk;
}

Status move(ValueKeeper &keeper, FileSlot &file, bool *did) {
  const u64 began = now_us();
  if (began < keeper.move_after_us || !is_move_due(keeper.keeping, file)) return kOk;
  u64 moved = 0;
  const Status status = move_values(keeper, file, &moved);
  const u64 ended = now_us();
  if (moved == 0) keeper.move_after_us = ended + kVainShare * (ended - began);
  *did |= moved > 0;
  return status;
}

Status keep(ValueKeeper &keeper, FileSlot &file, bool *did) {
  if (is_to_be_counted(file)) {
    *did = true;
    return count_values(keeper, file);
  }
  if (!file.values.is_counted()) return kOk;
  LS_TRY(move(keeper, file, did));
  return cut_value_file(keeper.w.ctx, file);
}

}  // namespace

Status keep_values(ValueKeeper &keeper, bool *did) {
  *did = false;
  LS_TRY(sweep_value_tree(keeper.w.ctx, &keeper.swept));
  return for_some_files(keeper, &keeper.cursor,
                        [&](FileSlot &file) { return keep(keeper, file, did); });
}

Status count_others(ValueKeeper &keeper) {
  return for_some_files(keeper, &keeper.count_cursor, [&](FileSlot &file) {
    return is_to_be_counted(file) ? count_values(keeper, file) : kOk;
  });
}

}  // namespace ls
