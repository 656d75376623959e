// The C API itself: errors, handles, and several processes on one arena.
#include <sys/wait.h>

#include <fstream>

#include "buffer/page.hpp"
#include "btree/node.hpp"
#include "unit/store/store_fixture.hpp"
#include "version/row_header.hpp"

namespace ls::test {
namespace {

constexpr u32 kTable = 16600;

class CapiTest : public ::testing::Test {
 protected:
  CapiTest() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    directory_.create_file(kTable);
  }
  std::string table_file() const { return temp_ / HostDirectory::relation_path(kTable); }

  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  ls_error err{};
};

u64 insert_committed(Session &s, ls_rel *rel, const std::string &text) {
  u64 id = 0;
  EXPECT_EQ(s.begin(), LS_OK) << s.err.message;
  EXPECT_EQ(s.insert(rel, text, &id), LS_OK) << s.err.message;
  s.commit();
  return id;
}

TEST_F(CapiTest, failures_come_with_details_and_without_a_place_for_them) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(10));
  ls_worker *worker = nullptr;
  std::memset(&err, 0xff, sizeof err);
  EXPECT_EQ(ls_worker_attach(store.store(), 999, &worker, &err), LS_INVALID);
  EXPECT_EQ(err.status, LS_INVALID);
  EXPECT_EQ(err.page_no, UINT32_MAX);
  EXPECT_NE(std::strstr(err.message, "999"), nullptr);
  EXPECT_EQ(ls_worker_attach(store.store(), 999, &worker, nullptr), LS_INVALID);
  EXPECT_EQ(worker, nullptr);
}

TEST_F(CapiTest, relations_that_cannot_be_are_refused) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(10));
  Host host(store.store(), 10);
  Session s(store.store(), &host, 0);
  ls_rel rel{};
  ls_rel_key key = relation_key(kTable);
  std::string path = HostDirectory::relation_path(kTable);
  EXPECT_EQ(ls_rel_open(s.worker(), &key, path.c_str(), LS_REL_VERSIONS, true, &rel, &err),
            LS_INVALID);
  ls_rel_key own = key;
  own.tablespace = 0;
  EXPECT_EQ(ls_rel_open(s.worker(), &own, path.c_str(), LS_REL_TABLE, true, &rel, &err),
            LS_INVALID);
  EXPECT_EQ(ls_rel_open(s.worker(), &key, "base/5/does-not-exist", LS_REL_TABLE, true, &rel, &err),
            LS_NOT_FOUND);
  std::string endless(300, 'x');
  EXPECT_EQ(ls_rel_open(s.worker(), &key, endless.c_str(), LS_REL_TABLE, true, &rel, &err),
            LS_INVALID);
  EXPECT_EQ(rel.slot, nullptr);
  std::ofstream(table_file(), std::ios::trunc) << std::string(8192, 'z');
  EXPECT_EQ(ls_rel_open(s.worker(), &key, path.c_str(), LS_REL_TABLE, true, &rel, &err),
            LS_CORRUPT);
  EXPECT_EQ(err.page_no, 0u);
  EXPECT_NE(std::strstr(err.path, "16600"), nullptr);
}

TEST_F(CapiTest, transaction_calls_follow_the_contract) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(10));
  Host host(store.store(), 10);
  Session s(store.store(), &host, 0);
  ls_rel *rel = s.open(kTable);
  EXPECT_EQ(ls_txn_active(s.worker()), 0u);
  ASSERT_EQ(s.begin(), LS_OK);
  u64 tn = s.tn(), out[4];
  EXPECT_EQ(ls_txn_begin(s.worker(), tn, &err), LS_OK) << "idempotent";
  EXPECT_EQ(ls_txn_begin(s.worker(), tn + 1, &err), LS_INVALID);
  EXPECT_EQ(ls_txn_active(s.worker()), tn);
  EXPECT_TRUE(ls_tn_is_active(store.store(), tn));
  ASSERT_EQ(ls_active_tns(store.store(), out, 4), 1u);
  EXPECT_EQ(out[0], tn);
  EXPECT_FALSE(ls_txn_has_log(s.worker()));
  u64 id = 0;
  ASSERT_EQ(s.insert(rel, "kept", &id), LS_OK);
  EXPECT_TRUE(ls_txn_has_log(s.worker()));
  u32 savepoint = ls_txn_savepoint(s.worker());
  u64 undone = 0;
  ASSERT_EQ(s.insert(rel, "undone", &undone), LS_OK);
  ls_txn_rollback_to(s.worker(), savepoint);
  s.commit();
  EXPECT_FALSE(ls_tn_is_active(store.store(), tn));
  EXPECT_EQ(ls_active_tns(store.store(), out, 4), 0u);
  auto rows = s.contents(rel);
  EXPECT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[id], "kept");
}

TEST_F(CapiTest, statistics_count_what_happened) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(10));
  Host host(store.store(), 10);
  Session s(store.store(), &host, 0);
  ls_stats before, after;
  ls_store_stats(store.store(), &before);
  u64 id = 0;
  for (int i = 0; i < 10; i++) id = insert_committed(s, s.open(kTable), std::string(500, 'a'));
  ASSERT_EQ(s.begin(), LS_OK);
  ASSERT_EQ(s.update(s.open(kTable), id, [](const std::string &) { return std::string("b"); }),
            LS_OK);
  s.commit();
  ls_store_stats(store.store(), &after);
  EXPECT_EQ(after.checkpoints, before.checkpoints);
  EXPECT_EQ(after.log_commits, before.log_commits + 11);
  EXPECT_GT(after.log_bytes, before.log_bytes + 10 * 500);
  EXPECT_GT(after.log_flushes, before.log_flushes);
  EXPECT_GT(after.log_durable_gsn, before.log_durable_gsn);
  EXPECT_EQ(after.log_position - before.log_position, after.log_bytes - before.log_bytes);
  EXPECT_EQ(after.frames_total, config_.buffer_pool_bytes / kPageSize);
  EXPECT_LT(after.frames_free, after.frames_total);
  EXPECT_GT(after.frames_dirty, 0u);
  EXPECT_GT(after.versions_written, before.versions_written);
  EXPECT_EQ(after.files_open, before.files_open + 1);
  EXPECT_EQ(after.files_max, config_.max_open_files);
  LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));
  ls_store_stats(store.store(), &after);
  EXPECT_EQ(after.checkpoints, before.checkpoints + 1);
}

// Damage one row on disk, with a checksum that is right again: only the checker can tell.
TEST_F(CapiTest, check_finds_a_row_that_makes_no_sense) {
  {
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(10));
    Host host(store.store(), 10);
    Session s(store.store(), &host, 0);
    for (int i = 0; i < 5; i++) insert_committed(s, s.open(kTable), "row");
    ls_check_result result;
    LS_EXPECT_OK(ls_rel_check(s.worker(), s.open(kTable), &result, &err));
    EXPECT_EQ(result.rows, 5u);
  }
  PageNo damaged = 0;
  {
    std::fstream file(table_file(), std::ios::in | std::ios::out | std::ios::binary);
    alignas(8) u8 page[kPageSize];
    for (PageNo p = 0; file.read(reinterpret_cast<char *>(page), kPageSize); p++) {
      Node *node = reinterpret_cast<Node *>(page);
      if (node->header.kind != PageKind::kLeaf || node->count != 5) continue;
      RowHeader header = RowHeader::load(node->value_data(2));
      RowHeader::make(header.tn(), 0x80, 0, header.cid, header.seq).store(node->value_data(2));
      node->header.checksum = page_checksum(page);
      file.seekp(static_cast<std::streamoff>(p) * kPageSize);
      file.write(reinterpret_cast<char *>(page), kPageSize);
      damaged = p;
      break;
    }
  }
  ASSERT_NE(damaged, 0u);
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(100));
  Host host(store.store(), 100);
  Session s(store.store(), &host, 0);
  ls_check_result result;
  EXPECT_EQ(ls_rel_check(s.worker(), s.open(kTable), &result, &err), LS_CORRUPT);
  EXPECT_EQ(err.page_no, damaged);
  EXPECT_NE(std::strstr(err.message, "flags"), nullptr) << err.message;
}

// As a host runs it: one process reserves the arena and does nothing else, one has the engine's
// threads, others work.
TEST_F(CapiTest, processes_work_on_one_arena) {
  constexpr u32 kBackends = 3, kRows = 60;
  auto *stop = static_cast<std::atomic<u32> *>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  auto run = [](const std::function<void()> &body) {
    fflush(nullptr);
    pid_t pid = fork();
    if (pid == 0) {
      body();
      _exit(::testing::Test::HasFailure() ? 3 : 0);
    }
    return pid;
  };
  StoreLife store(config_);
  pid_t engine = run([&] {
    EXPECT_EQ(store.recover(100), LS_OK) << store.err.message;
    while (*stop == 0) usleep(2000);
    EXPECT_EQ(store.shutdown(), LS_OK) << store.err.message;
  });
  std::vector<pid_t> backends;
  for (u32 b = 0; b < kBackends; b++) {
    backends.push_back(run([&, b] {
      ASSERT_TRUE(ls_store_wait_ready(store.store(), 20'000));
      Host host(store.store(), 1000 * (b + 1));  // each backend hands out ids of its own
      Session s(store.store(), &host, b);
      ASSERT_EQ(s.attach_status(), LS_OK) << s.err.message;
      for (u32 i = 0; i < kRows; i++)
        insert_committed(s, s.open(kTable), "backend " + std::to_string(b) + std::string(300, '-'));
      ls_check_result result;
      EXPECT_EQ(ls_rel_check(s.worker(), s.open(kTable), &result, &s.err), LS_OK) << s.err.message;
    }));
  }
  auto exit_code = [](pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
  };
  for (pid_t pid : backends) EXPECT_EQ(exit_code(pid), 0);
  EXPECT_EQ(ls_store_attached(store.store()), 0u);
  // A process without a worker may forget a relation.
  pid_t forgetter = run([&] {
    ls_rel_key other = relation_key(kTable + 1);
    ls_rel_forget(store.store(), &other);
  });
  EXPECT_EQ(exit_code(forgetter), 0);
  *stop = 1;
  EXPECT_EQ(exit_code(engine), 0);
  munmap(stop, 4096);

  StoreLife next(config_);
  LS_ASSERT_OK(next.recover(5000));
  EXPECT_EQ(next.store()->report.clean, 1u);
  Host host(next.store(), 5000);
  Session s(next.store(), &host, 0);
  EXPECT_EQ(s.contents(s.open(kTable)).size(), kBackends * kRows);
}

}  // namespace
}  // namespace ls::test
