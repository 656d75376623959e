// log_record.cpp - headers, chunks, records and operations: stored, loaded, checked.
#include "wal/log_record.hpp"

#include <cstddef>
#include <cstring>

#include "base/check.hpp"
#include "base/crc32c.hpp"

namespace ls {

namespace {

// Little endian.  The position need not be here whole: the checksum begins with it.
struct StoredRoundHeader {
  u32 magic;
  u32 crc;            // crc32c of the position (8 bytes), then of the round from here on
  u32 bytes;
  u32 run;
  u64 complete_gsn;
  u32 lsn_low;
  u32 not_durable;    // lsn - durable_lsn; kUnknown: nothing is known to have been durable
};
static_assert(sizeof(StoredRoundHeader) == kRoundHeaderBytes);
constexpr size_t kCheckedFrom = offsetof(StoredRoundHeader, bytes);
constexpr u32 kUnknown = ~u32{0};

u32 checksum(Lsn lsn, const u8 *round, u32 bytes) {
  return crc32c(crc32c(0, reinterpret_cast<const u8 *>(&lsn), sizeof lsn), round + kCheckedFrom,
                bytes - kCheckedFrom);
}

// How many numbers a record of this kind begins with; more than kMaxRecordNumbers: there is no such
// kind.
u32 numbers_of(RecordKind kind) {
  switch (kind) {
    case RecordKind::kSystem:
    case RecordKind::kRow:
    case RecordKind::kFile:
    case RecordKind::kCut: return 0;
    case RecordKind::kFirstRow:
    case RecordKind::kCommit:
    case RecordKind::kAborted: return 1;
    case RecordKind::kPrepared:
    case RecordKind::kTwoPhase:
    case RecordKind::kEra: return 2;
    case RecordKind::kTwoPhaseEnd:
    case RecordKind::kTwoPhaseUndo: return 3;
  }
  return kMaxRecordNumbers + 1;
}

}  // namespace

// ---- writing

void store_round_header(RoundHeader header, u8 *round) {
  LS_CHECK(
      header.bytes >= kRoundHeaderBytes && header.bytes <= kMaxRoundBytes && header.run < kUnknown,
      "log round");
  const u64 behind = header.lsn - header.durable_lsn;
  const bool known = header.durable_lsn != 0 && behind < kUnknown;
  StoredRoundHeader stored{kLogMagic,
                           0,
                           header.bytes,
                           static_cast<u32>(header.run),
                           header.complete_gsn,
                           static_cast<u32>(header.lsn),
                           known ? static_cast<u32>(behind) : kUnknown};
  std::memcpy(round, &stored, sizeof stored);
  stored.crc = checksum(header.lsn, round, header.bytes);
  std::memcpy(round, &stored, sizeof stored);
}

u32 store_chunk_head(const ChunkHeader &chunk, Gsn complete_gsn, u8 *out) {
  u32 n = put_varint(out, chunk.slot);
  n += put_varint(out + n, chunk.bytes);
  return n + put_varint(out + n, zigzag(chunk.before - complete_gsn));
}

u32 store_record_head(RecordKind kind, u32 bytes_behind, Gsn gsn, Gsn before, u8 *out) {
  LS_ASSERT(bytes_behind <= kMaxRecordBytes);
  u8 difference[kMaxVarintBytes];
  const u32 difference_bytes = put_varint(difference, zigzag(gsn - before));
  u32 n = put_varint(out, 1 + difference_bytes + bytes_behind);
  out[n++] = static_cast<u8>(kind);
  std::memcpy(out + n, difference, difference_bytes);
  return n + difference_bytes;
}

u32 store_op_head(FileNo file, PageNo page, u8 code, u32 operand_bytes, u8 *out) {
  u32 n = put_varint(out, file);
  n += put_varint(out + n, page);
  out[n++] = code;
  return n + put_varint(out + n, operand_bytes);
}

// ---- reading

bool load_round_header(const u8 *bytes, Lsn lsn, RoundHeader *header) {
  StoredRoundHeader stored;
  std::memcpy(&stored, bytes, sizeof stored);
  if (stored.magic != kLogMagic || stored.lsn_low != static_cast<u32>(lsn)) return false;
  if (stored.bytes < kRoundHeaderBytes || stored.bytes > kMaxRoundBytes) return false;
  const bool known = stored.not_durable != kUnknown && stored.not_durable <= lsn;
  *header = {lsn,        stored.bytes,
             stored.crc, stored.complete_gsn,
             stored.run, known ? lsn - stored.not_durable : 0};
  return true;
}

bool is_whole(const RoundHeader &header, const u8 *round) {
  return checksum(header.lsn, round, header.bytes) == header.crc;
}

const char *load_chunk(LogBytes *round, Gsn complete_gsn, ChunkHeader *chunk, LogBytes *records) {
  LogUnpacker in(*round);
  chunk->slot = static_cast<u32>(in.number(~u32{0}));
  chunk->bytes = static_cast<u32>(in.number(~u32{0}));
  chunk->before = complete_gsn + unzigzag(in.number());
  *records = in.take(chunk->bytes);
  if (!in.good()) return "has a chunk beyond its end";
  *round = in.rest();
  return nullptr;
}

const char *load_record(LogBytes *records, Gsn before, LogRecord *record) {
  LogUnpacker in(*records);
  LogUnpacker inside(in.take(in.number(kMaxRecordBytes)));
  record->kind = static_cast<RecordKind>(inside.byte());
  record->gsn = before + unzigzag(inside.number());
  const u32 numbers = numbers_of(record->kind);
  for (u32 i = 0; i < kMaxRecordNumbers; i++)
    record->numbers[i] = i < numbers ? inside.number() : 0;
  if (!in.good()) return "has a record beyond its chunk";
  if (!inside.good()) return "has a record that is too short";
  if (numbers > kMaxRecordNumbers) return "has a record of unknown kind";
  record->body = inside.rest();
  record->bytes = static_cast<u32>(records->size() - in.left());
  *records = in.rest();
  return nullptr;
}

const char *load_op(LogBytes *operations, LogOp *op) {
  LogUnpacker in(*operations);
  op->file = static_cast<FileNo>(in.number(~FileNo{0}));
  op->page = static_cast<PageNo>(in.number(~PageNo{0}));
  op->code = in.byte();
  op->operands = in.take(in.number());
  if (!in.good()) return "page operation is cut off";
  *operations = in.rest();
  return nullptr;
}

const char *load_file_record(const LogRecord &record, FileRecord *file, LogBytes *path) {
  if (record.body.size() < sizeof *file) return "record is too short";
  std::memcpy(file, record.body.data(), sizeof *file);
  if (record.body.size() - sizeof *file != file->path_bytes) return "bad file record";
  *path = record.body.subspan(sizeof *file);
  return nullptr;
}

}  // namespace ls
