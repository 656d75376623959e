// index_clean.hpp - removes the entries of rows that are gone for good, leaf by leaf: for
// insertions that need room, and for the cleaner.
#pragma once
#include "index/index.hpp"
#include "index/index_log.hpp"

namespace ls {

// The leaf of `key` is about to be split: remove its entries of rows that are gone for good, if a
// few looked at first make it likely that there are some.
Status clean_full_leaf(Worker &w, const IndexAt &at, Bytes key, u32 *removed);

// An exclusively latched leaf loses these entries, and its latch.  *small: it should be merged
// then.
void remove_and_close(Worker &w, FileSlot &index, ExclusiveGuard &leaf,
                      const EntryRemoval &removal, bool *small);
// Best effort: the leaf just stays small.
void merge_small(BTree &tree, Bytes key);

// index_sweep for a table with this file number; when the table's slot has another by now, nothing
// is removed.
Status sweep_leaves(Worker &w, const IndexAt &at, FileNo table_no, u32 max_leaves,
                    ls_index_position *position, u64 *entries, u64 *removed);

}  // namespace ls
