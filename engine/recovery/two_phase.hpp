// two_phase.hpp - what a start does with transactions that were prepared for two-phase commit, from
// their files (txn/prepared_file.hpp); the log need not reach back to them.
//
// TWOPH-1  One that is still prepared is taken over: its undo entries are put back into the version
//          store, its rows lead to them, its row locks are in the lock table, and it has a slot
//          (txn/prepared.hpp).  It keeps its number, below which nothing runs (TxnShared::tn_base).
//          Where the host has lost ids it gets one of this start, and its rows name that.
// TWOPH-2  Repeatable: a new TN is in the file, durable, before the first row carries it.  So
//          whatever TN of the file a row carries, it is a change of this transaction, if it has the
//          sequence number, too.
// TWOPH-3  The file names all rows that have a lock by now: a lock follows a row that has moved,
//          and the ghost that leads there may be gone at the next start (PREP-3 in
//          txn/prepared.hpp).
// TWOPH-4  Where one is taken over the control file has the offset, and a floor above the TNs that
//          it may get, before it gets one: the next start uses none again.
// TWOPH-5  One that the host says is committed has a file if no end of it had begun before this
//          start.  Then the host may have committed it since, and have given snapshots before that:
//          it is taken over, too, and its end comes as any other's.
// TWOPH-6  Behind a promotion it keeps the number that it had when the store followed, as all do:
//          readers have stayed, with snapshots that are made of those numbers now or later.
#pragma once
#include <map>

#include "buffer/file_use.hpp"
#include "recovery/log_analysis.hpp"
#include "txn/prepared_file.hpp"

namespace ls {

// Its file, which the log may have instead (PFILE-2).  LS_NOT_FOUND: neither is there.
Status find_prepared(const char *directory, const LogAnalysis &analysis, const LoggedTxn &txn,
                     PreparedFile *file);
// The same of one that has to be there: LS_CORRUPT.
Status read_prepared(const char *directory, const LogAnalysis &analysis, const LoggedTxn &txn,
                     PreparedFile *file);

class TwoPhaseRecovery {
 public:
  // The committer runs, the version trees are open.  `w`: the worker of the recovery slot, no
  // transaction open.
  TwoPhaseRecovery(Worker &w, PreparedFile &file) : w_(w), file_(file) {}

  // After losers have been undone: a lock follows only moves that count.
  Status take_over(Tn tn);
  Status undo();
  // In a store that begins to follow (open_versions.hpp), under the number that its rows have.
  Status keep_versions(Tn tn);

 private:
  Status open_relations();
  // In use until another one is asked for; null: gone.
  Status relation(FileNo file_no, FileSlot **file);
  Status rewrite(Tn tn);
  Status follow_lock(const PreparedLock &lock, Tn tn, PreparedFileWriter &out);
  VersionEntry entry_of(const PreparedFile::Change &change, const FileSlot &file, Tn tn) const;
  Status take_kept(u32 seq, Tn tn, VersionEntry *entry);
  Status put_change(const PreparedFile::Change &change, Tn tn);
  Status name_row(FileSlot &file, u64 row_id, u32 seq, bool has_previous, Tn tn);
  Status put_lock(const PreparedLock &lock, Tn tn);
  Status mark_lock(const PreparedLock &lock);

  Worker &w_;
  PreparedFile &file_;
  std::map<FileNo, FileHandle> relations_;   // as the file numbers them; number 0: gone
  FileUse use_;
  FileNo current_ = 0;
};

}  // namespace ls
