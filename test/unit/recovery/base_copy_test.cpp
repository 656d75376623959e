// The files of a store that is at work are copied, then the log since the checkpoint before.
#include "unit/recovery/base_copy_fixture.hpp"

namespace ls::test {
namespace {

using BaseCopyTest = BaseCopy;

TEST_P(BaseCopyTest, a_copy_made_while_the_store_works_has_every_row) {
  std::vector<ImageClient::Rows> expected(kClients);
  {
    StoreLife store(config_);
    ASSERT_EQ(store.recover(kImageXid), LS_OK) << store.err.message;
    Host host(store.store(), kImageXid);
    std::atomic<bool> copied{false};
    std::vector<std::thread> threads;
    for (u32 i = 0; i < kClients; i++) {
      threads.emplace_back([&, i] {
        ImageClient client(store, host, i, GetParam());
        client.work(100);
        while (!copied && !HasFailure()) client.work(5);
        client.work(5);
        client.leave_one_open();
        expected[i] = client.committed();
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
    copy_pages();
    copied = true;
    for (std::thread &thread : threads) thread.join();
    Log log = store_process(*store.store()).log;
    EXPECT_TRUE(log.wait_hardened(log.last_gsn(), nullptr));
    LS_ASSERT_OK(ls_store_abandon(store.store(), &err));
    copy_directory();
  }
  std::printf("%u pages of the copy are torn\n", count_torn());
  StoreLife store(copy_config_);
  ASSERT_EQ(store.recover(1'000'000), LS_OK) << store.err.message;
  expect_rows(store, expected);
}

INSTANTIATE_TEST_SUITE_P(Seeds, BaseCopyTest, ::testing::Range(1u, 6u));

}  // namespace
}  // namespace ls::test
