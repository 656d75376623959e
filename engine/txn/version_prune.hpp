// version_prune.hpp - cuts versions that no existing snapshot needs out of the middle of a row's
// chain, so that one old reader does not make every row drag along all versions written since
// ("versions are dropped as soon as no existing snapshot needs them").
#pragma once
#include "txn/worker.hpp"

namespace ls {

// Called by the transaction that has just changed the row (its header is in the leaf, so no other
// writer works on the chain).  `at`: the entry behind the version that it replaced, written by an
// earlier change.  Links past what is not needed and removes it.
//
// Safe for rollback: only `older` of entries and entries behind `at` are touched; undo uses
// neither.  Safe for readers: an entry is linked past before it is removed; a reader that has read
// its locator before finds it gone and reads the row again.
Status prune_versions(Worker &w, VersionLocator at);

}  // namespace ls
