// entries.hpp - entries of an unlogged tree of the store's own, one at a time: put, removed, looked
// for.  Holds no latch before and after.
#pragma once
#include "btree/tree.hpp"

namespace ls {

// near, unless null: of this tree, a guess where the entry is, and becomes where it is, or was.
// Overwrites an entry with this key.
Status put_entry(BTree &tree, Bytes key, Bytes value, BTree::LeafFinger *near = nullptr);
// Absent is fine.
Status remove_entry(BTree &tree, Bytes key, BTree::LeafFinger *near = nullptr);

// The first entry with a key >= `from` that begins with the first `prefix` bytes of `from`; the
// last one with a key < `from` that does.  LS_NOT_FOUND.
struct FoundEntry {
  u8 key[kMaxKeyBytes];
  u32 key_bytes;
  u8 value[64];
  u32 value_bytes;   // at most what `value` holds was copied
};
Status first_entry(BTree &tree, Bytes from, u32 prefix, FoundEntry *found);
Status last_entry_before(BTree &tree, Bytes from, u32 prefix, FoundEntry *found);

}  // namespace ls
