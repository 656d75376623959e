// The assembled store through engine.h: start, work, clean stop, restart, and what is refused when.
#include "unit/store/store_fixture.hpp"

#include <filesystem>
#include <thread>

#include "os/clock.hpp"
#include "recovery/control_file.hpp"

namespace ls::test {
namespace {

constexpr u32 kTable = 16400, kUnlogged = 16401;

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    directory_.create_file(kTable);
    directory_.create_file(kUnlogged);
  }
  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  ls_error err{};
};

std::string row_text(int i) {
  return "row " + std::to_string(i) + std::string(static_cast<size_t>(i % 200), '.');
}

// Insert `n` rows in one transaction; returns their ids.
std::vector<u64> fill(Session &s, ls_rel *rel, int n) {
  std::vector<u64> ids;
  EXPECT_EQ(s.begin(), LS_OK) << s.err.message;
  for (int i = 0; i < n; i++) {
    u64 id = 0;
    EXPECT_EQ(s.insert(rel, row_text(i), &id), LS_OK) << s.err.message;
    ids.push_back(id);
  }
  s.commit();
  return ids;
}

TEST_F(StoreTest, fresh_store_takes_rows_and_gives_them_back) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(100));
  EXPECT_TRUE(ls_store_ready(store.store()));
  EXPECT_EQ(ls_store_tn_base(store.store()), 100u);
  Host host(store.store(), 100);
  Session s(store.store(), &host, 0);
  ASSERT_EQ(s.attach_status(), LS_OK);
  EXPECT_EQ(ls_store_attached(store.store()), 1u);
  ls_rel *rel = s.open(kTable);
  fill(s, rel, 500);
  EXPECT_EQ(s.contents(rel).size(), 500u);
  ls_check_result check;
  LS_EXPECT_OK(ls_rel_check(s.worker(), rel, &check, &err));
  EXPECT_EQ(check.rows, 500u);
  ls_rel_info info;
  LS_EXPECT_OK(ls_rel_get_info(s.worker(), rel, &info, &err));
  EXPECT_GT(info.next_row_id, 500u);
  EXPECT_GT(info.height, 1u);
  EXPECT_EQ(info.pages, check.pages + check.free_pages);
}

TEST_F(StoreTest, clean_restart_replays_nothing_and_keeps_unlogged_rows) {
  std::map<u64, std::string> before, unlogged_before;
  u64 next_row_id = 0, next_xid = 0;
  {
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(100));
    Host host(store.store(), 100);
    Session s(store.store(), &host, 1);
    fill(s, s.open(kTable), 300);
    fill(s, s.open(kUnlogged, false), 200);
    before = s.contents(s.open(kTable));
    unlogged_before = s.contents(s.open(kUnlogged, false));
    ls_rel_info info;
    LS_ASSERT_OK(ls_rel_get_info(s.worker(), s.open(kTable), &info, &err));
    next_row_id = info.next_row_id;
    next_xid = host.next_xid();
  }
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(next_xid));
  const RecoveryReport &report = store.store()->report;
  EXPECT_EQ(report.clean, 1u);
  EXPECT_EQ(report.log_records, 0u);
  EXPECT_EQ(report.ops_applied + report.ops_skipped + report.undo_records, 0u);
  Host host(store.store(), next_xid);
  Session s(store.store(), &host, 0);
  EXPECT_EQ(s.contents(s.open(kTable)), before);
  EXPECT_EQ(s.contents(s.open(kUnlogged, false)), unlogged_before);
  ls_rel_info info;
  LS_ASSERT_OK(ls_rel_get_info(s.worker(), s.open(kTable), &info, &err));
  EXPECT_EQ(info.next_row_id, next_row_id) << "a clean restart loses no row ids";
  ls_check_result check;
  LS_EXPECT_OK(ls_rel_check(s.worker(), s.open(kTable), &check, &err));
  LS_EXPECT_OK(ls_rel_check(s.worker(), s.open(kUnlogged, false), &check, &err));
}

TEST_F(StoreTest, transaction_numbers_grow_when_the_host_hands_ids_out_again) {
  Tn last_tn = 0;
  u64 id = 0;
  {
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(1000));
    Host host(store.store(), 1000);
    Session s(store.store(), &host, 0);
    for (int i = 0; i < 50; i++) fill(s, s.open(kTable), 1);
    LS_ASSERT_OK(s.begin());
    last_tn = s.tn();
    LS_ASSERT_OK(s.insert(s.open(kTable), "last", &id));
    s.commit();
  }
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(1010));  // ids from 1010 on come again
  EXPECT_GT(ls_store_tn_base(store.store()), last_tn);
  EXPECT_EQ(ls_store_tn_base(store.store()), 1010 + ls_store_tn_offset(store.store()));
  EXPECT_EQ(ls_store_horizon(store.store()), ls_store_tn_base(store.store()));
  Host host(store.store(), 1010);
  Session s(store.store(), &host, 0);
  std::string text;
  LS_EXPECT_OK(s.fetch(s.open(kTable), id, &text));
  EXPECT_EQ(text, "last");
}

TEST_F(StoreTest, attach_is_refused_before_recovery_and_for_a_slot_in_use) {
  StoreLife store(config_);
  ls_worker *worker = nullptr;
  EXPECT_EQ(ls_worker_attach(store.store(), 0, &worker, &err), LS_NOT_READY);
  EXPECT_EQ(worker, nullptr);
  EXPECT_FALSE(ls_store_wait_ready(store.store(), 10));
  LS_ASSERT_OK(store.recover(3));
  EXPECT_TRUE(ls_store_wait_ready(store.store(), 10));
  LS_ASSERT_OK(ls_worker_attach(store.store(), 2, &worker, &err));
  ls_worker *second = nullptr;
  EXPECT_EQ(ls_worker_attach(store.store(), 2, &second, &err), LS_INVALID);
  EXPECT_EQ(ls_worker_attach(store.store(), config_.worker_slots, &second, &err), LS_INVALID);
  EXPECT_EQ(ls_store_shutdown(store.store(), &err), LS_INVALID) << "a worker is attached";
  EXPECT_TRUE(ls_store_ready(store.store()));
  ls_worker_detach(worker);
  LS_EXPECT_OK(ls_worker_attach(store.store(), 2, &second, &err));
  ls_worker_detach(second);
}

TEST_F(StoreTest, wait_ready_returns_when_another_thread_finishes_recovery) {
  StoreLife store(config_);
  bool ready = false;
  std::thread waiter([&] { ready = ls_store_wait_ready(store.store(), 30'000); });
  LS_ASSERT_OK(store.recover(3));
  waiter.join();
  EXPECT_TRUE(ready);
}

TEST_F(StoreTest, configuration_is_checked) {
  auto create = [&](const ls_config &config) {
    size_t bytes = ls_store_size(&config);
    void *arena = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ls_store *store = nullptr;
    ls_status status = ls_store_create(arena, bytes, &config, &store, &err);
    munmap(arena, bytes);
    return status;
  };
  EXPECT_EQ(create(config_), LS_OK);
  ls_config bad = config_;
  std::snprintf(bad.data_dir, sizeof bad.data_dir, "/elsewhere");
  EXPECT_EQ(create(bad), LS_INVALID);
  bad = config_;
  bad.version_trees = 3;
  EXPECT_EQ(create(bad), LS_INVALID);
  bad = config_;
  bad.worker_slots = 0;
  EXPECT_EQ(create(bad), LS_INVALID);
  bad = config_;
  ls_store *store = nullptr;
  alignas(4096) static char small[4096];
  EXPECT_EQ(ls_store_create(small, sizeof small, &bad, &store, &err), LS_INVALID);
}

TEST_F(StoreTest, checkpoint_on_request_moves_the_redo_position) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(3));
  Host host(store.store(), 3);
  Session s(store.store(), &host, 0);
  fill(s, s.open(kTable), 300);
  ls_stats before, after;
  ls_store_stats(store.store(), &before);
  LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));
  ls_store_stats(store.store(), &after);
  EXPECT_GT(after.checkpoints, before.checkpoints);
  EXPECT_GT(after.pages_written, before.pages_written);
  ControlFile control;
  bool exists;
  ASSERT_EQ(control_read(config_.data_dir, &control, &exists), kOk);
  ASSERT_TRUE(exists);
  EXPECT_EQ(control.clean, 0u);
  EXPECT_EQ(control.redo_lsn, after.log_redo_position);
  EXPECT_GE(control.redo_lsn, before.log_redo_position);
  EXPECT_GT(control.tn_floor, 3u);
}

TEST_F(StoreTest, log_volume_brings_checkpoints_and_the_log_is_truncated) {
  config_.max_log_bytes = 2 << 20;
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(3));
  Host host(store.store(), 3);
  Session s(store.store(), &host, 0);
  ls_rel *rel = s.open(kTable);
  std::vector<u64> ids = fill(s, rel, 100);
  ls_stats stats;
  ls_store_stats(store.store(), &stats);
  u64 first = stats.log_position, checkpoints = stats.checkpoints;
  for (int i = 0; stats.log_position - first < (6u << 20) && i < 100'000; i++) {
    LS_ASSERT_OK(s.begin());
    LS_ASSERT_OK(s.update(rel, ids[static_cast<size_t>(i) % ids.size()], [&](const std::string &) {
      return std::string(1500, static_cast<char>('a' + i % 26));
    }));
    s.commit();
    if (i % 50 == 0) ls_store_stats(store.store(), &stats);
  }
  // The checkpointer looks at the volume from time to time.
  for (int i = 0; i < 500 && stats.checkpoints == checkpoints; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ls_store_stats(store.store(), &stats);
  }
  EXPECT_GT(stats.checkpoints, checkpoints);
  LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));
  ls_store_stats(store.store(), &stats);
  EXPECT_GT(stats.log_redo_position, first);
  EXPECT_FALSE(std::filesystem::exists(std::string(config_.data_dir) + "/wal/0000000000000000"));
}

// With hours for it, and far more log than comes, a checkpoint ends only when a session asks for
// one.
TEST_F(StoreTest, a_checkpoint_takes_its_time_until_one_is_wanted) {
  config_.buffer_pool_bytes = 4096 * 4096;
  config_.max_log_bytes = 4 << 20;
  config_.checkpoint_seconds = 600;
  config_.checkpoint_spread = 10'000;
  u64 written = 0;
  {
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(3));
    Host host(store.store(), 3);
    Session s(store.store(), &host, 0);
    ls_rel *rel = s.open(kTable);
    ls_stats stats, before;
    ls_store_stats(store.store(), &before);
    // More than a batch of pages, and enough log for a checkpoint to be due.
    do {
      fill(s, rel, 500);
      ls_store_stats(store.store(), &stats);
    } while (stats.log_position - before.log_position < (u64{3} << 20));
    written = s.contents(rel).size();
    for (int i = 0; i < 2000 && stats.pages_written == before.pages_written; i++) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      ls_store_stats(store.store(), &stats);
    }
    EXPECT_GT(stats.pages_written, before.pages_written) << "it has begun";
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ls_store_stats(store.store(), &stats);
    EXPECT_EQ(stats.checkpoints, before.checkpoints);
    EXPECT_GT(stats.frames_dirty, 100u);
    const u64 asked = now_ms();
    LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));
    EXPECT_LT(now_ms() - asked, 60'000u);
    ls_store_stats(store.store(), &stats);
    EXPECT_GE(stats.checkpoints, before.checkpoints + 2) << "that one, and the one asked for";
    fill(s, rel, 500);
  }
  StoreLife again(config_);
  LS_ASSERT_OK(again.recover(100'000));
  Host host(again.store(), 100'000);
  Session s(again.store(), &host, 0);
  EXPECT_EQ(s.contents(s.open(kTable)).size(), written + 500);
}

TEST_F(StoreTest, forgotten_relation_starts_empty_after_the_host_truncated_it) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(3));
  Host host(store.store(), 3);
  Session s(store.store(), &host, 0);
  ls_rel *rel = s.open(kTable);
  ls_rel_key key = relation_key(kTable);
  EXPECT_TRUE(ls_rel_is_open(rel));
  std::vector<u64> ids = fill(s, rel, 50);
  ls_rel_forget(store.store(), &key);
  ls_rel_forget(store.store(), &key);
  EXPECT_FALSE(ls_rel_is_open(rel));
  std::string text;
  EXPECT_EQ(s.fetch(rel, ids[0], &text), LS_NOT_FOUND);
  std::filesystem::resize_file(temp_ / HostDirectory::relation_path(kTable), 0);
  ls_rel *again = s.open(kTable);
  EXPECT_TRUE(ls_rel_is_open(again));
  EXPECT_TRUE(s.contents(again).empty());
  fill(s, again, 20);
  EXPECT_EQ(s.contents(again).size(), 20u);
}

TEST_F(StoreTest, closed_database_has_everything_in_its_files) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(3));
  Host host(store.store(), 3);
  Session s(store.store(), &host, 0);
  const u64 last = fill(s, s.open(kTable), 400).back();
  const u64 last_unlogged = fill(s, s.open(kUnlogged, false), 400).back();
  LS_ASSERT_OK(ls_database_close(s.worker(), 5, &err));
  for (u32 table : {kTable, kUnlogged}) {
    std::ifstream file(temp_ / HostDirectory::relation_path(table), std::ios::binary);
    alignas(8) u8 page[kPageSize];
    file.read(reinterpret_cast<char *>(page), sizeof page);
    const MetaPage &meta = *reinterpret_cast<const MetaPage *>(page);
    ASSERT_TRUE(file.good());
    EXPECT_EQ(meta.magic, kMetaMagic);
    EXPECT_GT(meta.page_count, 3u);
    EXPECT_EQ(meta.header.checksum, page_checksum(page));
  }
  // Opened anew, with nothing in memory: all rows are there, and their ids are not drawn again.
  for (bool logged : {true, false}) {
    ls_rel *rel = s.open(logged ? kTable : kUnlogged, logged);
    EXPECT_EQ(s.contents(rel).size(), 400u);
    EXPECT_GT(fill(s, rel, 1).front(), logged ? last : last_unlogged);
    ls_check_result result;
    LS_EXPECT_OK(ls_rel_check(s.worker(), rel, &result, &err));
  }
}

TEST_F(StoreTest, abandoned_store_is_recovered_and_takes_no_workers) {
  {
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(3));
    Host host(store.store(), 3);
    {
      Session s(store.store(), &host, 0);
      fill(s, s.open(kTable), 400);
      EXPECT_EQ(ls_store_abandon(store.store(), &err), LS_INVALID) << "a worker is attached";
      EXPECT_TRUE(ls_store_ready(store.store()));
    }
    LS_ASSERT_OK(ls_store_abandon(store.store(), &err));
    EXPECT_TRUE(ls_store_stopped(store.store()));
    ls_worker *worker = nullptr;
    EXPECT_EQ(ls_worker_attach(store.store(), 0, &worker, &err), LS_NOT_READY);
  }
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(1000));
  EXPECT_EQ(store.store()->report.clean, 0u);
  Host host(store.store(), 1000);
  Session s(store.store(), &host, 0);
  EXPECT_EQ(s.contents(s.open(kTable)).size(), 400u);
}

}  // namespace
}  // namespace ls::test
