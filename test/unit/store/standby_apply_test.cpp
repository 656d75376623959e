// A standby's restart points: states that come later in the host's log, up to which it is redone.
#include "store/standby_apply.hpp"

#include <thread>

#include "unit/recovery/restore_fixture.hpp"

namespace ls::test {
namespace {

class StandbyTest : public RestoreTest {
 protected:
  struct State {
    u64 redo, at;   // records of the host's log
    std::vector<u8> bytes;
  };

  // A life of the original with a state in it; of the first one files are copied.
  void live_with_state(u64 next_xid) {
    live(next_xid, GetParam() % 2 == 0, [&](StoreLife &store, Host &host) {
      work(store, host, [&] {
        take_state(store);
        if (states_.empty()) copy(store);
        states_.push_back({redo_, state_at_, state_});
      });
    });
  }

  // stop_us: after which the standby is to be promoted, or to end; 0: never.
  ls_status apply(const State &state, u64 position, u32 stop_us, u64 *log_bytes) {
    ls_config config = copy_config_;
    config.host_log = config.page_images = false;
    StoreLife store(config);
    volatile int stop = 0;
    ls_standby_state given{state.bytes.data(), state.bytes.size(), position, &stop, 0};
    std::thread stopper([&] {
      if (stop_us == 0) return;
      usleep(stop_us);
      __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    });
    const ls_status status = ls_standby_apply(store.store(), &given, &err);
    stopper.join();
    *log_bytes = given.log_bytes;
    return status;
  }

  // From the redo point of state `begin` to the end; or to the record behind state `end`.
  void follow(size_t begin, size_t end) {
    StoreLife store(copy_config_);   // as the host has it: in it nothing is done
    if (begin == 0) LS_ASSERT_OK(ls_restore_forget(store.store(), &err));
    ls_relay_replay_begin(store.store(), begin == 0);
    const u64 to = end < states_.size() ? states_[end].at + 1 : host_log_.log().size();
    size_t next = begin;
    for (u64 i = states_[begin].redo; i <= to && !HasFatalFailure(); i++) {
      for (; next < states_.size() && states_[next].at == i; next++) replay_state(store, next);
      if (i < to) add(store.store(), i);
    }
    // A crash of the standby loses what was not synced; its restart point was behind a sync.
    LS_ASSERT_OK(ls_relay_replay_sync(store.store(), &err));
  }

  void replay_state(StoreLife &store, size_t number) {
    const State &state = states_[number];
    if (number == 0 && !restored_) {
      restored_ = true;
      LS_ASSERT_OK(ls_relay_replay_state(store.store(), state.bytes.data(), state.bytes.size(),
                                         &err));
      return;
    }
    LS_ASSERT_OK(ls_relay_replay_sync(store.store(), &err));
    const u64 position = ls_relay_replay_position(store.store());
    u64 log_bytes;
    for (u32 stop_us = 100; stop_us < 3000; stop_us *= 3) {
      const ls_status stopped = apply(state, position, stop_us, &log_bytes);
      ASSERT_TRUE(stopped == LS_OK || stopped == LS_INTERRUPTED) << err.message;
    }
    LS_ASSERT_OK(apply(state, position, 0, &log_bytes));
  }

  ControlFile control() const {
    ControlFile control{};
    bool exists;
    EXPECT_TRUE(ok(control_read(copy_config_.data_dir, &control, &exists)) && exists);
    return control;
  }

  std::vector<State> states_;
  bool restored_ = false;
};

// APPLY-1, APPLY-2, APPLY-3 (some seeds have lists of long transactions): over starts of the
// original, clean ones and crashes, and of the standby.
TEST_P(StandbyTest, what_was_replayed_is_redone_at_states) {
  for (u64 life = 1; life <= 4; life++) live_with_state(life == 1 ? kImageXid : 50'000 * life);
  follow(0, 2);
  const Lsn reached = control().redo_lsn;
  RestoreState first, later;
  ASSERT_TRUE(ok(restore_state_unpack(states_[0].bytes, &first)));
  ASSERT_TRUE(ok(restore_state_unpack(states_[2].bytes, &later)));
  EXPECT_EQ(reached, later.control.redo_lsn);
  EXPECT_GT(reached, first.control.redo_lsn);
  // An older one, replayed again, is passed over.
  u64 log_bytes;
  LS_EXPECT_OK(apply(states_[1], reached, 0, &log_bytes));
  EXPECT_EQ(log_bytes, 0u);
  EXPECT_EQ(control().redo_lsn, reached);
  follow(1, states_.size());   // it was killed, and begins at an earlier place
  StoreLife store(copy_config_);
  ls_relay_replay_begin(store.store(), false);
  for (u64 i = states_[3].redo; i < host_log_.log().size(); i++) add(store.store(), i);
  LS_ASSERT_OK(ls_relay_replay_end(store.store(), &err));
  HostPump pump(store.store(), host_log_);
  ASSERT_EQ(store.recover(1'000'000), LS_OK) << store.err.message;
  expect_rows(store, expected_);
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

INSTANTIATE_TEST_SUITE_P(Seeds, StandbyTest, ::testing::Range(1u, 7u));

}  // namespace
}  // namespace ls::test
