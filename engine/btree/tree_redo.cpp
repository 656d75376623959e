// tree_redo.cpp - redo of kOpTree (and kOpSpace) operations.  Trusts neither the log's operands nor
// the page: what does not fit is LS_CORRUPT, never a bad write.
#include "btree/tree_redo.hpp"

#include <cstring>

#include "base/check.hpp"
#include "btree/node_bytes.hpp"
#include "btree/stored_page.hpp"
#include "btree/tree.hpp"
#include "buffer/frame.hpp"
#include "buffer/page_allocator.hpp"
#include "wal/log_bytes.hpp"

namespace ls {

Swip stored_swip(Swip swip) {
  if (swip.is_null()) return swip;
  return Swip::evicted(swip.is_swizzled() ? swip.frame()->page_no.load(std::memory_order_relaxed)
                                          : swip.page_no());
}

void format_meta(MetaPage *meta, const FormatOperands &operands) {
  std::memset(reinterpret_cast<u8 *>(meta) + sizeof(PageHeader), 0, kPageSize - sizeof(PageHeader));
  meta->header.kind = PageKind::kMeta;
  meta->header.format = kPageFormat;
  meta->header.zero = 0;
  meta->magic = kMetaMagic;
  meta->kind = operands.kind;
  meta->store = operands.store;
  meta->root = Swip::evicted(operands.root).raw;
  meta->page_count = operands.root + 1;
  meta->height = 1;
}

void insert_child(Node *parent, Bytes separator, Swip right) {
  LS_ASSERT(!parent->is_leaf);
  Swip left = *parent->child(parent->child_index(separator));
  u16 pos = parent->insert(separator, operand(left.raw));
  LS_ASSERT(parent->child(pos)->raw == left.raw);   // NODE-3
  *parent->child(static_cast<u16>(pos + 1)) = right;
}

void remove_child(Node *parent, u16 pos) {
  LS_ASSERT(!parent->is_leaf && pos < parent->count);
  *parent->child(static_cast<u16>(pos + 1)) = *parent->child(pos);
  parent->remove(pos);
}

bool unpack_change(Bytes operands, Bytes *key, Bytes *value) {
  LogUnpacker in(operands);
  *key = in.take(in.number(kMaxKeyBytes));
  *value = in.rest();
  return in.good();
}

namespace {

template <typename T>
bool take(Bytes &operands, T *out) {
  if (operands.size() < sizeof(T)) return false;
  std::memcpy(out, operands.data(), sizeof(T));
  operands = operands.subspan(sizeof(T));
  return true;
}

bool redo_image(Bytes operands, u8 *page, PageNo page_no) {
  u16 low;
  if (!take(operands, &low)) return false;
  if (low < sizeof(Node) - sizeof(PageHeader) || low > operands.size()) return false;
  if (operands.size() > kPageSize - sizeof(PageHeader)) return false;
  Node *node = reinterpret_cast<Node *>(page);
  std::memset(page + sizeof(PageHeader), 0, kPageSize - sizeof(PageHeader));
  std::memcpy(page + sizeof(PageHeader), operands.data(), low);
  size_t high = operands.size() - low;
  std::memcpy(page + kPageSize - high, operands.data() + low, high);
  node->header.kind = node->is_leaf ? PageKind::kLeaf : PageKind::kInner;
  node->header.format = kPageFormat;
  node->header.zero = 0;
  node->header.page_no = page_no;
  return stored_page_fault(page, kInvalidPageNo) == nullptr;
}

bool redo_truncate(Bytes operands, Node *node) {
  u16 pos;
  if (!take(operands, &pos) || node->verify() != nullptr || !node->is_divided_by(pos, operands))
    return false;
  node->truncate_right(pos, operands);
  return true;
}

bool redo_insert_child(Bytes operands, Node *node) {
  PageNo right;
  if (!take(operands, &right) || operands.size() > kMaxKeyBytes) return false;
  if (!is_stored_swip(Swip::evicted(right), kInvalidPageNo) || node->verify() != nullptr ||
      node->is_leaf)
    return false;
  if (!node->covers(operands) || compare_keys(node->lower_fence(), operands) == 0) return false;
  bool found;
  node->lower_bound(operands, &found);
  if (found || !node->fits(operands, sizeof(Swip))) return false;
  insert_child(node, operands, Swip::evicted(right));
  return true;
}

bool redo_remove_child(Bytes operands, Node *node) {
  u16 pos;
  if (!take(operands, &pos) || node->verify() != nullptr || node->is_leaf || pos >= node->count)
    return false;
  remove_child(node, pos);
  return true;
}

bool insert_absent(Node *leaf, Bytes key, Bytes value) {
  bool found;
  leaf->lower_bound(key, &found);
  if (found) return true;
  if (!leaf->fits(key, static_cast<u32>(value.size()))) return false;
  leaf->insert(key, value);
  return true;
}

bool overwrite_present(Node *leaf, Bytes key, Bytes value) {
  bool found;
  const u16 pos = leaf->lower_bound(key, &found);
  if (!found || leaf->value(pos).size() != value.size()) return false;
  if (!value.empty()) std::memcpy(leaf->value_data(pos), value.data(), value.size());
  return true;
}

bool redo_change(u8 code, Bytes operands, Node *node) {
  Bytes key, value;
  if (!unpack_change(operands, &key, &value) || node->header.kind != PageKind::kLeaf ||
      !node->covers(key))
    return false;
  return code == kTreeInsert ? insert_absent(node, key, value)
                             : overwrite_present(node, key, value);
}

bool redo_meta(u8 code, Bytes operands, u8 *page, PageNo page_no) {
  MetaPage *meta = reinterpret_cast<MetaPage *>(page);
  if (code == kTreeFormat) {
    FormatOperands format;
    if (page_no != kMetaPageNo || !take(operands, &format) ||
        !is_stored_swip(Swip::evicted(format.root), kMostPages + kPagesForUndo))
      return false;
    format_meta(meta, format);
    meta->header.page_no = page_no;
    return true;
  }
  RootOperands root;
  if (meta->header.kind != PageKind::kMeta || !take(operands, &root)) return false;
  if (!is_stored_swip(Swip::evicted(root.root), meta->page_count) || root.height == 0 ||
      root.height > kMaxTreeHeight)
    return false;
  meta->root = Swip::evicted(root.root).raw;
  meta->height = root.height;
  return true;
}

}  // namespace

Status BTree::redo(u8 code, Bytes operands, u8 *page, PageNo page_no) {
  if (op_family(code) == kOpSpace) return page_allocator_redo(code, operands, page, page_no);
  Node *node = reinterpret_cast<Node *>(page);
  bool done = false;
  switch (code) {
    case kTreeFormat:
    case kTreeRoot: done = redo_meta(code, operands, page, page_no); break;
    case kTreeImage: done = redo_image(operands, page, page_no); break;
    case kTreeTruncate: done = redo_truncate(operands, node); break;
    case kTreeInsertChild: done = redo_insert_child(operands, node); break;
    case kTreeRemoveChild: done = redo_remove_child(operands, node); break;
    case kTreeInsert:
    case kTreeOverwrite: done = redo_change(code, operands, node); break;
    default: break;
  }
  if (!done)
    return fail(LS_CORRUPT, "tree operation %#x of the log does not fit page %u", code, page_no);
  return kOk;
}

}  // namespace ls
