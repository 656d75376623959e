// The original crashes with transactions open and prepared, and comes back, while a copy follows:
// at each record of the log a new snapshot shows no row of theirs.
#include <optional>

#include "unit/base/failpoint_actions.hpp"
#include "unit/store/followed_fixture.hpp"

#if LS_FAILPOINTS

namespace ls::test {
namespace {

constexpr u64 kFirstRows = 300;

// What a client does to rows: those with id % 4 == 0 are the loser's, 1: of the one that is
// prepared, 2: change all the time, 3: stay.
enum Share : u64 { kLosers = 0, kPrepareds = 1, kChanging = 2 };

class FollowedRestart : public FollowedFiles {
 protected:
  FollowedRestart() : random_(GetParam()) {
    config_.prepared_slots = copy_config_.prepared_slots = 4;
    config_.buffer_pool_bytes = 2000 * kPageSize;
  }

  std::string text(u64 most) {
    return std::string(5 + random_() % most, static_cast<char>('a' + random_() % 26));
  }

  void fill(Session &s) {
    ls_rel *rel = s.open(kImageTable);
    for (u64 i = 0; i < kFirstRows; i++) {
      if (i % 20 == 0) {
        ASSERT_EQ(s.begin(), LS_OK) << s.err.message;
      }
      u64 id;
      const std::string data = text(200);
      ASSERT_EQ(s.insert(rel, data, &id), LS_OK) << s.err.message;
      expected_[id] = data;
      if (i % 20 == 19) s.commit();
    }
  }
  void update(Session &s, u64 id, u64 most, bool counts = false) {
    const std::string data = text(most);
    ASSERT_EQ(s.update(s.open(kImageTable), id, [&](const std::string &) { return data; }), LS_OK)
        << s.err.message;
    if (counts) expected_[id] = data;
  }
  // Committed: of all rows that may change.
  void change_all(Session &s) {
    for (const auto &[id, data] : Rows(expected_)) {
      if (id % 3 != 0) continue;
      ASSERT_EQ(s.begin(), LS_OK) << s.err.message;
      update(s, id, 200, true);
      s.commit();
    }
  }
  void change_more(Session &s, u64 most) {
    for (const auto &[id, data] : expected_) {
      if (id % 4 != kChanging) continue;
      ASSERT_EQ(s.begin(), LS_OK) << s.err.message;
      update(s, id, most);
      s.commit();
    }
  }
  // Rows get shorter, so that others come into their places; some change twice, or go.
  void change_share(Session &s, Share share) {
    ls_rel *rel = s.open(kImageTable);
    ASSERT_EQ(s.begin(), LS_OK) << s.err.message;
    for (const auto &[id, data] : expected_) {
      if (id % 4 != share) continue;
      update(s, id, 10);
      if (id % 3 == 0) update(s, id, 10);
    }
    const u32 savepoint = ls_txn_savepoint(s.worker());
    for (const auto &[id, data] : expected_)
      if (id % 4 == share && id % 5 == 0) update(s, id, 40);
    ls_txn_rollback_to(s.worker(), savepoint);
    u64 id = 0;
    for (u32 i = 0; i < 40; i++) {
      ASSERT_EQ(s.insert(rel, text(100), &id), LS_OK) << s.err.message;
      if (i % 4 == 0) update(s, id, 100);
    }
    for (const auto &[row, data] : expected_) {
      if (row % 4 != share) continue;
      if (row % 7 == 0) {
        ASSERT_EQ(s.remove(rel, row), LS_OK) << s.err.message;
      } else if (row % 3 == 1) {
        update(s, row, 10);
      }
    }
  }

  // Then the first crash.
  void first_life(bool change_behind_copy = false) {
    live_and_copy(
        [&](StoreLife &store, Host &host) {
          Session s(store.store(), &host, 1);
          fill(s);
          change_all(s);
        },
        [] {},
        [&](StoreLife &store, Host &host) {
          Session s(store.store(), &host, 1), prepared(store.store(), &host, 3);
          Session loser(store.store(), &host, 2);
          before_ = expected_;
          if (change_behind_copy) change_all(s);
          if (prepares_) {
            change_share(prepared, kPrepareds);
            prepared_xid_ = prepared.xid();
            ASSERT_EQ(prepared.hand_over(), LS_OK) << prepared.err.message;
          }
          change_share(loser, kLosers);
          loser_xid_ = loser.xid();
          change_more(s, 200);
          lose_the_rest(store);
        });
    host_log_.crash();
    crashed_at_ = host_log_.size();
  }
  void lose_the_rest(StoreLife &store) {
    Log log = store_process(*store.store()).log;
    EXPECT_TRUE(log.wait_hardened(log.last_gsn(), nullptr));
    host_log_.flush_some(host_log_.size());
    host_log_.lose_what_follows();
  }

  // Another life: the transaction is prepared still, or the host has decided.
  enum class Fate { kPrepared, kCommitted, kRolledBack };
  void next_life(u64 next_xid, Fate fate, const std::function<void(StoreLife &, Host &)> &work) {
    if (fate != Fate::kPrepared) decide(fate == Fate::kCommitted);
    live(next_xid, false,
         [&](StoreLife &store, Host &host) {
           if (fate == Fate::kPrepared) host.resume(prepared_xid_);
           std::thread([&] {
             host_log_.use();
             work(store, host);
             lose_the_rest(store);
           }).join();
           next_xid_ = host.next_xid();
         },
         [&](ls_in_doubt &doubt) {
           doubt.prepared = doubt.full_xid == prepared_xid_ && fate == Fate::kPrepared;
           return fate == Fate::kCommitted;
         });
    host_log_.crash();
  }
  // A start that crashes when it has logged so many records: nothing of it is kept but what was on
  // disk then.
  void fail_within_start(u64 next_xid, u64 records) {
    namespace fs = std::filesystem;
    const fs::path root = temp_.path(), kept = root.string() + ".kept";
    std::atomic<u64> logged{0};
    const auto copy = fs::copy_options::recursive | fs::copy_options::overwrite_existing;
    {
      StoreLife store(config_);
      ls_relay_replay_begin(store.store(), false);
      for (u64 i = host_log_.redo(); i < host_log_.log().size(); i++) add(store.store(), i);
      LS_ASSERT_OK(ls_relay_replay_end(store.store(), &err));
      host_log_.checkpoint();
      HostPump pump(store.store(), host_log_);
      const ArmedFailpoint crash(Failpoint::log_before_publish, [&] {
        if (++logged != records) return;
        Log log = store_process(*store.store()).log;
        EXPECT_TRUE(log.wait_hardened(log.last_gsn() - 1, nullptr));
        host_log_.flush_some(host_log_.size());
        host_log_.lose_what_follows();
        fs::copy(root, kept, copy);
      });
      const auto decide = [&](ls_in_doubt &doubt) {
        doubt.prepared = doubt.full_xid == prepared_xid_;
        return false;
      };
      ASSERT_EQ(store.recover(next_xid, decide), LS_OK) << store.err.message;
      LS_ASSERT_OK(ls_store_abandon(store.store(), &err));
    }
    ASSERT_GT(logged.load(), records);
    host_log_.crash();
    for (const auto &entry : fs::directory_iterator(root)) fs::remove_all(entry.path());
    fs::copy(kept, root, copy);
    fs::remove_all(kept);
    next_xid_ = next_xid;
  }
  void decide(bool commits) {
    decided_at_ = host_log_.size();
    committed_ = commits;
  }
  void images(StoreLife &store, Host &host) {
    Session s(store.store(), &host, 1);
    change_more(s, 100);
    LS_ASSERT_OK(ls_store_checkpoint(store.store(), &s.err));
    change_more(s, 200);
  }

  // ---- the standby

  struct Snapshot {
    ls_snapshot s{};
    std::vector<u64> running;
    bool sees_prepared = false;
  };
  // As src/txn/ls_snapshot.c makes it: the host has the prepared one as running, and what the
  // store has beside those and has not committed.
  Snapshot new_snapshot(ls_store *store) {
    Snapshot out;
    const u64 offset = ls_store_tn_offset(store);
    u64 tns[64];
    const size_t n = std::min<size_t>(ls_active_tns(store, tns, 64), 64);
    out.sees_prepared = committed_ && at_ > decided_at_;
    for (size_t i = 0; i < n; i++) {
      const bool own = store->txns->eras.full_xid(tns[i]) == prepared_xid_;
      if (!own || !out.sees_prepared) out.running.push_back(tns[i]);
    }
    if (prepares_ && at_ <= decided_at_) out.running.push_back(prepared_xid_ + offset);
    std::sort(out.running.begin(), out.running.end());
    const Tn highest = store->txns->highest_tn.load(std::memory_order_relaxed);
    out.s = snapshot_at(std::max(highest, prepared_xid_ + offset) + 1);
    out.s.xmin = out.running.empty() ? out.s.xmax : out.running.front();
    out.s.running = out.running.data();
    out.s.n_running = static_cast<u32>(out.running.size());
    return out;
  }
  void publish(ls_store *store, const Snapshot &now, u64 oldest) {
    const u64 horizon = std::min(now.s.xmin, oldest);
    const ls_plain_snapshot plain{now.s.xmin, now.s.xmax, now.s.running, now.s.n_running};
    ls_store_publish_horizon(store, horizon, horizon, &plain, nullptr, 0);
  }

  void expect_shown(Session &s, const Snapshot &now, const char *when) {
    expect_rows_of(s, now, expected_, when);
  }
  void expect_rows_of(Session &s, const Snapshot &now, const Rows &expected, const char *when) {
    if (HasFailure() || now.sees_prepared) return;
    if (!rel_) rel_ = *s.open(kImageTable);
    Rows found = contents(s.worker(), &*rel_, now.s);
    std::string wrong;
    for (const auto &[id, data] : expected) {
      const auto at = found.find(id);
      if (at == found.end()) wrong += " missing " + std::to_string(id);
      else if (id % 4 != kChanging && at->second != data) wrong += " differs " + std::to_string(id);
      if (at != found.end()) found.erase(at);
    }
    for (const auto &[id, data] : found) wrong += " not expected " + std::to_string(id);
    EXPECT_EQ(wrong, "") << when << ", record " << at_ << " of the host's log, crash at "
                         << crashed_at_;
    checks_++;
  }

  void check_relation(Session &s) {
    ls_check_result check{};
    LS_EXPECT_OK(ls_rel_check(s.worker(), &*rel_, &check, &err));
  }
  // Before each record a new snapshot, and one that stays until it is in conflict.
  void look(Session &s, ls_store *store) {
    if (held_ && newest_conflict_ >= held_->s.xmin) held_.reset();
    newest_conflict_ = 0;
    const Snapshot now = new_snapshot(store);
    expect_shown(s, now, "new snapshot");
    if (held_ && looks_ % 16 == 0) {
      expect_shown(s, *held_, "older snapshot");
      held_checks_++;
    }
    if (!held_) held_ = now;
    held_->s.running = held_->running.data();
    publish(store, now, held_->s.xmin);
    looks_++;
  }
  // each: so many records a look; rounds: so many at most.
  void follow_all(StoreLife &store, u64 each, u64 rounds = ~u64{0}) {
    Session s(store.store(), nullptr, 0);
    u64 records = 0;
    const ArmedFailpoint before_each(Failpoint::recovery_before_followed, [&] {
      if (records++ % each == 0 && !HasFailure()) look(s, store.store());
    });
    for (; rounds > 0 && more(); rounds--) {
      follow(store.store());
      look(s, store.store());
      check_relation(s);
    }
    held_.reset();
    rel_.reset();
  }

  bool prepares_ = true;
  u64 prepared_xid_ = 0, loser_xid_ = 0, next_xid_ = 0, crashed_at_ = 0;
  u64 decided_at_ = ~u64{0};
  bool committed_ = false;
  u64 checks_ = 0;
  Rows before_, expected_;   // with neither; at the copy, and at the crash
  std::optional<ls_rel> rel_;
  std::optional<Snapshot> held_;
  u64 looks_ = 0, held_checks_ = 0;
  std::mt19937_64 random_;
};

// FROW-3
TEST_P(FollowedRestart, new_snapshots_show_nothing_of_open_and_prepared_transactions) {
  first_life();
  if (HasFatalFailure()) return;
  next_life(loser_xid_ + 1000, Fate::kPrepared,
            [&](StoreLife &store, Host &host) { images(store, host); });
  next_life(next_xid_, Fate::kPrepared,
            [&](StoreLife &store, Host &host) { images(store, host); });
  next_life(next_xid_, GetParam() % 3 == 0 ? Fate::kCommitted : Fate::kRolledBack,
            [&](StoreLife &store, Host &host) { images(store, host); });
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store);
  if (HasFatalFailure()) return;
  follow_all(store, 3);
  EXPECT_GT(checks_, 100u);
  ::printf("checks %llu, of older snapshots %llu\n", static_cast<unsigned long long>(checks_),
           static_cast<unsigned long long>(held_checks_));
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// FROW-3: also of starts that came to nothing.
TEST_P(FollowedRestart, and_behind_starts_that_fail) {
  first_life();
  if (HasFatalFailure()) return;
  fail_within_start(loser_xid_ + 1000, 120 + random_() % 140);
  fail_within_start(loser_xid_ + 2000, 40 + random_() % 65);
  if (HasFatalFailure()) return;
  next_life(loser_xid_ + 3000, Fate::kPrepared,
            [&](StoreLife &store, Host &host) { images(store, host); });
  next_life(next_xid_, GetParam() % 3 == 0 ? Fate::kCommitted : Fate::kRolledBack,
            [&](StoreLife &store, Host &host) { images(store, host); });
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store);
  if (HasFatalFailure()) return;
  follow_all(store, 3);
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// OPENV-1: wherever it begins.
TEST_P(FollowedRestart, also_where_following_begins_meanwhile) {
  namespace fs = std::filesystem;
  first_life();
  if (HasFatalFailure()) return;
  fail_within_start(loser_xid_ + 1000, 120 + random_() % 140);
  fail_within_start(loser_xid_ + 2000, 40 + random_() % 65);
  if (HasFatalFailure()) return;
  next_life(loser_xid_ + 3000, Fate::kPrepared,
            [&](StoreLife &store, Host &host) { images(store, host); });
  next_life(next_xid_, Fate::kRolledBack,
            [&](StoreLife &store, Host &host) { images(store, host); });
  if (HasFatalFailure()) return;
  const TempDirectory pristine;
  const auto copy = fs::copy_options::recursive | fs::copy_options::overwrite_existing;
  fs::copy(copy_.path(), pristine.path(), copy);
  const u64 end = host_log_.log().size();
  for (u64 from = crashed_at_ - 1; from < end && !HasFailure();
       from += from < crashed_at_ + 8 ? 1 : 20 + random_() % 40) {
    for (const auto &entry : fs::directory_iterator(copy_.path())) fs::remove_all(entry.path());
    fs::copy(pristine.path(), copy_.path(), copy);
    StoreLife store(copy_config_);
    begin(store, from, from % 3 == 0 ? 1 : 0);
    if (HasFatalFailure()) return;
    {
      Session s(store.store(), nullptr, 0);
      look(s, store.store());
      check_relation(s);
    }
    follow_all(store, 16, 30);
    LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
  }
}

// A reader stays over a promotion, with a snapshot from before the rows' last committed change.
TEST_P(FollowedRestart, versions_are_found_when_it_is_promoted) {
  first_life(true);
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store);
  if (HasFatalFailure()) return;
  Snapshot old;
  old.s = snapshot_at(copied_tn_);
  std::optional<Session> s(std::in_place, store.store(), nullptr, 0);
  const auto expect_old = [&](const char *when) { expect_rows_of(*s, old, before_, when); };
  while (more()) follow(store.store());
  const Snapshot now = new_snapshot(store.store());
  EXPECT_LT(newest_conflict_, copied_tn_);
  expect_old("followed");
  expect_shown(*s, now, "followed");
  LS_ASSERT_OK(ls_relay_replay_end(store.store(), &err));
  HostPump pump(store.store(), host_log_);
  const bool stays = GetParam() % 3 != 0;
  const auto decide = [&](ls_in_doubt &doubt) {
    doubt.prepared = stays && doubt.full_xid == prepared_xid_;
    return false;
  };
  const u64 offset = ls_store_tn_offset(store.store());
  ASSERT_EQ(store.recover(1'000'000, decide), LS_OK) << store.err.message;
  EXPECT_EQ(ls_store_tn_offset(store.store()), offset);   // TWOPH-6
  rel_.reset();
  expect_old("promoted");
  expect_shown(*s, now, "promoted");
  if (stays) {
    const u64 tn = prepared_xid_ + ls_store_tn_offset(store.store());
    LS_EXPECT_OK(ls_prepared_finish(s->worker(), tn, GetParam() % 3 == 1, &err));
    expect_old("ended");
    expect_shown(*s, now, "ended");
  }
  s.reset();
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// FLW-8, FROW-3: snapshots stay, over starts with the same numbers, and show the same to the end.
class OldSnapshots : public FollowedRestart {
 protected:
  OldSnapshots() { prepares_ = false; }

  struct Old {
    Snapshot taken;
    Rows shown;
    u64 at = 0;
  };

  // What recovery has put back, and what nothing has changed since, is changed and put back again.
  void change_what_was_undone(StoreLife &store, Host &host) {
    Session s(store.store(), &host, 1);
    change_more(s, 100);
    LS_ASSERT_OK(ls_store_checkpoint(store.store(), &s.err));
    for (const Share share : {kLosers, kPrepareds}) {
      change_share(s, share);
      s.abort();
      change_more(s, 200);
    }
    Session loser(store.store(), &host, 2);
    change_share(loser, kLosers);
    change_more(s, 300);
  }

  void look_at_all(Session &s, ls_store *store, bool takes) {
    if (!rel_) rel_ = *s.open(kImageTable);
    std::erase_if(old_, [&](const Old &o) { return newest_conflict_ >= o.taken.s.xmin; });
    newest_conflict_ = 0;
    const Snapshot now = new_snapshot(store);
    u64 oldest = now.s.xmin;
    for (Old &o : old_) {
      o.taken.s.running = o.taken.running.data();
      oldest = std::min(oldest, o.taken.s.xmin);
    }
    if (takes) {
      old_.push_back({now, contents(s.worker(), &*rel_, now.s), at_});
      oldest = std::min(oldest, now.s.xmin);
    }
    publish(store, now, oldest);
  }
  void expect_all_shown(Session &s) {
    for (Old &o : old_) {
      o.taken.s.running = o.taken.running.data();
      EXPECT_TRUE(contents(s.worker(), &*rel_, o.taken.s) == o.shown)
          << "taken at record " << o.at << ", now " << at_ << ", crash at " << crashed_at_;
    }
  }

  std::vector<Old> old_;
};

TEST_P(OldSnapshots, go_on_and_show_the_same) {
  first_life(true);
  if (HasFatalFailure()) return;
  next_life(loser_xid_ + 1000, Fate::kRolledBack,
            [&](StoreLife &store, Host &host) { change_what_was_undone(store, host); });
  next_life(next_xid_ + 1000, Fate::kRolledBack,
            [&](StoreLife &store, Host &host) { images(store, host); });
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store);
  if (HasFatalFailure()) return;
  {
    Session s(store.store(), nullptr, 0);
    // That number may be the next one's.
    const std::atomic<Tn> &highest = store.store()->txns->highest_tn;
    const Tn at_first = highest;
    for (u64 rounds = 0; more() && !HasFailure(); rounds++) {
      look_at_all(s, store.store(), rounds % 16 == 0 && highest > at_first);
      follow(store.store());
      if (rounds % 4 == 0) expect_all_shown(s);
    }
    expect_all_shown(s);
    check_relation(s);
  }
  const auto of_before = [&](const Old &o) { return o.at < crashed_at_; };
  EXPECT_TRUE(std::any_of(old_.begin(), old_.end(), of_before));
  ::printf("%zu snapshots have stayed\n", old_.size());
  rel_.reset();
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// FLW-3: what the host has said of one number is not so of a smaller one that runs on.
TEST_P(FollowedRestart, each_removal_is_asked_of) {
  constexpr u64 kGone = 40;
  u64 early_tn = 0, late_tn = 0;
  live_and_copy(
      [&](StoreLife &store, Host &host) {
        Session s(store.store(), &host, 1);
        fill(s);
      },
      [] {},
      [&](StoreLife &store, Host &host) {
        Session early(store.store(), &host, 1), late(store.store(), &host, 2);
        // There are no snapshots, and a new one would have those as running.
        const auto expect_purged = [&](u64 ghosts, std::vector<u64> running) {
          const u64 xmax = host.tn(host.next_xid()), xmin = running.empty() ? xmax : running[0];
          const ls_plain_snapshot now{xmin, xmax, running.data(),
                                      static_cast<u32>(running.size())};
          const std::atomic<u64> &removed = store.store()->txns->ghosts_removed;
          Log log = store_process(*store.store()).log;
          EXPECT_TRUE(log.wait_hardened(log.last_gsn(), nullptr));
          for (u32 i = 0; removed < ghosts && i < 10'000; i++) {
            ls_store_publish_horizon(store.store(), xmin, xmax, &now, nullptr, 0);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          EXPECT_GE(removed, ghosts);
        };
        const auto remove = [&](Session &s, u64 first) {
          for (u64 id = first; id < first + kGone; id++)
            ASSERT_EQ(s.remove(s.open(kImageTable), id), LS_OK) << s.err.message;
        };
        ASSERT_EQ(early.begin(), LS_OK) << early.err.message;
        early_tn = host.tn(early.xid());
        ASSERT_EQ(late.begin(), LS_OK) << late.err.message;
        late_tn = host.tn(late.xid());
        remove(late, 1);
        late.commit();
        expect_purged(kGone, {early_tn});
        remove(early, 1 + kGone);
        early.commit();
        expect_purged(2 * kGone, {});
        lose_the_rest(store);
      });
  if (HasFatalFailure()) return;
  ASSERT_LT(early_tn, late_tn);
  StoreLife store(copy_config_);
  begin(store);
  if (HasFatalFailure()) return;
  while (more() && newest_conflict_ < late_tn) follow(store.store());
  EXPECT_EQ(newest_conflict_, late_tn);
  newest_conflict_ = 0;   // a snapshot is taken, in which the other one runs
  while (more()) follow(store.store());
  EXPECT_EQ(newest_conflict_, early_tn);
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

INSTANTIATE_TEST_SUITE_P(Seeds, OldSnapshots, ::testing::Range(1u, 7u));
INSTANTIATE_TEST_SUITE_P(Seeds, FollowedRestart, ::testing::Range(1u, 7u));

}  // namespace
}  // namespace ls::test

#endif
