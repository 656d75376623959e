// change_buffer_test.cpp - the change buffer: order, room, and what comes back to the pool.
#include "buffer/change_buffer.hpp"

#include <random>

#include "unit/buffer/pool_fixture.hpp"

namespace ls::buffer_test {
namespace {

constexpr u32 kFrames = 256, kMostFrames = kFrames / 8;

class ChangeBufferTest : public ::testing::Test {
 protected:
  void SetUp() override {
    register_toy_tree();
    LS_ASSERT_OK(ToyTree::open(test_, main_.ctx, 7, true, &file_));
    free_ = shared().free_count.load();
  }
  PoolShared &shared() { return *test_.pool().shared(); }

  // False: no room.
  bool put(FileSlot &file, PageNo page, Gsn gsn, u32 bytes) {
    ChangeBufferLock waiting(shared(), file, page);
    BufferedChange *change = waiting.make(static_cast<u8>(gsn), bytes);
    if (!change) return false;
    std::memset(change->operands, static_cast<int>(gsn), bytes);
    waiting.add(change, gsn);
    return true;
  }
  std::vector<Gsn> changes_of(FileSlot &file, PageNo page) {
    ChangeBufferLock waiting(shared(), file, page);
    std::vector<Gsn> gsns;
    for (const BufferedChange *c = waiting.first(); c; c = waiting.after(c)) {
      gsns.push_back(c->gsn);
      EXPECT_EQ(c->code, static_cast<u8>(c->gsn));
      for (u32 i = 0; i < c->bytes; i++) EXPECT_EQ(c->operands[i], static_cast<u8>(c->gsn));
    }
    return gsns;
  }
  void remove(FileSlot &file, PageNo page) { ChangeBufferLock(shared(), file, page).remove_all(); }
  u32 frames_used() { return free_ - shared().free_count.load(); }

  TestPool test_{kFrames};
  TestWorker main_{test_, 0};
  FileSlot *file_ = nullptr;
  u32 free_ = 0;
};

TEST_F(ChangeBufferTest, those_of_a_page_are_in_order_and_apart_from_others) {
  EXPECT_FALSE(has_buffered_changes(shared(), *file_, 5));
  EXPECT_EQ(oldest_buffered_change(shared()), ~Gsn{0});
  for (Gsn gsn = 10; gsn < 40; gsn++)
    ASSERT_TRUE(put(*file_, static_cast<PageNo>(gsn % 3), gsn, 20 + 11 * (gsn % 5)));
  for (PageNo page = 0; page < 3; page++) {
    const std::vector<Gsn> gsns = changes_of(*file_, page);
    ASSERT_EQ(gsns.size(), 10u);
    for (size_t i = 0; i < gsns.size(); i++) EXPECT_EQ(gsns[i], 10 + (page + 2) % 3 + 3 * i);
    EXPECT_TRUE(has_buffered_changes(shared(), *file_, page));
  }
  EXPECT_FALSE(has_buffered_changes(shared(), *file_, 3));
  EXPECT_EQ(oldest_buffered_change(shared()), 10u);
  EXPECT_EQ(test_.pool().oldest_dirty(), std::min<Gsn>(10, test_.pool().oldest_dirty()));
  remove(*file_, 1);   // 10, 13, ...
  EXPECT_TRUE(changes_of(*file_, 1).empty());
  EXPECT_EQ(changes_of(*file_, 0).size(), 10u);
  EXPECT_EQ(oldest_buffered_change(shared()), 11u);

  std::vector<ChangeBufferPage> pages = change_buffer_pages(shared(), 11);
  ASSERT_EQ(pages.size(), 1u) << "the other one's first change is younger";
  EXPECT_EQ(pages[0].page_no, 2u);
  EXPECT_EQ(pages[0].operands.size(), 20u + 11);
  pages = change_buffer_pages(shared(), 39);
  ASSERT_EQ(pages.size(), 2u);
  EXPECT_LT(pages[0].page_no, pages[1].page_no);

  remove(*file_, 0);
  remove(*file_, 2);
  EXPECT_EQ(frames_used(), 0u);
  EXPECT_EQ(shared().change_buffer_count.load(), 0u);
}

TEST_F(ChangeBufferTest, they_take_an_eighth_of_the_pool_and_no_more) {
  u32 n = 0;
  while (n < 1'000'000 && put(*file_, n, n + 1, 100)) n++;
  EXPECT_GT(n, kMostFrames * (kPageSize / 160) * 2 / 3) << "cells are not wasted";
  EXPECT_LE(frames_used(), kMostFrames);
  EXPECT_GT(frames_used(), kMostFrames / 2);
  // What one gives back another one gets.
  remove(*file_, n / 2);
  EXPECT_TRUE(put(*file_, n / 2, n + 1, 100));
  for (u32 page = 0; page < n; page++) ASSERT_EQ(changes_of(*file_, page).size(), 1u) << page;
  for (u32 page = 0; page < n; page++) remove(*file_, page);
  EXPECT_EQ(frames_used(), 0u);
  EXPECT_FALSE(put(*file_, 1, 1, kMostChangeBytes + 1)) << "larger than a cell";
  EXPECT_TRUE(put(*file_, 1, 1, kMostChangeBytes));
}

TEST_F(ChangeBufferTest, none_is_kept_where_no_frame_is_free) {
  std::vector<Frame *> taken;
  while (Frame *frame = free_list_pop(shared())) taken.push_back(frame);
  EXPECT_FALSE(put(*file_, 1, 1, 10));
  for (Frame *frame : taken) free_list_push(shared(), frame);
  EXPECT_TRUE(put(*file_, 1, 1, 10));
}

TEST_F(ChangeBufferTest, those_of_a_dropped_file_go_with_it) {
  FileSlot *other;
  LS_ASSERT_OK(ToyTree::open(test_, main_.ctx, 8, true, &other));
  free_ = shared().free_count.load();
  for (PageNo page = 10; page < 200; page++) {
    ASSERT_TRUE(put(*file_, page, 2 * page, 30));
    ASSERT_TRUE(put(*other, page, 2 * page + 1, 30));
  }
  const FileNo gone = file_->file_no.load();
  drop_buffered_changes(shared(), gone);
  EXPECT_EQ(shared().change_buffer_count.load(), 190u);
  for (PageNo page = 10; page < 200; page++) {
    EXPECT_TRUE(changes_of(*file_, page).empty());
    EXPECT_EQ(changes_of(*other, page).size(), 1u);
  }
  EXPECT_EQ(oldest_buffered_change(shared()), 21u);
  // Forgetting does that when the last frame goes.
  test_.pool().forget_file(other->key);
  EXPECT_EQ(oldest_buffered_change(shared()), ~Gsn{0}) << "nobody needs the log for it";
  test_.start_providers(1);
  for (int i = 0; i < 1000 && shared().change_buffer_count.load() > 0; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(shared().change_buffer_count.load(), 0u);
}

TEST_F(ChangeBufferTest, cells_of_all_sizes_come_and_go_for_ever) {
  std::mt19937_64 random(5);
  std::map<PageNo, std::vector<Gsn>> model;
  Gsn gsn = 0;
  u32 refused = 0;
  for (int step = 0; step < 60'000; step++) {
    const PageNo page = static_cast<PageNo>(random() % 3000);
    if (random() % 3 != 0) {
      gsn++;
      if (put(*file_, page, gsn, static_cast<u32>(random() % kMostChangeBytes)))
        model[page].push_back(gsn);
      else refused++;
    } else {
      ASSERT_EQ(changes_of(*file_, page), model[page]);
      remove(*file_, page);
      model[page].clear();
    }
  }
  EXPECT_GT(refused, 0u);
  for (const auto &[page, gsns] : model) {
    ASSERT_EQ(changes_of(*file_, page), gsns);
    remove(*file_, page);
  }
  EXPECT_EQ(frames_used(), 0u);
}

}  // namespace
}  // namespace ls::buffer_test
