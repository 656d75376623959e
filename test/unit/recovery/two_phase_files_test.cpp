// Prepared transactions that have made and dropped relation files.  The host unlinks what goes at
// the transaction's end before the store hears of that end.
#include <filesystem>
#include <thread>

#include "unit/base/failpoint_actions.hpp"
#include "unit/recovery/crash_after.hpp"

namespace ls::test {
namespace {

constexpr u32 kKept = 16500, kDropped = 16501, kMade = 16502, kBoth = 16503;
constexpr u64 kXid = 20, kNextXid = 100;   // of the prepared transaction; of the starts after it

using Rows = std::map<u64, std::string>;

enum class Fate { kCommitted, kAborted };
constexpr Fate kFates[] = {Fate::kCommitted, Fate::kAborted};

const std::vector<ls_ending_file> kEnding = {{relation_key(kDropped), true},
                                             {relation_key(kMade), false},
                                             {relation_key(kBoth), true},
                                             {relation_key(kBoth), false}};

auto to(const std::string &text) {
  return [text](const std::string &) { return text; };
}

class TwoPhaseFilesTest : public ::testing::Test {
 protected:
  TwoPhaseFilesTest() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    config_.prepared_slots = 2;
    begin_anew();
  }

  void begin_anew() {
    std::filesystem::remove_all(temp_ / "leanstore");
    const HostDirectory anew(temp_.path());
    for (u32 relation : {kKept, kDropped, kMade, kBoth}) {
      directory_.remove_file(relation);
      directory_.create_file(relation);
    }
  }

  // Rows in the files that are there before; then kXid changes them, makes files, and is handed
  // over.
  void prepare(StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0), b(store.store(), &host, 1);
    ASSERT_EQ(a.begin(), LS_OK);
    ASSERT_EQ(a.xid(), kXid);
    ASSERT_EQ(b.begin(), LS_OK);
    ls_rel *kept = a.open(kKept), *dropped = a.open(kDropped);
    const u64 first = insert_row(b, kept, "kept"), second = insert_row(b, dropped, "dropped");
    insert_row(b, dropped, "dropped, too");
    b.commit();
    EXPECT_EQ(a.update(kept, first, to("changed")), LS_OK);
    EXPECT_EQ(a.remove(dropped, second), LS_OK);
    ls_rel *made = a.open(kMade), *both = a.open(kBoth);
    for (int i = 0; i < 500; i++) {
      insert_row(a, made, "made " + std::to_string(i));
      insert_row(a, both, "made in vain");
    }
    ASSERT_EQ(a.hand_over({}, kEnding), LS_OK) << a.err.message;
    EXPECT_GT(std::filesystem::file_size(path(kMade)), 4 * 4096u) << "written when it was closed";
  }

  // The host's end of the transaction, before the store hears of it: files are gone, and nothing
  // misses them.
  void unlink_files(StoreLife &store, Fate fate) {
    gone_ = {fate == Fate::kCommitted ? kDropped : kMade, kBoth};
    for (u32 relation : gone_) directory_.remove_file(relation);
    LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
  }

  void finish(StoreLife &store, Host &host, Fate fate) {
    const bool committed = fate == Fate::kCommitted;
    Session s(store.store(), &host, 6);
    if (committed) host.end(kXid);
    LS_EXPECT_OK(ls_prepared_finish(s.worker(), host.tn(kXid), committed, &err));
    if (!committed) host.end(kXid);
  }

  void expect_sealed(StoreLife &store, Host &host) {
    Session s(store.store(), &host, 5);
    for (u32 relation : {kDropped, kMade, kBoth}) {
      const ls_rel_key key = relation_key(relation);
      const std::string file = HostDirectory::relation_path(relation);
      ls_rel rel;
      EXPECT_EQ(ls_rel_open(s.worker(), &key, file.c_str(), LS_REL_TABLE, true, &rel, &s.err),
                LS_IN_USE);
    }
  }

  static Rows rows_of(StoreLife &store, Host &host, u32 relation) {
    ls_error err{};
    Session s(store.store(), &host, 5);
    ls_rel *rel = s.open(relation);
    ls_check_result check;
    LS_EXPECT_OK(ls_rel_check(s.worker(), rel, &check, &err));
    return s.contents(rel);
  }

  void expect_end(StoreLife &store, Host &host, Fate fate) {
    LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
    const bool committed = fate == Fate::kCommitted;
    EXPECT_EQ(rows_of(store, host, kKept).begin()->second, committed ? "changed" : "kept");
    if (committed)
      EXPECT_EQ(rows_of(store, host, kMade).size(), 500u);
    else
      EXPECT_EQ(rows_of(store, host, kDropped).size(), 2u);
    for (u32 relation : gone_) EXPECT_FALSE(std::filesystem::exists(path(relation)));
    EXPECT_TRUE(std::filesystem::is_empty(temp_ / "leanstore/prepared"));
  }

  // Recovery with a host that has the transaction still prepared, or has ended it so.
  void start(StoreLife &store, bool prepared, bool committed) {
    ls_in_doubt *doubts = nullptr;
    size_t n = 0;
    LS_ASSERT_OK(ls_recovery_redo(store.store(), kNextXid, &doubts, &n, &err));
    EXPECT_EQ(n, 1u);
    for (size_t i = 0; i < n; i++) {
      doubts[i].prepared = prepared;
      doubts[i].committed = committed;
    }
    LS_ASSERT_OK(ls_recovery_finish(store.store(), doubts, n, &err));
    free(doubts);
  }

  std::string path(u32 relation) const {
    return temp_.path() + ("/" + HostDirectory::relation_path(relation));
  }

  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  std::vector<u32> gone_;
  ls_error err{};
};

// A host after a restart that has kXid still prepared, or not any more.
struct HostAfter {
  explicit HostAfter(ls_store *store, bool prepared) : host(store, kXid) {
    EXPECT_EQ(host.begin(), kXid);
    while (host.next_xid() < kNextXid) host.end(host.begin());
    if (!prepared) host.end(kXid);
  }
  Host host;
};

// SEAL-1, SEAL-3
TEST_F(TwoPhaseFilesTest, stay_closed_until_the_end) {
  for (const Fate fate : kFates) {
    begin_anew();
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(kXid));
    Host host(store.store(), kXid);
    prepare(store, host);
    expect_sealed(store, host);
    unlink_files(store, fate);
    expect_sealed(store, host);
    finish(store, host, fate);
    expect_end(store, host, fate);
  }
}

TEST_F(TwoPhaseFilesTest, stay_closed_over_a_crash) {
  for (const Fate fate : kFates) {
    begin_anew();
    ASSERT_TRUE(in_child([&] {
      ASSERT_TRUE(crash_after(config_, kXid, [&](StoreLife &store, Host &host) {
        prepare(store, host);
      }));
      // Twice: the second start finds what the first one has written.
      ASSERT_TRUE(in_child([&] {
        StoreLife store(config_);
        start(store, true, false);
        HostAfter after(store.store(), true);
        expect_sealed(store, after.host);
        crash_now();
      }));
      StoreLife store(config_);
      start(store, true, false);
      HostAfter after(store.store(), true);
      expect_sealed(store, after.host);
      unlink_files(store, fate);
      finish(store, after.host, fate);
      expect_end(store, after.host, fate);
      if (HasFailure()) _exit(3);
    }));
  }
}

// The host replays the end, and unlinks, before the store recovers.
TEST_F(TwoPhaseFilesTest, may_be_gone_at_the_start) {
  for (const Fate fate : kFates) {
    begin_anew();
    ASSERT_TRUE(crash_after(config_, kXid, [&](StoreLife &store, Host &host) {
      prepare(store, host);
      unlink_files(store, fate);
    }));
    gone_ = {fate == Fate::kCommitted ? kDropped : kMade, kBoth};
    {
      StoreLife store(config_);
      start(store, false, fate == Fate::kCommitted);
      HostAfter after(store.store(), false);
      expect_end(store, after.host, fate);
    }
  }
}

#if LS_FAILPOINTS
// The worker that ends it has taken the seals off, and dies.
TEST_F(TwoPhaseFilesTest, end_once_more_after_a_crash) {
  for (const Fate fate : kFates) {
    begin_anew();
    ASSERT_TRUE(crash_after(config_, kXid, [&](StoreLife &store, Host &host) {
      prepare(store, host);
      unlink_files(store, fate);
      OnceAt point(Failpoint::txn_after_seals, [] { crash_now(); });
      finish(store, host, fate);
      ADD_FAILURE() << "it has ended";
    }));
    gone_ = {fate == Fate::kCommitted ? kDropped : kMade, kBoth};
    StoreLife store(config_);
    start(store, false, fate == Fate::kCommitted);
    HostAfter after(store.store(), false);
    expect_end(store, after.host, fate);
  }
}
#endif

TEST_F(TwoPhaseFilesTest, are_open_again_when_the_host_refuses) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kXid));
  Host host(store.store(), kXid);
  Session a(store.store(), &host, 0), b(store.store(), &host, 1);
  commit_row(b, b.open(kDropped), "stays");
  ASSERT_EQ(a.begin(), LS_OK);
  ls_rel *dropped = a.open(kDropped);
  insert_row(a, dropped, "comes and goes");
  insert_row(a, a.open(kMade), "comes and goes");
  LS_ASSERT_OK(ls_txn_prepare(a.worker(), a.xid(), kEnding.data(), kEnding.size(), &err));
  expect_sealed(store, host);
  a.abort();
  EXPECT_EQ(rows_of(store, host, kDropped).size(), 1u);
  EXPECT_TRUE(rows_of(store, host, kMade).empty());
}

// SEAL-2: what uses a file is waited for.
TEST_F(TwoPhaseFilesTest, in_use_are_closed_afterwards) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kXid));
  Host host(store.store(), kXid);
  Session a(store.store(), &host, 0), b(store.store(), &host, 1);
  commit_row(b, b.open(kDropped));
  ls_rel *dropped = b.open(kDropped);
  HostSnapshot snapshot;
  host.take(&snapshot, 0, 0);
  ls_scan *scan = nullptr;
  LS_ASSERT_OK(ls_scan_open(b.worker(), dropped, &snapshot.s, 0, LS_MAX_ROW_ID, false, &scan,
                            &b.err));
  const ls_row *rows = nullptr;
  u32 count = 0;
  LS_ASSERT_OK(ls_scan_next(scan, &rows, &count, &b.err));
  ASSERT_EQ(a.begin(), LS_OK);
  insert_row(a, a.open(kKept), "row");
  const u64 tn = a.tn();
  std::atomic<bool> closed = false;
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    closed = true;
    ls_scan_close(scan);
  });
  EXPECT_EQ(a.hand_over({}, kEnding), LS_OK) << a.err.message;
  EXPECT_TRUE(closed);
  reader.join();
  host.release(snapshot);
  expect_sealed(store, host);
  Session c(store.store(), &host, 6);
  LS_EXPECT_OK(ls_prepared_finish(c.worker(), tn, false, &err));
}

}  // namespace
}  // namespace ls::test
