// log_follower.hpp - redo that goes on: a store that follows another one's log record by record
// while readers use its trees (docs/decisions/0053).
//
// One follower at a time, under the store's follow mutex.  It can be made anew anywhere in the log,
// by another process, too: what it knows comes from the log since the control file's redo position.
//
// FLW-1  A record is redone when all before it in the total order are, each on all of its pages at
//        once (FOLLOWED-2 in buffer/followed_pages.hpp).
// FLW-2  Versions that the record takes from older snapshots are kept before (FROW-1 in
//        txn/followed_rows.hpp).
// FLW-3  What removes something that a snapshot may need is redone when the host says that none
//        does (FROW-2 there), or when the horizon has passed it.  The host is asked of each such
//        record: what it has said counts for what has ended by then, and a transaction with a
//        smaller number may still run.
// FLW-8  A start of the store that is followed leaves to each number its transaction: a host with a
//        log of its own gives no id again (store/store_start.cpp).  So snapshots go on, with what
//        the store that was started has forgotten (FROW-3 in txn/followed_rows.hpp).  Of rows that
//        it copies without a writer none of before can be told (FROW-2).  Later snapshots have as
//        running what was open or prepared then.
#pragma once
#include <optional>

#include "buffer/file_use.hpp"
#include "recovery/control_file.hpp"
#include "recovery/redo.hpp"
#include "recovery/redo_portion.hpp"
#include "txn/followed_rows.hpp"

namespace ls {

class LogFollower {
 public:
  // w: of a slot that no other worker has.
  LogFollower(Worker &w, const char *data_dir, const ControlFile &control);

  // Reads the files of the log up to `to`.  What stands at or below `redone` in the total order is
  // on the pages.  UndoList of the control file: adopted.  LS_CORRUPT: the log ends before.
  Status resume(Lsn to, Gsn redone);
  // The round that follows, as it has come.
  Status add_round(std::span<const u8> round) { return log_->add_round(round); }
  // Redoes all that is complete.  LS_CONFLICT: the next record removes what snapshots may need with
  // an xmin at or below `newest` (IREM-2 in index/index_log.hpp), of a relation of that database;
  // nothing of it is done.
  struct Conflict {
    Tn newest = 0;
    u32 database = 0;
    Tn asked = 0;    // instead: has the host forgotten this transaction as aborted (FTXN-2)?
  };
  Status apply(Conflict *conflict);
  // There are no such snapshots any more; later ones see all of these that the record is about.
  void resolved(Tn newest) { resolved_ = std::max(resolved_, newest); }
  // It has; if not, apply() is called again without.
  void aborted() { txns_.set_hidden(asked_); }

  Gsn redone() const { return redone_; }
  // Of all that was applied or waits to be complete.
  Lsn position() const { return log_->extent().end; }
  Gsn max_gsn() const { return log_->extent().max_gsn; }

 private:
  struct File {
    FileHandle handle;
    bool gone = false;
  };
  struct PageOps {
    FileSlot *file = nullptr;
    PageNo page_no = 0;
    Frame *frame = nullptr;
    std::vector<RedoOp> ops;
    std::vector<RowLead> leads;
    ExclusiveGuard guard;
    bool skip = false;   // the page has them already
  };

  std::string wal() const { return directory_ + "/wal"; }
  Status file_of(FileNo number, File **file);
  Status open(FileNo number, const LoggedFile &logged, File *file);
  Status apply_complete(Conflict *conflict);
  Status record(const LogEntry &entry, const LogRecord &record, Conflict *conflict);
  Status note(const LogEntry &entry, const LogRecord &record);
  Status note_file(const LogEntry &entry, const LogRecord &record);
  Status gather(const LogEntry &entry, const LogRecord &record);
  Status find_pages();
  Status look_for_conflict(const LogEntry &entry, Conflict *conflict);
  Status keep_versions();
  bool may_need_forgotten() const;
  Status find_leads(PageOps &page);
  Status find_writers_of(const PageOps &page, std::vector<RowLead> *leads);
  Status copy_page(PageOps &page, u8 *copy);
  bool is_page(const PageOps &page) const;
  bool lock_pages();
  Status redo_pages(const LogEntry &entry);
  Status redo_ops(PageOps &page, Gsn gsn);

  Worker &w_;
  const std::string directory_;
  const ControlFile control_;
  FollowedTxns txns_;
  LogAnalysis analysis_;
  std::optional<LogReader> log_;
  std::optional<LogRowOwners> owners_;
  std::optional<Tn> owner_;   // of the record that comes next, once it has been asked for
  std::unordered_map<FileNo, File> files_;   // by the log's numbers
  std::vector<std::unique_ptr<FileUse>> uses_;
  std::vector<PageOps> pages_;   // of one record
  Gsn redone_ = 0;
  Tn resolved_ = 0, asked_ = 0;
  Tn forgotten_ = 0;   // of transactions below the other store may have no versions (FROW-3)
};

}  // namespace ls
