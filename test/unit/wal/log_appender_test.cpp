// log_appender_test.cpp - records built, wrapped around, abandoned; waits for space.
#include <thread>

#include "base/interrupt.hpp"
#include "os/clock.hpp"
#include "unit/wal/log_fixture.hpp"

namespace ls {
namespace {

using test::TestLog;

TEST(LogAppender, records_come_back_as_built) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  LogAppender appender(t.log(), 3);
  ASSERT_TRUE(ok(appender.reserve(1000, nullptr)));
  const u8 a[] = {1, 2}, b[] = {3}, c[] = {4, 5, 6};
  appender.start(RecordKind::kFirstRow);
  appender.number(77);
  appender.op(7, 8, kOpRow, a, b, c);
  appender.op(9, 10, kOpIndex, {});
  EXPECT_EQ(appender.finish(), 1u);
  appender.start(RecordKind::kTwoPhaseEnd);
  for (u64 number : {u64{78}, ~u64{0}, u64{1}}) appender.number(number);
  EXPECT_EQ(appender.finish(), 2u);
  EXPECT_EQ(t.log().last_gsn(), 2u);
  EXPECT_EQ(t.log().hardened(), 0u);
  EXPECT_GT(t.round(), 0u);
  EXPECT_EQ(t.log().hardened(), 2u);

  LogImage image = t.read();
  ASSERT_EQ(image.entries.size(), 2u);
  EXPECT_EQ(image.complete_gsn, 2u);
  EXPECT_EQ(image.end, t.log().end());
  EXPECT_EQ(image.run, 1u);
  const LogEntry &row = image.entries[0];
  EXPECT_EQ(row.slot, 3u);
  EXPECT_EQ(row.run, 1u);
  EXPECT_EQ(row.lsn, 0u);
  const LogRecord first = row.record();
  EXPECT_EQ(first.kind, RecordKind::kFirstRow);
  EXPECT_EQ(first.gsn, 1u);
  EXPECT_EQ(first.tn(), 77u);
  const std::vector<LogOp> ops = test::ops_of(row);
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops[0].file, 7u);
  EXPECT_EQ(ops[0].page, 8u);
  EXPECT_EQ(ops[0].code, kOpRow);
  EXPECT_EQ(std::vector<u8>(ops[0].operands.begin(), ops[0].operands.end()),
            (std::vector<u8>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(ops[1].file, 9u);
  EXPECT_TRUE(ops[1].operands.empty());
  const LogRecord second = image.entries[1].record();
  EXPECT_EQ(second.tn(), 78u);
  EXPECT_EQ(second.full_xid(), ~u64{0});
  EXPECT_TRUE(second.committed());
  EXPECT_TRUE(second.body.empty());
  EXPECT_EQ(appender.counts().bytes, first.bytes + second.bytes);
}

// SLOT-1
TEST(LogAppender, records_wrap_around_the_ring) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  LogAppender appender(t.log(), 0);
  std::vector<size_t> sizes;
  // Three times around, with record sizes that put the seam in headers and payloads alike.
  for (u64 i = 1; appender.counts().bytes < 3 * test::kBuffer; i++) {
    sizes.push_back(i * 37 % 1500);
    ASSERT_EQ(test::reserve_append(appender, i, sizes.back()), i);
    if (i % 16 == 0) t.round();
  }
  t.round();
  LogImage image = t.read();
  ASSERT_EQ(image.entries.size(), sizes.size());
  for (u64 i = 1; i <= sizes.size(); i++)
    ASSERT_TRUE(test::holds(image.entries[i - 1], i, sizes[i - 1]));
}

TEST(LogAppender, an_abandoned_record_leaves_nothing) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  LogAppender appender(t.log(), 0);
  ASSERT_TRUE(ok(appender.reserve(1000, nullptr)));
  appender.start(RecordKind::kSystem);
  appender.op(1, 1, kOpTree, test::payload_of(1, 100));
  appender.abandon();
  EXPECT_EQ(t.log().last_gsn(), 0u);
  EXPECT_EQ(t.round(), 0u);
  EXPECT_EQ(test::append(appender, 2, 50), 1u);
  t.round();
  LogImage image = t.read();
  ASSERT_EQ(image.entries.size(), 1u);
  EXPECT_TRUE(test::holds(image.entries[0], 2, 50));
}

TEST(LogAppender, the_next_owner_of_a_slot_continues) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  {
    LogAppender first(t.log(), 0);
    test::reserve_append(first, 1, 10);
  }
  LogAppender second(t.log(), 0);
  test::reserve_append(second, 2, 20);
  t.round();
  LogImage image = t.read();
  ASSERT_EQ(image.entries.size(), 2u);
  EXPECT_TRUE(test::holds(image.entries[0], 1, 10));
  EXPECT_TRUE(test::holds(image.entries[1], 2, 20));
}

TEST(LogAppender, reserve_waits_until_there_is_room) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  LogAppender appender(t.log(), 0);
  std::atomic<bool> stop{false};
  std::thread committer([&] {
    while (!stop) {
      u64 wrote;
      ASSERT_TRUE(ok(t.log().commit_round(&wrote)));
      std::this_thread::yield();
    }
  });
  constexpr u64 kRecords = 400;
  for (u64 i = 1; i <= kRecords; i++) test::reserve_append(appender, i, 2000);
  stop = true;
  committer.join();
  t.round();
  LogImage image = t.read();
  ASSERT_EQ(image.entries.size(), kRecords);
  for (u64 i = 1; i <= kRecords; i++) ASSERT_TRUE(test::holds(image.entries[i - 1], i, 2000));
}

TEST(LogAppender, reserve_can_be_interrupted) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  LogAppender appender(t.log(), 0);
  volatile int interrupt = 0;
  ASSERT_TRUE(ok(appender.reserve(test::kBuffer / 2, &interrupt)));
  for (int i = 0; i < 4; i++) test::append(appender, 1, 8000);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    __atomic_store_n(&interrupt, 1, __ATOMIC_RELAXED);
  });
  EXPECT_EQ(code(appender.reserve(test::kBuffer / 2, &interrupt)), LS_INTERRUPTED);
  other.join();
  // Nothing is broken by it.
  __atomic_store_n(&interrupt, 0, __ATOMIC_RELAXED);
  t.round();
  EXPECT_TRUE(ok(appender.reserve(test::kBuffer / 2, &interrupt)));
}

TEST(LogAppender, a_wait_for_space_is_shown_to_the_host) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  LogAppender appender(t.log(), 0);
  u32 word = 5;
  HostWaits waits{&word, {}};
  waits.codes[LS_WAIT_LOG_SPACE] = 77;
  appender.report_waits(&waits);
  for (u64 i = 0; i < 3; i++) test::reserve_append(appender, i, 15000);
  EXPECT_EQ(word, 5u) << "nothing to wait for";
  std::thread committer([&] {
    while (__atomic_load_n(&word, __ATOMIC_RELAXED) != 77) std::this_thread::yield();
    t.round();
  });
  EXPECT_TRUE(ok(appender.reserve(test::kBuffer / 2, nullptr)));
  committer.join();
  EXPECT_EQ(word, 5u) << "what the host had there";
}

TEST(LogAppender, a_reservation_survives_those_of_callees) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  LogAppender appender(t.log(), 0);
  u64 seed = 1;
  for (int i = 0; i < 50; i++) {
    ASSERT_TRUE(ok(appender.reserve(test::kBuffer / 4, nullptr)));
    for (int callee = 0; callee < 3; callee++) {
      // Only when the callee would wait does a round come along.
      std::thread committer([&] { t.round(); });
      ASSERT_TRUE(ok(appender.reserve(kMaxRecordBytes, nullptr)));
      committer.join();
      test::append(appender, seed++, kMaxRecordBytes - 28);
    }
    test::append(appender, seed++, kMaxRecordBytes - 28);
    t.round();
  }
  LogImage image = t.read();
  ASSERT_EQ(image.entries.size(), seed - 1);
  for (u64 i = 1; i < seed; i++)
    ASSERT_TRUE(test::holds(image.entries[i - 1], i, kMaxRecordBytes - 28));
}

using LogAppenderDeathTest = testing::Test;

TEST(LogAppenderDeathTest, contract_is_checked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  LogAppender appender(t.log(), 0);
  // Fill the ring to the last record that fits; one more must not overwrite what no round has
  // drained.
  ASSERT_TRUE(ok(appender.reserve(test::kBuffer / 2, nullptr)));
  for (int i = 0; i < 4; i++) test::append(appender, 1, kMaxRecordBytes - 28);
  EXPECT_DEATH(test::append(appender, 1, 100), "log space was not reserved");
  EXPECT_DEATH((void)appender.reserve(test::kBuffer / 2 + 1, nullptr), "log reservation");
  EXPECT_DEATH(appender.finish(), "no log record has been started");
  t.round();
  ASSERT_TRUE(ok(appender.reserve(test::kBuffer / 2, nullptr)));
  EXPECT_DEATH(test::append(appender, 1, kMaxRecordBytes), "too large");
}

}  // namespace
}  // namespace ls
