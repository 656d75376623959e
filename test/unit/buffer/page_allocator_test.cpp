// Free page numbers: no number is handed out twice or lost, through trunks and back, and redo
// repeats it all.
#include <set>

#include "unit/buffer/pool_fixture.hpp"

namespace ls::buffer_test {
namespace {

class PageAllocatorTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    register_toy_tree();
    LS_ASSERT_OK(ToyTree::open(test_, worker_.ctx, 7, GetParam(), &file_));
  }
  BufferPool &pool() { return test_.pool(); }
  MetaPage *meta() { return reinterpret_cast<MetaPage *>(pool().page(file_->meta.load())); }

  Status reserve(u32 count) { return PageReservation().prepare(worker_.ctx, *file_, count); }
  // Before any page is latched.
  void prepare() {
    LS_ASSERT_OK(reserve(1));
    if (file_->logged) {
      LS_ASSERT_OK(worker_.log.reserve(kAllocatorRecordBytes + 64, nullptr));
    }
  }
  void start() {
    if (file_->logged) worker_.log.start(RecordKind::kSystem);
  }
  Gsn finish() { return file_->logged ? worker_.log.finish() : 0; }
  PageNo take() {
    prepare();
    start();
    ExclusiveGuard guard = ExclusiveGuard::lock(pool(), file_->meta.load());
    PageNo page_no = allocate_page(worker_.ctx, *file_, guard);
    pool().mark_dirty(guard.frame(), finish());
    return page_no;
  }
  // As a tree frees a page that it holds latched.
  void put(PageNo page_no) {
    prepare();
    Frame *frame;
    LS_ASSERT_OK(pool().new_frame(worker_.ctx, *file_, page_no, PageKind::kLeaf, &frame));
    ExclusiveGuard page = ExclusiveGuard::adopt(pool(), frame);
    start();
    ExclusiveGuard guard = ExclusiveGuard::lock(pool(), file_->meta.load());
    bool trunk = free_page(worker_.ctx, *file_, guard, page);
    Gsn gsn = finish();
    pool().mark_dirty(guard.frame(), gsn);
    trunks_ += trunk;
    if (trunk) {
      pool().mark_dirty(frame, gsn);
    } else {
      pool().free_frame(page.detach());
    }
  }

  TestPool test_{600};
  TestWorker worker_{test_, 0};
  FileSlot *file_ = nullptr;
  u32 trunks_ = 0;
};

// ALLOC-1, ALLOC-2
TEST_P(PageAllocatorTest, every_number_is_either_in_use_or_free_once) {
  std::set<PageNo> used;
  constexpr u32 kCount = 2500;
  u32 first = meta()->page_count;
  for (u32 i = 0; i < kCount; i++) EXPECT_TRUE(used.insert(take()).second);
  EXPECT_EQ(*used.begin(), first);
  EXPECT_EQ(meta()->page_count, first + kCount);
  for (u32 round = 0; round < 2; round++) {
    std::vector<PageNo> all(used.begin(), used.end());
    for (PageNo page_no : all) put(page_no);
    used.clear();
    EXPECT_EQ(meta()->free_total, kCount);
    for (u32 i = 0; i < kCount; i++) EXPECT_TRUE(used.insert(take()).second);
    EXPECT_EQ(meta()->free_total, 0u);
    EXPECT_EQ(meta()->page_count, first + kCount) << "the file grew although pages were free";
    EXPECT_EQ(meta()->trunk, 0u);
  }
  EXPECT_GT(trunks_, 4u);
  EXPECT_EQ(pool().stats().free + file_->frames.load(), 600u) << "frames leaked";
}

TEST_P(PageAllocatorTest, the_file_has_room_for_what_is_handed_out) {
  for (u32 i = 0; i < 300; i++) {
    PageNo page_no = take();
    u32 pages;
    LS_ASSERT_OK(file_pages(file_->ref(), &pages));
    EXPECT_GT(pages, page_no);
    EXPECT_EQ(pages % 2, 0u);
    EXPECT_EQ(pages, file_->pages_allocated.load());
  }
}

TEST_P(PageAllocatorTest, a_small_file_has_no_room_to_spare_and_a_large_one_a_few_percent) {
  u32 extensions = 0, before = file_->pages_allocated.load();
  for (u32 i = 0; i < 3000; i++) {
    const u32 used = take() + 1;
    const u32 pages = file_->pages_allocated.load();
    const u32 a_quarter = std::min(used - std::min(used, 16u), 4 * 64u) / 4;
    const u32 spare = std::max(used / 32, a_quarter);
    EXPECT_LE(pages, spare == 0 ? (used + 1) / 2 * 2 : used + spare + 2) << used;
    extensions += pages != before;
    before = pages;
  }
  EXPECT_LT(extensions, 80u);
}

TEST_P(PageAllocatorTest, a_full_disk_is_told_before_anything_is_taken) {
  fault_add({.op = FaultOp::kExtend, .path_part = "rel7", .every = true, .error = ENOSPC});
  u32 before = meta()->page_count;
  EXPECT_EQ(code(reserve(100)), LS_NO_SPACE);
  EXPECT_EQ(meta()->page_count, before);
  fault_clear();
  LS_EXPECT_OK(reserve(100));
}

TEST_P(PageAllocatorTest, what_others_have_reserved_counts) {
  const u32 pages = meta()->page_count;
  PageReservation others[3], late;
  for (PageReservation &other : others) LS_ASSERT_OK(other.prepare(worker_.ctx, *file_, 10));
  EXPECT_GE(file_->pages_allocated.load(), pages + 30);
  fault_add({.op = FaultOp::kExtend, .path_part = "rel7", .every = true, .error = ENOSPC});
  const u32 left = file_->pages_allocated.load() - pages - 30;
  EXPECT_EQ(code(late.prepare(worker_.ctx, *file_, left + 1)), LS_NO_SPACE);
  fault_clear();
}

TEST_P(PageAllocatorTest, reservations_end) {
  for (u32 i = 0; i < 100; i++) LS_ASSERT_OK(reserve(20));
  EXPECT_EQ(file_->pages_reserved.load(), 0u);
  EXPECT_LT(file_->pages_allocated.load(), meta()->page_count + 40);
}

TEST_P(PageAllocatorTest, free_pages_are_taken_before_the_file_grows) {
  std::vector<PageNo> used;
  for (u32 i = 0; i < 200; i++) used.push_back(take());
  for (PageNo page_no : used) put(page_no);
  const u32 before = file_->pages_allocated.load();
  LS_ASSERT_OK(reserve(200));
  EXPECT_EQ(file_->pages_allocated.load(), before);
  LS_ASSERT_OK(reserve(300));
  EXPECT_GE(file_->pages_allocated.load(), meta()->page_count + 100);
}

TEST_P(PageAllocatorTest, the_numbers_of_pages_end_with_an_error) {
  const PageNo before = meta()->page_count;
  for (const PageNo last : {before, kMostPages - 1, kMostPages, kMostPages + kPagesForUndo,
                            kInvalidPageNo - 1}) {
    meta()->page_count = last;
    EXPECT_EQ(code(reserve(2)), last > before ? LS_NO_PAGES : LS_OK) << last;
    if (last > before) {
      EXPECT_EQ(std::string(last_error().path), "rel7");
    }
    EXPECT_EQ(file_->pages_reserved.load(), 0u);
    worker_.ctx.undoing = true;
    // It would take such a file to make it longer.
    fault_add({.op = FaultOp::kExtend, .path_part = "rel7", .every = true, .error = ENOSPC});
    const bool ends = last >= kMostPages + kPagesForUndo;
    EXPECT_EQ(code(reserve(2)), ends ? LS_NO_PAGES : last > before ? LS_NO_SPACE : LS_OK) << last;
    fault_clear();
    worker_.ctx.undoing = false;
  }
  meta()->page_count = before;
  LS_EXPECT_OK(reserve(2));
}

TEST_P(PageAllocatorTest, the_numbers_of_pages_end_for_all_together) {
  most_pages.store(meta()->page_count + 5);
  PageReservation first, second;
  LS_EXPECT_OK(first.prepare(worker_.ctx, *file_, 3));
  EXPECT_EQ(code(second.prepare(worker_.ctx, *file_, 3)), LS_NO_PAGES);
  most_pages.store(kMostPages);
}
INSTANTIATE_TEST_SUITE_P(Logging, PageAllocatorTest, ::testing::Bool(),
                         [](const auto &info) { return info.param ? "logged" : "unlogged"; });

class PageAllocatorRedoTest : public PageAllocatorTest {};

TEST_P(PageAllocatorRedoTest, redo_repeats_every_step) {
  std::map<PageNo, std::vector<u8>> pages;
  auto snapshot = [&] {
    std::vector<u8> bytes(pool().page(file_->meta.load()),
                          pool().page(file_->meta.load()) + kPageSize);
    return bytes;
  };
  pages[kMetaPageNo] = snapshot();
  Gsn begin_gsn = test_.log().last_gsn();
  std::vector<PageNo> used;
  for (u32 i = 0; i < 1500; i++) used.push_back(take());
  for (u32 i = 0; i < 1400; i++) put(used[i]);
  for (u32 i = 0; i < 800; i++) take();  // refilled from trunks by now
  for (u32 i = 0; i < 300; i++) put(used[i + 100]);
  ASSERT_GT(trunks_, 1u);
  std::vector<u8> live = snapshot();
  ASSERT_NE(reinterpret_cast<MetaPage *>(live.data())->trunk, 0u);
  reinterpret_cast<MetaPage *>(live.data())->trunk =
      Swip::evicted(Swip{meta()->trunk}.frame()->page_no.load()).raw;
  auto *first_trunk = reinterpret_cast<TrunkPage *>(pool().page(Swip{meta()->trunk}.frame()));
  PageNo first_trunk_no = first_trunk->header.page_no;
  std::vector<PageNo> trunk_pages(first_trunk->pages, first_trunk->pages + first_trunk->count);
  ASSERT_TRUE(test_.log().wait_hardened(test_.log().last_gsn(), nullptr));

  LogImage image = test_.crash();
  for (const LogEntry &entry : image.entries) {
    if (entry.gsn <= begin_gsn) continue;
    for (LogBytes left = entry.record().body; !left.empty();) {
      LogOp op;
      ASSERT_EQ(load_op(&left, &op), nullptr);
      std::vector<u8> &page = pages[op.page];
      page.resize(kPageSize);
      LS_ASSERT_OK(page_allocator_redo(op.code, op.operands, page.data(), op.page));
      reinterpret_cast<PageHeader *>(page.data())->gsn = entry.gsn;
    }
  }
  auto *redone = reinterpret_cast<MetaPage *>(pages[kMetaPageNo].data());
  auto *expected = reinterpret_cast<MetaPage *>(live.data());
  EXPECT_EQ(redone->header.gsn, expected->header.gsn);
  EXPECT_EQ(redone->page_count, expected->page_count);
  EXPECT_EQ(redone->free_total, expected->free_total);
  EXPECT_EQ(redone->trunk, expected->trunk);
  ASSERT_EQ(redone->free_count, expected->free_count);
  EXPECT_EQ(
      std::memcmp(redone->free_pages, expected->free_pages, redone->free_count * sizeof(PageNo)),
      0);
  auto *trunk = reinterpret_cast<TrunkPage *>(pages[first_trunk_no].data());
  EXPECT_EQ(trunk->header.kind, PageKind::kTrunk);
  EXPECT_EQ(std::vector<PageNo>(trunk->pages, trunk->pages + trunk->count), trunk_pages);
}
INSTANTIATE_TEST_SUITE_P(Logging, PageAllocatorRedoTest, ::testing::Values(true),
                         [](const auto &) { return "logged"; });

TEST(PageAllocatorRedoDamageTest, what_does_not_fit_the_page_is_corruption) {
  alignas(8) u8 page[kPageSize] = {};
  auto *meta = reinterpret_cast<MetaPage *>(page);
  u8 operands[1200] = {};
  auto redo = [&](u8 code, size_t bytes, PageNo page_no = 0) {
    return page_allocator_redo(code, {operands, bytes}, page, page_no) == make_status(LS_CORRUPT);
  };
  EXPECT_TRUE(redo(kOpSpace + 2, 4)) << "no meta page";
  meta->magic = kMetaMagic;
  meta->page_count = 7;
  for (u8 code = 0; code < 16; code++) {
    for (size_t bytes : {0, 3, 4, 5, 11, 12, 13, 1036, 1200}) {
      for (u32 fill : {0u, 0xffffffffu, 6u}) {
        std::vector<u8> before(page, page + kPageSize);
        for (u32 i = 0; i < sizeof operands / 4; i++) std::memcpy(operands + 4 * i, &fill, 4);
        u8 op = static_cast<u8>(kOpSpace + code);
        if (redo(op, bytes)) {
          EXPECT_EQ(std::memcmp(page, before.data(), kPageSize), 0) << "rejected, but changed";
        }
        std::memcpy(page, before.data(), kPageSize);
      }
    }
  }
  EXPECT_TRUE(redo(kOpSpace + 9, 4));
}

// Found by test/fuzz/redo_fuzz.cpp: what was done had left meta pages that no reader takes.
TEST(PageAllocatorRedoDamageTest, a_meta_page_stays_sound) {
  alignas(8) u8 page[kPageSize] = {};
  auto *meta = reinterpret_cast<MetaPage *>(page);
  meta->magic = kMetaMagic;
  meta->page_count = 7;
  meta->height = 1;
  meta->root = Swip::evicted(5).raw;
  const auto redo = [&](u8 op, const std::vector<u32> &operands) {
    return code(page_allocator_redo(
        op, {reinterpret_cast<const u8 *>(operands.data()), operands.size() * sizeof(u32)}, page,
        kMetaPageNo));
  };
  const u8 put = kOpSpace + 3, refill = kOpSpace + 6, cut = kOpSpace + 7;
  EXPECT_EQ(redo(cut, {6, 0, 1, kMetaPageNo}), LS_CORRUPT) << "the meta page is not free";
  EXPECT_EQ(redo(cut, {5, 0, 0}), LS_CORRUPT) << "the root has been cut off";
  EXPECT_EQ(redo(refill, {3, 0, 1, 4}), LS_CORRUPT) << "no page is free";
  EXPECT_EQ(redo(cut, {6, 0, 1, 2}), LS_OK);
  for (u32 i = 0; i < 4; i++) EXPECT_EQ(redo(put, {3}), LS_OK);
  EXPECT_EQ(redo(put, {3}), LS_CORRUPT) << "all pages are free";
  EXPECT_EQ(meta_fault(*meta), nullptr);
}

}  // namespace
}  // namespace ls::buffer_test
