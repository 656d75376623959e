// Reading evicted pages: once for all workers that ask, with every kind of damage told.
#include <fstream>

#include "buffer/io_stage.hpp"
#include "unit/buffer/pool_fixture.hpp"

namespace ls::buffer_test {
namespace {

constexpr u32 kLeaves = 200;

// A tree on disk, none of it in memory but the meta page; the pool is large enough for all of it.
class IoStageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    register_toy_tree();
    {
      TestWorker worker(test_, 0);
      LS_ASSERT_OK(ToyTree::open(test_, worker.ctx, 7, false, &file_));
      LS_ASSERT_OK(ToyTree(worker.ctx, *file_).add_leaves(kLeaves));
      for (u32 i = 0; i < kLeaves; i++) pages_.push_back(ToyTree(worker.ctx, *file_).page_no_of(i));
      LS_ASSERT_OK(test_.pool().flush(worker.ctx, ~Gsn{0}, true));
    }
    test_.crash();
    worker_ = std::make_unique<TestWorker>(test_, 0);
    LS_ASSERT_OK(ToyTree::open(test_, worker_->ctx, 7, false, &file_));
  }
  u64 reads() { return test_.pool().stats().reads; }
  Status read(u32 leaf) {
    u64 value;
    return ToyTree(worker_->ctx, *file_).read(leaf, &value);
  }
  std::vector<u8> bytes_of(PageNo page_no) {
    std::ifstream in(test_.path("rel7"), std::ios::binary);
    std::vector<u8> bytes(kPageSize);
    in.seekg(u64{page_no} * kPageSize);
    in.read(reinterpret_cast<char *>(bytes.data()), kPageSize);
    return bytes;
  }
  void put_bytes(PageNo page_no, const std::vector<u8> &bytes) {
    std::fstream out(test_.path("rel7"), std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(u64{page_no} * kPageSize);
    out.write(reinterpret_cast<const char *>(bytes.data()), kPageSize);
  }
  // Every attempt ends in LS_CORRUPT about that page; the page put right, reading works.
  void expect_corrupt(u32 leaf, const char *message) {
    for (int i = 0; i < 2; i++) {
      EXPECT_EQ(code(read(leaf)), LS_CORRUPT);
      EXPECT_EQ(last_error().page_no, pages_[leaf]);
      EXPECT_STREQ(last_error().path, "rel7");
      EXPECT_NE(std::string(last_error().message).find(message), std::string::npos)
          << last_error().message;
    }
  }

  TestPool test_{400};
  std::unique_ptr<TestWorker> worker_;
  FileSlot *file_ = nullptr;
  std::vector<PageNo> pages_;
};

// STAGE-1
TEST_F(IoStageTest, each_page_is_read_once_however_many_ask) {
  u64 before = reads();
  std::atomic<u32> wrong{0}, waiting{0};
  std::vector<std::thread> threads;
  for (u32 slot = 1; slot <= 6; slot++) {
    threads.emplace_back([&, slot] {
      TestWorker worker(test_, slot);
      ToyTree tree(worker.ctx, *file_);
      waiting.fetch_add(1);
      while (waiting.load() < 6) std::this_thread::yield();
      for (u32 i = 0; i < kLeaves; i++) {
        u64 value;
        if (!ok(tree.read(i, &value))) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread &t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0u);
  u32 dirs = (kLeaves + kFan - 1) / kFan;
  EXPECT_EQ(reads() - before, 1 + dirs + kLeaves);
  EXPECT_EQ(file_->frames.load(), 2 + dirs + kLeaves);
}

TEST_F(IoStageTest, each_asker_gets_the_read_error_and_a_later_retry_works) {
  LS_ASSERT_OK(read(0));
  u32 free = test_.pool().stats().free;
  fault_add({.op = FaultOp::kRead, .path_part = "rel7", .every = true});
  std::atomic<u32> failed{0};
  std::vector<std::thread> threads;
  for (u32 slot = 1; slot <= 4; slot++) {
    threads.emplace_back([&, slot] {
      TestWorker worker(test_, slot);
      u64 value;
      Status status = ToyTree(worker.ctx, *file_).read(5, &value);
      if (code(status) == LS_IO_ERROR && last_error().sys_errno == EIO) failed.fetch_add(1);
    });
  }
  for (std::thread &t : threads) t.join();
  EXPECT_EQ(failed.load(), 4u);
  EXPECT_EQ(test_.pool().stats().free, free);
  fault_clear();
  LS_EXPECT_OK(read(5));
}

TEST_F(IoStageTest, a_flipped_bit_is_corruption_of_that_page) {
  std::vector<u8> good = bytes_of(pages_[9]), bad = good;
  bad[1234] ^= 0x10;
  put_bytes(pages_[9], bad);
  expect_corrupt(9, "checksum");
  LS_EXPECT_OK(read(10));
  put_bytes(pages_[9], good);
  LS_EXPECT_OK(read(9));
}

TEST_F(IoStageTest, a_page_written_to_another_place_is_corruption) {
  put_bytes(pages_[9], bytes_of(pages_[10]));
  expect_corrupt(9, "another place");
}

TEST_F(IoStageTest, a_page_that_is_not_there_is_corruption) {
  put_bytes(pages_[9], std::vector<u8>(kPageSize));
  expect_corrupt(9, "does not exist");
  std::filesystem::resize_file(test_.path("rel7"), u64{pages_[100]} * kPageSize);
  expect_corrupt(100, "does not exist");
}

TEST_F(IoStageTest, a_page_read_by_somebody_else_is_taken_over_without_reading) {
  LS_ASSERT_OK(read(0));
  Frame *frame;
  LS_ASSERT_OK(test_.pool().load_page(worker_->ctx, *file_, pages_[1], &frame));
  frame->latch.unlock_exclusive();
  {
    IoStageLock stage(*test_.pool().shared(), file_->file_no, pages_[1]);
    stage.insert(frame);
  }
  u64 before = reads();
  LS_EXPECT_OK(read(1));
  EXPECT_EQ(reads(), before);
  EXPECT_EQ(frame->state.load(), FrameState::kHot);
  IoStageLock stage(*test_.pool().shared(), file_->file_no, pages_[1]);
  EXPECT_EQ(stage.find(), nullptr);
}

// A: reads the swip evicted, sleeps for want of a frame.  B: brings the page in and swizzles it.
// A: gets a frame, and must not read the page a second time.
// STAGE-2
TEST_F(IoStageTest, race_slow_reader_vs_swizzle_keeps_one_frame_per_page) {
  LS_ASSERT_OK(read(0));
  PoolShared &shared = *test_.pool().shared();
  std::vector<Frame *> taken;
  while (Frame *frame = free_list_pop(shared)) taken.push_back(frame);
  std::thread a([&] {
    TestWorker worker(test_, 1);
    u64 value;
    LS_EXPECT_OK(ToyTree(worker.ctx, *file_).read(5, &value));
  });
  while (shared.free_waiters.load() == 0) std::this_thread::yield();
  Frame *frame = taken.back();
  taken.pop_back();
  ASSERT_TRUE(claim_frame(shared, *file_, frame, pages_[5]));
  LS_ASSERT_OK(file_read_page(file_->ref(), pages_[5], test_.pool().page(frame)));
  frame->state.store(FrameState::kLoaded);
  {
    IoStageLock stage(shared, file_->file_no, pages_[5]);
    stage.insert(frame);
  }
  LS_ASSERT_OK(read(5));
  u64 before = reads();
  u32 frames = file_->frames.load();
  for (Frame *other : taken) free_list_push(shared, other);
  a.join();
  EXPECT_EQ(reads(), before);
  EXPECT_EQ(file_->frames.load(), frames);
  IoStageLock stage(shared, file_->file_no, pages_[5]);
  EXPECT_EQ(stage.find(), nullptr);
}

TEST_F(IoStageTest, a_load_nobody_comes_for_is_dropped) {
  u64 free = test_.pool().stats().free;
  Frame *frame;
  LS_ASSERT_OK(test_.pool().load_page(worker_->ctx, *file_, pages_[1], &frame));
  frame->latch.unlock_exclusive();
  {
    IoStageLock stage(*test_.pool().shared(), file_->file_no, pages_[1]);
    stage.insert(frame);
  }
  EXPECT_EQ(test_.pool().stats().free, free - 1);
  PageProvider provider(test_.pool(), 0);
  u32 freed;
  for (u32 i = 0; i < 200 && test_.pool().stats().free < free; i++)
    LS_ASSERT_OK(provider.round(&freed));
  EXPECT_EQ(test_.pool().stats().free, free);
  EXPECT_EQ(frame->state.load(), FrameState::kFree);
  LS_EXPECT_OK(read(1));
}

TEST_F(IoStageTest, waiting_for_a_frame_can_be_interrupted) {
  LS_ASSERT_OK(read(0));
  std::vector<Frame *> taken;
  while (Frame *frame = free_list_pop(*test_.pool().shared())) taken.push_back(frame);
  volatile int interrupt = 1;
  worker_->ctx.interrupt = &interrupt;
  EXPECT_EQ(code(read(5)), LS_INTERRUPTED);
  worker_->ctx.interrupt = nullptr;
  std::thread giver([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (Frame *frame : taken) free_list_push(*test_.pool().shared(), frame);
  });
  LS_EXPECT_OK(read(5));
  giver.join();
}

}  // namespace
}  // namespace ls::buffer_test
