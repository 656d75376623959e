// Redo by page: several threads, several portions, pages that stay in memory, and a crash before
// the first checkpoint has written them.
#include <string>

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
    EXPECT_GT(store.store()->report.ops_applied, 50u);
    expect_rows(store, "b", 0);
  }
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(100));
  EXPECT_TRUE(store.store()->report.clean);
  expect_rows(store, "b", 0);
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
