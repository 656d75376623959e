// page_race_test.cpp - a leaf on its way out of memory, or in, and another actor in between.
//
// One leaf is in memory, below its parent, and a page provider is called by hand: whatever it takes
// is that leaf.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "buffer/page_writer.hpp"
#include "unit/base/failpoint_actions.hpp"
#include "unit/btree/tree_helpers.hpp"
#include "unit/engine_fixture.hpp"

namespace ls {
namespace {

#if LS_FAILPOINTS

using test::as_bytes;
using test::EngineFixture;
using test::int_key;
using test::OnceAt;
using test::TreeUser;

constexpr u64 kKeys = 400, kKey = 200, kFarKey = 1;
constexpr int kMostRounds = 100'000;
const std::string kBefore(40, 'b'), kAfter(40, 'a');

class PageRace : public ::testing::Test {
 protected:
  explicit PageRace(u32 compressed_cache_percent = 0, bool logged = false)
      : engine_({.pool_bytes = 128 * kPageSize,
                 .page_providers = 0,
                 .compressed_cache_percent = compressed_cache_percent}),
        file_(engine_.open(worker_.ctx, 1, logged)) {}

  void SetUp() override {
    for (u64 i = 0; i < kKeys; i++)
      ASSERT_TRUE(user_.insert(int_key(i), kBefore)) << last_error().message;
    engine_.flush(worker_.ctx);
    let_in(kKey);
  }
  // All others of the file leave memory, but for what is above it.
  void let_in(u64 key) {
    ASSERT_NO_FATAL_FAILURE(run_until([&] { return file_->frames.load() == 1; }));
    ASSERT_EQ(user_.lookup(int_key(key)), kBefore);
  }
  template <typename Done>
  void run_until(const Done &done) {
    u32 freed;
    for (int i = 0; i < kMostRounds && !done(); i++)
      ASSERT_TRUE(ok(provider_.round(&freed))) << last_error().message;
    ASSERT_TRUE(done());
  }
  void evict(const Frame *leaf) {
    ASSERT_NO_FATAL_FAILURE(run_until([&] { return leaf->state.load() == FrameState::kFree; }));
  }
  Frame *frame_of(u64 key) {
    ExclusiveGuard leaf;
    EXPECT_TRUE(ok(user_.tree.leaf_exclusive(as_bytes(int_key(key)), 0, leaf)));
    Frame *frame = leaf.frame();
    leaf.reset_unchanged();
    return frame;
  }
  // As a worker does that remembers the leaf: it is not met on the way, and stays cool.
  void change_remembered(Frame *leaf, u64 key, const std::string &value) {
    ExclusiveGuard guard;
    ASSERT_TRUE(ok(other_.tree.leaf_exclusive(as_bytes(int_key(key)), 0, guard, leaf)));
    ASSERT_EQ(guard.frame(), leaf);
    ASSERT_TRUE(test::put(reinterpret_cast<Node *>(guard.page()), as_bytes(int_key(key)),
                          as_bytes(value)));
    engine_.pool().mark_dirty(leaf, 0);
  }

  EngineFixture engine_;
  EngineFixture::Worker worker_{engine_, 0}, other_worker_{engine_, 1};
  FileSlot *file_;
  TreeUser user_{worker_.ctx, *file_}, other_{other_worker_.ctx, *file_};
  PageProvider provider_{engine_.pool(), 0};
};

// Provider: copies the leaf, which is hot.  Another provider evicts it, a worker reads it into
// another frame.  Provider: latches the parent.
TEST_F(PageRace, race_cool_vs_evict_and_load_leaves_the_old_frame_alone) {
  PoolShared &shared = *engine_.pool().shared();
  Frame *const before = frame_of(kKey);
  Frame *after = nullptr;
  PageProvider second(engine_.pool(), 1);
  OnceAt point(Failpoint::buffer_before_cool, [&] {
    u32 freed;
    for (int i = 0; i < kMostRounds && before->state.load() != FrameState::kFree; i++)
      ASSERT_TRUE(ok(second.round(&freed)));
    std::vector<Frame *> taken;
    while (taken.empty() || taken.back() != before) {
      taken.push_back(free_list_pop(shared));
      ASSERT_NE(taken.back(), nullptr);
    }
    for (taken.pop_back(); !taken.empty(); taken.pop_back()) free_list_push(shared, taken.back());
    ASSERT_EQ(other_.lookup(int_key(kKey)), kBefore);
    after = frame_of(kKey);
  });
  run_until([&] { return point.reached(); });
  ASSERT_NE(after, nullptr);
  EXPECT_NE(after, before);
  EXPECT_EQ(before->state.load(), FrameState::kFree);
  EXPECT_EQ(frame_of(kKey), after);
  free_list_push(shared, before);
}

// Provider: copies the leaf, which is cool.  A worker meets it.  Provider: latches parent and leaf.
TEST_F(PageRace, race_evict_vs_second_chance_keeps_the_leaf) {
  Frame *const leaf = frame_of(kKey);
  OnceAt point(Failpoint::buffer_before_evict,
               [&] { EXPECT_EQ(other_.lookup(int_key(kKey)), kBefore); });
  run_until([&] { return point.reached(); });
  EXPECT_EQ(leaf->state.load(), FrameState::kHot);
  EXPECT_EQ(frame_of(kKey), leaf);
}

// Provider: copies the leaf, which the file has as it is.  A worker changes it.  Provider: latches
// parent and leaf.
TEST_F(PageRace, race_evict_vs_change_of_a_clean_leaf_loses_no_change) {
  Frame *const leaf = frame_of(kKey);
  OnceAt point(Failpoint::buffer_before_evict, [&] { change_remembered(leaf, kKey, kAfter); });
  run_until([&] { return point.reached(); });
  evict(leaf);
  EXPECT_EQ(user_.lookup(int_key(kKey)), kAfter);
}

// STAGE-1.  A worker finds the leaf evicted.  Another one reads it and lets its parent refer to it.
// The first one looks into the I/O stage.
TEST_F(PageRace, race_load_vs_load_reads_the_leaf_once) {
  let_in(kFarKey);   // the parent is in memory
  const u32 frames = file_->frames.load();
  const u64 reads = engine_.pool().stats().reads;
  OnceAt point(Failpoint::buffer_before_load,
               [&] { EXPECT_EQ(other_.lookup(int_key(kKey)), kBefore); });
  EXPECT_EQ(user_.lookup(int_key(kKey)), kBefore);
  EXPECT_TRUE(point.reached());
  EXPECT_EQ(engine_.pool().stats().reads, reads + 1);
  EXPECT_EQ(file_->frames.load(), frames + 1);
}

class CompressedPageRace : public PageRace {
 protected:
  explicit CompressedPageRace(bool logged = false) : PageRace(25, logged) {}
};

// Provider: compresses a copy of the leaf.  A worker changes the leaf.  Provider: latches parent
// and leaf.
TEST_F(CompressedPageRace, race_evict_vs_change_keeps_no_older_image) {
  Frame *const leaf = frame_of(kKey);
  OnceAt point(Failpoint::buffer_before_evict, [&] { change_remembered(leaf, kKey, kAfter); });
  run_until([&] { return point.reached(); });
  evict(leaf);
  EXPECT_EQ(user_.lookup(int_key(kKey)), kAfter);
}

// Provider: compresses a copy of the changed leaf.  A page writer takes a copy, too.  Provider:
// latches parent and leaf.
TEST_F(CompressedPageRace, race_evict_vs_page_writer_keeps_the_leaf_until_it_is_written) {
  Frame *const leaf = frame_of(kKey);
  change_remembered(leaf, kKey, kAfter);
  PageWriter writer(engine_.pool());
  OnceAt point(Failpoint::buffer_before_evict, [&] {
    EXPECT_EQ(writer.add(leaf, ~Gsn{0}, PageWriter::Patience::kTry), PageWriter::Added::kYes);
  });
  run_until([&] { return point.reached(); });
  ASSERT_TRUE(leaf->in_tree());
  ASSERT_TRUE(ok(writer.write(nullptr))) << last_error().message;
  evict(leaf);
  EXPECT_EQ(user_.lookup(int_key(kKey)), kAfter);
}

class LoggedPageRace : public CompressedPageRace {
 protected:
  LoggedPageRace() : CompressedPageRace(true) {}

  // Its only dirty page.
  Frame *changed_leaf() {
    EXPECT_TRUE(user_.upsert(int_key(kKey), kAfter)) << last_error().message;
    EXPECT_TRUE(engine_.log().wait_hardened(engine_.log().last_gsn(), nullptr));
    return frame_of(kKey);
  }
};

// COMP-2.  Checkpointer: searches the compressed pages.  Provider: is to compress a dirty leaf.
// Checkpointer: searches the frames.
TEST_F(LoggedPageRace, race_flush_vs_compression_leaves_no_mark_behind) {
  Frame *const leaf = changed_leaf();
  OnceAt point(Failpoint::buffer_before_frames, [&] { evict(leaf); });
  engine_.flush(worker_.ctx);
  EXPECT_TRUE(point.reached());
  EXPECT_EQ(engine_.pool().stats().compressed_dirty, 0u);
  EXPECT_EQ(engine_.pool().oldest_dirty(), ~Gsn{0});
}

// Checkpointer: looks for the oldest change in the compressed pages.  Provider: compresses a dirty
// leaf.  Checkpointer: looks in the frames.
TEST_F(LoggedPageRace, race_scan_vs_compression_finds_the_mark_that_moves) {
  Frame *const leaf = changed_leaf();
  const Gsn since = leaf->dirty_since.load();
  ASSERT_NE(since, 0u);
  OnceAt point(Failpoint::buffer_inside_scan, [&] {
    std::thread([&] { evict(leaf); }).join();
    EXPECT_EQ(engine_.pool().stats().compressed_dirty, 1u);
  });
  EXPECT_EQ(engine_.pool().oldest_dirty(), since);
  EXPECT_TRUE(point.reached());
}

#endif

}  // namespace
}  // namespace ls
