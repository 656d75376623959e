// Reading back what was damaged, left over, or made up.
#include <random>

#include "base/crc32c.hpp"
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
  for (u64 at = starts_[kRounds - 3]; at < total; at++) {
    std::vector<u8> bad{static_cast<u8>(good[at] ^ (1 << at % 8))};
    test::store(file(), at, bad);
    ASSERT_NO_FATAL_FAILURE(expect_rounds(t_.read(), whole_rounds(at))) << "bit at " << at;
    test::store(file(), at, {good[at]});
  }
}

TEST_F(DamageTest, sectors_written_out_of_order) {
  // Of the last rounds only later sectors have reached the disk.
  const u64 total = starts_[kRounds];
  for (u64 sector = 0; sector + 512 <= total; sector += 512) {
    std::vector<u8> good = test::load(file(), sector, 512);
    test::store(file(), sector, std::vector<u8>(512, 0));
    ASSERT_NO_FATAL_FAILURE(expect_rounds(t_.read(), whole_rounds(sector)));
    test::store(file(), sector, good);
  }
}

TEST_F(DamageTest, reading_begins_at_any_round) {
  for (u64 i = 0; i <= kRounds; i++) {
    LogImage image = t_.read(starts_[i]);
    EXPECT_EQ(image.entries.size(), 2 * (kRounds - i));
    EXPECT_EQ(image.end, starts_[kRounds]);
  }
  EXPECT_TRUE(t_.read(starts_[3] + 1).entries.empty()) << "no round begins here";
}

TEST_F(DamageTest, missing_segments_are_corruption) {
  LogImage image;
  EXPECT_EQ(code(read_log(t_.dir().c_str(), test::kSegment, 5 * test::kSegment, 0, image)), LS_CORRUPT);
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
  RoundHeader header{kLogMagic, kLogVersion, 0, 0, 0, 0, 100, 1};
  std::vector<u8> body;

  template <class T>
  Forge &add(const T &value) {
    const u8 *bytes = reinterpret_cast<const u8 *>(&value);
    body.insert(body.end(), bytes, bytes + sizeof value);
    return *this;
  }
  Forge &chunk(u32 bytes) {
    header.chunks++;
    return add(ChunkHeader{0, bytes});
  }
  Forge &record(u16 bytes, Gsn gsn) { return add(RecordHeader{bytes, RecordKind::kSystem, 0, 0, gsn}); }
  std::vector<u8> build() {
    header.bytes = static_cast<u32>(sizeof header + body.size());
    header.crc = 0;
    std::vector<u8> round(header.bytes);
    std::memcpy(round.data(), &header, sizeof header);
    std::copy(body.begin(), body.end(), round.begin() + sizeof header);
    header.crc = crc32c(0, round.data(), round.size());
    std::memcpy(round.data(), &header, sizeof header);
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
  good.chunk(16).record(16, 5);
  ASSERT_EQ(read(good, image), LS_OK);
  ASSERT_EQ(image.entries.size(), 1u);

  EXPECT_EQ(read(Forge{}.chunk(16).record(15, 5)), LS_CORRUPT) << "record smaller than its header";
  EXPECT_EQ(read(Forge{}.chunk(16).record(0, 5)), LS_CORRUPT);
  EXPECT_EQ(read(Forge{}.chunk(16).record(17, 5)), LS_CORRUPT) << "record larger than its chunk";
  EXPECT_EQ(read(Forge{}.chunk(15).record(16, 5)), LS_CORRUPT) << "chunk smaller than a record header";
  EXPECT_EQ(read(Forge{}.chunk(17).record(16, 5)), LS_CORRUPT) << "chunk larger than the round";
  EXPECT_EQ(read(Forge{}.chunk(0xffffffff).record(16, 5)), LS_CORRUPT);
  EXPECT_EQ(read(Forge{}.chunk(16).record(16, 5).add(u32{0})), LS_CORRUPT) << "bytes behind the last chunk";
  EXPECT_EQ(read(Forge{}.chunk(16).record(16, 0)), LS_CORRUPT) << "record without GSN";
  EXPECT_EQ(read(Forge{}.chunk(32).record(16, 5).record(16, 5)), LS_CORRUPT) << "one GSN twice";
  Forge two_chunks;
  two_chunks.chunk(16).record(16, 5).header.chunks = 2;
  EXPECT_EQ(read(two_chunks), LS_CORRUPT) << "chunk header missing";
  Forge version;
  version.header.version = kLogVersion + 1;
  EXPECT_EQ(read(version), LS_CORRUPT);
}

TEST_F(ForgeTest, absurd_sizes_end_the_log) {
  LogImage image;
  for (u32 bytes : {0u, 39u, 0x7fffffffu, 0xffffffffu}) {
    Forge forge;
    std::vector<u8> round = forge.chunk(16).record(16, 5).build();
    std::memcpy(round.data() + offsetof(RoundHeader, bytes), &bytes, sizeof bytes);
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

TEST_F(ForgeTest, random_mutations_with_a_right_checksum_never_crash) {
  std::mt19937_64 random(5);
  std::cout << "seed 5\n";
  for (int i = 0; i < 1000; i++) {
    Forge forge;
    forge.chunk(16 + 24 + 40).record(16, 5).record(24, 6).add(u64{1}).record(40, 7).add(u64{2}).add(u64{3}).add(u64{4});
    forge.chunk(16).record(16, 8);
    for (int k = 0; k < 3; k++) forge.body[random() % forge.body.size()] = static_cast<u8>(random());
    if (i % 3 == 0) forge.header.chunks = static_cast<u16>(random());
    LogImage image;
    ls_status status = read(forge, image);
    ASSERT_TRUE(status == LS_OK || status == LS_CORRUPT);
    for (const LogEntry &entry : image.entries) {
      // Every byte an entry claims lies in memory of the image.
      u32 sum = 0;
      for (u32 b = 0; b < entry.bytes; b++) sum += entry.data[b];
      ASSERT_GE(sum, entry.bytes ? 1u : 0u);
    }
  }
}

// ---- runs

TEST(LogRuns, what_a_recovery_cut_off_does_not_come_back) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  {
    LogAppender a(t.log(), 0), b(t.log(), 1);
    test::reserve_append(a, 1, 10);
    ASSERT_TRUE(ok(a.reserve(64, nullptr)));
    a.precommit();                     // 2, never confirmed
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
  TestLog t;
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
  // The disk has the third round but not the second.
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
