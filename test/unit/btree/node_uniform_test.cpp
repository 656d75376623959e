// node_uniform_test.cpp - leaves with keys of one length and without values: when they are uniform,
// and how they stop being so.
#include <gtest/gtest.h>

#include <cstring>

#include "btree/node_entries.hpp"
#include "unit/btree/node_helpers.hpp"

namespace ls {
namespace {

using namespace test;

std::string index_key(u64 value) { return int_key(value).substr(4) + int_key(value * 7).substr(3); }

// Fills the leaf in no order; the model has the entries afterwards.
void fill(Node *node, Model *model) {
  std::mt19937_64 random(23);
  for (;;) {
    const std::string key = index_key(1000 + random() % 50000);
    if (model->count(key)) continue;
    if (!node->fits(as_bytes(key), 0)) return;
    node->insert(as_bytes(key), {});
    (*model)[key] = "";
  }
}

struct Leaf : PageBuffer {
  Leaf() { node()->init(true, 0, as_bytes(index_key(1000)), as_bytes(index_key(60000)), true); }
};

bool is_uniform(PageBuffer &page) { return page.node()->layout == NodeLayout::kUniform; }

TEST(UniformLeaf, integer_index_entries_take_seven_bytes) {
  Leaf leaf;
  Model model;
  fill(leaf.node(), &model);
  ASSERT_TRUE(is_uniform(leaf));
  expect_same(leaf.node(), model);
  // two bytes of prefix, four in the head
  EXPECT_EQ(leaf.node()->prefix_bytes, 2);
  EXPECT_EQ(leaf.node()->stored_bytes(0), kUniformSlotBytes + 9u - 2u - 4u);
  EXPECT_GT(model.size(), 540u);
  EXPECT_LT(leaf.node()->free_bytes(), leaf.node()->stored_bytes(0));
  for (u64 i = 0; i < 3000; i++) expect_found(leaf.node(), model, index_key(1000 + i * 19 % 50000));
}

TEST(UniformLeaf, ends_with_the_first_entry_of_another_size) {
  for (const bool other_key : {false, true}) {
    Leaf leaf;
    Model model;
    fill(leaf.node(), &model);
    const std::string key = other_key ? index_key(2001) + "x" : index_key(2001),
                      value = other_key ? "" : "1";
    const u32 bytes = static_cast<u32>(value.size());
    // In full: there is room for no larger slot.
    EXPECT_FALSE(leaf.node()->fits(as_bytes(key), bytes));
    EXPECT_FALSE(leaf.node()->has_room(
        as_bytes(key), Node::most_entry_bytes(static_cast<u32>(key.size()), bytes)));
    while (!leaf.node()->fits(as_bytes(key), bytes)) {
      bool found;
      leaf.node()->remove(leaf.node()->lower_bound(as_bytes(model.begin()->first), &found));
      model.erase(model.begin());
    }
    ASSERT_TRUE(is_uniform(leaf));
    const u32 free = leaf.node()->free_bytes(),
              takes = leaf.node()->entry_bytes(as_bytes(key), bytes);
    EXPECT_GT(takes, model.size() * kEnlarging);
    leaf.node()->insert(as_bytes(key), as_bytes(value));
    model[key] = value;
    EXPECT_FALSE(is_uniform(leaf));
    EXPECT_EQ(leaf.node()->free_bytes(), free - takes);
    expect_same(leaf.node(), model);
  }
}

// A caller that asks for a leaf gives bytes alone; of those that an entry without a value takes no
// more than the small slot counts.
TEST(UniformLeaf, has_room_for_one_more_as_long_as_it_fits) {
  for (const u32 value_bytes : {0u, 1u, 200u}) {
    Leaf leaf;
    Model model;
    fill(leaf.node(), &model);
    for (const std::string &key : {index_key(2001), index_key(2001) + "x"}) {
      while (leaf.node()->count > 0) {
        const bool has_room = leaf.node()->has_room(
            as_bytes(key), Node::most_entry_bytes(static_cast<u32>(key.size()), value_bytes));
        ASSERT_TRUE(!has_room || leaf.node()->fits(as_bytes(key), value_bytes));
        if (value_bytes == 0 && key.size() == 9) {
          ASSERT_EQ(has_room, leaf.node()->fits(as_bytes(key), 0));
        }
        leaf.node()->remove_front(1);
      }
      EXPECT_TRUE(leaf.node()->has_room(
          as_bytes(key), Node::most_entry_bytes(static_cast<u32>(key.size()), value_bytes)));
      model.clear();
      fill(leaf.node(), &model);
    }
  }
}

TEST(UniformLeaf, a_value_ends_it) {
  Leaf leaf;
  Model model;
  fill(leaf.node(), &model);
  EXPECT_TRUE(leaf.node()->resize_value(3, 0));
  EXPECT_TRUE(is_uniform(leaf));
  EXPECT_FALSE(leaf.node()->resize_value(3, 8)) << "in full";
  expect_same(leaf.node(), model);
  while (leaf.node()->free_bytes() < leaf.node()->count * kEnlarging + 8) {
    leaf.node()->remove(0);
    model.erase(model.begin());
  }
  ASSERT_TRUE(leaf.node()->resize_value(3, 8));
  std::memset(leaf.node()->value_data(3), 'x', 8);
  std::next(model.begin(), 3)->second = "xxxxxxxx";
  EXPECT_FALSE(is_uniform(leaf));
  expect_same(leaf.node(), model);
}

TEST(UniformLeaf, an_empty_one_takes_any_shape) {
  Leaf leaf;
  Model model;
  fill(leaf.node(), &model);
  while (leaf.node()->count > 40) leaf.node()->remove(static_cast<u16>(leaf.node()->count / 2));
  leaf.node()->remove_front(leaf.node()->count);
  ASSERT_EQ(leaf.node()->verify(), nullptr);
  EXPECT_EQ(leaf.node()->used_bytes(), 0u);
  for (const u32 bytes : {9u, 12u, 2 + kMaxUniformKeyBytes, 3 + kMaxUniformKeyBytes}) {
    for (const std::string &value : {std::string(), std::string("value")}) {
      const std::string key = index_key(3000) + std::string(bytes - 9, 'k');
      leaf.node()->insert(as_bytes(key), as_bytes(value));
      const bool dense = bytes <= 2 + kMaxDenseKeyBytes;
      EXPECT_EQ(leaf.node()->layout == NodeLayout::kDense, dense);
      EXPECT_EQ(is_uniform(leaf), !dense && value.empty() && bytes <= 2 + kMaxUniformKeyBytes);
      expect_same(leaf.node(), {{key, value}});
      leaf.node()->remove(0);
    }
  }
}

TEST(UniformLeaf, front_and_slices) {
  Leaf leaf;
  Model model;
  fill(leaf.node(), &model);
  leaf.node()->remove_front(17);
  model.erase(model.begin(), std::next(model.begin(), 17));
  expect_same(leaf.node(), model);
  expect_slices(leaf.node());
}

// Both halves of a uniform leaf are uniform, and so is what is merged of them; with another shape
// beside it, if that fits.
TEST(UniformLeaf, splits_and_merges) {
  Leaf leaf;
  Model model;
  fill(leaf.node(), &model);
  PageBuffer right, merged;
  const std::string separator = split_in_the_middle(leaf.node(), index_key(20001), right.node());
  EXPECT_TRUE(is_uniform(leaf) && is_uniform(right));
  ASSERT_TRUE(leaf.node()->merge(right.node(), as_bytes(separator), merged.node()));
  EXPECT_TRUE(is_uniform(merged));
  expect_same(merged.node(), model);

  const std::string odd = key_at(right.node(), 0);
  ASSERT_TRUE(right.node()->resize_value(0, 2));
  std::memset(right.node()->value_data(0), 'x', 2);
  EXPECT_FALSE(is_uniform(right));
  model[odd] = "xx";
  EXPECT_FALSE(leaf.node()->merge(right.node(), as_bytes(separator), merged.node()))
      << "slots of all are too large";
  while (leaf.node()->count > 150) {
    leaf.node()->remove(0);
    model.erase(model.begin());
  }
  while (right.node()->count > 100) {
    right.node()->remove(static_cast<u16>(right.node()->count - 1));
    model.erase(std::prev(model.end()));
  }
  ASSERT_TRUE(leaf.node()->merge(right.node(), as_bytes(separator), merged.node()));
  EXPECT_FALSE(is_uniform(merged));
  expect_same(merged.node(), model);
}

// As Node.insertions_ascending_between_others_split_behind_themselves: here the run is noted, for
// the heap does not tell.
TEST(UniformLeaf, runs_of_insertions_are_noted) {
  Leaf leaf;
  for (u64 i = 0; i < 8; i++)
    leaf.node()->insert(as_bytes(index_key(i < 4 ? 2000 + i : 40000 + i)), {});
  u64 next = 10000;
  while (leaf.node()->fits(as_bytes(index_key(next)), 0))
    leaf.node()->insert(as_bytes(index_key(next++)), {});
  ASSERT_TRUE(is_uniform(leaf));
  u8 separator[kMaxKeyBytes];
  u16 pos, bytes;
  leaf.node()->choose_split(as_bytes(index_key(next)), &pos, separator, &bytes);
  EXPECT_EQ(pos, leaf.node()->count - 4);
  leaf.node()->choose_split(as_bytes(index_key(3000)), &pos, separator, &bytes);
  EXPECT_NEAR(pos, leaf.node()->count / 2, leaf.node()->count / 8)
      << "a key that belongs elsewhere";
  leaf.node()->remove(2);
  leaf.node()->choose_split(as_bytes(index_key(next)), &pos, separator, &bytes);
  EXPECT_NEAR(pos, leaf.node()->count / 2, leaf.node()->count / 8) << "the places have moved";
}

// A page of the format before may be an empty leaf that becomes uniform: a version of the engine
// that knows that format alone must not read it.
TEST(UniformLeaf, says_so_in_the_format_of_its_page) {
  Leaf leaf;
  leaf.node()->header.format = kOldestPageFormat;
  EXPECT_EQ(leaf.node()->verify(), nullptr);
  leaf.node()->insert(as_bytes(index_key(2000)), {});
  EXPECT_EQ(leaf.node()->header.format, kPageFormat);
  leaf.node()->header.format = kOldestPageFormat;
  EXPECT_NE(leaf.node()->verify(), nullptr);
}

TEST(UniformLeaf, verify_sees_each_kind_of_damage) {
  using Damage = void (*)(Node *);
  const Damage damages[] = {
      [](Node *n) { n->count++; },
      [](Node *n) { n->count = kMaxEntries + 1; },
      [](Node *n) { n->heap_used++; },
      [](Node *n) { n->heap_start = static_cast<u16>(n->heap_start - 3); },
      [](Node *n) { n->layout = NodeLayout::kSlots; },
      [](Node *n) { n->layout = static_cast<NodeLayout>(3); },
      [](Node *n) { n->key_bytes++; },
      [](Node *n) { n->key_bytes = 0; },
      [](Node *n) { n->reserved = 1; },
      [](Node *n) { page_bytes(n)[sizeof(Node) + 5 * kUniformSlotBytes + 3] ^= 0xff; },
      [](Node *n) { n->prefix_bytes = 1; },
      [](Node *n) { n->is_leaf = 0; },
  };
  for (size_t i = 0; i < std::size(damages); i++) {
    Leaf leaf;
    Model model;
    fill(leaf.node(), &model);
    ASSERT_EQ(leaf.node()->verify(), nullptr);
    damages[i](leaf.node());
    EXPECT_NE(leaf.node()->verify(), nullptr) << "damage " << i;
  }
}

}  // namespace
}  // namespace ls
