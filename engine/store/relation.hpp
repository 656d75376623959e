// relation.hpp - what the host may ask about one relation file as a whole.  No latch held by the caller.
#pragma once
#include "txn/worker.hpp"

namespace ls {

Status relation_open(Worker &w, const ls_rel_key &key, const char *path, ls_rel_kind kind,
                     bool logged, FileHandle *file);
bool relation_is_open(const FileHandle &file);
Status relation_info(Worker &w, FileSlot &file, ls_rel_info *info);
// The tree by BTree::verify; of tables every row, too: flags, lengths, row id below the next one to be drawn, and the older
// version where one may still be needed.  Others may work on the relation meanwhile.
Status relation_check(Worker &w, FileSlot &file, ls_check_result *result);

}  // namespace ls
