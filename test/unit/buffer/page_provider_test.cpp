// Data four times larger than the pool, under readers, writers and page providers.
#include <mutex>

#include "unit/buffer/pool_fixture.hpp"

namespace ls::buffer_test {
namespace {

constexpr u32 kLeaves = 400;

u32 next(u64 &x, u32 bound) {
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return static_cast<u32>((x >> 33) % bound);
}

struct Load {
  TestPool &test;
  FileSlot &file;
  std::vector<std::atomic<u64>> expected = std::vector<std::atomic<u64>>(kLeaves);
  std::atomic<u32> failures{0};
  std::string first_failure;
  std::mutex failure_mutex;

  Load(TestPool &t, FileSlot &f) : test(t), file(f) {}
  void failed(const std::string &what) {
    std::lock_guard lock(failure_mutex);
    if (failures.fetch_add(1) == 0) first_failure = what;
  }
  void work(u32 slot, u32 rounds, u32 write_percent) {
    TestWorker worker(test, slot);
    ToyTree tree(worker.ctx, file);
    u64 random = 88172645463325252ull + slot * 7919;
    for (u32 i = 0; i < rounds; i++) {
      u32 leaf = next(random, kLeaves);
      if (next(random, 100) < write_percent) {
        if (!ok(tree.increment(leaf, &expected[leaf]))) failed(last_error().message);
        continue;
      }
      u64 low = expected[leaf].load(std::memory_order_acquire), value = 0;
      if (!ok(tree.read(leaf, &value))) failed(last_error().message);
      u64 high = expected[leaf].load(std::memory_order_acquire);
      if (value < low || value > high)
        failed("leaf " + std::to_string(leaf) + " went back in time");
    }
  }
  void check_all() {
    TestWorker worker(test, 0);
    ToyTree tree(worker.ctx, file);
    for (u32 i = 0; i < kLeaves; i++) {
      u64 value = 0;
      LS_ASSERT_OK(tree.read(i, &value));
      EXPECT_EQ(value, expected[i].load()) << "leaf " << i;
    }
  }
};

class PageProviderTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { register_toy_tree(); }
};

TEST_P(PageProviderTest, readers_and_writers_see_every_change_in_a_small_pool) {
  bool logged = GetParam();
  TestPool test(100);
  test.start_providers(2);
  TestWorker main(test, 0);
  FileSlot *file;
  LS_ASSERT_OK(ToyTree::open(test, main.ctx, 7, logged, &file));
  LS_ASSERT_OK(ToyTree(main.ctx, *file).add_leaves(kLeaves));
  Load run(test, *file);
  std::vector<std::thread> threads;
  for (u32 slot = 1; slot <= 3; slot++)
    threads.emplace_back([&run, slot] { run.work(slot, 2500, 30); });
  for (std::thread &t : threads) t.join();
  EXPECT_EQ(run.failures.load(), 0u) << run.first_failure;
  run.check_all();
  PoolStats stats = test.pool().stats();
  EXPECT_GT(stats.evictions, kLeaves);
  EXPECT_GT(stats.reads, kLeaves);
  EXPECT_GT(stats.hits, 0u);
  EXPECT_EQ(test.provider_failures(), 0u);

  // What was evicted and what is flushed is all there is after a restart.
  LS_ASSERT_OK(test.pool().flush(main.ctx, ~Gsn{0}, true));
  EXPECT_EQ(test.pool().stats().dirty, 0u);
  EXPECT_EQ(test.pool().oldest_dirty(), ~Gsn{0});
  test.crash();
  test.start_providers(1);
  TestWorker again(test, 0);
  LS_ASSERT_OK(ToyTree::open(test, again.ctx, 7, logged, &file));
  Load reread(test, *file);
  for (u32 i = 0; i < kLeaves; i++) reread.expected[i].store(run.expected[i].load());
  reread.check_all();
}
// One provider, called by hand; one directory and its leaves in memory.
class EvictionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    register_toy_tree();
    LS_ASSERT_OK(ToyTree::open(test_, worker_.ctx, 7, false, &file_));
    LS_ASSERT_OK(ToyTree(worker_.ctx, *file_).add_leaves(3));
    LS_ASSERT_OK(test_.pool().flush(worker_.ctx, ~Gsn{0}, true));
  }
  Frame *dir() {
    OptimisticGuard meta, guard;
    while (ToyTree(worker_.ctx, *file_).descend_dir(0, meta, guard) != Step::kOk) continue;
    return guard.frame();
  }
  void rounds(u32 count) {
    u32 freed;
    for (u32 i = 0; i < count; i++) LS_ASSERT_OK(provider_.round(&freed));
  }

  TestPool test_{64};
  TestWorker worker_{test_, 0};
  PageProvider provider_{test_.pool(), 0};
  FileSlot *file_ = nullptr;
};

TEST_F(EvictionTest, eviction_invalidates_who_has_read_the_swip) {
  Frame *parent = dir(), *leaf = ToyTree(worker_.ctx, *file_).frame_of(1);
  u64 parent_version, leaf_version;
  OptimisticGuard(test_.pool(), parent).release(&parent_version);
  OptimisticGuard(test_.pool(), leaf).release(&leaf_version);
  Swip *swip = swip_at(&reinterpret_cast<ToyDir *>(test_.pool().page(parent))->swips[1]);
  while (swip->is_hot()) rounds(1);
  EXPECT_TRUE(leaf->latch.validate(leaf_version)) << "cooling alone disturbs nobody";
  while (!swip->is_evicted()) rounds(1);
  EXPECT_FALSE(parent->latch.validate(parent_version));
  EXPECT_FALSE(leaf->latch.validate(leaf_version));
}

TEST_F(EvictionTest, a_page_met_while_cool_gets_its_second_chance) {
  Frame *leaf = ToyTree(worker_.ctx, *file_).frame_of(1);
  u64 reads = test_.pool().stats().reads;
  Swip *swip = swip_at(&reinterpret_cast<ToyDir *>(test_.pool().page(dir()))->swips[1]);
  while (swip->is_hot()) rounds(1);
  if (swip->is_evicted()) return;  // met twice in one round
  EXPECT_EQ(leaf->state.load(), FrameState::kCool);
  u64 value;
  LS_ASSERT_OK(ToyTree(worker_.ctx, *file_).read(1, &value));
  EXPECT_TRUE(swip->is_hot());
  EXPECT_EQ(leaf->state.load(), FrameState::kHot);
  EXPECT_EQ(test_.pool().stats().reads, reads);
}

// FRAME-2
TEST_F(EvictionTest, a_page_with_a_child_in_memory_stays_and_is_hot_again) {
  Frame *parent = dir();
  // cannot be evicted
  SharedGuard leaf = SharedGuard::lock(test_.pool(), ToyTree(worker_.ctx, *file_).frame_of(1));
  auto *meta = reinterpret_cast<MetaPage *>(test_.pool().page(file_->meta.load()));
  auto *root = reinterpret_cast<ToyDir *>(test_.pool().page(Swip{meta->root}.frame()));
  // As if it was cooled while a worker was on the way through it to the leaf.
  root->swips[0] = Swip::cool(parent).raw;
  parent->state.store(FrameState::kCool);
  rounds(30);
  EXPECT_EQ(root->swips[0], Swip::hot(parent).raw);
  EXPECT_EQ(parent->state.load(), FrameState::kHot);
  leaf.reset();
  while (Swip{root->swips[0]}.is_swizzled()) rounds(1);  // then leaf, directory and all
}

// Leaves that come and go: leaf i belongs to thread i % kThreads.
struct Reuse {
  static constexpr u32 kThreads = 3;
  static constexpr u64 kAbsent = ~u64{0};

  TestPool &test;
  FileSlot &file;
  std::vector<u64> expected = std::vector<u64>(kLeaves, kAbsent);
  std::atomic<u32> failures{0};
  std::atomic<bool> done{false};

  Reuse(TestPool &t, FileSlot &f) : test(t), file(f) {}
  void work(u32 thread) {
    TestWorker worker(test, thread + 1);
    ToyTree tree(worker.ctx, file);
    u64 random = thread * 7919 + 1;
    for (u32 i = 0; i < 1500; i++) {
      const u32 leaf = next(random, kLeaves / kThreads) * kThreads + thread;
      const u32 what = next(random, 10);
      u64 &value = expected[leaf];
      u64 found = value;
      Status status = kOk;
      if (value == kAbsent) {
        status = tree.add_leaf(leaf);
        value = found = 0;
      } else if (what < 3) {
        status = tree.remove_leaf(leaf);
        value = found = kAbsent;
      } else if (what < 7) {
        status = tree.increment(leaf, nullptr);
        found = ++value;
      } else {
        status = tree.read(leaf, &found);
      }
      if (!ok(status) || found != value) failures.fetch_add(1);
    }
  }
  void flush_until_done() {
    TestWorker worker(test, kThreads + 1);
    while (!done.load(std::memory_order_acquire)) {
      if (!ok(test.pool().flush(worker.ctx, ~Gsn{0}, true))) failures.fetch_add(1);
      test.pool().oldest_dirty();
    }
  }
  // In the file as it was opened last.
  void check_all(ToyTree tree, u32 *present) {
    for (u32 i = 0; i < kLeaves; i++) {
      u64 value;
      Status status = tree.read(i, &value);
      if (expected[i] == kAbsent) {
        EXPECT_EQ(code(status), LS_CORRUPT) << "leaf " << i;
        continue;
      }
      ++*present;
      LS_ASSERT_OK(status);
      EXPECT_EQ(value, expected[i]) << "leaf " << i;
    }
  }
};

// Pages are freed and their numbers used again while older images of them are being written.
TEST_P(PageProviderTest, pages_freed_and_reused_keep_their_newest_content) {
  bool logged = GetParam();
  TestPool test(100);
  test.start_providers(2);
  TestWorker main(test, 0);
  FileSlot *file;
  LS_ASSERT_OK(ToyTree::open(test, main.ctx, 7, logged, &file));
  Reuse run(test, *file);
  std::vector<std::thread> threads;
  for (u32 t = 0; t < Reuse::kThreads; t++) threads.emplace_back([&run, t] { run.work(t); });
  std::thread checkpointer([&run] { run.flush_until_done(); });
  for (std::thread &t : threads) t.join();
  run.done.store(true, std::memory_order_release);
  checkpointer.join();
  EXPECT_EQ(run.failures.load(), 0u);
  EXPECT_EQ(test.provider_failures(), 0u);
  LS_ASSERT_OK(test.pool().flush(main.ctx, ~Gsn{0}, true));
  EXPECT_EQ(test.pool().stats().dirty, 0u);
  test.crash();
  test.start_providers(1);
  TestWorker again(test, 0);
  LS_ASSERT_OK(ToyTree::open(test, again.ctx, 7, logged, &file));
  u32 present = 0;
  ASSERT_NO_FATAL_FAILURE(run.check_all(ToyTree(again.ctx, *file), &present));
  auto *meta = reinterpret_cast<MetaPage *>(test.pool().page(file->meta.load()));
  EXPECT_EQ(meta->page_count, kDirs + 2 + present + meta->free_total);
}
INSTANTIATE_TEST_SUITE_P(Logging, PageProviderTest, ::testing::Bool(),
                         [](const auto &info) { return info.param ? "logged" : "unlogged"; });

// Redo of a leaf's increments, if `entry` is one; counts those that the page did not have.
void redo_increment(TestPool &test, PagesOneByOne &pages, FileSlot &file, const LogEntry &entry,
                    u32 *applied) {
  const LogRecord record = entry.record();
  LogBytes ops = record.body;
  LogOp op;
  if (!has_page_operations(record.kind) || load_op(&ops, &op) != nullptr || op.code != kToyOp)
    return;
  u64 value;
  std::memcpy(&value, op.operands.data(), sizeof value);
  Frame *frame;
  LS_ASSERT_OK(pages.get(file, op.page, &frame));
  auto *leaf = reinterpret_cast<ToyLeaf *>(test.pool().page(frame));
  if (leaf->header.gsn < entry.gsn) {
    EXPECT_EQ(leaf->value + 1, value)
        << "page " << op.page << " misses a change before GSN " << entry.gsn;
    leaf->set(leaf->index, value);
    test.pool().mark_dirty(frame, entry.gsn);
    ++*applied;
  }
  frame->latch.unlock_exclusive();
}

// The bound that log truncation relies on: pages plus the records from the bound on give every
// value back.
// FRAME-3
TEST(OldestDirtyTest, redo_from_the_bound_restores_every_value) {
  register_toy_tree();
  TestPool test(100);
  test.start_providers(2);
  TestWorker main(test, 0);
  FileSlot *file;
  LS_ASSERT_OK(ToyTree::open(test, main.ctx, 7, true, &file));
  LS_ASSERT_OK(ToyTree(main.ctx, *file).add_leaves(kLeaves));
  LS_ASSERT_OK(test.pool().flush(main.ctx, ~Gsn{0}, false));
  Load run(test, *file);
  std::atomic<bool> done{false};
  Gsn redo_from = 0;
  std::thread checkpointer([&] {
    TestWorker worker(test, 4);
    while (!done.load(std::memory_order_acquire)) {
      Gsn hardened = test.log().hardened();
      Gsn bound = std::min(hardened + 1, test.pool().oldest_dirty());
      EXPECT_GE(bound, redo_from);
      redo_from = bound;
      if (!ok(test.pool().flush(worker.ctx, redo_from + 200, false)))
        run.failed(last_error().message);
    }
  });
  auto work = [&run](u32 operations) {
    std::vector<std::thread> threads;
    for (u32 slot = 1; slot <= 3; slot++)
      threads.emplace_back([&run, slot, operations] { run.work(slot, operations, 60); });
    for (std::thread &t : threads) t.join();
  };
  work(1500);
  done.store(true, std::memory_order_release);
  checkpointer.join();
  work(200);  // there is always something to redo
  EXPECT_EQ(run.failures.load(), 0u) << run.first_failure;
  ASSERT_TRUE(test.log().wait_hardened(test.log().last_gsn(), nullptr));

  FileNo file_no = file->file_no;
  LogImage image = test.crash();
  EXPECT_GT(redo_from, image.entries.size() / 4) << "the bound hardly moved";
  TestWorker redo(test, 0);
  LS_ASSERT_OK(ToyTree::open(test, redo.ctx, 7, true, &file, file_no));
  PagesOneByOne pages(test.pool(), redo.ctx);
  u32 applied = 0;
  for (const LogEntry &entry : image.entries) {
    if (entry.gsn < redo_from) continue;
    ASSERT_NO_FATAL_FAILURE(redo_increment(test, pages, *file, entry, &applied));
  }
  EXPECT_GT(applied, 0u);
  pages.all().finish();
  EXPECT_GT(test.pool().stats().dirty, 1u) << "what is read again comes from memory, in part";
  test.start_providers(1);
  Load reread(test, *file);
  for (u32 i = 0; i < kLeaves; i++) reread.expected[i].store(run.expected[i].load());
  reread.check_all();
}

TEST(ForgetTest, forgetting_a_file_in_use_ends_in_not_found_and_frees_every_frame) {
  register_toy_tree();
  TestPool test(100);
  test.start_providers(1);
  TestWorker main(test, 0);
  FileSlot *file, *other;
  LS_ASSERT_OK(ToyTree::open(test, main.ctx, 7, false, &file));
  LS_ASSERT_OK(ToyTree::open(test, main.ctx, 8, false, &other));
  LS_ASSERT_OK(ToyTree(main.ctx, *file).add_leaves(200));
  LS_ASSERT_OK(ToyTree(main.ctx, *other).add_leaves(100));
  std::atomic<u32> wrong{0}, ready{0};
  std::vector<std::thread> threads;
  for (u32 slot = 1; slot <= 3; slot++) {
    threads.emplace_back([&, slot] {
      TestWorker worker(test, slot);
      ToyTree tree(worker.ctx, *file);
      u64 random = slot * 1234567891ull + 1;
      for (u32 i = 0;; i++) {
        if (i == 100) ready.fetch_add(1);
        u64 value;
        u32 leaf = next(random, 200);
        Status status = i % 3 ? tree.read(leaf, &value) : tree.increment(leaf, nullptr);
        if (code(status) == LS_NOT_FOUND) return;
        if (!ok(status)) {
          wrong.fetch_add(1);
          return;
        }
      }
    });
  }
  while (ready.load() < 3) std::this_thread::yield();
  test.pool().forget_file(ToyTree::key_of(7));
  for (std::thread &t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0u);
  // The provider clears the slot; the other file is untouched.
  for (int i = 0; i < 2000 && !file_is(*file, FileState::kUnused); i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(file_is(*file, FileState::kUnused)) << file->frames.load() << " frames left";
  u64 value;
  for (u32 i = 0; i < 100; i++) LS_EXPECT_OK(ToyTree(main.ctx, *other).read(i, &value));
  // The same name again is a new, empty tree under a new number.
  FileSlot *anew;
  std::filesystem::remove(test.path("rel7"));
  FileNo before = test.pool().next_file_no();
  LS_ASSERT_OK(ToyTree::open(test, main.ctx, 7, false, &anew));
  EXPECT_GE(anew->file_no.load(), before);
  EXPECT_EQ(code(ToyTree(main.ctx, *anew).read(1, &value)), LS_CORRUPT);
  EXPECT_EQ(test.provider_failures(), 0u);
}

}  // namespace
}  // namespace ls::buffer_test
