// Free pages at the end of a file: the file becomes shorter, no number is lost or handed out twice,
// and nothing is written behind the end any more.
#include <algorithm>
#include <memory>
#include <set>
#include <thread>

#include "buffer/file_cut.hpp"
#include "unit/base/failpoint_actions.hpp"
#include "unit/buffer/pool_fixture.hpp"

namespace ls::buffer_test {
namespace {

class FileCutTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    register_toy_tree();
    LS_ASSERT_OK(ToyTree::open(test_, worker_.ctx, 7, GetParam(), &file_));
    first_ = meta()->page_count;
  }
  BufferPool &pool() { return test_.pool(); }
  MetaPage *meta() { return reinterpret_cast<MetaPage *>(pool().page(file_->meta.load())); }
  u32 file_length() {
    u32 pages = 0;
    EXPECT_TRUE(ok(file_pages(file_->ref(), &pages)));
    return pages;
  }

  void start() {
    if (!file_->logged) return;
    LS_ASSERT_OK(worker_.log.reserve(kAllocatorRecordBytes + 64, nullptr));
    worker_.log.start(RecordKind::kSystem);
  }
  Gsn finish() { return file_->logged ? worker_.log.finish() : 0; }
  PageNo take() {
    PageReservation space;
    EXPECT_TRUE(ok(space.prepare(worker_.ctx, *file_, 1)));
    start();
    ExclusiveGuard guard = ExclusiveGuard::lock(pool(), file_->meta.load());
    const PageNo page_no = allocate_page(worker_.ctx, *file_, guard);
    pool().mark_dirty(guard.frame(), finish());
    used_.insert(page_no);
    return page_no;
  }
  void take(u32 count) {
    for (u32 i = 0; i < count; i++) take();
  }
  // A page that has been changed, so that it leaves a last image.
  void put(PageNo page_no) {
    Frame *frame;
    LS_ASSERT_OK(pool().new_frame(worker_.ctx, *file_, page_no, PageKind::kLeaf, &frame));
    ExclusiveGuard page = ExclusiveGuard::adopt(pool(), frame);
    start();
    ExclusiveGuard guard = ExclusiveGuard::lock(pool(), file_->meta.load());
    pool().mark_dirty(frame, file_->logged ? test_.log().last_gsn() : 0);
    const bool trunk = free_page(worker_.ctx, *file_, guard, page);
    const Gsn gsn = finish();
    pool().mark_dirty(guard.frame(), gsn);
    used_.erase(page_no);
    if (trunk) {
      pool().mark_dirty(frame, gsn);
    } else {
      pool().free_frame(page.detach());
    }
  }
  FileLength cut() {
    FileLength length;
    EXPECT_TRUE(ok(file_cut_off(worker_.ctx, *file_, &length))) << last_error().message;
    EXPECT_EQ(length.after, file_length());
    return length;
  }
  // All numbers below the page count are in use or free, once.
  void expect_complete() {
    const u32 count = meta()->page_count, free = meta()->free_total;
    EXPECT_EQ(used_.size() + free, count - first_);
    const std::set<PageNo> before = used_;
    for (u32 i = 0; i < free; i++) {
      const PageNo page_no = take();
      EXPECT_FALSE(before.contains(page_no)) << page_no;
      EXPECT_LT(page_no, count);
    }
    EXPECT_EQ(used_.size(), before.size() + free) << "one came twice";
    EXPECT_EQ(meta()->page_count, count) << "one was lost";
    EXPECT_EQ(meta()->free_total, 0u);
  }

  // Threads of the log may still be in a call that it looks on: it has to outlive them.
  std::unique_ptr<FileObserver> watch_;
  TestPool test_{3000};
  TestWorker worker_{test_, 0};
  FileSlot *file_ = nullptr;
  PageNo first_ = 0;
  std::set<PageNo> used_;
};

// CUT-3
TEST_P(FileCutTest, what_is_free_at_the_end_goes_and_comes_again) {
  for (const u32 count : {3u, 700u, 2000u}) {
    take(count);
    const u32 before = file_length();
    for (const PageNo page_no : std::set<PageNo>(used_)) put(page_no);
    FileLength look;
    LS_EXPECT_OK(file_look_for_cut(worker_.ctx, *file_, &look));
    EXPECT_EQ(file_length(), before);
    const FileLength length = cut();
    EXPECT_EQ(look.after, length.after);
    EXPECT_EQ(length.before, before);
    EXPECT_EQ(length.after, (first_ + 1) / 2 * 2);
    EXPECT_EQ(meta()->page_count, first_);
    EXPECT_EQ(meta()->free_total, 0u);
    EXPECT_EQ(meta()->trunk, 0u);
    // Last images went with them.
    LS_ASSERT_OK(pool().flush(worker_.ctx, ~Gsn{0}, true));
    EXPECT_EQ(file_length(), length.after);
    EXPECT_EQ(file_->frames.load(), 1 + 1 + kDirs);
    take(20);
    EXPECT_GE(file_length(), first_ + 20);
    for (const PageNo page_no : std::set<PageNo>(used_)) put(page_no);
    cut();
  }
  EXPECT_EQ(cut().before, cut().after) << "there is nothing left to cut";
}

TEST_P(FileCutTest, what_is_free_in_the_middle_stays_and_old_trunks_with_it) {
  take(3500);
  const std::vector<PageNo> all(used_.begin(), used_.end());
  // Every other page of the first 1,800, which fill trunks, and then all behind the 2,000th.
  for (u32 i = 0; i < 1800; i += 2) put(all[i]);
  for (u32 i = 1; i < 400; i += 2) put(all[i]);
  for (u32 i = 2000; i < 3500; i++) put(all[i]);
  ASSERT_NE(meta()->trunk, 0u);
  const FileLength length = cut();
  EXPECT_EQ(meta()->page_count, first_ + 2000);
  EXPECT_EQ(length.after, (first_ + 2001) / 2 * 2);
  EXPECT_EQ(meta()->free_total, 1100u);
  EXPECT_NE(meta()->trunk, 0u);
  expect_complete();
}

TEST_P(FileCutTest, more_free_pages_than_the_list_holds_keep_the_end) {
  take(4000);
  const std::vector<PageNo> all(used_.begin(), used_.end());
  // Trunks have numbers of both: from the end and from the beginning by turns.
  for (u32 i = 0; i < 1400; i++) {
    put(all[i]);
    put(all[3999 - i]);
  }
  const u32 count = meta()->page_count;
  EXPECT_EQ(cut().after, (count + 1) / 2 * 2) << "what was never used goes all the same";
  EXPECT_EQ(meta()->page_count, count);
  expect_complete();
}

// CUT-2
TEST_P(FileCutTest, who_is_about_to_take_pages_keeps_them) {
  take(40);
  for (const PageNo page_no : std::set<PageNo>(used_)) put(page_no);
  {
    PageReservation space;
    LS_ASSERT_OK(space.prepare(worker_.ctx, *file_, 1));
    const FileLength length = cut();
    EXPECT_EQ(length.before, length.after);
  }
  EXPECT_LT(cut().after, first_ + 2);
}

// The second step of a cut fails, or a crash comes before it.
// CUT-5
TEST_P(FileCutTest, a_file_that_stayed_longer_is_cut_later) {
  take(100);
  for (const PageNo page_no : std::set<PageNo>(used_)) put(page_no);
  const u32 before = file_length();
  fault_add({.op = FaultOp::kExtend, .path_part = "rel7", .error = EIO});
  FileLength length;
  EXPECT_EQ(code(file_cut_off(worker_.ctx, *file_, &length)), LS_IO_ERROR);
  fault_clear();
  EXPECT_EQ(file_length(), before);
  EXPECT_EQ(meta()->page_count, first_);
  take(3);
  expect_complete();
  EXPECT_LT(cut().after, first_ + 5);
  expect_complete();
}
// CUT-1
TEST_P(FileCutTest, the_file_is_cut_when_the_log_has_it) {
  struct Watch : FileObserver {
    Watch(Log l, const MetaPage *m) : log(l), meta(m) {}
    u64 before(const FileCall &call) override {
      // the log's threads extend files, too
      if (call.op == FaultOp::kExtend && std::this_thread::get_id() == owner)
        hardened = log.hardened() >= meta->header.gsn;
      return 0;
    }
    void after(const FileCall &, u64, bool) override {}
    Log log;
    const MetaPage *meta;
    const std::thread::id owner = std::this_thread::get_id();
    std::atomic<int> hardened{-1};
  };
  take(100);
  for (const PageNo page_no : std::set<PageNo>(used_)) put(page_no);
  watch_ = std::make_unique<Watch>(test_.log(), meta());
  file_observer.store(watch_.get());
  cut();
  file_observer.store(nullptr);
  EXPECT_EQ(static_cast<Watch &>(*watch_).hardened.load(), 1);
}
#if LS_FAILPOINTS
// A worker finds where the file could end.  Another one takes a page behind that.  The first one
// latches the meta page.
TEST_P(FileCutTest, race_cut_vs_allocation_keeps_the_page_that_was_taken) {
  take(40);
  for (const PageNo page_no : std::set<PageNo>(used_)) put(page_no);
  test::OnceAt point(Failpoint::buffer_before_cut, [&] { take(); });
  cut();
  EXPECT_TRUE(point.reached());
  ASSERT_EQ(used_.size(), 1u);
  EXPECT_GT(meta()->page_count, *used_.begin());
  expect_complete();
}
#endif

INSTANTIATE_TEST_SUITE_P(Logging, FileCutTest, ::testing::Bool(),
                         [](const auto &info) { return info.param ? "logged" : "unlogged"; });

}  // namespace
}  // namespace ls::buffer_test
