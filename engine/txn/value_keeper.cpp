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
  if (file.values.counting_failed.load(std::memory_order_relaxed)) return kOk;
  if (!file.values.is_counted()) {
    *did = true;
    return count_values(keeper, file);
  }
  LS_TRY(move(keeper, file, did));
  return cut_value_file(keeper.w.ctx, file);
}

}  // namespace

Status keep_values(ValueKeeper &keeper, bool *did) {
  *did = false;
  Worker &w = keeper.w;
  LS_TRY(sweep_value_tree(w.ctx, &keeper.swept));
  const u32 files = w.pool->shared()->max_files;
  for (u32 i = 0; i < kSlotsPerRound && i < files && !keeper.stops(); i++) {
    FileSlot &file = w.pool->file(keeper.cursor);
    keeper.cursor = (keeper.cursor + 1) % files;
    if (file.state.load(std::memory_order_acquire) != FileState::kActive ||
        __atomic_load_n(&file.kind, __ATOMIC_RELAXED) != LS_REL_VALUES ||
        file.values.old_end.load(std::memory_order_acquire) == ~PageNo{0})
      continue;
    FileUse use;
    if (!use.begin_open(w.ctx, {&file, file.file_no.load(std::memory_order_relaxed)})) continue;
    const Status status = keep(keeper, file, did);
    if (code(status) != LS_NOT_FOUND) LS_TRY(status);   // dropped meanwhile
  }
  return kOk;
}

}  // namespace ls
