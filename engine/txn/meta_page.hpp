// meta_page.hpp - the meta page of a relation file, for those parts of the engine that have a word
// of their own there (row ids, stale entries).
#pragma once
#include "txn/worker.hpp"

namespace ls {

// Latched exclusively; LS_NOT_FOUND when the file was forgotten.  FileSlot::mutex may be held.
Status latch_meta(Worker &w, FileSlot &file, ExclusiveGuard *meta);

}  // namespace ls
