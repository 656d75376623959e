// node_spread.cpp - several leaves beside each other into fewer pages (XMerge: tree_xmerge.cpp).
#include <cstring>

#include "base/check.hpp"
#include "btree/node_bytes.hpp"

namespace ls {

namespace {

// The entries of some leaves as one sequence.
class Sequence {
 public:
  explicit Sequence(std::span<const Node *const> leaves) : leaves_(leaves) {
    for (const Node *leaf : leaves) {
      entries_ += leaf->count;
      for (u32 pos = 0; pos < leaf->count; pos++) bytes_ += leaf->stored_bytes(pos);
    }
  }
  u32 entries() const { return entries_; }
  // Behind about part / parts of the bytes.
  u32 place(u32 part, u32 parts) const {
    u32 place = 0, before = 0;
    for (const Node *leaf : leaves_) {
      for (u32 pos = 0; pos < leaf->count; pos++, place++) {
        if (before >= bytes_ * part / parts) return place;
        before += leaf->stored_bytes(pos);
      }
    }
    return place;
  }
  // Where the entry is: its leaf, and the place in it.
  const Node &at(u32 place, u16 *pos) const {
    LS_ASSERT(place < entries_);
    size_t i = 0;
    for (; place >= leaves_[i]->count; i++) place -= leaves_[i]->count;
    *pos = static_cast<u16>(place);
    return *leaves_[i];
  }

 private:
  std::span<const Node *const> leaves_;
  u32 entries_ = 0, bytes_ = 0;
};

}  // namespace

bool Node::spread(std::span<const Node *const> from, std::span<Node *const> to) {
  LS_ASSERT(!to.empty() && to.size() < from.size());
  const Sequence all(from);
  const u32 parts = static_cast<u32>(to.size());
  u8 lower[kMaxKeyBytes], upper[kMaxKeyBytes];
  u32 lower_size = from.front()->lower_bytes, begin = 0;
  std::memcpy(lower, from.front()->lower_fence().data(), lower_size);
  for (u32 part = 0; part < parts; part++) {
    const bool last = part + 1 == parts;
    const u32 end = last ? all.entries() : all.place(part + 1, parts);
    if (end <= begin || (!last && end == all.entries())) return false;
    u32 upper_size = from.back()->upper_bytes;
    if (last) {
      std::memcpy(upper, from.back()->upper_fence().data(), upper_size);
    } else {
      u8 a[kMaxKeyBytes], b[kMaxKeyBytes];
      u16 left, right;
      const Node &left_leaf = all.at(end - 1, &left), &right_leaf = all.at(end, &right);
      const Bytes left_key{a, left_leaf.copy_key(left, a)},
          right_key{b, right_leaf.copy_key(right, b)};
      upper_size = shortest_between(left_key, right_key, upper);
    }
    Node *node = to[part];
    std::memcpy(&node->header, &from[part]->header, sizeof node->header);
    node->init(true, 0, {lower, lower_size}, {upper, upper_size}, !last || from.back()->has_upper);
    for (u32 place = begin; place < end;) {
      u16 pos;
      const Node &leaf = all.at(place, &pos);
      const u32 n = std::min<u32>(end - place, leaf.count - pos);
      if (!node->append_if_fits(leaf, pos, pos + n)) return false;
      place += n;
    }
    if (!node->ends_fit()) return false;
    node->rebuild_hints();
    LS_ASSERT(node->verify() == nullptr);   // NODE-2
    std::memcpy(lower, upper, upper_size);
    lower_size = upper_size;
    begin = end;
  }
  return true;
}

}  // namespace ls
