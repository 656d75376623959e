// Transactions prepared for two-phase commit: while the store runs, and over its ends of every
// kind.
#include <filesystem>
#include <fstream>
#include <thread>

#include "os/fault.hpp"
#include "unit/base/failpoint_actions.hpp"
#include "unit/recovery/crash_after.hpp"

namespace ls::test {
namespace {

constexpr u32 kTable = 16500, kOther = 16501;
constexpr u64 kXid = 20, kNextXid = 100;   // of the prepared transaction; of the starts after it

enum class Fate { kPrepared, kCommitted, kCommittedSince, kAborted };
using Rows = std::map<u64, std::string>;

// Files of a store that has not been started yet, with room for one prepared transaction.
struct FreshStore {
  FreshStore() : directory(temp.path()), config(small_config(temp.path())) {
    config.prepared_slots = 1;
    directory.create_file(kTable);
    directory.create_file(kOther);
  }
  TempDirectory temp;
  HostDirectory directory;
  ls_config config;
};

class TwoPhaseTest : public ::testing::Test {
 protected:
  TwoPhaseTest() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    config_.prepared_slots = 2;
    directory_.create_file(kTable);
    directory_.create_file(kOther);
  }
  ~TwoPhaseTest() override { fault_clear(); }

  // Recovery with a host that says `fate` of every prepared transaction; asked: how many it was
  // asked about.
  ls_status start(StoreLife &store, Fate fate, u64 next_xid = kNextXid) {
    ls_in_doubt *doubts = nullptr;
    size_t n = 0;
    ls_status s = ls_recovery_redo(store.store(), next_xid, &doubts, &n, &err);
    asked_ = n;
    for (size_t i = 0; i < n; i++) {
      EXPECT_TRUE(doubts[i].two_phase);
      doubts[i].prepared = fate == Fate::kPrepared || fate == Fate::kCommittedSince;
      doubts[i].committed = fate == Fate::kCommitted || fate == Fate::kCommittedSince;
    }
    if (s == LS_OK) s = ls_recovery_finish(store.store(), doubts, n, &err);
    free(doubts);
    return s;
  }

  bool crash_after(const std::function<void(StoreLife &, Host &)> &work) {
    return test::crash_after(config_, kXid, work);
  }

  std::vector<std::string> prepared_files() const {
    std::vector<std::string> names;
    for (const auto &file : std::filesystem::directory_iterator(temp_ / "leanstore/prepared"))
      names.push_back(file.path().filename());
    return names;
  }

  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  ls_error err{};
  size_t asked_ = 0;
};

// A host after a restart: it has `xid` still prepared (0: none).
struct HostAfter {
  explicit HostAfter(ls_store *store, bool prepared = true) : host(store, kXid) {
    EXPECT_EQ(host.begin(), kXid);
    while (host.next_xid() < kNextXid) host.end(host.begin());
    if (!prepared) host.end(kXid);
  }
  Host host;
};

auto to(const std::string &text) {
  return [text](const std::string &) { return text; };
}

ls_status lock_row(Session &s, Host &host, ls_rel *rel, u64 row_id, ls_lock_mode mode,
                   ls_conflict *conflict) {
  HostSnapshot snapshot;
  host.take(&snapshot, s.xid(), 1000);
  alignas(8) u8 buffer[LS_ROW_BUFFER_BYTES];
  ls_row row{};
  bool newer = false;
  ls_change c{row_id, &snapshot.s, nullptr, 1000, mode};
  const ls_status status =
      ls_row_lock(s.worker(), rel, &c, false, buffer, &row, &newer, conflict, &s.err);
  host.release(snapshot);
  return status;
}

void hand_over(Session &s) {
  ASSERT_EQ(s.hand_over(), LS_OK) << s.err.message;
  EXPECT_EQ(ls_txn_active(s.worker()), 0u);
}

// Rows 1 to 4 ("one" to "four") committed under kXid + 1; then kXid changes all but the last and
// inserts rows, and is prepared.  Savepoints, rows changed twice, an update that moves a row: all
// shapes of undo entries.
struct Work {
  Rows before, after;
  u64 one = 0, two = 0, three = 0, four = 0;
};

Work prepare_work(StoreLife &store, Host &host) {
  Work work;
  Session a(store.store(), &host, 0), b(store.store(), &host, 1);
  ls_rel *rel = a.open(kTable);
  EXPECT_EQ(a.begin(), LS_OK);
  EXPECT_EQ(a.xid(), kXid);
  EXPECT_EQ(b.begin(), LS_OK);
  work.one = insert_row(b, rel, "one");
  work.two = insert_row(b, rel, "two");
  work.three = insert_row(b, rel, "three");
  work.four = insert_row(b, rel, "four");
  b.commit();
  work.before = work.after = {
      {work.one, "one"}, {work.two, "two"}, {work.three, "three"}, {work.four, "four"}};

  EXPECT_EQ(a.update(rel, work.one, to(std::string(900, 'x'))), LS_OK);
  const u32 savepoint = ls_txn_savepoint(a.worker());
  EXPECT_EQ(a.update(rel, work.two, to("rolled back to a savepoint")), LS_OK);
  insert_row(a, rel, "never there");
  ls_txn_rollback_to(a.worker(), savepoint);
  EXPECT_EQ(a.update(rel, work.one, to("uno")), LS_OK);
  EXPECT_EQ(a.remove(rel, work.two), LS_OK);
  EXPECT_EQ(a.update(rel, work.three, to("tres")), LS_OK);
  EXPECT_EQ(a.remove(rel, work.three), LS_OK);
  for (int i = 0; i < 100; i++) {
    const std::string text = "new " + std::to_string(i);
    work.after[insert_row(a, rel, text)] = text;
  }
  EXPECT_EQ(a.update(rel, work.after.rbegin()->first, to("new and changed")), LS_OK);
  work.after.rbegin()->second = "new and changed";
  work.after[work.one] = "uno";
  work.after.erase(work.two);
  work.after.erase(work.three);
  hand_over(a);
  return work;
}

Rows contents(StoreLife &store, Host &host) {
  ls_error err{};
  Session s(store.store(), &host, 5);
  ls_rel *rel = s.open(kTable);
  ls_check_result check;
  LS_EXPECT_OK(ls_rel_check(s.worker(), rel, &check, &err));
  return s.contents(rel);
}

// The end that the host has decided on, by a worker that has nothing to do with it.
void finish(StoreLife &store, Host &host, bool committed) {
  ls_error err{};
  Session s(store.store(), &host, 6);
  if (committed) host.end(kXid);
  LS_EXPECT_OK(ls_prepared_finish(s.worker(), host.tn(kXid), committed, &err));
  if (!committed) host.end(kXid);
  EXPECT_FALSE(ls_tn_is_active(store.store(), host.tn(kXid)));
  // again: nothing to do
  LS_EXPECT_OK(ls_prepared_finish(s.worker(), host.tn(kXid), committed, &err));
}

// What a crash in a child must tell its parent.
struct SharedWork {
  u64 one, two, three, four, last;
};
Rows before_of(const SharedWork &w) {
  return {{w.one, "one"}, {w.two, "two"}, {w.three, "three"}, {w.four, "four"}};
}

template <typename T>
T *shared() {
  return static_cast<T *>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

void tell(SharedWork *shared, const Work &work) {
  *shared = {work.one, work.two, work.three, work.four, work.after.rbegin()->first};
}

// PREP-2
TEST_F(TwoPhaseTest, holds_its_rows_until_it_ends) {
  for (const bool committed : {true, false}) {
    FreshStore fresh;
    ls_config config = fresh.config;
    StoreLife store(config);
    LS_ASSERT_OK(store.recover(kXid));
    Host host(store.store(), kXid);
    const Work work = prepare_work(store, host);
    EXPECT_EQ(contents(store, host), work.before);

    Session b(store.store(), &host, 1);
    ls_rel *rel = b.open(kTable);
    ASSERT_EQ(b.begin(), LS_OK);
    ls_conflict conflict{};
    EXPECT_EQ(lock_row(b, host, rel, work.one, LS_LOCK_NO_KEY_UPDATE, &conflict),
              LS_BEING_MODIFIED);
    EXPECT_EQ(conflict.tn, host.tn(kXid));
    EXPECT_EQ(b.remove(rel, work.four), LS_OK);
    EXPECT_EQ(ls_txn_prepare(b.worker(), b.xid(), nullptr, 0, &err), LS_MANY_PREPARED);
    b.abort();
    LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));

    finish(store, host, committed);
    EXPECT_EQ(contents(store, host), committed ? work.after : work.before);
    EXPECT_TRUE(std::filesystem::is_empty(fresh.temp / "leanstore/prepared"));
    ASSERT_EQ(b.begin(), LS_OK);
    EXPECT_EQ(b.update(rel, work.one, to("free again")), LS_OK);
    const u64 tn = b.tn();
    hand_over(b);  // the slot is free again, too
    LS_EXPECT_OK(ls_prepared_finish(b.worker(), tn, true, &err));
  }
}

TEST_F(TwoPhaseTest, can_be_rolled_back_before_it_is_handed_over) {
  ASSERT_TRUE(crash_after([&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    ls_rel *rel = a.open(kTable);
    ASSERT_EQ(a.begin(), LS_OK);
    insert_row(a, rel, "the host refuses");
    LS_ASSERT_OK(ls_txn_prepare(a.worker(), a.xid(), nullptr, 0, &err));
    LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
    EXPECT_EQ(prepared_files().size(), 1u);
    a.abort();
    EXPECT_TRUE(prepared_files().empty());
    ASSERT_EQ(a.begin(), LS_OK);
    insert_row(a, rel, "next");
    a.commit();
    EXPECT_EQ(contents(store, host).size(), 1u);
  }));
  StoreLife store(config_);
  LS_ASSERT_OK(start(store, Fate::kPrepared));
  EXPECT_EQ(asked_, 0u);
  HostAfter after(store.store(), false);
  EXPECT_EQ(contents(store, after.host).size(), 1u);
}

// TWOPH-1
TEST_F(TwoPhaseTest, is_there_after_crashes_and_clean_starts_until_it_ends) {
  auto *told = shared<SharedWork>();
  for (const bool committed : {true, false}) {
    for (const bool clean : {true, false}) {
      FreshStore fresh;
      config_ = fresh.config;
      ASSERT_TRUE(in_child([&] {
        StoreLife store(config_);
        LS_ASSERT_OK(store.recover(kXid));
        Host host(store.store(), kXid);
        tell(told, prepare_work(store, host));
        if (clean) LS_EXPECT_OK(store.shutdown());
      }));
      for (int life = 0; life < 3; life++) {
        ASSERT_TRUE(in_child([&] {
          StoreLife store(config_);
          LS_ASSERT_OK(start(store, Fate::kPrepared));
          EXPECT_EQ(asked_, 1u);
          HostAfter after(store.store());
          EXPECT_EQ(contents(store, after.host), before_of(*told)) << "life " << life;
          u64 tn = 0;
          EXPECT_EQ(ls_prepared_tns(store.store(), &tn, 1), 1u);
          EXPECT_EQ(tn, after.host.tn(kXid));
          EXPECT_GE(tn, ls_store_tn_base(store.store()));
          // The log goes on without it.
          Session b(store.store(), &after.host, 1);
          ls_rel *rel = b.open(kTable), *other = b.open(kOther);
          ls_conflict conflict{};
          ASSERT_EQ(b.begin(), LS_OK);
          EXPECT_EQ(lock_row(b, after.host, rel, told->one, LS_LOCK_SHARE, &conflict),
                    LS_BEING_MODIFIED);
          EXPECT_EQ(conflict.tn, tn);
          for (int i = 0; i < 1000; i++) insert_row(b, other, std::string(3000, 'o'));
          b.commit();
          LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
          LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
          ls_stats stats;
          ls_store_stats(store.store(), &stats);
          EXPECT_LT(stats.log_position - stats.log_redo_position, 2u << 20)
              << "the log is kept for it";
        })) << "life " << life;
      }
      StoreLife store(config_);
      LS_ASSERT_OK(start(store, Fate::kPrepared));
      HostAfter after(store.store());
      finish(store, after.host, committed);
      const Rows rows = contents(store, after.host);
      if (committed) {
        EXPECT_EQ(rows.size(), 102u);
        EXPECT_EQ(rows.at(told->one), "uno");
        EXPECT_EQ(rows.at(told->last), "new and changed");
      } else {
        EXPECT_EQ(rows, before_of(*told));
      }
      EXPECT_TRUE(std::filesystem::is_empty(fresh.temp / "leanstore/prepared"));
    }
  }
}

// Decided while the store was down, its log long gone.
TEST_F(TwoPhaseTest, the_host_has_ended_it_meanwhile) {
  auto *told = shared<SharedWork>();
  for (const Fate fate : {Fate::kCommitted, Fate::kAborted}) {
    FreshStore fresh;
    config_ = fresh.config;
    ASSERT_TRUE(crash_after([&](StoreLife &store, Host &host) {
      tell(told, prepare_work(store, host));
      LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
    }));
    ASSERT_TRUE(in_child([&] {  // taken over once, so that its rows carry another number
      StoreLife store(config_);
      LS_ASSERT_OK(start(store, Fate::kPrepared));
      LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
    }));
    for (int life = 0; life < 2; life++) {
      StoreLife store(config_);
      LS_ASSERT_OK(start(store, fate));
      EXPECT_EQ(asked_, life == 0 ? 1u : 0u);
      HostAfter after(store.store(), false);
      const Rows rows = contents(store, after.host);
      if (fate == Fate::kAborted) {
        EXPECT_EQ(rows, before_of(*told));
      } else {
        EXPECT_EQ(rows.size(), 102u);
      }
      EXPECT_TRUE(std::filesystem::is_empty(fresh.temp / "leanstore/prepared"));
    }
  }
}

// TWOPH-5.  Without a file its end had begun before the start.
TEST_F(TwoPhaseTest, committed_since_the_start_it_gets_its_end_later) {
  auto *told = shared<SharedWork>();
  for (const bool has_file : {true, false}) {
    FreshStore fresh;
    config_ = fresh.config;
    ASSERT_TRUE(crash_after([&](StoreLife &store, Host &host) {
      tell(told, prepare_work(store, host));
      LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
    }));
    ASSERT_TRUE(in_child([&] {  // its log is long gone
      StoreLife store(config_);
      LS_ASSERT_OK(start(store, Fate::kPrepared));
      LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
    }));
    const std::filesystem::path files = fresh.temp / "leanstore/prepared";
    if (!has_file)
      for (const auto &file : std::filesystem::directory_iterator(files))
        std::filesystem::remove(file.path());
    StoreLife store(config_);
    LS_ASSERT_OK(start(store, Fate::kCommittedSince));
    EXPECT_EQ(asked_, 1u);
    HostAfter after(store.store(), has_file);
    u64 tn = 0;
    EXPECT_EQ(ls_prepared_tns(store.store(), &tn, 1), has_file ? 1u : 0u);
    if (has_file) {
      EXPECT_EQ(tn, after.host.tn(kXid));
      EXPECT_EQ(contents(store, after.host), before_of(*told));   // a snapshot in which it runs
      finish(store, after.host, true);
    }
    EXPECT_EQ(contents(store, after.host).size(), 102u);
    EXPECT_TRUE(std::filesystem::is_empty(files));
  }
}

// The host's log has lost its tail, the preparation with it.
TEST_F(TwoPhaseTest, unknown_to_the_host_it_is_undone) {
  auto *told = shared<SharedWork>();
  ASSERT_TRUE(
      crash_after([&](StoreLife &store, Host &host) { tell(told, prepare_work(store, host)); }));
  StoreLife store(config_);
  LS_ASSERT_OK(start(store, Fate::kPrepared, kXid));
  EXPECT_EQ(asked_, 0u);
  Host host(store.store(), kXid);
  EXPECT_EQ(contents(store, host), before_of(*told));
}

// Killed at every system call of the start, one after the other, each time on what the one before
// has left.
// TWOPH-2
TEST_F(TwoPhaseTest, starts_can_be_killed_anywhere) {
  auto *told = shared<SharedWork>();
  auto *done = shared<bool>();
  for (const Fate fate : {Fate::kPrepared, Fate::kAborted}) {
    FreshStore fresh;
    config_ = fresh.config;
    config_.fsync = true;
    ASSERT_TRUE(
        crash_after([&](StoreLife &store, Host &host) { tell(told, prepare_work(store, host)); }));
    u64 kills = 0;
    for (const FaultOp op : {FaultOp::kWrite, FaultOp::kSync, FaultOp::kRename, FaultOp::kUnlink}) {
      *done = false;
      for (u64 nth = 1; !*done && nth < 200; nth++) {
        ASSERT_TRUE(in_child([&] {
          fault_add({.op = op, .path_part = "", .nth = nth, .outcome = FaultOutcome::kCrash,
                     .on_crash = [] { die_at_once(); }});
          StoreLife store(config_);
          LS_ASSERT_OK(start(store, fate));
          *done = true;
        })) << "call " << nth;
        kills += !*done;
      }
      EXPECT_TRUE(*done);
    }
    EXPECT_GT(kills, 10u);
    StoreLife store(config_);
    LS_ASSERT_OK(start(store, Fate::kPrepared));
    if (fate == Fate::kPrepared) {
      HostAfter after(store.store());
      EXPECT_EQ(contents(store, after.host), before_of(*told));
      finish(store, after.host, true);
      EXPECT_EQ(contents(store, after.host).size(), 102u);
    } else {
      HostAfter after(store.store(), false);
      EXPECT_EQ(contents(store, after.host), before_of(*told));
    }
  }
}

// The host commits it while the start that takes it over is killed, at any system call: the next
// start has no file to look at, and must not use that start's numbers for its own transactions.
// TWOPH-4
TEST_F(TwoPhaseTest, numbers_of_a_start_that_was_killed_are_not_used_again) {
  auto *told = shared<SharedWork>();
  auto *done = shared<bool>();
  constexpr u64 kNext = kXid + 2;   // no transaction came behind
  for (const FaultOp op : {FaultOp::kWrite, FaultOp::kSync, FaultOp::kRename}) {
    *done = false;
    for (u64 nth = 1; !*done && nth < 200; nth++) {
      SCOPED_TRACE("call " + std::to_string(nth) + " of kind " +
                   std::to_string(static_cast<int>(op)));
      FreshStore fresh;
      config_ = fresh.config;
      config_.fsync = true;
      ASSERT_TRUE(crash_after(
          [&](StoreLife &store, Host &host) { tell(told, prepare_work(store, host)); }));
      ASSERT_TRUE(in_child([&] {
        fault_add({.op = op, .path_part = "", .nth = nth, .outcome = FaultOutcome::kCrash,
                   .on_crash = [] { die_at_once(); }});
        StoreLife store(config_);
        LS_ASSERT_OK(start(store, Fate::kPrepared, kNext));
        *done = true;
        die_at_once();
      }));
      StoreLife store(config_);
      LS_ASSERT_OK(start(store, Fate::kCommitted, kNext));
      Host host(store.store(), kNext);
      ASSERT_EQ(contents(store, host).size(), 102u);
      Session s(store.store(), &host, 0);
      commit_row(s, s.open(kTable));
      ASSERT_EQ(s.begin(), LS_OK);
      ASSERT_EQ(s.update(s.open(kTable), told->one, to("eins")), LS_OK) << s.err.message;
      s.commit();
      EXPECT_EQ(contents(store, host).size(), 103u);
    }
    EXPECT_TRUE(*done);
  }
}

// The same for the moments of PREPARE: it is there whole, or not at all.
// PREP-1
TEST_F(TwoPhaseTest, preparation_can_be_killed_anywhere) {
  auto *prepared = shared<bool>();
  auto *done = shared<bool>();
  bool seen[2] = {};
  for (u64 nth = 1; !*done && nth < 100; nth++) {
    FreshStore fresh;
    config_ = fresh.config;
    config_.fsync = true;
    *prepared = false;
    ASSERT_TRUE(crash_after([&](StoreLife &store, Host &host) {
      Session a(store.store(), &host, 0);
      ls_rel *rel = a.open(kTable);
      ASSERT_EQ(a.begin(), LS_OK);
      insert_row(a, rel, "row");
      fault_add({.op = FaultOp::kWrite,
                 .path_part = "leanstore/",
                 .nth = nth,
                 .outcome = FaultOutcome::kCrash,
                 .on_crash = [] { die_at_once(); }});
      ASSERT_EQ(a.hand_over(), LS_OK) << a.err.message;
      *prepared = true;
      *done = nth > 6;  // a few more on the way to the death of the process
    }));
    StoreLife store(config_);
    LS_ASSERT_OK(start(store, Fate::kPrepared));
    if (*prepared) {
      EXPECT_EQ(asked_, 1u);
    }
    const bool taken_over = asked_ == 1;
    seen[taken_over] = true;
    EXPECT_EQ(ls_prepared_tns(store.store(), nullptr, 0), taken_over ? 1u : 0u);
    EXPECT_EQ(std::filesystem::is_empty(fresh.temp / "leanstore/prepared"), !taken_over);
    HostAfter after(store.store(), taken_over);
    EXPECT_TRUE(contents(store, after.host).empty());
    if (taken_over) finish(store, after.host, true);
    EXPECT_EQ(contents(store, after.host).size(), taken_over ? 1u : 0u);
  }
  EXPECT_TRUE(seen[0] && seen[1]);
}

// TWOPH-3, PREP-3
TEST_F(TwoPhaseTest, row_locks_survive_and_follow_rows_that_move) {
  struct Ids { u64 share, key_share, moved, released; };
  auto *ids = shared<Ids>();
  ASSERT_TRUE(crash_after([&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0), b(store.store(), &host, 1);
    ls_rel *rel = a.open(kTable);
    ASSERT_EQ(a.begin(), LS_OK);
    ASSERT_EQ(b.begin(), LS_OK);
    *ids = {insert_row(b, rel, "share"), insert_row(b, rel, "key share"), 0,
            insert_row(b, rel, "released")};
    b.commit();
    ls_conflict conflict{};
    ASSERT_EQ(lock_row(a, host, rel, ids->share, LS_LOCK_SHARE, &conflict), LS_OK);
    ASSERT_EQ(lock_row(a, host, rel, ids->key_share, LS_LOCK_KEY_SHARE, &conflict), LS_OK);
    const u32 savepoint = ls_txn_savepoint(a.worker());
    ASSERT_EQ(lock_row(a, host, rel, ids->released, LS_LOCK_UPDATE, &conflict), LS_OK);
    ls_txn_rollback_to(a.worker(), savepoint);
    hand_over(a);  // it has changed nothing
    // Moves the row with its key as it is, and everything that leads there may go as far as
    // snapshots are concerned.
    ASSERT_EQ(b.begin(), LS_OK);
    ids->moved = insert_row(b, rel, "key share, moved");
    HostSnapshot snapshot;
    host.take(&snapshot, b.xid(), 2000);
    ls_change c{ids->key_share, &snapshot.s, nullptr, 2000, LS_LOCK_NO_KEY_UPDATE};
    ASSERT_EQ(ls_row_delete(b.worker(), rel, &c, ids->moved, &conflict, &err), LS_OK);
    host.release(snapshot);
    b.commit();
  }));
  for (int life = 0; life < 3; life++) {
    ASSERT_TRUE(in_child([&] {
      StoreLife store(config_);
      LS_ASSERT_OK(start(store, Fate::kPrepared));
      HostAfter after(store.store());
      Host &host = after.host;
      EXPECT_EQ(contents(store, host).size(), 3u);  // the scan removes ghosts of earlier lives
      Session b(store.store(), &host, 1);
      ls_rel *rel = b.open(kTable);
      ls_conflict conflict{};
      ASSERT_EQ(b.begin(), LS_OK);
      EXPECT_EQ(lock_row(b, host, rel, ids->share, LS_LOCK_SHARE, &conflict), LS_OK);
      EXPECT_EQ(b.update(rel, ids->share, to("x")), LS_LOCKED);
      EXPECT_EQ(b.remove(rel, ids->moved), LS_LOCKED) << "life " << life;
      EXPECT_EQ(lock_row(b, host, rel, ids->moved, LS_LOCK_UPDATE, &conflict), LS_LOCKED);
      EXPECT_EQ(conflict.tn, host.tn(kXid));
      EXPECT_EQ(lock_row(b, host, rel, ids->moved, LS_LOCK_NO_KEY_UPDATE, &conflict), LS_OK);
      EXPECT_EQ(b.remove(rel, ids->released), LS_OK);
      b.abort();
      LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
    }));
  }
  StoreLife store(config_);
  LS_ASSERT_OK(start(store, Fate::kPrepared));
  HostAfter after(store.store());
  finish(store, after.host, true);
  Session b(store.store(), &after.host, 1);
  ls_rel *rel = b.open(kTable);
  ASSERT_EQ(b.begin(), LS_OK);
  EXPECT_EQ(b.remove(rel, ids->moved), LS_OK);
  EXPECT_EQ(b.update(rel, ids->share, to("x")), LS_OK);
  b.commit();
}

// The host tells each session that asks, so several may come at once, some in transactions of their
// own.
// PREP-4
TEST_F(TwoPhaseTest, several_finish_it_at_once) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kXid));
  Host host(store.store(), kXid);
  const Work work = prepare_work(store, host);
  std::vector<std::unique_ptr<Session>> sessions;
  for (u32 i = 0; i < 4; i++)
    sessions.push_back(std::make_unique<Session>(store.store(), &host, i));
  ls_rel *other = sessions[0]->open(kOther);
  for (u32 i = 1; i < 4; i++) {
    ASSERT_EQ(sessions[i]->begin(), LS_OK);
    insert_row(*sessions[i], other, "own");
  }
  std::vector<std::thread> threads;
  for (auto &session : sessions) {
    threads.emplace_back([&, s = session.get()] {
      ls_error error{};
      EXPECT_EQ(ls_prepared_finish(s->worker(), host.tn(kXid), false, &error), LS_OK);
      EXPECT_FALSE(ls_tn_is_active(store.store(), host.tn(kXid)));
    });
  }
  for (std::thread &thread : threads) thread.join();
  host.end(kXid);
  sessions[1]->abort();
  sessions[2]->commit();
  sessions[3]->commit();
  EXPECT_EQ(contents(store, host), work.before);
  EXPECT_EQ(sessions[0]->contents(other).size(), 2u);
}

TEST_F(TwoPhaseTest, missing_or_damaged_file_is_told) {
  ASSERT_TRUE(crash_after([&](StoreLife &store, Host &host) {
    prepare_work(store, host);
    // The log before that is not needed any more: redo begins at a place that it knows, each MB.
    Session a(store.store(), &host, 0);
    ls_rel *other = a.open(kOther);
    ASSERT_EQ(a.begin(), LS_OK);
    for (int i = 0; i < 4000; i++) insert_row(a, other, std::string(900, 'x'));
    a.commit();
    for (int i = 0; i < 2; i++) LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
  }));
  ASSERT_EQ(prepared_files(), std::vector<std::string>{"0000000000000014"});
  const std::string path = temp_ / ("leanstore/prepared/" + prepared_files()[0]);
  const auto size = std::filesystem::file_size(path);
  std::filesystem::copy_file(path, temp_ / "kept");
  for (const u64 damage : {u64{0}, u64{100}, size / 2, size - 1}) {
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(damage));
      const char c = static_cast<char>(file.get() ^ 0x10);
      file.seekp(static_cast<std::streamoff>(damage));
      file.put(c);
    }
    StoreLife store(config_);
    EXPECT_EQ(start(store, Fate::kPrepared), LS_CORRUPT) << damage;
    std::filesystem::copy_file(temp_ / "kept", path,
                               std::filesystem::copy_options::overwrite_existing);
  }
  std::filesystem::remove(path);
  {
    StoreLife store(config_);
    EXPECT_EQ(start(store, Fate::kPrepared), LS_CORRUPT);
  }
  std::filesystem::copy_file(temp_ / "kept", path);
  config_.prepared_slots = 0;
  {
    StoreLife store(config_);
    EXPECT_EQ(start(store, Fate::kPrepared), LS_MANY_PREPARED);
  }
  config_.prepared_slots = 1;
  StoreLife store(config_);
  LS_EXPECT_OK(start(store, Fate::kPrepared));
}

// PFILE-2
TEST_F(TwoPhaseTest, small_file_is_made_of_the_log) {
  SharedWork *work = shared<SharedWork>();
  ASSERT_TRUE(crash_after([&](StoreLife &store, Host &host) {
    tell(work, prepare_work(store, host));
    EXPECT_TRUE(prepared_files().empty());
  }));
  for (int life = 0; life < 2; life++) {   // the second time from the file
    ASSERT_TRUE(in_child([&] {
      StoreLife store(config_);
      LS_ASSERT_OK(start(store, Fate::kPrepared));
      HostAfter after(store.store());
      EXPECT_EQ(contents(store, after.host), before_of(*work));
      EXPECT_EQ(prepared_files().size(), 1u);
      crash_now();
    }));
  }
  StoreLife store(config_);
  LS_ASSERT_OK(start(store, Fate::kPrepared));
  HostAfter after(store.store());
  finish(store, after.host, false);
  EXPECT_EQ(contents(store, after.host), before_of(*work));
  EXPECT_TRUE(prepared_files().empty());
}

// Transactions end while a checkpoint writes their files, or before, or afterwards.
TEST_F(TwoPhaseTest, ends_beside_checkpoints_leave_no_file) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kXid));
  Host host(store.store(), kXid);
  std::atomic<bool> done = false;
  std::thread checkpoints([&] {
    ls_error error{};
    while (!done) LS_EXPECT_OK(ls_store_checkpoint(store.store(), &error));
  });
  Session a(store.store(), &host, 0);
  ls_rel *rel = a.open(kTable);
  for (int i = 0; i < 300; i++) {
    ASSERT_EQ(a.begin(), LS_OK);
    const u64 tn = a.tn(), xid = a.xid();
    insert_row(a, rel, "row");
    hand_over(a);
    if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(i * 10));
    host.end(xid);
    LS_EXPECT_OK(ls_prepared_finish(a.worker(), tn, true, &err));
  }
  done = true;
  checkpoints.join();
  EXPECT_TRUE(prepared_files().empty());
  EXPECT_EQ(a.contents(rel).size(), 300u);
}

// Until that a checkpoint could let the log begin behind what undoes it, and a start that finds it
// prepared, for its end is lost, would have nothing.
TEST_F(TwoPhaseTest, rolled_back_it_is_let_go_of_when_its_end_is_hardened) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kXid));
  Host host(store.store(), kXid);
  prepare_work(store, host);
  const u64 before = ls_log_hardened(store.store());
  finish(store, host, false);
  EXPECT_GT(ls_log_hardened(store.store()), before);
}

TEST_F(TwoPhaseTest, small_file_is_synced_by_a_checkpoint) {
  config_.fsync = true;
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kXid));
  Host host(store.store(), kXid);
  fault_add({.op = FaultOp::kSync, .path_part = "/prepared", .every = true,
             .outcome = FaultOutcome::kSucceed});
  prepare_work(store, host);
  EXPECT_EQ(fault_hits(), 0u);
  LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
  const u64 syncs = fault_hits();
  EXPECT_GE(syncs, 1u);
  LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
  EXPECT_EQ(fault_hits(), syncs) << "it is durable now";
  fault_clear();
  finish(store, host, true);
}

TEST_F(TwoPhaseTest, large_file_is_durable_at_once) {
  config_.fsync = true;
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kXid));
  Host host(store.store(), kXid);
  Session a(store.store(), &host, 0), b(store.store(), &host, 1);
  ls_rel *rel = a.open(kTable);
  ASSERT_EQ(b.begin(), LS_OK);
  std::vector<u64> rows;
  for (int i = 0; i < 100; i++) rows.push_back(insert_row(b, rel, std::string(900, 'x')));
  b.commit();
  ASSERT_EQ(a.begin(), LS_OK);
  for (const u64 row : rows) EXPECT_EQ(a.update(rel, row, to("short")), LS_OK);
  fault_add({.op = FaultOp::kSync, .path_part = "/prepared", .every = true});
  EXPECT_EQ(ls_txn_prepare(a.worker(), a.xid(), nullptr, 0, &err), LS_IO_ERROR);
  fault_clear();
  a.abort();
  EXPECT_EQ(a.contents(rel).begin()->second.size(), 900u);
}

#if LS_FAILPOINTS
// Worker: has made the file durable.  Crash, with all hardened that was logged so far.
TEST_F(TwoPhaseTest, crash_between_its_file_and_its_record_undoes_it) {
  ASSERT_TRUE(crash_after([&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0), b(store.store(), &host, 1);
    ls_rel *rel = a.open(kTable);
    ASSERT_EQ(a.begin(), LS_OK);
    const u64 row = insert_row(a, rel, std::string(900, 'x'));
    for (int i = 0; i < 30; i++)   // so that it has a file at once
      EXPECT_EQ(a.update(rel, row, to(std::string(900, static_cast<char>('a' + i % 20)))), LS_OK);
    OnceAt point(Failpoint::txn_before_prepared_record, [&] {
      EXPECT_EQ(prepared_files().size(), 1u);
      commit_row(b, b.open(kOther));
      crash_now();
    });
    (void)a.hand_over();
    ADD_FAILURE() << "it is prepared";
    crash_now();
  }));
  EXPECT_EQ(prepared_files().size(), 1u);
  StoreLife store(config_);
  LS_ASSERT_OK(start(store, Fate::kPrepared));
  EXPECT_EQ(asked_, 0u);
  EXPECT_TRUE(prepared_files().empty());
  HostAfter after(store.store(), false);
  EXPECT_TRUE(contents(store, after.host).empty());
}
#endif

}  // namespace
}  // namespace ls::test
