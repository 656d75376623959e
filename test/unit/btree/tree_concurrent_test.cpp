// tree_concurrent_test.cpp - several workers in one tree, with far fewer frames than pages, so that
// every page is evicted and read again while others split, merge and scan.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "unit/btree/tree_helpers.hpp"
#include "unit/engine_fixture.hpp"

namespace ls {
namespace {

using test::EngineFixture;
using test::int_key;
using test::Model;
using test::TreeUser;

#if defined(__SANITIZE_THREAD__)
constexpr int kScale = 1;
#else
constexpr int kScale = 4;
#endif

// Keys above this mark are put in once and stay.
constexpr u64 kSpacing = 64;
bool is_stable(u64 key) { return key % kSpacing == 0; }

// Order within and across leaves, and every stable key exactly once.
void scan_once(TreeUser &user, u64 stable_count, bool backward) {
  alignas(8) u8 page[kPageSize];
  const Node *node = reinterpret_cast<const Node *>(page);
  std::string position;
  bool unbounded = true;
  u64 stable = 0;
  u64 next = backward ? (stable_count - 1) * kSpacing : 0;
  for (;;) {
    Status status = backward ? user.tree.leaf_copy_before(test::as_bytes(position), unbounded, page)
                             : user.tree.leaf_copy(test::as_bytes(position), page);
    ASSERT_EQ(code(status), LS_OK) << last_error().message;
    ASSERT_EQ(node->verify(), nullptr);
    u8 key[kMaxKeyBytes];
    for (u16 i = 0; i < node->count; i++) {
      u16 pos = backward ? static_cast<u16>(node->count - 1 - i) : i;
      std::string text = test::as_string({key, node->copy_key(pos, key)});
      // a merge or split since the last copy may show parts of it again
      if (!unbounded && (backward ? text >= position : text < position)) continue;
      u64 value = test::key_int({key, 8});
      if (!is_stable(value)) continue;
      ASSERT_EQ(value, next) << "a stable key is missing or out of place";
      next = backward ? next - kSpacing : next + kSpacing;
      stable++;
    }
    unbounded = false;
    if (backward ? node->lower_bytes == 0 : !node->has_upper) break;
    position = test::as_string(backward ? node->lower_fence() : node->upper_fence());
  }
  ASSERT_EQ(stable, stable_count);
}

// One worker on keys that are its own: whatever the others do, they are as it left them.
void change_own_keys(TreeUser &user, u64 thread, u64 threads, u64 stable_count, int steps,
                     Model *model) {
  std::mt19937_64 random(thread + 77);
  for (int step = 0; step < steps && !::testing::Test::HasFatalFailure(); step++) {
    u64 number = random() % (stable_count * kSpacing);
    number = number / threads * threads + thread;
    if (is_stable(number)) continue;
    std::string key = int_key(number);
    bool grows = step / 400 % 3 != 2;
    auto it = model->find(key);
    if (it == model->end() && grows) {
      std::string value(random() % 300, static_cast<char>('a' + thread));
      ASSERT_TRUE(user.insert(key, value)) << last_error().message;
      (*model)[key] = value;
    } else if (!grows && !model->empty()) {
      it = model->lower_bound(key);
      if (it == model->end()) it = model->begin();
      ASSERT_EQ(user.lookup(it->first), it->second);
      ASSERT_TRUE(user.remove(it->first)) << last_error().message;
      model->erase(it);
    } else if (it != model->end()) {
      std::string value(random() % 600, 'u');
      ASSERT_TRUE(user.upsert(key, value)) << last_error().message;
      it->second = value;
    }
  }
}

class Concurrent : public ::testing::TestWithParam<bool> {};

TEST_P(Concurrent, own_keys_and_scans_stay_right_while_others_split_merge_and_evict) {
  constexpr u64 kWriters = 4, kStable = 300;
  EngineFixture engine({.pool_bytes = 96 * kPageSize, .page_providers = 1});
  EngineFixture::Worker main_worker(engine, 15);
  FileSlot *file = engine.open(main_worker.ctx, 1, GetParam());
  TreeUser main_user(main_worker.ctx, *file);
  for (u64 i = 0; i < kStable; i++)
    ASSERT_TRUE(main_user.insert(int_key(i * kSpacing), std::string(30, 's')));

  std::vector<Model> models(kWriters);
  std::atomic<bool> done{false};
  std::atomic<u64> scans{0};
  std::vector<std::thread> writers, scanners;
  for (u64 t = 0; t < kWriters; t++) {
    writers.emplace_back([&, t] {
      EngineFixture::Worker worker(engine, static_cast<u32>(t));
      TreeUser user(worker.ctx, *file);
      change_own_keys(user, t, kWriters, kStable, 1500 * kScale, &models[t]);
    });
  }
  for (u32 t = 0; t < 2; t++) {
    scanners.emplace_back([&, t] {
      EngineFixture::Worker worker(engine, 8 + t);
      TreeUser user(worker.ctx, *file);
      while (!done.load() && !::testing::Test::HasFatalFailure()) {
        scan_once(user, kStable, t == 1);
        scans++;
      }
    });
  }
  std::thread checker([&] {
    EngineFixture::Worker worker(engine, 12);
    BTree tree(worker.ctx, *file);
    while (!done.load()) {
      BTree::CheckResult result;
      Status status = tree.verify(&result, nullptr, nullptr);
      ASSERT_EQ(code(status), LS_OK) << last_error().page_no << ": " << last_error().message;
    }
  });
  for (auto &thread : writers) thread.join();
  done.store(true);
  for (auto &thread : scanners) thread.join();
  checker.join();

  Model expected;
  for (u64 i = 0; i < kStable; i++) expected[int_key(i * kSpacing)] = std::string(30, 's');
  for (Model &model : models) expected.merge(model);
  EXPECT_TRUE(test::same(main_user.scan(), expected));
  EXPECT_TRUE(test::same(main_user.scan_backward(), expected));
  BTree::CheckResult result;
  EXPECT_TRUE(main_user.verify(&result));
  EXPECT_EQ(result.entries, expected.size());
  PoolStats stats = engine.pool().stats();
  EXPECT_GT(scans.load(), 0u);
  EXPECT_GT(stats.evictions, 500u) << "the pool was meant to be too small";
}

INSTANTIATE_TEST_SUITE_P(Trees, Concurrent, ::testing::Bool(),
                         [](const auto &info) { return info.param ? "logged" : "unlogged"; });

// The same keys by all: increments under the leaf's latch, none lost, with neighbours coming and
// going.
TEST(TreeConcurrent, no_increment_of_a_shared_key_is_lost) {
  constexpr u64 kThreads = 6, kCounters = 50;
  EngineFixture engine({.pool_bytes = 64 * kPageSize});
  EngineFixture::Worker main_worker(engine, 15);
  FileSlot *file = engine.open(main_worker.ctx, 1, false);
  TreeUser main_user(main_worker.ctx, *file);
  for (u64 i = 0; i < kCounters; i++)
    ASSERT_TRUE(main_user.insert(int_key(i * 1000), std::string(8, '\0')));
  std::atomic<u64> increments{0};
  std::vector<std::thread> threads;
  for (u64 t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      EngineFixture::Worker worker(engine, static_cast<u32>(t));
      TreeUser user(worker.ctx, *file);
      std::mt19937_64 random(t);
      for (int i = 0; i < 800 * kScale; i++) {
        std::string key = int_key(random() % kCounters * 1000);
        {
          ExclusiveGuard leaf;
          ASSERT_EQ(code(user.tree.leaf_exclusive(test::as_bytes(key), 0, leaf)), LS_OK)
              << last_error().message;
          Node *node = reinterpret_cast<Node *>(leaf.page());
          bool found;
          u16 pos = node->lower_bound(test::as_bytes(key), &found);
          ASSERT_TRUE(found);
          u64 value;
          std::memcpy(&value, node->value_data(pos), 8);
          value++;
          std::memcpy(node->value_data(pos), &value, 8);
          engine.pool().mark_dirty(leaf.frame(), 0);
        }
        increments++;
        // neighbours that all threads insert and remove, in any order
        std::string other = int_key(random() % kCounters * 1000 + 1 + random() % 20);
        if (random() % 2) (void)user.insert(other, std::string(random() % 500, 'n'));
        else (void)user.remove(other);
      }
    });
  }
  for (auto &thread : threads) thread.join();
  u64 sum = 0;
  for (u64 i = 0; i < kCounters; i++) {
    u64 value;
    std::memcpy(&value, main_user.lookup(int_key(i * 1000)).data(), 8);
    sum += value;
  }
  EXPECT_EQ(sum, increments.load());
  EXPECT_EQ(sum, kThreads * 800 * kScale);
  BTree::CheckResult result;
  EXPECT_TRUE(main_user.verify(&result));
}

// A queue: several append at the right edge, one takes away at the left.
TEST(TreeConcurrent, queue_hands_out_every_entry_once) {
  constexpr u64 kProducers = 3;
  const u64 kEach = 3000 * kScale;
  EngineFixture engine({.pool_bytes = 64 * kPageSize});
  EngineFixture::Worker main_worker(engine, 15);
  FileSlot *file = engine.open(main_worker.ctx, 1, false, LS_REL_VERSIONS);
  std::atomic<u64> ticket{0};
  // smallest ticket a producer may still insert
  std::vector<std::atomic<u64>> reached(kProducers);
  std::vector<std::thread> producers;
  for (u64 t = 0; t < kProducers; t++) {
    producers.emplace_back([&, t] {
      EngineFixture::Worker worker(engine, static_cast<u32>(t));
      TreeUser user(worker.ctx, *file);
      for (u64 i = 0; i < kEach; i++) {
        u64 mine = ticket.fetch_add(1);
        ASSERT_TRUE(user.insert(int_key(mine), std::string(50, 'q'))) << last_error().message;
        reached[t].store(mine + 1);
      }
      reached[t].store(~u64{0});
    });
  }
  struct Taken {
    std::vector<u8> times;
  } taken{std::vector<u8>(kProducers * kEach)};
  auto take = [](void *arg, Bytes key, Bytes) {
    static_cast<Taken *>(arg)->times[test::key_int(key)]++;
    return true;
  };
  TreeUser user(main_worker.ctx, *file);
  u64 removed = 0, bound = 0;
  while (bound != ~u64{0}) {
    bound = ~u64{0};
    for (auto &r : reached) bound = std::min(bound, r.load());
    u64 count = 0;
    ASSERT_EQ(
        code(user.tree.remove_before(test::as_bytes(int_key(bound)), 16, &taken, take, &count)),
        LS_OK)
        << last_error().message;
    removed += count;
    std::this_thread::yield();
  }
  for (auto &thread : producers) thread.join();
  u64 count = 0;
  ASSERT_EQ(
      code(user.tree.remove_before(test::as_bytes(int_key(~u64{0})), ~0u, &taken, take, &count)),
      LS_OK);
  removed += count;
  EXPECT_EQ(removed, kProducers * kEach);
  for (u8 times : taken.times) ASSERT_EQ(times, 1);
  BTree::CheckResult result;
  EXPECT_TRUE(user.verify(&result));
  EXPECT_EQ(result.entries, 0u);
  EXPECT_LT(result.pages, 10u);
}

// The frame of a page that another worker has just given back is soon the new page of a third one,
// latched until the meta page is free.  The holder of the meta page must not wait for a frame
// merely because it was a parent a moment ago.
TEST(TreeConcurrent, structure_changes_do_not_wait_for_frames_that_have_been_reused) {
  constexpr u64 kThreads = 6, kKeys = 24;
  EngineFixture engine({.pool_bytes = 64 * kPageSize});
  EngineFixture::Worker main_worker(engine, 15);
  FileSlot *file = engine.open(main_worker.ctx, 1, false);
  std::vector<std::thread> threads;
  for (u64 t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      EngineFixture::Worker worker(engine, static_cast<u32>(t));
      TreeUser user(worker.ctx, *file);
      // two entries to a leaf and long separators: inner pages come and go, and the root with them
      std::string prefix(600, static_cast<char>('a' + t));
      for (int round = 0; round < 50 * kScale * kScale; round++) {
        for (u64 i = 0; i < kKeys; i++)
          ASSERT_TRUE(user.insert(prefix + int_key(i * 7 % kKeys), std::string(900, 'v')));
        for (u64 i = 0; i < kKeys; i++)
          ASSERT_TRUE(user.remove(prefix + int_key(i))) << last_error().message;
      }
    });
  }
  for (auto &thread : threads) thread.join();
  TreeUser user(main_worker.ctx, *file);
  EXPECT_TRUE(user.scan().empty());
  BTree::CheckResult result;
  EXPECT_TRUE(user.verify(&result));
  EXPECT_GT(engine.pool().stats().merges, 1000u);
}

// Files are dropped while threads work in them.
TEST(TreeConcurrent, dropped_file_ends_in_not_found_and_gives_its_frames_back) {
  EngineFixture engine({.pool_bytes = 128 * kPageSize});
  EngineFixture::Worker main_worker(engine, 15);
  for (u32 round = 0; round < 5; round++) {
    FileSlot *file = engine.open(main_worker.ctx, round, true);
    std::vector<std::thread> threads;
    std::atomic<u32> working{0};
    for (u32 t = 0; t < 3; t++) {
      threads.emplace_back([&, t] {
        EngineFixture::Worker worker(engine, t);
        TreeUser user(worker.ctx, *file);
        std::mt19937_64 random(t + round * 10);
        for (u64 i = 0;; i++) {
          if (i == 300) working++;
          if (user.insert(int_key(random()), std::string(200, 'x'))) continue;
          ASSERT_EQ(last_error().status, LS_NOT_FOUND) << last_error().message;
          return;
        }
      });
    }
    while (working.load() < 3) std::this_thread::yield();
    engine.pool().forget_file(EngineFixture::key_of(round));
    for (auto &thread : threads) thread.join();
    for (int i = 0; i < 5000 && file->frames.load() != 0; i++)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(file->frames.load(), 0u);
  }
}

}  // namespace
}  // namespace ls
