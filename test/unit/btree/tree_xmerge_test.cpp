// Leaves with room to spare are merged, several at a time: what is in them stays, and pages come
// back.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "unit/btree/tree_helpers.hpp"
#include "unit/engine_fixture.hpp"

namespace ls {
namespace {

using test::as_bytes;
using test::as_string;
using test::EngineFixture;
using test::int_key;
using test::Model;
using test::TreeUser;

// ---- pages alone

struct Leaves {
  explicit Leaves(u32 n) : pages(n) {
    for (auto &page : pages) nodes.push_back(reinterpret_cast<Node *>(page.bytes));
  }
  struct alignas(kPageSize) Page { u8 bytes[kPageSize] = {}; };
  std::vector<Page> pages;
  std::vector<Node *> nodes;
  std::span<const Node *const> as_const() {
    return {const_cast<const Node *const *>(nodes.data()), nodes.size()};
  }
};

Model content(const Node &node) {
  Model all;
  u8 key[kMaxKeyBytes];
  for (u16 i = 0; i < node.count; i++)
    all[as_string({key, node.copy_key(i, key)})] = as_string(node.value(i));
  return all;
}

std::string random_key(std::mt19937_64 &random, const std::string &prefix) {
  return prefix + int_key(random() % 100'000) +
         std::string(random() % 30, static_cast<char>('a' + random() % 4));
}

// `n` leaves between the fences m0, m1, ..., each with about `bytes`.
void fill(Leaves &leaves, std::mt19937_64 &random, u32 bytes, Model *model) {
  const u32 n = static_cast<u32>(leaves.nodes.size());
  for (u32 i = 0; i < n; i++) {
    Node &node = *leaves.nodes[i];
    const std::string lower = "m" + std::to_string(i), upper = "m" + std::to_string(i + 1);
    node.header.page_no = 10 + i;
    node.init(true, 0, as_bytes(lower), as_bytes(upper), i + 1 < n);
    while (node.used_bytes() < bytes) {
      const std::string key = random_key(random, lower),
                        value(random() % 60, static_cast<char>('A' + i));
      bool found;
      node.lower_bound(as_bytes(key), &found);
      if (found || !node.has_room(as_bytes(key),
                                  node.entry_bytes(as_bytes(key), static_cast<u32>(value.size()))))
        continue;
      node.insert(as_bytes(key), as_bytes(value));
      (*model)[key] = value;
    }
  }
}

TEST(NodeSpread, entries_go_evenly_to_fewer_pages) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; round++) {
    const u32 n = 2 + round % 4;
    Leaves from(n), to(n - 1);
    Model model;
    fill(from, random, kNodeSpace * 85 / 100 * (n - 1) / n, &model);
    ASSERT_TRUE(Node::spread(from.as_const(), to.nodes));
    Model found;
    std::string lower = "m0";
    for (u32 i = 0; i < n - 1; i++) {
      const Node &node = *to.nodes[i];
      ASSERT_EQ(node.verify(), nullptr) << node.verify();
      EXPECT_EQ(node.header.page_no, 10 + i);
      EXPECT_EQ(as_string(node.lower_fence()), lower);
      EXPECT_EQ(node.has_upper, i + 2 < n);
      lower = as_string(node.upper_fence());
      EXPECT_NEAR(node.used_bytes(), kNodeSpace * 85 / 100, kNodeSpace / 8);
      found.merge(content(node));
    }
    ASSERT_TRUE(test::same(found, model));
  }
}

TEST(NodeSpread, what_does_not_fit_is_refused) {
  std::mt19937_64 random(4);
  for (u32 n = 2; n <= 5; n++) {
    Leaves from(n), to(n - 1);
    Model model;
    fill(from, random, kNodeSpace * 97 / 100, &model);
    EXPECT_FALSE(Node::spread(from.as_const(), to.nodes));
  }
  // A page without entries would be left.
  Leaves from(3), to(2);
  Model model;
  fill(from, random, 0, &model);
  from.nodes[1]->insert(as_bytes("m1x"), as_bytes("one"));
  EXPECT_FALSE(Node::spread(from.as_const(), to.nodes));
}

// ---- trees

u64 leaf_pages(TreeUser &user) {
  BTree::CheckResult result{};
  EXPECT_TRUE(user.verify(&result));
  return result.leaf_pages;
}

bool is_sound(TreeUser &user) { return leaf_pages(user) > 0; }

// Once for each leaf; how many have gone.
u64 x_merge_all(TreeUser &user) {
  u64 count = 0;
  alignas(8) u8 page[kPageSize];
  const Node *node = reinterpret_cast<const Node *>(page);
  for (std::string position;;) {
    bool merged;
    EXPECT_EQ(code(user.tree.x_merge(as_bytes(position), test::any_leaf, &merged)), LS_OK)
        << last_error().message;
    count += merged;
    EXPECT_EQ(code(user.tree.leaf_copy(as_bytes(position), page)), LS_OK);
    if (!node->has_upper) return count;
    position = as_string(node->upper_fence());
  }
}

class XMerge : public ::testing::TestWithParam<bool> {};

TEST_P(XMerge, leaves_of_random_insertions_get_full_and_keep_their_entries) {
  EngineFixture engine({.pool_bytes = u64{16} << 20});
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, GetParam()));
  std::mt19937_64 random(11);
  Model model;
  for (int i = 0; i < 20'000; i++) {
    const std::string key = int_key(random()), value(20 + random() % 40, 'v');
    ASSERT_TRUE(user.insert(key, value)) << last_error().message;
    model[key] = value;
  }
  const u64 before = leaf_pages(user);
  u64 gone = 0;
  for (int pass = 0; pass < 4; pass++) gone += x_merge_all(user);
  const u64 after = leaf_pages(user);
  EXPECT_EQ(after, before - gone);
  EXPECT_LT(after * 100, before * 88);
  EXPECT_TRUE(test::same(user.scan(), model));
  EXPECT_TRUE(test::same(user.scan_backward(), model));
  for (int i = 0; i < 2'000; i++) {
    const std::string key = int_key(random());
    ASSERT_TRUE(user.insert(key, "again")) << last_error().message;
    model[key] = "again";
  }
  EXPECT_TRUE(test::same(user.scan(), model));
  EXPECT_TRUE(is_sound(user));
}

TEST_P(XMerge, full_leaves_and_a_tree_of_one_leaf_are_left_alone) {
  EngineFixture engine;
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, GetParam()));
  EXPECT_EQ(x_merge_all(user), 0u);
  for (u64 i = 0; i < 5'000; i++)
    ASSERT_TRUE(user.insert(int_key(i), std::string(40, 'v'))) << last_error().message;
  const u64 before = leaf_pages(user);
  EXPECT_EQ(x_merge_all(user), 0u);
  EXPECT_EQ(leaf_pages(user), before);
}

// A session that loads a tree fills it.
TEST_P(XMerge, the_last_leaf_is_left_alone) {
  EngineFixture engine;
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, GetParam()));
  for (u64 i = 0; i < 5'000; i++)
    ASSERT_TRUE(user.insert(int_key(i), std::string(40, 'v'))) << last_error().message;
  alignas(8) u8 page[kPageSize];
  const Node *node = reinterpret_cast<const Node *>(page);
  auto shrink = [&](const std::string &before, bool unbounded) {
    for (;;) {
      ASSERT_EQ(code(user.tree.leaf_copy_before(as_bytes(before), unbounded, page)), LS_OK);
      if (node->used_bytes() < kNodeSpace * 46 / 100) return;
      u8 key[kMaxKeyBytes];
      ASSERT_TRUE(user.remove(as_string({key, node->copy_key(0, key)})));
    }
  };
  shrink("", true);
  const std::string last = as_string(node->lower_fence());
  shrink(last, false);
  for (const std::string &key : {last, as_string(node->lower_fence())}) {
    bool merged;
    ASSERT_EQ(code(user.tree.x_merge(as_bytes(key), test::any_leaf, &merged)), LS_OK);
    EXPECT_FALSE(merged);
  }
  ASSERT_EQ(code(user.tree.leaf_copy_before({}, true, page)), LS_OK);
  EXPECT_EQ(as_string(node->lower_fence()), last);
}

// Nor when the parents of the leaves are merged, so that the last leaf has new neighbours.
TEST_P(XMerge, a_bulk_load_goes_on_beside_it) {
  EngineFixture engine;
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, GetParam()));
  alignas(64) u8 page[kPageSize] = {};
  Node *leaf = reinterpret_cast<Node *>(page);
  std::string from;
  u64 gone = 0;
  for (u64 i = 1; i <= 500; i++) {
    // Long separators: a parent has few leaves.
    const std::string long_part(500, 'x'), key = int_key(i - 1) + long_part + "x";
    const std::string to = int_key(i) + long_part;
    leaf->init(true, 0, as_bytes(from), as_bytes(to), true);
    leaf->insert(as_bytes(key), as_bytes(std::string(i % 200, 'v')));
    ASSERT_EQ(code(user.tree.fill_last_leaf(*leaf)), LS_OK) << i << ": " << last_error().message;
    from = to;
    if (i % 10 == 0) gone += x_merge_all(user);
  }
  EXPECT_GT(gone, 100u);
  EXPECT_TRUE(is_sound(user));
}

TEST_P(XMerge, keys_and_separators_of_all_lengths) {
  EngineFixture engine({.pool_bytes = u64{16} << 20});
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, GetParam()));
  std::mt19937_64 random(12);
  Model model;
  u64 gone = 0;
  for (int i = 0; i < 6'000; i++) {
    std::string key =
        int_key(random() % 500) + std::string(random() % 8 == 0 ? random() % 1200 : random() % 40,
                                              static_cast<char>('a' + random() % 2));
    if (random() % 3 == 0 && !model.empty()) {
      auto it = model.lower_bound(key);
      if (it == model.end()) it = model.begin();
      ASSERT_TRUE(user.remove(it->first)) << last_error().message;
      model.erase(it);
    } else {
      const std::string value(random() % 100, 'v');
      ASSERT_TRUE(user.upsert(key, value)) << last_error().message;
      model[key] = value;
    }
    bool merged;
    ASSERT_EQ(code(user.tree.x_merge(as_bytes(key), test::any_leaf, &merged)), LS_OK)
        << last_error().message;
    gone += merged;
    if (i % 500 == 0) {
      ASSERT_TRUE(is_sound(user));
    }
  }
  EXPECT_GT(gone, 100u);
  EXPECT_TRUE(test::same(user.scan(), model));
  EXPECT_TRUE(is_sound(user));
}

// A pool that is too small; what the providers find is merged while others write.
TEST_P(XMerge, providers_find_sparse_leaves_while_others_write) {
  constexpr u64 kWriters = 3;
  constexpr int kSteps = 4'000;
  EngineFixture engine({.pool_bytes = 160 * kPageSize});
  EngineFixture::Worker main_worker(engine, 15);
  FileSlot *file = engine.open(main_worker.ctx, 1, GetParam());
  std::vector<Model> models(kWriters);
  std::vector<std::thread> writers;
  std::atomic<bool> done{false};
  u64 merged = 0;
  for (u64 t = 0; t < kWriters; t++) {
    writers.emplace_back([&, t] {
      EngineFixture::Worker worker(engine, static_cast<u32>(t));
      TreeUser user(worker.ctx, *file);
      std::mt19937_64 random(t + 1);
      for (int i = 0; i < kSteps && !HasFatalFailure(); i++) {
        const std::string key = int_key(random() % 20'000 * kWriters + t),
                          value(random() % 100, static_cast<char>('a' + t));
        ASSERT_TRUE(user.upsert(key, value)) << last_error().message;
        models[t][key] = value;
        if (i % 8 == 0) {
          ASSERT_EQ(user.lookup(key), value);
        }
      }
    });
  }
  std::thread cleaner([&] {
    EngineFixture::Worker worker(engine, 8);
    while (!done.load()) {
      ASSERT_EQ(code(BTree::merge_sparse_leaves(worker.ctx, test::any_leaf, &merged)), LS_OK)
          << last_error().message;
      std::this_thread::yield();
    }
  });
  for (auto &thread : writers) thread.join();
  done.store(true);
  cleaner.join();
  EXPECT_GT(merged, 5u);
  Model expected;
  for (Model &model : models) expected.merge(model);
  TreeUser user(main_worker.ctx, *file);
  EXPECT_TRUE(test::same(user.scan(), expected));
  EXPECT_TRUE(is_sound(user));
}

INSTANTIATE_TEST_SUITE_P(Trees, XMerge, ::testing::Bool(),
                         [](const auto &info) { return info.param ? "logged" : "unlogged"; });

}  // namespace
}  // namespace ls
