// log_record.hpp - bytes of the log (docs/file-format.md).  The only place that lays them out, and
// the only one that takes them apart again; what is read is checked, never trusted.
//
// Stream = rounds.  A round is what one group commit wrote: a header, then chunks, one per worker
// slot that had something.  A chunk is a run of whole records of that slot.  The round's checksum
// covers all of it: a torn round ends the log, unless a later one proves that it was whole once
// (durable_lsn): then the log is damaged.  `complete_gsn`: every record with a GSN at or below it
// lies in this round or an earlier one.  Recovery keeps exactly the records with gsn <=
// complete_gsn of the last whole round: a prefix of the total order.
//
//   round      StoredRoundHeader (log_record.cpp) | chunks to its end
//   chunk      slot | bytes of records | GSN before the first record, less complete_gsn | records
//   record     bytes of what follows | kind, 1 | GSN less the one before in this chunk |
//              numbers of the kind | operations to its end
//   operation  file | page | code, 1 | bytes of operands | operands
//
// Numbers are those of log_bytes.hpp.  A worker packs its records once, as they stand here; the
// committer copies them.  Where a chunk will begin is not known then: that is in the chunk's head.
#pragma once
#include <span>

#include "base/types.hpp"
#include "wal/log_bytes.hpp"

namespace ls {

// "LSL4": the format's version is in it; control_file.hpp is what refuses another
inline constexpr u32 kLogMagic = 0x344c534c;
inline constexpr u32 kRoundHeaderBytes = 32;
// Larger rounds are not written: a chunk has at most the bytes of a log buffer, see Log::create.
inline constexpr u32 kMaxRoundBytes = 64 << 20;
inline constexpr u32 kMaxChunkHeadBytes = 5 + 4 + kMaxVarintBytes;
// Largest record: two full pages and change (a split).
inline constexpr u32 kMaxRecordBytes = 16384;
inline constexpr u32 kMaxRecordHeadBytes = 3 + 1 + kMaxVarintBytes;
inline constexpr u32 kMaxOpHeadBytes = kMaxVarintBytes + 5 + 1 + 3;

using LogBytes = std::span<const u8>;

struct RoundHeader {
  Lsn lsn;           // position of this header in the stream; a recycled segment holds others
  u32 bytes;         // whole round, header included
  u32 crc;           // of the round and its position
  Gsn complete_gsn;
  u64 run;           // run number of the store
  // all before this position was on disk when this round was written: what recovery does not find
  // there was lost
  Lsn durable_lsn;
};

struct ChunkHeader {
  u32 slot;
  u32 bytes;  // records only
  Gsn before; // of the slot's last record before the first one here
};

enum class RecordKind : u8 {
  kSystem = 1,   // page operations, redo only (structure changes, cleaning, compensation)
  kRow = 2,      // one page operation of the slot's running transaction, redo and undo
  kFirstRow = 3, // tn: the same, and its transaction begins
  kCommit = 4,   // tn; behind it what the host wants to find again (ls_txn_commit)
  kPrepared = 5, // tn, full xid
  kAborted = 6,  // tn: completely undone
  kFile = 7,     // FileRecord
  // tn, full xid: prepared, its file is there (txn/prepared.hpp); again by every checkpoint
  kTwoPhase = 8,
  // tn, full xid, committed (0: completely undone); by any slot, among another one's records
  kTwoPhaseEnd = 9,
  kCut = 10,     // one page operation: a file has become shorter (buffer/file_cut.hpp)
  // tn, offset: TNs of this run begin there, full xids are less by that (txn/tn_eras.hpp)
  kEra = 11,
  // tn, full xid, place: a piece of what undoes it (PFILE-2 in txn/prepared_file.hpp), while it has
  // no file; place: twice where the piece begins, 1 more in the last one
  kTwoPhaseUndo = 12,
};

inline bool has_page_operations(RecordKind kind) {
  return kind <= RecordKind::kFirstRow || kind == RecordKind::kCut;
}

inline constexpr u32 kMaxRecordNumbers = 3;

struct LogRecord {
  RecordKind kind;
  u32 bytes;       // whole record
  Gsn gsn;
  u64 numbers[kMaxRecordNumbers];  // those of its kind; 0
  // operations, or of kFile what load_file_record reads, or of kCommit the host's note, or of
  // kTwoPhaseUndo the piece
  LogBytes body;

  Tn tn() const { return numbers[0]; }
  u64 full_xid() const { return numbers[1]; }
  bool committed() const { return numbers[2] != 0; }
  u64 era_offset() const { return numbers[1]; }
  u64 piece_at() const { return numbers[2] / 2; }
  bool is_last_piece() const { return numbers[2] % 2 != 0; }
};

// A page operation.  code's high half names the folder that redoes it.
struct LogOp {
  FileNo file;
  PageNo page;
  u8 code;
  LogBytes operands;
};

enum PageOpFamily : u8 { kOpSpace = 0x10, kOpTree = 0x20, kOpRow = 0x30, kOpIndex = 0x40,
                        kOpImage = 0x50 };
inline constexpr u8 op_family(u8 code) { return code & 0xf0; }

// Binds a file number to a relation file for the readers of this log; written before first use in a
// run and again by every checkpoint.
struct FileRecord {
  FileNo file;
  u32 tablespace, database, relation;
  i32 owner;
  u8 kind;    // ls_rel_kind
  u8 logged;
  u16 path_bytes;  // path follows, not terminated
  u32 anew;        // 1: the file was empty when it got this number, which is said here only
};
static_assert(sizeof(FileRecord) == 32 && offsetof(FileRecord, path_bytes) == 26);

// ---- writing

// Fills in the header of a round that is complete but for it, checksum included.
void store_round_header(RoundHeader header, u8 *round);
// How many bytes were stored: at most kMaxChunkHeadBytes.
u32 store_chunk_head(const ChunkHeader &chunk, Gsn complete_gsn, u8 *out);
// What stands before a record's numbers and operations: at most kMaxRecordHeadBytes.
u32 store_record_head(RecordKind kind, u32 bytes_behind, Gsn gsn, Gsn before, u8 *out);
u32 store_op_head(FileNo file, PageNo page, u8 code, u32 operand_bytes, u8 *out);

// ---- reading

// False: no round begins with these bytes (kRoundHeaderBytes) at this position.
bool load_round_header(const u8 *bytes, Lsn lsn, RoundHeader *header);
// Its checksum matches.
bool is_whole(const RoundHeader &header, const u8 *round);
// Each takes what it reads off the front.  Not null: what is wrong.
const char *load_chunk(LogBytes *round, Gsn complete_gsn, ChunkHeader *chunk, LogBytes *records);
const char *load_record(LogBytes *records, Gsn before, LogRecord *record);
const char *load_op(LogBytes *operations, LogOp *op);
const char *load_file_record(const LogRecord &record, FileRecord *file, LogBytes *path);

}  // namespace ls
