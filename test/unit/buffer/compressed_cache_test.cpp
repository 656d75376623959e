// compressed_cache_test.cpp - leaves that left their frames and are found compressed in memory:
// what is kept, for how long, and that no reader meets an old image.
#include "buffer/compressed_cache.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "buffer/compressed_table.hpp"
#include "buffer/page_writer.hpp"
#include "unit/base/failpoint_actions.hpp"
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
  page.node()->init(true, 0, as_bytes(int_key(page_no * 1000)),
                    as_bytes(int_key(page_no * 1000 + 999)), true);
  page.node()->header.page_no = page_no;
  page.node()->header.gsn = seed;
  for (u64 i = 0; i < 100; i++) {
    std::string value = std::string(34 - noise, 'v') + random_bytes(random, noise, 256);
    page.node()->insert(as_bytes(int_key(page_no * 1000 + i)), as_bytes(value));
  }
}

struct CompressedCacheTest : ::testing::Test {
  EngineFixture engine{{.pool_bytes = kFrames * kPageSize,
                        .page_providers = 0,
                        .compressed_cache_percent = kPercent}};
  PoolShared &shared = *engine.pool().shared();
  PageCompressor compressor{shared};
  u32 free_at_first = shared.free_count.load();

  Gsn frame_since = 0;   // of the last one taken out

  // slot: of an open file, else of a number that no file has.
  bool put(PageNo page_no, u32 noise, u64 seed = 0, Gsn since = 0, std::optional<u32> slot = {}) {
    PageBuffer page;
    make_leaf(page, page_no, noise, seed);
    return compressor.compress(page.bytes) &&
           compressor.put({slot.value_or(0), slot ? number_of(*slot) : kFile, page_no, since});
  }
  // Its own pages are written.
  u32 open_file() {
    EngineFixture::Worker worker(engine, 0);
    const u32 slot = engine.open(worker.ctx, 1, true)->index;
    engine.flush(worker.ctx);
    return slot;
  }
  FileNo number_of(u32 slot) { return engine.pool().file(slot).file_no.load(); }
  Decompressed decompress(FileNo file_no, PageNo page_no, PageBuffer &page) {
    Frame *frame = free_list_pop(shared);
    const Decompressed outcome = decompress_page(shared, file_no, page_no, frame);
    std::memcpy(page.bytes, engine.pool().page(frame), kPageSize);
    frame_since = frame->dirty_since.exchange(0);
    free_list_push(shared, frame);
    return outcome;
  }
  bool is_here(PageNo page_no, u32 noise, u64 seed = 0) {
    PageBuffer page, expected;
    if (decompress(kFile, page_no, page) != Decompressed::kYes) return false;
    make_leaf(expected, page_no, noise, seed);
    EXPECT_EQ(page.node()->verify(), nullptr);
    EXPECT_EQ(page.node()->header.gsn, seed);
    EXPECT_EQ(page.node()->count, 100);
    for (u16 i = 0; i < 100; i++)
      EXPECT_EQ(as_string(page.node()->value(i)), as_string(expected.node()->value(i)));
    return true;
  }
  // A byte of what lies in each cell, behind an entry.
  void damage_all() {
    for (u32 f = 0; f < kFrames; f++) {
      u8 *page = shared.pages + size_t{f} * kPageSize;
      for (u32 cell = kPageSize - kCompressedCells * kCompressedCellBytes; cell < kPageSize;
           cell += kCompressedCellBytes)
        page[cell + 100] ^= 0x55;
    }
  }
  u32 frames_used() const { return free_at_first - shared.free_count.load(); }
};

TEST_F(CompressedCacheTest, a_page_is_taken_out_once) {
  EXPECT_FALSE(is_here(5, 4));
  ASSERT_TRUE(put(5, 4, 9));
  ASSERT_TRUE(put(6, 4, 9));
  PageBuffer page;
  EXPECT_EQ(decompress(kFile + 1, 5, page), Decompressed::kNotHere);
  EXPECT_TRUE(is_here(5, 4, 9));
  EXPECT_FALSE(is_here(5, 4, 9));
  drop_compressed(shared, kFile, 6);
  EXPECT_FALSE(is_here(6, 4, 9));
  EXPECT_EQ(shared.compressed_count, 0u);
  EXPECT_EQ(frames_used(), 0u) << "what holds nothing goes back to the pool";
  EXPECT_EQ(shared.decompressed, 1u);
}

TEST_F(CompressedCacheTest, what_does_not_shrink_to_a_half_is_not_kept) {
  EXPECT_TRUE(put(5, 10));
  EXPECT_FALSE(put(6, 30));
  EXPECT_EQ(shared.compressed_count, 1u);
}

TEST_F(CompressedCacheTest, the_oldest_make_room_and_no_more_than_the_share_is_used) {
  constexpr PageNo kPages = 2000;
  for (PageNo i = 0; i < kPages; i++) {
    ASSERT_TRUE(put(i, i % 14));
    ASSERT_LE(frames_used(), kMostFrames);
  }
  EXPECT_EQ(frames_used(), kMostFrames);
  EXPECT_EQ(shared.compressed_frames, kMostFrames);
  const u64 here = shared.compressed_count;
  EXPECT_GT(here, 2 * kMostFrames);
  u32 old = 0, young = 0;
  for (PageNo i = 0; i < kPages; i++) (i < kPages / 2 ? old : young) += is_here(i, i % 14);
  EXPECT_EQ(old, 0u);
  EXPECT_EQ(young, here);
  EXPECT_EQ(frames_used(), 0u);
}

// Nothing is taken from workers that wait for frames.
TEST_F(CompressedCacheTest, without_a_free_frame_there_is_no_room_but_that_of_older_ones) {
  std::vector<Frame *> taken;
  ASSERT_TRUE(put(1, 4));
  while (Frame *frame = free_list_pop(shared)) taken.push_back(frame);
  u32 kept = 0;   // those that belong where there is a frame
  for (PageNo i = 2; i < 300; i++) kept += put(i, 4);
  EXPECT_GT(kept, 5u);
  EXPECT_GT(shared.compressed_count, 0u);
  EXPECT_EQ(shared.compressed_frames, 1u);
  for (Frame *frame : taken) free_list_push(shared, frame);
}

TEST_F(CompressedCacheTest, where_none_is_wanted_again_few_are_compressed) {
  for (PageNo i = 0; i < 9000; i++) put(i, 4);
  u32 compressed = 0;
  for (PageNo i = 10000; i < 10320; i++) compressed += put(i, 4);
  EXPECT_EQ(compressed, 320u / 16);
  // Then they are.
  for (PageNo i = 20000; i < 40000; i++) {
    if (put(i, 4)) {
      EXPECT_TRUE(is_here(i, 4));
    }
  }
  compressed = 0;
  for (PageNo i = 50000; i < 50320; i++) compressed += put(i, 4);
  EXPECT_EQ(compressed, 320u);
}

TEST_F(CompressedCacheTest, where_few_can_be_compressed_few_are_tried) {
  for (PageNo i = 0; i < 9000; i++) EXPECT_FALSE(put(i, 33));
  u32 compressed = 0;
  for (PageNo i = 10000; i < 10320; i++) compressed += put(i, 4);
  EXPECT_EQ(compressed, 320u / 16);
}

TEST_F(CompressedCacheTest, a_damaged_one_is_not_taken) {
  ASSERT_TRUE(put(5, 4));
  damage_all();
  PageBuffer page;
  EXPECT_EQ(decompress(kFile, 5, page), Decompressed::kNotHere);
}

// Its changes are in the log, and stay there, for the store fails before anything else is written.
TEST_F(CompressedCacheTest, a_damaged_one_that_is_nowhere_else_fails_the_store) {
  const u32 slot = open_file();
  const FileNo file = number_of(slot);
  ASSERT_TRUE(put(5, 4, 0, 30, slot));
  damage_all();
  PageBuffer page;
  EXPECT_EQ(copy_compressed(shared, file, 5, page.bytes), Decompressed::kDamaged);
  EXPECT_EQ(begin_compressed_write(shared, {slot, file, 5, 30}, ~Gsn{0}, page.bytes),
            Decompressed::kDamaged);
  EXPECT_EQ(decompress(file, 5, page), Decompressed::kDamaged);
  EXPECT_EQ(frame_since, 0u);
  ls_error error;
  ASSERT_TRUE(shared.failure.noted(&error));
  EXPECT_EQ(error.status, LS_CORRUPT);
  EXPECT_EQ(error.page_no, 5u);
  EXPECT_STREQ(error.path, engine.pool().file(slot).path);
  EXPECT_TRUE(is_compressed_dirty(shared, file, 5));
  EXPECT_EQ(engine.pool().oldest_dirty(), 30u);
}

TEST_F(CompressedCacheTest,
       one_that_was_damaged_before_is_not_taken_and_packing_it_stays_in_its_page) {
  const u32 slot = open_file();
  std::mt19937_64 random(5);
  for (u32 round = 0; round < 2000; round++) {
    PageBuffer page, back;
    make_leaf(page, 5, 4);
    page.bytes[random() % sizeof(Node)] ^= static_cast<u8>(1 + random() % 255);
    const bool sound = page.node()->verify() == nullptr;  // a GSN, say
    if (!compressor.compress(page.bytes) || !compressor.put({slot, number_of(slot), 5, 0}))
      continue;
    const Decompressed expected = sound ? Decompressed::kYes : Decompressed::kNotHere;
    ASSERT_EQ(decompress(number_of(slot), 5, back), expected) << page.node()->verify();
  }
  EXPECT_FALSE(shared.failure.noted(nullptr));
}

TEST_F(CompressedCacheTest, what_was_changed_is_when_it_is_taken_out) {
  const u32 slot = open_file();
  const FileNo file = number_of(slot);
  ASSERT_TRUE(put(5, 4, 0, 30, slot));
  ASSERT_TRUE(put(6, 4, 0, 20, slot));
  ASSERT_TRUE(put(7, 4, 0, 0, slot));
  EXPECT_EQ(shared.compressed_dirty, 2u);
  EXPECT_EQ(oldest_compressed(shared), 20u);
  EXPECT_EQ(engine.pool().oldest_dirty(), 20u);
  EXPECT_TRUE(is_compressed_dirty(shared, file, 5));
  EXPECT_FALSE(is_compressed_dirty(shared, file, 7));
  PageBuffer page;
  EXPECT_EQ(copy_compressed(shared, file, 6, page.bytes), Decompressed::kYes);
  EXPECT_EQ(page.node()->count, 100);
  EXPECT_EQ(decompress(file, 6, page), Decompressed::kYes);
  EXPECT_EQ(frame_since, 20u);
  EXPECT_EQ(oldest_compressed(shared), 30u);
  EXPECT_EQ(decompress(file, 7, page), Decompressed::kYes);
  EXPECT_EQ(frame_since, 0u);
  EXPECT_EQ(dirty_compressed(shared, 29).size(), 0u);
  EXPECT_EQ(dirty_compressed(shared, 30).size(), 1u);
  EXPECT_EQ(decompress(file, 5, page), Decompressed::kYes);
  EXPECT_EQ(shared.compressed_dirty, 0u);
  EXPECT_EQ(engine.pool().oldest_dirty(), ~Gsn{0});
}

// COMP-3
TEST_F(CompressedCacheTest, what_is_written_stays_and_is_waited_for) {
  const u32 slot = open_file();
  const CompressedPage page{slot, number_of(slot), 5, 30};
  ASSERT_TRUE(put(5, 4, 0, 30, slot));
  PageBuffer copy;
  EXPECT_EQ(begin_compressed_write(shared, page, 29, copy.bytes), Decompressed::kNotHere);
  ASSERT_EQ(begin_compressed_write(shared, page, 30, copy.bytes), Decompressed::kYes);
  EXPECT_EQ(copy.node()->verify(), nullptr);
  EXPECT_EQ(begin_compressed_write(shared, page, 30, copy.bytes), Decompressed::kBusy);
  PageBuffer out;
  EXPECT_EQ(decompress(page.file_no, 5, out), Decompressed::kBusy);
  end_compressed_write(shared, page.file_no, 5, false);
  EXPECT_EQ(oldest_compressed(shared), 30u) << "the write failed";
  ASSERT_EQ(begin_compressed_write(shared, page, 30, copy.bytes), Decompressed::kYes);
  end_compressed_write(shared, page.file_no, 5, true);
  EXPECT_EQ(oldest_compressed(shared), ~Gsn{0});
  EXPECT_EQ(shared.compressed_dirty, 0u);
  EXPECT_EQ(begin_compressed_write(shared, page, 30, copy.bytes), Decompressed::kNotHere);
  EXPECT_EQ(decompress(page.file_no, 5, out), Decompressed::kYes);
  EXPECT_EQ(frame_since, 0u);
}

// A reader that wants it does not wait for the log.
TEST_F(CompressedCacheTest, one_that_is_not_hardened_is_not_claimed) {
  constexpr Gsn kFar = 1'000'000'000;
  const u32 slot = open_file();
  const CompressedPage page{slot, number_of(slot), 5, 30};
  ASSERT_TRUE(put(5, 4, kFar, 30, slot));
  PageWriter writer(engine.pool());
  EXPECT_EQ(writer.add(page, 29), PageWriter::Added::kNothing);
  EXPECT_EQ(writer.unhardened(), 0u);
  EXPECT_EQ(writer.add(page, 30), PageWriter::Added::kBusy);
  EXPECT_EQ(writer.unhardened(), kFar);
  PageBuffer out;
  EXPECT_EQ(decompress(page.file_no, 5, out), Decompressed::kYes);
}

// Nothing that the file does not have makes room, unless the file is gone.
TEST_F(CompressedCacheTest, unwritten_ones_make_no_room) {
  const u32 slot = open_file();
  u32 kept = 0;
  PageNo n = 0;
  while (put(n, 4, 0, 30, slot)) n++, kept++;
  for (; n < 2000; n++) kept += put(n, 4, 0, 30, slot);
  EXPECT_GT(kept, kMostFrames);
  EXPECT_EQ(shared.compressed_dirty, kept);
  EXPECT_FALSE(put(3000, 4, 0, 0, slot)) << "nor for one that needs no writing";
  const std::vector<CompressedPage> oldest = dirty_oldest(shared, 64);
  EXPECT_EQ(oldest.size(), 64u);
  for (const CompressedPage &page : oldest) {
    PageBuffer copy;
    ASSERT_EQ(begin_compressed_write(shared, page, 30, copy.bytes), Decompressed::kYes);
    end_compressed_write(shared, page.file_no, page.page_no, true);
  }
  u32 more = 0;
  for (n = 4000; n < 4300; n++) more += put(n, 4, 0, 30, slot);
  EXPECT_GT(more, 30u);
  EXPECT_LE(more, 64u + kCompressedPartitions);
  engine.pool().forget_file(EngineFixture::key_of(1));
  EXPECT_EQ(oldest_compressed(shared), ~Gsn{0});
  for (n = 5000; n < 5300; n++) EXPECT_TRUE(put(n, 4));
}

TEST_F(CompressedCacheTest, a_flush_wants_it_written) {
  const u32 slot = open_file();
  shared.flush_bound.store(30);
  EXPECT_FALSE(put(5, 4, 0, 30, slot));
  EXPECT_TRUE(put(6, 4, 0, 31, slot));
  EXPECT_TRUE(put(7, 4, 0, 0, slot));
  shared.flush_bound.store(0);
  EXPECT_TRUE(put(5, 4, 0, 30, slot));
}

#if LS_FAILPOINTS
// COMP-3
// Reader: decompresses a page.  Page writer: claims it.  Reader: is about to take it out.
TEST_F(CompressedCacheTest, race_take_out_vs_write_leaves_it_to_the_page_writer) {
  const u32 slot = open_file();
  const CompressedPage page{slot, number_of(slot), 5, 30};
  ASSERT_TRUE(put(5, 4, 0, 30, slot));
  PageBuffer copy, out;
  OnceAt point(Failpoint::buffer_before_take_out, [&] {
    EXPECT_EQ(begin_compressed_write(shared, page, 30, copy.bytes), Decompressed::kYes);
  });
  EXPECT_EQ(decompress(page.file_no, 5, out), Decompressed::kBusy);
  EXPECT_TRUE(point.reached());
  end_compressed_write(shared, page.file_no, 5, true);
  EXPECT_EQ(decompress(page.file_no, 5, out), Decompressed::kYes);
  EXPECT_EQ(frame_since, 0u);
}

// Reader: decompresses a changed page.  Page writer: writes it.  Reader: takes it out, unchanged.
TEST_F(CompressedCacheTest, race_take_out_vs_write_takes_the_mark_that_is_left) {
  const u32 slot = open_file();
  const CompressedPage page{slot, number_of(slot), 5, 30};
  ASSERT_TRUE(put(5, 4, 0, 30, slot));
  PageBuffer copy, out;
  OnceAt point(Failpoint::buffer_before_take_out, [&] {
    ASSERT_EQ(begin_compressed_write(shared, page, 30, copy.bytes), Decompressed::kYes);
    end_compressed_write(shared, page.file_no, 5, true);
  });
  EXPECT_EQ(decompress(page.file_no, 5, out), Decompressed::kYes);
  EXPECT_TRUE(point.reached());
  EXPECT_EQ(frame_since, 0u);
}

#endif

// ---- in a pool

struct CompressedTree : ::testing::Test {
  EngineFixture engine{{.pool_bytes = kFrames * kPageSize, .compressed_cache_percent = 40}};
  EngineFixture::Worker worker{engine, 0};
  FileSlot *file = engine.open(worker.ctx, 1, true);
  TreeUser user{worker.ctx, *file};

  // work(user, random), with a worker of its own.
  template <typename Work>
  std::thread thread(u64 number, Work work) {
    return std::thread([this, number, work] {
      EngineFixture::Worker own(engine, static_cast<u32>(number + 1));
      TreeUser mine(own.ctx, *file);
      std::mt19937_64 random(number);
      work(mine, random);
    });
  }
  static std::string value_of(u64 key, u64 version) {
    return int_key(key * 31 + version) + std::string(60, static_cast<char>('a' + version % 20));
  }
};

// Twice the pool: most of what is not in a frame is not read either.
TEST_F(CompressedTree, what_is_wanted_again_is_not_read) {
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
  EXPECT_GT(after.decompressed - before.decompressed, 3000u);
  EXPECT_LT(after.reads - before.reads, (after.decompressed - before.decompressed) / 4);
  EXPECT_EQ(worker.ctx.pages.read, after.reads - before.reads)
      << "what was not read is not counted as read";
  EXPECT_LE(after.compressed_frames, kFrames * 40 / 100);
}

// All of it compressed or in frames: what is changed again and again is not written before a flush.
TEST_F(CompressedTree, what_is_changed_is_written_once) {
  constexpr u64 kKeys = 14000;
  for (u64 i = 0; i < kKeys; i++) ASSERT_TRUE(user.insert(int_key(i), value_of(i, 0)));
  std::mt19937_64 random(3);
  std::vector<u64> versions(kKeys);
  auto change = [&](int n) {
    for (int i = 0; i < n; i++) {
      const u64 key = random() % kKeys;
      ASSERT_TRUE(user.upsert(int_key(key), value_of(key, ++versions[key])));
    }
  };
  change(10000);
  const PoolStats before = engine.pool().stats();
  change(20000);
  const PoolStats after = engine.pool().stats();
  EXPECT_GT(after.decompressed - before.decompressed, 500u);
  EXPECT_LT(after.writes - before.writes, (after.decompressed - before.decompressed) / 4);
  EXPECT_GT(after.compressed_dirty, 5u);
  // A scan finds them where they are.
  worker.ctx.pages = {};
  EXPECT_EQ(user.scan().size(), kKeys);
  EXPECT_LT(worker.ctx.pages.read, 100u);
  EXPECT_GT(engine.pool().stats().compressed, 20u) << "a scan takes none out";
  engine.flush(worker.ctx);
  EXPECT_EQ(engine.pool().stats().compressed_dirty, 0u);
  EXPECT_GT(engine.pool().stats().compressed, 20u);
  EXPECT_EQ(engine.pool().oldest_dirty(), ~Gsn{0});
  engine.crash();
  engine.restart();
  EngineFixture::Worker again(engine, 0);
  TreeUser other(again.ctx, *engine.open(again.ctx, 1, true));
  for (u64 i = 0; i < kKeys; i++) ASSERT_EQ(other.lookup(int_key(i)), value_of(i, versions[i]));
}

// More than there is room for: changed pages do not keep out for ever those that are only read.
TEST_F(CompressedTree, changed_pages_make_room_in_time) {
  constexpr u64 kKeys = 40000;
  // A part of each does not compress, or there would be room for all.
  const auto value_of = [](u64 key, u64 version) {
    std::mt19937_64 random(key);
    return random_bytes(random, 24, 256) + CompressedTree::value_of(key, version).substr(20);
  };
  for (u64 i = 0; i < kKeys; i++) ASSERT_TRUE(user.insert(int_key(i), value_of(i, 0)));
  for (u64 i = 0; i < kKeys; i++) ASSERT_TRUE(user.upsert(int_key(i), value_of(i, 1)));
  std::mt19937_64 random(3);
  u64 looks = 0;
  for (; looks < 400'000 && (looks < 10'000 || engine.pool().stats().compressed_dirty > 0);
       looks++) {
    const u64 key = random() % kKeys;
    ASSERT_EQ(user.lookup(int_key(key)), value_of(key, 1));
  }
  EXPECT_EQ(engine.pool().stats().compressed_dirty, 0u) << looks << " look-ups";
  EXPECT_GT(engine.pool().stats().compressed, 100u);
}

// What a flush was to write is written when it is over, wherever it went meanwhile.
// COMP-2
TEST_F(CompressedTree, no_mark_gets_past_a_flush) {
  constexpr u64 kThreads = 3, kKeysEach = 6000;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (u64 t = 0; t < kThreads; t++) {
    threads.push_back(thread(t, [&, t](TreeUser &mine, std::mt19937_64 &random) {
      for (u64 i = 0; i < kKeysEach; i++)
        ASSERT_TRUE(mine.insert(int_key(i * kThreads + t), value_of(i, 0)));
      for (u64 i = 0; !done.load(); i++)
        ASSERT_TRUE(mine.upsert(int_key((random() % kKeysEach) * kThreads + t), value_of(i, i)));
    }));
  }
  u32 flushes = 0;
  const u64 decompressed = engine.pool().stats().decompressed;
  for (; flushes < 40 || engine.pool().stats().decompressed - decompressed < 20000; flushes++) {
    const Gsn hardened = engine.log().hardened();
    ASSERT_TRUE(ok(engine.pool().flush(worker.ctx, hardened, false))) << last_error().message;
    ASSERT_GT(engine.pool().oldest_dirty(), hardened);
  }
  done = true;
  for (std::thread &thread : threads) thread.join();
  BTree::CheckResult result;
  EXPECT_TRUE(user.verify(&result));
}

// Many versions of each page, changed by several threads; removed, merged, split; scanned; written
// meanwhile.
// COMP-1
TEST_F(CompressedTree, nobody_meets_an_old_image) {
  constexpr u64 kThreads = 4, kKeysEach = 5000;
  std::vector<Model> models(kThreads);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (u64 t = 0; t < kThreads; t++) {
    threads.push_back(thread(t, [&, t](TreeUser &mine, std::mt19937_64 &random) {
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
    }));
  }
  std::thread others = thread(kThreads, [&](TreeUser &mine, std::mt19937_64 &) {
    while (!done.load()) {
      mine.scan();
      engine.flush(worker.ctx);
    }
  });
  for (std::thread &thread : threads) thread.join();
  done = true;
  others.join();
  EXPECT_GT(engine.pool().stats().decompressed, 1000u);
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
// COMP-4
TEST_F(CompressedTree, a_file_that_is_opened_again_is_read_from_disk) {
  for (u64 i = 0; i < 16000; i++) ASSERT_TRUE(user.insert(int_key(i), value_of(i, 0)));
  for (u64 i = 0; i < 16000; i++) user.lookup(int_key(i));
  EXPECT_GT(engine.pool().stats().compressed, 0u);
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
