// log_analysis.hpp - first pass of recovery: what the log says about transactions and files.  Changes nothing.
//
// Called by store/start with the LogImage of read_log; redo.hpp and loser_undo.hpp work on the result.
//
// A1  A slot's kRow record belongs to the transaction of the slot's latest kFirstRow in the same run.  Where the log begins in the
//     middle of a transaction, the slot's next kCommit, kPrepared or kAborted names it: a checkpoint keeps the kFirstRow of every
//     transaction whose end was not hardened then (checkpoint.cpp), so the end is there.
// A2  Fates are by TN, not by slot: recovery ends transactions of earlier runs from its own slot.  kTwoPhaseEnd comes from any
//     slot, and says nothing of that slot's records.
// A3  A file number is never used twice; of several numbers with one key only the latest is the file that exists now.  What was
//     logged under an older one is on disk or was truncated away by the host, and is not redone.
// A4  A transaction prepared for two-phase commit gets another TN at each start that finds it, but keeps its full xid: it has
//     ended when the last record about that xid is kTwoPhaseEnd.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "btree/node.hpp"
#include "wal/log_reader.hpp"

namespace ls {

// Walks the page operations of one record, trusting no length.
class LogOpReader {
 public:
  explicit LogOpReader(const LogEntry &entry) : LogOpReader(entry, entry.record().body) {}
  LogOpReader(const LogEntry &entry, Bytes body) : entry_(entry), left_(body) {}
  // Next operation; *end: there is none.  LS_CORRUPT naming position and GSN when the record does not add up.
  Status next(LogOp *op, bool *end);

 private:
  const LogEntry &entry_;
  Bytes left_;
};

// LS_CORRUPT about a record, naming it.
Status fail_record(const LogEntry &entry, const char *what);

enum class TxnFate : u8 { kRunning, kPrepared, kTwoPhase, kCommitted, kAborted };

struct LoggedTxn {
  Tn tn = 0;
  TxnFate fate = TxnFate::kRunning;
  u64 full_xid = 0;  // kPrepared, kTwoPhase
};

struct LoggedFile {
  FileRecord record{};
  std::string path;
  bool superseded = false;  // A3
  ls_rel_key key() const { return {record.tablespace, record.database, record.relation, record.owner}; }
};

struct LogAnalysis {
  std::unordered_map<Tn, LoggedTxn> txns;
  std::unordered_map<u64, Tn> two_phase;  // by full xid: prepared and not ended (A4), under its latest TN
  std::unordered_map<FileNo, LoggedFile> files;
  std::vector<Tn> entry_tn;  // per entry of the image: the transaction of a kRow record, else 0
  Tn max_tn = 0;
  FileNo max_file_no = 0;
};

Status analyse_log(const LogImage &image, LogAnalysis *out);

}  // namespace ls
