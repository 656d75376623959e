// node_test.cpp - a node alone: searching, changing, splitting and merging against std::map.
#include "btree/node.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "leanstore/engine.h"
#include "unit/btree/node_helpers.hpp"

namespace ls {
namespace {

using namespace test;

TEST(Node, keys_of_every_length_up_to_the_head_are_told_apart) {
  PageBuffer page;
  Node *node = page.node();
  node->init(true, 0, {}, {}, false);
  Model model;
  for (size_t bytes = 0; bytes <= 7; bytes++)
    for (char fill : {'\0', '\1', 'a', '\xff'})
      model[std::string(bytes, fill)] = std::to_string(bytes);
  std::vector<std::string> keys;
  for (const auto &entry : model) keys.push_back(entry.first);
  std::shuffle(keys.begin(), keys.end(), std::mt19937(7));
  for (const auto &key : keys) node->insert(as_bytes(key), as_bytes(model[key]));
  expect_same(node, model);
  for (const auto &key : keys) {
    expect_found(node, model, key);
    expect_found(node, model, key + std::string(1, '\0'));
  }
}

TEST(Node, keys_are_compared_as_memcmp_does) {
  std::mt19937 random(5);
  for (u32 i = 0; i < 200'000; i++) {
    std::string a(random() % 40, '\0'), b(random() % 40, '\0');
    for (std::string *key : {&a, &b}) {
      for (char &c : *key) c = "\0\1\x7f\x80\xff"[random() % 5];
    }
    // Mostly with much in common.
    const size_t common = random() % (std::min(a.size(), b.size()) + 1);
    b.replace(0, common, a, 0, common);
    const int order = compare_keys(as_bytes(a), as_bytes(b)), expected = a.compare(b);
    ASSERT_EQ(order < 0, expected < 0);
    ASSERT_EQ(order > 0, expected > 0);
  }
}

TEST(Node, hints_lead_to_the_right_slot_at_every_count) {
  PageBuffer page;
  Node *node = page.node();
  node->init(true, 0, as_bytes(int_key(1000)), as_bytes(int_key(70000)), true);
  EXPECT_EQ(node->prefix_bytes, 5);
  Model model;
  std::mt19937_64 random(11);
  while (true) {
    std::string key = int_key(1000 + random() % 60000);
    if (model.count(key)) continue;
    if (!node->fits(as_bytes(key), 1)) break;
    node->insert(as_bytes(key), as_bytes("v"));
    model[key] = "v";
    ASSERT_EQ(node->verify(), nullptr);
    for (int i = 0; i < 4; i++) expect_found(node, model, int_key(1000 + random() % 60000));
  }
  EXPECT_GT(model.size(), 300u);
  while (!model.empty()) {
    auto it = std::next(model.begin(), static_cast<long>(random() % model.size()));
    bool found;
    u16 pos = node->lower_bound(as_bytes(it->first), &found);
    ASSERT_TRUE(found);
    node->remove(pos);
    model.erase(it);
    ASSERT_EQ(node->verify(), nullptr);
    expect_found(node, model, int_key(1000 + random() % 60000));
  }
  EXPECT_EQ(node->used_bytes(), 0u);
}

// All keys have the same head, and many the same twelve bytes; some rests lie at the very end of
// the page.
TEST(Node, keys_with_equal_heads_are_told_apart) {
  std::mt19937_64 random(19);
  for (const bool fenced : {false, true}) {
    PageBuffer page;
    Node *node = page.node();
    node->init(true, 0, {}, fenced ? as_bytes("t") : Bytes{}, fenced);
    Model model;
    const auto some_key = [&] {
      return "same" + random_bytes(random, random() % 3 * 4 + random() % 4, 2) +
             random_bytes(random, random() % 9, 2);
    };
    for (int i = 0; i < 120; i++) {
      const std::string key = some_key();
      if (model.count(key) || !node->fits(as_bytes(key), 0)) continue;
      node->insert(as_bytes(key), {});
      model[key] = "";
      expect_found(node, model, some_key());
    }
    expect_same(node, model);
    for (int i = 0; i < 20000; i++) expect_found(node, model, some_key());
    for (const char *outside : {"sam", "same", "samf", "a", "szzzzzzzz", ""})
      expect_found(node, model, outside);
  }
}

// Where a range ends is looked for behind where it begins; it may end outside of the node.
TEST(Node, end_of_a_range_is_found_from_its_beginning) {
  PageBuffer page;
  Node *node = page.node();
  node->init(true, 0, as_bytes("ab"), as_bytes("ac"), true);
  Model model;
  std::mt19937_64 random(17);
  for (int i = 0; i < 120; i++) model["ab" + random_bytes(random, random() % 9, 3)] = "v";
  for (const auto &entry : model) node->insert(as_bytes(entry.first), as_bytes(entry.second));
  expect_same(node, model);
  for (int i = 0; i < 20000; i++) {
    const std::string from = "ab" + random_bytes(random, random() % 9, 3);
    const auto first = model.lower_bound(from);
    std::string to = i % 4 == 0   ? from + std::string(1, '\xff')
                     : i % 4 == 1 ? random_bytes(random, random() % 5, 256)
                     : i % 4 == 2 && first != model.end()
                         ? first->first
                         : "ab" + random_bytes(random, random() % 9, 3);
    if (to < from) to = from;
    bool found;
    const u16 begin = node->lower_bound(as_bytes(from), &found);
    ASSERT_EQ(node->position_behind(begin, as_bytes(from), as_bytes(to)),
              std::distance(model.begin(), model.lower_bound(to)));
  }
}

TEST(Node, largest_row_fits_an_empty_leaf_between_two_integer_fences) {
  PageBuffer page;
  Node *node = page.node();
  // no common prefix and no head to save: the worst fences
  std::string low = int_key(u64{1} << 60), high = int_key(u64{200} << 56),
              key = int_key(u64{2} << 60);
  node->init(true, 0, as_bytes(low), as_bytes(high), true);
  std::string row(16 + LS_MAX_ROW_BYTES, 'r');
  ASSERT_LE(Node::most_entry_bytes(8, static_cast<u32>(row.size())), node->free_bytes());
  node->insert(as_bytes(key), as_bytes(row));
  expect_same(node, {{key, row}});
  // the same by growing
  node->init(true, 0, as_bytes(low), as_bytes(high), true);
  node->insert(as_bytes(key), as_bytes("r"));
  ASSERT_TRUE(node->resize_value(0, 3900));
  std::memset(node->value_data(0), 'x', 3900);
  expect_same(node, {{key, std::string(3900, 'x')}});
  ASSERT_FALSE(node->resize_value(0, 4000));
  expect_same(node, {{key, std::string(3900, 'x')}});
}

TEST(Node, one_separator_of_the_largest_size_fits_between_the_largest_fences) {
  PageBuffer page;
  Node *node = page.node();
  std::string low(kMaxKeyBytes, 'a'), key(kMaxKeyBytes, 'b'), high(kMaxKeyBytes, 'c');
  node->init(false, 1, as_bytes(low), as_bytes(high), true);
  node->upper_child = 8;
  u64 child = 16;
  ASSERT_TRUE(node->fits(as_bytes(key), 8));
  node->insert(as_bytes(key), {reinterpret_cast<u8 *>(&child), 8});
  EXPECT_EQ(node->verify(), nullptr);
  EXPECT_EQ(node->child(0)->raw, 16u);
  EXPECT_EQ(node->child(1)->raw, 8u);

  node->init(true, 0, as_bytes(low), as_bytes(high), true);
  EXPECT_LE(Node::most_entry_bytes(kMaxKeyBytes, Node::max_value_bytes(kMaxKeyBytes)),
            node->free_bytes());
}

TEST(Node, child_is_chosen_by_exclusive_upper_separator) {
  PageBuffer page;
  Node *node = page.node();
  node->init(false, 1, {}, {}, false);
  node->upper_child = 1000;
  std::map<std::string, u64> separators;
  std::mt19937_64 random(5);
  for (u64 i = 1; i <= 60; i++) {
    std::string key = random_bytes(random, 1 + random() % 9, 5);
    u64 child = i * 8;
    if (!separators.emplace(key, child).second) continue;
    node->insert(as_bytes(key), {reinterpret_cast<u8 *>(&child), 8});
  }
  ASSERT_EQ(node->verify(), nullptr);
  for (int i = 0; i < 2000; i++) {
    std::string key = random_bytes(random, random() % 10, 5);
    auto above = separators.upper_bound(key);
    u64 expected = above == separators.end() ? 1000 : above->second;
    ASSERT_EQ(node->child(node->child_index(as_bytes(key)))->raw, expected);
  }
}

// ---- random operations, structure changes included

struct Shape {
  const char *name;
  size_t min_key, max_key, max_value;
  int alphabet;
  int same_value = -1;   // so many bytes each value has, but one of 64
};

class NodeModel : public ::testing::TestWithParam<Shape> {};

// A row of sibling leaves and one model each: random changes; full nodes split, small neighbours
// merge.
struct Siblings {
  struct One {
    std::unique_ptr<PageBuffer> page = std::make_unique<PageBuffer>();
    Model model;
  };
  std::vector<One> all;
  u64 splits = 0, merges = 0;

  Siblings() {
    all.emplace_back();
    all[0].page->node()->init(true, 0, {}, {}, false);
  }
  size_t find(const std::string &key) {
    size_t i = 0;
    while (!all.at(i).page->node()->covers(as_bytes(key))) i++;
    return i;
  }
  bool split(size_t i, const std::string &new_key) {
    One &one = all[i];
    u8 separator[kMaxKeyBytes];
    u16 pos, bytes;
    one.page->node()->choose_split(as_bytes(new_key), &pos, separator, &bytes);
    if (bytes == 0) return false;
    std::string s = as_string({separator, bytes});
    One right;
    const PageBuffer before = *one.page;
    const Node *old = reinterpret_cast<const Node *>(before.bytes);
    one.page->node()->copy_right(pos, as_bytes(s), right.page->node());
    one.page->node()->truncate_right(pos, as_bytes(s));
    expect_made_of(one.page->node(), {{old, 0, pos}});
    expect_made_of(right.page->node(), {{old, pos, old->count}});
    EXPECT_EQ(std::distance(one.model.begin(), one.model.lower_bound(s)), pos);
    right.model.insert(one.model.lower_bound(s), one.model.end());
    one.model.erase(one.model.lower_bound(s), one.model.end());
    expect_same(one.page->node(), one.model);
    expect_same(right.page->node(), right.model);
    all.insert(all.begin() + static_cast<long>(i) + 1, std::move(right));
    splits++;
    return true;
  }
  void merge(size_t i) {
    if (i + 1 >= all.size()) return;
    Node *left = all[i].page->node(), *right = all[i + 1].page->node();
    auto out = std::make_unique<PageBuffer>();
    std::string separator = as_string(left->upper_fence());
    if (!left->merge(right, as_bytes(separator), out->node())) return;
    expect_made_of(out->node(), {{left, 0, left->count}, {right, 0, right->count}});
    all[i].page = std::move(out);
    all[i].model.merge(all[i + 1].model);
    all.erase(all.begin() + static_cast<long>(i) + 1);
    expect_same(all[i].page->node(), all[i].model);
    merges++;
  }
};

TEST_P(NodeModel, random_changes_splits_and_merges_keep_every_entry) {
  const Shape shape = GetParam();
  constexpr u64 kSeed = 20240607;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  Siblings siblings;
  for (int step = 0; step < 3000 && !::testing::Test::HasFatalFailure(); step++) {
    std::string key = random_bytes(
        random, shape.min_key + random() % (shape.max_key - shape.min_key + 1), shape.alphabet);
    size_t value_bytes = random() % 8 == 0 ? random() % (shape.max_value + 1)
                                           : random() % (shape.max_value / 16 + 1);
    if (shape.same_value >= 0 && random() % 64 != 0)
      value_bytes = static_cast<size_t>(shape.same_value);
    size_t i = siblings.find(key);
    Node *node = siblings.all[i].page->node();
    Model &model = siblings.all[i].model;
    expect_found(node, model, key);
    bool found;
    u16 pos = node->lower_bound(as_bytes(key), &found);
    u64 action = random() % 10;
    bool shrinks = step / 500 % 2 == 1;
    if (shrinks && !found && pos < node->count) {
      key = key_at(node, pos);
      found = true;
    }
    if (found && action < (shrinks ? 9 : 3)) {
      node->remove(pos);
      model.erase(key);
      if (node->used_bytes() < 400) siblings.merge(random() % 2 && i > 0 ? i - 1 : i);
    } else if (found) {
      std::string value = random_bytes(random, value_bytes, 256), &old = model[key];
      const u32 free = node->free_bytes(),
                enlarging = node->layout == NodeLayout::kUniform ? node->enlarging_bytes() : 0;
      if (!node->resize_value(pos, static_cast<u32>(value_bytes))) {
        ASSERT_GT(value_bytes - old.size() + enlarging, free);
        siblings.split(i, key);
        continue;
      }
      size_t kept = std::min(old.size(), value.size());
      ASSERT_EQ(as_string(node->value(pos)).substr(0, kept), old.substr(0, kept));
      std::memcpy(node->value_data(pos), value.data(), value.size());
      old = value;
    } else if (!shrinks) {
      std::string value = random_bytes(random, value_bytes, 256);
      while (!(node = siblings.all[i = siblings.find(key)].page->node())
                  ->fits(as_bytes(key), static_cast<u32>(value_bytes)))
        ASSERT_TRUE(siblings.split(i, key)) << "an entry within the limits always finds a place";
      u32 free = node->free_bytes(),
          takes = node->entry_bytes(as_bytes(key), static_cast<u32>(value_bytes));
      ASSERT_LE(takes, Node::most_entry_bytes(static_cast<u32>(key.size()),
                                              static_cast<u32>(value_bytes)) +
                           node->enlarging_bytes());
      size_t cut = value.size() / 3;
      node->insert(as_bytes(key), as_bytes(value.substr(0, cut)), as_bytes(value.substr(cut)));
      ASSERT_EQ(node->free_bytes(), free - takes);
      siblings.all[i].model[key] = value;
    }
    if (step % 16 == 0 && i < siblings.all.size())
      expect_same(siblings.all[i].page->node(), siblings.all[i].model);
  }
  for (auto &one : siblings.all) expect_same(one.page->node(), one.model);
  EXPECT_GT(siblings.splits, 1u);
  EXPECT_GT(siblings.merges, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, NodeModel,
    ::testing::Values(Shape{"short_keys", 0, 3, 200, 12}, Shape{"around_the_head", 3, 6, 300, 3},
                      Shape{"integers", 8, 8, 3900, 2},
                      Shape{"long_keys", 0, kMaxKeyBytes, Node::max_value_bytes(kMaxKeyBytes), 2},
                      Shape{"longest_keys", kMaxKeyBytes - 3, kMaxKeyBytes,
                            Node::max_value_bytes(kMaxKeyBytes), 1},
                      Shape{"index_of_integers", 9, 9, 0, 3, 0},
                      Shape{"rows_of_one_size", 8, 8, 300, 3, 40},
                      Shape{"heads_alone", 3, 3, 60, 60, 0}, Shape{"numbers", 1, 1, 400, 256},
                      Shape{"numbers_apart", 2, 2, 120, 256},
                      Shape{"numbers_alone", 2, 2, 60, 256, 0}),
    [](const auto &info) { return info.param.name; });

// What the halves' prefix has more than the node's is cut off each key, in every layout, and comes
// back when they are merged.
TEST(Node, halves_with_a_longer_prefix_are_as_if_made_entry_by_entry) {
  std::mt19937_64 random(7);
  u32 of_layout[3] = {}, longer = 0;
  for (int round = 0; round < 2000; round++) {
    const size_t same = random() % 12, behind = 1 + random() % 9, value_bytes = random() % 3 * 5;
    const bool one_length = random() % 2, with_upper = random() % 2, dense = random() % 3 == 0;
    const std::string start = random_bytes(random, same, 256),
                      middle = random_bytes(random, random() % 8, 256);
    Model model;
    for (int i = 0; i < 40; i++) {
      const size_t bytes = one_length ? behind : 1 + random() % behind;
      const int alphabet = random() % 2 ? 3 : 256;
      const std::string rest =
          dense ? middle + random_bytes(random, 1, 256) : random_bytes(random, bytes, alphabet);
      model[start + rest] = random_bytes(random, value_bytes, 256);
    }
    PageBuffer left, right;
    const std::string upper = start + std::string(12, '\xff');
    left.node()->init(true, 0, as_bytes(start), as_bytes(upper), with_upper);
    for (const auto &[key, value] : model) left.node()->insert(as_bytes(key), as_bytes(value));
    if (left.node()->count < 2) continue;
    const u16 pos = static_cast<u16>(1 + random() % (left.node()->count - 1u));
    u8 separator[kMaxKeyBytes];
    const u16 bytes = left.node()->separator_at(pos, separator);
    ASSERT_GT(bytes, 0);
    const PageBuffer before = left;
    const Node *old = reinterpret_cast<const Node *>(before.bytes);
    left.node()->copy_right(pos, {separator, bytes}, right.node());
    left.node()->truncate_right(pos, {separator, bytes});
    expect_made_of(left.node(), {{old, 0, pos}});
    expect_made_of(right.node(), {{old, pos, old->count}});
    PageBuffer merged;
    ASSERT_TRUE(left.node()->merge(right.node(), {separator, bytes}, merged.node()));
    expect_made_of(merged.node(), {{old, 0, old->count}});
    of_layout[static_cast<int>(old->layout)]++;
    longer += left.node()->prefix_bytes > old->prefix_bytes;
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  for (const u32 n : of_layout) EXPECT_GT(n, 200u);
  EXPECT_GT(longer, 500u);
}

// Keys of a dense leaf that are near the other's first ones, and some that are not.
TEST(Node, dense_leaves_merged_beyond_their_distance_are_dense_no_more) {
  PageBuffer left, right, out;
  const std::string separator = int_key(200);
  left.node()->init(true, 0, {}, as_bytes(separator), true);
  right.node()->init(true, 0, as_bytes(separator), {}, false);
  for (u64 i = 10; i < 60; i++) left.node()->insert(as_bytes(int_key(i)), as_bytes("left"));
  for (u64 i = 200; i < 300; i += 3) right.node()->insert(as_bytes(int_key(i)), as_bytes("right"));
  ASSERT_EQ(left.node()->layout, NodeLayout::kDense);
  ASSERT_EQ(right.node()->layout, NodeLayout::kDense);
  ASSERT_TRUE(left.node()->merge(right.node(), as_bytes(separator), out.node()));
  EXPECT_EQ(out.node()->layout, NodeLayout::kSlots);
  EXPECT_EQ(out.node()->count, left.node()->count + right.node()->count);
  expect_made_of(out.node(), {{left.node(), 0, left.node()->count},
                              {right.node(), 0, right.node()->count}});
}

// Inner nodes: children must follow their separators through splits and merges.
TEST(Node, inner_splits_and_merges_keep_every_child) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 60; round++) {
    PageBuffer page, right, merged;
    Node *node = page.node();
    node->header.page_no = 77;
    node->init(false, 2, as_bytes("m"), as_bytes("mz"), true);
    node->upper_child = Swip::evicted(1).raw;
    size_t longest = 1 + random() % 300;
    std::map<std::string, u64> separators;
    for (u32 i = 2;; i++) {
      std::string key = "m" + random_bytes(random, 1 + random() % longest, 100);
      u64 child = Swip::evicted(i).raw;
      if (separators.count(key)) continue;
      if (!node->fits(as_bytes(key), 8)) break;
      node->insert(as_bytes(key), {reinterpret_cast<u8 *>(&child), 8});
      separators[key] = child;
    }
    ASSERT_EQ(node->verify(), nullptr);
    PageBuffer before = page;

    u8 separator[kMaxKeyBytes];
    u16 pos, bytes;
    std::string new_key = "m" + random_bytes(random, 3, 120);
    node->choose_split(as_bytes(new_key), &pos, separator, &bytes);
    ASSERT_GT(bytes, 0);
    Bytes middle{separator, bytes};
    node->copy_right(pos, middle, right.node());
    node->truncate_right(pos, middle);
    ASSERT_EQ(node->verify(), nullptr);
    ASSERT_EQ(right.node()->verify(), nullptr);
    ASSERT_EQ(node->count + right.node()->count + 1, static_cast<int>(separators.size()));
    ASSERT_EQ(node->header.page_no, 77u);
    for (int i = 0; i < 200; i++) {
      std::string key = "m" + random_bytes(random, random() % 6, 100);
      Node *half = compare_keys(as_bytes(key), middle) < 0 ? node : right.node();
      ASSERT_TRUE(half->covers(as_bytes(key)));
      auto above = separators.upper_bound(key);
      ASSERT_EQ(half->child(half->child_index(as_bytes(key)))->raw,
                above == separators.end() ? Swip::evicted(1).raw : above->second);
    }
    ASSERT_TRUE(node->merge(right.node(), middle, merged.node()));
    ASSERT_EQ(merged.node()->verify(), nullptr);
    ASSERT_EQ(merged.node()->count, before.node()->count);
    for (u16 i = 0; i <= merged.node()->count; i++)
      ASSERT_EQ(merged.node()->child(i)->raw, before.node()->child(i)->raw);
  }
}

TEST(Node, ascending_insertions_leave_the_left_page_full) {
  PageBuffer page;
  Node *node = page.node();
  node->init(true, 0, {}, {}, false);
  std::string value(40, 'v');
  u64 next = 1;
  while (node->fits(as_bytes(int_key(next)), 40))
    node->insert(as_bytes(int_key(next++)), as_bytes(value));
  u8 separator[kMaxKeyBytes];
  u16 pos, bytes;
  node->choose_split(as_bytes(int_key(next)), &pos, separator, &bytes);
  EXPECT_EQ(pos, node->count);
  EXPECT_EQ(as_string({separator, bytes}), int_key(next));
}

// What lies behind a run of insertions goes to the right page, and the run goes on at the end of
// the left one.
TEST(Node, insertions_ascending_between_others_split_behind_themselves) {
  PageBuffer page;
  Node *node = page.node();
  node->init(true, 0, {}, {}, false);
  std::string value(40, 'v');
  for (u64 i = 0; i < 8; i++)
    node->insert(as_bytes(int_key(i < 4 ? i : 1000 + i)), as_bytes(value));
  u64 next = 100;
  while (node->fits(as_bytes(int_key(next)), 40))
    node->insert(as_bytes(int_key(next++)), as_bytes(value));
  u8 separator[kMaxKeyBytes];
  u16 pos, bytes;
  node->choose_split(as_bytes(int_key(next)), &pos, separator, &bytes);
  EXPECT_EQ(pos, node->count - 4);
  EXPECT_GT(compare_keys({separator, bytes}, as_bytes(int_key(next))), 0);
  EXPECT_LE(compare_keys({separator, bytes}, as_bytes(int_key(1004))), 0);

  // A key that belongs elsewhere splits in the middle; so does one of the run that is there.
  for (u64 key : {u64{50}, u64{2}, next - 1}) {
    node->choose_split(as_bytes(int_key(key)), &pos, separator, &bytes);
    EXPECT_NEAR(pos, node->count / 2, node->count / 8) << key;
  }
}

TEST(Node, separators_are_as_short_as_the_keys_allow) {
  PageBuffer page;
  Node *node = page.node();
  node->init(true, 0, {}, {}, false);
  node->insert(as_bytes("apple pie with cream"), as_bytes("1"));
  node->insert(as_bytes("banana split, two scoops"), as_bytes("2"));
  u8 separator[kMaxKeyBytes];
  u16 pos, bytes;
  node->choose_split(as_bytes("apple"), &pos, separator, &bytes);
  EXPECT_EQ(pos, 1);
  EXPECT_EQ(as_string({separator, bytes}), "b");
}

TEST(Node, only_entry_cannot_be_split_from_itself) {
  PageBuffer page;
  Node *node = page.node();
  node->init(true, 0, {}, {}, false);
  u8 separator[kMaxKeyBytes];
  u16 pos, bytes;
  node->choose_split(as_bytes("k"), &pos, separator, &bytes);
  EXPECT_EQ(bytes, 0);
  node->insert(as_bytes("k"), as_bytes("v"));
  node->choose_split(as_bytes("k"), &pos, separator, &bytes);
  EXPECT_EQ(bytes, 0);
  node->choose_split(as_bytes("a"), &pos, separator, &bytes);
  EXPECT_EQ(pos, 0);
  EXPECT_EQ(as_string({separator, bytes}), "k");
  node->choose_split(as_bytes("x"), &pos, separator, &bytes);
  EXPECT_EQ(pos, 1);
}

// NODE-4: what has_room() lets in leaves room for the separator beside it, which may be as long as
// its key, and for the longer one of the fences.
TEST(Node, an_entry_has_room_beside_the_separators_to_come) {
  PageBuffer page;
  Node *node = page.node();
  node->init(true, 0, as_bytes(std::string(kMaxKeyBytes, 'b')), {}, false);
  const std::string key(1000, 'c'), next = key.substr(1) + 'd';
  const u32 most = kNodeSpace - kMaxKeyBytes - 1001;
  const u32 value_bytes = most - Node::most_entry_bytes(1000, 0);
  EXPECT_TRUE(node->fits(as_bytes(key), value_bytes + 500));
  EXPECT_FALSE(node->has_room(as_bytes(key), most + 1));
  ASSERT_TRUE(node->has_room(as_bytes(key), most));
  node->insert(as_bytes(key), as_bytes(std::string(value_bytes, 'v')));
  ASSERT_FALSE(node->has_room(as_bytes(next), most));
  u8 separator[kMaxKeyBytes];
  u16 pos, bytes;
  node->choose_split(as_bytes(next), &pos, separator, &bytes);
  EXPECT_EQ(pos, 1);
  EXPECT_EQ(as_string({separator, bytes}), next);
}

// NODE-5
TEST(Node, same_operations_on_the_same_bytes_give_the_same_bytes) {
  PageBuffer one, two;
  one.node()->init(true, 0, {}, {}, false);
  std::mt19937_64 random(9);
  for (int i = 0; i < 400; i++) {
    if (i == 200) two = one;
    std::string key = random_bytes(random, 1 + random() % 8, 4),
                value = random_bytes(random, random() % 200, 256);
    for (PageBuffer *page : {&one, &two}) {
      if (page == &two && i < 200) continue;
      Node *node = page->node();
      bool found;
      u16 pos = node->lower_bound(as_bytes(key), &found);
      if (found) node->remove(pos);
      else if (node->fits(as_bytes(key), static_cast<u32>(value.size())))
        node->insert(as_bytes(key), as_bytes(value));
    }
  }
  EXPECT_EQ(std::memcmp(one.bytes, two.bytes, kPageSize), 0);
}

// What an optimistic reader may meet: any bytes at all.  Nothing may be read outside of the page.
TEST(Node, reading_methods_stay_inside_the_page_on_any_bytes) {
  std::mt19937_64 random(13);
  auto page = std::make_unique<PageBuffer>();  // on its own: ASan sees an overrun
  for (int round = 0; round < 3000; round++) {
    Node *node = page->node();
    node->init(round % 2, round % 2 ? 0 : 1, as_bytes("abc"), as_bytes("abd"), true);
    for (u64 i = 0; i < 20; i++) {
      // In every fourth round a uniform leaf, in every fifth a dense one.
      std::string key = "abc" + random_bytes(random, round % 5 == 4 ? 1 : 6, 200);
      bool found;
      node->lower_bound(as_bytes(key), &found);
      if (!found) node->insert(as_bytes(key), round % 4 == 3 ? Bytes{} : as_bytes("12345678"));
    }
    for (int i = 0; i < 60; i++)
      page->bytes[24 + random() % (i < 30 ? 400 : 4072)] = static_cast<u8>(random());
    std::string key = random_bytes(random, random() % 20, 256);
    bool found;
    u16 pos = node->lower_bound(as_bytes(key), &found);
    EXPECT_LE(pos, kMaxEntries);
    EXPECT_LE(node->position_behind(static_cast<u16>(random()), as_bytes(key), as_bytes(key + 'x')),
              kMaxEntries);
    u8 copy[kMaxKeyBytes];
    EXPECT_LE(node->copy_key(static_cast<u16>(random()), copy), kMaxKeyBytes);
    for (Bytes bytes : {node->value(static_cast<u16>(random())), node->lower_fence(),
                        node->upper_fence(), node->prefix()}) {
      EXPECT_GE(bytes.data(), page->bytes);
      EXPECT_LE(bytes.data() + bytes.size(), page->bytes + kPageSize);
    }
    auto slice = std::make_unique<PageBuffer>();
    const u16 begin = static_cast<u16>(random());
    node->copy_slice(begin, static_cast<u16>(begin + random() % 40), slice->bytes);
    const Bytes slots = node->search_range(as_bytes(key));
    EXPECT_TRUE(slots.data() >= page->bytes &&
                slots.data() + slots.size() <= page->bytes + kPageSize);
    node->key_is(static_cast<u32>(random()), as_bytes(key));
    u8 *child = reinterpret_cast<u8 *>(node->child(node->child_index(as_bytes(key))));
    EXPECT_TRUE(child >= page->bytes && child + 8 <= page->bytes + kPageSize &&
                (child - page->bytes) % 8 == 0);
    node->free_bytes();
    node->verify();
  }
}

TEST(Node, verify_sees_each_kind_of_damage) {
  auto fresh = [](PageBuffer &page) {
    page.node()->init(true, 0, as_bytes("key"), as_bytes("kez"), true);
    for (char c = 'a'; c <= 'z'; c++)
      page.node()->insert(as_bytes(std::string("key_long_") + c), as_bytes("value"));
    ASSERT_EQ(page.node()->verify(), nullptr);
  };
  using Damage = void (*)(Node *);
  const Damage damages[] = {
      [](Node *n) { n->count++; },
      [](Node *n) { n->heap_used++; },
      [](Node *n) { n->heap_start = static_cast<u16>(n->heap_start + 1); },
      [](Node *n) { n->slots[3].offset++; },
      [](Node *n) { std::swap(n->slots[3], n->slots[4]); },
      [](Node *n) { n->slots[3].head_low = 0; },
      [](Node *n) { n->slots[3].offset = n->slots[4].offset; },
      [](Node *n) { n->slots[0].value_bytes = 4000; },
      [](Node *n) { n->prefix_bytes = 1; },
      [](Node *n) { n->level = 3; },
      [](Node *n) { n->is_leaf = 0; },
      [](Node *n) { n->header.zero = 1; },
      [](Node *n) { n->header.kind = PageKind::kFree; },
      [](Node *n) { n->upper_bytes--; },
      [](Node *n) { n->upper_child = 8; },
      [](Node *n) { n->count = 0xffff; },
      [](Node *n) { n->lower_offset = 0; },
  };
  for (size_t i = 0; i < std::size(damages); i++) {
    PageBuffer page;
    fresh(page);
    damages[i](page.node());
    EXPECT_NE(page.node()->verify(), nullptr) << "damage " << i;
  }
}

}  // namespace
}  // namespace ls
