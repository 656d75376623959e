// Reading back what was damaged, left over, or made up; and in how much memory.
#include <malloc.h>

#include <optional>
#include <random>

#include "unit/wal/log_fixture.hpp"

namespace ls {
namespace {

using test::TestLog;

// A log of several small rounds of two slots, and where each begins.
class DamageTest : public testing::Test {
 protected:
  static constexpr u64 kRounds = 7;

  DamageTest() {
    file_setup(".", false, false, 256);  // thousands of reads, each of which would sync
    EXPECT_TRUE(ok(t_.log().open_for_append(0, 0, 1)));
    LogAppender a(t_.log(), 0), b(t_.log(), 1);
    for (u64 i = 0; i < kRounds; i++) {
      starts_.push_back(t_.log().end());
      test::reserve_append(a, 2 * i + 1, 5 + i);
      test::reserve_append(b, 2 * i + 2, 20 + i);
      t_.round();
    }
    starts_.push_back(t_.log().end());
    t_.log().close_for_append();
  }
  ~DamageTest() override { file_setup(".", false, true, 256); }
  // Rounds that lie wholly before lsn.
  u64 whole_rounds(Lsn lsn) const {
    u64 n = 0;
    while (n < kRounds && starts_[n + 1] <= lsn) n++;
    return n;
  }
  void expect_rounds(const LogImage &image, u64 rounds) {
    ASSERT_EQ(image.entries.size(), 2 * rounds);
    ASSERT_EQ(image.end, starts_[rounds]);
    ASSERT_EQ(image.complete_gsn, 2 * rounds);
    for (u64 i = 0; i < 2 * rounds; i++) {
      ASSERT_EQ(image.entries[i].gsn, i + 1);
      ASSERT_TRUE(test::holds(image.entries[i], i + 1, i % 2 ? 20 + i / 2 : 5 + i / 2));
    }
  }
  std::string file() const { return t_.segment_path(0); }
  ls_status status(Lsn known_end = 0) {
    LogImage image;
    return code(read_log(t_.dir().c_str(), test::kSegment, 0, 0, image, known_end));
  }
  // Bytes [from, to) are not what they were.  Every round was synced before the next was written:
  // so only if no whole one follows can that be what a crash has left.
  void expect_damage(u64 from, u64 to) {
    const u64 n = whole_rounds(from);
    if (starts_[kRounds - 1] >= to) {
      ASSERT_EQ(status(), LS_CORRUPT);
      ASSERT_EQ(last_error().path, file());
    } else {
      ASSERT_NO_FATAL_FAILURE(expect_rounds(t_.read(), n));
      ASSERT_EQ(status(starts_[n]), LS_OK);
      ASSERT_EQ(status(starts_[n] + 1), LS_CORRUPT) << "the control file knows more";
    }
  }

  TestLog t_;
  std::vector<Lsn> starts_;
};

TEST_F(DamageTest, undamaged) { expect_rounds(t_.read(), kRounds); }

TEST_F(DamageTest, a_tail_of_zeros_or_noise_at_every_byte) {
  const u64 total = starts_[kRounds], begin = starts_[kRounds - 2];
  std::vector<u8> good = test::load(file(), 0, total + 200);
  std::mt19937_64 random(3);
  for (u64 cut = begin; cut <= total; cut++) {
    std::vector<u8> zeros(total + 200 - cut, 0);
    test::store(file(), cut, zeros);
    // Zeros may equal what was there; then the round is whole.
    u64 same = cut;
    while (same < total && good[same] == 0) same++;
    ASSERT_NO_FATAL_FAILURE(expect_rounds(t_.read(), whole_rounds(same))) << "zeros from " << cut;
    for (u8 &byte : zeros) byte = static_cast<u8>(random());
    zeros[0] = static_cast<u8>(good[cut] + 1);
    test::store(file(), cut, zeros);
    ASSERT_NO_FATAL_FAILURE(expect_rounds(t_.read(), whole_rounds(cut))) << "noise from " << cut;
    test::store(file(), cut, std::vector<u8>(good.begin() + static_cast<long>(cut), good.end()));
  }
}

TEST_F(DamageTest, a_file_cut_at_every_byte) {
  const u64 total = starts_[kRounds];
  for (u64 cut = total; cut-- > starts_[kRounds - 3];) {
    std::filesystem::resize_file(file(), cut);
    ASSERT_NO_FATAL_FAILURE(expect_rounds(t_.read(), whole_rounds(cut))) << "cut at " << cut;
  }
}

TEST_F(DamageTest, a_flipped_bit_at_every_byte) {
  const u64 total = starts_[kRounds];
  std::vector<u8> good = test::load(file(), 0, total);
  for (u64 at = 0; at < total; at++) {
    std::vector<u8> bad{static_cast<u8>(good[at] ^ (1 << at % 8))};
    test::store(file(), at, bad);
    ASSERT_NO_FATAL_FAILURE(expect_damage(at, at + 1)) << "bit at " << at;
    test::store(file(), at, {good[at]});
  }
}

// Of one collection that was too much for a round no part was synced before another was written: a
// later part alone proves nothing.
TEST_F(DamageTest, parts_of_one_collection_may_reach_the_disk_in_any_order) {
  t_.recover();
  const u32 slots = 40;
  TestLog t(slots, 256 << 10);
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  std::vector<std::unique_ptr<LogAppender>> appenders;
  for (u32 i = 0; i < slots; i++) {
    appenders.push_back(std::make_unique<LogAppender>(t.log(), i));
    for (int k = 0; k < 14; k++)
      test::reserve_append(*appenders.back(), 100 * i + static_cast<u64>(k), 12000);
  }
  t.round();
  ASSERT_GE(t.log().stats().rounds, 2u);
  const std::vector<u8> good = test::load(t.segment_path(0), 100, 1);
  test::store(t.segment_path(0), 100, {static_cast<u8>(good[0] ^ 1)});
  EXPECT_TRUE(t.read().entries.empty());
  test::store(t.segment_path(0), 100, good);
  test::reserve_append(*appenders[0], 1, 10);
  t.round();
  test::store(t.segment_path(0), 100, {static_cast<u8>(good[0] ^ 1)});
  LogImage image;
  EXPECT_EQ(code(read_log(t.dir().c_str(), test::kSegment, 0, 0, image)), LS_CORRUPT)
      << "the next collection does";
}

TEST_F(DamageTest, sectors_that_are_lost) {
  const u64 total = starts_[kRounds];
  for (u64 sector = 0; sector < total; sector += 512) {
    std::vector<u8> good = test::load(file(), sector, 512);
    test::store(file(), sector, std::vector<u8>(512, 0));
    ASSERT_NO_FATAL_FAILURE(expect_damage(sector, sector + 512));
    test::store(file(), sector, good);
  }
}

TEST_F(DamageTest, reading_begins_at_any_round) {
  for (u64 i = 0; i <= kRounds; i++) {
    LogImage image = t_.read(starts_[i]);
    EXPECT_EQ(image.entries.size(), 2 * (kRounds - i));
    EXPECT_EQ(image.end, starts_[kRounds]);
  }
  LogImage image;
  EXPECT_EQ(code(read_log(t_.dir().c_str(), test::kSegment, starts_[3] + 1, 0, image)), LS_CORRUPT)
      << "no round begins here";
}

TEST_F(DamageTest, missing_segments_are_corruption) {
  LogImage image;
  EXPECT_EQ(code(read_log(t_.dir().c_str(), test::kSegment, 5 * test::kSegment, 0, image)),
            LS_CORRUPT);
  EXPECT_EQ(code(read_log((t_.dir() + "/none").c_str(), test::kSegment, 0, 0, image)), LS_CORRUPT);
  t_.recover();
  LogAppender a(t_.log(), 0);
  for (u64 i = 0; t_.log().end() < 2 * test::kSegment + 1000; i++) {
    test::reserve_append(a, i, 8000);
    t_.round();
  }
  std::filesystem::remove(t_.segment_path(1));
  EXPECT_EQ(code(read_log(t_.dir().c_str(), test::kSegment, 0, 0, image)), LS_CORRUPT);
}

TEST_F(DamageTest, failing_reads_are_errors_not_ends) {
  fault_add({.op = FaultOp::kRead, .path_part = file(), .error = EIO});
  LogImage image;
  EXPECT_EQ(code(read_log(t_.dir().c_str(), test::kSegment, 0, 0, image)), LS_IO_ERROR);
  fault_clear();
  file_setup(".", false, true, 256);
  // What is read must be durable before anything is built on it.
  fault_add({.op = FaultOp::kSync, .path_part = file(), .error = EIO});
  EXPECT_EQ(code(read_log(t_.dir().c_str(), test::kSegment, 0, 0, image)), LS_IO_ERROR);
}

// Rounds made by hand, with the right checksum.
struct Forge {
  RoundHeader header{0, 0, 0, 100, 1, 0};
  std::vector<u8> body;

  Forge &add(std::initializer_list<u8> bytes) {
    body.insert(body.end(), bytes);
    return *this;
  }
  Forge &chunk(u32 bytes) {
    u8 head[kMaxChunkHeadBytes];
    body.insert(body.end(), head,
                head + store_chunk_head({0, bytes, 0}, header.complete_gsn, head));
    return *this;
  }
  // Three bytes, of which the first says how many follow.
  Forge &record(u8 length, u8 gsn_step, RecordKind kind = RecordKind::kSystem) {
    return add({length, static_cast<u8>(kind), static_cast<u8>(zigzag(gsn_step))});
  }
  std::vector<u8> build() {
    header.bytes = static_cast<u32>(kRoundHeaderBytes + body.size());
    std::vector<u8> round(kRoundHeaderBytes);
    round.insert(round.end(), body.begin(), body.end());
    store_round_header(header, round.data());
    return round;
  }
};

class ForgeTest : public testing::Test {
 protected:
  ForgeTest() {
    file_setup(".", false, false, 256);
    std::filesystem::create_directory(dir_);
    std::ofstream(path_).flush();
    std::filesystem::resize_file(path_, test::kSegment);
  }
  ~ForgeTest() override { file_setup(".", false, true, 256); }
  ls_status read(Forge &forge, LogImage &image) {
    test::store(path_, forge.header.lsn, forge.build());
    return code(read_log(dir_.c_str(), test::kSegment, 0, 0, image));
  }
  ls_status read(Forge forge) {
    LogImage image;
    return read(forge, image);
  }
  test::TempDirectory outer_;
  std::string dir_ = outer_ / "wal", path_ = log_segment_path(dir_, 0);
};

TEST_F(ForgeTest, whole_rounds_that_make_no_sense_are_corruption) {
  LogImage image;
  Forge good;
  good.chunk(3).record(2, 5);
  ASSERT_EQ(read(good, image), LS_OK);
  ASSERT_EQ(image.entries.size(), 1u);
  EXPECT_EQ(image.entries[0].gsn, 5u);

  EXPECT_EQ(read(Forge{}.chunk(3).record(1, 5)), LS_CORRUPT) << "record smaller than its head";
  EXPECT_EQ(read(Forge{}.chunk(3).record(0, 5)), LS_CORRUPT);
  EXPECT_EQ(read(Forge{}.chunk(3).record(3, 5)), LS_CORRUPT) << "record larger than its chunk";
  EXPECT_EQ(read(Forge{}.chunk(2).record(2, 5)), LS_CORRUPT) << "chunk smaller than a record";
  EXPECT_EQ(read(Forge{}.chunk(4).record(2, 5)), LS_CORRUPT) << "chunk larger than the round";
  EXPECT_EQ(read(Forge{}.chunk(0xffffffff).record(2, 5)), LS_CORRUPT);
  EXPECT_EQ(read(Forge{}.chunk(3).record(2, 5).add({1})), LS_CORRUPT)
      << "bytes behind the last chunk";
  EXPECT_EQ(read(Forge{}.chunk(3).record(2, 0)), LS_CORRUPT) << "record without GSN";
  EXPECT_EQ(read(Forge{}.chunk(6).record(2, 5).record(2, 0)), LS_CORRUPT) << "one GSN twice";
  EXPECT_EQ(read(Forge{}.chunk(3).record(2, 5, static_cast<RecordKind>(77))), LS_CORRUPT)
      << "unknown kind";
  EXPECT_EQ(read(Forge{}.chunk(3).record(2, 5, RecordKind::kCommit)), LS_CORRUPT)
      << "no transaction number";
  EXPECT_EQ(read(Forge{}.chunk(4).record(3, 5, RecordKind::kPrepared).add({9})), LS_CORRUPT)
      << "half of its numbers";
  EXPECT_EQ(
      read(Forge{}.chunk(5).add({4, 1, 10, 0x80, 0x80}).chunk(3).record(2, 5, RecordKind::kCommit)),
      LS_CORRUPT);
  EXPECT_EQ(read(Forge{}.chunk(12).add(
                {11, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02})),
            LS_CORRUPT)
      << "a number of more than 64 bits";
}

TEST_F(ForgeTest, absurd_sizes_end_the_log) {
  LogImage image;
  for (u32 bytes : {0u, 31u, 0x7fffffffu, 0xffffffffu}) {
    Forge forge;
    std::vector<u8> round = forge.chunk(3).record(2, 5).build();
    std::memcpy(round.data() + 8, &bytes, sizeof bytes);
    test::store(path_, 0, round);
    ASSERT_EQ(code(read_log(dir_.c_str(), test::kSegment, 0, 0, image)), LS_OK);
    EXPECT_EQ(image.end, 0u);
    EXPECT_EQ(image.complete_gsn, 0u);
  }
}

TEST_F(ForgeTest, the_total_order_does_not_go_back) {
  Forge first, second;
  first.header.complete_gsn = 50;
  test::store(path_, 0, first.build());
  second.header.lsn = first.header.bytes;
  second.header.complete_gsn = 49;
  EXPECT_EQ(read(second), LS_CORRUPT);
}

TEST_F(ForgeTest, a_round_of_an_earlier_run_ends_the_log) {
  Forge first, second;
  first.header.run = 3;
  test::store(path_, 0, first.build());
  second.header.lsn = first.header.bytes;
  second.header.run = 2;
  LogImage image;
  EXPECT_EQ(read(second, image), LS_OK);
  EXPECT_EQ(image.end, first.header.bytes);
  EXPECT_EQ(image.run, 3u);
}

TEST_F(ForgeTest, a_first_round_of_an_earlier_run_is_left_over) {
  Forge first;
  first.header.run = 3;
  LogImage image;
  EXPECT_EQ(read(first, image), LS_OK);
  EXPECT_EQ(image.end, first.header.bytes);
  ASSERT_EQ(code(read_log(dir_.c_str(), test::kSegment, 0, 4, image)), LS_OK);
  EXPECT_EQ(image.end, 0u);
  EXPECT_EQ(image.run, 0u);
}

TEST_F(ForgeTest, only_a_whole_later_round_that_followed_a_sync_proves_damage) {
  Forge later;
  later.header.lsn = 5000;
  later.header.durable_lsn = 1;
  auto outcome = [&](auto change, bool other_magic = false) {
    Forge forge = later;
    change(forge.header);
    std::vector<u8> round = forge.build();
    if (other_magic) round[0]++;
    test::store(path_, later.header.lsn, round);
    LogImage image;
    ls_status status = code(read_log(dir_.c_str(), test::kSegment, 0, 3, image));
    test::store(path_, later.header.lsn, std::vector<u8>(round.size(), 0));
    return status;
  };
  EXPECT_EQ(outcome([](RoundHeader &h) { h.run = 3; }), LS_CORRUPT);
  EXPECT_EQ(outcome([](RoundHeader &h) { h.run = 2; }), LS_OK) << "left over of an earlier run";
  EXPECT_EQ(outcome([](RoundHeader &h) { h.run = 3, h.durable_lsn = 0; }), LS_OK)
      << "nothing was synced before";
  EXPECT_EQ(outcome([](RoundHeader &h) { h.run = 3, h.lsn = 5001; }), LS_OK)
      << "of another position";
  EXPECT_EQ(outcome([](RoundHeader &h) { h.run = 3; }, true), LS_OK);
  // Wherever the reader's windows have their seams.
  for (u64 at = 131'000; at < 131'200; at++) {
    EXPECT_EQ(outcome([&](RoundHeader &h) { h.run = 3, h.lsn = later.header.lsn = at; }),
              LS_CORRUPT)
        << at;
  }
}

TEST_F(ForgeTest, random_mutations_with_a_right_checksum_never_crash) {
  std::mt19937_64 random(5);
  std::cout << "seed 5\n";
  for (int i = 0; i < 1000; i++) {
    Forge forge;
    forge.chunk(3 + 4 + 9)
        .record(2, 5)
        .record(3, 1, RecordKind::kCommit)
        .add({9})
        .record(8, 1)
        .add({1, 2, 0x31, 2, 7, 8});
    forge.chunk(3).record(2, 8);
    for (int k = 0; k < 3; k++)
      forge.body[random() % forge.body.size()] = static_cast<u8>(random());
    LogImage image;
    ls_status status = read(forge, image);
    ASSERT_TRUE(status == LS_OK || status == LS_CORRUPT);
    for (const LogEntry &entry : image.entries) {
      // Every byte an entry claims lies in memory of the image.
      u32 sum = 0;
      for (u8 byte : entry.record().body) sum += byte;
      ASSERT_GE(sum + 1, 1u);
      for (LogBytes left = entry.record().body; !left.empty();) {
        LogOp op;
        if (load_op(&left, &op) != nullptr) break;
        for (u8 byte : op.operands) sum += byte;
      }
    }
  }
}

// ---- memory

// By malloc's own count; the sanitizers' malloc has none, so there it only reads.
TEST(LogReaderTest, who_forgets_what_he_has_read_holds_little_of_a_long_log) {
  constexpr u64 kRounds = 500, kRecords = 8, kBytes = 10000;
  TestLog t(8, test::kBuffer, false);
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  {
    LogAppender a(t.log(), 0);
    std::optional<test::StalledAppend> stalled;
    u64 seed = 0;
    for (u64 round = 0; round < kRounds; round++) {
      // What is logged meanwhile is not complete before this has ended.
      if (round == 100) stalled.emplace(t.log(), 1);
      if (round == 110) stalled.reset();
      for (u64 i = 0; i < kRecords / 2; i++) test::reserve_append(a, ++seed, kBytes);
      t.round();
      for (u64 i = 0; i < kRecords / 2; i++) test::reserve_append(a, ++seed, kBytes);
      t.round();
    }
  }
  LogReader reader(t.dir().c_str(), test::kSegment, 0, 0);
  auto in_use = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const size_t before = in_use();
  size_t most = 0;
  u64 seed = 0;
  Gsn last = 0;
  for (;; reader.pop(), reader.forget()) {
    const LogEntry *entry;
    ASSERT_TRUE(ok(reader.peek(&entry))) << last_error().message;
    if (!entry) break;
    ASSERT_GT(entry->gsn, last);
    last = entry->gsn;
    ASSERT_TRUE(test::holds(*entry, ++seed, kBytes));
    most = std::max(most, in_use() - std::min(in_use(), before));
  }
  EXPECT_EQ(reader.extent().records, kRounds * kRecords);
  EXPECT_GT(reader.extent().end, kRounds * kRecords * kBytes);
  EXPECT_LT(most, size_t{16} << 20) << "of " << reader.extent().end;
}

// ---- runs

TEST(LogRuns, what_a_recovery_cut_off_does_not_come_back) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  {
    LogAppender a(t.log(), 0), b(t.log(), 1);
    test::reserve_append(a, 1, 10);
    test::StalledAppend stalled(t.log(), 0);   // 2, never published
    test::reserve_append(b, 3, 10);    // 3 and 4 are written but not covered
    test::reserve_append(b, 4, 10);
    t.round();
  }
  LogImage image = t.recover();
  EXPECT_EQ(test::gsns(image), (std::vector<Gsn>{1}));
  EXPECT_EQ(image.complete_gsn, 1u);
  EXPECT_EQ(image.max_gsn, 4u);
  EXPECT_EQ(t.log().hardened(), 4u);
  {
    LogAppender a(t.log(), 0);
    EXPECT_EQ(test::reserve_append(a, 5, 10), 5u);
    t.round();
  }
  image = t.recover();
  EXPECT_EQ(test::gsns(image), (std::vector<Gsn>{1, 5}));
  EXPECT_EQ(image.complete_gsn, 5u);
  EXPECT_EQ(image.entries[0].run, 1u);
  EXPECT_EQ(image.entries[1].run, 2u);
  // A run that writes nothing changes nothing.
  image = t.recover();
  EXPECT_EQ(test::gsns(image), (std::vector<Gsn>{1, 5}));
}

TEST(LogRuns, a_whole_round_behind_a_torn_one_is_not_read_by_later_runs) {
  TestLog t(8, test::kBuffer, false);
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  Lsn second, third;
  {
    LogAppender a(t.log(), 0);
    test::reserve_append(a, 1, 10);
    t.round();
    second = t.log().end();
    test::reserve_append(a, 2, 10);
    t.round();
    third = t.log().end();
    test::reserve_append(a, 3, 10);
    t.round();
  }
  // The disk has the third round but not the second, which was not synced.
  test::store(t.segment_path(0), second, std::vector<u8>(third - second, 0));
  LogImage image = t.recover();
  EXPECT_EQ(image.end, second);
  // The new run's round has the size of the lost one: the leftover fits exactly behind it.
  LogAppender a(t.log(), 0);
  EXPECT_EQ(test::reserve_append(a, 7, 10), 2u);
  t.round();
  ASSERT_EQ(t.log().end(), third);
  image = t.read();
  EXPECT_EQ(image.end, third);
  EXPECT_EQ(test::gsns(image), (std::vector<Gsn>{1, 2}));
  EXPECT_TRUE(test::holds(image.entries[1], 7, 10));
}

}  // namespace
}  // namespace ls
