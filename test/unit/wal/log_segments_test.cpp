// Files: crossing, recycling, full disks and failing ones.
#include <sys/stat.h>

#include <thread>

#include "os/clock.hpp"
#include "os/thread.hpp"
#include "unit/wal/log_fixture.hpp"
#include "wal/log_writer.hpp"

namespace ls {
namespace {

using test::TestLog;

class LogSegmentsTest : public testing::Test {
 protected:
  LogSegmentsTest() {
    EXPECT_TRUE(ok(t_.log().open_for_append(0, 0, 1)));
    appender_ = std::make_unique<LogAppender>(t_.log(), 0);
  }
  // Append and commit until the stream has passed `lsn`.
  void fill_to(Lsn lsn) {
    while (t_.log().end() < lsn) {
      sizes_.push_back(8000);
      test::reserve_append(*appender_, ++seed_, 8000);
      t_.round();
    }
  }
  // One record in a round of exactly so many bytes.
  void exact_round(u64 bytes) {
    const Lsn begin = t_.log().end();
    const u64 payload = bytes - overhead(bytes);
    sizes_.push_back(payload);
    test::reserve_append(*appender_, ++seed_, payload);
    t_.round();
    ASSERT_EQ(t_.log().end() - begin, bytes);
  }
  // What a round of so many bytes has beside the payload of its only record.  Sizes are near it, so
  // theirs take as many bytes.
  u64 overhead(u64 bytes) {
    u8 head[kMaxChunkHeadBytes];
    const Gsn next = seed_ + 1;
    const u32 payload = static_cast<u32>(bytes) - 60;
    const u32 op = store_op_head(1, static_cast<PageNo>(next), kOpTree, payload, head);
    const u32 record = store_record_head(RecordKind::kSystem, op + payload, next, seed_, head);
    return kRoundHeaderBytes + store_chunk_head({0, record + op + payload, seed_}, next, head) +
           record + op;
  }
  // A round that ends exactly at lsn.
  void end_at(Lsn lsn) {
    fill_to(lsn - 14000);
    exact_round(lsn - t_.log().end());
    ASSERT_EQ(t_.log().end(), lsn);
  }
  std::set<u64> present() {
    std::set<u64> numbers;
    EXPECT_TRUE(ok(log_segments_present(t_.dir(), numbers)));
    return numbers;
  }
  void expect_all(const LogImage &image, u64 from_seed = 1) {
    ASSERT_FALSE(image.entries.empty());
    ASSERT_LE(image.entries.front().gsn, from_seed);
    ASSERT_EQ(image.entries.back().gsn, seed_);
    for (const LogEntry &entry : image.entries)
      ASSERT_TRUE(test::holds(entry, entry.gsn, sizes_[entry.gsn - 1]));
  }

  TestLog t_{8, test::kBuffer, false};  // many rounds; what is synced has a test of its own
  std::unique_ptr<LogAppender> appender_;
  u64 seed_ = 0;
  std::vector<size_t> sizes_;
};

TEST_F(LogSegmentsTest, the_stream_crosses_segments) {
  fill_to(3 * test::kSegment + 5000);
  EXPECT_EQ(present(), (std::set<u64>{0, 1, 2, 3}));
  for (u64 n : present()) {
    struct stat st;
    ASSERT_EQ(stat(t_.segment_path(n).c_str(), &st), 0);
    EXPECT_EQ(static_cast<u64>(st.st_size), test::kSegment);
    EXPECT_EQ(st.st_mode & 0777, 0600u);
  }
  expect_all(t_.read());
}

TEST_F(LogSegmentsTest, a_round_may_end_at_the_seam) {
  end_at(test::kSegment);
  // The place to continue exists, so that it can be named as the place to read from.
  EXPECT_TRUE(present().contains(1));
  expect_all(t_.read());
  LogImage tail = t_.read(test::kSegment);
  EXPECT_TRUE(tail.entries.empty());
  EXPECT_EQ(tail.end, test::kSegment);
  LogImage image = t_.recover();
  EXPECT_EQ(image.end, test::kSegment);
  appender_ = std::make_unique<LogAppender>(t_.log(), 0);
  fill_to(test::kSegment + 1000);
  expect_all(t_.read());
}

// SEG-1: of two rounds of a worker that only carry complete_gsn the second would end at the seam.
TEST_F(LogSegmentsTest, a_round_without_records_may_end_at_the_seam) {
  fill_to(test::kSegment - 40'000);
  const LogAppender other(t_.log(), 1);
  std::atomic<Gsn> &bound = t_.log().slot(1)->appending;
  bound.store(seed_ + 1);   // what comes now is written and not covered
  fill_to(test::kSegment - 14'000);
  exact_round(test::kSegment - 2 * kRoundHeaderBytes - t_.log().end());
  ASSERT_FALSE(present().contains(1));
  LogWriter worker(t_.log().shared(), nullptr);
  for (const Gsn next : {seed_, Gsn{0}}) {
    bound.store(next);
    ASSERT_TRUE(worker.try_round(nullptr));
  }
  t_.round();
  EXPECT_EQ(t_.log().end(), test::kSegment);
  EXPECT_EQ(t_.log().hardened(), seed_);
  EXPECT_TRUE(present().contains(1));
}

TEST_F(LogSegmentsTest, a_header_may_lie_across_the_seam) {
  for (u64 before : {1u, 12u, 20u, 24u, 31u}) {
    u64 seam = (t_.log().end() / test::kSegment + 1) * test::kSegment;
    end_at(seam - before);
    fill_to(seam + 1);
  }
  expect_all(t_.read());
}

TEST_F(LogSegmentsTest, a_round_may_be_longer_than_a_segment) {
  TestLog t(8, 1 << 20);
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  u64 seed = 1;
  for (u32 i = 0; i < 6; i++) {
    LogAppender appender(t.log(), i);
    ASSERT_TRUE(ok(appender.reserve(512 << 10, nullptr)));
    for (int k = 0; k < 32; k++) test::append(appender, seed++, 15000);
  }
  EXPECT_GT(t.round(), 2 * test::kSegment);
  LogImage image = t.read();
  ASSERT_EQ(image.entries.size(), seed - 1);
  for (u64 i = 1; i < seed; i++) ASSERT_TRUE(test::holds(image.entries[i - 1], i, 15000));
}

TEST_F(LogSegmentsTest, truncation_recycles_and_the_old_contents_are_not_read) {
  fill_to(4 * test::kSegment + 100'000);
  Lsn position = t_.log().position_of(seed_ - 2);
  ASSERT_GT(position, 2 * test::kSegment);
  u64 first = position / test::kSegment;
  ASSERT_TRUE(ok(t_.log().truncate(position)));
  std::set<u64> after = present();
  EXPECT_EQ(*after.begin(), first);
  EXPECT_GT(*after.rbegin(), t_.log().end() / test::kSegment) << "recycled as future segments";
  expect_all(t_.read(position), seed_ - 2);
  // Go on into recycled segments; at every step the log ends where it ends, whatever lies behind.
  for (int i = 0; i < 300; i++) {
    sizes_.push_back(i * 53 % 9000);
    test::reserve_append(*appender_, ++seed_, sizes_.back());
    t_.round();
    if (i % 10 == 0) {
      LogImage image = t_.read(position);
      ASSERT_EQ(image.end, t_.log().end());
      ASSERT_NO_FATAL_FAILURE(expect_all(image, seed_));
    }
  }
  EXPECT_GT(t_.log().end(), 5 * test::kSegment);
}

TEST_F(LogSegmentsTest, whole_rounds_in_a_recycled_segment_are_of_another_position) {
  // All rounds have one size that divides the segment: wherever the log ends, a whole old round
  // follows.
  auto one_round = [&] { exact_round(8192); };
  while (t_.log().end() < 2 * test::kSegment) one_round();
  Lsn position = t_.log().end();
  ASSERT_TRUE(ok(t_.log().truncate(position)));
  // The segment begun at `position` is new; from the next on they are recycled.
  while (t_.log().end() < position + test::kSegment) one_round();
  for (int i = 0; i < 20; i++) {
    one_round();
    LogImage image = t_.read(position);
    ASSERT_EQ(image.end, t_.log().end());
    ASSERT_NO_FATAL_FAILURE(expect_all(image, seed_));
  }
}

TEST_F(LogSegmentsTest, truncation_keeps_few_spares) {
  fill_to(8 * test::kSegment);
  Lsn position = t_.log().end();
  ASSERT_TRUE(ok(t_.log().truncate(position)));
  EXPECT_LE(present().size(), 6u);
  EXPECT_EQ(*present().begin(), t_.log().end() / test::kSegment);
  ASSERT_TRUE(ok(t_.log().truncate(t_.log().end()))) << "nothing left to do";
  fill_to(12 * test::kSegment);
  expect_all(t_.read(position), seed_);
}

TEST_F(LogSegmentsTest, continues_in_recycled_segments_after_a_crash) {
  fill_to(4 * test::kSegment + 100'000);
  Lsn position = t_.log().position_of(seed_ - 2);
  ASSERT_TRUE(ok(t_.log().truncate(position)));
  fill_to(6 * test::kSegment + 300'000);
  LogImage image = t_.recover(position);
  expect_all(image, seed_ - 2);
  appender_ = std::make_unique<LogAppender>(t_.log(), 0);
  fill_to(7 * test::kSegment);
  image = t_.read(position);
  expect_all(image, seed_);
  EXPECT_EQ(image.run, 2u);
}

TEST_F(LogSegmentsTest, leftovers_of_a_crash_while_making_segments_are_removed) {
  std::string temporary = t_.segment_path(7) + ".new";
  std::ofstream(temporary) << "half";
  std::ofstream(t_.segment_path(5)) << "short";  // only without fsync
  std::ofstream(t_.dir() + "/something else") << "not ours";
  t_.recover();
  EXPECT_FALSE(std::filesystem::exists(temporary));
  EXPECT_FALSE(std::filesystem::exists(t_.segment_path(5)));
  EXPECT_TRUE(std::filesystem::exists(t_.dir() + "/something else"));
}

TEST_F(LogSegmentsTest, a_short_last_segment_is_filled_up) {
  fill_to(50'000);
  Lsn end = t_.log().end();
  std::filesystem::resize_file(t_.segment_path(0), end + 10);
  EXPECT_EQ(t_.recover().end, end);
  EXPECT_EQ(std::filesystem::file_size(t_.segment_path(0)), test::kSegment);
  appender_ = std::make_unique<LogAppender>(t_.log(), 0);
  fill_to(2 * test::kSegment);
  expect_all(t_.read());
}

TEST_F(LogSegmentsTest, a_full_disk_is_no_failure_of_the_log) {
  end_at(test::kSegment - 3000);
  Gsn hardened = t_.log().hardened();
  fault_add({.op = FaultOp::kWrite, .path_part = ".new", .nth = 1, .every = true, .error = ENOSPC});
  sizes_.push_back(8000);
  test::reserve_append(*appender_, ++seed_, 8000);
  u64 wrote;
  EXPECT_EQ(code(t_.log().commit_round(&wrote)), LS_NO_SPACE);
  EXPECT_FALSE(t_.log().failed());
  EXPECT_EQ(t_.log().hardened(), hardened);
  // A writer with a full buffer is told.
  volatile int no_interrupt = 0;
  Status status = kOk;
  while (ok(status)) {
    status = appender_->reserve(8100, &no_interrupt);
    if (!ok(status)) break;
    sizes_.push_back(8000);
    test::append(*appender_, ++seed_, 8000);
  }
  EXPECT_EQ(code(status), LS_NO_SPACE);
  EXPECT_FALSE(std::filesystem::exists(t_.segment_path(1) + ".new")) << "gives back what it took";
  fault_clear();
  t_.round();
  EXPECT_EQ(t_.log().hardened(), seed_);
  EXPECT_TRUE(ok(appender_->reserve(8100, nullptr)));
  expect_all(t_.read());
}

TEST_F(LogSegmentsTest, urgent_reservations_wait_for_space) {
  end_at(test::kSegment - 3000);
  fault_add({.op = FaultOp::kWrite, .path_part = ".new", .nth = 1, .every = true, .error = ENOSPC});
  volatile int interrupt = 0;
  while (ok(appender_->reserve(8100, &interrupt))) {
    sizes_.push_back(8000);
    test::append(*appender_, ++seed_, 8000);
    u64 wrote;
    (void)t_.log().commit_round(&wrote);
  }
  std::thread space([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fault_clear();
    t_.round();
  });
  EXPECT_TRUE(ok(appender_->reserve(8100, nullptr)));
  space.join();
  appender_->set_urgent(true);
  EXPECT_TRUE(ok(appender_->reserve(8100, &interrupt)));
  expect_all(t_.read());
}

TEST_F(LogSegmentsTest, the_last_segment_is_kept_for_the_urgent) {
  fill_to(20'000);
  fault_add({.op = FaultOp::kWrite, .path_part = ".new", .nth = 1, .every = true, .error = ENOSPC});
  Status result{LS_INVALID};
  Thread committer;
  ASSERT_TRUE(ok(committer.start("committer", [&] { result = t_.log().run_committer(2); })));
  volatile int interrupt = 0;
  u64 deadline = now_ms() + 20'000;
  Status status = kOk;
  while (ok(status) && now_ms() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    status = appender_->reserve(100, &interrupt);
  }
  EXPECT_EQ(code(status), LS_NO_SPACE) << "although the present segment is nearly empty";
  EXPECT_TRUE(ok(appender_->reserve(100, nullptr)));
  sizes_.push_back(10);
  EXPECT_TRUE(t_.log().wait_hardened(test::append(*appender_, ++seed_, 10), nullptr));
  fault_clear();
  while (!ok(appender_->reserve(100, &interrupt)) && now_ms() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(ok(appender_->reserve(100, &interrupt))) << "it is over when there is room again";
  t_.log().stop();
  committer.join();
  EXPECT_TRUE(ok(result));
}

TEST_F(LogSegmentsTest, the_committer_outlives_a_full_disk) {
  end_at(test::kSegment - 3000);
  fault_add({.op = FaultOp::kWrite, .path_part = ".new", .nth = 1, .every = true, .error = ENOSPC});
  Status result{LS_INVALID};
  Thread committer;
  ASSERT_TRUE(ok(committer.start("committer", [&] { result = t_.log().run_committer(10); })));
  sizes_.push_back(8000);
  Gsn gsn = test::reserve_append(*appender_, ++seed_, 8000);
  std::thread space([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    fault_clear();
  });
  EXPECT_TRUE(t_.log().wait_hardened(gsn, nullptr));
  space.join();
  t_.log().stop();
  committer.join();
  EXPECT_TRUE(ok(result));
  expect_all(t_.read());
}

// SEG-2
TEST_F(LogSegmentsTest, the_committer_makes_the_next_segment_ahead) {
  Status result{LS_INVALID};
  Thread committer;
  ASSERT_TRUE(ok(committer.start("committer", [&] { result = t_.log().run_committer(10); })));
  u64 deadline = now_ms() + 20'000;
  while (!present().contains(1) && now_ms() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_TRUE(present().contains(1));
  t_.log().stop();
  committer.join();
  EXPECT_TRUE(ok(result));
}

TEST(LogSync, a_failed_sync_is_final) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  LogAppender appender(t.log(), 0);
  Gsn first = test::reserve_append(appender, 1, 100);
  t.round();
  EXPECT_EQ(t.log().stats().fsyncs, 1u);
  Gsn gsn = test::reserve_append(appender, 2, 100);
  fault_add({.op = FaultOp::kSync, .path_part = t.segment_path(0), .error = EIO});
  u64 wrote;
  EXPECT_EQ(code(t.log().commit_round(&wrote)), LS_IO_ERROR);
  EXPECT_EQ(last_error().sys_errno, EIO);
  fault_clear();
  // A second sync would succeed and mean nothing: the kernel may have dropped the pages.
  EXPECT_EQ(code(t.log().commit_round(&wrote)), LS_IO_ERROR);
  EXPECT_TRUE(t.log().failed());
  EXPECT_EQ(t.log().hardened(), first);
  volatile int interrupt = 1;
  EXPECT_FALSE(t.log().wait_hardened(gsn, &interrupt));
  Status status = kOk;
  while (ok(status)) {
    status = appender.reserve(8100, nullptr);
    if (ok(status)) test::append(appender, 1, 8000);
  }
  EXPECT_EQ(code(status), LS_IO_ERROR);
}

TEST(LogSync, a_new_segment_is_durable_before_it_has_its_name) {
  TestLog t;
  fault_add({.op = FaultOp::kSync, .path_part = ".new", .error = EIO});
  EXPECT_EQ(code(t.log().open_for_append(0, 0, 1)), LS_IO_ERROR);
  EXPECT_FALSE(std::filesystem::exists(t.segment_path(0)));
  fault_clear();
  EXPECT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
}

TEST(LogSync, every_segment_that_a_round_touches_is_synced) {
  TestLog t(8, 1 << 20);
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  for (u32 i = 0; i < 3; i++) {
    LogAppender appender(t.log(), i);
    ASSERT_TRUE(ok(appender.reserve(512 << 10, nullptr)));
    for (int k = 0; k < 32; k++) test::append(appender, k, 15000);
  }
  t.round();
  EXPECT_EQ(t.log().stats().rounds, 1u);
  EXPECT_EQ(t.log().stats().fsyncs, 2u);
}

TEST_F(LogSegmentsTest, a_failed_write_ends_the_committer) {
  fill_to(20'000);
  Gsn hardened = t_.log().hardened();
  fault_add({.op = FaultOp::kWrite, .path_part = t_.segment_path(0), .error = EIO});
  Status result = kOk;
  Thread committer;
  ASSERT_TRUE(ok(committer.start("committer", [&] { result = t_.log().run_committer(5); })));
  test::reserve_append(*appender_, ++seed_, 100);
  t_.log().kick();
  committer.join();
  EXPECT_EQ(code(result), LS_IO_ERROR);
  EXPECT_TRUE(t_.log().failed());
  EXPECT_EQ(t_.log().hardened(), hardened);
}

TEST_F(LogSegmentsTest, a_torn_round_is_dropped_whatever_part_was_written) {
  fill_to(20'000);
  LogImage before = t_.read();
  constexpr u64 kPayload = 250, kRound = kPayload + kRoundHeaderBytes;  // at least
  for (u64 written = 0; written < kRound; written += 7) {
    TestLog t(8, test::kBuffer, false);
    std::filesystem::remove_all(t.dir());
    std::filesystem::copy(t_.dir(), t.dir());
    LogImage image = t.recover();
    ASSERT_EQ(test::gsns(image), test::gsns(before));
    LogAppender appender(t.log(), 0);
    test::reserve_append(appender, seed_ + 1, kPayload);
    fault_add({.op = FaultOp::kWrite,
               .path_part = t.segment_path(0),
               .outcome = FaultOutcome::kCrash,
               .first_bytes = written});
    u64 wrote;
    ASSERT_EQ(code(t.log().commit_round(&wrote)), LS_IO_ERROR);
    fault_clear();
    // Twice: the recovery itself may crash.
    for (int again = 0; again < 2; again++) {
      image = t.recover();
      ASSERT_EQ(test::gsns(image), test::gsns(before)) << written << " bytes written";
      ASSERT_EQ(image.end, before.end);
    }
    LogAppender next(t.log(), 0);
    Gsn gsn = test::reserve_append(next, seed_ + 1, 50);
    t.round();
    std::vector<Gsn> expected = test::gsns(before);
    expected.push_back(gsn);
    ASSERT_EQ(test::gsns(t.read()), expected);
  }
}

TEST_F(LogSegmentsTest, a_write_that_was_lost_silently_ends_the_log_there) {
  fill_to(20'000);
  Gsn last = seed_;
  Lsn end = t_.log().end();
  fault_add(
      {.op = FaultOp::kWrite, .path_part = t_.segment_path(0), .outcome = FaultOutcome::kSucceed});
  // more than what the next round writes once more
  test::reserve_append(*appender_, ++seed_, 2 * kLogBlockBytes);
  t_.round();
  fault_clear();
  test::reserve_append(*appender_, ++seed_, 100);
  t_.round();
  LogImage image = t_.read();
  EXPECT_EQ(image.entries.back().gsn, last);
  EXPECT_EQ(image.end, end);
}

TEST(LogSync, a_disk_that_lies_is_found_out) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  LogAppender appender(t.log(), 0);
  test::reserve_append(appender, 1, 100);
  t.round();
  fault_add(
      {.op = FaultOp::kWrite, .path_part = t.segment_path(0), .outcome = FaultOutcome::kSucceed});
  // more than what the next round writes once more
  test::reserve_append(appender, 2, 2 * kLogBlockBytes);
  t.round();
  fault_clear();
  test::reserve_append(appender, 3, 100);
  t.round();
  LogImage image;
  EXPECT_EQ(code(read_log(t.dir().c_str(), test::kSegment, 0, 0, image)), LS_CORRUPT);
  EXPECT_NE(std::strstr(last_error().message, "damaged at position"), nullptr)
      << last_error().message;
  EXPECT_EQ(last_error().path, t.segment_path(0));
}

}  // namespace
}  // namespace ls
