// node_shuffle.hpp - byte shuffle: a leaf's bytes in an order in which they compress well, and back
// (buffer/compressed_cache.hpp).
//
// Entries of one size put behind each other their first bytes, then their second ones, and so on:
// what is the same in all of them comes to lie together.  Small slots are replaced by their
// differences before.  What is between slots and heap means nothing and is left out.
#pragma once
#include "btree/node.hpp"
#include "buffer/pool.hpp"

namespace ls {

// Bytes put into `out` (kMostShuffledBytes); 0: slots and heap of the leaf are misplaced.
u32 shuffle_leaf(const u8 *page, u8 *out);
// False: this was not made by shuffle_leaf() of a sound leaf.
bool unshuffle_leaf(std::span<const u8> shuffled, u8 *page);

}  // namespace ls
