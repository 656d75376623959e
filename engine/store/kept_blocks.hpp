// kept_blocks.hpp - what is known of rows (txn/row_blocks.hpp) over a clean end and the next start:
// the file `row_blocks`.
//
//   KEPT-1  Written when the last worker has gone, before the control file says that the end was
//           clean.  Read by a start for which the control file says so, of the same store and the
//           same run, and gone before anything else changes rows: so none has changed in between.
//   KEPT-2  Numbers of files do not outlive a start, so the file has their keys.  A file gets a
//           number at once, as one that was closed (btree/closed_files.hpp), and has it when it is
//           opened.
//
// Its bytes: recovery/kept_file.hpp.  Bound: the cells in shared memory, 0.3 % of the pool, and a
// file each at most.
#pragma once
#include "store/store_process.hpp"

namespace ls {

// In the end.  Whatever fails, the next start finds nothing, and VACUUM has to look again.
void keep_blocks(Worker &w, const ls_store &store);
// A start that has found a clean end of this run.  Whatever fails, what has been taken is right.
void take_kept_blocks(Worker &w, const ls_store &store, u64 run);
// In any start, and before rows change in another way: by following a log.
Status drop_kept_blocks(const ls_store &store);

}  // namespace ls
