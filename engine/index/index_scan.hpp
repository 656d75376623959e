// index_scan.hpp - scans over the entries of an index, both directions, on private copies of what
// lies in the range.
//
// A scan copies the entries of its range out of one leaf at a time (few bytes for a look-up) and
// returns them from there: no latch is held between calls.  Where to go on is told by the fences of
// that leaf, so splits, merges and removals by others neither hide nor repeat an entry.
//
// After a failure only range() and close() make sense; after LS_INTERRUPTED the call can be made
// again.
//
// Place: on the entry last returned, before the first or behind the last of the range (after
// LS_END), or at a point sought.
#pragma once
#include <span>

#include "btree/tree.hpp"
#include "buffer/file_use.hpp"
#include "index/index.hpp"

namespace ls {

class IndexScan {
 public:
  FileUse use;   // of its file, while it is open

  static Status open(Worker &w, FileSlot &index, IndexScan **scan);
  static void close(IndexScan *scan);

  // unbounded: `to` is the end.  The bounds are copied.
  void range(Bytes from, Bytes to, bool unbounded, bool backward);
  // LS_OK or LS_END; what *entry refers to is valid until the next call.
  Status next(ls_index_entry *entry);
  // The rows of the entries that next() would return, as far as they are in the copied leaf and
  // *rows has room; their number in *n.  The place stays where it is.
  Status ahead(std::span<u64> rows, u32 *n);
  // To the nth (from 1) of those.
  Status skip(u32 n, ls_index_entry *entry);
  // What the next calls of next() would return, to the end of the copied leaf at most, and to the
  // last of it.  LS_OK: at least one; LS_END.
  Status take(ls_index_batch *batch);
  // The last n of those, and not all, are as if they had not been returned.
  void give_back(u32 n);
  void set_backward(bool backward) { backward_ = backward; }
  void seek(Bytes position);
  // Remember the place; and go back to it, if all that was read since range() or seek() is in one
  // leaf and this one is still as it was copied.  *entry: there, unless it is an end of the range.
  void mark();
  bool confirm(ls_index_entry *entry);
  // Some entry of the range, about in the middle of its entries.  LS_END: there is none.
  Status middle(Bytes from, Bytes to, bool unbounded, ls_index_entry *entry);
  u64 searches() const { return searches_; }
  // RowBlocks::vouches() of the table before the leaf of the entry last returned was copied.
  u64 vouches() const { return vouches_; }

 private:
  enum class Place : u8 { kBegin, kLeaf, kSought, kEnd };

  // What the bound of read_at is: the range's own, a fence, or a place sought.
  enum class Start : u8 { kEdge, kFence, kSought };

  // Any byte string, as far as it matters: a longer one has the same place among entries.
  class Bound {
   public:
    void set(Bytes bytes) {
      size_ = static_cast<u32>(bytes.size() < sizeof data_ ? bytes.size() : sizeof data_);
      if (size_ != 0) std::memcpy(data_, bytes.data(), size_);
    }
    operator Bytes() const { return Bytes(data_, size_); }

   private:
    u32 size_ = 0;
    u8 data_[kMaxEntryKeyBytes + 1];
  };

  IndexScan(Worker &w, FileSlot &index) : w_(w), index_(index) {}
  Status advance(bool *ended);
  Status current(ls_index_entry *entry);
  Status whole_key_at(i32 pos, Bytes *key);
  Status fail_short() const;
  bool copy_batch(ls_index_batch *batch) const;
  void judge(ls_index_batch *batch) const;
  Status enter(bool *ended);
  Status enter_sought(bool *ended);
  Status next_leaf(bool *ended);
  Status read_at(Bytes bound, Start start);
  bool sought_in_slice() const;
  void end_at(Place place, bool *ended);
  i32 direction() const { return backward_ ? -1 : 1; }
  const Node *node() const { return reinterpret_cast<const Node *>(slice_); }
  Bytes key_at(i32 pos) {
    return Bytes(key_, node()->copy_key_behind_prefix(static_cast<u16>(pos), key_));
  }

  Worker &w_;
  FileSlot &index_;
  Place place_ = Place::kEnd;
  bool backward_ = false;
  bool unbounded_ = false;
  bool has_slice_ = false;
  bool crossed_ = false;      // since range() or seek(): to another leaf
  // kFence: of the next leaf, which an interrupted read has not got
  Start sought_start_ = Start::kSought;
  i32 begin_ = 0, end_ = 0;   // positions of the slice: entries of the range in the leaf
  i32 pos_ = 0;               // begin_ - 1 .. end_
  Place marked_place_ = Place::kEnd;
  i32 marked_pos_ = 0;
  BTree::PageStamp seen_;          // the leaf of the slice
  u64 searches_ = 0;
  u64 vouches_ = 0;
  Bound from_, to_, sought_;
  // of the entry last returned; begins with the leaf's prefix
  u8 key_[kMaxKeyBytes];
  alignas(64) u8 slice_[kPageSize];      // Node::copy_slice
};

}  // namespace ls
