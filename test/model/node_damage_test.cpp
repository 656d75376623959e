// node_damage_test.cpp - a page with wrong bytes under a right checksum is refused, or is as good
// as any other: whatever is done to it stays in the page and leaves a sound one behind.  LS_SEED=n,
// LS_MODEL_SECONDS=n: seeds.hpp.
#include <gtest/gtest.h>

#include <memory>

#include "btree/node_shuffle.hpp"
#include "btree/stored_page.hpp"
#include "btree/tree_redo.hpp"
#include "model/damage.hpp"
#include "model/seeds.hpp"
#include "unit/btree/node_helpers.hpp"

namespace ls {
namespace {

using namespace test;

// On the heap: ASan sees what is beside it.
std::unique_ptr<PageBuffer> copy_of(const Node *node) {
  auto copy = std::make_unique<PageBuffer>();
  std::memcpy(copy->bytes, node, kPageSize);
  return copy;
}

class NodeUser {
 public:
  NodeUser(Damage &damage) : damage_(damage) {}

  // A sound leaf, or an inner node, of any layout and about any number of entries.
  void fill(Node *node) {
    const u32 shape = pick(5);
    const bool leaf = shape != 0, last = pick(4) == 0;
    const std::string prefix(pick(3) == 0 ? pick(200) : 0, 'p');
    node->init(leaf, leaf ? 0 : static_cast<u8>(1 + pick(3)), as_bytes(prefix + int_key(1000)),
               as_bytes(prefix + int_key(1 << 20)), !last);
    node->header.page_no = 7;
    if (!leaf) node->upper_child = Swip::evicted(5).raw;
    const u32 wanted = pick(3) == 0 ? pick(8) : pick(400);
    for (u32 i = 0; i < wanted; i++) {
      const std::string key =
          prefix + (shape == 1   ? int_key(5000 + pick(256))
                    : shape == 2 ? int_key(1001 + pick(1000000)) + "row id"
                                 : int_key(1001 + pick(1000000)) + std::string(pick(30), 'k'));
      const u64 child = Swip::evicted(2 + pick(90)).raw;
      const std::string value = !leaf ? as_string(operand(child))
                                      : std::string(shape == 2 ? 0
                                                    : pick(2)  ? 33
                                                               : pick(60),
                                                    'v');
      bool found;
      node->lower_bound(as_bytes(key), &found);
      if (!found &&
          node->has_room(as_bytes(key),
                         node->entry_bytes(as_bytes(key), static_cast<u32>(value.size())))) {
        node->insert(as_bytes(key), as_bytes(value));
      }
    }
    ASSERT_EQ(stored_page_fault(reinterpret_cast<u8 *>(node), 100), nullptr);
  }

  // Everything that is done to nodes.
  void use(Node *node) {
    for (u32 i = 0; i < 12; i++) {
      look(node);
      node->is_leaf ? change_leaf(node) : change_inner(node);
      const char *wrong = node->verify();
      ASSERT_EQ(wrong, nullptr) << wrong << ", layout " << int(node->layout);
      if (node->is_leaf) pack(node);
      if (pick(3) == 0) divide(node);
    }
  }

 private:
  u32 pick(u32 n) { return damage_.pick(n); }

  // One between the fences; mostly near an entry.
  std::string some_key(const Node *node) {
    for (u32 i = 0; i < 20; i++) {
      std::string key = node->count != 0 && pick(3)
                            ? key_at(node, static_cast<u16>(pick(node->count)))
                            : as_string(node->lower_fence());
      if (pick(2) && !key.empty()) key.back() = static_cast<char>(key.back() + 1);
      if (pick(2)) key += std::string(pick(12), static_cast<char>(pick(256)));
      if (key.size() <= kMaxKeyBytes && node->covers(as_bytes(key))) return key;
    }
    return as_string(node->lower_fence());
  }

  void look(const Node *node) {
    const std::string key = some_key(node), bound = random_bytes(damage_.random(), pick(20), 256);
    bool found;
    const u16 pos = node->lower_bound(as_bytes(key), &found);
    ASSERT_LE(pos, node->count);
    node->position_of(as_bytes(bound));
    node->position_behind(pos, as_bytes(key), as_bytes(bound));
    node->key_is(pos, as_bytes(key));
    node->search_range(as_bytes(key));
    const auto slice = std::make_unique<PageBuffer>();
    for (u16 i = 0; i < node->count; i++) {
      if (node->is_leaf) {
        ASSERT_LE(node->value(i).data() + node->value(i).size(),
                  reinterpret_cast<const u8 *>(node) + kPageSize);
      }
      u8 out[kMaxKeyBytes];
      ASSERT_TRUE(node->covers({out, node->copy_key(i, out)}));
    }
    if (node->is_leaf && node->count > 0)
      node->copy_slice(static_cast<u16>(pick(node->count)), node->count, slice->bytes);
  }

  void change_leaf(Node *node) {
    const std::string key = some_key(node);
    const std::string value(pick(2) ? 0 : pick(80), 'n');
    bool found;
    const u16 pos = node->lower_bound(as_bytes(key), &found);
    switch (pick(5)) {
      case 0:
        if (node->count > 0) node->remove(static_cast<u16>(pick(node->count)));
        return;
      case 1:
        if (node->count > 0)
          (void)node->resize_value(static_cast<u16>(pick(node->count)), pick(120));
        return;
      case 2:
        if (pick(10) == 0) node->remove_front(static_cast<u16>(pick(node->count + 1u)));
        return;
      case 3: node->compact(); return;
      default:
        if (found) {
          (void)put(node, as_bytes(key), as_bytes(value));
        } else if (node->fits(as_bytes(key), static_cast<u32>(value.size()))) {
          EXPECT_EQ(node->insert(as_bytes(key), as_bytes(value)), pos);
        }
    }
  }

  void change_inner(Node *node) {
    const std::string key = some_key(node);
    bool found;
    node->lower_bound(as_bytes(key), &found);
    if (node->count > 0 && pick(3) == 0)
      return remove_child(node, static_cast<u16>(pick(node->count)));
    if (found || !node->fits(as_bytes(key), sizeof(Swip)) ||
        compare_keys(node->lower_fence(), as_bytes(key)) == 0)
      return;
    insert_child(node, as_bytes(key), Swip::evicted(9));
  }

  void pack(const Node *node) {
    std::vector<u8> shuffled(kMostShuffledBytes);
    shuffled.resize(shuffle_leaf(reinterpret_cast<const u8 *>(node), shuffled.data()));
    const auto back = std::make_unique<PageBuffer>();
    ASSERT_TRUE(unshuffle_leaf(shuffled, back->bytes));
  }

  void divide(const Node *node) {
    u8 separator[kMaxKeyBytes];
    u16 pos, bytes;
    const std::string key = some_key(node);
    node->choose_split(as_bytes(key), &pos, separator, &bytes);
    if (bytes == 0) return;
    ASSERT_TRUE(node->is_divided_by(pos, {separator, bytes}));
    const auto left = copy_of(node), right = std::make_unique<PageBuffer>(),
               merged = std::make_unique<PageBuffer>();
    left->node()->copy_right(pos, {separator, bytes}, right->node());
    left->node()->truncate_right(pos, {separator, bytes});
    ASSERT_EQ(left->node()->verify(), nullptr);
    ASSERT_EQ(right->node()->verify(), nullptr);
    if (left->node()->merge(right->node(), {separator, bytes}, merged->node())) {
      ASSERT_EQ(merged->node()->verify(), nullptr);
    }
    if (!node->is_leaf) return;
    const Node *from[] = {left->node(), right->node()};
    Node *to[] = {merged->node()};
    if (Node::spread(from, to)) {
      ASSERT_EQ(merged->node()->verify(), nullptr);
    }
  }

  Damage &damage_;
};

TEST(NodeDamage, a_page_is_refused_or_can_be_used) {
  u64 refused = 0, used = 0;
  each_seed(8, [&](u64 seed) {
    Damage damage(seed);
    NodeUser user(damage);
    for (u32 i = 0; i < 40 && !::testing::Test::HasFatalFailure(); i++) {
      PageBuffer sound;
      user.fill(sound.node());
      for (u32 round = 0; round < 10 && !::testing::Test::HasFatalFailure(); round++) {
        const auto page = copy_of(sound.node());
        damage.page(page->bytes);
        std::vector<u8> shuffled(kMostShuffledBytes);
        (void)shuffle_leaf(page->bytes,
                           shuffled.data());  // of one that was damaged after it was read
        const PageKind kind = page->node()->header.kind;
        if (stored_page_fault(page->bytes, 100) ||
            (kind != PageKind::kLeaf && kind != PageKind::kInner)) {
          refused++;
        } else {
          used++;
          user.use(page->node());
        }
      }
    }
    EXPECT_FALSE(::testing::Test::HasFatalFailure()) << "seed " << seed;
    return !::testing::Test::HasFailure();
  });
  std::cout << refused << " refused, " << used << " used\n";
  EXPECT_GT(refused, 0u);
  EXPECT_GT(used, 0u);
}

}  // namespace
}  // namespace ls
