// tree_redo.hpp - operations on tree pages in the log (docs/file-format.md): what is written, and
// their redo.
//
// An operation is applied to one page, with the bytes that it had at the time of logging, but for
// references to children, which are page numbers in the log and on disk (swip.hpp).  All is logical
// but deterministic: redo calls the same Node methods.
#pragma once
#include "btree/node.hpp"
#include "wal/log_record.hpp"

namespace ls {

enum TreeOp : u8 {
  kTreeFormat = kOpTree | 1,       // meta page of a new file: FormatOperands
  // whole node: u16 bytes of the lower part, lower part, heap and fences
  kTreeImage = kOpTree | 2,
  kTreeTruncate = kOpTree | 3,     // left half of a split: u16 position, separator
  kTreeInsertChild = kOpTree | 4,  // parent of a split: u32 page of the right half, separator
  // parent of a merge: u16 position of the separator; the child right of it goes
  kTreeRemoveChild = kOpTree | 5,
  kTreeRoot = kOpTree | 6,         // meta page: RootOperands
  // leaf: bytes of the key (a number as in wal/log_bytes.hpp), key, value; unless the key is there
  kTreeInsert = kOpTree | 7,
  kTreeOverwrite = kOpTree | 8,    // leaf: the same; the value of that length which is there
};

struct FormatOperands {
  u32 kind;
  PageNo root;
  StoreId store;
};
struct RootOperands {
  PageNo root;
  u32 height;
};

// The form of a swip in the log and on disk.  The page it lies in is latched, so its child stays
// where it is.
Swip stored_swip(Swip swip);

// ---- the changes, shared by the running tree and redo
void format_meta(MetaPage *meta, const FormatOperands &operands);
// The child that covers the separator was split: it keeps its place left of the separator, `right`
// follows.
void insert_child(Node *parent, Bytes separator, Swip right);
// The child at pos + 1 was merged into the one at pos.
void remove_child(Node *parent, u16 pos);

// May a worker have logged it without reading the page?
inline bool is_blind(u8 code) { return code == kTreeInsert || code == kTreeOverwrite; }
// Operands of these two.  False: they are damaged.
bool unpack_change(Bytes operands, Bytes *key, Bytes *value);

template <typename T>
Bytes operand(const T &value) {
  return {reinterpret_cast<const u8 *>(&value), sizeof value};
}

}  // namespace ls
