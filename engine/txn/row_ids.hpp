// row_ids.hpp - drawing row ids so that none is ever drawn twice.
//
// Native indexes of the host may be durable where the row is not, so a row id once handed out must
// not come back, even if nothing of it is in the log.  MetaPage::row_id_high is a logged
// reservation, in one of two forms:
//   kRowIdExact | N   no id >= N was ever drawn (a clean shutdown leaves it)
//   H                 ids below H + kRowIdStep may have been drawn; 0: none
// RID-1  the first draw from a file in a run waits until its reservation is hardened; so the two
//        forms above stay true whenever a crash comes.
// RID-2  ids drawn are below the reservation, and below the last hardened one + kRowIdStep.
// RID-3  a run that finds H continues at H + kRowIdStep, one that finds N at N.
// Row id 0 is never drawn: 0 means "no successor" in a ghost.  Unlogged tables are empty after a
// crash: no reservation.
//
// FileSlot words: next_row_id (CAS); row_id_reserved, row_id_reserved_gsn (0: nothing drawn in this
// run yet) and row_id_durable (0: the first reservation is not known to be hardened) under
// FileSlot::mutex.
#pragma once
#include "base/types.hpp"
#include "buffer/page.hpp"

namespace ls {

inline constexpr u64 kRowIdStep = 65536;
inline constexpr u64 kRowIdExact = u64{1} << 63;
static_assert(LS_ROW_IDS_END + 2 * kRowIdStep <= kMostRowIdHigh);

// Where a run continues that finds `high` in the meta page.
inline constexpr u64 row_id_start(u64 high) {
  const u64 next = high & kRowIdExact ? high & ~kRowIdExact : high == 0 ? 1 : high + kRowIdStep;
  return next == 0 ? 1 : next;
}

}  // namespace ls
