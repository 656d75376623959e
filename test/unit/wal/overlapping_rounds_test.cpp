// While one round is synced the next one is written, and synced: which commit is acknowledged when,
// which worker wakes which.
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "os/clock.hpp"
#include "unit/wal/log_fixture.hpp"
#include "wal/log_writer.hpp"

namespace ls {
namespace {

using test::TestLog;

// Holds chosen calls up, before the system is called.
class Gate : public FileObserver {
 public:
  Gate(FaultOp op, std::set<u32> held) : op_(op), held_(std::move(held)) {}
  u64 before(const FileCall &call) override {
    if (call.op != op_) return 0;
    std::unique_lock lock(mutex_);
    const u32 number = ++begun_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held_.contains(number); });
    return 0;
  }
  void after(const FileCall &, u64, bool) override {}
  bool await(u32 begun) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return begun_ >= begun; });
  }
  u32 begun() {
    std::lock_guard lock(mutex_);
    return begun_;
  }
  void release(u32 number) {
    std::lock_guard lock(mutex_);
    held_.erase(number);
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const FaultOp op_;
  std::set<u32> held_;
  u32 begun_ = 0;
};

class OverlappingRounds : public testing::Test {
 protected:
  struct Worker {
    std::unique_ptr<LogAppender> log;
    Gsn gsn = 0;
    std::atomic<int> hardened{-1};  // what the wait returned
    volatile int interrupt = 0;
    std::thread thread;
  };

  OverlappingRounds() { EXPECT_TRUE(ok(t_.log().open_for_append(0, 0, 1))); }
  ~OverlappingRounds() override {
    for (auto &gate : gates_) {
      for (u32 number = 1; number < 10; number++) gate->release(number);
    }
    for (Worker &w : workers_) {
      __atomic_store_n(&w.interrupt, 1, __ATOMIC_RELAXED);
      if (w.thread.joinable()) w.thread.join();
    }
    file_observer.store(nullptr);
  }

  // The calls are counted from here on; those that an earlier gate holds stay there.
  Gate &hold(FaultOp op, std::set<u32> calls) {
    gates_.push_back(std::make_unique<Gate>(op, std::move(calls)));
    file_observer.store(gates_.back().get());
    return *gates_.back();
  }
  void commit(u32 i) {
    Worker &w = workers_[i];
    if (!w.log) w.log = std::make_unique<LogAppender>(t_.log(), i);
    test::reserve_append(*w.log, i, 50);
    EXPECT_TRUE(ok(w.log->reserve(64, nullptr)));
    w.gsn = test::append_commit(*w.log, i + 1);
  }
  void wait(u32 i, bool interruptible = false) {
    Worker &w = workers_[i];
    w.thread = std::thread([&w, flag = interruptible ? &w.interrupt : nullptr] {
      w.hardened = w.log->wait_hardened(w.gsn, flag);
    });
  }
  bool comes_back(u32 i) {
    for (const u64 end = now_ms() + 20'000; workers_[i].hardened < 0 && now_ms() < end;)
      std::this_thread::yield();
    return workers_[i].hardened >= 0;
  }
  void await_in_line(u32 i) {
    while (t_.log().slot(i)->wait_gsn.load() == 0) std::this_thread::yield();
  }

  TestLog t_;
  std::vector<std::unique_ptr<Gate>> gates_;
  Worker workers_[4];
};

TEST_F(OverlappingRounds, the_next_is_written_and_synced_while_one_is_synced) {
  Gate &syncs = hold(FaultOp::kSync, {1});
  commit(0);
  wait(0);
  ASSERT_TRUE(syncs.await(1));
  EXPECT_LT(t_.log().hardened(), workers_[0].gsn) << "not synced";
  commit(1);
  wait(1);
  ASSERT_TRUE(comes_back(1));
  EXPECT_EQ(workers_[1].hardened, 1);
  EXPECT_GE(t_.log().hardened(), workers_[1].gsn) << "its sync covers the round before, too";
  EXPECT_EQ(t_.read().entries.size(), 4u);
  syncs.release(1);
  ASSERT_TRUE(comes_back(0));
  EXPECT_EQ(workers_[0].hardened, 1);
  EXPECT_GE(t_.log().hardened(), workers_[1].gsn)
      << "does not go back with the sync that ended last";
  EXPECT_EQ(t_.log().end(), t_.log().shared()->round.end.load());
  EXPECT_EQ(t_.log().shared()->in_line.load(), 0u);
}

TEST_F(OverlappingRounds, who_comes_too_late_for_one_is_woken_when_it_is_written) {
  Gate &writes = hold(FaultOp::kWrite, {1});
  commit(0);
  wait(0);
  ASSERT_TRUE(writes.await(1));
  commit(1);
  wait(1);
  await_in_line(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  Gate &syncs = hold(FaultOp::kSync, {1});
  const u64 begin = now_ms();
  writes.release(1);
  // Whichever comes first is held up; the other one does not wait for it.
  ASSERT_TRUE(syncs.await(2));
  EXPECT_LT(now_ms() - begin, kUninterruptedSleepUs / 2000) << "woken, not by chance";
  syncs.release(1);
  for (u32 i = 0; i < 2; i++) {
    ASSERT_TRUE(comes_back(i));
    EXPECT_EQ(workers_[i].hardened, 1);
  }
  EXPECT_EQ(t_.log().shared()->in_line.load(), 0u);
}

TEST_F(OverlappingRounds, more_than_so_many_wait_until_one_has_been_synced) {
  Gate &syncs = hold(FaultOp::kSync, {1, 2, 3});
  for (u32 i = 0; i < kMostSyncing; i++) {
    commit(i);
    wait(i);
    ASSERT_TRUE(syncs.await(i + 1));
  }
  commit(kMostSyncing);
  wait(kMostSyncing);
  await_in_line(kMostSyncing);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(syncs.begun(), kMostSyncing);
  EXPECT_EQ(t_.log().stats().rounds, kMostSyncing);
  const u64 begin = now_ms();
  syncs.release(1);
  ASSERT_TRUE(comes_back(kMostSyncing));
  EXPECT_LT(now_ms() - begin, kUninterruptedSleepUs / 2000) << "woken, not by chance";
  EXPECT_EQ(workers_[kMostSyncing].hardened, 1);
  ASSERT_TRUE(comes_back(0));
}

TEST_F(OverlappingRounds, wake_who_begins_to_wait_while_they_are_synced) {
  Gate &syncs = hold(FaultOp::kSync, {1});
  commit(1);
  commit(0);
  wait(0);
  ASSERT_TRUE(syncs.await(1));
  wait(1);
  await_in_line(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(workers_[1].hardened, -1) << "what is not synced is not acknowledged";
  EXPECT_EQ(syncs.begun(), 1u);
  const u64 begin = now_ms();
  syncs.release(1);
  ASSERT_TRUE(comes_back(1));
  EXPECT_LT(now_ms() - begin, kUninterruptedSleepUs / 2000);
  ASSERT_TRUE(comes_back(0));
  EXPECT_EQ(t_.log().stats().rounds, 1u);
  EXPECT_EQ(t_.log().shared()->in_line.load(), 0u);
}

// A worker in the round that is being synced cannot join the next: it is not waited for.
TEST_F(OverlappingRounds, who_is_under_way_is_in_no_commit_group) {
  for (u32 i = 0; i < 2; i++) {
    commit(i);
    wait(i);
    ASSERT_TRUE(comes_back(i));
    workers_[i].thread.join();
    workers_[i].hardened = -1;
  }
  Gate &syncs = hold(FaultOp::kSync, {1});
  RoundState &round = t_.log().shared()->round;
  round.joined = 0;  // the first one goes by itself
  commit(0);
  wait(0);
  ASSERT_TRUE(syncs.await(1));
  round.joined = 1000;
  round.lately_ns = 1'000'000'000;
  commit(1);
  wait(1);
  ASSERT_TRUE(comes_back(1));
  EXPECT_EQ(round.joined, 1000u) << "it has waited for a commit group";
  syncs.release(1);
  ASSERT_TRUE(comes_back(0));
}

TEST_F(OverlappingRounds, after_a_failed_sync_no_other_one_acknowledges_anything) {
  Gate &syncs = hold(FaultOp::kSync, {1});
  commit(0);
  wait(0, true);
  ASSERT_TRUE(syncs.await(1));
  fault_add({.op = FaultOp::kSync, .path_part = t_.segment_path(0), .error = EIO});
  commit(1);
  wait(1, true);
  while (!t_.log().failed()) std::this_thread::yield();
  fault_clear();
  syncs.release(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(t_.log().hardened(), 0u);
  for (u32 i = 0; i < 2; i++) {
    EXPECT_EQ(workers_[i].hardened, -1) << "it waits for the host's PANIC";
    __atomic_store_n(&workers_[i].interrupt, 1, __ATOMIC_RELAXED);
    ASSERT_TRUE(comes_back(i));
    EXPECT_EQ(workers_[i].hardened, 0);
  }
  u64 wrote;
  EXPECT_EQ(code(t_.log().commit_round(&wrote)), LS_IO_ERROR);
  EXPECT_EQ(last_error().sys_errno, EIO);
}

}  // namespace
}  // namespace ls
