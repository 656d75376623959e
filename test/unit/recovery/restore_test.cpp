// A base backup with a host's log: what counts of the store's directory comes out of that log
// (recovery/restore_state.hpp), and what was copied of it is of many moments.
#include "recovery/restore_state.hpp"

#include <atomic>
#include <set>

#include "txn/prepared_file.hpp"
#include "unit/recovery/base_copy_fixture.hpp"
#include "unit/wal/host_pump.hpp"

namespace ls::test {
namespace {

class RestoreTest : public BaseCopy {
 protected:
  RestoreTest() {
    config_.host_log = copy_config_.host_log = true;
    // Young transactions have undo files in some of the rounds, and log in the others.
    if (GetParam() % 2 == 0) config_.long_transaction_bytes = 1;
    expected_.resize(kClients);
  }

  // A life of the original; ended as a crash ends it, or shut down.
  void live(u64 next_xid, bool clean, const std::function<void(StoreLife &, Host &)> &work) {
    StoreLife store(config_);
    host_log_.crash();
    ls_relay_replay_begin(store.store(), false);
    for (u64 i = host_log_.redo(); i < host_log_.log().size(); i++) add(store.store(), i);
    LS_ASSERT_OK(ls_relay_replay_end(store.store(), &err));
    host_log_.checkpoint();
    HostPump pump(store.store(), host_log_);
    ASSERT_EQ(store.recover(next_xid), LS_OK) << store.err.message;
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

  MemoryHost host_log_;
  u64 redo_ = 0, state_at_ = 0;   // records of the host's log
  std::vector<u8> state_;
  std::vector<ImageClient::Rows> expected_;
  u32 lives_ = 0;
};

// RESTORE-1, RESTORE-2, RESTORE-3: of the working directory only undo files are of use.
TEST_P(RestoreTest, a_copy_has_every_row_whatever_was_copied_of_the_directory) {
  live(kImageXid, GetParam() % 2 == 0, [&](StoreLife &store, Host &host) {
    work(store, host, [&] {
      take_state(store);
      copy(store);
    });
  });
  const u64 end = host_log_.log().size();
  StoreLife store(copy_config_);
  LS_ASSERT_OK(ls_restore_forget(store.store(), &err));
  replay(store.store(), end, true);
  HostPump pump(store.store(), host_log_);
  ASSERT_EQ(store.recover(1'000'000), LS_OK) << store.err.message;
  expect_rows(store, expected_);
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// The log of the copy goes on over crashes and clean starts of the original; and replay is
// interrupted.
TEST_P(RestoreTest, runs_of_the_original_that_came_later) {
  live(kImageXid, GetParam() % 2 == 0, [&](StoreLife &store, Host &host) {
    work(store, host, [&] {
      take_state(store);
      copy(store);
    });
  });
  // The host has lost the ids of the second life when the third one begins.
  for (u64 life = 2; life < 4; life++) {
    live(life == 2 ? 100'000 : 50'000, (GetParam() + life) % 3 != 0,
         [&](StoreLife &store, Host &host) { work(store, host, [] {}); });
  }
  const u64 end = host_log_.log().size();
  {
    StoreLife interrupted(copy_config_);
    LS_ASSERT_OK(ls_restore_forget(interrupted.store(), &err));
    ls_relay_replay_begin(interrupted.store(), true);
    for (u64 i = redo_; i < state_at_; i++) add(interrupted.store(), i);
    if (GetParam() % 2 == 0) {
      LS_ASSERT_OK(ls_relay_replay_state(interrupted.store(), state_.data(), state_.size(), &err));
    }
  }
  StoreLife store(copy_config_);
  replay(store.store(), end, GetParam() % 2 != 0);
  HostPump pump(store.store(), host_log_);
  ASSERT_EQ(store.recover(1'000'000), LS_OK) << store.err.message;
  expect_rows(store, expected_);
  TnEras original, copied;   // ERA-4
  bool exists;
  ASSERT_TRUE(ok(original.read(config_.data_dir, &exists)) && exists);
  ASSERT_TRUE(ok(copied.read(copy_config_.data_dir, &exists)) && exists);
  EXPECT_GT(original.count(), 1u);
  for (Tn tn = kImageXid; tn < 120'000; tn++)
    ASSERT_EQ(copied.full_xid(tn), original.full_xid(tn)) << "TN " << tn;
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// PLACE-1: an earlier copy, and of the pages those that were named since.
TEST_P(RestoreTest, a_copy_is_renewed_by_the_pages_that_were_named) {
  std::set<std::pair<u32, PageNo>> named;
  u64 all = 0;
  live(kImageXid, GetParam() % 2 == 0, [&](StoreLife &store, Host &host) {
    work(store, host, [&] {
      take_state(store);
      copy_pages();
    });
  });
  const u64 first_redo = redo_;
  live(100'000, GetParam() % 2 != 0, [&](StoreLife &store, Host &host) {
    work(store, host, [&] {
      take_state(store);
      for (const MemoryHost::Place &place : host_log_.places_of(first_redo, redo_))
        named.emplace(place.page.relation.relation, place.page.page);
      copy_pages([&](u32 file, PageNo page) { return all++, named.contains({file, page}); });
      copy_working_directory();
    });
  });
  EXPECT_GT(named.size(), 0u);
  EXPECT_LT(named.size(), all / 2);   // halves
  StoreLife store(copy_config_);
  LS_ASSERT_OK(ls_restore_forget(store.store(), &err));
  replay(store.store(), host_log_.log().size(), true);
  HostPump pump(store.store(), host_log_);
  ASSERT_EQ(store.recover(1'000'000), LS_OK) << store.err.message;
  expect_rows(store, expected_);
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

// A primary that was shut down follows its successor, which has gone on from the same log.
TEST_P(RestoreTest, a_store_that_was_shut_down_goes_on_with_the_log_of_another) {
  live(kImageXid, true, [&](StoreLife &store, Host &host) { work(store, host, [] {}); });
  copy_pages();
  copy_directory();
  redo_ = host_log_.log().size();
  {
    // Nothing follows: it starts as ever.
    StoreLife alone(copy_config_);
    replay(alone.store(), redo_, false);
  }
  for (u64 life = 2; life < 4; life++)
    live(50'000 * life, life == 2, [&](StoreLife &store, Host &host) { work(store, host, [] {}); });
  StoreLife store(copy_config_);
  replay(store.store(), host_log_.log().size(), false);
  HostPump pump(store.store(), host_log_);
  ASSERT_EQ(store.recover(1'000'000), LS_OK) << store.err.message;
  expect_rows(store, expected_);
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RestoreTest, ::testing::Range(1u, 7u));

// PFILE-1
TEST(PreparedReplay, pieces_become_a_file_when_the_last_one_has_come) {
  const TempDirectory directory;
  const char *path = directory.path().c_str();
  const std::string name = directory.path() + "/" + undo_file_name(77);
  const std::vector<u8> piece(1000, 'a'), other(500, 'b');
  const auto content = [&] {
    std::ifstream file(name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  // Its beginning was replayed long ago, and the file has stayed.
  EXPECT_TRUE(ok(prepared_file_replay(path, 77, 1000, other, true)));
  EXPECT_FALSE(std::filesystem::exists(name));
  EXPECT_TRUE(ok(prepared_file_replay(path, 77, 0, piece, false)));
  EXPECT_FALSE(std::filesystem::exists(name)) << "half a file";
  // Replay begins again, before it or in between.
  EXPECT_TRUE(ok(prepared_file_replay(path, 77, 0, piece, false)));
  for (int i = 0; i < 2; i++) {
    EXPECT_TRUE(ok(prepared_file_replay(path, 77, 1000, other, true)));
    EXPECT_EQ(content(), std::string(1000, 'a') + std::string(500, 'b'));
  }
  EXPECT_TRUE(ok(prepared_file_replay(path, 77, 0, other, true)));
  EXPECT_EQ(content(), std::string(500, 'b')) << "replaced by a shorter one";
}

TEST(RestoreState, damaged_bytes_are_refused) {
  const TempDirectory directory;
  std::filesystem::create_directories(directory.path() + "/wal");
  TnEras eras;
  eras.add(1, 0);
  ASSERT_TRUE(ok(eras.write(directory.path().c_str())));
  ControlFile control{};
  control.run = 7;
  control.redo_lsn = 1000;
  std::vector<u8> state;
  ASSERT_TRUE(ok(restore_state_pack(directory.path().c_str(), control, 1000, &state)));
  RestoreState read;
  ASSERT_TRUE(ok(restore_state_unpack(state, &read)));
  EXPECT_EQ(read.control.run, 7u);
  EXPECT_FALSE(read.eras.empty());
  EXPECT_TRUE(read.log.empty() && read.list.empty());
  for (size_t at = 0; at < state.size(); at++) {
    std::vector<u8> damaged = state;
    damaged[at] ^= 0x10;
    EXPECT_EQ(code(restore_state_unpack(damaged, &read)), LS_CORRUPT) << "byte " << at;
    damaged.resize(at);
    EXPECT_EQ(code(restore_state_unpack(damaged, &read)), LS_CORRUPT) << "cut at " << at;
  }
}

}  // namespace
}  // namespace ls::test
