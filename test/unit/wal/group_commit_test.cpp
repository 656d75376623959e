// The order of things: what is hardened when, seen from one thread; then with many and a committer,
// and with crashes.
#include <algorithm>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "os/clock.hpp"
#include "os/thread.hpp"
#include "unit/base/failpoint_actions.hpp"
#include "unit/wal/log_fixture.hpp"
#include "wal/log_writer.hpp"

namespace ls {
namespace {

using test::TestLog;

class GroupCommitTest : public testing::Test {
 protected:
  GroupCommitTest() { EXPECT_TRUE(ok(t_.log().open_for_append(0, 0, 1))); }
  TestLog t_;
};

TEST_F(GroupCommitTest, an_idle_round_writes_nothing) {
  EXPECT_EQ(t_.round(), 0u);
  EXPECT_EQ(t_.log().end(), 0u);
  EXPECT_EQ(t_.log().stats().rounds, 0u);
}

TEST_F(GroupCommitTest, one_round_takes_all_slots) {
  std::deque<LogAppender> appenders;  // they do not move
  for (u32 i = 0; i < 8; i++) appenders.emplace_back(t_.log(), i);
  for (u32 i = 0; i < 8; i++) test::reserve_append(appenders[i], i, 100 + i);
  u64 wrote = t_.round();
  EXPECT_EQ(t_.log().hardened(), 8u);
  EXPECT_EQ(t_.log().end(), wrote);
  Log::Stats stats = t_.log().stats();
  EXPECT_EQ(stats.rounds, 1u);
  EXPECT_EQ(stats.fsyncs, 1u);
  EXPECT_EQ(stats.bytes, wrote);
  LogImage image = t_.read();
  ASSERT_EQ(image.entries.size(), 8u);
  for (u32 i = 0; i < 8; i++) {
    EXPECT_TRUE(test::holds(image.entries[i], i, 100 + i));
    EXPECT_EQ(image.entries[i].slot, i);
  }
}

// WAL-2
TEST_F(GroupCommitTest, nothing_behind_an_append_under_way_is_hardened) {
  LogAppender a(t_.log(), 0), b(t_.log(), 1);
  test::reserve_append(a, 1, 10);
  test::StalledAppend stalled(t_.log(), 2);
  EXPECT_EQ(stalled.gsn(), 2u);
  ASSERT_TRUE(ok(b.reserve(64, nullptr)));
  EXPECT_EQ(test::append_commit(b, 42), 3u);
  EXPECT_GT(t_.round(), 0u);
  EXPECT_EQ(t_.log().hardened(), 1u);
  EXPECT_EQ(t_.log().stats().commits_held, 1u);
  EXPECT_EQ(test::gsns(t_.read()), (std::vector<Gsn>{1})) << "a crash here loses both";
  // The record behind is written already.
  stalled.end();
  EXPECT_EQ(t_.round(), kRoundHeaderBytes)
      << "the new complete_gsn has to be durable before it is acknowledged";
  EXPECT_EQ(t_.log().hardened(), 3u);
  LogImage image = t_.read();
  EXPECT_EQ(test::gsns(image), (std::vector<Gsn>{1, 3}));
  EXPECT_EQ(image.entries[1].record().kind, RecordKind::kCommit);
  EXPECT_EQ(image.entries[1].record().tn(), 42u);
  EXPECT_EQ(t_.log().stats().commits, 1u);
  EXPECT_EQ(t_.round(), 0u);
}

// LOG-2
TEST_F(GroupCommitTest, a_bound_in_a_slot_is_respected) {
  LogAppender a(t_.log(), 0);
  for (u64 i = 1; i <= 5; i++) test::reserve_append(a, i, 10);
  // Another worker is between LOG-1's first and last step, with GSN 4 as bound.
  LogSlot *slot = t_.log().slot(5);
  LogAppender b(t_.log(), 5);
  slot->appending.store(4);
  t_.round();
  EXPECT_EQ(t_.log().hardened(), 3u);
  EXPECT_EQ(test::gsns(t_.read()), (std::vector<Gsn>{1, 2, 3}));
  slot->appending.store(0);
  EXPECT_EQ(t_.round(), kRoundHeaderBytes);
  EXPECT_EQ(t_.log().hardened(), 5u);
  // A bound from a stale look at the counter takes nothing back.
  slot->appending.store(2);
  test::reserve_append(a, 6, 10);
  t_.round();
  EXPECT_EQ(t_.log().hardened(), 5u);
  EXPECT_EQ(test::gsns(t_.read()), (std::vector<Gsn>{1, 2, 3, 4, 5}));
  slot->appending.store(0);
}

// More than one staging buffer can hold, GSNs interleaved over all slots.
constexpr u32 kManySlots = 24, kManyRecords = 30;
void append_much(TestLog &t) {
  std::deque<LogAppender> appenders;  // they do not move
  for (u32 i = 0; i < kManySlots; i++) {
    appenders.emplace_back(t.log(), i);
    ASSERT_TRUE(ok(appenders.back().reserve(256 << 10, nullptr)));
  }
  u64 seed = 1;
  for (u32 k = 0; k < kManyRecords; k++) {
    for (LogAppender &appender : appenders) test::append(appender, seed++, 8000);
  }
}

TEST_F(GroupCommitTest, a_crash_between_the_rounds_of_one_collection_keeps_none_of_them) {
  TestLog t(kManySlots, 512 << 10, false);
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  // All segments are there already, so that writes to them are the rounds'.
  for (u64 s = 1; s <= 6; s++) std::filesystem::copy_file(t.segment_path(0), t.segment_path(s));
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 2)));
  append_much(t);
  // The first round is written whole, the second begins before this segment and ends behind it.
  fault_add(
      {.op = FaultOp::kWrite, .path_part = t.segment_path(4), .outcome = FaultOutcome::kCrash});
  u64 wrote;
  ASSERT_EQ(code(t.log().commit_round(&wrote)), LS_IO_ERROR);
  fault_clear();
  LogImage image = t.read();
  EXPECT_GT(image.max_gsn, 0u) << "the first round is there";
  EXPECT_TRUE(image.entries.empty()) << "but does not hold everything before what it holds";
}

// WAL-3
TEST_F(GroupCommitTest, a_large_collection_is_cut_into_rounds) {
  TestLog t(kManySlots, 512 << 10);
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  append_much(t);
  const u64 seed = kManySlots * kManyRecords + 1;
  t.round();
  EXPECT_GT(t.log().stats().rounds, 1u);
  EXPECT_EQ(t.log().hardened(), seed - 1);
  LogImage image = t.read();
  ASSERT_EQ(image.entries.size(), seed - 1);
  for (u64 i = 1; i < seed; i++) ASSERT_TRUE(test::holds(image.entries[i - 1], i, 8000));
}

// SLOT-4
TEST_F(GroupCommitTest, position_of_is_never_too_late_and_not_much_too_early) {
  TestLog t(8, test::kBuffer, false);
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  LogAppender a(t.log(), 0), b(t.log(), 1);
  std::mt19937_64 random(11);
  for (u64 i = 1; i <= 1500; i++) {
    test::reserve_append(i % 3 ? a : b, i, random() % 3000);
    if (random() % 5 == 0) t.round();
    if (t.log().slot(0)->published - t.log().slot(0)->drained > 20000) t.round();
  }
  t.round();
  LogImage image = t.read();
  ASSERT_EQ(image.entries.size(), 1500u);
  Lsn least_behind = t.log().end();
  for (size_t i = image.entries.size(); i-- > 0;) {
    least_behind = std::min(least_behind, image.entries[i].lsn);
    Lsn position = t.log().position_of(image.entries[i].gsn);
    ASSERT_LE(position, least_behind);
    ASSERT_LE(least_behind - position, kPositionInterval + 100'000);
  }
  EXPECT_EQ(t.log().position_of(1501), t.log().end());
  // It is a place to read from.
  Lsn from = t.log().position_of(1250);
  EXPECT_GT(from, 0u);
  LogImage tail = t.read(from);
  EXPECT_EQ(tail.end, image.end);
  EXPECT_EQ(tail.entries.back().gsn, 1500u);
  EXPECT_LE(tail.entries.front().gsn, 1250u);
}

TEST_F(GroupCommitTest, position_before_this_run_is_unknown) {
  LogAppender a(t_.log(), 0);
  for (u64 i = 1; i <= 10; i++) test::reserve_append(a, i, 100);
  t_.round();
  t_.recover();
  EXPECT_EQ(t_.log().position_of(10), 0u);
  EXPECT_EQ(t_.log().position_of(11), t_.log().end());
  LogAppender again(t_.log(), 0);
  Lsn start = t_.log().end();
  EXPECT_EQ(test::reserve_append(again, 11, 100), 11u);
  t_.round();
  EXPECT_EQ(t_.log().position_of(11), start);
}

TEST(PositionTable, thins_out_when_full) {
  auto shared = std::make_unique<LogShared>();
  PositionTable &table = shared->positions;
  Log log = Log::attach(shared.get());
  constexpr u64 kRounds = 5000;  // of one interval and ten GSNs each
  for (u64 i = 0; i < kRounds; i++) log_add_position(table, i * kPositionInterval, i * 10);
  table.end = kRounds * kPositionInterval;
  table.max_written = kRounds * 10;
  EXPECT_LE(table.count, kPositionSamples);
  EXPECT_GT(table.count, kPositionSamples / 4);
  for (u64 i = 1; i <= kRounds; i += 7) {
    Gsn gsn = i * 10;  // largest GSN of round i, which begins at (i - 1) MiB
    Lsn position = log.position_of(gsn);
    ASSERT_LE(position, (i - 1) * kPositionInterval);
    ASSERT_LE((i - 1) * kPositionInterval - position, table.interval);
  }
}

// ---- with a committer thread

class CommitterTest : public testing::Test {
 protected:
  void run(Log log, u32 idle_ms = 10) {
    ASSERT_TRUE(ok(committer_.start(
        "committer", [this, log, idle_ms]() mutable { result_ = log.run_committer(idle_ms); })));
  }
  void stop(Log log) {
    log.stop();
    committer_.join();
    EXPECT_TRUE(ok(result_));
  }
  Thread committer_;
  Status result_{LS_INVALID};
};

TEST_F(CommitterTest, waiters_are_woken) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  run(t.log(), 60'000);  // only kicks can be the reason
  LogAppender a(t.log(), 0);
  for (u64 i = 1; i <= 50; i++) {
    Gsn gsn = test::reserve_append(a, i, 100);
    ASSERT_TRUE(t.log().wait_hardened(gsn, nullptr));
    ASSERT_GE(t.log().hardened(), gsn);
  }
  stop(t.log());
}

TEST_F(CommitterTest, the_end_of_an_append_wakes_who_was_passed_over) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  run(t.log(), 60'000);
  LogAppender b(t.log(), 1);
  for (int i = 0; i < 10; i++) {
    test::StalledAppend stalled(t.log(), 0);
    Gsn behind = test::reserve_append(b, 1, 10);
    std::thread waiter([&] { EXPECT_TRUE(t.log().wait_hardened(behind, nullptr)); });
    while (t.log().end() == 0) std::this_thread::yield();
    if (i % 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    stalled.end();
    waiter.join();
  }
  stop(t.log());
}

TEST_F(CommitterTest, idle_rounds_harden_what_nobody_waits_for) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  run(t.log(), 5);
  LogAppender a(t.log(), 0);
  Gsn gsn = test::reserve_append(a, 1, 10);
  u64 deadline = now_ms() + 20'000;
  while (t.log().hardened() < gsn && now_ms() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(t.log().hardened(), gsn);
  stop(t.log());
}

TEST_F(CommitterTest, stop_hardens_the_rest_and_ends_waits) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  run(t.log(), 60'000);
  LogAppender a(t.log(), 0);
  Gsn gsn = test::reserve_append(a, 1, 10);
  test::StalledAppend stalled(t.log(), 1);
  std::thread waiter([&] { EXPECT_FALSE(t.log().wait_hardened(stalled.gsn(), nullptr)); });
  stop(t.log());
  waiter.join();
  EXPECT_EQ(t.log().hardened(), gsn);
  EXPECT_EQ(test::gsns(t.read()), (std::vector<Gsn>{gsn}));
}

TEST_F(CommitterTest, a_wait_can_be_interrupted) {
  TestLog t;
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  LogAppender a(t.log(), 0);
  Gsn gsn = test::reserve_append(a, 1, 10);
  volatile int interrupt = 0;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    __atomic_store_n(&interrupt, 1, __ATOMIC_RELAXED);
  });
  EXPECT_FALSE(t.log().wait_hardened(gsn, &interrupt));
  other.join();
  t.round();
  EXPECT_TRUE(t.log().wait_hardened(gsn, &interrupt)) << "hardened is hardened";
}

// What a worker of the concurrent tests did, for comparison with what is read back.
struct History {
  struct Item {
    Gsn gsn;
    u64 seed;
    u32 bytes;     // payload; commits: tn in seed
    bool commit;
  };
  std::vector<Item> items;
  std::atomic<Gsn> acknowledged{0};
};

void work(Log log, u32 slot, u32 transactions, History &history) {
  LogAppender appender(log, slot);
  std::mt19937_64 random(slot + 100);
  for (u32 n = 0; n < transactions; n++) {
    u32 records = 1 + random() % 4;
    for (u32 r = 0; r < records; r++) {
      u64 seed = u64{slot} << 20 | n << 4 | r;
      u32 bytes = random() % (random() % 8 == 0 ? 4000 : 200);
      history.items.push_back({test::reserve_append(appender, seed, bytes), seed, bytes, false});
      if (random() % 16 == 0) {
        appender.start(RecordKind::kSystem);
        appender.abandon();
      }
    }
    ASSERT_TRUE(ok(appender.reserve(64, nullptr)));
    Tn tn = u64{slot} << 20 | n;
    const bool waits = random() % 3 != 0, writes_itself = random() % 2 == 0;
    Gsn commit = test::append_commit(appender, tn);
    history.items.push_back({commit, tn, 0, true});
    if (waits) {
      ASSERT_TRUE(writes_itself ? appender.wait_hardened(commit, nullptr)
                                : log.wait_hardened(commit, nullptr));
      history.acknowledged.store(commit, std::memory_order_release);
    }
  }
}

// The image holds exactly the records with a GSN up to its end that the workers have appended.
void expect_prefix(const LogImage &image, const std::map<Gsn, History::Item> &all) {
  auto entry = image.entries.begin();
  for (const auto &[gsn, item] : all) {
    if (gsn > image.complete_gsn) break;
    ASSERT_NE(entry, image.entries.end()) << "gsn " << gsn << " is missing";
    ASSERT_EQ(entry->gsn, gsn);
    if (item.commit) {
      ASSERT_EQ(entry->record().kind, RecordKind::kCommit);
      ASSERT_EQ(entry->record().tn(), item.seed);
    } else {
      ASSERT_TRUE(test::holds(*entry, item.seed, item.bytes));
    }
    ++entry;
  }
  ASSERT_EQ(entry, image.entries.end()) << "a record that nobody wrote";
}

void copy_backwards(const std::string &from, const std::string &to) {
  constexpr u64 kBlock = 4096;
  u64 size = std::filesystem::file_size(from);
  std::ofstream(to).flush();
  std::filesystem::resize_file(to, size);
  std::fstream in(from, std::ios::binary | std::ios::in),
      out(to, std::ios::binary | std::ios::in | std::ios::out);
  char block[kBlock];
  for (u64 at = size; at > 0;) {
    u64 n = std::min(at, kBlock);
    at -= n;
    in.seekg(static_cast<std::streamoff>(at));
    in.read(block, static_cast<std::streamsize>(n));
    out.seekp(static_cast<std::streamoff>(at));
    out.write(block, static_cast<std::streamsize>(n));
  }
}

// SLOT-3
TEST_F(CommitterTest, every_crash_keeps_a_prefix_with_everything_acknowledged) {
  constexpr u32 kWorkers = 6, kTransactions = 150;
  TestLog t(kWorkers);
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  run(t.log());
  std::vector<History> histories(kWorkers);
  std::atomic<u32> running{kWorkers};
  std::vector<std::thread> threads;
  for (u32 i = 0; i < kWorkers; i++) {
    threads.emplace_back([&, i] {
      work(t.log(), i, kTransactions, histories[i]);
      running--;
    });
  }
  // A crash: the files as they are at some moment.  Copied while they are being written, so that
  // writes are torn, too; and backwards, so that nothing is there that was written after something
  // that is not.
  struct Crash {
    std::string dir;
    Gsn acknowledged;
  };
  std::vector<Crash> crashes;
  while (running > 0 && crashes.size() < 20) {
    Gsn acknowledged = 0;
    for (History &h : histories)
      acknowledged = std::max(acknowledged, h.acknowledged.load(std::memory_order_acquire));
    std::string dir = t.outer_dir() + "/crash" + std::to_string(crashes.size());
    std::filesystem::create_directory(dir);
    std::set<u64> segments;
    ASSERT_TRUE(ok(log_segments_present(t.dir(), segments)));
    for (auto s = segments.rbegin(); s != segments.rend(); ++s)
      copy_backwards(t.segment_path(*s), log_segment_path(dir, *s));
    crashes.push_back({dir, acknowledged});
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (std::thread &thread : threads) thread.join();
  stop(t.log());

  std::map<Gsn, History::Item> all;
  Gsn acknowledged = 0;
  for (History &h : histories) {
    for (const History::Item &item : h.items)
      ASSERT_TRUE(all.emplace(item.gsn, item).second) << "drawn twice";
    acknowledged = std::max(acknowledged, h.acknowledged.load());
  }
  for (const Crash &crash : crashes) {
    LogImage image;
    ASSERT_TRUE(ok(read_log(crash.dir.c_str(), test::kSegment, 0, 0, image)))
        << last_error().message;
    ASSERT_GE(image.complete_gsn, crash.acknowledged);
    ASSERT_NO_FATAL_FAILURE(expect_prefix(image, all));
  }
  LogImage image = t.read();
  EXPECT_GE(image.complete_gsn, acknowledged);
  ASSERT_NO_FATAL_FAILURE(expect_prefix(image, all));
  EXPECT_EQ(image.entries.size(), all.size()) << "an orderly stop loses nothing";
  EXPECT_GE(crashes.size(), 2u);
}

#if LS_FAILPOINTS
// LOG-1
// First worker: draws a GSN.  Second: appends a commit behind it.  Committer: writes and syncs a
// round.  First worker: publishes its record.
TEST_F(GroupCommitTest, race_round_vs_append_hardens_nothing_behind_what_is_not_published) {
  LogAppender a(t_.log(), 0), b(t_.log(), 1);
  test::OnceAt point(Failpoint::log_before_publish, [&] {
    ASSERT_TRUE(ok(b.reserve(64, nullptr)));
    EXPECT_EQ(test::append_commit(b, 42), 2u);
    t_.round();
    EXPECT_EQ(t_.log().hardened(), 0u);
    EXPECT_TRUE(t_.read().entries.empty()) << "a crash here loses both";
  });
  EXPECT_EQ(test::reserve_append(a, 1, 10), 1u);
  EXPECT_TRUE(point.reached());
  t_.round();
  EXPECT_EQ(t_.log().hardened(), 2u);
  EXPECT_EQ(test::gsns(t_.read()), (std::vector<Gsn>{1, 2}));
}
#endif

}  // namespace
}  // namespace ls
