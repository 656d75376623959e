// node_structure.cpp - where a node is divided, its halves, and two made one; and what remains
// possible then (NODE-4).
#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "btree/node_entries.hpp"

namespace ls {

namespace {

// Looks for the place to split one node.  Sizes are taken without what longer prefixes save, so an
// answer always fits.
class SplitChooser {
 public:
  SplitChooser(const Node &node, Bytes new_key, u8 *separator)
      : node_(node), new_key_(new_key), separator_(separator) {
    sum_[0] = 0;
    for (u32 i = 0; i < node.count; i++) sum_[i + 1] = sum_[i] + node.stored_bytes(i);
  }

  // The separator for pos, its length returned; 0: there is none, or a half would not fit its page
  // with it as a fence.
  u16 separator_at(u32 pos) {
    u16 bytes = 0;
    if (!node_.is_leaf) {
      bytes = node_.copy_key(static_cast<u16>(pos), separator_);
    } else {
      u8 a[kMaxKeyBytes], b[kMaxKeyBytes];
      Bytes left = pos == 0 ? new_key_ : Bytes{a, node_.copy_key(static_cast<u16>(pos - 1), a)};
      Bytes right =
          pos == node_.count ? new_key_ : Bytes{b, node_.copy_key(static_cast<u16>(pos), b)};
      if (compare_keys(left, right) >= 0) return 0;
      bytes = shortest_between(left, right, separator_);
    }
    return halves_fit(pos, bytes) ? bytes : 0;
  }

  // Leaf: the same for the new key at the end of the left half, 0 < pos < count.  Such a fence may
  // be longer than the entry before it would have led to (NODE-4).
  u16 separator_behind_new_key(u32 pos) {
    u8 key[kMaxKeyBytes];
    const u16 bytes =
        shortest_between(new_key_, {key, node_.copy_key(static_cast<u16>(pos), key)}, separator_);
    return halves_fit(pos, bytes) && node_.fits_beside_fence(pos - 1, bytes) ? bytes : u16{0};
  }

  bool halves_fit(u32 pos, u32 separator_bytes) const {
    u32 room = kNodeSpace - (node_.is_leaf ? 0 : 7);
    u32 left = sum_[pos] + node_.lower_bytes + separator_bytes;
    u32 right = sum_[node_.count] - sum_[node_.is_leaf ? pos : pos + 1] + separator_bytes +
                node_.upper_bytes;
    return left <= room && right <= room;
  }

  // Half of the bytes to each side, between low and high.
  u32 middle(u32 low, u32 high) const {
    u32 pos = low;
    while (pos < high && sum_[pos] < sum_[node_.count] / 2) pos++;
    return pos;
  }

  // Around the middle the shortest separator is worth a little imbalance: it is copied into every
  // fence and parent.
  u32 shortest_near(u32 pos, u32 low, u32 high) {
    u32 window = node_.count / 16, best = pos, best_bytes = kMaxKeyBytes + 1;
    for (u32 distance = 0; distance <= window; distance++) {
      for (u32 at : {pos - distance, pos + distance}) {
        if (at < low || at > high) continue;  // below zero wraps to above high
        u32 bytes = separator_at(at);
        if (bytes == 0 || bytes >= best_bytes) continue;
        best = at;
        best_bytes = bytes;
      }
    }
    return best;
  }

 private:
  const Node &node_;
  Bytes new_key_;
  u8 *separator_;
  u32 sum_[kMaxEntries + 1];
};

}  // namespace

// Does a run of ascending insertions go on before the entry at `pos`?  Entries are laid into the
// heap from its end to its start, so their offsets tell which came later, as far as they came since
// the page was last put in order: those before `pos` one after the other, and all of them after the
// one at `pos`.  The heap of a uniform leaf is in the order of its keys: there the last run is
// noted.
bool Node::continues_run(u32 pos) const {
  constexpr u32 kRun = 3;
  if (pos < kRun || pos >= count) return false;
  if (layout == NodeLayout::kUniform)
    return uniform_run % kRunUnit >= kRun && uniform_run / kRunUnit + 1 == pos;
  return with_entries(*this, [&](const auto &entries) {
    for (u32 i = 1; i < kRun; i++) {
      if (entries.offset(pos - i) >= entries.offset(pos - i - 1)) return false;
    }
    return entries.offset(pos - kRun) < entries.offset(pos);
  });
}

void Node::choose_split(Bytes new_key, u16 *pos, u8 *separator, u16 *separator_bytes) const {
  LS_ASSERT(covers(new_key));
  *separator_bytes = 0;
  *pos = 0;
  if (count == 0) {
    if (is_leaf) *separator_bytes = cut_beside(new_key, separator);
    return;
  }
  SplitChooser chooser(*this, new_key, separator);
  u8 key[kMaxKeyBytes];
  // of the last key
  int order = compare_keys({key, copy_key(static_cast<u16>(count - 1), key)}, new_key);
  // A leaf keeps at least one entry in either half, unless the new key makes a half of its own.
  u32 low = is_leaf ? 1 : 0, high = count - 1u, wanted;
  if (is_leaf && order < 0) high = count;
  if (is_leaf && order > 0 && count == 1) low = 0;
  if (low > high) return;
  if (is_leaf && order > 0) {
    bool found;
    const u16 at = lower_bound(new_key, &found);
    if (!found && continues_run(at)) *separator_bytes = chooser.separator_behind_new_key(at);
    if (*separator_bytes != 0) {
      *pos = at;
      return;
    }
  }
  if (order < 0) wanted = high;
  else wanted = chooser.shortest_near(chooser.middle(low, high), low, high);

  for (u32 distance = 0; distance <= count; distance++) {
    for (u32 at : {wanted - distance, wanted + distance}) {
      if (at < low || at > high) continue;
      *separator_bytes = chooser.separator_at(at);
      *pos = static_cast<u16>(at);
      if (*separator_bytes != 0) return;
    }
  }
}

u16 Node::separator_at(u16 pos, u8 *separator) const {
  LS_ASSERT(is_leaf && pos > 0 && pos < count);
  return SplitChooser(*this, {}, separator).separator_at(pos);
}

bool Node::is_divided_by(u16 pos, Bytes separator) const {
  if (separator.size() > kMaxKeyBytes || !covers(separator) ||
      compare_keys(lower_fence(), separator) == 0)
    return false;
  if (pos > count || (!is_leaf && pos == count)) return false;
  u8 key[kMaxKeyBytes];
  if (pos > 0 && compare_keys({key, copy_key(static_cast<u16>(pos - 1), key)}, separator) >= 0)
    return false;
  if (pos < count) {
    const int order = compare_keys(separator, {key, copy_key(pos, key)});
    if (is_leaf ? order > 0 : order != 0) return false;
  }
  return SplitChooser(*this, {}, nullptr).halves_fit(pos, static_cast<u32>(separator.size()));
}

// A separator for an empty leaf that leaves new_key with a shorter fence on one side; 0: both are
// as short as they get.
u16 Node::cut_beside(Bytes new_key, u8 *separator) const {
  if (lower_bytes > new_key.size()) return shortest_between(lower_fence(), new_key, separator);
  if (upper_bytes > new_key.size() + 1) return shortest_between(new_key, upper_fence(), separator);
  return 0;
}

void Node::truncate_right(u16 pos, Bytes separator) {
  LS_ASSERT(is_divided_by(pos, separator));
  PageCopy copy(this);
  const Node &old = copy.node();
  init(old.is_leaf, old.level, old.lower_fence(), separator, true);
  append_range(old, 0, pos);
  if (!is_leaf) std::memcpy(&upper_child, old.value(pos).data(), sizeof upper_child);
  rebuild_hints();
  LS_ASSERT(verify() == nullptr);   // NODE-2
}

void Node::copy_right(u16 pos, Bytes separator, Node *right) const {
  right->init(is_leaf, level, separator, upper_fence(), has_upper);
  right->append_range(*this, is_leaf ? pos : pos + 1u, count);
  if (!is_leaf) right->upper_child = upper_child;
  right->rebuild_hints();
  LS_ASSERT(right->verify() == nullptr);   // NODE-2
}

// NODE-4 for a leaf made of two.
bool Node::ends_fit() const {
  if (!is_leaf || count == 0) return true;
  return fits_beside_fence(0, lower_bytes) && fits_beside_fence(count - 1u, upper_bytes);
}

bool Node::fits_beside_fence(u32 pos, u32 fence_bytes) const {
  LS_ASSERT(is_leaf && pos < count);
  return with_entries(*this, [&](const auto &entries) {
    const u32 key_bytes = prefix_bytes + entries.key_bytes(pos);
    return most_entry_bytes(key_bytes, entries.value_bytes(pos)) + fence_bytes + key_bytes + 1 <=
           kNodeSpace;
  });
}

bool Node::merge(const Node *right, Bytes separator, Node *out) const {
  LS_ASSERT(compare_keys(upper_fence(), separator) == 0);          // STORED-2
  LS_ASSERT(compare_keys(separator, right->lower_fence()) == 0);   // STORED-2
  std::memcpy(&out->header, &header, sizeof header);
  out->init(is_leaf, level, lower_fence(), right->upper_fence(), right->has_upper);
  if (!out->append_if_fits(*this, 0, count)) return false;
  if (!is_leaf) {
    if (!out->fits(separator, sizeof(Swip))) return false;
    out->append(separator, Bytes{reinterpret_cast<const u8 *>(&upper_child), sizeof upper_child});
  }
  if (!out->append_if_fits(*right, 0, right->count)) return false;
  if (!out->ends_fit()) return false;
  if (!is_leaf) out->upper_child = right->upper_child;
  out->rebuild_hints();
  LS_ASSERT(out->verify() == nullptr);   // NODE-2
  return true;
}

}  // namespace ls
