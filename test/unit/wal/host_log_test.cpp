// Rounds in a host's log and in the relay log: what a crash leaves is what the host had flushed.
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "os/fault.hpp"
#include "os/thread.hpp"
#include "recovery/control_file.hpp"
#include "recovery/relay_replay.hpp"
#include "unit/wal/log_fixture.hpp"
#include "unit/wal/memory_host.hpp"
#include "wal/host_post.hpp"

namespace ls {
namespace {

class HostLogTest : public testing::Test {
 protected:
  HostLogTest() { config_.host_log = true; begin_life(0, 0); }
  ~HostLogTest() override { log().close_for_append(); }

  Log log() { return Log::attach(arena_.get()); }

  void begin_life(Lsn end, Gsn gsn) {
    file_setup(".", false, true, 256);
    config_.slots = 8;
    config_.buffer_bytes = test::kBuffer;
    config_.segment_bytes = test::kSegment;
    config_.fsync = true;
    std::snprintf(config_.dir, sizeof config_.dir, "%s/wal", directory_.path().c_str());
    if (arena_) log().close_for_append();
    const size_t bytes = (Log::arena_bytes(config_) + 4095) / 4096 * 4096;
    arena_.reset(std::aligned_alloc(4096, bytes));
    std::memset(arena_.get(), 0, bytes);
    Log::create(arena_.get(), config_);
    ASSERT_TRUE(ok(log().open_for_append(end, gsn, ++run_))) << last_error().message;
    ControlFile control{};
    control.run = control.redo_run = run_;
    control.redo_lsn = end;
    control.redo_run = 0;
    control.segment_bytes = test::kSegment;
    control.host_log = 1;
    ASSERT_TRUE(ok(control_write(directory_.path().c_str(), control))) << last_error().message;
  }

  // RELAY-1: what is in the relay log by now outlives a loss of power.
  void checkpoint() {
    host_.checkpoint();
    ASSERT_TRUE(ok(log().complete_relay()));
    std::filesystem::remove_all(synced_dir());
    std::filesystem::copy(config_.dir, synced_dir());
  }
  void lose_power() {
    std::filesystem::remove_all(config_.dir);
    std::filesystem::copy(synced_dir(), config_.dir);
  }

  // The host's log as it is after a crash, replayed; what the relay log has then.
  LogImage replay(Lsn from) {
    host_.crash();
    RelayReplay relay(directory_.path().c_str(), test::kSegment, true, false);
    if (replays_++ % 2 == 1) relay.gather();
    for (u64 i = host_.redo(); i < host_.log().size(); i++) {
      const test::MemoryHost::Record &record = host_.log()[i];
      EXPECT_TRUE(ok(relay.add(record.position, record.bytes))) << last_error().message;
    }
    EXPECT_TRUE(ok(relay.finish())) << last_error().message;
    LogImage image;
    EXPECT_TRUE(ok(read_log(config_.dir, test::kSegment, from, 0, image))) << last_error().message;
    return image;
  }

  // So much more may not fit into the segments that are there.
  bool needs_committer(u64 bytes) {
    const LogShared *shared = log().shared();
    return shared->round.end.load() + bytes >= shared->ready_until.load();
  }

  // Where the host's log ends, in the stream.
  Lsn end_in_host(Lsn none) const {
    return host_.log().empty() ? none
                               : host_.log().back().position + host_.log().back().bytes.size();
  }

  test::MemoryHost host_;
  test::TempDirectory directory_;
  LogConfig config_{};

 private:
  struct Free {
    void operator()(void *p) const { std::free(p); }
  };
  std::string synced_dir() const { return directory_.path() + "/synced"; }
  std::unique_ptr<void, Free> arena_;
  u64 run_ = 0;
  u32 replays_ = 0;   // every other one gathers rounds
};

TEST_F(HostLogTest, a_written_round_is_hardened_when_the_host_flushes_it) {
  LogAppender a(log(), 0);
  // the first round of a start is flushed
  u64 host;
  ASSERT_TRUE(ok(a.write_out(test::reserve_append(a, 1, 50), nullptr, &host)));
  EXPECT_EQ(host, 1u);
  const Gsn gsn = test::reserve_append(a, 2, 50);
  ASSERT_TRUE(ok(a.write_out(gsn, nullptr, &host)));
  EXPECT_EQ(host, 2u);
  log().note_flushed();
  EXPECT_EQ(log().hardened(), gsn - 1);
  host_.flush_some(2);
  EXPECT_EQ(log().hardened(), gsn - 1);
  log().note_flushed();
  EXPECT_EQ(log().hardened(), gsn);
  EXPECT_EQ(log().end(), end_in_host(0));
  EXPECT_EQ(host_.flushes(), 0u);
}

TEST_F(HostLogTest, what_another_worker_has_written_is_not_written_again) {
  LogAppender a(log(), 0), b(log(), 1);
  const Gsn first = test::reserve_append(a, 1, 50), second = test::reserve_append(b, 2, 50);
  u64 host;
  ASSERT_TRUE(ok(a.write_out(first, nullptr, &host)));
  ASSERT_TRUE(ok(b.write_out(second, nullptr, &host)));
  EXPECT_EQ(host_.log().size(), 1u);
  EXPECT_EQ(host, 1u);
}

TEST_F(HostLogTest, a_worker_that_waits_writes_and_flushes) {
  LogAppender a(log(), 0);
  const Gsn gsn = test::reserve_append(a, 1, 50);
  EXPECT_TRUE(a.wait_hardened(gsn, nullptr));
  const Gsn next = test::reserve_append(a, 2, 50);
  EXPECT_TRUE(a.wait_hardened(next, nullptr));
  EXPECT_EQ(host_.flushes(), 1u);   // the first one was flushed by insert
  EXPECT_EQ(log().hardened(), next);
}

// An engine thread must not use the host's log.
TEST_F(HostLogTest, a_thread_without_the_host_waits_for_the_pump) {
  std::atomic<bool> done{false};
  Gsn gsn = 0;
  std::thread other([&] {
    LogAppender a(log(), 0);
    gsn = test::reserve_append(a, 1, 50);
    EXPECT_TRUE(a.wait_hardened(gsn, nullptr));
    gsn = test::reserve_append(a, 2, 50);
    EXPECT_TRUE(log().wait_hardened(gsn, nullptr));
    done = true;
  });
  while (!done) ASSERT_TRUE(ok(log().pump(1000))) << last_error().message;
  other.join();
  EXPECT_EQ(log().hardened(), gsn);
}

// The same with bytes of values.  They are in the host's log when the call returns, and the pump
// does not flush for them.
TEST_F(HostLogTest, values_of_a_thread_without_the_host_go_by_the_pump) {
  const std::vector<u8> bytes(5000, 'x');
  const ls_rel_key relation{1, 2, 3, -1};
  const HostInsert values = [&](const ls_host_log &host) {
    host.insert_values(&relation, 17, bytes.data(), bytes.size());
  };
  Log mine = log();
  ASSERT_TRUE(ok(post_to_host(mine, values, nullptr)));
  std::atomic<bool> done{false};
  std::thread other([&] {
    Log its = log();
    EXPECT_TRUE(ok(post_to_host(its, values, nullptr)));
    EXPECT_EQ(host_.log().size(), 2u);
    done = true;
  });
  while (!done) ASSERT_TRUE(ok(log().pump(1000))) << last_error().message;
  other.join();
  for (const test::MemoryHost::Record &record : host_.log()) {
    EXPECT_TRUE(record.values && record.relation.relation == 3 && record.position == 17);
    EXPECT_EQ(record.bytes, bytes);
  }
  EXPECT_EQ(host_.flushed(), 0u);
}

// Without a pump: the thread is to stop, or the log has.
TEST_F(HostLogTest, values_that_are_not_taken_are_taken_back) {
  const std::vector<u8> bytes(10, 'x');
  const ls_rel_key relation{1, 2, 3, -1};
  const HostInsert values = [&](const ls_host_log &host) {
    host.insert_values(&relation, 17, bytes.data(), bytes.size());
  };
  volatile int stop = 1;
  std::thread other([&] {
    Log its = log();
    EXPECT_EQ(code(post_to_host(its, values, &stop)), LS_INTERRUPTED);
    its.shared()->stopped.store(1);
    EXPECT_EQ(code(post_to_host(its, values, nullptr)), LS_INTERRUPTED);
    its.shared()->stopped.store(0);
  });
  other.join();
  insert_posted();
  EXPECT_TRUE(host_.log().empty());
}

// RELAY-1.
TEST_F(HostLogTest, stop_ends_with_a_last_round_and_a_synced_relay_log) {
  Thread committer;
  Status status = kOk;
  ASSERT_TRUE(ok(committer.start("committer", [&] { status = log().run_committer(10); })));
  LogAppender a(log(), 0);
  EXPECT_TRUE(log().relay_is_synced(log().request_relay_sync()));   // nothing is there
  u64 host;
  ASSERT_TRUE(ok(a.write_out(test::reserve_append(a, 1, 50), nullptr, &host)));
  const u32 request = log().request_relay_sync();
  while (!log().relay_is_synced(request)) ASSERT_TRUE(ok(log().pump(1000)));
  const Gsn gsn = test::reserve_append(a, 1, 50);
  log().stop();
  while (log().hardened() < gsn) ASSERT_TRUE(ok(log().pump(1000)));
  while (log().shared()->stopped.load() == 0) ASSERT_TRUE(ok(log().pump(1000)));
  committer.join();
  EXPECT_TRUE(ok(status)) << last_error().message;
}

// A checkpoint of the engine may have removed what a sync for the host would begin with.
TEST_F(HostLogTest, truncated_segments_need_no_sync) {
  Thread committer;
  Status status = kOk;
  ASSERT_TRUE(ok(committer.start("committer", [&] { status = log().run_committer(10); })));
  LogAppender a(log(), 0);
  for (u64 i = 1; log().end() < 10 * test::kSegment; i++) {
    test::reserve_append(a, i, 15000);
    u64 ignored;
    ASSERT_TRUE(ok(log().commit_round(&ignored))) << last_error().message;
  }
  ASSERT_TRUE(ok(log().truncate(log().end())));
  const u32 request = log().request_relay_sync();
  for (int i = 0; i < 100 && !log().relay_is_synced(request); i++)
    ASSERT_TRUE(ok(log().pump(10000)));
  EXPECT_TRUE(log().relay_is_synced(request));
  log().stop();
  for (int i = 0; i < 100 && log().shared()->stopped.load() == 0; i++)
    ASSERT_TRUE(ok(log().pump(1000)));
  committer.join();
  EXPECT_TRUE(ok(status));
}

TEST_F(HostLogTest, what_the_host_has_lost_is_cut_off) {
  LogAppender a(log(), 0);
  u64 host;
  ASSERT_TRUE(ok(a.write_out(test::reserve_append(a, 1, 50), nullptr, &host)));
  const Gsn kept = test::reserve_append(a, 2, 50);
  ASSERT_TRUE(ok(a.write_out(kept, nullptr, &host)));
  host_.flush_some(2);
  for (u64 i = 3; i < 60; i++)
    ASSERT_TRUE(ok(a.write_out(test::reserve_append(a, i, 10000), nullptr, &host)));
  const LogImage image = replay(0);
  EXPECT_EQ(image.entries.size(), 2u);
  EXPECT_EQ(image.complete_gsn, kept);
  EXPECT_EQ(image.end, end_in_host(0));
}

// Without the host's part of RELAY-2 the rounds behind the checkpoint would be taken for durable.
TEST_F(HostLogTest, nothing_is_in_the_relay_log_when_nothing_is_replayed) {
  for (const bool keeps_the_rule : {false, true}) {
    host_.flushes_first = keeps_the_rule;
    LogAppender a(log(), 0);
    u64 host;
    const Lsn before = log().shared()->round.end.load();
    ASSERT_TRUE(ok(a.write_out(test::reserve_append(a, 1, 50), nullptr, &host)));
    host_.checkpoint();
    const Gsn gsn = test::reserve_append(a, 2, 50);
    ASSERT_TRUE(ok(a.write_out(gsn, nullptr, &host)));
    ASSERT_TRUE(ok(log().complete_relay()));
    const LogImage image = replay(before);
    EXPECT_EQ(image.complete_gsn, gsn);
    EXPECT_EQ(image.end == end_in_host(0), keeps_the_rule);
    begin_life(image.end, image.max_gsn);
  }
}

// What a crash has left in its place is read, and not written, where rounds are gathered.
TEST_F(HostLogTest, rounds_that_are_there_are_not_written_once_more) {
  LogAppender a(log(), 0);
  for (u64 i = 1; i < 400; i++) {
    u64 host;
    ASSERT_TRUE(ok(a.write_out(test::reserve_append(a, i, 900), nullptr, &host)));
  }
  ASSERT_TRUE(ok(log().complete_relay()));
  const auto replayed = [&] {
    RelayReplay relay(directory_.path().c_str(), test::kSegment, false, false);
    relay.gather();
    Status status = kOk;
    for (u64 i = 0; ok(status) && i < host_.log().size(); i++)
      status = relay.add(host_.log()[i].position, host_.log()[i].bytes);
    return ok(status) ? relay.sync() : status;
  };
  fault_add({.op = FaultOp::kWrite, .path_part = "/wal/", .every = true});
  EXPECT_TRUE(ok(replayed())) << last_error().message;
  EXPECT_EQ(fault_hits(), 0u);
  const std::string first = log_segment_path(config_.dir, 0);
  std::fstream file(first, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(100'000);
  file.put('?').flush();
  EXPECT_EQ(code(replayed()), LS_IO_ERROR);
  fault_clear();
  EXPECT_TRUE(ok(replayed()));
  LogImage image;
  ASSERT_TRUE(ok(read_log(config_.dir, test::kSegment, 0, 0, image))) << last_error().message;
  EXPECT_EQ(image.end, end_in_host(0));
}

TEST_F(HostLogTest, a_gap_and_bytes_that_are_no_round_are_damage) {
  LogAppender a(log(), 0);
  u64 host;
  for (u64 i = 1; i < 4; i++)
    ASSERT_TRUE(ok(a.write_out(test::reserve_append(a, i, 50), nullptr, &host)));
  const std::string outer = std::string(log().shared()->config.dir) + "/..";
  RelayReplay relay(outer.c_str(), test::kSegment, true, false);
  const auto &records = host_.log();
  ASSERT_TRUE(ok(relay.add(records[0].position, records[0].bytes)));
  EXPECT_EQ(code(relay.add(records[2].position, records[2].bytes)), LS_NOT_FOUND);
  std::vector<u8> bytes = records[1].bytes;
  bytes.back() ^= 1;
  EXPECT_EQ(code(relay.add(records[1].position, bytes)), LS_CORRUPT);
  bytes.pop_back();
  EXPECT_EQ(code(relay.add(records[1].position, bytes)), LS_CORRUPT);
  EXPECT_TRUE(ok(relay.add(records[1].position, records[1].bytes)));
}

// Random workers, flushes, checkpoints and crashes; what is read is the model's prefix.
TEST_F(HostLogTest, a_crash_leaves_what_the_host_has_flushed) {
  const u64 seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::set<Gsn> model;   // places of what was appended
  Lsn from = 0;
  for (int life = 0; life < 20; life++) {
    checkpoint();   // as the host makes one at the end of its recovery
    std::vector<std::unique_ptr<LogAppender>> workers;
    for (u32 i = 0; i < 4; i++) workers.push_back(std::make_unique<LogAppender>(log(), i));
    for (u64 step = random() % 300; step > 0; step--) {
      LogAppender &worker = *workers[random() % 4];
      const u64 what = random() % 20;
      u64 host, ignored;
      if (what < 10) {
        const size_t bytes = random() % (random() % 20 == 0 ? 15000 : 200);
        if (needs_committer(70000)) {
          ASSERT_TRUE(ok(log().commit_round(&ignored)));
        }
        ASSERT_TRUE(ok(worker.write_out(log().last_gsn(), nullptr, &host)));   // room
        const Gsn gsn = test::reserve_append(worker, random() % 1000, bytes);
        model.insert(gsn);
      } else if (what < 15) {
        ASSERT_TRUE(ok(worker.write_out(log().last_gsn(), nullptr, &host)));
      } else if (what < 17) {
        host_.flush_some(random() % (host_.log().size() + 1));
        log().note_flushed();
      } else if (what < 18) {
        ASSERT_TRUE(ok(log().commit_round(&ignored)));
      } else if (what < 19) {
        checkpoint();
      }
    }
    const Gsn hardened = log().hardened();
    workers.clear();
    if (random() % 2 == 0) lose_power();
    const LogImage image = replay(from);
    EXPECT_GE(image.complete_gsn, hardened);
    EXPECT_EQ(image.end, end_in_host(0));
    // Of this and all earlier lives: what a crash has cut is gone for good.
    model.erase(model.upper_bound(image.complete_gsn), model.end());
    ASSERT_EQ(test::gsns(image), std::vector<Gsn>(model.begin(), model.end()));
    begin_life(image.end, std::max(image.max_gsn, hardened));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace ls
