// packed_pages_test.cpp - leaves that left their frames and are found compressed in memory: what is kept, for how long, and that nobody meets an old image.
#include "buffer/packed_pages.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "unit/btree/node_helpers.hpp"
#include "unit/engine_fixture.hpp"

namespace ls {
namespace {

using namespace test;

constexpr u32 kFrames = 256, kPercent = 25, kMostFrames = kFrames * kPercent / 100;
constexpr FileNo kFile = 77;

// A leaf with rows of one size; noise: how many bytes of each differ from row to row.
void make_leaf(PageBuffer &page, PageNo page_no, u32 noise, u64 seed = 0) {
  std::mt19937_64 random(page_no * 1000 + seed);
  page.node()->init(true, 0, as_bytes(int_key(page_no * 1000)), as_bytes(int_key(page_no * 1000 + 999)), true);
  page.node()->header.page_no = page_no;
  page.node()->header.gsn = seed;
  for (u64 i = 0; i < 100; i++) {
    std::string value = std::string(34 - noise, 'v') + random_bytes(random, noise, 256);
    page.node()->insert(as_bytes(int_key(page_no * 1000 + i)), as_bytes(value));
  }
}

struct PackedPages : ::testing::Test {
  EngineFixture engine{{.pool_bytes = kFrames * kPageSize, .page_providers = 0, .packed_percent = kPercent}};
  PoolShared &shared = *engine.pool().shared();
  PagePacker packer{shared};
  u32 free_at_first = shared.free_count.load();

  bool put(PageNo page_no, u32 noise, u64 seed = 0) {
    PageBuffer page;
    make_leaf(page, page_no, noise, seed);
    if (!packer.pack(page.bytes)) return false;
    packer.put(kFile, page_no);
    return true;
  }
  bool is_here(PageNo page_no, u32 noise, u64 seed = 0) {
    PageBuffer page, expected;
    if (!unpack_page(shared, kFile, page_no, page.bytes)) return false;
    make_leaf(expected, page_no, noise, seed);
    EXPECT_EQ(page.node()->verify(), nullptr);
    EXPECT_EQ(page.node()->header.gsn, seed);
    EXPECT_EQ(page.node()->count, 100);
    for (u16 i = 0; i < 100; i++) EXPECT_EQ(as_string(page.node()->value(i)), as_string(expected.node()->value(i)));
    return true;
  }
  u32 frames_used() const { return free_at_first - shared.free_count.load(); }
};

TEST_F(PackedPages, a_page_is_taken_out_once) {
  EXPECT_FALSE(is_here(5, 4));
  ASSERT_TRUE(put(5, 4, 9));
  ASSERT_TRUE(put(6, 4, 9));
  PageBuffer page;
  EXPECT_FALSE(unpack_page(shared, kFile + 1, 5, page.bytes));
  EXPECT_TRUE(is_here(5, 4, 9));
  EXPECT_FALSE(is_here(5, 4, 9));
  drop_packed(shared, kFile, 6);
  EXPECT_FALSE(is_here(6, 4, 9));
  EXPECT_EQ(shared.packed_count, 0u);
  EXPECT_EQ(frames_used(), 0u) << "what holds nothing goes back to the pool";
  EXPECT_EQ(shared.unpacked, 1u);
}

TEST_F(PackedPages, what_does_not_shrink_to_a_half_is_not_kept) {
  EXPECT_TRUE(put(5, 10));
  EXPECT_FALSE(put(6, 30));
  EXPECT_EQ(shared.packed_count, 1u);
}

TEST_F(PackedPages, the_oldest_make_room_and_no_more_than_the_share_is_used) {
  constexpr PageNo kPages = 2000;
  for (PageNo i = 0; i < kPages; i++) {
    ASSERT_TRUE(put(i, i % 14));
    ASSERT_LE(frames_used(), kMostFrames);
  }
  EXPECT_EQ(frames_used(), kMostFrames);
  EXPECT_EQ(shared.packed_frames, kMostFrames);
  const u64 here = shared.packed_count;
  EXPECT_GT(here, 2 * kMostFrames);
  u32 old = 0, young = 0;
  for (PageNo i = 0; i < kPages; i++) (i < kPages / 2 ? old : young) += is_here(i, i % 14);
  EXPECT_EQ(old, 0u);
  EXPECT_EQ(young, here);
  EXPECT_EQ(frames_used(), 0u);
}

// Nothing is taken from those who wait for frames.
TEST_F(PackedPages, without_a_free_frame_there_is_no_room_but_that_of_older_ones) {
  std::vector<Frame *> taken;
  ASSERT_TRUE(put(1, 4));
  while (Frame *frame = free_list_pop(shared)) taken.push_back(frame);
  for (PageNo i = 2; i < 300; i++) ASSERT_TRUE(put(i, 4));
  EXPECT_GT(shared.packed_count, 0u);
  EXPECT_EQ(shared.packed_frames, 1u);
  for (Frame *frame : taken) free_list_push(shared, frame);
}

TEST_F(PackedPages, where_none_is_wanted_again_few_are_packed) {
  for (PageNo i = 0; i < 9000; i++) put(i, 4);
  u32 packed = 0;
  for (PageNo i = 10000; i < 10320; i++) packed += put(i, 4);
  EXPECT_EQ(packed, 320u / 16);
  // Then they are.
  for (PageNo i = 20000; i < 40000; i++) {
    if (put(i, 4)) {
      EXPECT_TRUE(is_here(i, 4));
    }
  }
  packed = 0;
  for (PageNo i = 50000; i < 50320; i++) packed += put(i, 4);
  EXPECT_EQ(packed, 320u);
}

TEST_F(PackedPages, where_few_can_be_packed_few_are_tried) {
  for (PageNo i = 0; i < 9000; i++) EXPECT_FALSE(put(i, 33));
  u32 packed = 0;
  for (PageNo i = 10000; i < 10320; i++) packed += put(i, 4);
  EXPECT_EQ(packed, 320u / 16);
}

TEST_F(PackedPages, a_damaged_one_is_not_taken) {
  ASSERT_TRUE(put(5, 4));
  for (u32 f = 0; f < kFrames; f++) {
    u8 *page = shared.pages + size_t{f} * kPageSize;
    for (u32 at = 200; at < kPageSize; at += 40) page[at] ^= 0x55;
  }
  PageBuffer page;
  EXPECT_FALSE(unpack_page(shared, kFile, 5, page.bytes));
}

// ---- in a pool

struct PackedTree : ::testing::Test {
  EngineFixture engine{{.pool_bytes = kFrames * kPageSize, .packed_percent = 40}};
  EngineFixture::Worker worker{engine, 0};
  FileSlot *file = engine.open(worker.ctx, 1, true);
  TreeUser user{worker.ctx, *file};

  static std::string value_of(u64 key, u64 version) { return int_key(key * 31 + version) + std::string(60, static_cast<char>('a' + version % 20)); }
};

// Twice the pool: most of what is not in a frame is not read either.
TEST_F(PackedTree, what_is_wanted_again_is_not_read) {
  constexpr u64 kKeys = 16000;
  for (u64 i = 0; i < kKeys; i++) ASSERT_TRUE(user.insert(int_key(i), value_of(i, 0)));
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; i++) {
    const u64 key = random() % kKeys;
    ASSERT_EQ(user.lookup(int_key(key)), value_of(key, 0));
  }
  const PoolStats before = engine.pool().stats();
  worker.ctx.pages = {};
  for (int i = 0; i < 20000; i++) {
    const u64 key = random() % kKeys;
    ASSERT_EQ(user.lookup(int_key(key)), value_of(key, 0));
  }
  const PoolStats after = engine.pool().stats();
  EXPECT_GT(after.unpacked - before.unpacked, 3000u);
  EXPECT_LT(after.reads - before.reads, (after.unpacked - before.unpacked) / 4);
  EXPECT_EQ(worker.ctx.pages.read, after.reads - before.reads) << "what was not read is not counted as read";
  EXPECT_LE(after.packed_frames, kFrames * 40 / 100);
}

// Many versions of each page, changed by several threads; removed, merged, split; scanned; written meanwhile.
TEST_F(PackedTree, nobody_meets_an_old_image) {
  constexpr u64 kThreads = 4, kKeysEach = 5000;
  std::vector<Model> models(kThreads);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (u64 t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      EngineFixture::Worker own(engine, static_cast<u32>(t + 1));
      TreeUser mine(own.ctx, *file);
      std::mt19937_64 random(t);
      Model &model = models[t];
      for (u64 i = 0; i < 24000; i++) {
        const std::string key = int_key((random() % kKeysEach) * kThreads + t);
        auto there = model.find(key);
        if (there == model.end()) {
          const std::string value = value_of(i, i);
          ASSERT_TRUE(mine.upsert(key, value)) << last_error().message;
          model[key] = value;
        } else if (random() % 8 == 0) {
          ASSERT_TRUE(mine.remove(key)) << last_error().message;
          model.erase(there);
        } else if (random() % 2) {
          there->second = value_of(i, i);
          ASSERT_TRUE(mine.upsert(key, there->second)) << last_error().message;
        } else {
          ASSERT_EQ(mine.lookup(key), there->second);
        }
      }
    });
  }
  std::thread others([&] {
    EngineFixture::Worker own(engine, 9);
    TreeUser mine(own.ctx, *file);
    while (!done.load()) {
      mine.scan();
      engine.flush(own.ctx);
    }
  });
  for (std::thread &thread : threads) thread.join();
  done = true;
  others.join();
  EXPECT_GT(engine.pool().stats().unpacked, 1000u);
  Model all;
  for (const Model &model : models) all.insert(model.begin(), model.end());
  EXPECT_TRUE(same(user.scan(), all));
  for (const auto &[key, value] : all) ASSERT_EQ(user.lookup(key), value);
  BTree::CheckResult result;
  EXPECT_TRUE(user.verify(&result));
  // And in the file.
  engine.stop();
  engine.restart();
  EngineFixture::Worker again(engine, 0);
  EXPECT_TRUE(same(TreeUser(again.ctx, *engine.open(again.ctx, 1, true)).scan(), all));
}

// A file's successor of the same path and relation has another number.
TEST_F(PackedTree, a_file_that_is_opened_again_is_read_from_disk) {
  for (u64 i = 0; i < 16000; i++) ASSERT_TRUE(user.insert(int_key(i), value_of(i, 0)));
  for (u64 i = 0; i < 16000; i++) user.lookup(int_key(i));
  EXPECT_GT(engine.pool().stats().packed, 0u);
  const FileNo before = file->file_no.load();
  engine.flush(worker.ctx);
  engine.pool().forget_file(EngineFixture::key_of(1));
  std::filesystem::resize_file(engine.directory() + "/" + EngineFixture::path_of(1), 0);
  FileSlot *again = engine.open(worker.ctx, 1, true);
  EXPECT_NE(again->file_no.load(), before);
  TreeUser other(worker.ctx, *again);
  EXPECT_TRUE(other.scan().empty());
  for (u64 i = 0; i < 3000; i++) ASSERT_TRUE(other.insert(int_key(i), value_of(i, 7)));
  for (u64 i = 0; i < 3000; i++) ASSERT_EQ(other.lookup(int_key(i)), value_of(i, 7));
}

}  // namespace
}  // namespace ls
