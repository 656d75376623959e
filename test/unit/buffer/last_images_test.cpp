// Pages that recovery's undo gives back leave no last image, and no redo position lies between the
// changes that were dropped so.
#include "buffer/io_stage.hpp"
#include "buffer/last_images.hpp"
#include "unit/buffer/pool_fixture.hpp"

namespace ls::buffer_test {
namespace {

class LastImagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    register_toy_tree();
    LS_ASSERT_OK(ToyTree::open(test_, worker_.ctx, 7, true, &file_));
    LS_ASSERT_OK(pool().flush(worker_.ctx, ~Gsn{0}, true));
    ASSERT_EQ(pool().oldest_dirty(), ~Gsn{0});
  }
  BufferPool &pool() { return test_.pool(); }
  Gsn redo_gsn() { return before_dropped_images(*pool().shared(), pool().oldest_dirty()); }

  void start() {
    LS_ASSERT_OK(worker_.log.reserve(kAllocatorRecordBytes + 64, nullptr));
    worker_.log.start(RecordKind::kSystem);
  }
  // A page that was changed and is given back.  *changed: by which record it was changed.
  PageNo free_a_page(Gsn *changed) {
    PageReservation space;
    EXPECT_TRUE(ok(space.prepare(worker_.ctx, *file_, 1)));
    start();
    ExclusiveGuard meta = ExclusiveGuard::lock(pool(), file_->meta.load());
    const PageNo page_no = allocate_page(worker_.ctx, *file_, meta);
    Frame *frame = nullptr;
    EXPECT_TRUE(ok(pool().new_frame(worker_.ctx, *file_, page_no, PageKind::kLeaf, &frame)));
    ExclusiveGuard page = ExclusiveGuard::adopt(pool(), frame);
    *changed = worker_.log.finish();
    pool().mark_dirty(meta.frame(), *changed);
    pool().mark_dirty(frame, *changed);
    start();
    EXPECT_FALSE(free_page(worker_.ctx, *file_, meta, page));
    pool().mark_dirty(meta.frame(), worker_.log.finish());
    pool().free_frame(page.detach());
    return page_no;
  }
  bool has_last_image(PageNo page_no) {
    IoStageLock stage(*pool().shared(), file_->file_no.load(), page_no);
    return stage.find() != nullptr;
  }

  TestPool test_{100};
  TestWorker worker_{test_, 0};
  FileSlot *file_ = nullptr;
};

TEST_F(LastImagesTest, are_kept_but_while_recovery_undoes) {
  Gsn changed;
  EXPECT_TRUE(has_last_image(free_a_page(&changed)));
  {
    const DropLastImages drop(pool());
    EXPECT_FALSE(has_last_image(free_a_page(&changed)));
  }
  EXPECT_TRUE(has_last_image(free_a_page(&changed)));
}

// LAST-2
TEST_F(LastImagesTest, those_dropped_bound_the_redo_position_until_older_changes_are_written) {
  Gsn before, first, second;
  free_a_page(&before);
  LS_ASSERT_OK(pool().flush(worker_.ctx, ~Gsn{0}, true));
  {
    const DropLastImages drop(pool());
    free_a_page(&first);
    // The meta page is clean now, and then dirty since the second.
    LS_ASSERT_OK(pool().flush(worker_.ctx, ~Gsn{0}, true));
    free_a_page(&second);
  }
  EXPECT_LT(first, second);
  EXPECT_EQ(redo_gsn(), first) << "redo would lack changes of a page that was dropped";
  LS_ASSERT_OK(pool().flush(worker_.ctx, ~Gsn{0}, true));
  EXPECT_EQ(redo_gsn(), ~Gsn{0});
  Gsn later;
  free_a_page(&later);
  EXPECT_EQ(redo_gsn(), later) << "what is younger than undo is not bounded by it";
}

}  // namespace
}  // namespace ls::buffer_test
