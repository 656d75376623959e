// tree_limit_test.cpp - a file that has as many pages as it can have: what needs another one is
// refused before anything is changed, wherever in a split, a growth of the root or a build that is.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "buffer/page_allocator.hpp"
#include "unit/btree/tree_helpers.hpp"
#include "unit/engine_fixture.hpp"

namespace ls {
namespace {

using test::EngineFixture;
using test::int_key;
using test::Model;
using test::TreeUser;

// Entries that fit no file with the pages that it may have here.
constexpr u64 kFarBeyond = 5000;

class TreeLimit : public ::testing::TestWithParam<bool> {
 protected:
  ~TreeLimit() override { most_pages.store(kMostPages); }
  u32 page_count(FileSlot &file) {
    SharedGuard guard = SharedGuard::lock(engine.pool(), file.meta.load());
    return reinterpret_cast<const MetaPage *>(guard.page())->page_count;
  }
  EngineFixture engine;
  EngineFixture::Worker worker{engine, 0};
};

// Each limit meets another step: leaf splits, splits of two levels, a root that grows.
TEST_P(TreeLimit, a_full_file_refuses_splits_and_stays_whole) {
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, GetParam()));
  const std::string value(300, 'v');
  std::mt19937_64 random(3);
  Model model;
  for (u32 limit = 2; limit < 60; limit++) {
    most_pages.store(limit);
    while (model.size() < kFarBeyond) {
      // Few beginnings: separators are long, and inner pages soon full.
      const std::string key = int_key(random() % 5) + std::string(200, 'k') + int_key(random());
      if (!user.insert(key, value)) break;
      model[key] = value;
    }
    ASSERT_EQ(last_error().status, LS_NO_PAGES) << last_error().message;
    ASSERT_LE(page_count(user.file), limit);
    ASSERT_EQ(user.file.pages_reserved.load(), 0u);
    BTree::CheckResult result;
    ASSERT_TRUE(user.verify(&result));
    ASSERT_TRUE(test::same(user.scan(), model));
    // What needs no page goes on.
    const std::string gone = model.begin()->first;
    ASSERT_TRUE(user.remove(gone));
    model.erase(gone);
  }
  EXPECT_GT(model.size(), 200u);
  most_pages.store(kMostPages);
  for (u32 i = 0; i < 100; i++) ASSERT_TRUE(user.insert(int_key(i), value));
  BTree::CheckResult result;
  ASSERT_TRUE(user.verify(&result));
  EXPECT_GT(result.inner_pages, 2u);
}

TEST_P(TreeLimit, workers_beside_each_other_stay_below) {
  FileSlot &file = *engine.open(worker.ctx, 1, GetParam());
  constexpr u32 kWorkers = 4, kLimit = 40;
  most_pages.store(kLimit);
  std::vector<std::thread> threads;
  std::atomic<u64> inserted{0};
  for (u32 t = 0; t < kWorkers; t++) {
    threads.emplace_back([&, t] {
      EngineFixture::Worker own(engine, t + 1);
      TreeUser user(own.ctx, file);
      std::mt19937_64 random(t);
      while (inserted < kFarBeyond && user.insert(int_key(random()), std::string(200, 'v')))
        inserted++;
      EXPECT_EQ(last_error().status, LS_NO_PAGES);
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_LE(page_count(file), kLimit);
  TreeUser user(worker.ctx, file);
  BTree::CheckResult result;
  ASSERT_TRUE(user.verify(&result));
  EXPECT_EQ(result.entries, inserted.load());
}

TEST_P(TreeLimit, a_build_ends_with_the_error) {
  FileSlot &file = *engine.open(worker.ctx, 1, GetParam());
  BTree tree(worker.ctx, file);
  most_pages.store(20);
  alignas(64) u8 page[kPageSize] = {};
  Node *leaf = reinterpret_cast<Node *>(page);
  Status status = kOk;
  std::string from;
  for (u64 i = 1; ok(status) && i < kFarBeyond; i++) {
    const std::string to = int_key(i);
    leaf->init(true, 0, test::as_bytes(from), test::as_bytes(to), true);
    leaf->insert(test::as_bytes(int_key(i - 1) + "x"), {});
    status = tree.fill_last_leaf(*leaf);
    from = to;
  }
  EXPECT_EQ(code(status), LS_NO_PAGES);
  BTree::CheckResult result;
  EXPECT_EQ(code(tree.verify(&result, nullptr, nullptr)), LS_OK) << last_error().message;
  EXPECT_EQ(result.pages, 20u);
}

INSTANTIATE_TEST_SUITE_P(Logging, TreeLimit, ::testing::Bool(),
                         [](const auto &info) { return info.param ? "logged" : "unlogged"; });

}  // namespace
}  // namespace ls
