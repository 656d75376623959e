// btree_model_test.cpp - random operations on a tree against std::map, with a pool smaller than the
// data and restarts in between.  Each seed draws its own shape of keys and values.  LS_SEED=n runs
// that seed alone.
#include <gtest/gtest.h>

#include <random>

#include "model/seeds.hpp"
#include "unit/btree/tree_helpers.hpp"
#include "unit/engine_fixture.hpp"

namespace ls {
namespace {

using test::EngineFixture;
using test::Model;
using test::TreeUser;

#if defined(__SANITIZE_THREAD__)
constexpr u64 kSeeds = 4;
#else
constexpr u64 kSeeds = 12;
#endif

class ModelRun {
 public:
  explicit ModelRun(u64 seed)
      : random_(seed),
        engine_({.pool_bytes = (40 + random_() % 100) * kPageSize}),
        logged_(random_() % 2 == 0),
        key_shape_(random_() % 5) {
    const u32 longest = key_shape_ == 3 ? kMaxKeyBytes : key_shape_ == 4 ? 300 : 16;
    max_value_ = std::min<u32>(random_() % 3 == 0 ? 3000 : 300, Node::max_value_bytes(longest));
    common_.assign(key_shape_ == 3 ? kMaxKeyBytes - 12 : 250, 'p');
  }

  void all() {
    for (int life = 0; life < 3 && !::testing::Test::HasFatalFailure(); life++) {
      {
        EngineFixture::Worker worker(engine_, 0);
        TreeUser user(worker.ctx, *engine_.open(worker.ctx, 1, logged_));
        ASSERT_TRUE(test::same(user.scan(), model_)) << "after a restart";
        for (int step = 0; step < 900 && !::testing::Test::HasFatalFailure(); step++)
          one(user, step);
        BTree::CheckResult result;
        ASSERT_TRUE(user.verify(&result));
        ASSERT_EQ(result.entries, model_.size());
        ASSERT_TRUE(test::same(user.scan(), model_));
        ASSERT_TRUE(test::same(user.scan_backward(), model_));
      }
      engine_.stop();
      engine_.restart();
    }
  }

 private:
  std::string key() {
    switch (key_shape_) {
      case 0: return test::int_key(random_() % 5000);                       // dense
      // spread over everything
      case 1: return test::int_key(random_());
      // short, the empty key too
      case 2: return letters(random_() % 12, 3);
      // long, different at the end
      case 3: return common_ + letters(random_() % 13, 3);
      default:
        return random_() % 2 ? common_ + letters(random_() % 20, 4) : letters(random_() % 40, 26);
    }
  }
  std::string letters(u64 bytes, u64 alphabet) {
    std::string s(bytes, '\0');
    for (char &c : s) c = static_cast<char>(random_() % alphabet);
    return s;
  }
  std::string value() {
    u64 bytes = random_() % 10 == 0 ? random_() % (max_value_ + 1)
                                    : random_() % std::min(max_value_ + 1, 120u);
    return std::string(bytes, static_cast<char>(random_()));
  }

  void one(TreeUser &user, int step) {
    bool shrinks = step / 300 == 1;
    std::string k = key();
    auto it = model_.find(k);
    if (shrinks && it == model_.end() && !model_.empty()) {
      it = model_.lower_bound(k);
      if (it == model_.end()) it = model_.begin();
      k = it->first;
    }
    u64 action = random_() % 20;
    if (action == 0) return look_around(user, k);
    ASSERT_EQ(user.lookup(k), it == model_.end() ? "(not found)" : it->second);
    if (it == model_.end()) {
      ASSERT_FALSE(user.remove(k));
      std::string v = value();
      ASSERT_TRUE(user.insert(k, v)) << last_error().message;
      model_[k] = v;
    } else if (shrinks ? action < 17 : action < 5) {
      ASSERT_TRUE(user.remove(k)) << last_error().message;
      model_.erase(it);
    } else {
      ASSERT_FALSE(user.insert(k, "present already"));
      it->second = value();
      ASSERT_TRUE(user.upsert(k, it->second)) << last_error().message;
    }
  }

  // The leaf around a key and its neighbours to both sides hold what the model holds between their
  // fences.
  void look_around(TreeUser &user, const std::string &k) {
    alignas(8) u8 page[kPageSize];
    const Node *node = reinterpret_cast<const Node *>(page);
    ASSERT_EQ(code(user.tree.leaf_copy(test::as_bytes(k), page)), LS_OK);
    ASSERT_TRUE(node->covers(test::as_bytes(k)));
    ASSERT_NO_FATAL_FAILURE(check_leaf(node));
    std::string lower = test::as_string(node->lower_fence());
    if (lower.empty()) return;
    ASSERT_EQ(code(user.tree.leaf_copy_before(test::as_bytes(lower), false, page)), LS_OK);
    ASSERT_EQ(test::as_string(node->upper_fence()), lower);
    ASSERT_NO_FATAL_FAILURE(check_leaf(node));
    ASSERT_EQ(code(user.tree.leaf_copy_before({}, true, page)), LS_OK);
    ASSERT_FALSE(node->has_upper);
    ASSERT_NO_FATAL_FAILURE(check_leaf(node));
  }
  void check_leaf(const Node *node) {
    auto it = model_.lower_bound(test::as_string(node->lower_fence()));
    auto end =
        node->has_upper ? model_.lower_bound(test::as_string(node->upper_fence())) : model_.end();
    ASSERT_EQ(std::distance(it, end), node->count);
    u8 key[kMaxKeyBytes];
    for (u16 i = 0; i < node->count; i++, ++it) {
      ASSERT_EQ(test::as_string({key, node->copy_key(i, key)}), it->first);
      ASSERT_EQ(test::as_string(node->value(i)), it->second);
    }
  }

  std::mt19937_64 random_;
  EngineFixture engine_;
  bool logged_;
  u64 key_shape_;
  u32 max_value_;
  std::string common_;
  Model model_;
};

TEST(BTreeModel, random_operations_agree_with_a_map_through_evictions_and_restarts) {
  test::each_seed(kSeeds, [](u64 seed) {
    SCOPED_TRACE("LS_SEED=" + std::to_string(seed));
    ModelRun(seed).all();
    return !HasFailure();
  });
}

}  // namespace
}  // namespace ls
