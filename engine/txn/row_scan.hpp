// row_scan.hpp - scans over row ids, both directions, on private copies of leaves.
//
// A scan copies one leaf at a time and decides visibility on the copy: no latch is held between calls, and what others
// change meanwhile is invisible to its snapshot anyway.  Finding the next leaf goes through the fences of the copy, so
// splits and merges cannot make it skip or repeat a row.
//
// Position: on the row last returned, or before the first / behind the last of the range (after LS_END).  Turning
// around returns the neighbour of the row last returned; after LS_END it begins at the end that was reached.
#pragma once
#include "btree/look_ahead.hpp"
#include "txn/row_read.hpp"

namespace ls {

class RowScan {
 public:
  // Rows with lo <= row id < hi.  `running` of the snapshot is copied.
  static Status open(Worker &w, FileSlot &file, const ls_snapshot &snapshot, u64 lo, u64 hi, bool backward,
                     RowScan **scan);
  static void close(RowScan *scan);

  // LS_OK or LS_END; row->data is valid until the next call.
  Status next(ls_row *row);
  void set_backward(bool backward) { backward_ = backward; }
  void rescan(u64 lo, u64 hi, bool backward);

 private:
  // kBegin, kEnd: outside of the range, no leaf; kLeaf: at pos_ of leaf_, which may be one before or behind its rows.
  enum class Place : u8 { kBegin, kLeaf, kEnd };

  RowScan(Worker &w, FileSlot &file, const ls_snapshot &snapshot, u64 *running);
  Status advance(bool *ended);
  Status enter(bool *ended);
  Status next_leaf(bool *ended);
  Status copy_leaf_at(Bytes bound);
  void leave_leaf();
  Status resolve(Bytes value, ls_row *row, bool *visible);
  void look_ahead();
  bool wants(const RowHeader &header) const;
  const Node *node() const { return reinterpret_cast<const Node *>(leaf_); }

  Worker &w_;
  FileSlot &file_;
  u64 *running_;          // malloc'ed copy; snapshot_ points to it
  ls_snapshot snapshot_;
  Tn visible_below_;      // writers below need no look-up (0: this kind of snapshot always looks)
  Viewer viewer_;
  u64 lo_ = 0, hi_ = 0;
  Place place_ = Place::kBegin;
  bool backward_ = false;
  bool old_ghosts_ = false;   // the leaf has ghosts of an earlier run, which no undo entry leads to
  i32 pos_ = 0;               // in the leaf copy: -1 .. count
  u64 row_id_ = 0;            // at pos_
  // Where the first entries of the version chains of the rows at [ahead_from_, ahead_to_) of the leaf were found to be.  Most
  // chains have one or two that count: what lies between the newest version and the one that an old snapshot sees is pruned.
  static constexpr u32 kLinks = 2;
  i32 ahead_from_ = 0, ahead_to_ = 0;
  LeafHint ahead_[LookAhead::kMax][kLinks];
  alignas(8) u8 leaf_[kPageSize];
  alignas(8) u8 older_[kPageSize];   // an older version that was returned
  alignas(8) u8 again_[kPageSize];   // a row that was copied again
};

inline Status scan_open(Worker &w, FileSlot &file, const ls_snapshot &snapshot, u64 lo, u64 hi, bool backward,
                        RowScan **scan) {
  return RowScan::open(w, file, snapshot, lo, hi, backward, scan);
}
inline Status scan_next(RowScan &scan, ls_row *row) { return scan.next(row); }
inline void scan_set_backward(RowScan &scan, bool backward) { scan.set_backward(backward); }
inline void scan_rescan(RowScan &scan, u64 lo, u64 hi, bool backward) { scan.rescan(lo, hi, backward); }
inline void scan_close(RowScan *scan) { RowScan::close(scan); }

}  // namespace ls
