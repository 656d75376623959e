// row_scan.hpp - scans over row ids, both directions, on private copies of leaves.
//
// A scan copies one leaf at a time, decides visibility on the copy and hands out all rows of it at
// once: no latch is held between calls, and what others change meanwhile is invisible to its
// snapshot anyway.  Finding the next leaf goes through the fences of the copy, so splits and merges
// cannot make it skip or repeat a row.
//
// Position: on the row looked at last, or before the first / behind the last of the range (after
// LS_END).
#pragma once
#include <span>

#include "btree/batch_lookup.hpp"
#include "buffer/file_use.hpp"
#include "txn/row_read.hpp"

namespace ls {

class RowScan {
 public:
  FileUse use;   // of its file, while it is open

  // Rows with lo <= row id < hi.  `running` of the snapshot is copied.
  static Status open(Worker &w, FileSlot &file, const ls_snapshot &snapshot, u64 lo, u64 hi,
                     bool backward, RowScan **scan);
  static void close(RowScan *scan);

  // Rows in the scan's direction: those left of the leaf where it is, or of the next that has any;
  // fewer where versions that are not in the leaf take more room than there is.  At least one,
  // valid until the next call; or LS_END.
  Status next(std::span<const ls_row> *rows);
  // ls_scan_next_page()
  const u8 *next_page() const { return hook_.next_page; }
  // The version that the snapshot sees of one row, from the same leaf copy as the rows before it
  // where it lies in that; LS_NOT_FOUND.  Calls of this and of next() do not mix.
  // run: 0, this row alone; 1 or -1, behind it those that follow in that direction, as next() gives
  // them.
  Status fetch(u64 row_id, int run, std::span<const ls_row> *rows);
  // Turn around at `from`, one of the rows returned last: its neighbour is next.  After LS_END:
  // begin at the end that was reached.
  void set_backward(bool backward, u64 from);
  void rescan(u64 lo, u64 hi, bool backward);

 private:
  // kBegin, kEnd: outside of the range, no leaf; kLeaf: at pos_ of leaf_, which may be one before
  // or behind its rows; kFence: at fence_, where the leaf could not be read (an interrupt).
  enum class Place : u8 { kBegin, kLeaf, kFence, kEnd };

  RowScan(Worker &w, FileSlot &file, const ls_snapshot &snapshot, u64 *running);
  Status advance(bool *ended);
  Status look_for(u64 row_id, ls_row *row);
  std::span<const ls_row> rows_of_leaf();
  template <typename Entries>
  u32 rows_behind_first(Entries entries);
  template <typename Entries>
  u32 plain_rows(const Entries &entries, u32 n);
  bool row_id_at(i32 pos, u64 *row_id) const;
  template <typename Entries>
  bool row_id_of(const Entries &entries, i32 pos, u64 *row_id) const;
  bool is_beyond(u64 row_id) const { return backward_ ? row_id < lo_ : row_id >= hi_; }
  Status enter(bool *ended);
  Status next_leaf(bool *ended);
  Status enter_fence();
  Status copy_leaf_at(Bytes bound);
  void leave_leaf();
  bool no_cleaner_comes_for(const RowHeader &ghost) const;
  void note_leaf_range();
  static void take_row(u64 row_id, const RowHeader &header, Bytes value, ls_row *row);
  Status look_at_row(ls_row *row, bool *visible);
  Status look_at_value(Bytes value, ls_row *row, bool *visible);
  Status resolve(Bytes value, ls_row *row, bool *visible);
  void batch_lookup();
  const VersionEntry *found_ahead();
  bool wants(const RowHeader &header) const;
  bool is_plain(const VersionEntry &entry, i32 pos) const;
  const Node *node() const { return reinterpret_cast<const Node *>(leaf_); }

  Worker &w_;
  FileSlot &file_;
  u64 *running_;          // the scan's own copy; snapshot_ points to it
  ls_snapshot snapshot_;
  Tn visible_below_;      // writers below need no look-up (0: this kind of snapshot always looks),
  u8 unclear_flags_ = 0;  // but for rows with these
  Viewer viewer_;
  u64 lo_ = 0, hi_ = 0;
  Place place_ = Place::kBegin;
  bool backward_ = false;
  bool old_ghosts_ = false;   // the leaf has ghosts that only a scan removes
  bool again_used_ = false;   // the version looked at last is in again_
  bool met_ = false;          // the row at pos_ is to be looked at (again)
  i32 pos_ = 0;               // in the leaf copy: -1 .. count
  u64 row_id_ = 0;            // at pos_
  // What all row ids of the leaf begin with, and how many bytes are left of them.
  u64 prefix_ = 0;
  u32 rest_bytes_ = 0;
  ReadAhead read_ahead_;
  BTree::ParentHint hook_;          // of leaf_
  u32 fence_bytes_ = 0;
  u8 fence_[kMaxKeyBytes];
  u64 leaf_lo_ = 0, leaf_hi_ = 0;   // fetch(): the row ids that belong into leaf_
  // The rows at [ahead_from_, ahead_to_) of the leaf that have another newest version than the
  // snapshot's: the entry with the snapshot's, in older_; null: it is to be looked for.
  i32 ahead_from_ = 0, ahead_to_ = 0;
  const VersionEntry *ahead_[kMaxLeafRows];
  alignas(8) u8 leaf_[kPageSize];
  alignas(8) u8 again_[kPageSize];   // a row that was copied again
  // Older versions that are returned, or will be; then room for one more.
  static constexpr u32 kOlderBytes = 4 * kPageSize;
  u32 older_used_ = 0;
  alignas(8) u8 older_[kOlderBytes + kPageSize];
  bool room_for_older() const { return older_used_ + kPageSize <= kOlderBytes; }
  void forget_older() {
    older_used_ = 0;
    ahead_from_ = ahead_to_ = 0;
    again_used_ = false;
  }
  ls_row rows_[kMaxLeafRows];
};

inline Status scan_open(Worker &w, FileSlot &file, const ls_snapshot &snapshot, u64 lo, u64 hi,
                        bool backward, RowScan **scan) {
  return RowScan::open(w, file, snapshot, lo, hi, backward, scan);
}
inline void scan_rescan(RowScan &scan, u64 lo, u64 hi, bool backward) {
  scan.rescan(lo, hi, backward);
}
inline void scan_close(RowScan *scan) { RowScan::close(scan); }

}  // namespace ls
