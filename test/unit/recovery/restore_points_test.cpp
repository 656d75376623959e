// A short history with a host's log, and a copy of the store that is recovered to every single
// place of that log: what was committed there is there, and nothing else.
//
// Of the state's place on.  LS_CRASH_STEP=n leaves out all but every n-th.
#include <cstdlib>

#include "unit/recovery/restore_fixture.hpp"

namespace ls::test {
namespace {

class RestorePointsTest : public RestoreTest {
 protected:
  // The rows when the host's log had so many records.
  struct Moment {
    u64 records;
    ImageClient::Rows rows;
  };

  static u64 step() {
    const char *value = std::getenv("LS_CRASH_STEP");
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    constexpr u64 kDefaultStep = 5;
#else
    constexpr u64 kDefaultStep = 1;
#endif
    return value ? std::strtoull(value, nullptr, 10) : kDefaultStep;
  }

  void history(u64 next_xid, bool clean, bool with_state) {
    live(next_xid, clean, [&](StoreLife &store, Host &host) {
      ImageClient client(store, host, 0, GetParam() + lives_++);
      client.start_from(rows_);
      if (with_state) {
        client.work(15);
        note(store, client);
        take_state(store);
        copy_pages();
        copy_working_directory();
      }
      for (u32 i = 0; i < 20; i++) {
        client.work(1);
        note(store, client);
        if (i == 10) LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
      }
      rows_ = client.committed();
      client.leave_one_open();
    });
  }

  // All that was acknowledged is durable, so it is in the host's log.
  void note(StoreLife &store, const ImageClient &client) {
    Log log = store_process(*store.store()).log;
    EXPECT_TRUE(log.wait_hardened(log.last_gsn(), nullptr));
    moments_.push_back({host_log_.size(), client.committed()});
  }

  void expect_at(u64 end) {
    recover_at(end);
    host_log_.come_back();
  }

  // Onto a fresh copy, which logs into a host's log of its own.  The last commit may be there
  // before it was acknowledged.
  void recover_at(u64 end) {
    const TempDirectory directory;
    std::filesystem::copy(copy_.path(), directory.path(),
                          std::filesystem::copy_options::recursive);
    ls_config config = images_config(directory.path(), 400);
    config.host_log = true;
    config.long_transaction_bytes = config_.long_transaction_bytes;
    StoreLife store(config);
    LS_ASSERT_OK(ls_restore_forget(store.store(), &err));
    replay(store.store(), end, true);
    MemoryHost own;
    HostPump pump(store.store(), own);
    ASSERT_EQ(store.recover(1'000'000), LS_OK) << store.err.message;
    look_at(store, end);
    LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
  }

  void look_at(StoreLife &store, u64 end) {
    Host host(store.store(), 1'000'000);
    ImageClient client(store, host, 0, 0);
    const ImageClient::Rows found = client.found();
    size_t last = 0;
    while (last + 1 < moments_.size() && moments_[last + 1].records <= end) last++;
    const bool next = last + 1 < moments_.size() && found == moments_[last + 1].rows;
    EXPECT_TRUE(next || found == moments_[last].rows)
        << found.size() << " rows at record " << end << ", expected " << moments_[last].rows.size();
    for (const bool index : {false, true}) {
      ls_check_result check;
      ls_rel *rel = client.session.open(index ? client.index() : client.table(), true,
                                        index ? LS_REL_INDEX : LS_REL_TABLE);
      LS_EXPECT_OK(ls_rel_check(client.session.worker(), rel, &check, &err));
    }
  }

  std::vector<Moment> moments_;
  ImageClient::Rows rows_;
};

TEST_P(RestorePointsTest, each_place_of_the_hosts_log_has_what_was_committed_there) {
  history(kImageXid, GetParam() % 2 == 0, true);
  history(100'000, false, false);
  const u64 end = host_log_.log().size();
  ASSERT_GT(end, state_at_ + 30);
  for (u64 at = state_at_; at <= end && !HasFailure(); at += step()) expect_at(at);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RestorePointsTest, ::testing::Range(1u, 4u));

}  // namespace
}  // namespace ls::test
