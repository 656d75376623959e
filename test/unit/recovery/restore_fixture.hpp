// restore_fixture.hpp - a store with a host's log, the states that it leaves there, and a copy of
// the store onto which that log is replayed.
#pragma once
#include <atomic>
#include <set>

#include "recovery/restore_state.hpp"
#include "unit/recovery/base_copy_fixture.hpp"
#include "unit/wal/host_pump.hpp"

namespace ls::test {
class RestoreTest : public BaseCopy {
 protected:
  RestoreTest() {
    config_.host_log = copy_config_.host_log = true;
    // Young transactions have undo files in some of the rounds, and log in the others.
    if (GetParam() % 2 == 0) config_.long_transaction_bytes = 1;
    expected_.resize(kClients);
  }

  // A life of the original; ended as a crash ends it, or shut down.
  // decide: of what is in doubt when it begins.
  void live(u64 next_xid, bool clean, const std::function<void(StoreLife &, Host &)> &work,
            const StoreLife::Decide &decide = {}) {
    StoreLife store(config_);
    host_log_.crash();
    ls_relay_replay_begin(store.store(), false);
    if (GetParam() % 2 == 1) ls_relay_replay_alone(store.store());
    for (u64 i = host_log_.redo(); i < host_log_.log().size(); i++) add(store.store(), i);
    LS_ASSERT_OK(ls_relay_replay_end(store.store(), &err));
    host_log_.checkpoint();
    HostPump pump(store.store(), host_log_);
    ASSERT_EQ(store.recover(next_xid, decide), LS_OK) << store.err.message;
    Host host(store.store(), next_xid);
    work(store, host);
    if (clean) {
      LS_ASSERT_OK(ls_store_shutdown(store.store(), &err));
      return;
    }
    Log log = store_process(*store.store()).log;
    EXPECT_TRUE(log.wait_hardened(log.last_gsn(), nullptr));
    LS_ASSERT_OK(ls_store_abandon(store.store(), &err));
  }

  void add(ls_store *store, u64 i) {
    const MemoryHost::Record &record = host_log_.log()[i];
    if (record.prepared.full_xid != 0) {
      ls_prepared_bytes piece = record.prepared;
      piece.bytes = record.bytes.data();
      piece.count = record.bytes.size();
      LS_ASSERT_OK(ls_prepared_replay(store, &piece, &err));
      return;
    }
    LS_ASSERT_OK(ls_relay_replay(store, record.bytes.data(), record.bytes.size(), record.position,
                                 &err));
  }

  // Clients work until `meanwhile` has ended; the last transactions stay open.
  void work(StoreLife &store, Host &host, const std::function<void()> &meanwhile) {
    std::atomic<bool> ended{false};
    std::vector<std::thread> threads;
    for (u32 i = 0; i < kClients; i++) {
      threads.emplace_back([&, i] {
        host_log_.use();
        ImageClient client(store, host, i, GetParam() + lives_);
        client.start_from(expected_[i]);
        client.work(60);
        while (!ended && !HasFailure()) client.work(5);
        client.work(5);
        client.leave_one_open();
        expected_[i] = client.committed();
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    meanwhile();
    ended = true;
    for (std::thread &thread : threads) thread.join();
    lives_++;
  }

  // As the host's checkpoint does it.
  void take_state(StoreLife &store) {
    const u64 floor = ls_log_hardened(store.store());
    host_log_.checkpoint();
    ls_restore_floor(store.store(), floor);
    ls_name_places(store.store(), false);
    redo_ = host_log_.redo();
    const u32 request = ls_restore_state_ask(store.store());
    ls_restore_state_hurry(store.store(), request);
    ls_restore_state state{};
    while (!state.done) {
      LS_ASSERT_OK(ls_restore_state_take(store.store(), request, &state, &err));
      usleep(1000);
    }
    const u8 *bytes = static_cast<const u8 *>(state.bytes);
    state_.assign(bytes, bytes + state.count);
    state_at_ = host_log_.size();
  }

  // File by file, while they come and go.
  void copy_working_directory() {
    namespace fs = std::filesystem;
    std::error_code ignored;
    for (const char *part : {"", "/wal", "/undo", "/prepared"}) {
      const std::string from = (temp_ / "leanstore") + part, to = (copy_ / "leanstore") + part;
      fs::create_directories(to);
      for (const auto &entry : fs::directory_iterator(from)) {
        if (!fs::is_regular_file(entry.path(), ignored)) continue;
        fs::copy_file(entry.path(), to / entry.path().filename(),
                      fs::copy_options::overwrite_existing, ignored);
      }
    }
  }

  void copy(StoreLife &store) {
    if (GetParam() % 3 == 0) copy_working_directory();
    copy_pages();
    LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
    if (GetParam() % 3 != 0) copy_working_directory();
  }

  // The host replays its log from the copy's beginning to `end`.
  void replay(ls_store *store, u64 end, bool restoring) {
    ls_relay_replay_begin(store, restoring);
    for (u64 i = redo_; i <= end && !HasFatalFailure(); i++) {
      if (restoring && i == state_at_)
        LS_ASSERT_OK(ls_relay_replay_state(store, state_.data(), state_.size(), &err));
      if (i < end) add(store, i);
    }
    LS_ASSERT_OK(ls_relay_replay_end(store, &err));
  }

  // Of a table on a standby, where sessions have no host: what a snapshot sees.
  static ImageClient::Rows contents(ls_worker *worker, ls_rel *rel, const ls_snapshot &snapshot) {
    ImageClient::Rows found;
    ls_error error{};
    const ls_status status = scan_rows(worker, rel, snapshot, [&](const ls_row &row) {
      found[row.row_id] = {reinterpret_cast<const char *>(row.data), row.len};
    }, &error);
    EXPECT_EQ(status, LS_OK) << to_text(status, error);
    return found;
  }

  MemoryHost host_log_;
  u64 redo_ = 0, state_at_ = 0;   // records of the host's log
  std::vector<u8> state_;
  std::vector<ImageClient::Rows> expected_;
  u32 lives_ = 0;
};

}  // namespace ls::test
