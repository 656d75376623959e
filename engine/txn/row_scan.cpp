#include "txn/row_scan.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "txn/row_purge.hpp"

namespace ls {

RowScan::RowScan(Worker &w, FileSlot &file, const ls_snapshot &snapshot, u64 *running)
    : w_(w), file_(file), running_(running), snapshot_(snapshot) {
  snapshot_.running = running;
  viewer_ = viewer_of(w, snapshot_);
  visible_below_ = visible_below(snapshot_, viewer_.base);
}

Status RowScan::open(Worker &w, FileSlot &file, const ls_snapshot &snapshot, u64 lo, u64 hi, bool backward, RowScan **scan) {
  u64 *running = nullptr;
  if (snapshot.n_running > 0) {
    running = static_cast<u64 *>(std::malloc(snapshot.n_running * sizeof(u64)));
    if (running == nullptr) return fail(LS_NO_MEMORY, "no memory for a scan");
    std::memcpy(running, snapshot.running, snapshot.n_running * sizeof(u64));
  }
  void *memory = std::aligned_alloc(alignof(RowScan), sizeof(RowScan));
  if (memory == nullptr) {
    std::free(running);
    return fail(LS_NO_MEMORY, "no memory for a scan");
  }
  *scan = new (memory) RowScan(w, file, snapshot, running);
  (*scan)->rescan(lo, hi, backward);
  return kOk;
}

void RowScan::close(RowScan *scan) {
  if (scan == nullptr) return;
  std::free(scan->running_);
  scan->~RowScan();
  std::free(scan);
}

void RowScan::rescan(u64 lo, u64 hi, bool backward) {
  lo_ = lo;
  hi_ = hi < LS_MAX_ROW_ID + 1 ? hi : LS_MAX_ROW_ID + 1;
  backward_ = backward;
  place_ = backward ? Place::kEnd : Place::kBegin;
  old_ghosts_ = false;
}

Status RowScan::next(ls_row *row) {
  for (;;) {
    bool ended = false;
    LS_TRY(advance(&ended));
    if (ended) return make_status(LS_END);
    const Bytes value = node()->value(static_cast<u16>(pos_));
    if (value.size() < sizeof(RowHeader)) return fail_row(file_, row_id_, "shorter than its header");
    const RowHeader header = RowHeader::load(value.data());
    if (header.tn() < visible_below_) {
      // The common case: everybody who may be looking sees it.
      if (header.has(LS_ROW_GHOST)) {
        old_ghosts_ |= header.tn() < viewer_.base;
        continue;
      }
      row->row_id = row_id_;
      row->writer_tn = header.tn();
      row->cid = header.cid;
      row->seq = header.seq;
      row->flags = header.flags() & ~u32{LS_ROW_SPECULATIVE};
      row->moved_to = 0;
      row->data = value.data() + sizeof(RowHeader);
      row->len = static_cast<u32>(value.size() - sizeof(RowHeader));
      return kOk;
    }
    bool visible = false;
    LS_TRY(resolve(value, row, &visible));
    if (visible) return kOk;
  }
}

// Is the version before this one wanted?
bool RowScan::wants(const RowHeader &header) const {
  return header.has(LS_ROW_HAS_PREV) && !writer_visible(header, snapshot_, viewer_.base);
}

// Find the older versions of the next rows together: all first links of their chains, then the next ones.
void RowScan::look_ahead() {
  constexpr i32 kMax = LookAhead::kMax;
  ahead_from_ = backward_ ? std::max(pos_ - kMax + 1, 0) : pos_;
  ahead_to_ = backward_ ? pos_ + 1 : std::min<i32>(pos_ + kMax, node()->count);
  LookAhead look_ahead(*w_.pool);
  VersionLocator at[kMax];
  VersionKey keys[kMax];
  const i32 n = ahead_to_ - ahead_from_;
  for (i32 i = 0; i < n; i++) {
    const Bytes value = node()->value(static_cast<u16>(ahead_from_ + i));
    const RowHeader header = value.size() < sizeof(RowHeader) ? RowHeader{} : RowHeader::load(value.data());
    at[i] = wants(header) ? VersionLocator{header.tn(), header.seq} : VersionLocator{};
  }
  for (u32 link = 0;; link++) {
    for (i32 i = 0; i < n; i++) {
      ahead_[i][link] = {};
      if (!at[i]) continue;
      keys[i] = VersionKey(at[i].tn, at[i].seq);
      look_ahead.add(version_store(w_, at[i].tn).tree().file(), keys[i], &ahead_[i][link]);
    }
    look_ahead.run();
    if (link + 1 == kLinks) return;
    for (i32 i = 0; i < n; i++) {
      VersionEntry entry;
      const bool known = at[i] && version_store(w_, at[i].tn).peek(ahead_[i][link], &entry);
      at[i] = known && wants(entry.previous) ? entry.older() : VersionLocator{};
    }
  }
}

Status RowScan::resolve(Bytes value, ls_row *row, bool *visible) {
  if (snapshot_.kind == LS_SNAPSHOT_MVCC && (pos_ < ahead_from_ || pos_ >= ahead_to_)) look_ahead();
  Found found;
  RowVersion version;
  const std::span<const LeafHint> hints =
      snapshot_.kind == LS_SNAPSHOT_MVCC ? std::span<const LeafHint>(ahead_[pos_ - ahead_from_]) : std::span<const LeafHint>();
  LS_TRY(find_version(w_, viewer_, file_, row_id_, value, older_, &found, &version, hints));
  if (found == Found::kStale) {
    RowHeader newest;
    bool absent;
    const Status s = read_version(w_, file_, viewer_, row_id_, {again_, older_}, &version, &newest, &absent);
    if (!ok(s) && code(s) != LS_NOT_FOUND) return s;
    found = ok(s) ? Found::kRow : Found::kNone;
  }
  *visible = found == Found::kRow;
  if (*visible) fill_row(viewer_, row_id_, version, row);
  return kOk;
}

// To the next row of the range in the scan's direction, visible or not.
Status RowScan::advance(bool *ended) {
  if (place_ != Place::kLeaf) {
    LS_TRY(enter(ended));
    if (*ended) return kOk;
  } else {
    pos_ += backward_ ? -1 : 1;
  }
  while (pos_ < 0 || pos_ >= node()->count) {
    LS_TRY(next_leaf(ended));
    if (*ended) return kOk;
  }
  u8 key[kMaxKeyBytes];
  if (node()->copy_key(static_cast<u16>(pos_), key) != kRowKeyBytes) return fail_row(file_, row_id_, "the key behind it is damaged");
  row_id_ = decode_row_key(key);
  const bool beyond = backward_ ? row_id_ < lo_ : row_id_ >= hi_;
  if (!beyond) return kOk;
  leave_leaf();
  place_ = backward_ ? Place::kBegin : Place::kEnd;
  *ended = true;
  return kOk;
}

// From outside of the range to its first row in the scan's direction.
Status RowScan::enter(bool *ended) {
  // At the end that the scan runs towards, or nothing to see.
  *ended = place_ == (backward_ ? Place::kBegin : Place::kEnd) || lo_ >= hi_;
  if (*ended) return kOk;
  LS_TRY(copy_leaf_at(RowKey(backward_ ? hi_ : lo_)));
  place_ = Place::kLeaf;
  return kOk;
}

Status RowScan::next_leaf(bool *ended) {
  leave_leaf();
  const Bytes fence = backward_ ? node()->lower_fence() : node()->upper_fence();
  if (backward_ ? fence.empty() : !node()->has_upper) {
    place_ = backward_ ? Place::kBegin : Place::kEnd;
    *ended = true;
    return kOk;
  }
  u8 bound[kMaxKeyBytes];
  std::memcpy(bound, fence.data(), fence.size());
  const Bytes key(bound, fence.size());
  return copy_leaf_at(Bytes(bound, fence.size()));
}

// The leaf and position next to `bound` in the scan's direction: keys >= bound forward, keys < bound backward.
Status RowScan::copy_leaf_at(Bytes bound) {
  BTree tree(w_.ctx, file_);
  ahead_from_ = ahead_to_ = 0;
  LS_TRY(backward_ ? tree.leaf_copy_before(bound, false, leaf_) : tree.leaf_copy(bound, leaf_));
  pos_ = node()->position_of(bound);
  if (backward_) pos_--;
  return kOk;
}

// Ghosts that an earlier run has left go when a scan has passed them; whether that works out is not the scan's business.
void RowScan::leave_leaf() {
  if (!old_ghosts_) return;
  old_ghosts_ = false;
  PurgeResult purged;
  [[maybe_unused]] const Status ignored = purge_leaf(w_, file_, row_id_, viewer_.base, &purged);
}

}  // namespace ls
