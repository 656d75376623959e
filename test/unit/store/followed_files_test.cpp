// Files of a store that follows another one: those that have no pages yet.
#include <optional>
#include <thread>

#include "btree/tree.hpp"
#include "leanstore/standby.h"
#include "store/standby_follow.hpp"
#include "unit/recovery/restore_fixture.hpp"

namespace ls::test {
namespace {

constexpr u32 kNewTable = 16900, kNewIndex = 16901, kNewValues = 16902, kNeverUsed = 16903,
              kNoFile = 16904;
using Rows = std::map<u64, std::string>;

class FollowedFiles : public RestoreTest {
 protected:
  // The original works a little, a copy is made of it, and it goes on.
  void live_and_copy(const std::function<void(StoreLife &, Host &)> &then) {
    live(kImageXid, false, [&](StoreLife &store, Host &host) {
      std::thread([&] {
        host_log_.use();
        ImageClient(store, host, 0, GetParam()).work(20);
      }).join();
      take_state(store);
      copy(store);
      copied_at_ = host_log_.size();
      std::thread([&] {
        host_log_.use();
        then(store, host);
      }).join();
      next_tn_ = host.next_xid() + ls_store_tn_offset(store.store());
    });
  }

  // ---- the standby

  void begin(StoreLife &store) {
    LS_ASSERT_OK(ls_restore_forget(store.store(), &err));
    ls_relay_replay_begin(store.store(), true);
    for (at_ = redo_; at_ < std::max(copied_at_, state_at_ + 1); at_++) {
      if (at_ == state_at_)
        LS_ASSERT_OK(ls_relay_replay_state(store.store(), state_.data(), state_.size(), &err));
      add(store.store(), at_);
    }
    const u64 position = ls_relay_replay_position(store.store());
    LS_ASSERT_OK(ls_follow_begin(store.store(), position, &err));
    LS_ASSERT_OK(ls_follow_join(store.store(), &err));
  }

  // One round of the host's log.  There are no snapshots that it could be in conflict with.
  void follow(ls_store *store) {
    add(store, at_);
    const MemoryHost::Record &record = host_log_.log()[at_++];
    ls_follow follow{record.bytes.data(), record.bytes.size(), 0, false, 0, 0, 0};
    ls_status status;
    while ((status = ls_follow_apply(store, &follow, &err)) == LS_CONFLICT)
      follow = {nullptr, 0, follow.conflict, false, 0, 0, 0};
    LS_ASSERT_OK(status);
    ls_follow_cover(store, ls_follow_reached(store));
  }
  bool more() const { return at_ < host_log_.log().size() && !HasFailure(); }

  // Sees all that has been committed.
  ls_snapshot snapshot() const {
    ls_snapshot s{};
    s.kind = LS_SNAPSHOT_MVCC;
    s.xmin = s.xmax = next_tn_;
    s.curcid = ~0u;
    return s;
  }

  ls_status open(ls_worker *worker, u32 relation, ls_rel_kind kind, ls_rel *rel) {
    const ls_rel_key key = relation_key(relation);
    const std::string path = HostDirectory::relation_path(relation);
    ls_error error{};
    return ls_rel_open(worker, &key, path.c_str(), kind, true, rel, &error);
  }

  Rows contents(ls_worker *worker, ls_rel *rel) {
    const ls_snapshot now = snapshot();
    Rows found;
    ls_error error{};
    ls_scan *scan = nullptr;
    ls_status status = ls_scan_open(worker, rel, &now, 0, LS_MAX_ROW_ID, false, &scan, &error);
    while (status == LS_OK) {
      const ls_row *rows = nullptr;
      u32 count = 0;
      status = ls_scan_next(scan, &rows, &count, &error);
      for (u32 i = 0; i < count; i++)
        found[rows[i].row_id] = {reinterpret_cast<const char *>(rows[i].data), rows[i].len};
    }
    EXPECT_EQ(status, LS_END) << to_text(status, error);
    if (scan) ls_scan_close(scan);
    return found;
  }

  u64 entries(ls_worker *worker, ls_rel *index) {
    ls_index_scan *scan = nullptr;
    ls_error error{};
    EXPECT_EQ(ls_index_scan_open(worker, index, &scan, &error), LS_OK) << error.message;
    if (!scan) return 0;
    ls_status status = ls_index_scan_range(scan, {nullptr, 0}, {nullptr, 0}, false, &error);
    u64 found = 0;
    ls_index_entry entry;
    while (status == LS_OK) {
      status = ls_index_scan_next(scan, &entry, &error);
      found += status == LS_OK;
    }
    EXPECT_EQ(status, LS_END) << to_text(status, error);
    ls_index_scan_close(scan);
    return found;
  }

  void expect_nothing_in(ls_worker *worker, ls_rel *rel, ls_rel_kind kind) {
    ls_rel_info info{};
    LS_EXPECT_OK(ls_rel_get_info(worker, rel, &info, &err));
    EXPECT_EQ(info.height, 1u);
    ls_check_result check{};
    LS_EXPECT_OK(ls_rel_check(worker, rel, &check, &err));
    EXPECT_EQ(check.rows + check.ghosts, 0u);
    EXPECT_TRUE(ls_rel_is_open(rel));
    if (kind == LS_REL_INDEX) {
      EXPECT_EQ(entries(worker, rel), 0u);
      return;
    }
    EXPECT_TRUE(contents(worker, rel).empty());
    alignas(8) u8 buffer[LS_ROW_BUFFER_BYTES];
    ls_row row{};
    const ls_snapshot now = snapshot();
    EXPECT_EQ(ls_row_fetch(worker, rel, 1, &now, buffer, &row, nullptr, &err), LS_NOT_FOUND);
    if (kind != LS_REL_VALUES) return;
    u8 byte;
    const ls_value_slice first{1, 1, 0, 1};
    EXPECT_EQ(ls_value_read(worker, rel, &first, &byte, &err), LS_NOT_FOUND);
  }

  u64 copied_at_ = 0, next_tn_ = 0;
  u64 at_ = 0;   // of the host's log, what comes next
};

constexpr std::pair<u32, ls_rel_kind> kNew[] = {
    {kNewTable, LS_REL_TABLE}, {kNewIndex, LS_REL_INDEX}, {kNewValues, LS_REL_VALUES}};

class EmptyFiles : public FollowedFiles {
 protected:
  void use_new_files(StoreLife &store, Host &host) {
    for (const auto &[relation, kind] : kNew) directory_.create_file(relation);
    Session s(store.store(), &host, 1);
    ls_rel *table = s.open(kNewTable), *index = s.open(kNewIndex, true, LS_REL_INDEX);
    ls_rel *values = s.open(kNewValues, true, LS_REL_VALUES);
    for (u32 i = 0; i < 50; i++) {
      u64 id;
      ASSERT_EQ(s.begin(), LS_OK) << s.err.message;
      ASSERT_EQ(s.insert(table, "row " + std::to_string(i), &id), LS_OK) << s.err.message;
      rows_[id] = "row " + std::to_string(i);
      const u64 key = __builtin_bswap64(i);
      ASSERT_EQ(ls_index_insert(s.worker(), index, table,
                                {reinterpret_cast<const u8 *>(&key), sizeof key}, id, {}, &s.err),
                LS_OK) << s.err.message;
      ASSERT_EQ(s.insert_value(values, "value", &id), LS_OK) << s.err.message;
      s.commit();
    }
  }

  // Again and again, while redo makes their pages: never a handle of a file without pages.
  void open_meanwhile(ls_store *store, u32 slot) {
    Session session(store, nullptr, slot);
    bool there[std::size(kNew)] = {};
    while (!stop_ && !HasFailure()) {
      for (u32 i = 0; i < std::size(kNew); i++) {
        ls_rel rel{};
        const ls_status status = open(session.worker(), kNew[i].first, kNew[i].second, &rel);
        EXPECT_TRUE(status == LS_OK || (status == LS_END && !there[i])) << "status " << status;
        there[i] |= status == LS_OK;
        if (status != LS_OK) continue;
        ls_rel_info info{};
        EXPECT_EQ(ls_rel_get_info(session.worker(), &rel, &info, nullptr), LS_OK);
        EXPECT_GE(info.pages, 2u);
      }
      tries_++;
    }
  }

  Rows rows_;
  std::atomic<bool> stop_{false};
  std::atomic<u64> tries_{0};
};

TEST_P(EmptyFiles, are_relations_without_rows_until_redo_makes_their_pages) {
  live_and_copy([&](StoreLife &store, Host &host) { use_new_files(store, host); });
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store);
  if (HasFatalFailure()) return;
  for (const auto &[relation, kind] : kNew) copied_.create_file(relation);
  copied_.create_file(kNeverUsed);
  std::optional<Session> reader(std::in_place, store.store(), nullptr, 0);
  Session &s = *reader;
  ls_rel rel{}, empty[std::size(kNew)];
  EXPECT_EQ(open(s.worker(), kNoFile, LS_REL_TABLE, &rel), LS_NOT_FOUND);
  EXPECT_EQ(open(s.worker(), kNeverUsed, LS_REL_TABLE, &rel), LS_END);
  for (u32 i = 0; i < std::size(kNew); i++) {
    EXPECT_EQ(open(s.worker(), kNew[i].first, kNew[i].second, &rel), LS_END);
    EXPECT_FALSE(ls_rel_is_open(&rel));
    LS_ASSERT_OK(ls_rel_open_empty(s.worker(), kNew[i].second, &empty[i], &err));
    expect_nothing_in(s.worker(), &empty[i], kNew[i].second);
  }
  EXPECT_EQ(ls_rel_open_empty(s.worker(), LS_REL_VERSIONS, &rel, &err), LS_INVALID);
  std::thread other([&] { open_meanwhile(store.store(), 1); });
  while (more()) follow(store.store());
  const u64 before = tries_;
  while (tries_ < before + 2 && !HasFailure()) std::this_thread::yield();
  stop_ = true;
  other.join();
  for (u32 i = 0; i < std::size(kNew); i++) {
    ASSERT_EQ(open(s.worker(), kNew[i].first, kNew[i].second, &rel), LS_OK);
    if (kNew[i].second == LS_REL_TABLE) EXPECT_EQ(contents(s.worker(), &rel), rows_);
    if (kNew[i].second == LS_REL_VALUES) EXPECT_EQ(contents(s.worker(), &rel).size(), 50u);
    if (kNew[i].second == LS_REL_INDEX) EXPECT_EQ(entries(s.worker(), &rel), 50u);
    expect_nothing_in(s.worker(), &empty[i], kNew[i].second);
  }
  EXPECT_EQ(open(s.worker(), kNeverUsed, LS_REL_TABLE, &rel), LS_END);
  reader.reset();
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// Between the opening of a file by redo, and its first record.
TEST_P(EmptyFiles, that_redo_has_opened_are_none_for_readers) {
  live_and_copy([](StoreLife &, Host &) {});
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store);
  if (HasFatalFailure()) return;
  copied_.create_file(kNewTable);
  BufferPool &pool = store_process(*store.store()).pool;
  Ctx ctx;
  ctx.pool = &pool;
  FileSlot *slot = nullptr;
  const std::string path = HostDirectory::relation_path(kNewTable);
  ASSERT_TRUE(ok(pool.open_file(ctx, relation_key(kNewTable), path.c_str(), LS_REL_TABLE, true,
                                12345, BTree::format, &slot)));
  {
    Session s(store.store(), nullptr, 0);
    ls_rel rel{};
    EXPECT_EQ(open(s.worker(), kNewTable, LS_REL_TABLE, &rel), LS_END);
    EXPECT_FALSE(ls_rel_is_open(&rel));
  }
  EXPECT_EQ(pool.find_file(relation_key(kNewTable)), slot);
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// A reader's scan goes on.
TEST_P(EmptyFiles, have_a_stand_in_that_outlives_a_promotion) {
  live_and_copy([](StoreLife &, Host &) {});
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store);
  if (HasFatalFailure()) return;
  copied_.create_file(kNeverUsed);
  const ls_snapshot now = snapshot();
  {
    Session reader(store.store(), nullptr, 0);
    ls_rel rel{}, empty{};
    EXPECT_EQ(open(reader.worker(), kNeverUsed, LS_REL_TABLE, &rel), LS_END);
    LS_ASSERT_OK(ls_rel_open_empty(reader.worker(), LS_REL_TABLE, &empty, &err));
    ls_scan *scan = nullptr;
    LS_ASSERT_OK(ls_scan_open(reader.worker(), &empty, &now, 0, LS_MAX_ROW_ID, false, &scan, &err));
    while (more()) follow(store.store());
    LS_ASSERT_OK(ls_relay_replay_end(store.store(), &err));
    HostPump pump(store.store(), host_log_);
    ASSERT_EQ(store.recover(1'000'000), LS_OK) << store.err.message;
    const ls_row *rows = nullptr;
    u32 count = 0;
    EXPECT_EQ(ls_scan_next(scan, &rows, &count, &err), LS_END);
    ls_scan_close(scan);
    expect_nothing_in(reader.worker(), &empty, LS_REL_TABLE);
    // From now on it is made at first use.
    EXPECT_EQ(open(reader.worker(), kNeverUsed, LS_REL_TABLE, &rel), LS_OK);
    EXPECT_NE(rel.number, empty.number);
  }
  HostPump pump(store.store(), host_log_);
  LS_EXPECT_OK(ls_store_shutdown(store.store(), &err));
}

INSTANTIATE_TEST_SUITE_P(Seeds, EmptyFiles, ::testing::Range(1u, 3u));

}  // namespace
}  // namespace ls::test
