// followed_rows.hpp - redo of row changes under readers: what they take from older snapshots goes
// to the version store, as a writer would have put it there (docs/decisions/0053).
//
// FROW-1  An entry is written before the row leads to it, under the name that the log gives the
//         change: its transaction and sequence number.  So images of pages, which come from the
//         store that is followed, lead to the same entries.
// FROW-2  What removes something that a snapshot may see says which: one with an xmin above that
//         transaction needs nothing of it.
// FROW-3  A store that is started anew has no versions of before.  Rows that it puts back do not
//         name their writers, and no row of before says in its images of pages that it has an older
//         version.  So, while a snapshot may need one, both are taken from what is here: from the
//         entry of the change that is undone, the row as it was in the page, the version store.
#pragma once
#include <optional>
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

// What the log's bytes do not say of a row.
struct RowLead {
  u64 row_id = 0;
  bool has_previous = false;
  std::optional<RowHeader> writer;   // in place of none: its number, command and sequence number
};

// Before the operation is redone.  `leaf` is a copy, or does not change meanwhile; no latch held.
Status keep_version(Worker &w, const FileSlot &file, const FollowedRow &op, const Node &leaf,
                    RowLead *lead);
// Behind redo of it, in the leaf that is still latched.  The row may have left it since.
void give_lead(const RowLead &lead, Node *leaf);

// FROW-3, of the image of a leaf from a store that has no versions of transactions below
// `forgotten`.  Rows without a writer come without a lead: it is looked for in leaves as they are
// here before (find_writers()).  No latch held.
Status find_forgotten(Worker &w, const FollowedTxns &txns, Tn forgotten, const Node &image,
                      std::vector<RowLead> *leads);
void find_writers(const Node &before, std::vector<RowLead> *leads);

// ---- when following begins, and the log has rows of open transactions already (OPENV-1 in
// recovery/open_versions.hpp).  No latch held.

// Of an update or deletion: what it has replaced becomes a version.  Later changes of the same
// transaction come before.
Status keep_open_version(Worker &w, FileSlot &file, Tn tn, const RowUndo &undo);
// The row leads to the entry of the change `at`, if it carries that.
Status lead_to_previous(Worker &w, FileSlot &file, u64 row_id, VersionLocator at);

}  // namespace ls
