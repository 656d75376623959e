// File numbers beyond 2^32: two files with numbers that differ by 2^32 have nothing in common, in
// memory, in the log, after a crash.
#include <filesystem>

#include "recovery/control_file.hpp"
#include "store/store_process.hpp"
#include "unit/recovery/crash_after.hpp"

namespace ls::test {
namespace {

constexpr u32 kLow = 16500, kHigh = 16501, kNew = 16502;
constexpr u64 kNextXid = 1000;
constexpr FileNo kApart = FileNo{1} << 32;
constexpr u32 kRows = 1500;
using Rows = std::map<u64, std::string>;

class FileNumbersTest : public ::testing::Test {
 protected:
  FileNumbersTest() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    // of each table about as many pages: some are compressed
    config_.buffer_pool_bytes = 128 * 4096;
    config_.prepared_slots = 4;
    directory_.create_file(kLow);
    directory_.create_file(kHigh);
  }

  static FileNo number_of(ls_rel *rel) { return rel->number; }
  static std::string text_of(u32 relation, u64 i) {
    return std::to_string(relation) + " " + std::to_string(i) +
           std::string(200, relation == kLow ? 'l' : 'h');
  }

  // The first open draws a number, the second one that is larger by 2^32.
  void open(StoreLife &store, Session &s) {
    low_ = s.open(kLow);
    store_process(*store.store()).pool.set_next_file_no(number_of(low_) + kApart);
    high_ = s.open(kHigh);
    ASSERT_EQ(number_of(high_), number_of(low_) + kApart);
  }
  // The same row ids in both.
  void fill(Session &s) {
    ASSERT_EQ(s.begin(), LS_OK);
    for (u32 i = 1; i <= kRows; i++) {
      ASSERT_EQ(insert_row(s, low_, text_of(kLow, i)), i);
      ASSERT_EQ(insert_row(s, high_, text_of(kHigh, i)), i);
    }
    s.commit();
  }
  void change(Session &s, u64 from, u64 to, char with) {
    for (u64 id = from; id < to; id++) {
      for (ls_rel *rel : {low_, high_}) {
        ASSERT_EQ(s.update(rel, id, [&](const std::string &old) { return old + with; }), LS_OK)
            << s.err.message;
      }
    }
  }
  ls_status lock(Host &host, Session &s, ls_rel *rel, u64 row_id, ls_lock_mode mode) {
    HostSnapshot snapshot;
    host.take(&snapshot, s.xid(), 1000);
    alignas(8) u8 buffer[LS_ROW_BUFFER_BYTES];
    ls_row row{};
    bool newer = false;
    ls_conflict conflict{};
    ls_change c{row_id, &snapshot.s, nullptr, 1000, mode};
    const ls_status status =
        ls_row_lock(s.worker(), rel, &c, false, buffer, &row, &newer, &conflict, &s.err);
    host.release(snapshot);
    return status;
  }
  static Rows expected(u32 relation) {
    Rows rows;
    for (u64 i = 1; i <= kRows; i++) rows[i] = text_of(relation, i) + (i < 300 ? "c" : "");
    return rows;
  }
  void check(Session &s) {
    for (u32 relation : {kLow, kHigh}) {
      ls_rel *rel = s.open(relation);
      EXPECT_EQ(s.contents(rel), expected(relation)) << relation;
      ls_check_result result;
      LS_EXPECT_OK(ls_rel_check(s.worker(), rel, &result, &err));
    }
  }

  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  ls_rel *low_ = nullptr, *high_ = nullptr;
  ls_error err{};
};

TEST_F(FileNumbersTest, pages_versions_and_locks_of_files_2_to_the_32_apart_are_their_own) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kNextXid));
  Host host(store.store(), kNextXid);
  Session a(store.store(), &host, 0), b(store.store(), &host, 1), c(store.store(), &host, 2);
  open(store, a);
  fill(a);
  ASSERT_EQ(a.begin(), LS_OK);
  change(a, 1, 300, 'c');
  a.commit();
  ASSERT_EQ(a.begin(), LS_OK);
  change(a, 200, 900, 'x');
  Rows old = expected(kLow);
  EXPECT_EQ(b.contents(low_), old) << "versions before";
  EXPECT_EQ(b.contents(high_), expected(kHigh));
  a.abort();
  check(a);

  // Both rows have locks; the session that holds that of one is not in the way at the other.
  for (Session *s : {&a, &b, &c}) ASSERT_EQ(s->begin(), LS_OK);
  ASSERT_EQ(lock(host, a, low_, 7, LS_LOCK_KEY_SHARE), LS_OK);
  ASSERT_EQ(lock(host, b, high_, 7, LS_LOCK_KEY_SHARE), LS_OK);
  EXPECT_EQ(lock(host, c, high_, 7, LS_LOCK_UPDATE), LS_LOCKED);
  b.commit();
  EXPECT_EQ(lock(host, c, high_, 7, LS_LOCK_UPDATE), LS_OK);
  EXPECT_EQ(lock(host, c, low_, 7, LS_LOCK_UPDATE), LS_LOCKED);
  a.commit();
  c.commit();
  EXPECT_GT(store_process(*store.store()).pool.stats().evictions, 0u);
  check(a);
}

TEST_F(FileNumbersTest, redo_and_undo_know_files_2_to_the_32_apart) {
  ASSERT_TRUE(crash_after(config_, kNextXid, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0), loser(store.store(), &host, 1),
        prepared(store.store(), &host, 2), later(store.store(), &host, 3);
    open(store, a);
    fill(a);
    ASSERT_EQ(a.begin(), LS_OK);
    change(a, 1, 200, 'c');
    a.commit();
    ASSERT_EQ(loser.begin(), LS_OK);
    change(loser, 300, 400, 'x');
    ASSERT_EQ(prepared.begin(), LS_OK);
    change(prepared, 400, 450, 'p');
    ASSERT_EQ(prepared.hand_over(), LS_OK) << prepared.err.message;
    LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));
    LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));
    ControlFile control;
    bool exists;
    ASSERT_EQ(control_read(config_.data_dir, &control, &exists), kOk);
    EXPECT_GT(control.next_file_no, kApart);
    // From here on in the log only.
    ASSERT_EQ(a.begin(), LS_OK);
    change(a, 200, 300, 'c');
    a.commit();
    change(loser, 500, 520, 'x');
    ASSERT_EQ(later.begin(), LS_OK);
    change(later, 600, 620, 'y');
    commit_row(a, low_, "last");
    ASSERT_EQ(a.begin(), LS_OK);
    ASSERT_EQ(a.remove(low_, kRows + 1), LS_OK);
    a.commit();
    crash_now();
  }));
  {
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(kNextXid + 100, [](ls_in_doubt &) { return false; }));
    EXPECT_GT(store.store()->report.ops_applied + store.store()->report.ops_put_off, 0u);
    Host host(store.store(), kNextXid + 100);
    Session s(store.store(), &host, 0);
    directory_.create_file(kNew);
    EXPECT_GT(number_of(s.open(kNew)), kApart) << "numbers go on where they were";
    check(s);
  }
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kNextXid + 200));
  Host host(store.store(), kNextXid + 200);
  Session s(store.store(), &host, 0);
  check(s);
}

}  // namespace
}  // namespace ls::test
