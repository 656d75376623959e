// node_helpers.hpp - a page in memory and a model of what is in it.
#pragma once
#include <cstring>
#include <random>

#include "unit/btree/tree_helpers.hpp"

namespace ls::test {

// What each entry of a leaf takes more when that is not uniform any more.
inline constexpr u32 kEnlarging = sizeof(Slot) - kUniformSlotBytes;

struct alignas(4096) PageBuffer {
  u8 bytes[kPageSize] = {};
  Node *node() { return reinterpret_cast<Node *>(bytes); }
};

inline std::string key_at(const Node *node, u16 pos) {
  u8 key[kMaxKeyBytes];
  u16 bytes = node->copy_key(pos, key);
  return as_string({key, bytes});
}

// Page and model hold the same entries in the same order.
inline void expect_same(const Node *node, const Model &model) {
  const char *wrong = node->verify();
  ASSERT_EQ(wrong, nullptr) << wrong;
  ASSERT_EQ(node->count, model.size());
  u16 pos = 0;
  for (const auto &[key, value] : model) {
    ASSERT_EQ(key_at(node, pos), key);
    ASSERT_EQ(as_string(node->value(pos)), value);
    pos++;
  }
}

// Slices of every length have what they were made of.
inline void expect_slices(const Node *node) {
  for (u16 begin = 0; begin < node->count; begin = static_cast<u16>(begin + 13)) {
    for (const u16 n : {0, 1, 5, 60}) {
      const u16 end = std::min<u16>(static_cast<u16>(begin + n), node->count);
      PageBuffer slice;
      std::memset(slice.bytes, 0xee, kPageSize);
      node->copy_slice(begin, end, slice.bytes);
      for (u16 pos = begin; pos < end; pos++) {
        ASSERT_EQ(key_at(slice.node(), pos), key_at(node, pos));
        ASSERT_EQ(as_string(slice.node()->value(pos)), as_string(node->value(pos)));
      }
      EXPECT_EQ(compare_keys(slice.node()->upper_fence(), node->upper_fence()), 0);
    }
  }
}

// A leaf with the header and fences of `like`, and these entries of others one by one.
struct Range {
  const Node *node;
  u16 begin, end;
};
inline void expect_made_of(const Node *like, std::initializer_list<Range> ranges) {
  PageBuffer buffer;
  Node *made = buffer.node();
  std::memcpy(&made->header, &like->header, sizeof like->header);
  made->init(true, like->level, like->lower_fence(), like->upper_fence(), like->has_upper);
  for (const Range &range : ranges) {
    for (u16 pos = range.begin; pos < range.end; pos++)
      made->append(as_bytes(key_at(range.node, pos)), range.node->value(pos));
  }
  made->rebuild_hints();
  EXPECT_EQ(std::memcmp(made, like, made->slots_end()), 0) << "header, or slots";
  EXPECT_EQ(std::memcmp(buffer.bytes + made->heap_start,
                        reinterpret_cast<const u8 *>(like) + made->heap_start,
                        kPageSize - made->heap_start),
            0)
      << "heap, or fences";
}

// Splits a full leaf for a key that belongs into it; the separator.
inline std::string split_in_the_middle(Node *left, const std::string &new_key, Node *right) {
  u8 separator[kMaxKeyBytes];
  u16 pos, bytes;
  left->choose_split(as_bytes(new_key), &pos, separator, &bytes);
  EXPECT_GT(bytes, 0);
  EXPECT_NEAR(pos, left->count / 2, left->count / 8);
  left->copy_right(pos, {separator, bytes}, right);
  left->truncate_right(pos, {separator, bytes});
  EXPECT_EQ(left->verify(), nullptr);
  EXPECT_EQ(right->verify(), nullptr);
  return as_string({separator, bytes});
}

// Position by search agrees with the model for a key that may be absent.
inline void expect_found(const Node *node, const Model &model, const std::string &key) {
  bool found;
  u16 pos = node->lower_bound(as_bytes(key), &found);
  auto expected = model.lower_bound(key);
  ASSERT_EQ(pos, std::distance(model.begin(), expected));
  ASSERT_EQ(found, expected != model.end() && expected->first == key);
}

inline std::string random_bytes(std::mt19937_64 &random, size_t bytes, int alphabet) {
  std::string s(bytes, '\0');
  for (char &c : s) c = static_cast<char>(random() % static_cast<u64>(alphabet));
  return s;
}

}  // namespace ls::test
