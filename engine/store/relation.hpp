// relation.hpp - what the host may ask about one relation file as a whole.  No latch held by the
// caller.
#pragma once
#include "txn/worker.hpp"

namespace ls {

// LS_END, in a store that follows another one: the file has no pages yet.
Status relation_open(Worker &w, const ls_rel_key &key, const char *path, ls_rel_kind kind,
                     bool logged, FileHandle *file);
// What a reader uses instead; in a store that follows another one, or has done so.
Status relation_open_empty(const Worker &w, ls_rel_kind kind, FileHandle *file);
bool relation_is_open(const FileHandle &file);
Status relation_info(Worker &w, FileSlot &file, ls_rel_info *info);
// Takes the ghosts that no snapshot sees as rows out of the leaf around row_id, and merges it if it
// is small; *end_row: of the leaf.
Status relation_purge(Worker &w, FileSlot &file, u64 row_id, u64 *end_row);
// Free pages at the end of the file go back to the file system; look: only says what it would do.
Status relation_cut(Worker &w, FileSlot &file, bool look, u64 *before, u64 *after);
// The tree by BTree::verify; of tables every row, too: flags, lengths, row id below the next one to
// be drawn, and the older version where one may still be needed.  Others may work on the relation
// meanwhile.
Status relation_check(Worker &w, FileSlot &file, ls_check_result *result);

}  // namespace ls
