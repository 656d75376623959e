// value_keeper.cpp - which file of values has something to do.
#include "txn/value_keeper.hpp"

#include "buffer/file_use.hpp"
#include "vlog/value_pages.hpp"

namespace ls {

namespace {

constexpr u32 kSlotsPerRound = 1024;

Status keep(ValueKeeper &keeper, FileSlot &file, bool *did) {
  if (file.values.counting_failed.load(std::memory_order_relaxed)) return kOk;
  if (!file.values.is_counted()) {
    *did = true;
    return count_values(keeper, file);
  }
  if (is_move_due(file)) {
    *did = true;
    LS_TRY(move_values(keeper, file));
  }
  return cut_value_file(keeper.w.ctx, file);
}

}  // namespace

Status keep_values(ValueKeeper &keeper, bool *did) {
  *did = false;
  Worker &w = keeper.w;
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
