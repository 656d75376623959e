// A store on a disk that fails: which sessions fail, what the error names, and that it is over when
// the disk is well again.  (What a crash leaves is tried in sim/ and recovery/.)
#include <cerrno>
#include <filesystem>
#include <thread>

#include "buffer/change_buffer.hpp"
#include "os/fault.hpp"
#include "store/store_process.hpp"
#include "unit/recovery/child_process.hpp"
#include "unit/store/store_fixture.hpp"

namespace ls::test {
namespace {

constexpr u32 kTable = 16700, kOther = 16701, kIndex = 16702;
constexpr u64 kNextXid = 10;

class FaultTest : public ::testing::Test {
 protected:
  FaultTest() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    for (u32 relation : {kTable, kOther, kIndex}) directory_.create_file(relation);
  }
  ~FaultTest() override { fault_clear(); }

  std::string path(u32 relation) const { return HostDirectory::relation_path(relation); }
  std::string file_of(u32 relation) const { return temp_ / path(relation); }

  static std::string text(u64 n) { return std::to_string(n) + std::string(900, 'r'); }
  // So many rows in one transaction, which is rolled back when one fails; those of kTable with an
  // entry in the index.
  ls_status insert(Session &s, u32 table, u64 rows) {
    ls_status status = s.begin();
    for (u64 i = 0; i < rows && status == LS_OK; i++) {
      u64 row = 0;
      status = s.insert(s.open(table), text(i), &row);
      if (status != LS_OK || table != kTable) continue;
      std::string key(8, '\0');
      for (int b = 0; b < 8; b++)
        key[static_cast<size_t>(b)] = static_cast<char>(row >> (56 - 8 * b));
      key += std::string(200, 'k');
      ls_bytes bytes{reinterpret_cast<const u8 *>(key.data()), static_cast<u32>(key.size())};
      status = ls_index_insert(s.worker(), s.open(kIndex, true, LS_REL_INDEX), s.open(kTable),
                               bytes, row, {}, &s.err);
    }
    if (status == LS_OK) {
      s.commit();
    } else {
      const ls_error err = s.err;
      s.abort();
      s.err = err;
    }
    return status;
  }
  static u64 count(Session &s, u32 table, ls_status expected = LS_OK) {
    u64 rows = 0;
    EXPECT_EQ(s.scan(s.open(table), [&](const ls_row &) { rows++; }), expected) << s.err.message;
    return rows;
  }
  void check(Session &s) {
    ls_check_result result;
    ls_error &err = s.err;
    for (u32 table : {kTable, kOther})
      LS_EXPECT_OK(ls_rel_check(s.worker(), s.open(table), &result, &err));
    LS_EXPECT_OK(ls_rel_check(s.worker(), s.open(kIndex, true, LS_REL_INDEX), &result, &err));
  }
  // Out of the pool: what is read next comes from the disk.
  void evict(StoreLife &store, u32 relation) {
    EXPECT_EQ(ls_store_checkpoint(store.store(), &store.err), LS_OK) << store.err.message;
    ls_rel_key key = relation_key(relation);
    ls_rel_forget(store.store(), &key);
  }
  void fail_calls(FaultOp op, const std::string &part, int error) {
    fault_add({.op = op, .path_part = part, .every = true, .error = error});
  }
  void flip(const std::string &file, u64 offset, u8 mask) {
    std::fstream f(file, std::ios::binary | std::ios::in | std::ios::out);
    f.seekg(static_cast<std::streamoff>(offset));
    char byte = static_cast<char>(f.get());
    f.seekp(static_cast<std::streamoff>(offset));
    f.put(static_cast<char>(byte ^ mask));
    ASSERT_TRUE(f.flush().good());
  }

  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
};

// ---- no space

TEST_F(FaultTest, a_full_disk_refuses_who_needs_space_and_nobody_else) {
  StoreLife store(config_);
  ASSERT_EQ(store.recover(kNextXid), LS_OK);
  Host host(store.store(), kNextXid);
  Session a(store.store(), &host, 0), b(store.store(), &host, 1);
  ASSERT_EQ(insert(a, kTable, 50), LS_OK);
  ASSERT_EQ(insert(b, kOther, 50), LS_OK);
  for (u32 relation : {kTable, kIndex}) {
    fail_calls(FaultOp::kExtend, path(relation), ENOSPC);
    EXPECT_EQ(insert(a, kTable, 4000), LS_NO_SPACE);
    EXPECT_EQ(a.err.sys_errno, ENOSPC);
    EXPECT_NE(std::strstr(a.err.path, path(relation).c_str()), nullptr) << a.err.path;
    EXPECT_EQ(count(a, kTable), 50u) << "rolled back";
    EXPECT_EQ(insert(b, kOther, 10), LS_OK);
    EXPECT_FALSE(ls_store_failed(store.store(), nullptr));
    fault_clear();
    EXPECT_EQ(insert(a, kTable, 10), LS_OK);
    ASSERT_EQ(a.begin(), LS_OK);
    for (auto &[row, data] : a.contents(a.open(kTable))) {
      if (row > 50) {
        EXPECT_EQ(a.remove(a.open(kTable), row), LS_OK);
      }
    }
    a.commit();
    EXPECT_EQ(count(a, kTable), 50u);
  }
  check(a);
}

TEST_F(FaultTest, no_space_for_old_versions_refuses_the_update) {
  StoreLife store(config_);
  ASSERT_EQ(store.recover(kNextXid), LS_OK);
  Host host(store.store(), kNextXid);
  Session a(store.store(), &host, 0);
  ASSERT_EQ(insert(a, kTable, 400), LS_OK);
  fail_calls(FaultOp::kExtend, "versions", ENOSPC);
  ASSERT_EQ(a.begin(), LS_OK);
  const std::map<u64, std::string> before = a.contents(a.open(kTable));
  ls_status status = LS_OK;
  for (int round = 0; round < 20 && status == LS_OK; round++) {
    for (auto &[row, data] : before) {
      status = a.update(a.open(kTable), row, [&](const std::string &) {
        return std::string(900, static_cast<char>('a' + round));
      });
      if (status != LS_OK) break;
    }
  }
  EXPECT_EQ(status, LS_NO_SPACE);
  EXPECT_NE(std::strstr(a.err.path, "versions"), nullptr) << a.err.path;
  a.abort();
  EXPECT_EQ(a.contents(a.open(kTable)), before);
  fault_clear();
  ASSERT_EQ(a.begin(), LS_OK);
  for (auto &[row, data] : before) {
    EXPECT_EQ(a.update(a.open(kTable), row, [](const std::string &) { return std::string("new"); }),
              LS_OK)
        << a.err.message;
  }
  a.commit();
  check(a);
}

TEST_F(FaultTest, no_space_to_write_pages_refuses_the_checkpoint_only) {
  config_.fsync = true;
  StoreLife store(config_);
  ASSERT_EQ(store.recover(kNextXid), LS_OK);
  Host host(store.store(), kNextXid);
  Session a(store.store(), &host, 0);
  ASSERT_EQ(insert(a, kTable, 50), LS_OK);
  for (const char *part : {"base/5/", "doublewrite"}) {
    ASSERT_EQ(insert(a, kTable, 1), LS_OK);
    fail_calls(FaultOp::kWrite, part, ENOSPC);
    EXPECT_EQ(ls_store_checkpoint(store.store(), &store.err), LS_NO_SPACE) << part;
    EXPECT_FALSE(ls_store_failed(store.store(), nullptr));
    EXPECT_EQ(insert(a, kTable, 1), LS_OK);
    fault_clear();
    EXPECT_EQ(ls_store_checkpoint(store.store(), &store.err), LS_OK) << store.err.message;
  }
  EXPECT_EQ(count(a, kTable), 54u);
}

// ---- failing reads

TEST_F(FaultTest, a_failed_read_is_an_error_of_who_reads_and_over_with_the_fault) {
  StoreLife store(config_);
  ASSERT_EQ(store.recover(kNextXid), LS_OK);
  Host host(store.store(), kNextXid);
  Session a(store.store(), &host, 0);
  ASSERT_EQ(insert(a, kTable, 100), LS_OK);
  ASSERT_EQ(insert(a, kOther, 100), LS_OK);
  evict(store, kTable);
  ls_rel *table = a.open(kTable);  // reads the meta page
  fail_calls(FaultOp::kRead, path(kTable), EIO);
  EXPECT_EQ(a.scan(table, [](const ls_row &) {}), LS_IO_ERROR);
  EXPECT_EQ(a.err.sys_errno, EIO);
  EXPECT_NE(std::strstr(a.err.path, path(kTable).c_str()), nullptr) << a.err.path;
  EXPECT_NE(std::strstr(a.err.message, "could not read page"), nullptr) << a.err.message;
  EXPECT_EQ(count(a, kOther), 100u);
  EXPECT_FALSE(ls_store_failed(store.store(), nullptr));
  fault_clear();
  EXPECT_EQ(count(a, kTable), 100u);
  check(a);
}

// ---- failing writes and syncs: final, and nothing acknowledged is lost

struct Final {
  FaultOp op;
  const char *part;
};
constexpr Final kFinal[] = {{FaultOp::kWrite, "/wal/"},      {FaultOp::kSync, "/wal/"},
                            {FaultOp::kSync, "base/5/"},     {FaultOp::kWrite, "base/5/"},
                            {FaultOp::kSync, "doublewrite"}, {FaultOp::kWrite, "doublewrite"},
                            {FaultOp::kSync, "control"},     {FaultOp::kRename, "control"}};

TEST_F(FaultTest,
       a_failed_write_or_sync_fails_the_store_and_the_next_start_has_all_that_was_acknowledged) {
  config_.fsync = true;
  u64 acknowledged = 0, next_xid = kNextXid;
  for (const Final &fault : kFinal) {
    SCOPED_TRACE(std::string(fault.part) + ", operation " +
                 std::to_string(static_cast<int>(fault.op)));
    ASSERT_TRUE(in_child([&] {
      StoreLife store(config_);
      ASSERT_EQ(store.recover(next_xid), LS_OK) << store.err.message;
      Host host(store.store(), next_xid);
      Session a(store.store(), &host, 0);
      EXPECT_EQ(insert(a, kTable, 20), LS_OK);
      fail_calls(fault.op, fault.part, EIO);
      ls_error err{};
      std::thread([&] { (void)insert(a, kTable, 1); }).detach();  // may wait for good
      (void)ls_store_checkpoint(store.store(), &err);
      for (int i = 0; i < 1000 && !ls_store_failed(store.store(), &err); i++) usleep(10'000);
      EXPECT_TRUE(ls_store_failed(store.store(), &err));
      EXPECT_EQ(err.status, LS_IO_ERROR);
      EXPECT_EQ(err.sys_errno, EIO) << err.message;
      EXPECT_NE(err.path[0], '\0') << err.message;
      if (::testing::Test::HasFailure()) _exit(3);
      die_at_once();
    }));
    acknowledged += 20;
    next_xid += 1000;
    StoreLife store(config_);
    ASSERT_EQ(store.recover(next_xid), LS_OK) << store.err.message;
    Host host(store.store(), next_xid);
    Session s(store.store(), &host, 0);
    u64 rows = count(s, kTable);
    EXPECT_GE(rows, acknowledged);
    EXPECT_LE(rows, acknowledged + 1);
    acknowledged = rows;
    check(s);
    next_xid += 1000;
  }
}

// Pages that no log has: a database that is closed syncs them.
TEST_F(FaultTest, a_failed_sync_of_unlogged_pages_is_not_tried_again) {
  config_.fsync = true;
  ASSERT_TRUE(in_child([&] {
    StoreLife store(config_);
    ASSERT_EQ(store.recover(kNextXid), LS_OK) << store.err.message;
    Host host(store.store(), kNextXid);
    Session s(store.store(), &host, 0);
    ls_rel *rel = s.open(kOther, false);
    ASSERT_EQ(s.begin(), LS_OK);
    u64 row;
    ASSERT_EQ(s.insert(rel, text(1), &row), LS_OK);
    s.commit();
    fault_add({.op = FaultOp::kSync, .path_part = path(kOther), .error = EIO});   // once
    ls_error err{};
    EXPECT_EQ(ls_database_close(s.worker(), relation_key(kOther).database, &err), LS_IO_ERROR)
        << err.message;
    EXPECT_EQ(fault_hits(), 1u);
    EXPECT_TRUE(ls_store_failed(store.store(), &err));
    EXPECT_EQ(err.sys_errno, EIO) << err.message;
    EXPECT_NE(std::strstr(err.path, path(kOther).c_str()), nullptr) << err.path;
    if (::testing::Test::HasFailure()) _exit(3);
    die_at_once();
  }));
}

// ---- damage

// Meta page, inner pages, leaves, of a table and of an index.  (Every byte of a page: PageTest.)
TEST_F(FaultTest, a_flipped_bit_in_a_page_is_named_and_hurts_nobody_else) {
  StoreLife store(config_);
  ASSERT_EQ(store.recover(kNextXid), LS_OK);
  Host host(store.store(), kNextXid);
  Session a(store.store(), &host, 0);
  ASSERT_EQ(insert(a, kTable, 200), LS_OK);
  ASSERT_EQ(insert(a, kOther, 20), LS_OK);
  evict(store, kTable);
  evict(store, kIndex);
  constexpr u64 kStride = 13;
  for (u32 relation : {kTable, kIndex}) {
    const ls_rel_key key = relation_key(relation);
    const u64 pages = std::filesystem::file_size(file_of(relation)) / kPageSize;
    u32 found = 0;
    for (u64 page = 0; page < std::min<u64>(pages, 6); page++) {
      for (u64 byte = page % kStride; byte < kPageSize; byte += kStride) {
        ASSERT_NO_FATAL_FAILURE(
            flip(file_of(relation), page * kPageSize + byte, static_cast<u8>(1 << byte % 8)));
        ls_rel rel;
        ls_status status =
            ls_rel_open(a.worker(), &key, path(relation).c_str(),
                        relation == kIndex ? LS_REL_INDEX : LS_REL_TABLE, true, &rel, &a.err);
        ls_check_result result;
        if (status == LS_OK) status = ls_rel_check(a.worker(), &rel, &result, &a.err);
        if (status != LS_OK) {
          ASSERT_EQ(status, LS_CORRUPT) << a.err.message;
          ASSERT_EQ(a.err.page_no, page) << a.err.message;
          ASSERT_NE(std::strstr(a.err.path, path(relation).c_str()), nullptr) << a.err.path;
          found++;
        }
        ls_rel_forget(store.store(), &key);
        ASSERT_NO_FATAL_FAILURE(
            flip(file_of(relation), page * kPageSize + byte, static_cast<u8>(1 << byte % 8)));
      }
    }
    EXPECT_GT(found, 4 * kPageSize / kStride)
        << "all but those in pages that the tree does not use";
    EXPECT_EQ(count(a, kOther), 20u);
  }
  EXPECT_EQ(count(a, kTable), 200u);
  check(a);
}

// An entry that went in without its leaf being read: no session has noticed yet that the leaf is
// damaged.
class BlindEntryFaultTest : public FaultTest {
 protected:
  static std::string key_of(u64 n) {
    std::string key(8, '\0');
    for (int b = 0; b < 8; b++) key[static_cast<size_t>(b)] = static_cast<char>(n >> (56 - 8 * b));
    return key + std::string(120, 'k');
  }
  static ls_bytes bytes_of(const std::string &key) {
    return ls_bytes{reinterpret_cast<const u8 *>(key.data()), static_cast<u32>(key.size())};
  }
  static u64 waiting(StoreLife &store) {
    ls_stats stats;
    ls_store_stats(store.store(), &stats);
    return stats.change_buffer_pending;
  }
  static ls_status add(Session &s, const std::string &key, u64 row) {
    return ls_index_insert(s.worker(), s.open(kIndex, true, LS_REL_INDEX), s.open(kTable),
                           bytes_of(key), row, {}, &s.err);
  }
  // More leaves than there is memory for; then the entry, for one that is not in memory.
  void insert_blindly(StoreLife &store, Session &s) {
    ls_error &err = store.err;
    LS_ASSERT_OK(s.begin());
    for (u64 i = 0; i < 6000; i++) LS_ASSERT_OK(add(s, key_of(i * 7919 % 6000 * 1000), i + 1));
    s.commit();
    LS_ASSERT_OK(ls_store_checkpoint(store.store(), &store.err));
    LS_ASSERT_OK(s.begin());
    for (u64 i = 1; waiting(store) == 0 && i < 6000; i++)
      LS_ASSERT_OK(add(s, key_ = key_of(i * 31 % 6000 * 1000 + 1), kRow));
    s.commit();
    const std::vector<ChangeBufferPage> pages =
        change_buffer_pages(*store_process(*store.store()).pool.shared(), ~Gsn{0});
    ASSERT_EQ(pages.size(), 1u);
    page_ = pages[0].page_no;
  }
  // Its leaf; the second time it is well again.
  void flip_leaf() { flip(file_of(kIndex), u64{page_} * kPageSize + 1000, 4); }
  // What is found of the entry.
  ls_status look(Session &s, u64 *found) {
    ls_error &err = s.err;
    ls_index_scan *scan;
    LS_EXPECT_OK(ls_index_scan_open(s.worker(), s.open(kIndex, true, LS_REL_INDEX), &scan, &err));
    LS_EXPECT_OK(ls_index_scan_range(scan, bytes_of(key_), bytes_of(key_ + "\xff"), false, &err));
    ls_index_entry entry;
    ls_status status;
    *found = 0;
    while ((status = ls_index_scan_next(scan, &entry, &s.err)) == LS_OK)
      *found += entry.row_id == kRow;
    ls_index_scan_close(scan);
    return status;
  }
  void expect_damage(StoreLife &store, Session &s) {
    ls_error &err = s.err;
    u64 found = 0;
    EXPECT_EQ(waiting(store), 1u);
    EXPECT_EQ(look(s, &found), LS_CORRUPT);
    EXPECT_EQ(s.err.page_no, page_);
    LS_EXPECT_OK(insert(s, kOther, 10));
    EXPECT_EQ(waiting(store), 1u);
  }
  void expect_entry(StoreLife &store, Session &s) {
    u64 found = 0;
    EXPECT_EQ(look(s, &found), LS_END) << s.err.message;
    EXPECT_EQ(found, 1u);
    EXPECT_EQ(waiting(store), 0u);
    check(s);
  }

  static constexpr u64 kRow = 7;
  std::string key_;
  PageNo page_ = 0;
};

TEST_F(BlindEntryFaultTest, it_waits_for_its_damaged_leaf_over_checkpoints_and_restarts) {
  config_.buffer_pool_bytes = 128 * kPageSize;
  config_.compressed_cache_percent = 0;   // what is in memory is not damaged
  u64 next_xid = kNextXid;
  for (u32 life = 0; life < 4; life++) {
    StoreLife store(config_);
    ls_error &err = store.err;
    LS_ASSERT_OK(store.recover(next_xid));
    Host host(store.store(), next_xid);
    {
      Session a(store.store(), &host, 0);
      if (life == 0) {
        ASSERT_NO_FATAL_FAILURE(insert_blindly(store, a));
        ASSERT_NO_FATAL_FAILURE(flip_leaf());
      } else if (life < 3) {
        expect_damage(store, a);
        if (life == 2) flip_leaf();
      }
      if (life >= 2) expect_entry(store, a);
      LS_ASSERT_OK(ls_store_checkpoint(store.store(), &store.err));
    }
    next_xid = host.next_xid();
    LS_ASSERT_OK(store.shutdown());
  }
}

// Bits all over the log of a store that has crashed: either the start is refused, naming a file, or
// nothing acknowledged is missing but what stood in the very last round.
TEST_F(FaultTest, a_flipped_bit_in_the_log_is_refused_or_does_no_harm) {
  config_.fsync = true;
  constexpr u64 kCommits = 40;
  ASSERT_TRUE(in_child([&] {
    StoreLife store(config_);
    EXPECT_EQ(store.recover(kNextXid), LS_OK);
    Host host(store.store(), kNextXid);
    Session a(store.store(), &host, 0);
    for (u64 i = 0; i < kCommits; i++) EXPECT_EQ(insert(a, kOther, 1), LS_OK);
    if (::testing::Test::HasFailure()) _exit(3);
    die_at_once();
  }));
  const std::string segment = temp_ / "leanstore/wal/0000000000000000";
  const u64 end = [&] {
    std::ifstream in(segment, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(in), {});
    return bytes.find_last_not_of('\0') + 1;
  }();
  TempDirectory copy;
  constexpr auto kRecursive = std::filesystem::copy_options::recursive;
  std::filesystem::copy(temp_.path(), copy.path(), kRecursive);
  u64 refused = 0, harmless = 0;
  for (u64 at = 3; at < end; at += end / 60) {
    for (auto &entry : std::filesystem::directory_iterator(temp_.path()))
      std::filesystem::remove_all(entry.path());
    std::filesystem::copy(copy.path(), temp_.path(), kRecursive);
    ASSERT_NO_FATAL_FAILURE(flip(segment, at, static_cast<u8>(1 << at % 8)));
    config_.fsync = false;
    StoreLife store(config_);
    ls_status status = store.recover(1000);
    if (status != LS_OK) {
      ASSERT_EQ(status, LS_CORRUPT) << store.err.message;
      ASSERT_NE(std::strstr(store.err.path, "/wal/"), nullptr) << store.err.message;
      refused++;
      continue;
    }
    Host host(store.store(), 1000);
    Session s(store.store(), &host, 0);
    ASSERT_GE(count(s, kOther), kCommits - 1) << "bit at " << at << " of " << end;
    harmless++;
  }
  EXPECT_GT(refused, 20u);
  EXPECT_LE(harmless, 40u);
}

}  // namespace
}  // namespace ls::test
