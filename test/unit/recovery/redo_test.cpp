// Redo by page: several threads, several portions, pages that stay in memory, and a crash before
// the first checkpoint has written them.
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "recovery/control_file.hpp"
#include "unit/recovery/crash_after.hpp"

namespace ls::test {
namespace {

constexpr u32 kTable = 16500;
constexpr u32 kRows = 2300;   // one a page: enough for two threads

std::string text(u64 i, const std::string &version) {
  return version + std::to_string(i) + std::string(2500, 'x');
}

class RedoTest : public ::testing::TestWithParam<u32> {
 protected:
  RedoTest() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    directory_.create_file(kTable);
    config_.buffer_pool_bytes = u64{GetParam()} * 4096;
    config_.max_log_bytes = u64{256} << 20;
    config_.checkpoint_spread = 90;
  }

  // In a child: rows in version "a" on disk, in version "b" in the log only; one transaction has
  // not ended.
  void first_life() {
    ASSERT_TRUE(crash_after(config_, 10, [&](StoreLife &store, Host &host) {
      Session s(store.store(), &host, 0), other(store.store(), &host, 1);
      ls_rel *rel = s.open(kTable);
      std::vector<u64> ids(kRows);
      ASSERT_EQ(s.begin(), LS_OK);
      for (u32 i = 0; i < kRows; i++)
        ASSERT_EQ(s.insert(rel, text(i, "a"), &ids[i]), LS_OK) << s.err.message;
      s.commit();
      LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));
      ASSERT_EQ(s.begin(), LS_OK);
      for (u32 i = 0; i < kRows; i++) {
        ASSERT_EQ(s.update(rel, ids[i], [&](const std::string &) { return text(i, "b"); }), LS_OK)
            << s.err.message;
      }
      ASSERT_EQ(other.begin(), LS_OK);
      u64 id;
      ASSERT_EQ(other.insert(rel, "never committed", &id), LS_OK);
      s.commit();
      die_at_once();   // before the other one is rolled back
    }));
  }
  void expect_rows(StoreLife &store, const std::string &version, size_t more) {
    Host host(store.store(), 100);
    Session s(store.store(), &host, 0);
    ls_rel *rel = s.open(kTable);
    std::set<std::string> found;
    for (auto &[id, row] : s.contents(rel)) found.insert(row);
    EXPECT_EQ(found.size(), kRows + more);
    for (u32 i = 0; i < kRows; i++) EXPECT_TRUE(found.contains(text(i, version))) << i;
    ls_check_result check;
    LS_EXPECT_OK(ls_rel_check(s.worker(), rel, &check, &err));
  }
  static u64 waiting(StoreLife &store) {
    ls_stats stats;
    ls_store_stats(store.store(), &stats);
    return stats.change_buffer_pending;
  }
  // Turned over once, a page of the table is damaged; turned over twice it is well.
  void flip(PageNo page) {
    std::fstream file(temp_ / HostDirectory::relation_path(kTable),
                      std::ios::in | std::ios::out | std::ios::binary);
    const i64 at = i64{page} * kPageSize + 2000;
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(at);
    file.put(byte);
  }
  Lsn redo_position() {
    ControlFile control;
    bool exists = false;
    EXPECT_TRUE(ok(control_read(config_.data_dir, &control, &exists)) && exists);
    return control.redo_lsn;
  }

  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  ls_error err{};
};

// REDO-1
TEST_P(RedoTest, every_page_is_what_the_log_says) {
  first_life();
  {
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(100));
    EXPECT_EQ(store.store()->report.losers, 1u);
    const RecoveryReport &report = store.store()->report;
    EXPECT_GT(report.ops_applied + report.ops_put_off, 50u);
    expect_rows(store, "b", 0);
  }
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(100));
  EXPECT_TRUE(store.store()->report.clean);
  expect_rows(store, "b", 0);
}

// REDO-6: where there is room nothing is read for a few changes of rows, and what was not is read
// by the checkpointer in the end.
TEST_P(RedoTest, pages_with_few_changes_are_read_later) {
  first_life();
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(100));
  const RecoveryReport &report = store.store()->report;
  if (GetParam() > kRows) {
    EXPECT_GT(report.ops_put_off, u64{kRows} * 9 / 10);
  } else {
    EXPECT_GT(report.ops_put_off, 0u);
    EXPECT_GT(report.ops_applied, 0u) << "half of an eighth of this pool is little";
  }
  for (u32 i = 0; waiting(store) > 0 && i < 10'000; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(waiting(store), 0u);
  expect_rows(store, "b", 0);
}

// CHBUF-4: one that is damaged keeps its changes until it is well again; all others can be read.
TEST_P(RedoTest, a_damaged_page_keeps_what_was_put_off) {
  first_life();
  if (GetParam() < kRows) return;   // it has to be read at once
  constexpr PageNo damaged = kRows / 2;   // each row has a page of its own
  flip(damaged);
  for (const bool well : {false, true}) {
    SCOPED_TRACE(well);
    if (well) flip(damaged);
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(100));
    if (well) {
      expect_rows(store, "b", 0);
      continue;
    }
    Host host(store.store(), 100);
    Session s(store.store(), &host, 0);
    u32 lost = 0, found = 0;
    for (u64 id = 1; id <= kRows; id++) {
      std::string row;
      const ls_status status = s.fetch(s.open(kTable), id, &row);
      found += status == LS_OK;
      if (status == LS_OK) continue;
      EXPECT_EQ(status, LS_CORRUPT);
      EXPECT_EQ(s.err.page_no, damaged);
      lost++;
    }
    EXPECT_EQ(lost, 1u);
    EXPECT_EQ(found, kRows - 1);
    // A checkpoint leaves it, and the log that has its change.
    const Lsn before = redo_position();
    LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));
    EXPECT_EQ(waiting(store), 1u);
    EXPECT_EQ(redo_position(), before);
  }
}

// CHBUF-4: a page that was given back has no parent that would lead to what waits for it.
TEST_P(RedoTest, nothing_waits_for_a_page_that_is_free) {
  ASSERT_TRUE(crash_after(config_, 10, [&](StoreLife &store, Host &host) {
    Session s(store.store(), &host, 0);
    ls_rel *rel = s.open(kTable);
    std::vector<u64> ids(kRows);
    ASSERT_EQ(s.begin(), LS_OK);
    for (u32 i = 0; i < kRows; i++) ASSERT_EQ(s.insert(rel, text(i, "a"), &ids[i]), LS_OK);
    s.commit();
    LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));
    ASSERT_EQ(s.begin(), LS_OK);
    for (u32 i = 0; i < kRows; i += 3) ASSERT_EQ(s.remove(rel, ids[i]), LS_OK);
    s.commit();
    // Only those are merged that are in memory.
    const u64 freed = GetParam() > kRows ? kRows / 4 : 20;
    ls_check_result check{};
    for (u32 i = 0; check.free_pages < freed && i < 10'000; i++) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      LS_ASSERT_OK(ls_rel_check(s.worker(), rel, &check, &err));
    }
    ASSERT_GE(check.free_pages, freed);
    die_at_once();
  }));
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(100));
  LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));
  EXPECT_EQ(waiting(store), 0u);
  Host host(store.store(), 100);
  Session s(store.store(), &host, 0);
  EXPECT_EQ(s.contents(s.open(kTable)).size(), kRows - (kRows + 2) / 3);
}

TEST_P(RedoTest, a_crash_before_the_first_checkpoint_loses_nothing_of_either_run) {
  first_life();
  const Lsn position = redo_position();
  ASSERT_TRUE(crash_after(config_, 100, [&](StoreLife &store, Host &host) {
    Session s(store.store(), &host, 0), other(store.store(), &host, 1);
    ls_rel *rel = s.open(kTable);
    u64 id;
    ASSERT_EQ(other.begin(), LS_OK);
    ASSERT_EQ(other.insert(rel, "never committed either", &id), LS_OK);
    for (u32 i = 0; i < 50; i++) {
      ASSERT_EQ(s.begin(), LS_OK);
      ASSERT_EQ(s.insert(rel, "second run " + std::to_string(i), &id), LS_OK);
      s.commit();
    }
    die_at_once();
  }));
  // In a pool that holds them all the checkpoint takes its time.
  if (GetParam() > kRows) {
    EXPECT_EQ(redo_position(), position);
  }
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(1000));
  expect_rows(store, "b", 50);
}

INSTANTIATE_TEST_SUITE_P(Pool, RedoTest, ::testing::Values(4096, 300),
                         [](const auto &info) { return info.param > kRows ? "large" : "small"; });

}  // namespace
}  // namespace ls::test
