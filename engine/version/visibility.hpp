// visibility.hpp - which version of a row a snapshot sees.  Pure functions on headers: no page, no
// latch.
//
// VIS-1  A writer below the snapshot's xmin or below the start's base is finished, and it is not
//        aborted: undo puts the version before back before the writer leaves the set of active
//        transactions, and the host counts aborting ones as running.  That is the one comparison of
//        the common case.
// VIS-2  For kinds other than MVCC "finished" is asked of the set of active transactions.  The
//        answer "not active" about a header copied earlier may mean that the writer has undone its
//        change since: the worker that relies on it looks at the row once more and accepts only an
//        unchanged header (Judgement::recheck).
#pragma once
#include "version/row_header.hpp"

namespace ls {

// The transactions that are active now; a plain function so that version/ does not depend on txn/.
struct ActiveSet {
  const void *arg = nullptr;
  bool (*contains)(const void *arg, Tn tn) = nullptr;
};

struct Viewer {
  const ls_snapshot *snapshot;
  Tn base;            // writers below are committed (TxnShared::tn_base)
  // taken before the row is read: writers below had ended, undone if aborted (not used for MVCC)
  Tn finished_below;
  ActiveSet active;
};

enum class Verdict : u8 {
  kVisible,  // this version
  kGone,     // the snapshot sees that the row is deleted
  kOlder,    // not this one: the version before it, if there is one
};

struct Judgement {
  Verdict verdict;
  bool recheck;  // VIS-2
};

// MVCC: was `tn` (of that command) finished, and not by a later command of our own, when the
// snapshot was taken? Speculative insertions of our own are invisible until confirmed: their cid is
// a token.
bool writer_visible(const RowHeader &header, const ls_snapshot &snapshot, Tn base);

// Judge one version.  running_tn: 0 for the version in the leaf; for those before it, the writer of
// that one, which was judged to be running (there is one at a time, so other writers in the chain
// have ended).
Judgement judge(const RowHeader &header, const Viewer &viewer, Tn running_tn);

// Writers below are visible to the snapshot without further questions; 0 for kinds that have no
// such bound.
inline Tn visible_below(const ls_snapshot &snapshot, Tn base) {
  if (snapshot.kind != LS_SNAPSHOT_MVCC) return 0;
  return snapshot.xmin > base ? snapshot.xmin : base;
}

}  // namespace ls
