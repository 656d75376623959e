// followed_rows.hpp - redo of row changes under readers: what they take from older snapshots goes
// to the version store, as a writer would have put it there (docs/decisions/0053).
//
// FROW-1  An entry is written before the row leads to it, under the name that the log gives the
//         change: its transaction and sequence number.  So images of pages, which come from the
//         store that is followed, lead to the same entries.
// FROW-2  What removes something that a snapshot may see says which: one with an xmin above that
//         transaction needs nothing of it.
// FROW-3  A start of the store that is followed gives the rows of a prepared transaction another
//         number.  Its versions are there under that one, too, before the first row has it.
#pragma once
#include <vector>

#include "txn/followed_txns.hpp"
#include "txn/row_undo.hpp"

namespace ls {

// A row operation (kOpRow) on a leaf, which the caller's thread alone changes.
struct FollowedRow {
  u8 code;
  Bytes operands;
  Tn tn;   // the record's transaction; 0: none
};

// FROW-2.  0: it removes nothing.
Status newest_removed(const FollowedRow &op, const Node &leaf, Tn *newest);

// Before the operation is redone.  `leaf` is a copy, or does not change meanwhile; no latch held.
// *has_previous: the row leads to an older version afterwards (set_previous()).
Status keep_version(Worker &w, const FileSlot &file, const FollowedRow &op, const Node &leaf,
                    bool *has_previous);
// Behind redo of it, in the leaf that is still latched.
void set_previous(const FollowedRow &op, Node *leaf);

// FTXN-4: rows of the image of a leaf that have an older version, and do not say so.  No latch
// held.
Status find_lost_previous(Worker &w, const FollowedTxns &txns, const Node &image,
                          std::vector<u64> *row_ids);
// Behind redo of the image, for each.
void give_previous(u64 row_id, Node *leaf);

// What a transaction has replaced, when it has another number (FROW-3).
VersionEntry renumbered(const VersionEntry &entry, Tn from, Tn to);

// ---- when following begins, and the log has rows of open transactions already (OPENV-1 in
// recovery/open_versions.hpp).  No latch held.

// Of an update or deletion: what it has replaced becomes a version.  Later changes of the same
// transaction come before.
Status keep_open_version(Worker &w, FileSlot &file, Tn tn, const RowUndo &undo);
// The row leads to the entry of the change `at`, if it carries that.
Status lead_to_previous(Worker &w, FileSlot &file, u64 row_id, VersionLocator at);

}  // namespace ls
