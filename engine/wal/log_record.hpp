// log_record.hpp - bytes of the log (docs/file-format.md).  Little endian, packed, read with memcpy.
//
// Stream = rounds.  A round is what one group commit wrote: a header, then chunks, one per worker slot that had
// something.  A chunk is a run of whole records of that slot.  The round's checksum covers all of it: a torn round
// ends the log.  `complete_gsn`: every record with a GSN at or below it lies in this round or an earlier one.
// Recovery keeps exactly the records with gsn <= complete_gsn of the last whole round: a prefix of the total order.
#pragma once
#include "base/types.hpp"

namespace ls {

inline constexpr u32 kLogMagic = 0x4c53574c;  // "LSWL"
inline constexpr u16 kLogVersion = 1;

struct RoundHeader {
  u32 magic;
  u16 version;
  u16 chunks;
  u64 lsn;           // position of this header in the stream (a recycled segment holds others)
  u32 bytes;         // whole round, header included
  u32 crc;           // crc32c of the round with this field zero
  u64 complete_gsn;
  u64 run;           // run number of the store
};
static_assert(sizeof(RoundHeader) == 40);

struct ChunkHeader {
  u32 slot;
  u32 bytes;  // records only
};
static_assert(sizeof(ChunkHeader) == 8);

enum class RecordKind : u8 {
  kSystem = 1,   // page operations, redo only (structure changes, cleaning, compensation)
  kRow = 2,      // one page operation of the slot's running transaction, redo and undo
  kBegin = 3,    // u64 tn
  kCommit = 4,   // u64 tn
  kPrepared = 5, // u64 tn, u64 full_xid
  kAborted = 6,  // u64 tn: completely undone
  kFile = 7,     // FileRecord
};

struct RecordHeader {
  u16 bytes;  // whole record
  RecordKind kind;
  u8 ops;     // page operations that follow
  u32 reserved;
  u64 gsn;
};
static_assert(sizeof(RecordHeader) == 16);

// A page operation: `bytes` of operands follow.  code's high byte names the folder that redoes it.
struct PageOpHeader {
  FileNo file;
  PageNo page;
  u16 code;
  u16 bytes;
};
static_assert(sizeof(PageOpHeader) == 12);

enum PageOpFamily : u16 { kOpSpace = 0x0100, kOpTree = 0x0200, kOpRow = 0x0300, kOpIndex = 0x0400 };

// Binds a file number to a relation file for the readers of this log; written before first use in a run and again
// by every checkpoint.
struct FileRecord {
  FileNo file;
  u32 tablespace, database, relation;
  i32 owner;
  u8 kind;    // ls_rel_kind
  u8 logged;
  u16 path_bytes;  // path follows, not terminated
};
static_assert(sizeof(FileRecord) == 24);

// Largest record: two full pages and change (a split), so that 16-bit sizes do.
inline constexpr u32 kMaxRecordBytes = 16384;

}  // namespace ls
