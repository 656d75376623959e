// followed_txns.hpp - in a store that follows another one's log: transactions with changes that
// have not ended according to the log.  They are on the list of active ones, as workers' own would
// be.
//
// FTXN-1  A transaction is on it from before its first change is redone until after its last, undo
//         included.  So one that the host has forgotten as aborted is still found here.
// FTXN-2  Snapshots take one for ended that had none of its changes in the trees when the host
//         forgot it as aborted.  So its rows get another number in their headers, which no snapshot
//         sees, until they are undone.  Older versions are under that number, too.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "txn/worker.hpp"

namespace ls {

class FollowedTxns {
 public:
  // By the thread that redoes.  Those that another one has entered before are there.
  explicit FollowedTxns(TxnShared &txns);
  // LS_MANY_PREPARED: as many as there are places.  Twice is fine.
  Status begin(Tn tn);
  Status end(Worker &w, Tn tn);   // absent is fine
  // It has aborted before its first change came (FTXN-2).
  void set_hidden(Tn tn) { hidden_.insert(tn); }
  Tn written_as(Tn tn) const { return hidden_.contains(tn) ? tn | kHiddenTn : tn; }
  // Of a leaf of rows, latched, that a record has changed.
  void hide_rows(Node *leaf) const;
  // Following has ended.
  void clear();

 private:
  std::atomic<Tn> *place();

  TxnShared &txns_;
  std::unordered_map<Tn, std::atomic<Tn> *> places_;
  std::unordered_set<Tn> hidden_;
};

}  // namespace ls
