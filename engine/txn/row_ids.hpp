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
// Files of values count places, by the same rules, and places go on where row ids end.
// RID-4  The row of a place is place mod LS_ROW_IDS_END.  In the first lap, the places below
//        LS_ROW_IDS_END, no value has ever had the number; later one may have it still, and the
//        host has to look.  Value 0 is never drawn: 0 is no value to the host.
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

// What is drawn from a kind of file: from `first` on, below `end`, reserved in steps.
struct IdSpace {
  u64 first, step, end;
};
inline constexpr IdSpace kRowIdSpace{1, kRowIdStep, LS_ROW_IDS_END};
inline constexpr IdSpace kPlaceSpace{LS_ROWS_PER_VALUE, u64{LS_ROWS_PER_VALUE} * 65536,
                                     kMostPlaceHigh / 2};
static_assert(kRowIdSpace.end + 2 * kRowIdSpace.step <= kMostRowIdHigh);
static_assert(kPlaceSpace.end + 2 * kPlaceSpace.step <= kMostPlaceHigh);
static_assert(LS_ROW_IDS_END % LS_ROWS_PER_VALUE == 0);
constexpr const IdSpace &id_space(u32 kind) {
  return kind == LS_REL_VALUES ? kPlaceSpace : kRowIdSpace;
}

// Where a run continues that finds `high` in the meta page.  Past the end it stays: or each start
// that finds a table without row ids would leave out more.
inline constexpr u64 row_id_start(u64 high, const IdSpace &space) {
  u64 next = high == 0 ? space.first : high + space.step;
  if (high & kRowIdExact) next = high & ~kRowIdExact;
  if (next < space.first) next = space.first;
  return next > space.end ? space.end : next;
}

// Row ids of the first `next` places, or ids, are below.
inline constexpr u64 row_ids_below(u64 next) {
  return next > LS_ROW_IDS_END ? u64{LS_ROW_IDS_END} : next;
}

}  // namespace ls
