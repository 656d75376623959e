// batch_lookup_test.cpp - hints found for many keys together are right, or are noticed to be
// outdated.
#include "btree/batch_lookup.hpp"

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
using test::TreeUser;

std::string value_of(u64 key) {
  return std::string(20 + key % 90, static_cast<char>('a' + key % 26));
}

std::string at_hint(BTree &tree, const LeafHint &hint) {
  u8 out[kPageSize];
  u32 bytes;
  if (!tree.value_at(hint, out, sizeof out, &bytes)) return "-";
  return std::string(out, out + bytes);
}

// What look-ups of these keys, even ones, find ahead.
struct Batch {
  std::vector<std::string> keys;
  std::vector<LeafHint> hints;

  Batch(BufferPool &pool, FileSlot &file, const std::vector<u64> &numbers) : hints(numbers.size()) {
    for (u64 n : numbers) keys.push_back(int_key(n));
    BatchLookup batch_lookup(pool);
    for (size_t i = 0; i < keys.size(); i++)
      batch_lookup.add(file, test::as_bytes(keys[i]), &hints[i]);
    batch_lookup.run();
  }
};

// As a caller with a hint looks up.
ls_status look_up(BTree &tree, const std::string &key, const LeafHint &hint, u8 *out, u32 *bytes) {
  if (tree.value_at(hint, out, kPageSize, bytes)) return LS_OK;
  return code(tree.lookup(test::as_bytes(key), out, kPageSize, bytes));
}

TEST(BatchLookup, finds_what_is_there_and_nothing_else) {
  constexpr u64 kCount = 60'000;  // three levels
  EngineFixture engine({.pool_bytes = u64{32} << 20});
  EngineFixture::Worker worker(engine, 0);
  FileSlot *file = engine.open(worker.ctx, 1, false);
  TreeUser user(worker.ctx, *file);
  for (u64 i = 0; i < kCount; i++) ASSERT_TRUE(user.insert(int_key(2 * i), value_of(2 * i)));
  BTree::CheckResult result;
  ASSERT_TRUE(user.verify(&result));
  ASSERT_GT(result.inner_pages, 2u);

  std::mt19937_64 random(1);
  for (int round = 0; round < 200; round++) {
    std::vector<u64> numbers(random() % BatchLookup::kMax + 1);
    for (u64 &n : numbers) n = random() % (2 * kCount + 10);
    Batch batch(engine.pool(), *file, numbers);
    for (size_t i = 0; i < numbers.size(); i++) {
      const bool present = numbers[i] % 2 == 0 && numbers[i] < 2 * kCount;
      ASSERT_EQ(at_hint(user.tree, batch.hints[i]), present ? value_of(numbers[i]) : "-")
          << numbers[i];
    }
  }
}

TEST(BatchLookup, several_trees_of_different_height) {
  EngineFixture engine({.pool_bytes = u64{16} << 20});
  EngineFixture::Worker worker(engine, 0);
  FileSlot *files[3];
  for (u32 t = 0; t < 3; t++) {
    files[t] = engine.open(worker.ctx, 1 + t, false);
    TreeUser user(worker.ctx, *files[t]);
    for (u64 i = 0; i < (t == 0 ? 1u : t == 1 ? 500u : 30'000u); i++)
      ASSERT_TRUE(user.insert(int_key(i), value_of(i + t)));
  }
  std::string key = int_key(0);
  LeafHint hints[3];
  BatchLookup batch_lookup(engine.pool());
  for (u32 t = 0; t < 3; t++) batch_lookup.add(*files[t], test::as_bytes(key), &hints[t]);
  batch_lookup.run();
  for (u32 t = 0; t < 3; t++) {
    BTree tree(worker.ctx, *files[t]);
    EXPECT_EQ(at_hint(tree, hints[t]), value_of(t));
  }
}

// Keys of one tree, looked for in every frame there is: a frame is where an entry is, or it says
// nothing.
TEST(BatchLookup, a_guess_may_be_any_frame) {
  EngineFixture engine({.pool_bytes = u64{4} << 20});
  EngineFixture::Worker worker(engine, 0);
  constexpr u64 kCount = 3000;
  FileSlot *files[2];
  for (u32 t = 0; t < 2; t++) {
    files[t] = engine.open(worker.ctx, 1 + t, false);
    TreeUser user(worker.ctx, *files[t]);
    for (u64 i = 0; i < kCount; i++)
      ASSERT_TRUE(user.insert(int_key(i * (t + 1)), value_of(i + t)));
  }
  BTree tree(worker.ctx, *files[0]);
  std::vector<std::string> keys;
  for (u64 i = 0; i < kCount + 100; i += 100) keys.push_back(int_key(i));
  for (u32 f = 0; f < engine.pool().frame_count(); f++) {
    for (size_t from = 0; from < keys.size(); from += BatchLookup::kMax) {
      const size_t n = std::min<size_t>(BatchLookup::kMax, keys.size() - from);
      LeafHint hints[BatchLookup::kMax];
      BatchLookup batch_lookup(engine.pool());
      for (size_t i = 0; i < n; i++)
        batch_lookup.add(*files[0], test::as_bytes(keys[from + i]), &hints[i],
                         engine.pool().frame(f));
      batch_lookup.run();
      for (size_t i = 0; i < n; i++) {
        const u64 number = (from + i) * 100;
        ASSERT_EQ(at_hint(tree, hints[i]), number < kCount ? value_of(number) : "-")
            << number << " in frame " << f;
      }
    }
  }
}

TEST(BatchLookup, outdated_hints_are_noticed) {
  EngineFixture engine({.pool_bytes = u64{8} << 20});
  EngineFixture::Worker worker(engine, 0);
  FileSlot *file = engine.open(worker.ctx, 1, false);
  TreeUser user(worker.ctx, *file);
  for (u64 i = 0; i < 1000; i++) ASSERT_TRUE(user.insert(int_key(i), value_of(i)));
  Batch batch(engine.pool(), *file, {10, 500, 501, 999});
  ASSERT_TRUE(user.upsert(int_key(10), "changed"));
  ASSERT_TRUE(user.remove(int_key(500)));
  for (const LeafHint &hint : {batch.hints[0], batch.hints[1]})
    EXPECT_EQ(at_hint(user.tree, hint), "-");
  // and a look-up with such a hint finds what is there now
  u8 out[kPageSize];
  u32 bytes;
  ASSERT_EQ(look_up(user.tree, batch.keys[0], batch.hints[0], out, &bytes), LS_OK);
  EXPECT_EQ(std::string(out, out + bytes), "changed");
  EXPECT_EQ(look_up(user.tree, batch.keys[1], batch.hints[1], out, &bytes), LS_NOT_FOUND);
  ASSERT_EQ(look_up(user.tree, batch.keys[3], batch.hints[3], out, &bytes), LS_OK);
  EXPECT_EQ(std::string(out, out + bytes), value_of(999));
}

// Splits, merges and evictions between and during the steps: keys that stay are found with the
// value that they have.
TEST(BatchLookup, stable_keys_are_found_among_changes) {
  constexpr u64 kSpacing = 16, kStable = 4000, kWriters = 2;
  EngineFixture engine({.pool_bytes = 300 * kPageSize, .page_providers = 1});
  EngineFixture::Worker main_worker(engine, 15);
  FileSlot *file = engine.open(main_worker.ctx, 1, false);
  TreeUser main_user(main_worker.ctx, *file);
  for (u64 i = 0; i < kStable; i++)
    ASSERT_TRUE(main_user.insert(int_key(i * kSpacing), value_of(i * kSpacing)));

  std::atomic<bool> done{false};
  std::vector<std::thread> writers;
  for (u64 t = 0; t < kWriters; t++) {
    writers.emplace_back([&, t] {
      EngineFixture::Worker worker(engine, static_cast<u32>(t));
      TreeUser user(worker.ctx, *file);
      std::mt19937_64 random(t + 5);
      for (int step = 0; step < 6000; step++) {
        const u64 n = random() % kStable * kSpacing + 1 + random() % (kSpacing - 1);
        if (step / 500 % 2 == 0) {
          ASSERT_TRUE(user.upsert(int_key(n), std::string(random() % 500, 'w')))
              << last_error().message;
        } else {
          (void)user.remove(int_key(n));
        }
      }
    });
  }
  std::thread reader([&] {
    EngineFixture::Worker worker(engine, 8);
    BTree tree(worker.ctx, *file);
    std::mt19937_64 random(9);
    u64 found = 0;
    while (!done.load() && !::testing::Test::HasFatalFailure()) {
      std::vector<u64> numbers(BatchLookup::kMax);
      const u64 begin = random() % kStable;
      for (size_t i = 0; i < numbers.size(); i++)
        numbers[i] = (begin + random() % 64) % kStable * kSpacing;
      Batch batch(engine.pool(), *file, numbers);
      for (size_t i = 0; i < numbers.size(); i++) {
        const std::string ahead = at_hint(tree, batch.hints[i]);
        if (ahead != "-") {
          ASSERT_EQ(ahead, value_of(numbers[i]));
        }
        found += ahead != "-";
        u8 out[kPageSize];
        u32 bytes;
        ASSERT_EQ(look_up(tree, batch.keys[i], batch.hints[i], out, &bytes), LS_OK)
            << last_error().message;
        ASSERT_EQ(std::string(out, out + bytes), value_of(numbers[i]));
      }
    }
    EXPECT_GT(found, 1000u) << "hints were hardly ever good";
  });
  for (auto &thread : writers) thread.join();
  done.store(true);
  reader.join();
  BTree::CheckResult result;
  EXPECT_TRUE(main_user.verify(&result));
}

}  // namespace
}  // namespace ls
