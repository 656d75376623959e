// value_keeper.hpp - one engine thread's work on files of values: it counts the rows of a file that
// was opened, so that its free pages are known (VPAGES-2), and makes files with much free space
// shorter.
//
// A file becomes shorter by moving values from its end to free pages before, then it is cut.  The
// rows say of which values: they are read once for each such pass.  A crash loses nothing:
//   VKEEP-1  A value's new pages are synced, or in the host's log, before its row is changed to
//            name them, and the old ones are freed when the record of that is hardened.
#pragma once
#include <functional>

#include "txn/value_keeping.hpp"
#include "txn/worker.hpp"

namespace ls {

struct ValueKeeper {
  Worker &w;
  // The store is to stop.
  std::function<bool()> stops;
  // False: the store is to stop.
  std::function<bool(i64 us)> sleep;
  ValueKeeping &keeping;
  // in the file table: of keep_values, of count_others
  u32 cursor = 0, count_cursor = 0;
  u64 swept = 0;           // in the tree of what is known (vlog/value_tree.hpp)
  u64 move_after_us = 0;   // a pass that has moved nothing is not made again at once
};

// Looks at some files.  *did: there was work, look again soon.
Status keep_values(ValueKeeper &keeper, bool *did);
// While values of one file, which is counted, wait for their turn to be moved: counts some others.
Status count_others(ValueKeeper &keeper);

// ---- value_count.cpp
Status count_values(ValueKeeper &keeper, FileSlot &file);

// ---- value_move.cpp
// Is so much free that it is worth it, and is it wanted?
bool is_move_due(const ValueKeeping &keeping, FileSlot &file);
// *moved: pages.
Status move_values(ValueKeeper &keeper, FileSlot &file, u64 *moved);

}  // namespace ls
