// index.hpp - operations on the entries of an index, as engine.h promises them (ls_index_*, without
// the C).
//
// Called by capi/ for a worker that holds no latch; each returns holding none.  An insertion needs
// an open transaction, which makes it durable; nothing undoes it (index_log.hpp).  Two trees are
// never latched together: whether rows are gone is asked with copies of their row ids.
#pragma once
#include "index/index_entry.hpp"
#include "txn/worker.hpp"

namespace ls {

struct IndexAt {
  FileSlot &index;
  FileSlot &table;   // where the row ids point to
};
struct NewEntry {
  Bytes key;         // without row id
  u64 row_id;
  Bytes payload;
};

// ---- index_insert.cpp
// LS_TOO_LARGE, and what the limit is.
Status check_entry_size(Bytes key, Bytes payload);
// LS_EXISTS: this very entry is there, and a worker that was about to remove it as stale will not.
// LS_TOO_LARGE.
Status index_insert(Worker &w, const IndexAt &at, const NewEntry &entry);
// Unless an entry with an equal key is there that is not among `ignore`: LS_EXISTS and its row id.
Status index_insert_unique(Worker &w, const IndexAt &at, const NewEntry &entry,
                           std::span<const u64> ignore, u64 *other);

// ---- index_clean.cpp
// Of a row that is dead to all snapshots.  Absent is fine.
Status index_remove(Worker &w, const IndexAt &at, Bytes key, u64 row_id);
// Up to max_leaves leaves from *position on: remove the entries of rows that are gone for good.
// LS_END: the last leaf was among them.
Status index_sweep(Worker &w, const IndexAt &at, u32 max_leaves, ls_index_position *position,
                   u64 *entries, u64 *removed);

// ---- index_stale.cpp: entries with keys that their rows have no more
// Some entries of this index are going to be stale.  Once is enough.
Status index_note_stale(Worker &w, FileSlot &index);
// Look at an entry (LS_NOT_FOUND: it is not there) before asking its row whether it has the key,
// and remove it if no worker has inserted it again since (else *removed false, as when its leaf has
// changed in another way).
struct StaleEntry {
  Bytes key;
  u64 row_id;
  BTree::PageStamp seen;
  Tn newest;  // IREM-2 in index_log.hpp
};
Status index_look(Worker &w, FileSlot &index, Bytes key, u64 row_id, BTree::PageStamp *seen);
Status index_remove_seen(Worker &w, FileSlot &index, const StaleEntry &stale, bool *removed);

}  // namespace ls
