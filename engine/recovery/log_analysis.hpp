// log_analysis.hpp - first pass of recovery: what the log says about transactions and files.
// Changes nothing.
//
// Called by store/start; redo.hpp and loser_undo.hpp work on the result.
//
// ANA-1  A slot's kRow record belongs to the transaction of the slot's latest kFirstRow in the same
//        run.  Where the log begins in the middle of a transaction, the slot's next kCommit,
//        kPrepared or kAborted names it: a checkpoint keeps the kFirstRow of every transaction of
//        which the end was not hardened then (checkpoint.cpp), so the end is there; or the list of
//        long transactions says which one the slot is in (undo_list.hpp).
// ANA-2  Fates are by TN, not by slot: recovery ends transactions of earlier runs from its own
//        slot.  kTwoPhaseEnd comes from any slot, and says nothing of that slot's records.
// ANA-3  A file number is never used twice; of several numbers with one key only the latest is the
//        file that exists now.  If that was empty when it got this number, what was logged under an
//        older one was truncated away by the host, and is not redone.  Else it is the same file,
//        closed and opened again: what was logged before is redone under the latest number.  (It
//        is on disk, but not in a copy of the store.)
// ANA-4  A transaction prepared for two-phase commit may get another TN at a start that finds it
//        (TWOPH-1), but keeps its full xid: it has ended when the last record about that xid is
//        kTwoPhaseEnd.
// ANA-5  What was logged before a cut for pages that were cut off is not redone: they may be gone,
//        and nothing of them is needed.  Their next life begins with all of the page.
#pragma once
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "btree/node.hpp"
#include "recovery/tn_set.hpp"
#include "txn/tn_eras.hpp"
#include "wal/log_reader.hpp"

namespace ls {

// Walks the page operations of one record, trusting no length.
class LogOpReader {
 public:
  explicit LogOpReader(const LogEntry &entry) : LogOpReader(entry, entry.record().body) {}
  LogOpReader(const LogEntry &entry, Bytes body) : entry_(entry), left_(body) {}
  // Next operation; *end: there is none.  LS_CORRUPT naming position and GSN when the record does
  // not add up.
  Status next(LogOp *op, bool *end);

 private:
  const LogEntry &entry_;
  Bytes left_;
};

// LS_CORRUPT about a record, naming it.
Status fail_record(const LogEntry &entry, const char *what);

enum class TxnFate : u8 { kRunning, kPrepared, kTwoPhase };

struct LoggedTxn {
  Tn tn = 0;
  TxnFate fate = TxnFate::kRunning;
  u64 full_xid = 0;  // kPrepared, kTwoPhase
  Gsn in_files_to = 0;   // what it logged up to there is in its undo file (undo_list.hpp)
};

struct LoggedFile {
  FileRecord record{};
  std::string path;
  bool superseded = false;  // ANA-3: there is a later number
  ls_rel_key key() const {
    return {record.tablespace, record.database, record.relation, record.owner};
  }
};

// A slot in a run.
using LogSlotRun = std::pair<u32, u32>;   // slot, run

// What a file was cut to, and when (buffer/file_cut.hpp).
struct LoggedCut {
  Gsn gsn;
  PageNo pages;
};
using LoggedCuts = std::vector<LoggedCut>;
// Has the page been cut off after that? The cuts by GSN, each with the least of those behind it.
bool is_cut_off(const LoggedCuts &cuts, PageNo page, Gsn gsn);

// A transaction that may have begun before the log does.
struct ListedTxn {
  Tn tn = 0;
  Gsn first_gsn = 0;   // its slot's records from there on are its own
};

// What undoes a prepared transaction, from kTwoPhaseUndo (PFILE-2 in txn/prepared_file.hpp).
struct LoggedUndo {
  Tn tn = 0;
  std::vector<u8> bytes = {};
  bool whole = false;
};

struct LogAnalysis {
  std::unordered_map<Tn, LoggedTxn> txns;   // without an end in the log
  TnSet ended;                              // the others, of which there may be millions
  // by full xid: prepared and not ended (ANA-4), under its latest TN
  std::unordered_map<u64, Tn> two_phase;
  // by full xid, of those that have not ended: as many as can be prepared, kMostLoggedUndo each
  std::unordered_map<u64, LoggedUndo> two_phase_undo;
  std::unordered_map<FileNo, LoggedFile> files;
  std::unordered_map<FileNo, FileNo> continued;  // ANA-3: the latest number of the same file
  std::unordered_map<FileNo, LoggedCuts> cuts;   // ANA-5, by latest numbers
  // ANA-1: the transactions of kRow records that come before the first record that names theirs,
  // time after time.
  std::map<LogSlotRun, std::vector<Tn>> named_later;
  std::map<LogSlotRun, ListedTxn> listed;
  std::vector<TnEra> eras;                       // ascending
  Tn max_tn = 0;
  FileNo max_file_no = 0;

  // Under which number is redone what was logged under this one?
  FileNo current(FileNo file) const;
  // Has it no end of its own in the log, so that it may have to be undone?
  bool is_open(Tn tn) const;
  // Of those, when the record of a change is not in an undo file already.
  bool undo_wanted(Tn tn, Gsn gsn) const;
};

// Which transaction a slot is in while its records pass by (ANA-1).
struct LogSlotTxn {
  u32 run = 0;
  Tn tn = 0;               // 0: in none, or in one that has not been named yet
  bool nameless = false;   // there were kRow records of that one
  // Before that: the record may be of a transaction that began before the log does.
  void look_up(const LogAnalysis &analysis, const LogEntry &entry, const LogRecord &record);
  // A record of the slot.  Does it name the transaction of the nameless ones before it?
  bool pass(const LogRecord &record);
};

// The transaction of each kRow and kFirstRow record (ANA-1), asked for all records in the order of
// the log when that has been analysed.
class LogRowOwners {
 public:
  explicit LogRowOwners(const LogAnalysis &analysis) : analysis_(analysis) {}
  // 0: of none.
  Tn of(const LogEntry &entry, const LogRecord &record);

 private:
  struct SlotState {
    LogSlotTxn txn;
    size_t named = 0;   // of named_later
  };
  Tn named_later(const LogEntry &entry, size_t time) const;

  const LogAnalysis &analysis_;
  std::unordered_map<u32, SlotState> slots_;
};

// First pass, record by record.
class LogAnalyser {
 public:
  explicit LogAnalyser(LogAnalysis *out) : out_(out) {}
  Status record(const LogEntry &entry);
  Status finish();
  // The transaction of the last record; 0: of none, or not known yet.
  Tn owner() const { return owner_; }

 private:
  struct SlotState {
    LogSlotTxn txn;
    Gsn first_nameless = 0;
    Lsn lsn = 0;   // of that one
  };
  static Status fail_nameless(const SlotState &slot);
  Status what_it_says(const LogEntry &entry, const LogRecord &record, SlotState &slot);
  Status check_tn(const LogEntry &entry, Tn tn);
  Status check_not_ended(const LogEntry &entry, Tn tn);
  Status begin(const LogEntry &entry, const LogRecord &record, const SlotState &slot);
  Status set_fate(const LogEntry &entry, const LogRecord &record, TxnFate fate);
  Status end(const LogEntry &entry, const LogRecord &record);
  Status two_phase(const LogEntry &entry, const LogRecord &record);
  Status two_phase_undo(const LogEntry &entry, const LogRecord &record);
  Status two_phase_end(const LogEntry &entry, const LogRecord &record);
  Status file(const LogEntry &entry, const LogRecord &record);
  Status cut(const LogEntry &entry);
  Status era(const LogEntry &entry, const LogRecord &record);
  void supersede();
  void continue_as(FileNo file, FileNo latest);
  void order_cuts();

  LogAnalysis *out_;
  Tn owner_ = 0;
  std::unordered_map<u32, SlotState> slots_;
};

// What a kFile record says.
Status load_logged_file(const LogEntry &entry, const LogRecord &record, LoggedFile *out);

// The log up to `to`, which it is read to; LS_CORRUPT: it ends before.  interrupt may be null.
Status analyse_log_to(LogReader &log, Lsn to, const volatile int *interrupt, LogAnalysis *out);
// All of the log, up to its end, which is checked (LogReader::check_end).
Status analyse_log(LogReader &log, Lsn known_end, LogAnalysis *out);

}  // namespace ls
