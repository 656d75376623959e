// The log's bytes: what is packed is what is read, and nothing that is read is trusted.
#include "wal/log_record.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <vector>

namespace ls {
namespace {

// A number of any length in bits.
u64 number_of(std::mt19937_64 &random) { return random() >> random() % 64; }

TEST(LogBytes, numbers_come_back) {
  for (u32 bit = 0; bit < 64; bit++) {
    for (u64 value : {u64{1} << bit, (u64{1} << bit) - 1, ~u64{0} << bit}) {
      u8 bytes[kMaxVarintBytes];
      const u32 n = put_varint(bytes, value);
      LogUnpacker in({bytes, n});
      EXPECT_EQ(in.number(), value);
      EXPECT_TRUE(in.done());
      for (u32 cut = 0; cut < n; cut++) {
        LogUnpacker shorter({bytes, cut});
        EXPECT_EQ(shorter.number(), 0u);
        EXPECT_FALSE(shorter.good());
      }
      EXPECT_EQ(unzigzag(zigzag(value)), value);
      if (value == 0) continue;
      LogUnpacker limited({bytes, n});
      EXPECT_EQ(limited.number(value - 1), 0u);
      EXPECT_FALSE(limited.good());
    }
  }
  EXPECT_EQ(zigzag(1), 2u);
  EXPECT_EQ(zigzag(~u64{0}), 1u) << "one less than before";
}

TEST(LogBytes, numbers_of_more_than_64_bits_are_refused) {
  const u8 ten[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
  const u8 eleven[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00};
  for (LogBytes bytes : {LogBytes(ten), LogBytes(eleven)}) {
    LogUnpacker in(bytes);
    in.number();
    EXPECT_FALSE(in.good());
    EXPECT_EQ(in.left(), 0u);
    EXPECT_TRUE(in.take(1).empty());
  }
}

TEST(LogRecord, round_headers_come_back_and_belong_to_their_position) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; i++) {
    std::vector<u8> round(kRoundHeaderBytes + random() % 300);
    for (u8 &byte : round) byte = static_cast<u8>(random());
    const Lsn lsn = number_of(random);
    const Lsn durable = random() % 4 == 0 ? 0 : lsn - std::min(lsn, number_of(random) >> 34);
    store_round_header({lsn, static_cast<u32>(round.size()), 0, number_of(random),
                        1 + number_of(random) % 1'000'000, durable},
                       round.data());
    RoundHeader header;
    ASSERT_TRUE(load_round_header(round.data(), lsn, &header));
    EXPECT_TRUE(is_whole(header, round.data()));
    EXPECT_EQ(header.lsn, lsn);
    EXPECT_EQ(header.durable_lsn, durable);
    // At another position it is none, or at least not whole.
    const Lsn other = random() % 2 ? lsn + 1 : lsn + (u64{1} << 32);
    EXPECT_FALSE(load_round_header(round.data(), other, &header) && is_whole(header, round.data()));
    ASSERT_TRUE(load_round_header(round.data(), lsn, &header));
    const size_t at = random() % round.size();
    round[at] ^= static_cast<u8>(1u << random() % 8);
    const bool plausible =
        load_round_header(round.data(), lsn, &header) && header.bytes <= round.size();
    EXPECT_FALSE(plausible && is_whole(header, round.data())) << at;
  }
}

TEST(LogRecord, what_was_durable_too_far_back_is_not_known) {
  u8 round[kRoundHeaderBytes];
  RoundHeader header;
  store_round_header({u64{1} << 33, kRoundHeaderBytes, 0, 5, 1, 100}, round);
  ASSERT_TRUE(load_round_header(round, u64{1} << 33, &header));
  EXPECT_EQ(header.durable_lsn, 0u);
}

struct MadeOp {
  FileNo file;
  PageNo page;
  u8 code;
  std::vector<u8> operands;
};
struct MadeRecord {
  RecordKind kind;
  Gsn gsn;
  std::vector<u64> numbers;
  std::vector<MadeOp> ops;
};

u32 numbers_of(RecordKind kind) {
  switch (kind) {
    case RecordKind::kSystem:
    case RecordKind::kRow: return 0;
    case RecordKind::kPrepared:
    case RecordKind::kTwoPhase: return 2;
    case RecordKind::kTwoPhaseEnd: return 3;
    default: return 1;
  }
}

MadeRecord random_record(std::mt19937_64 &random, Gsn gsn) {
  constexpr RecordKind kKinds[] = {
      RecordKind::kSystem,   RecordKind::kRow,     RecordKind::kFirstRow, RecordKind::kCommit,
      RecordKind::kPrepared, RecordKind::kAborted, RecordKind::kTwoPhase, RecordKind::kTwoPhaseEnd};
  MadeRecord made{kKinds[random() % std::size(kKinds)], gsn, {}, {}};
  for (u32 i = 0; i < numbers_of(made.kind); i++) made.numbers.push_back(number_of(random));
  for (u64 i = has_page_operations(made.kind) ? random() % 4 : 0; i > 0; i--) {
    MadeOp op{static_cast<FileNo>(number_of(random)),
              static_cast<PageNo>(number_of(random)),
              static_cast<u8>(random()),
              {}};
    op.operands.resize(random() % (i == 1 ? 4000 : 20));
    for (u8 &byte : op.operands) byte = static_cast<u8>(random());
    made.ops.push_back(op);
  }
  return made;
}

void pack(const MadeRecord &made, Gsn before, std::vector<u8> *out) {
  std::vector<u8> behind;
  u8 bytes[std::max(kMaxRecordHeadBytes, kMaxOpHeadBytes)];
  for (u64 number : made.numbers)
    behind.insert(behind.end(), bytes, bytes + put_varint(bytes, number));
  for (const MadeOp &op : made.ops) {
    behind.insert(behind.end(), bytes,
                  bytes + store_op_head(op.file, op.page, op.code,
                                        static_cast<u32>(op.operands.size()), bytes));
    behind.insert(behind.end(), op.operands.begin(), op.operands.end());
  }
  out->insert(out->end(), bytes,
              bytes + store_record_head(made.kind, static_cast<u32>(behind.size()), made.gsn,
                                        before, bytes));
  out->insert(out->end(), behind.begin(), behind.end());
}

void expect_same(const LogRecord &record, const MadeRecord &made) {
  ASSERT_EQ(record.kind, made.kind);
  ASSERT_EQ(record.gsn, made.gsn);
  for (size_t i = 0; i < kMaxRecordNumbers; i++)
    ASSERT_EQ(record.numbers[i], i < made.numbers.size() ? made.numbers[i] : 0);
  LogBytes left = record.body;
  for (const MadeOp &op : made.ops) {
    LogOp read;
    ASSERT_EQ(load_op(&left, &read), nullptr);
    ASSERT_EQ(read.file, op.file);
    ASSERT_EQ(read.page, op.page);
    ASSERT_EQ(read.code, op.code);
    ASSERT_TRUE(std::equal(read.operands.begin(), read.operands.end(), op.operands.begin(),
                           op.operands.end()));
  }
  ASSERT_TRUE(left.empty());
}

TEST(LogRecord, chunks_of_records_come_back) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 300; i++) {
    const Gsn complete = number_of(random) >> 1, before = number_of(random) >> 1;
    std::vector<MadeRecord> made;
    std::vector<u8> records;
    Gsn last = before;
    for (u64 n = 1 + random() % 10; n > 0; n--) {
      // Mostly a little later; a held commit's is earlier.
      const Gsn gsn = random() % 4 ? last + 1 + random() % 100 : number_of(random);
      made.push_back(random_record(random, gsn));
      pack(made.back(), last, &records);
      last = gsn;
    }
    u8 head[kMaxChunkHeadBytes];
    const ChunkHeader chunk{static_cast<u32>(random() % 300'000), static_cast<u32>(records.size()),
                            before};
    std::vector<u8> round(head, head + store_chunk_head(chunk, complete, head));
    round.insert(round.end(), records.begin(), records.end());

    LogBytes left(round), read;
    ChunkHeader header;
    ASSERT_EQ(load_chunk(&left, complete, &header, &read), nullptr);
    ASSERT_TRUE(left.empty());
    ASSERT_EQ(header.slot, chunk.slot);
    ASSERT_EQ(header.before, before);
    Gsn gsn = before;
    u64 bytes = 0;
    for (const MadeRecord &expected : made) {
      LogRecord record;
      ASSERT_EQ(load_record(&read, gsn, &record), nullptr);
      ASSERT_NO_FATAL_FAILURE(expect_same(record, expected));
      gsn = record.gsn;
      bytes += record.bytes;
    }
    ASSERT_TRUE(read.empty());
    ASSERT_EQ(bytes, records.size());
  }
}

// Each byte of what is read is touched: a sanitizer sees whatever lies outside.
u64 read_all(LogBytes left) {
  u64 sum = 0;
  while (!left.empty()) {
    ChunkHeader chunk;
    LogBytes records;
    if (load_chunk(&left, 1000, &chunk, &records) != nullptr) return sum;
    LogRecord record{};
    for (Gsn before = chunk.before; load_record(&records, before, &record) == nullptr;
         before = record.gsn) {
      FileRecord file;
      LogBytes path, body = record.body;
      if (load_file_record(record, &file, &path) == nullptr) sum += path.size();
      LogOp op;
      while (!body.empty() && load_op(&body, &op) == nullptr) {
        for (u8 byte : op.operands) sum += byte;
      }
      if (records.empty()) break;
    }
  }
  return sum;
}

TEST(LogRecord, damaged_bytes_are_read_within_their_bounds) {
  std::cout << "seed 3\n";
  std::mt19937_64 random(3);
  u64 sum = 0;
  for (int i = 0; i < 3000; i++) {
    std::vector<u8> records;
    Gsn last = 1000;
    for (int n = 0; n < 4; n++, last += 3) pack(random_record(random, last + 3), last, &records);
    u8 head[kMaxChunkHeadBytes];
    std::vector<u8> round(
        head, head + store_chunk_head({3, static_cast<u32>(records.size()), 1000}, 1000, head));
    round.insert(round.end(), records.begin(), records.end());
    for (int k = 0; k < 4; k++) round[random() % round.size()] = static_cast<u8>(random());
    if (i % 2) round.resize(random() % round.size());
    const std::vector<u8> exact(round);   // no spare capacity behind it
    sum += read_all(exact);
  }
  EXPECT_GT(sum, 0u);
}

}  // namespace
}  // namespace ls
