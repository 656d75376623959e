// stored_page.cpp - what can be wrong though the checksum is right: kind, place, references,
// fences.
#include "btree/stored_page.hpp"

#include "base/check.hpp"
#include "btree/node.hpp"

namespace ls {

namespace {

const char *node_fault(const Node &node, PageNo page_count) {
  if (const char *wrong = node.verify()) return wrong;
  for (u32 i = 0; !node.is_leaf && i <= node.count; i++) {
    if (!is_stored_swip(*const_cast<Node &>(node).child(static_cast<u16>(i)), page_count))
      return "reference to a child is damaged";
  }
  return nullptr;
}

bool is_node(const PageHeader &header) {
  return header.kind == PageKind::kLeaf || header.kind == PageKind::kInner;
}

bool same(Bytes a, Bytes b) { return compare_keys(a, b) == 0; }

const char *fence_fault(Node &parent, const Swip *location, const Node &child) {
  constexpr const char *kOther = "its fences are not what its parent says";
  if (!parent.covers(child.lower_fence())) return kOther;
  const u16 index = parent.child_index(child.lower_fence());
  if (parent.child(index) != location) return kOther;
  u8 key[kMaxKeyBytes];
  const Bytes lower = index == 0 ? parent.lower_fence()
                                 : Bytes{key, parent.copy_key(static_cast<u16>(index - 1), key)};
  if (!same(lower, child.lower_fence())) return kOther;
  const bool last = index == parent.count;
  if (child.has_upper != (last ? parent.has_upper : 1)) return kOther;
  const Bytes upper = last ? parent.upper_fence() : Bytes{key, parent.copy_key(index, key)};
  return same(upper, child.upper_fence()) ? nullptr : kOther;
}

}  // namespace

const char *stored_page_fault(const u8 *page, PageNo page_count) {
  const PageHeader &header = *reinterpret_cast<const PageHeader *>(page);
  if ((header.kind == PageKind::kMeta) != (header.page_no == kMetaPageNo))
    return "page kind does not fit its place";
  switch (header.kind) {
    case PageKind::kFree: return nullptr;
    case PageKind::kMeta: return meta_fault(*reinterpret_cast<const MetaPage *>(page));
    case PageKind::kTrunk:
      return trunk_fault(*reinterpret_cast<const TrunkPage *>(page), page_count);
    case PageKind::kLeaf:
    case PageKind::kInner: return node_fault(*reinterpret_cast<const Node *>(page), page_count);
  }
  return "unknown page kind";
}

const char *child_fault(const u8 *parent, const Swip *location, const u8 *child) {
  LS_ASSERT(reinterpret_cast<u64>(location) - reinterpret_cast<u64>(parent) < kPageSize);
  const PageHeader &above = *reinterpret_cast<const PageHeader *>(parent),
                   &header = *reinterpret_cast<const PageHeader *>(child);
  const MetaPage &meta = *reinterpret_cast<const MetaPage *>(parent);
  const bool is_root =
      above.kind == PageKind::kMeta && location == reinterpret_cast<const Swip *>(&meta.root);
  const Node &node = *reinterpret_cast<const Node *>(child);
  if (!is_root && above.kind != PageKind::kInner) {
    return header.kind == PageKind::kTrunk ? nullptr
                                           : "not the list of free pages that it should be";
  }
  if (!is_node(header)) return "not the node that its parent refers to";
  if (is_root) {
    const bool covers_all = node.lower_bytes == 0 && !node.has_upper;
    return covers_all && node.level + 1u == meta.height ? nullptr : "not the root of its tree";
  }
  Node &inner = *reinterpret_cast<Node *>(const_cast<u8 *>(parent));
  return node.level + 1 == inner.level ? fence_fault(inner, location, node)
                                       : "not of the level that its parent says";
}

}  // namespace ls
