// Pages by number during redo, in a pool much smaller than what is touched.
#include "unit/buffer/pool_fixture.hpp"

namespace ls::buffer_test {
namespace {

class RecoveryPagesTest : public ::testing::Test {
 protected:
  void SetUp() override { register_toy_tree(); }
  // As recovery opens a file it met in the log.
  Status open(u32 relation, FileNo file_no) {
    test_.create_file("rel" + std::to_string(relation));
    return ToyTree::open(test_, worker_.ctx, relation, true, &file_, file_no);
  }
  u8 *get(PageNo page_no, Frame **frame) {
    EXPECT_TRUE(ok(pages_.get(*file_, page_no, frame))) << last_error().message;
    return test_.pool().page(*frame);
  }
  void change(PageNo page_no, u64 value, Gsn gsn) {
    Frame *frame;
    auto *leaf = reinterpret_cast<ToyLeaf *>(get(page_no, &frame));
    leaf->header.kind = PageKind::kLeaf;
    leaf->header.format = kPageFormat;
    leaf->header.page_no = page_no;
    leaf->set(page_no, value);
    test_.pool().mark_dirty(frame, gsn);
    frame->latch.unlock_exclusive();
  }
  void make_meta(Gsn gsn) {
    Frame *frame;
    auto *meta = reinterpret_cast<MetaPage *>(get(kMetaPageNo, &frame));
    meta->header.kind = PageKind::kMeta;
    meta->header.format = kPageFormat;
    meta->magic = kMetaMagic;
    meta->kind = LS_REL_TABLE;
    meta->page_count = 1000;
    meta->row_id_high = 99;
    test_.pool().mark_dirty(frame, gsn);
    frame->latch.unlock_exclusive();
  }

  TestPool test_{32};
  TestWorker worker_{test_, 0};
  PagesOneByOne pages_{test_.pool(), worker_.ctx};
  FileSlot *file_ = nullptr;
};

TEST_F(RecoveryPagesTest, pages_absent_come_as_zeros_and_every_change_reaches_the_file) {
  LS_ASSERT_OK(open(7, 12));
  EXPECT_EQ(file_->file_no, 12u);
  EXPECT_EQ(test_.pool().next_file_no(), 13u);
  constexpr PageNo kPages = 300;
  // The pages' log is long durable when redo runs.
  for (u32 i = 0; i < 700; i++) {
    LS_ASSERT_OK(worker_.log.reserve(64, nullptr));
    worker_.log.start(RecordKind::kSystem);
    worker_.log.finish();
  }
  ASSERT_TRUE(test_.log().wait_hardened(test_.log().last_gsn(), nullptr));
  Frame *frame;
  u8 *page = get(17, &frame);
  EXPECT_EQ(std::count(page, page + kPageSize, 0), kPageSize);
  frame->latch.unlock_exclusive();
  make_meta(1);
  for (u64 round = 0; round < 2; round++) {
    for (PageNo p = 1; p <= kPages; p++)
      change(p * 7 % kPages + 1, round * 1000 + p * 7 % kPages + 1, round * 300 + p + 1);
  }
  for (PageNo p = 1; p <= kPages; p += 50) {
    auto *leaf = reinterpret_cast<ToyLeaf *>(get(p, &frame));
    EXPECT_EQ(leaf->value, 1000 + p);
    EXPECT_TRUE(leaf->whole());
    frame->latch.unlock_exclusive();
  }
  LS_ASSERT_OK(pages_.all().make_room(worker_.ctx));
  pages_.all().finish();
  EXPECT_EQ(test_.pool().stats().free, 31u) << "all but the meta page";
  EXPECT_EQ(file_->next_row_id.load(), 99u);
  for (PageNo p = 1; p <= kPages; p++) {
    LS_ASSERT_OK(test_.pool().load_page(worker_.ctx, *file_, p, &frame));
    EXPECT_EQ(reinterpret_cast<ToyLeaf *>(test_.pool().page(frame))->value, 1000 + p);
    frame->state.store(FrameState::kHot);
    test_.pool().free_frame(frame);
  }
}

TEST_F(RecoveryPagesTest, the_meta_page_is_the_slots_own) {
  LS_ASSERT_OK(open(7, 1));
  Frame *frame;
  get(kMetaPageNo, &frame);
  EXPECT_EQ(frame, file_->meta.load());
  frame->latch.unlock_exclusive();
  make_meta(0);
  pages_.all().finish();
  EXPECT_EQ(file_->meta.load(), frame);
  EXPECT_TRUE(file_is(*file_, FileState::kActive));
}

TEST_F(RecoveryPagesTest, a_file_whose_creation_was_lost_is_closed_and_made_anew) {
  LS_ASSERT_OK(open(7, 5));
  pages_.all().finish();
  EXPECT_EQ(test_.pool().find_file(ToyTree::key_of(7)), nullptr);
  LS_ASSERT_OK(ToyTree::open(test_, worker_.ctx, 7, true, &file_));
  EXPECT_EQ(file_->file_no, 6u);
  EXPECT_EQ(reinterpret_cast<MetaPage *>(test_.pool().page(file_->meta.load()))->magic, kMetaMagic);
}

TEST_F(RecoveryPagesTest, files_forgotten_on_the_way_are_left_out) {
  LS_ASSERT_OK(open(7, 5));
  make_meta(0);
  change(3, 1, 0);
  test_.pool().forget_file(ToyTree::key_of(7));
  pages_.all().finish();
  EXPECT_EQ(std::filesystem::file_size(test_.path("rel7")), 0u);
}

TEST_F(RecoveryPagesTest, a_damaged_page_is_known_as_one_and_not_kept) {
  test_.create_file("rel7");
  std::ofstream(test_.path("rel7"), std::ios::binary)
      << std::string(kPageSize, '\0') << std::string(kPageSize, 'x');
  LS_ASSERT_OK(ToyTree::open(test_, worker_.ctx, 7, true, &file_, 3));
  Frame *frame;
  LS_ASSERT_OK(pages_.get(*file_, 1, &frame));
  frame->latch.unlock_exclusive();
  u32 index;
  ASSERT_TRUE(pages_.all().name(*file_, 1, &index));
  EXPECT_TRUE(pages_.all().page(index).damaged);
  EXPECT_EQ(last_error().page_no, 1u);
  const u32 free = test_.pool().shared()->free_count.load();
  pages_.all().finish();
  EXPECT_EQ(test_.pool().shared()->free_count.load(), free + 1);
}

}  // namespace
}  // namespace ls::buffer_test
