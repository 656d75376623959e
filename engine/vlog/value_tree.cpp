// value_tree.cpp - the tree, and its sweep.
#include "vlog/value_tree.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.hpp"

namespace ls {

namespace {

constexpr u32 kSweptLeaves = 256;   // at a time

u64 file_of(const FoundEntry &found) {
  u64 file;
  std::memcpy(&file, found.key, sizeof file);
  return __builtin_bswap64(file);
}

bool is_open(const FileSlot &file) {
  const FileState state = file.state.load(std::memory_order_acquire);
  return state == FileState::kOpening || state == FileState::kActive ||
         state == FileState::kClosing;
}

// A file has its number before it has entries, and another one when it is opened again.
bool has_open(Ctx &ctx, u64 number) {
  const u32 files = ctx.pool->shared()->max_files;
  for (u32 i = 0; i < files; i++) {
    const FileSlot &file = ctx.pool->file(i);
    if (file.values.number.load(std::memory_order_acquire) == number && is_open(file)) return true;
  }
  return false;
}

// Sorted.  Asked first: most files that are met are open, and there may be many slots.
std::vector<u64> open_files(Ctx &ctx) {
  std::vector<u64> numbers;
  for (u32 i = 0; i < ctx.pool->shared()->max_files; i++) {
    const ValueSpace &space = ctx.pool->file(i).values;
    const u64 number = space.number.load(std::memory_order_acquire);
    if (number != 0 && is_open(ctx.pool->file(i))) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// All entries of the file in the leaf of `key`.
Status empty_leaf(BTree &tree, Bytes key, u64 file) {
  ExclusiveGuard leaf;
  LS_TRY(tree.leaf_exclusive(key, 0, leaf));
  Node *node = reinterpret_cast<Node *>(leaf.page());
  const u64 be = __builtin_bswap64(file);
  bool exact;
  for (u16 pos = node->lower_bound(key, &exact); pos < node->count;) {
    u8 found[kMaxKeyBytes];
    if (node->copy_key(pos, found) < sizeof be || std::memcmp(found, &be, sizeof be) != 0) break;
    node->remove(pos);
  }
  const bool emptied = node->count == 0;
  tree.ctx().pool->mark_dirty(leaf.frame(), 0);
  leaf.reset();
  return emptied ? tree.try_merge(key) : kOk;
}

}  // namespace

BTree value_tree(Ctx &ctx) {
  const u32 place = ctx.pool->shared()->value_tree.load(std::memory_order_acquire);
  LS_CHECK(place != 0, "there is no tree of what is known of values");
  return BTree(ctx, ctx.pool->file(place - 1));
}

Status sweep_value_tree(Ctx &ctx, u64 *cursor) {
  if (ctx.pool->shared()->value_tree.load(std::memory_order_acquire) == 0) return kOk;
  BTree tree = value_tree(ctx);
  const std::vector<u64> open = open_files(ctx);
  for (u32 i = 0; i < kSweptLeaves; i++) {
    FoundEntry found;
    const Status status = first_entry(tree, ValueKey(*cursor, '\0'), 0, &found);
    if (code(status) == LS_NOT_FOUND) *cursor = 0;
    if (code(status) == LS_NOT_FOUND) return kOk;
    LS_TRY(status);
    *cursor = file_of(found);
    if (std::binary_search(open.begin(), open.end(), *cursor) || has_open(ctx, *cursor)) {
      ++*cursor;
    } else {
      LS_TRY(empty_leaf(tree, Bytes(found.key, found.key_bytes), *cursor));
    }
  }
  return kOk;
}

}  // namespace ls
