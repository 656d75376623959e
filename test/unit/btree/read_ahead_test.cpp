// read_ahead_test.cpp - scans of leaves that are not in memory: read in batches, past the pool, and
// never an outdated one.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "btree/leaf_reads.hpp"
#include "buffer/io_stage.hpp"
#include "os/fault.hpp"
#include "unit/btree/tree_helpers.hpp"
#include "unit/engine_fixture.hpp"

namespace ls {
namespace {

using test::as_bytes;
using test::EngineFixture;
using test::int_key;
using test::TreeUser;

constexpr u32 kRelation = 16384;
constexpr u32 kValueBytes = 300;

std::string value_of(u64 key, u64 version) {
  std::string value = int_key(version) + int_key(key * 0x9e3779b97f4a7c15 + version);
  value.resize(kValueBytes, static_cast<char>('a' + (key + version) % 26));
  return value;
}
u64 version_in(Bytes value) { return test::key_int(value.first(8)); }

class ReadAheadTest : public testing::Test {
 protected:
  ReadAheadTest() : engine_({.pool_bytes = u64{1} << 20, .page_providers = 1}) {}
  ~ReadAheadTest() override { fault_clear(); }

  void fill(u64 keys) {
    EngineFixture::Worker w(engine_, 0);
    TreeUser user(w.ctx, *engine_.open(w.ctx, kRelation, true));
    for (u64 i = 0; i < keys; i++)
      ASSERT_TRUE(user.insert(int_key(i), value_of(i, 0))) << last_error().message;
    keys_ = keys;
    leaves_ = keys * kValueBytes / kPageSize;
  }
  // Everything in files, nothing in memory.
  FileSlot &begin_anew() {
    engine_.stop();
    engine_.restart();
    worker_ = std::make_unique<EngineFixture::Worker>(engine_, 0);
    return *engine_.open(worker_->ctx, kRelation, true);
  }

  // Keys [from, to) by a scan; leaf(node copy) for each leaf.
  template <typename Each>
  static void scan(Ctx &ctx, FileSlot &file, u64 from, u64 to, bool backward, Each each) {
    BTree tree(ctx, file);
    ReadAhead ahead(ctx, file);
    BTree::ParentHint hook{.parent = {}, .ahead = &ahead};
    const std::string end = int_key(backward ? from : to);
    std::string position = int_key(backward ? to : from);
    alignas(8) u8 page[kPageSize];
    const Node *node = reinterpret_cast<const Node *>(page);
    for (;;) {
      hook.end = as_bytes(end);
      const Status s = backward ? tree.leaf_copy_before(as_bytes(position), false, page, &hook)
                                : tree.leaf_copy(as_bytes(position), page, &hook);
      ASSERT_TRUE(ok(s)) << last_error().message;
      ASSERT_EQ(node->verify(), nullptr);
      each(*node);
      if (testing::Test::HasFatalFailure()) return;
      position = test::as_string(backward ? node->lower_fence() : node->upper_fence());
      if (backward ? position <= end : !node->has_upper || position >= end) return;
    }
  }
  // Each key once and in order, with a version of at least `versions[key]` (null: 0).
  static void scan_and_check(Ctx &ctx, FileSlot &file, u64 from, u64 to, bool backward,
                             const std::atomic<u64> *versions = nullptr) {
    std::vector<u64> least(to, 0);
    for (u64 i = from; versions && i < to; i++)
      least[i] = versions[i].load(std::memory_order_acquire);
    u64 next = backward ? to : from;
    scan(ctx, file, from, to, backward, [&](const Node &node) {
      for (u32 i = 0; i < node.count; i++) {
        const u16 pos = static_cast<u16>(backward ? node.count - 1 - i : i);
        u8 bytes[kMaxKeyBytes];
        ASSERT_EQ(node.copy_key(pos, bytes), 8u);
        const u64 key = test::key_int({bytes, 8});
        if (key < from || key >= to) continue;
        ASSERT_EQ(key, backward ? next - 1 : next);
        next = backward ? next - 1 : next + 1;
        const Bytes value = node.value(pos);
        ASSERT_GE(version_in(value), least[key])
            << "key " << key << " as it was before the scan began";
        ASSERT_EQ(test::as_string(value), value_of(key, version_in(value)));
      }
    });
    ASSERT_EQ(next, backward ? from : to);
  }

  EngineFixture engine_;
  std::unique_ptr<EngineFixture::Worker> worker_;
  u64 keys_ = 0, leaves_ = 0;
};

TEST_F(ReadAheadTest, a_table_larger_than_memory_is_read_in_batches_and_stays_outside) {
  fill(20'000);
  for (const bool backward : {false, true}) {
    FileSlot &file = begin_anew();
    const PoolStats before = engine_.pool().stats();
    scan_and_check(worker_->ctx, file, 0, keys_, backward);
    const PoolStats first = engine_.pool().stats();
    const u64 ahead = first.reads_ahead - before.reads_ahead,
              batches = first.batches_ahead - before.batches_ahead;
    EXPECT_GT(ahead, leaves_ * 9 / 10);
    EXPECT_GT(ahead / batches, 16u);
    EXPECT_LT(first.reads - before.reads, leaves_ * 13 / 10) << "no leaf twice";
    // What there was room for has entered; from then on nothing is driven out.
    scan_and_check(worker_->ctx, file, 0, keys_, backward);
    const PoolStats second = engine_.pool().stats();
    EXPECT_LT(second.evictions, leaves_ / 10);
    EXPECT_LT(second.reads - first.reads, leaves_ * 13 / 10);
  }
}

TEST_F(ReadAheadTest, a_small_table_enters_the_pool) {
  fill(600);
  FileSlot &file = begin_anew();
  scan_and_check(worker_->ctx, file, 0, keys_, false);
  const PoolStats first = engine_.pool().stats();
  EXPECT_GT(first.reads_ahead, leaves_ / 2);
  scan_and_check(worker_->ctx, file, 0, keys_, true);
  EXPECT_EQ(engine_.pool().stats().reads, first.reads);
}

TEST_F(ReadAheadTest, nothing_is_read_behind_the_end_of_the_range) {
  fill(20'000);
  FileSlot &file = begin_anew();
  const u64 in_range = 2'000 * kValueBytes / kPageSize;
  for (const bool backward : {false, true}) {
    const u64 from = backward ? 11'000 : 5'000, reads = engine_.pool().stats().reads;
    scan_and_check(worker_->ctx, file, from, from + 2'000, backward);
    EXPECT_LE(engine_.pool().stats().reads - reads, in_range * 12 / 10 + 8);
    EXPECT_GE(engine_.pool().stats().reads - reads, in_range);
  }
}

TEST_F(ReadAheadTest, damage_is_reported_as_by_any_reader) {
  fill(4'000);
  FileSlot *file = &begin_anew();
  // Some leaf far behind the first ones.
  PageNo page_no = 0;
  u32 leaf = 0;
  scan(worker_->ctx, *file, 0, keys_, false, [&](const Node &node) {
    if (leaf++ == 100) page_no = node.header.page_no;
  });
  engine_.stop();
  {
    std::fstream bytes(engine_.directory() + "/" + EngineFixture::path_of(kRelation),
                       std::ios::binary | std::ios::in | std::ios::out);
    bytes.seekp(static_cast<std::streamoff>(u64{page_no} * kPageSize + 1000));
    bytes.write("damage", 6);
  }
  engine_.restart();
  worker_ = std::make_unique<EngineFixture::Worker>(engine_, 0);
  file = engine_.open(worker_->ctx, kRelation, true);
  BTree tree(worker_->ctx, *file);
  ReadAhead ahead(worker_->ctx, *file);
  BTree::ParentHint hook{.parent = {}, .ahead = &ahead};
  const std::string end = int_key(keys_);
  std::string position;
  alignas(8) u8 copy[kPageSize];
  Status s = kOk;
  for (u32 i = 0; i <= leaf && ok(s); i++) {
    hook.end = as_bytes(end);
    s = tree.leaf_copy(as_bytes(position), copy, &hook);
    if (ok(s)) position = test::as_string(reinterpret_cast<const Node *>(copy)->upper_fence());
  }
  EXPECT_EQ(code(s), LS_CORRUPT);
  EXPECT_EQ(last_error().page_no, page_no);
  EXPECT_GT(engine_.pool().stats().reads_ahead, 50u);
}

TEST_F(ReadAheadTest, failing_reads_are_made_one_by_one) {
  fill(4'000);
  FileSlot &file = begin_anew();
  // a rule that matches nothing keeps all reads off io_uring
  fault_add({.op = FaultOp::kRead, .path_part = "no such file"});
  scan_and_check(worker_->ctx, file, 0, keys_, false);
  EXPECT_EQ(engine_.pool().stats().reads_ahead, 0u);
}

TEST_F(ReadAheadTest, leaves_of_ranges_are_brought_in_together) {
  fill(2'000);
  FileSlot &file = begin_anew();
  Ctx &ctx = worker_->ctx;
  BTree tree(ctx, file);
  LeafReads reads;
  const std::string keys[] = {int_key(100), int_key(400), int_key(401), int_key(402), int_key(900)};
  const BTree::KeyRange ranges[] = {{as_bytes(keys[0]), as_bytes(keys[1])},
                                    {as_bytes(keys[2]), as_bytes(keys[2])},
                                    {as_bytes(keys[3]), as_bytes(keys[3])},
                                    {as_bytes(keys[4]), as_bytes(keys[4])}};
  alignas(8) u8 page[kPageSize];
  ASSERT_EQ(code(tree.leaf_copy(as_bytes(int_key(1'500)), page)), LS_OK);   // and the inner pages
  const u64 before = ctx.pages.read;
  tree.bring_in(reads, ranges);
  const u64 leaves = ctx.pages.read - before;
  EXPECT_GE(leaves, 300u * kValueBytes / kPageSize);
  EXPECT_LE(leaves, LeafReads::kMost);
  for (u64 key : {100, 101, 250, 399, 400, 401, 402, 900})
    ASSERT_EQ(code(tree.leaf_copy(as_bytes(int_key(key)), page)), LS_OK);
  tree.bring_in(reads, ranges);
  EXPECT_EQ(ctx.pages.read - before, leaves) << "each is in memory, and was read once";
  ASSERT_EQ(code(tree.leaf_copy(as_bytes(int_key(1'000)), page)), LS_OK);
  EXPECT_EQ(ctx.pages.read - before, leaves + 1) << "others are not";
  scan_and_check(ctx, file, 0, keys_, false);
}

// AHEAD-1: as recovery leaves a page that it has changed, which is not in the file yet.
TEST_F(ReadAheadTest, a_page_that_is_in_the_io_stage_is_not_read) {
  fill(4'000);
  FileSlot &file = begin_anew();
  BufferPool &pool = engine_.pool();
  Frame *meta = file.meta.load(), *frame;
  const ReadAhead::Parent parent{meta, meta->latch.version_wait(), file.page_writes.load()};
  ASSERT_EQ(code(pool.load_page(worker_->ctx, file, 21, &frame)), LS_OK) << last_error().message;
  IoStageLock(*pool.shared(), file.file_no.load(), 21).insert(frame);
  frame->latch.unlock_exclusive();
  const PageNo pages[] = {20, 21, 22};
  ReadAhead ahead(worker_->ctx, file);
  ahead.ask(pages, parent);
  alignas(8) u8 out[kPageSize];
  EXPECT_TRUE(ahead.take(20, parent, out));
  EXPECT_FALSE(ahead.take(21, parent, out));
  EXPECT_TRUE(ahead.take(22, parent, out));
  scan_and_check(worker_->ctx, file, 0, keys_, false);
}

// AHEAD-1: the page may have gone from there into the tree meanwhile, changed as it was.
TEST_F(ReadAheadTest, nothing_is_read_of_a_parent_that_has_changed_since) {
  fill(4'000);
  FileSlot &file = begin_anew();
  Frame *meta = file.meta.load();
  const ReadAhead::Parent parent{meta, meta->latch.version_wait(), file.page_writes.load()};
  meta->latch.lock_exclusive();
  meta->latch.unlock_exclusive();
  const PageNo pages[] = {20, 21};
  ReadAhead ahead(worker_->ctx, file);
  ahead.ask(pages, parent);
  alignas(8) u8 out[kPageSize];
  EXPECT_FALSE(ahead.take(20, parent, out));
  EXPECT_FALSE(ahead.take(21, parent, out));
}

// AHEAD-2 and AHEAD-3, one by one, on a page of any content.
TEST_F(ReadAheadTest, a_copy_is_good_while_its_parent_or_the_file_has_not_changed) {
  fill(4'000);
  FileSlot &file = begin_anew();
  Frame *meta = file.meta.load();
  auto parent = [&] {
    return ReadAhead::Parent{meta, meta->latch.version_wait(), file.page_writes.load()};
  };
  auto change_parent = [&] {
    meta->latch.lock_exclusive();
    meta->latch.unlock_exclusive();
  };
  const PageNo pages[] = {20, 21, 22, 23};
  alignas(8) u8 out[kPageSize];
  for (const bool parent_changes : {false, true}) {
    for (const bool file_changes : {false, true}) {
      ReadAhead ahead(worker_->ctx, file);
      const ReadAhead::Parent then = parent();
      ahead.ask(pages, then);
      EXPECT_TRUE(ahead.take(20, then, out));
      EXPECT_EQ(reinterpret_cast<PageHeader *>(out)->page_no, 20u);
      EXPECT_FALSE(ahead.take(20, then, out)) << "used";
      EXPECT_FALSE(ahead.take(24, then, out)) << "never asked for";
      if (parent_changes) change_parent();
      if (file_changes) file.page_writes++;
      EXPECT_EQ(ahead.take(21, parent(), out), !parent_changes || !file_changes);
      EXPECT_EQ(ahead.take(22, then, out), !file_changes || !parent_changes)
          << "the parent changes during the call";
      if (parent_changes && file_changes) {
        // Asked for again, with what is known now.
        ahead.ask(pages, parent());
        EXPECT_TRUE(ahead.take(23, parent(), out));
        EXPECT_TRUE(ahead.take(22, parent(), out));
      }
    }
  }
}

TEST_F(ReadAheadTest, a_scan_may_end_with_reads_under_way) {
  fill(20'000);
  FileSlot &file = begin_anew();
  for (u64 from = 0; from < keys_; from += 700) {
    u32 leaves = 0;
    BTree tree(worker_->ctx, file);
    ReadAhead ahead(worker_->ctx, file);
    BTree::ParentHint hook{.parent = {}, .ahead = &ahead};
    const std::string end = int_key(keys_);
    std::string position = int_key(from);
    alignas(8) u8 copy[kPageSize];
    while (leaves++ < 6) {
      hook.end = as_bytes(end);
      ASSERT_TRUE(ok(tree.leaf_copy(as_bytes(position), copy, &hook)));
      if (!reinterpret_cast<const Node *>(copy)->has_upper) break;
      position = test::as_string(reinterpret_cast<const Node *>(copy)->upper_fence());
    }
  }
  scan_and_check(worker_->ctx, file, 0, keys_, false);
}

// Scans beside writers: updates in place, and insertions and removals that split and merge leaves,
// in a pool that holds a small part.
class ReadAheadBesideWriters : public ReadAheadTest {
 protected:
#if defined(__SANITIZE_THREAD__)
  static constexpr int kScans = 4;
#else
  static constexpr int kScans = 12;
#endif
  static constexpr u64 kNumbers = 8'000;
  static constexpr u64 kStep = 8;   // keys between are the writers' to insert and remove

  void fill_numbers() {
    EngineFixture::Worker w(engine_, 0);
    TreeUser user(w.ctx, *engine_.open(w.ctx, kRelation, true));
    for (u64 i = 0; i < kNumbers; i++)
      ASSERT_TRUE(user.insert(int_key(i * kStep), value_of(i * kStep, 0)));
  }
  // Every second number is this writer's.
  void write(FileSlot &file, u32 slot) {
    EngineFixture::Worker w(engine_, slot);
    TreeUser user(w.ctx, file);
    LeafReads reads;
    std::mt19937_64 random(slot);
    while (scanning_.load() > 0 && !HasFailure()) {
      // A place for a while, so that its leaves are written, evicted and read again.
      const u64 place = random() % kNumbers;
      const std::string from = int_key(place * kStep), to = int_key((place + 200) * kStep);
      const BTree::KeyRange range{as_bytes(from), as_bytes(to)};
      if (random() % 2 == 0) user.tree.bring_in(reads, {&range, 1});
      for (int i = 0; i < 20; i++) {
        const u64 number = (place + random() % 200) / 2 * 2 + (slot - 1);
        if (number >= kNumbers) continue;
        const u64 version = versions_[number].load() + 1;
        EXPECT_TRUE(user.upsert(int_key(number * kStep), value_of(number * kStep, version)))
            << last_error().message;
        versions_[number].store(version, std::memory_order_release);
        const u64 between = number * kStep + 1 + random() % (kStep - 1);
        if (random() % 3 == 0) user.remove(int_key(between));
        if (random() % 3 == 0) (void)user.upsert(int_key(between), value_of(between, 0));
      }
    }
  }
  void scan_all(FileSlot &file, u32 slot) {
    EngineFixture::Worker w(engine_, slot);
    for (int n = 0; n < kScans && !HasFailure(); n++) {
      const bool backward = (n + slot) % 3 == 0;
      std::vector<u64> least;
      for (auto &version : versions_) least.push_back(version.load(std::memory_order_acquire));
      u64 met = 0;
      scan(w.ctx, file, 0, kNumbers * kStep, backward, [&](const Node &node) {
        for (u16 pos = 0; pos < node.count; pos++) {
          u8 bytes[kMaxKeyBytes];
          node.copy_key(pos, bytes);
          const u64 key = test::key_int({bytes, 8});
          const Bytes value = node.value(pos);
          ASSERT_EQ(test::as_string(value), value_of(key, version_in(value)));
          if (key % kStep != 0) continue;
          ASSERT_GE(version_in(value), least[key / kStep])
              << "key " << key << " as it was before the scan began";
          least[key / kStep] = version_in(value);
          met++;
        }
      });
      EXPECT_GE(met, kNumbers);
    }
    scanning_--;
  }

  std::vector<std::atomic<u64>> versions_ = std::vector<std::atomic<u64>>(kNumbers);
  std::atomic<int> scanning_{2};
};

TEST_F(ReadAheadBesideWriters, scans_see_what_was_written_before_they_began) {
  fill_numbers();
  FileSlot &file = begin_anew();
  std::vector<std::thread> threads;
  for (u32 slot = 1; slot <= 2; slot++) threads.emplace_back([&, slot] { write(file, slot); });
  for (u32 slot = 3; slot <= 4; slot++) threads.emplace_back([&, slot] { scan_all(file, slot); });
  for (std::thread &thread : threads) thread.join();
  EXPECT_GT(engine_.pool().stats().reads_ahead, 0u);
}

}  // namespace
}  // namespace ls
