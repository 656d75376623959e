// Crashes while losers are undone by several threads: at writes of the log and of pages, in the
// undo after that once more, and then everything must be as the losers had found it.
// LS_CRASH_STEP=1 leaves no write out.
#include <filesystem>

#include "os/fault.hpp"
#include "store/store_process.hpp"
#include "unit/base/failpoint_actions.hpp"
#include "unit/recovery/crash_after.hpp"
#include "unit/recovery/crash_fixture.hpp"

namespace ls::test {
namespace {

constexpr u32 kTables[] = {16500, 16501, 16502, 16503};
constexpr u64 kNextXid = 10;
// Of the first table, and of each of the others.
constexpr u64 kMostRows = 20'000, kFewRows = 500;
using Contents = std::map<u64, std::string>;

class UndoCrashTest : public ::testing::Test {
 protected:
  UndoCrashTest() : directory_(store_.path()), config_(small_config(store_.path())) {
    for (const u32 table : kTables) directory_.create_file(table);
    config_.buffer_pool_bytes = 128 * 4096;   // pages are evicted meanwhile
    config_.log_segment_bytes = 1 << 20;
    // Undo logs more than the buffers of all its threads hold: it does not end before the log is
    // written.
    config_.worker_slots = 3;
  }
  ~UndoCrashTest() override { fault_clear(); }

  // Losers with changes of all kinds, in several blocks of rows, of rows beside each other, and of
  // some twice.
  void make_losers() {
    ASSERT_TRUE(crash_after(config_, kNextXid, [&](StoreLife &store, Host &host) {
      Session a(store.store(), &host, 0), b(store.store(), &host, 1);
      Session winner(store.store(), &host, 2);
      ls_rel *rels[4];
      for (size_t i = 0; i < 4; i++) rels[i] = a.open(kTables[i]);
      u64 first[4];
      ASSERT_EQ(winner.begin(), LS_OK);
      for (size_t i = 0; i < 4; i++) {
        first[i] = insert_rows(winner, rels[i], i == 0 ? kMostRows : kFewRows, 'c');
      }
      winner.commit();
      ASSERT_EQ(a.begin(), LS_OK);
      ASSERT_EQ(b.begin(), LS_OK);
      for (size_t i = 0; i < 4; i++) {
        const u64 end = first[i] + (i == 0 ? kMostRows : kFewRows);
        for (u64 row = first[i]; row < end; row += 4) update(a, rels[i], row, 60);
        for (u64 row = first[i] + 1; row < end; row += 8) update(b, rels[i], row, 5);
        const u64 fresh = insert_rows(a, rels[i], i == 0 ? 5000 : 100, 'n');
        for (u64 row = fresh; row < fresh + 50; row++) update(a, rels[i], row, 30);
        for (u64 row = fresh; row < fresh + 10; row++) ASSERT_EQ(a.remove(rels[i], row), LS_OK);
        const u32 savepoint = ls_txn_savepoint(a.worker());
        for (u64 row = first[i]; row < end; row += 16) update(a, rels[i], row, 1);
        insert_rows(a, rels[i], 50, 's');
        ls_txn_rollback_to(a.worker(), savepoint);
        for (u64 row = first[i]; row < end; row += 32) ASSERT_EQ(a.remove(rels[i], row), LS_OK);
        for (u64 row = first[i] + 1; row < end; row += 24) update(b, rels[i], row, 90);
      }
      ASSERT_EQ(winner.begin(), LS_OK);
      const auto winners = [](const std::string &) { return "winner"; };
      ASSERT_EQ(winner.update(rels[1], first[1] + 2, winners), LS_OK);
      winner.commit();   // hardens what came before, too
      crash_now();
    }));
  }
  static u64 insert_rows(Session &s, ls_rel *rel, u64 rows, char letter) {
    u64 first = 0;
    const std::vector<std::string> fifty(50, std::string(40, letter));
    for (u64 done = 0; done < rows; done += 50) {
      u64 row;
      EXPECT_EQ(s.insert_many(rel, fifty, &row), LS_OK);
      if (done == 0) first = row;
    }
    return first;
  }
  static void update(Session &s, ls_rel *rel, u64 row, size_t bytes) {
    const auto change = [&](const std::string &old) {
      return old.substr(0, 10) + std::string(bytes, 'u');
    };
    EXPECT_EQ(s.update(rel, row, change), LS_OK) << s.err.message;
  }

  // A start that dies in the nth call of its undo, or of the shutdown that comes next and writes
  // what undo has left in memory; true: it came to that.
  bool dies_in_undo(const char *path_part, u64 nth, u64 first_bytes) {
    auto *finished = static_cast<std::atomic<u32> *>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    EXPECT_TRUE(in_child([&] {
      StoreLife store(config_);
      ls_in_doubt *doubts = nullptr;
      size_t n = 0;
      LS_ASSERT_OK(ls_recovery_redo(store.store(), kNextXid, &doubts, &n, &store.err));
      FaultRule rule{.op = FaultOp::kWrite, .path_part = path_part, .nth = nth};
      rule.outcome = FaultOutcome::kCrash;
      rule.first_bytes = first_bytes;
      rule.on_crash = die_at_once;
      fault_add(rule);
      LS_ASSERT_OK(ls_recovery_finish(store.store(), doubts, n, &store.err));
      LS_ASSERT_OK(store.shutdown());
      *finished = 1;
      if (!HasFailure()) die_at_once();   // before anything else is written
    }));
    const bool died = *finished == 0;
    munmap(finished, 4096);
    return died;
  }
  void expect_undone() {
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(kNextXid));
    Host host(store.store(), kNextXid);
    Session s(store.store(), &host, 0);
    for (size_t i = 0; i < 4; i++) {
      ls_rel *rel = s.open(kTables[i]);
      ls_check_result check;
      LS_EXPECT_OK(ls_rel_check(s.worker(), rel, &check, &err));
      u64 rows = 0, wrong = 0, winners = 0;
      for (const auto &[id, text] : s.contents(rel)) {
        rows++;
        winners += text == "winner";
        wrong += text != "winner" && text != std::string(40, 'c');
      }
      EXPECT_EQ(rows, i == 0 ? kMostRows : kFewRows) << "table " << i;
      EXPECT_EQ(wrong, 0u) << "table " << i;
      EXPECT_EQ(winners, i == 1) << "table " << i;
    }
  }

  TempDirectory store_, saved_;
  HostDirectory directory_;
  ls_config config_;
  ls_error err{};
};

// UNDO-1, UNDO-2, UNDO-3
TEST_F(UndoCrashTest, undo_survives_crashes_at_its_writes_and_once_more_in_the_next_one) {
  constexpr auto kRecursive =
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing;
  make_losers();
  std::filesystem::copy(store_.path(), saved_.path(), kRecursive);
  const auto restore = [&] {
    for (auto &entry : std::filesystem::directory_iterator(store_.path())) {
      std::filesystem::remove_all(entry.path());
    }
    std::filesystem::copy(saved_.path(), store_.path(), kRecursive);
  };
  expect_undone();
  const u64 step = environment("LS_CRASH_STEP", 0);
  std::mt19937_64 random(7);
  for (const char *path_part : {"/wal/", "base/5"}) {
    u64 crashes = 0, again = 0;
    bool died = true;
    for (u64 nth = 1; died; nth += step != 0 ? step : nth) {
      SCOPED_TRACE(std::string(path_part) + ", write " + std::to_string(nth));
      restore();
      died = dies_in_undo(path_part, nth, random() % 4096);
      crashes += died;
      if (died) again += dies_in_undo(path_part, 1 + random() % nth, random() % 4096);
      expect_undone();
      if (HasFailure()) return;
    }
    EXPECT_GT(crashes, 0u) << path_part;
    EXPECT_GT(again, 0u) << path_part;
  }
}

// A redo position lies in a round of the log, of which older changes are read again; by the start
// behind one that has recovered and died before its first checkpoint, too.
// LAST-1, LAST-3, REDO-4
TEST_F(UndoCrashTest, pages_that_undo_gave_back_are_not_missed_behind_a_checkpoint) {
  for (const u64 rows : {u64{100}, u64{500}, u64{5000}}) {
    SCOPED_TRACE(rows);
    ASSERT_TRUE(crash_after(config_, kNextXid, [&](StoreLife &store, Host &host) {
      Session loser(store.store(), &host, 0), winner(store.store(), &host, 1);
      ASSERT_EQ(loser.begin(), LS_OK);
      insert_rows(loser, loser.open(kTables[0]), rows, 'n');
      ASSERT_EQ(winner.begin(), LS_OK);
      insert_rows(winner, winner.open(kTables[1]), 50, 'c');
      winner.commit();   // hardens what came before, too
      crash_now();
    }));
    for (int life = 0; life < 4; life++) {
      ASSERT_TRUE(crash_after(config_, kNextXid, [&](StoreLife &store, Host &host) {
        if (life == 2) {
          Session s(store.store(), &host, 0);
          ASSERT_EQ(s.begin(), LS_OK);
          insert_rows(s, s.open(kTables[1]), 50, 'c');
          s.commit();
        }
        if (life != 1) LS_ASSERT_OK(ls_store_checkpoint(store.store(), &store.err));
      }));
    }
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(kNextXid));
    Host host(store.store(), kNextXid);
    Session s(store.store(), &host, 0);
    ls_rel *rel = s.open(kTables[0]);
    ls_check_result check;
    LS_EXPECT_OK(ls_rel_check(s.worker(), rel, &check, &err));
    EXPECT_TRUE(s.contents(rel).empty());
  }
}

#if LS_FAILPOINTS
// Recovery: has undone the losers.  Crash, with all hardened that was logged so far.
TEST_F(UndoCrashTest, crash_between_undo_and_the_ends_of_losers_undoes_them_once_more) {
  make_losers();
  ASSERT_TRUE(in_child([&] {
    StoreLife store(config_);
    ls_in_doubt *doubts = nullptr;
    size_t n = 0;
    LS_ASSERT_OK(ls_recovery_redo(store.store(), kNextXid, &doubts, &n, &store.err));
    OnceAt point(Failpoint::recovery_before_fate, [&] {
      Log &log = store_process(*store.store()).log;
      EXPECT_TRUE(log.wait_hardened(log.last_gsn(), nullptr));
      crash_now();
    });
    (void)ls_recovery_finish(store.store(), doubts, n, &store.err);
    ADD_FAILURE() << "nothing was undone";
    crash_now();
  }));
  expect_undone();
}
#endif

}  // namespace
}  // namespace ls::test
