// node_dense_test.cpp - leaves with numbers near each other as keys: when they are dense, how they
// are searched, and how they stop being so.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "btree/node_entries.hpp"
#include "unit/btree/node_helpers.hpp"

namespace ls {
namespace {

using namespace test;

constexpr u64 kFirst = 0x123456789a00;

bool is_dense(PageBuffer &page) { return page.node()->layout == NodeLayout::kDense; }
std::string row_key(u64 number) { return int_key(kFirst + number); }

// Keys from row_key(0) on, below row_key(10000), or without an upper fence.
struct Leaf : PageBuffer {
  explicit Leaf(bool last = false) {
    node()->init(true, 0, as_bytes(row_key(0)), as_bytes(row_key(10000)), !last);
  }
};

void put(PageBuffer &page, Model &model, const std::string &key, const std::string &value) {
  page.node()->insert(as_bytes(key), as_bytes(value));
  model[key] = value;
}

// Rows one behind the other until the leaf is full.
void fill(PageBuffer &page, Model &model, u64 first, u32 value_bytes) {
  for (u64 i = first; page.node()->fits(as_bytes(row_key(i)), value_bytes); i++)
    put(page, model, row_key(i), std::string(value_bytes, 'v'));
}

TEST(DenseLeaf, a_row_takes_four_bytes_beside_its_value) {
  for (const bool last : {false, true}) {
    Leaf leaf(last);
    Model model;
    fill(leaf, model, 7, 33);
    ASSERT_TRUE(is_dense(leaf));
    expect_same(leaf.node(), model);
    EXPECT_EQ(leaf.node()->stored_bytes(0), kDenseSlotBytes + 33);
    EXPECT_EQ(leaf.node()->prefix_bytes, last ? 0 : 6);
    EXPECT_EQ(model.size(), (kNodeSpace - (last ? 8u : 16u)) / 37);
    for (u64 i = 0; i < 10000; i += 3) expect_found(leaf.node(), model, row_key(i));
  }
}

// In any order, with gaps, before the first one; values of all sizes.
TEST(DenseLeaf, any_numbers_that_are_near_each_other) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; round++) {
    Leaf leaf(round % 2);
    Model model;
    const u64 low = random() % 5000, span = 1 + random() % (kMaxDenseDistance + 1);
    for (int i = 0; i < 120; i++) {
      const std::string key = row_key(low + random() % span),
                        value = random_bytes(random, random() % 60, 256);
      if (model.count(key) || !leaf.node()->fits(as_bytes(key), static_cast<u32>(value.size())))
        continue;
      put(leaf, model, key, value);
      ASSERT_TRUE(is_dense(leaf));
    }
    expect_same(leaf.node(), model);
    for (u64 at = low < 300 ? 0 : low - 300; at < low + 600; at++) {
      expect_found(leaf.node(), model, row_key(at));
      // behind its own beginning
      expect_found(leaf.node(), model, row_key(at) + '\0');
      // before all that begin with it
      if (at >= 256) expect_found(leaf.node(), model, row_key(at).substr(0, 7));
    }
    while (!model.empty()) {
      const u16 pos = static_cast<u16>(random() % model.size());
      leaf.node()->remove(pos);
      model.erase(std::next(model.begin(), pos));
      expect_same(leaf.node(), model);
    }
  }
}

TEST(DenseLeaf, values_change_their_length_as_far_as_there_is_room) {
  std::mt19937_64 random(6);
  Leaf leaf;
  Model model;
  fill(leaf, model, 0, 20);
  EXPECT_FALSE(leaf.node()->resize_value(3, 40)) << "in full";
  for (int i = 0; i < 5000; i++) {
    auto entry = std::next(model.begin(), static_cast<long>(random() % model.size()));
    const u16 pos = static_cast<u16>(std::distance(model.begin(), entry));
    const u32 bytes = static_cast<u32>(random() % 41), old = static_cast<u32>(entry->second.size()),
              free = leaf.node()->free_bytes();
    const bool fits = bytes <= old + free;
    ASSERT_EQ(leaf.node()->resize_value(pos, bytes), fits);
    if (!fits) continue;
    ASSERT_EQ(leaf.node()->free_bytes(), free + old - bytes);
    entry->second = random_bytes(random, bytes, 256);
    std::memcpy(leaf.node()->value_data(pos), entry->second.data(), bytes);
    ASSERT_TRUE(is_dense(leaf));
    if (i % 16 == 0) expect_same(leaf.node(), model);
  }
  expect_same(leaf.node(), model);
}

// A key of another length, or too far away: all get slots with everything, and it is known before
// what that takes.
TEST(DenseLeaf, ends_with_a_key_that_is_different) {
  for (const std::string &key : {row_key(1000), row_key(30) + "x", row_key(512).substr(0, 7)}) {
    Leaf leaf(true);
    Model model;
    fill(leaf, model, 20, 30);
    EXPECT_FALSE(leaf.node()->fits(as_bytes(key), 30));
    EXPECT_FALSE(leaf.node()->has_room(as_bytes(key),
                                       Node::most_entry_bytes(static_cast<u32>(key.size()), 30)));
    while (!leaf.node()->has_room(as_bytes(key),
                                  Node::most_entry_bytes(static_cast<u32>(key.size()), 30))) {
      leaf.node()->remove(3);
      model.erase(std::next(model.begin(), 3));
    }
    ASSERT_TRUE(is_dense(leaf));
    const u32 free = leaf.node()->free_bytes(), takes = leaf.node()->entry_bytes(as_bytes(key), 30);
    EXPECT_GT(takes, model.size() * (sizeof(Slot) - kDenseSlotBytes));
    put(leaf, model, key, std::string(30, 'x'));
    EXPECT_EQ(leaf.node()->layout, NodeLayout::kSlots);
    EXPECT_EQ(leaf.node()->free_bytes(), free - takes);
    expect_same(leaf.node(), model);
  }
}

// Entries without values begin dense, and are uniform when they are too far apart.
TEST(DenseLeaf, becomes_uniform_where_no_entry_has_a_value) {
  for (const bool value : {false, true}) {
    Leaf leaf(true);
    Model model;
    for (u64 i = 0; i < 40; i++) put(leaf, model, row_key(100 + 3 * i), "");
    ASSERT_TRUE(is_dense(leaf));
    const u32 free = leaf.node()->free_bytes(),
              takes = leaf.node()->entry_bytes(as_bytes(row_key(5000)), value);
    put(leaf, model, row_key(5000), value ? "1" : "");
    EXPECT_EQ(leaf.node()->layout, value ? NodeLayout::kSlots : NodeLayout::kUniform);
    EXPECT_EQ(leaf.node()->free_bytes(), free - takes);
    expect_same(leaf.node(), model);
  }
}

// A change of a value's length must find the room that it asked for, whatever its size is.
TEST(DenseLeaf, has_room_means_that_a_value_may_grow) {
  Leaf leaf;
  Model model;
  fill(leaf, model, 0, 30);
  for (u32 removed = 0; removed < 3; removed++) {
    for (u32 need = 1; need < 120; need++) {
      const bool has_room = leaf.node()->has_room(as_bytes(row_key(50)), need);
      ASSERT_EQ(has_room, need <= leaf.node()->free_bytes()) << need;
    }
    leaf.node()->remove(0);
  }
}

TEST(DenseLeaf, front_and_slices) {
  Leaf leaf;
  Model model;
  fill(leaf, model, 0, 33);
  leaf.node()->remove_front(17);
  model.erase(model.begin(), std::next(model.begin(), 17));
  expect_same(leaf.node(), model);
  expect_slices(leaf.node());
}

TEST(DenseLeaf, splits_and_merges) {
  Leaf leaf;
  Model model;
  fill(leaf, model, 40, 33);
  PageBuffer right, merged;
  const std::string separator = split_in_the_middle(leaf.node(), row_key(60), right.node());
  ASSERT_TRUE(is_dense(leaf) && is_dense(right));
  ASSERT_TRUE(leaf.node()->merge(right.node(), as_bytes(separator), merged.node()));
  EXPECT_TRUE(is_dense(merged));
  expect_same(merged.node(), model);
}

// Row ids that ascend leave full leaves behind, as in any other layout.
TEST(DenseLeaf, insertions_at_the_end_leave_it_full) {
  Leaf leaf(true);
  Model model;
  fill(leaf, model, 0, 33);
  u8 separator[kMaxKeyBytes];
  u16 pos, bytes;
  const u16 all = leaf.node()->count;
  leaf.node()->choose_split(as_bytes(row_key(all)), &pos, separator, &bytes);
  EXPECT_EQ(pos, all);
  PageBuffer right;
  leaf.node()->copy_right(pos, {separator, bytes}, right.node());
  leaf.node()->truncate_right(pos, {separator, bytes});
  expect_same(leaf.node(), model);
  EXPECT_LE(leaf.node()->free_bytes(), 37u + 16u);
}

TEST(DenseLeaf, says_so_in_the_format_of_its_page) {
  for (const u8 format : {kOldestPageFormat, kUniformLeafFormat}) {
    Leaf leaf;
    leaf.node()->header.format = format;
    EXPECT_EQ(leaf.node()->verify(), nullptr);
    leaf.node()->insert(as_bytes(row_key(3)), as_bytes("value"));
    EXPECT_EQ(leaf.node()->header.format, kPageFormat);
    EXPECT_EQ(leaf.node()->verify(), nullptr);
    leaf.node()->header.format = format;
    EXPECT_NE(leaf.node()->verify(), nullptr);
  }
}

TEST(DenseLeaf, verify_sees_each_kind_of_damage) {
  const auto change_slot = [](Node *n, u32 pos, u32 by) {
    u8 *at = page_bytes(n) + sizeof(Node) + pos * kDenseSlotBytes;
    u32 slot;
    std::memcpy(&slot, at, sizeof slot);
    slot += by;
    std::memcpy(at, &slot, sizeof slot);
  };
  const std::function<void(Node *)> damages[] = {
      [](Node *n) { n->count++; },
      [](Node *n) { n->count = kMaxDenseDistance + 2; },
      [](Node *n) { n->heap_used++; },
      [](Node *n) { n->heap_start = static_cast<u16>(n->heap_start + 3); },
      [](Node *n) { n->layout = NodeLayout::kSlots; },
      [](Node *n) { n->layout = NodeLayout::kUniform; },
      [](Node *n) { n->layout = static_cast<NodeLayout>(3); },
      [](Node *n) { n->key_bytes++; },
      [](Node *n) { n->key_bytes = 0; },
      [](Node *n) { n->key_bytes = 9; },
      [](Node *n) { n->dense_base = ~u64{0} - 3; },
      [](Node *n) { n->dense_base = 0x10000; },
      [](Node *n) { n->dense_base = 20000; },
      [](Node *n) { n->uniform_run = 1; },
      [](Node *n) { n->reserved = 1; },
      [](Node *n) { n->prefix_bytes = 1; },
      [](Node *n) { n->is_leaf = 0; },
      [&](Node *n) { change_slot(n, 5, 1); },                 // offset
      [&](Node *n) { change_slot(n, 5, 1 << 12); },           // length
      [&](Node *n) { change_slot(n, 5, 1 << 24); },           // distance: that of the next one
      [&](Node *n) { change_slot(n, 5, u32{0} - (1 << 24)); },
  };
  for (size_t i = 0; i < std::size(damages); i++) {
    Leaf leaf;
    Model model;
    fill(leaf, model, 7, 33);
    ASSERT_EQ(leaf.node()->verify(), nullptr);
    damages[i](leaf.node());
    EXPECT_NE(leaf.node()->verify(), nullptr) << "damage " << i;
  }
}

// The rest of it looks like a smaller one.
TEST(DenseLeaf, verify_sees_a_number_that_is_too_long_for_its_key) {
  PageBuffer leaf;
  leaf.node()->init(true, 0, as_bytes(row_key(0)), as_bytes(row_key(255)), true);
  for (const u64 number : {250, 252, 254}) leaf.node()->insert(as_bytes(row_key(number)), {});
  ASSERT_TRUE(is_dense(leaf));
  ASSERT_EQ(leaf.node()->key_bytes, 1);
  ASSERT_EQ(leaf.node()->verify(), nullptr);
  u8 *slot = page_bytes(leaf.node()) + sizeof(Node);
  slot[3] = static_cast<u8>(slot[3] + 10);
  EXPECT_EQ(key_at(leaf.node(), 0), row_key(4));
  EXPECT_NE(leaf.node()->verify(), nullptr);
}

}  // namespace
}  // namespace ls
