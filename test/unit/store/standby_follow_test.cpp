// A copy of a store follows the original's log, and every snapshot that readers have meanwhile
// shows what had been committed when it was taken.
#include "store/standby_follow.hpp"

#include <thread>

#include "leanstore/standby.h"
#include "txn/followed_txns.hpp"
#include "unit/recovery/restore_fixture.hpp"

namespace ls::test {
namespace {

class FollowTest : public RestoreTest {
 protected:
  struct End {
    u64 xid;
    u64 at;   // the host's log had so many records
    bool committed;
    ImageClient::Rows rows;
  };
  using History = std::vector<End>;

  // A copy is made of the original, which goes on.
  void live_and_copy(u32 transactions) {
    live(kImageXid, false, [&](StoreLife &store, Host &host) {
      std::atomic<bool> copied{false};
      std::vector<std::thread> threads;
      for (u32 i = 0; i < kClients; i++) {
        threads.emplace_back([&, i] {
          host_log_.use();
          ImageClient client(store, host, i, GetParam());
          for (u32 n = 0; (n < transactions || !copied) && !HasFailure(); n++) work(client, i);
          for (u32 n = 0; n < transactions && !HasFailure(); n++) work(client, i);
          client.leave_one_open();
          histories_[i].push_back({0, ~u64{0}, false, client.committed()});
        });
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      take_state(store);
      copy(store);
      copied_at_ = host_log_.size();
      take_later_state(store);
      copied = true;
      for (std::thread &thread : threads) thread.join();
      next_xid_ = host.next_xid();
      offset_ = ls_store_tn_offset(store.store());
      end_at_.assign(next_xid_ - kImageXid, ~u64{0});
      for (const History &history : histories_) {
        for (const End &end : history) {
          if (end.xid == 0) continue;
          end_at_[end.xid - kImageXid] = end.at;
          if (!end.committed) aborted_.insert(end.xid);
        }
      }
    });
  }

  // The original's next checkpoint.
  void take_later_state(StoreLife &store) {
    const u64 redo = redo_, at = state_at_;
    std::vector<u8> first = state_;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    take_state(store);
    later_at_ = state_at_;
    later_state_ = std::exchange(state_, std::move(first));
    redo_ = redo;
    state_at_ = at;
  }

  void work(ImageClient &client, u32 number) {
    u64 at = 0, aborted_at = 0;
    client.commit_record = [&](u64) { at = host_log_.size(); };
    client.abort_record = [&](u64) { aborted_at = host_log_.size(); };
    client.work(1);
    // The host forgets it while its changes, and their undo, are in the log's buffer perhaps.
    if (!client.last_committed()) at = aborted_at;
    histories_[number].push_back(
        {client.last_xid(), at, client.last_committed(), client.committed()});
  }

  // ---- the standby

  struct Snapshot {
    ls_snapshot s{};
    std::vector<u64> running;
    u64 at = 0;
    std::atomic<bool> given_up{false};
  };

  // By the host's replay up to `at`.
  void make_snapshot(ls_store *store, u64 at, Snapshot *snapshot) const {
    u64 tns[32];
    const size_t n = std::min<size_t>(ls_active_tns(store, tns, 32), 32);
    const std::set<u64> active(tns, tns + n);   // aborted, and not undone yet
    snapshot->at = at;
    snapshot->running.clear();
    u64 xmax = kImageXid;
    for (u64 xid = kImageXid; xid < next_xid_; xid++)
      if (end_at_[xid - kImageXid] <= at) xmax = xid + 1;
    for (u64 xid = kImageXid; xid < xmax; xid++) {
      const bool undone = aborted_.contains(xid) && !active.contains(xid + offset_);
      if (end_at_[xid - kImageXid] > at || (aborted_.contains(xid) && !undone))
        snapshot->running.push_back(xid + offset_);
    }
    ls_snapshot &s = snapshot->s;
    s.kind = LS_SNAPSHOT_MVCC;
    s.xmax = xmax + offset_;
    s.xmin = snapshot->running.empty() ? s.xmax : snapshot->running.front();
    s.running = snapshot->running.data();
    s.n_running = static_cast<u32>(snapshot->running.size());
    s.curcid = ~0u;
  }

  const ImageClient::Rows &expected_at(u32 client, u64 at) const {
    static const ImageClient::Rows nothing;
    const ImageClient::Rows *rows = &nothing;
    for (const End &end : histories_[client])
      if (end.at <= at) rows = &end.rows;
    return *rows;
  }

  static std::string difference(const ImageClient::Rows &found,
                                const ImageClient::Rows &expected) {
    std::string text;
    for (const auto &[id, data] : found) {
      const auto other = expected.find(id);
      if (other == expected.end()) text += " not expected: " + std::to_string(id);
      else if (other->second != data) text += " differs: " + std::to_string(id);
    }
    for (const auto &[id, data] : expected)
      if (!found.contains(id)) text += " missing: " + std::to_string(id);
    return text;
  }

  // Row by row, as a scan of an index asks for them.
  void expect_fetched(ls_worker *worker, ls_rel *rel, const Snapshot &snapshot,
                      const ImageClient::Rows &expected) {
    alignas(8) u8 buffer[LS_ROW_BUFFER_BYTES];
    for (const auto &[id, data] : expected) {
      ls_row row{};
      ls_error error{};
      const ls_status status =
          ls_row_fetch(worker, rel, id, &snapshot.s, buffer, &row, nullptr, &error);
      EXPECT_EQ(status, LS_OK) << to_text(status, error) << " row " << id;
      if (status != LS_OK) return;
      EXPECT_EQ(std::string(reinterpret_cast<const char *>(row.data), row.len), data);
    }
  }

  void publish(ls_store *store) {
    const std::lock_guard lock(readers_mutex_);
    Snapshot now;
    make_snapshot(store, applied_, &now);
    u64 horizon = now.s.xmin;
    for (const auto &[slot, snapshot] : readers_) horizon = std::min(horizon, snapshot->s.xmin);
    const ls_plain_snapshot plain{now.s.xmin, now.s.xmax, now.s.running, now.s.n_running};
    ls_store_publish_horizon(store, horizon, horizon, &plain, nullptr, 0);
  }

  // Takes snapshots, reads all tables in them a few times, and is asked to end by conflicts.
  void read(ls_store *store, u32 slot, u64 seed) {
    std::mt19937_64 random(seed);
    Session session(store, nullptr, slot);
    LS_EXPECT_OK(session.attach_status());
    while (!stop_ && !HasFailure()) {
      Snapshot snapshot;
      {
        const std::lock_guard lock(readers_mutex_);
        make_snapshot(store, applied_, &snapshot);
        readers_[slot] = &snapshot;
      }
      for (u64 turn = 1 + random() % 20; turn > 0 && !stop_ && !HasFailure(); turn--) {
        if (snapshot.given_up) break;
        const u32 client = static_cast<u32>(random() % kClients);
        const u32 table = kImageTable + 10 * client;
        const ImageClient::Rows &expected = expected_at(client, snapshot.at);
        ls_rel *rel = session.open(table);
        if (random() % 2 == 0) {
          const ImageClient::Rows found = contents(session.worker(), rel, snapshot.s);
          EXPECT_EQ(difference(found, expected), "")
              << "table " << table << " at " << snapshot.at << ", now " << applied_ << ", xmin "
              << snapshot.s.xmin << ", xmax " << snapshot.s.xmax;
        } else {
          expect_fetched(session.worker(), rel, snapshot, expected);
        }
        reads_++;
        old_reads_ += applied_ > snapshot.at + 5;
      }
      const std::lock_guard lock(readers_mutex_);
      readers_.erase(slot);
    }
  }

  // As the host does: snapshots that may need what goes are given up.
  void resolve(u64 newest) {
    conflicts_++;
    {
      const std::lock_guard lock(readers_mutex_);
      for (const auto &[slot, snapshot] : readers_)
        if (snapshot->s.xmin <= newest) snapshot->given_up = true;
    }
    for (;;) {
      {
        const std::lock_guard lock(readers_mutex_);
        bool any = false;
        for (const auto &[slot, snapshot] : readers_) any |= snapshot->given_up;
        if (!any) break;
      }
      std::this_thread::yield();
    }
  }

  bool has_aborted(u64 xid, u64 at) const {
    return aborted_.contains(xid) && end_at_[xid - kImageXid] <= at;
  }

  void follow_round(ls_store *store, u64 i) {
    add(store, i);
    const MemoryHost::Record &record = host_log_.log()[i];
    ls_follow follow{record.bytes.data(), record.bytes.size(), 0, false, 0, 0, 0};
    for (;;) {
      const ls_status status = ls_follow_apply(store, &follow, &err);
      if (status != LS_CONFLICT) {
        LS_ASSERT_OK(status);
        break;
      }
      if (follow.asked == 0) resolve(follow.conflict);
      const bool aborted = follow.asked != 0 && has_aborted(follow.asked - offset_, i);
      late_ += aborted;
      follow = {nullptr, 0, follow.conflict, aborted, 0, 0, 0};
    }
    ls_follow_cover(store, ls_follow_reached(store));
    {
      const std::lock_guard lock(readers_mutex_);
      applied_ = i + 1;
    }
    publish(store);
  }

  // The copy is replayed until it is whole, then it follows.
  void begin(StoreLife &store, u64 behind = 20) {
    LS_ASSERT_OK(ls_restore_forget(store.store(), &err));
    ls_relay_replay_begin(store.store(), true);
    u64 i = redo_;
    for (; i < std::max(copied_at_, state_at_ + 1); i++) {
      if (i == state_at_)
        LS_ASSERT_OK(ls_relay_replay_state(store.store(), state_.data(), state_.size(), &err));
      add(store.store(), i);
    }
    const u64 position = ls_relay_replay_position(store.store());
    LS_ASSERT_OK(ls_follow_begin(store.store(), position, &err));
    for (const u64 more = i + behind; i < more; i++) add(store.store(), i);   // replayed meanwhile
    LS_ASSERT_OK(ls_follow_join(store.store(), &err));
    EXPECT_TRUE(ls_store_follows(store.store()));
    applied_ = i;
    publish(store.store());
  }

  void make_restart_point(ls_store *store) {
    LS_ASSERT_OK(ls_relay_replay_state(store, later_state_.data(), later_state_.size(), &err));
    volatile int stop = 0;
    ls_standby_state state{later_state_.data(), later_state_.size(),
                           ls_relay_replay_position(store), &stop, 0};
    std::atomic<bool> done{false};
    std::thread host([&] {
      while (!done) {
        ls_follow_cover(store, ls_follow_reached(store));
        usleep(1000);
      }
    });
    const ls_status status = ls_follow_restart_point(store, &state, &err);
    done = true;
    host.join();
    LS_ASSERT_OK(status);
    EXPECT_GT(state.log_bytes, 0u);
  }

  void expect_all(StoreLife &store) {
    std::vector<ImageClient::Rows> expected;
    for (const History &history : histories_) expected.push_back(history.back().rows);
    expect_rows(store, expected);
  }

  u64 later_at_ = 0;
  std::vector<u8> later_state_;
  u64 copied_at_ = 0, next_xid_ = 0, offset_ = 0;
  History histories_[kClients];
  std::vector<u64> end_at_;   // by xid
  std::set<u64> aborted_;
  u64 late_ = 0;
  std::atomic<u64> applied_{0};
  std::atomic<u64> reads_{0}, old_reads_{0}, conflicts_{0};
  std::atomic<bool> stop_{false};
  std::mutex readers_mutex_;
  std::map<u32, Snapshot *> readers_;
};

// FLW-1, FLW-2, FLW-3, FLW-4, FLW-5, FLW-6, FOLLOWED-2, FROW-1, FROW-2, FTXN-1, FTXN-2
TEST_P(FollowTest, each_snapshot_shows_what_was_committed) {
  live_and_copy(150);
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store);
  if (HasFatalFailure()) return;
  std::vector<std::thread> readers;
  for (u32 slot = 0; slot < 3; slot++)
    readers.emplace_back([&, slot] { read(store.store(), slot, GetParam() * 16 + slot); });
  const u64 end = host_log_.log().size();
  for (u64 i = applied_; i < end && !HasFailure(); i++) {
    follow_round(store.store(), i);
    usleep(500);   // readers have a turn
  }
  while (reads_ < 50 && !HasFailure()) std::this_thread::yield();
  stop_ = true;
  for (std::thread &reader : readers) reader.join();
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
  EXPECT_GT(old_reads_.load(), 0u);
  ::printf("reads %llu, of older snapshots %llu, conflicts %llu, records %llu, late %llu\n",
           static_cast<unsigned long long>(reads_), static_cast<unsigned long long>(old_reads_),
           static_cast<unsigned long long>(conflicts_),
           static_cast<unsigned long long>(end - redo_), static_cast<unsigned long long>(late_));
}

// Readers keep their snapshots over a promotion; then there are new transactions.
TEST_P(FollowTest, readers_stay_when_it_is_promoted) {
  live_and_copy(100);
  if (HasFatalFailure()) return;
  {
    StoreLife store(copy_config_);
    begin(store);
    if (HasFatalFailure()) return;
    std::vector<std::thread> readers;
    for (u32 slot = 4; slot < 6; slot++)
      readers.emplace_back([&, slot] { read(store.store(), slot, GetParam() * 16 + slot); });
    for (u64 i = applied_; i < host_log_.log().size() && !HasFailure(); i++) {
      follow_round(store.store(), i);
      if (i % 4 == 0) usleep(500);
    }
    LS_ASSERT_OK(ls_relay_replay_end(store.store(), &err));
    HostPump pump(store.store(), host_log_);
    const auto decide = [&](ls_in_doubt &doubt) { return !aborted_.contains(doubt.full_xid); };
    ASSERT_EQ(store.recover(1'000'000, decide), LS_OK) << store.err.message;
    const u64 before = reads_;
    while (reads_ < before + 20 && !HasFailure()) usleep(1000);
    stop_ = true;
    for (std::thread &reader : readers) reader.join();
    expect_all(store);
    LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
  }
  // After a crash all is as it was.
  StoreLife again(copy_config_);
  ls_relay_replay_begin(again.store(), false);
  LS_ASSERT_OK(ls_relay_replay_end(again.store(), &err));
  HostPump pump(again.store(), host_log_);
  ASSERT_EQ(again.recover(2'000'000), LS_OK) << again.err.message;
  expect_all(again);
  LS_EXPECT_OK(ls_store_abandon(again.store(), &err));
}

// OPENV-1, OPENV-2: one that is open, and goes on, and one that is prepared.
TEST_P(FollowTest, rows_of_open_transactions_are_as_before) {
  ImageClient::Rows expected[2];
  Snapshot snapshot;
  u64 rest_at = 0;
  config_.prepared_slots = copy_config_.prepared_slots = 4;
  live(kImageXid, false, [&](StoreLife &store, Host &host) {
    host_log_.use();
    ImageClient open(store, host, 0, GetParam()), prepared(store, host, 1, GetParam());
    for (ImageClient *client : {&open, &prepared}) {
      client->work(60);
      client->change_without_end(30);
      expected[client == &prepared] = client->committed();
      snapshot.running.push_back(client->session.tn());
    }
    LS_ASSERT_OK(prepared.session.hand_over());
    take_state(store);
    copy(store);
    copied_at_ = host_log_.size();
    open.change_more(20);
    Log log = store_process(*store.store()).log;
    EXPECT_TRUE(log.wait_hardened(log.last_gsn(), nullptr));
    rest_at = host_log_.size();
    std::sort(snapshot.running.begin(), snapshot.running.end());
    snapshot.s.kind = LS_SNAPSHOT_MVCC;
    snapshot.s.xmin = snapshot.running.front();
    snapshot.s.xmax = snapshot.running.back() + 1;
    snapshot.s.running = snapshot.running.data();
    snapshot.s.n_running = 2;
    snapshot.s.curcid = ~0u;
    open.session.abort();
  });
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store, 0);
  if (HasFatalFailure()) return;
  for (u64 i = applied_; i <= rest_at && !HasFatalFailure(); i++) {
    Session session(store.store(), nullptr, 0);
    for (u32 client = 0; client < 2; client++) {
      ls_rel *rel = session.open(kImageTable + 10 * client);
      EXPECT_EQ(difference(contents(session.worker(), rel, snapshot.s), expected[client]), "")
          << "client " << client << " at " << i;
      expect_fetched(session.worker(), rel, snapshot, expected[client]);
    }
    if (i < rest_at) follow_round(store.store(), i);
  }
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// APPLY-4: recovery begins at the restart point, and reads no older log.
TEST_P(FollowTest, restart_points_are_made_under_readers) {
  live_and_copy(100);
  if (HasFatalFailure()) return;
  {
    StoreLife store(copy_config_);
    begin(store);
    if (HasFatalFailure()) return;
    ASSERT_LE(applied_, later_at_);
    std::vector<std::thread> readers;
    for (u32 slot = 0; slot < 2; slot++)
      readers.emplace_back([&, slot] { read(store.store(), slot, GetParam() * 16 + slot); });
    for (u64 i = applied_; i < host_log_.log().size() && !HasFatalFailure(); i++) {
      if (i == later_at_) make_restart_point(store.store());
      follow_round(store.store(), i);
    }
    stop_ = true;
    for (std::thread &reader : readers) reader.join();
    LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
  }
  if (HasFailure()) return;
  RestoreState later;
  ASSERT_TRUE(ok(restore_state_unpack(later_state_, &later)));
  ControlFile control{};
  bool exists;
  ASSERT_TRUE(ok(control_read(copy_config_.data_dir, &control, &exists)) && exists);
  EXPECT_EQ(control.redo_lsn, later.control.redo_lsn);
  StoreLife store(copy_config_);
  ls_relay_replay_begin(store.store(), false);
  LS_ASSERT_OK(ls_relay_replay_end(store.store(), &err));
  HostPump pump(store.store(), host_log_);
  const auto decide = [&](ls_in_doubt &doubt) { return !aborted_.contains(doubt.full_xid); };
  ASSERT_EQ(store.recover(1'000'000, decide), LS_OK) << store.err.message;
  expect_all(store);
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// As many transactions are followed as there are places.  Not LS_LIMIT: to cover frees none.
TEST_P(FollowTest, the_list_of_transactions_has_an_end) {
  StoreLife store(copy_config_);
  TxnShared &txns = *store.store()->txns;
  FollowedTxns followed(txns);
  for (Tn tn = 1; tn <= txns.followed_places; tn++) ASSERT_TRUE(ok(followed.begin(tn)));
  EXPECT_TRUE(ok(followed.begin(1)));
  EXPECT_EQ(code(followed.begin(txns.followed_places + 1)), LS_MANY_PREPARED);
}

INSTANTIATE_TEST_SUITE_P(Seeds, FollowTest, ::testing::Range(1u, 5u));

}  // namespace
}  // namespace ls::test
