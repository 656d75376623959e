// Files of a store that follows another one: those that have no pages yet, and idle ones.
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "btree/tree.hpp"
#include "leanstore/standby.h"
#include "store/standby_follow.hpp"
#include "unit/store/followed_fixture.hpp"

namespace ls::test {
namespace {

constexpr u32 kNewTable = 16900, kNewIndex = 16901, kNewValues = 16902, kNeverUsed = 16903,
              kNoFile = 16904;

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

// KEPT-1: what a clean end has left says nothing of rows that redo changes.
TEST_P(EmptyFiles, have_nothing_that_was_known_before) {
  live_and_copy([](StoreLife &, Host &) {});
  if (HasFatalFailure()) return;
  const std::string blocks = std::string(copy_config_.data_dir) + "/row_blocks";
  std::ofstream(blocks) << "of a clean end";
  StoreLife store(copy_config_);
  begin(store);
  EXPECT_FALSE(std::filesystem::exists(blocks));
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

// ---- many files, few places

constexpr u32 kFirstFile = 20000, kFiles = 60, kPlaces = 16;

class IdleFollowedFiles : public FollowedFiles {
 protected:
  IdleFollowedFiles() : random_(GetParam()) {
    for (u32 i = 0; i < kFiles; i++) {
      directory_.create_file(kFirstFile + i);
      copied_.create_file(kFirstFile + i);
    }
    copy_config_.max_open_files = kPlaces;
  }

  void fill(StoreLife &store, Host &host) {
    Session s(store.store(), &host, 1);
    for (u32 i = 0; i < kFiles; i++) {
      ASSERT_EQ(s.begin(), LS_OK) << s.err.message;
      for (u32 n = 0; n < 3; n++) insert(s, i);
      s.commit();
    }
    LS_ASSERT_OK(ls_store_checkpoint(store.store(), &s.err));
  }
  void insert(Session &s, u32 i) {
    u64 id;
    const std::string text = "row of file " + std::to_string(i);
    ASSERT_EQ(s.insert(s.open(kFirstFile + i), text, &id), LS_OK) << s.err.message;
    now_[i][id] = text;
  }
  // Each transaction changes one file; the last one changes many, and does not end.
  void change(StoreLife &store, Host &host, u32 transactions) {
    at_copy_ = now_;
    Session s(store.store(), &host, 1);
    for (u32 n = 0; n < transactions && !HasFailure(); n++) {
      ASSERT_EQ(s.begin(), LS_OK) << s.err.message;
      change_file(s, random_() % kFiles, std::to_string(n));
      s.commit();
    }
    if (!leaves_loser_) return;
    const std::vector<Rows> committed = now_;
    Session loser(store.store(), &host, 2);
    ASSERT_EQ(loser.begin(), LS_OK) << loser.err.message;
    for (u32 i = 0; i < kFiles; i += 3) change_file(loser, i, "of the loser");
    Log log = store_process(*store.store()).log;
    EXPECT_TRUE(log.wait_hardened(log.last_gsn(), nullptr));
    host_log_.flush_some(host_log_.size());
    host_log_.lose_what_follows();   // its end
    now_ = committed;
  }
  void change_file(Session &s, u64 i, const std::string &with) {
    ls_rel *rel = s.open(static_cast<u32>(kFirstFile + i));
    auto row = now_[i].begin();
    std::advance(row, random_() % now_[i].size());
    row->second = "changed by " + with;
    ASSERT_EQ(s.update(rel, row->first, [&](const std::string &) { return row->second; }), LS_OK)
        << s.err.message;
    if (random_() % 4 == 0) insert(s, static_cast<u32>(i));
  }
  void copy_files() {
    for (u32 i = 0; i < kFiles; i++)
      std::filesystem::copy_file(path(temp_, kFirstFile + i), path(copy_, kFirstFile + i),
                    std::filesystem::copy_options::overwrite_existing);
  }
  void live_and_copy(u32 transactions) {
    FollowedFiles::live_and_copy([&](StoreLife &store, Host &host) { fill(store, host); },
                                 [&] { copy_files(); },
                                 [&](StoreLife &store, Host &host) {
                                   change(store, host, transactions);
                                 });
    host_log_.crash();
  }

  // All that time with one snapshot, and by handles that they got at its beginning.
  void read(ls_store *store, u32 slot) {
    std::mt19937_64 random(GetParam() * 16 + slot);
    const ls_snapshot old = snapshot_at(copied_tn_);
    Session s(store, nullptr, slot);
    std::vector<ls_rel> handles;
    for (u32 i = 0; i < kFiles; i++) handles.push_back(*s.open(kFirstFile + i));
    while (!stop_ && !HasFailure()) {
      const u64 i = random() % kFiles;
      EXPECT_EQ(contents(s.worker(), &handles[i], old), at_copy_[i]) << "file " << i;
      if (random() % 4 == 0) handles[i] = *s.open(static_cast<u32>(kFirstFile + i));
      reads_++;
    }
  }
  void expect_all(ls_worker *worker, const ls_snapshot &snapshot, const std::vector<Rows> &rows) {
    for (u32 i = 0; i < kFiles; i++) {
      ls_rel rel{};
      ASSERT_EQ(open(worker, kFirstFile + i, LS_REL_TABLE, &rel), LS_OK) << i;
      EXPECT_EQ(contents(worker, &rel, snapshot), rows[i]) << i;
    }
  }
  // From `at` on, where the run began: a crash would find each file by what this run says.
  void expect_named(StoreLife &store, Lsn at) {
    Log log = store_process(*store.store()).log;
    ASSERT_TRUE(log.wait_hardened(log.last_gsn(), nullptr));
    ASSERT_TRUE(ok(log.complete_relay()));
    const std::string wal = copy_ / "leanstore/wal";
    LogReader reader(wal.c_str(), copy_config_.log_segment_bytes, at, store.store()->run);
    std::set<FileNo> named;
    u32 changes = 0;
    for (;; reader.pop()) {
      const LogEntry *entry;
      ASSERT_TRUE(ok(reader.peek(&entry))) << last_error().message;
      if (!entry) break;
      const LogRecord record = entry->record();
      LoggedFile file;
      if (record.kind == RecordKind::kFile) {
        ASSERT_TRUE(ok(load_logged_file(*entry, record, &file)));
        named.insert(file.record.file);
      }
      if (!has_page_operations(record.kind)) continue;
      LogOpReader ops(*entry);
      LogOp op;
      for (bool end = false; ok(ops.next(&op, &end)) && !end; changes++)
        EXPECT_TRUE(named.contains(op.file)) << op.file;
    }
    EXPECT_GT(changes, 0u);
  }
  static BufferPool &pool(StoreLife &store) { return store_process(*store.store()).pool; }

  std::mt19937_64 random_;
  std::vector<Rows> now_{kFiles}, at_copy_;
  bool leaves_loser_ = true;
  std::atomic<bool> stop_{false};
  std::atomic<u64> reads_{0};
};

// FLW-7
TEST_P(IdleFollowedFiles, are_closed_beside_redo_and_readers_and_over_a_promotion) {
  live_and_copy(300);
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store);
  if (HasFatalFailure()) return;
  std::vector<std::thread> readers;
  for (u32 slot = 0; slot < 2; slot++)
    readers.emplace_back([&, slot] { read(store.store(), slot); });
  for (u32 n = 0; more(); n++) {
    follow(store.store(), n % 40 == 0);
    usleep(200);
  }
  const u64 closed = pool(store).files_closed();
  EXPECT_GT(closed, u64{kFiles});
  EXPECT_EQ(conflicts_, 0u);
  EXPECT_GT(limits_, 0u);   // more files were changed than there are places, and not covered
  {
    Session s(store.store(), nullptr, 3);
    ls_follow_cover(store.store(), ls_follow_reached(store.store()));
    expect_all(s.worker(), snapshot_at(copied_tn_), at_copy_);
    // But the loser, which is the last one.
    expect_all(s.worker(), snapshot_at(next_tn_ - 1), now_);
  }
  const u64 end = store_process(*store.store()).log.last_gsn();
  EXPECT_EQ(end, ls_follow_reached(store.store()));   // FLW-7: nothing was logged
  LS_ASSERT_OK(ls_relay_replay_end(store.store(), &err));
  const Lsn promoted_at = store_process(*store.store()).log.end();
  HostPump pump(store.store(), host_log_);
  ASSERT_EQ(store.recover(1'000'000), LS_OK) << store.err.message;
  expect_named(store, promoted_at);
  const u64 before = reads_;
  while (reads_ < before + 50 && !HasFailure()) usleep(1000);
  stop_ = true;
  for (std::thread &reader : readers) reader.join();
  {
    Host host(store.store(), 1'000'000);
    Session s(store.store(), &host, 3);
    for (u32 i = 0; i < kFiles && !HasFailure(); i++) {
      EXPECT_EQ(s.contents(s.open(kFirstFile + i)), now_[i]) << i;
      ASSERT_EQ(s.begin(), LS_OK) << s.err.message;
      change_file(s, i, "the standby");
      s.commit();
      EXPECT_EQ(s.contents(s.open(kFirstFile + i)), now_[i]) << i;
    }
  }
  EXPECT_GT(pool(store).files_closed(), closed);
  ::printf("reads %llu, files closed %llu while it followed, %llu after\n",
           static_cast<unsigned long long>(reads_), static_cast<unsigned long long>(closed),
           static_cast<unsigned long long>(pool(store).files_closed() - closed));
  LS_EXPECT_OK(ls_store_shutdown(store.store(), &err));
}

// Those that readers have opened have numbers that were in no log.
TEST_P(IdleFollowedFiles, are_named_when_the_store_is_promoted) {
  copy_config_.max_open_files = 2 * kFiles;
  live_and_copy(50);
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store);
  if (HasFatalFailure()) return;
  std::optional<Session> s(std::in_place, store.store(), nullptr, 0);
  expect_all(s->worker(), snapshot_at(copied_tn_), at_copy_);
  while (more()) follow(store.store());
  LS_ASSERT_OK(ls_relay_replay_end(store.store(), &err));
  const Lsn promoted_at = store_process(*store.store()).log.end();
  HostPump pump(store.store(), host_log_);
  ASSERT_EQ(store.recover(1'000'000), LS_OK) << store.err.message;
  expect_named(store, promoted_at);
  expect_all(s->worker(), snapshot_at(copied_tn_), at_copy_);
  s.reset();
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// FLW-7: what came while it began changes more files than there are places.
TEST_P(IdleFollowedFiles, are_closed_when_it_catches_up) {
  live_and_copy(200);
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store, 150);
  if (HasFatalFailure()) return;
  EXPECT_GT(limits_, 0u);
  std::optional<Session> s(std::in_place, store.store(), nullptr, 0);
  while (more()) follow(store.store());
  expect_all(s->worker(), snapshot_at(next_tn_ - 1), now_);
  s.reset();
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// FLW-7: those that are not covered stay open, and are not waited for.
TEST_P(IdleFollowedFiles, stay_open_until_the_log_is_covered) {
  live_and_copy(100);
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store);
  if (HasFatalFailure()) return;
  std::optional<Session> s(std::in_place, store.store(), nullptr, 0);
  for (u32 n = 0; n < 8 && more(); n++) follow(store.store(), false);
  const Gsn covered = store_process(*store.store()).log.hardened();
  const auto is_dirty = [&](u32 i) {
    for (u32 f = 0; f < pool(store).frame_count(); f++) {
      const Frame *frame = pool(store).frame(f);
      if (frame->dirty_since <= covered) continue;
      const FileSlot &file = pool(store).file(frame->file_slot);
      if (has_pages(file) && file.key.relation == kFirstFile + i) return true;
    }
    return false;
  };
  std::vector<u32> dirty;
  for (u32 i = 0; i < kFiles; i++)
    if (is_dirty(i)) dirty.push_back(i);
  ASSERT_GT(dirty.size(), 2u);
  const u64 closed = pool(store).files_closed();
  expect_all(s->worker(), snapshot_at(copied_tn_), at_copy_);
  EXPECT_GT(pool(store).files_closed(), closed);
  for (const u32 i : dirty) EXPECT_TRUE(is_dirty(i)) << i;
  ls_follow_cover(store.store(), ls_follow_reached(store.store()));
  for (u32 turn = 0; turn < 3; turn++)
    expect_all(s->worker(), snapshot_at(copied_tn_), at_copy_);
  u32 still = 0;
  for (const u32 i : dirty) still += is_dirty(i);
  EXPECT_LT(still, dirty.size());
  // The closer has something to close that it cannot, and ends all the same.
  for (u32 n = 0; n < 5 && more(); n++) follow(store.store(), false);
  s.reset();
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// The host has unlinked some of them: in the table of open files, and behind its back.
TEST_P(IdleFollowedFiles, that_are_gone_are_passed_over) {
  live_and_copy(300);
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store);
  if (HasFatalFailure()) return;
  std::optional<Session> s(std::in_place, store.store(), nullptr, 0);
  for (u32 n = 0; n < 150 && more(); n++) follow(store.store());
  expect_all(s->worker(), snapshot_at(copied_tn_), at_copy_);
  u32 closed_ones = 0;
  const auto is_gone = [](u32 i) { return i % 5 == 0; };
  for (u32 i = 0; i < kFiles; i++) {
    if (!is_gone(i)) continue;
    const ls_rel_key key = relation_key(kFirstFile + i);
    const bool closed = pool(store).find_file(key) == nullptr;
    closed_ones += closed;
    if (!closed || i % 10 == 0) ls_rel_forget(store.store(), &key);
    copied_.remove_file(kFirstFile + i);
  }
  EXPECT_GT(closed_ones, 0u);
  while (more()) follow(store.store());
  for (u32 i = 0; i < kFiles; i++) {
    ls_rel rel{};
    const ls_status expected = is_gone(i) ? LS_NOT_FOUND : LS_OK;
    EXPECT_EQ(open(s->worker(), kFirstFile + i, LS_REL_TABLE, &rel), expected) << i;
    if (!is_gone(i))
      EXPECT_EQ(contents(s->worker(), &rel, snapshot_at(next_tn_ - 1)), now_[i]) << i;
  }
  s.reset();
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// ---- the original is started anew

class RestartedOriginal : public IdleFollowedFiles {
 protected:
  // The original writes no page before it crashes: the end of its log is lost.
  RestartedOriginal() {
    config_.max_open_files = copy_config_.max_open_files = 2 * kFiles;
    config_.buffer_pool_bytes = 2000 * kPageSize;
  }

  // It crashes between two transactions, and comes back.
  void two_lives(bool ids_come_again) {
    leaves_loser_ = false;
    live_and_copy(40);
    if (HasFatalFailure()) return;
    before_ = now_;
    restart_tn_ = next_tn_;
    restarted_at_ = host_log_.size();
    leaves_loser_ = true;
    live(ids_come_again ? kImageXid : next_tn_, false, [&](StoreLife &store, Host &host) {
      std::thread([&] {
        host_log_.use();
        change(store, host, 40);
      }).join();
      next_tn_ = host.next_xid() + ls_store_tn_offset(store.store());
    });
    host_log_.crash();
  }

  std::vector<Rows> before_;   // the restart
  u64 restart_tn_ = 0, restarted_at_ = 0;
};

// FLW-8
TEST_P(RestartedOriginal, is_no_conflict) {
  two_lives(false);
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store);
  if (HasFatalFailure()) return;
  std::optional<Session> s(std::in_place, store.store(), nullptr, 0);
  const u64 offset = ls_store_tn_offset(store.store());
  while (more()) {
    follow(store.store());
    if (at_ >= restarted_at_ && at_ % 4 == 0)
      expect_all(s->worker(), snapshot_at(restart_tn_), before_);
  }
  EXPECT_LT(newest_conflict_, restart_tn_);
  EXPECT_EQ(ls_store_tn_offset(store.store()), offset);
  expect_all(s->worker(), snapshot_at(restart_tn_), before_);
  expect_all(s->worker(), snapshot_at(next_tn_ - 1), now_);
  s.reset();
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// FLW-8: the host has broken its promise.
TEST_P(RestartedOriginal, is_refused_where_ids_come_again) {
  two_lives(true);
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store);
  if (HasFatalFailure()) return;
  ls_status status = LS_OK;
  while (more() && status == LS_OK) status = redo_round(store.store());
  EXPECT_EQ(status, LS_CORRUPT);
  EXPECT_NE(std::string(err.message).find("numbered anew"), std::string::npos) << err.message;
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// FLW-8: while it catches up, with what is removed behind the start.
TEST_P(RestartedOriginal, may_come_while_it_begins) {
  two_lives(false);
  if (HasFatalFailure()) return;
  StoreLife store(copy_config_);
  begin(store, ~u64{0});
  if (HasFatalFailure()) return;
  EXPECT_FALSE(more());
  std::optional<Session> s(std::in_place, store.store(), nullptr, 0);
  expect_all(s->worker(), snapshot_at(next_tn_ - 1), now_);
  s.reset();
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RestartedOriginal, ::testing::Range(1u, 4u));
INSTANTIATE_TEST_SUITE_P(Seeds, IdleFollowedFiles, ::testing::Range(1u, 4u));
INSTANTIATE_TEST_SUITE_P(Seeds, EmptyFiles, ::testing::Range(1u, 3u));

}  // namespace
}  // namespace ls::test
