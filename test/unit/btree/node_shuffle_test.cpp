// node_shuffle_test.cpp - byte shuffle of leaves for compression come back as they were, whatever
// their layout; other bytes are refused.
#include "btree/node_shuffle.hpp"

#include <gtest/gtest.h>

#include "btree/node_bytes.hpp"
#include "unit/btree/node_helpers.hpp"

namespace ls {
namespace {

using namespace test;

// A leaf of this layout, with entries in some order, some gone again.
void fill(PageBuffer &page, Model &model, NodeLayout layout, bool one_size, u32 wanted,
          std::mt19937_64 &random) {
  const bool last = random() % 4 == 0;
  page.node()->init(true, 0, as_bytes(int_key(1000)), as_bytes(int_key(1 << 20)), !last);
  page.node()->header.gsn = random();
  for (u32 i = 0; i < 2000 && model.size() < wanted; i++) {
    const std::string key =
        layout == NodeLayout::kDense ? int_key(5000 + random() % 256)
        : layout == NodeLayout::kUniform
            ? int_key(1000 + random() % 1000000) + "row id"
            : int_key(1000 + random() % 1000000) + std::string(random() % 30, 'k');
    const std::string value =
        layout == NodeLayout::kUniform
            ? ""
            : random_bytes(random, one_size ? 33 : random() % 60, i % 2 ? 256 : 2);
    bool found;
    const u16 pos = page.node()->lower_bound(as_bytes(key), &found);
    if (found && random() % 3 == 0) {
      page.node()->remove(pos);
      model.erase(key);
    } else if (!found && page.node()->fits(as_bytes(key), static_cast<u32>(value.size()))) {
      page.node()->insert(as_bytes(key), as_bytes(value));
      model[key] = value;
    }
  }
}

TEST(NodeShuffle, leaves_come_back_as_they_were) {
  std::mt19937_64 random(11);
  u32 met[3] = {};
  for (int round = 0; round < 600; round++) {
    PageBuffer page, back;
    Model model;
    fill(page, model, static_cast<NodeLayout>(round % 3), round % 2,
         static_cast<u32>(random() % 150), random);
    ASSERT_EQ(page.node()->verify(), nullptr);
    met[static_cast<u8>(page.node()->layout)]++;
    std::vector<u8> shuffled(kMostShuffledBytes);
    const u32 bytes = shuffle_leaf(page.bytes, shuffled.data());
    ASSERT_LE(bytes, kMostShuffledBytes);
    shuffled.resize(bytes);   // ASan sees a byte too many
    std::memset(back.bytes, 0xee, kPageSize);
    ASSERT_TRUE(unshuffle_leaf(shuffled, back.bytes));
    expect_same(back.node(), model);
    // All but what is between slots and heap.
    const u32 low = page.node()->slots_end(), high = page.node()->heap_start;
    EXPECT_EQ(std::memcmp(page.bytes, back.bytes, low), 0);
    EXPECT_EQ(std::memcmp(page.bytes + high, back.bytes + high, kPageSize - high), 0);
    for (u32 i = low; i < high; i++) ASSERT_EQ(back.bytes[i], 0);
    // Further changes work on it.
    if (back.node()->fits(as_bytes(int_key(5300)), 3)) {
      back.node()->insert(as_bytes(int_key(5300)), as_bytes("new"));
      model[int_key(5300)] = "new";
      expect_same(back.node(), model);
    }
  }
  for (u32 n : met) EXPECT_GT(n, 50u);
}

TEST(NodeShuffle, other_bytes_are_refused_or_stay_in_the_page) {
  std::mt19937_64 random(12);
  for (int round = 0; round < 2000; round++) {
    PageBuffer page;
    Model model;
    fill(page, model, static_cast<NodeLayout>(round % 3), true, 60, random);
    std::vector<u8> shuffled(kMostShuffledBytes);
    shuffled.resize(shuffle_leaf(page.bytes, shuffled.data()));
    auto back = std::make_unique<PageBuffer>();
    EXPECT_FALSE(
        unshuffle_leaf(std::span<const u8>(shuffled).first(shuffled.size() - 1), back->bytes));
    EXPECT_FALSE(
        unshuffle_leaf(std::span<const u8>(shuffled).first(random() % sizeof(Node)), back->bytes));
    shuffled[random() % (2 + sizeof(Node))] ^= static_cast<u8>(1 + random() % 255);
    (void)unshuffle_leaf(shuffled, back->bytes);
  }
}

}  // namespace
}  // namespace ls
