// prepared_file.hpp - what has to be known of a prepared transaction after a restart:
// prepared/<full xid, 16 hex digits>, an undo file (undo_file.hpp) of all of it, at once.
//
// Items:
//     kTn      u64: a number that its rows may carry (one per start it has lived through)
//     kFile    FileRecord, path: a relation file that others name by FileRecord::file
//     kChange  PreparedChange, payload before (kUpdate): the undo entries, ascending in seq
//     kLock    PreparedLock: a row lock
//     kEnding  PreparedEnding: a relation file that the host unlinks when the transaction ends
//     kEnd     nothing: the last one, so that a file that has lost its last pieces is found out
//
// Written once, before the log says kTwoPhase, or later if it is small (PFILE-2), and replaced
// atomically by each recovery that finds the transaction prepared.  Removed when the log says
// kTwoPhaseEnd for good (undone) or the host does (committed).  A file of which the log says
// nothing is left over and is removed at start.
// Read item by item, in either direction, however large it is.
//
// PFILE-1  With a host's log its bytes are there, too, before the log says kTwoPhase, and before a
//          row carries a TN that the file has been given later: a copy of the store may lack it.
// PFILE-2  A small one is not written before a checkpoint finds its transaction prepared
//          (prepared_sync), and that is before its redo point counts.  Until then the log has what
//          it says, before kTwoPhase: the host's by PFILE-1, else kTwoPhaseUndo; and so has the
//          transaction's slot.  A start that finds no file makes it of the log.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "txn/undo_file.hpp"
#include "txn/worker.hpp"
#include "wal/log.hpp"

namespace ls {

enum class PreparedItem : u8 { kTn = 1, kFile, kChange, kLock, kEnd, kEnding };

struct PreparedChange {
  u32 seq;
  VersionOp op;         // not kLock
  u8 zero[3];
  FileNo file;
  u64 row_id;
  RowHeader previous;   // kUpdate, kDelete
  u32 count;            // kInsert
  // of the version before `previous`, where that is the transaction's own and needed; else 0
  u32 older_seq;
  u32 payload_bytes;
  u32 zero_too;
};
static_assert(sizeof(PreparedChange) == 56);

struct PreparedLock {
  u64 row_id;
  FileNo file;
  u32 mode;   // ls_lock_mode
  u32 zero;
};
static_assert(sizeof(PreparedLock) == 24);

struct PreparedEnding {
  u32 tablespace, database, relation;
  i32 owner;
  u32 at_commit;   // as in ls_ending_file
  u32 zero;
};
static_assert(sizeof(PreparedEnding) == 24);

// Writes beside the file's name and renames: durable and whole at finish(), or nothing.
class PreparedFileWriter {
 public:
  PreparedFileWriter(const char *directory, u64 full_xid);
  ~PreparedFileWriter();
  PreparedFileWriter(const PreparedFileWriter &) = delete;
  PreparedFileWriter &operator=(const PreparedFileWriter &) = delete;
  Status tn(Tn tn);
  Status file(const FileRecord &record, const char *path);
  Status change(const PreparedChange &change, Bytes payload);
  Status lock(const PreparedLock &lock);
  Status ending(const ls_ending_file &file);
  // As it stands in another file.
  Status copy(const UndoItem &item);
  Status finish();
  // The same, if it is too large for the log.  Else there is no file, and *image is what it would
  // be.
  Status finish(std::vector<u8> *image);
  const UndoEnd &end() const { return file_.end(); }

 private:
  Status item(PreparedItem kind, Bytes head, Bytes rest = {});
  Status drain();

  const std::string directory_, path_;
  const u64 full_xid_;
  UndoFile file_;   // beside it
  UndoItems items_;
  bool finished_ = false;
};

class PreparedFile {
 public:
  struct Relation {
    FileRecord record;
    std::string path;
  };
  struct Change {
    PreparedChange head;
    Bytes payload;   // until the next one
  };

  u64 full_xid = 0;
  std::vector<Tn> tns;
  std::vector<Relation> relations;
  std::vector<ls_ending_file> ending;

  bool is_own(Tn tn) const;

  // Of all of the file, which is read for that and verified.  LS_NOT_FOUND: there is none;
  // LS_CORRUPT.
  Status read(const char *directory, u64 full_xid);
  // It has been replaced by one that also names `tn`.
  void replaced(Tn tn, UndoEnd end) {
    if (!is_own(tn)) tns.push_back(tn);
    file_ = UndoFile(file_->path(), full_xid, end);
  }
  Status changes(const std::function<Status(const Change &)> &each);
  // From the last to the first.
  Status changes_backward(const std::function<Status(const Change &)> &each);
  Status locks(const std::function<Status(const PreparedLock &)> &each);
  Status items(const std::function<Status(const UndoItem &)> &each) { return file_->forward(each); }

 private:
  Status take(const UndoItem &item, bool *ended);
  Status take_change(const UndoItem &item, Change *out) const;
  Status take_lock(const UndoItem &item, PreparedLock *out) const;

  std::optional<UndoFile> file_;
};

// PFILE-2: what a small file would say gets into the log, or the host's.
Status prepared_image_log(LogAppender &log, Tn tn, u64 full_xid, Bytes image,
                          const volatile int *interrupt);
Status prepared_image_write(const char *directory, u64 full_xid, Bytes image);
// PFILE-1: the file as it is, piece by piece.  Nothing without a host's log.
Status prepared_file_post(Log &log, const char *directory, u64 full_xid,
                          const volatile int *interrupt);
// The host replays a piece: bytes of the file from `at` on, and whether they are the last.  One
// that does not begin the file and follows nothing belongs to a file that is there.
Status prepared_file_replay(const char *directory, u64 full_xid, u64 at, Bytes bytes, bool last);

Status prepared_file_remove(const char *directory, u64 full_xid);
// Remove what does not belong to one of `keep`.
Status prepared_files_clean(const char *directory, const std::vector<u64> &keep);

}  // namespace ls
