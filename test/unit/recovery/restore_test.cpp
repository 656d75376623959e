// A base backup with a host's log: what counts of the store's directory comes out of that log
// (recovery/restore_state.hpp), and what was copied of it is of many moments.
#include "recovery/restore_state.hpp"

#include "txn/prepared_file.hpp"
#include "unit/recovery/restore_fixture.hpp"

namespace ls::test {
namespace {

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
