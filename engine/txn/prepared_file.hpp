// prepared_file.hpp - what has to be known of a prepared transaction after a restart: prepared/<full xid, 16 hex digits>.
//
//   head   magic, version, full_xid
//   items  an ItemHead, then what it says:
//     kTn      u64: a number that its rows may carry (one per start it has lived through)
//     kFile    FileRecord, path: a relation file that others name by FileRecord::file
//     kChange  PreparedChange, payload before (kUpdate): the undo entries, ascending in seq
//     kLock    PreparedLock: a row lock
//     kEnd     crc32c of all before
//
// Written once, before the log says kTwoPhase, and replaced atomically by each recovery that finds the transaction prepared.
// Removed when the log says kTwoPhaseEnd for good (undone) or the host does (committed).  A file of which the log says nothing
// is left over and is removed at start.
#pragma once
#include <string>
#include <vector>

#include "os/file.hpp"
#include "txn/worker.hpp"

namespace ls {

inline constexpr u64 kPreparedMagic = 0x5052455041524544;  // "PREPARED"
inline constexpr u32 kPreparedVersion = 1;

struct PreparedFileHead {
  u64 magic;
  u32 version;
  u32 zero;
  u64 full_xid;
};
static_assert(sizeof(PreparedFileHead) == 24);

enum class PreparedItem : u32 { kTn = 1, kFile, kChange, kLock, kEnd };
struct ItemHead {
  PreparedItem kind;
  u32 bytes;
};
static_assert(sizeof(ItemHead) == 8);

struct PreparedChange {
  u32 seq;
  VersionOp op;         // not kLock
  u8 zero[3];
  FileNo file;
  u32 count;            // kInsert
  u64 row_id;
  RowHeader previous;   // kUpdate, kDelete
  u32 older_seq;        // the version before `previous` is the transaction's own; 0: nobody needs one
  u32 payload_bytes;
};
static_assert(sizeof(PreparedChange) == 48);

struct PreparedLock {
  u64 row_id;
  FileNo file;
  u32 mode;   // ls_lock_mode
};
static_assert(sizeof(PreparedLock) == 16);

// Writes beside the file's name and renames: durable and whole at finish(), or nothing.
class PreparedFileWriter {
 public:
  PreparedFileWriter() = default;
  ~PreparedFileWriter();
  PreparedFileWriter(const PreparedFileWriter &) = delete;
  PreparedFileWriter &operator=(const PreparedFileWriter &) = delete;
  Status open(const char *directory, u64 full_xid);
  Status tn(Tn tn);
  Status file(const FileRecord &record, const char *path);
  Status change(const PreparedChange &change, Bytes payload);
  Status lock(const PreparedLock &lock);
  Status finish();

 private:
  Status item(PreparedItem kind, Bytes head, Bytes rest = {});
  Status put(Bytes bytes);
  Status drain();

  File file_;
  std::string directory_, path_;
  std::vector<u8> buffer_;
  u64 written_ = 0;
  u32 crc_ = 0;
};

struct PreparedFile {
  struct Relation {
    FileRecord record;
    std::string path;
  };
  struct Change {
    PreparedChange head;
    Bytes payload;   // in `bytes`
  };
  u64 full_xid = 0;
  std::vector<Tn> tns;
  std::vector<Relation> relations;
  std::vector<Change> changes;
  std::vector<PreparedLock> locks;
  std::vector<u8> bytes;

  bool is_own(Tn tn) const;
};

// LS_NOT_FOUND: there is none; LS_CORRUPT.
Status prepared_file_read(const char *directory, u64 full_xid, PreparedFile *out);
Status prepared_file_remove(const char *directory, u64 full_xid);
// Remove what does not belong to one of `keep`.
Status prepared_files_clean(const char *directory, const std::vector<u64> &keep);

}  // namespace ls
