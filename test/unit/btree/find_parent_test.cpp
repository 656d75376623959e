// find_parent_test.cpp - the pool's view of a tree: each page in memory leads to the one swip that
// refers to it, and what is in the way is met with kRestart, not by waiting.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "unit/btree/tree_helpers.hpp"
#include "unit/engine_fixture.hpp"

namespace ls {
namespace {

using test::EngineFixture;
using test::TreeUser;

struct alignas(64) PageCopy {
  u8 bytes[kPageSize];
};

bool in_memory(const Frame *frame, const FileSlot *file) {
  FrameState state = frame->state.load();
  return (state == FrameState::kHot || state == FrameState::kCool) &&
         frame->file_no.load() == file->file_no.load();
}

struct FindParent : ::testing::Test {
  EngineFixture engine{{.pool_bytes = u64{8} << 20, .page_providers = 0}};
  EngineFixture::Worker worker{engine, 0};
  FileSlot *file = engine.open(worker.ctx, 1, false);
  TreeUser user{worker.ctx, *file};
  TreeOps ops = BTree::ops();

  void fill(u64 count, size_t value_bytes) {
    for (u64 i = 0; i < count; i++)
      ASSERT_TRUE(user.insert(test::int_key(i), std::string(value_bytes, 'v')));
  }
  // Look the parent up; releases its latch.  Returns it, null when there was kRestart.
  Frame *parent_of(Frame *frame, const u8 *copy, u64 *raw = nullptr) {
    Frame *parent = nullptr;
    Swip *swip = nullptr;
    if (ops.latch_parent(engine.pool(), *file, frame, copy, &parent, &swip) != Step::kOk)
      return nullptr;
    EXPECT_TRUE(parent->latch.is_exclusive());
    EXPECT_EQ(swip->frame(), frame);
    u8 *page = engine.pool().page(parent), *at = reinterpret_cast<u8 *>(swip);
    EXPECT_TRUE(at > page && at < page + kPageSize);
    if (raw) *raw = swip->raw;
    parent->latch.unlock_exclusive_unchanged();
    return parent;
  }
  template <typename Each>
  void each_frame(Each each) {
    for (u32 i = 0; i < engine.pool().frame_count(); i++)
      if (in_memory(engine.pool().frame(i), file)) each(engine.pool().frame(i));
  }
};

bool collect(void *arg, Swip *swip) {
  if (swip->is_swizzled()) static_cast<std::multiset<Frame *> *>(arg)->insert(swip->frame());
  return true;
}

TEST_F(FindParent, every_page_has_exactly_one_swip_and_it_is_found) {
  fill(14000, 100);
  std::multiset<Frame *> referred;
  each_frame([&](Frame *frame) { ops.each_swip(engine.pool().page(frame), &referred, collect); });
  u32 pages = 0, under_meta = 0;
  each_frame([&](Frame *frame) {
    const u8 *page = engine.pool().page(frame);
    Frame *meta = file->meta.load();
    if (frame == meta) {
      EXPECT_EQ(parent_of(frame, page), nullptr);
      return;
    }
    pages++;
    EXPECT_EQ(referred.count(frame), 1u);
    Frame *parent = parent_of(frame, page);
    ASSERT_NE(parent, nullptr) << "page " << frame->page_no.load();
    under_meta += parent == meta;
  });
  EXPECT_GT(pages, 350u);
  EXPECT_EQ(under_meta, 1u) << "the root";
  EXPECT_EQ(latches_held(), 0);
}

TEST_F(FindParent, latched_page_on_the_way_means_restart) {
  fill(12000, 100);
  Frame *meta = file->meta.load();
  Frame *root = Swip{reinterpret_cast<MetaPage *>(engine.pool().page(meta))->root}.frame();
  Node *root_node = reinterpret_cast<Node *>(engine.pool().page(root));
  ASSERT_EQ(root_node->level, 2);
  Frame *inner = root_node->child(0)->frame();
  Frame *leaf = reinterpret_cast<Node *>(engine.pool().page(inner))->child(0)->frame();
  const u8 *page = engine.pool().page(leaf);
  ASSERT_EQ(parent_of(leaf, page), inner);
  for (Frame *obstacle : {meta, root, inner}) {
    ExclusiveGuard guard = ExclusiveGuard::lock(engine.pool(), obstacle);
    EXPECT_EQ(parent_of(leaf, page), nullptr);
    guard.reset_unchanged();
  }
  SharedGuard reader = SharedGuard::lock(engine.pool(), inner);
  EXPECT_EQ(parent_of(leaf, page), nullptr);
  reader.reset();
  // the child itself may be latched: that is the caller's affair
  ExclusiveGuard self = ExclusiveGuard::lock(engine.pool(), leaf);
  EXPECT_EQ(parent_of(leaf, page), inner);
  self.reset_unchanged();
  EXPECT_EQ(latches_held(), 0);
}

TEST_F(FindParent, outdated_copy_leads_to_nothing) {
  fill(3000, 100);
  std::vector<std::pair<Frame *, std::unique_ptr<PageCopy>>> old;
  each_frame([&](Frame *frame) {
    old.emplace_back(frame, std::make_unique<PageCopy>());
    std::memcpy(old.back().second->bytes, engine.pool().page(frame), kPageSize);
  });
  for (u64 i = 0; i < 3000; i++) ASSERT_TRUE(user.remove(test::int_key(i)));
  u32 gone = 0;
  for (auto &[frame, copy] : old) {
    Frame *parent = parent_of(frame, copy->bytes);
    if (parent != nullptr) continue;
    gone++;
  }
  EXPECT_GT(gone, old.size() - 4);
}

TEST_F(FindParent, trunk_pages_hang_on_the_meta_page_or_on_each_other) {
  fill(4200, 1200);
  for (u64 i = 0; i < 4200; i++) ASSERT_TRUE(user.remove(test::int_key(i)));
  std::set<Frame *> parents;
  u32 trunks = 0;
  each_frame([&](Frame *frame) {
    const u8 *page = engine.pool().page(frame);
    if (reinterpret_cast<const PageHeader *>(page)->kind != PageKind::kTrunk) return;
    trunks++;
    Frame *parent = parent_of(frame, page);
    ASSERT_NE(parent, nullptr);
    EXPECT_TRUE(parents.insert(parent).second) << "two trunks on one page";
  });
  EXPECT_GE(trunks, 2u) << "more free pages than the meta page lists were wanted";
  EXPECT_TRUE(parents.count(file->meta.load()));
  BTree::CheckResult result;
  EXPECT_TRUE(user.verify(&result));
  EXPECT_GT(result.free_pages, 1200u);
}

}  // namespace
}  // namespace ls
