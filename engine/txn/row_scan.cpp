// row_scan.cpp - leaves copied, rows judged, chains of many rows followed together.
#include "txn/row_scan.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/check.hpp"
#include "base/prefetch.hpp"
#include "btree/node_entries.hpp"
#include "buffer/followed_pages.hpp"
#include "txn/row_purge.hpp"

namespace ls {

// The first row id with a key that begins so.
static u64 row_id_from(Bytes beginning) {
  u8 key[kRowKeyBytes]{};
  std::copy_n(beginning.begin(), std::min<size_t>(beginning.size(), sizeof key), key);
  return decode_row_key(key);
}

RowScan::RowScan(Worker &w, FileSlot &file, const ls_snapshot &snapshot, u64 *running)
    : w_(w), file_(file), running_(running), snapshot_(snapshot), read_ahead_(w.ctx, file) {
  snapshot_.running = running;
  viewer_ = viewer_of(w, snapshot_);
  visible_below_ = visible_below(snapshot_, viewer_.base);
  if (snapshot_.kind == LS_SNAPSHOT_ANY) {
    visible_below_ = ~Tn{0};
    unclear_flags_ = LS_ROW_GHOST | LS_ROW_SPECULATIVE;
  }
}

Status RowScan::open(Worker &w, FileSlot &file, const ls_snapshot &snapshot, u64 lo, u64 hi,
                     bool backward, RowScan **scan) {
  u64 *running = nullptr;
  if (snapshot.n_running > 0) {
    running = new (std::nothrow) u64[snapshot.n_running];
    if (running == nullptr) return fail(LS_NO_MEMORY, "no memory for a scan");
    std::memcpy(running, snapshot.running, snapshot.n_running * sizeof(u64));
  }
  void *memory = w.scan_memory.take(sizeof(RowScan));
  if (memory == nullptr) {
    delete[] running;
    return fail(LS_NO_MEMORY, "no memory for a scan");
  }
  *scan = new (memory) RowScan(w, file, snapshot, running);
  (*scan)->rescan(lo, hi, backward);
  return kOk;
}

void RowScan::close(RowScan *scan) {
  if (scan == nullptr) return;
  delete[] scan->running_;
  Worker &w = scan->w_;
  scan->~RowScan();
  w.scan_memory.give(scan, sizeof *scan);
}

void RowScan::rescan(u64 lo, u64 hi, bool backward) {
  lo_ = lo;
  hi_ = hi < LS_MAX_ROW_ID + 1 ? hi : LS_MAX_ROW_ID + 1;
  backward_ = backward;
  place_ = backward ? Place::kEnd : Place::kBegin;
  met_ = false;
  old_ghosts_ = false;
}

Status RowScan::fetch(u64 row_id, int run, std::span<const ls_row> *rows) {
  if (run != 0) forget_older();
  LS_TRY(look_for(row_id, &rows_[0]));
  *rows = {rows_, 1};
  if (run == 0) return kOk;
  backward_ = run < 0;
  *rows = rows_of_leaf();
  backward_ = met_ = false;  // look_for() looks for leaves forward
  return kOk;
}

Status RowScan::look_for(u64 row_id, ls_row *row) {
  if (row_id < leaf_lo_ || row_id >= leaf_hi_) {
    leaf_lo_ = leaf_hi_ = 0;
    leave_leaf();
    hook_ = {};
    LS_TRY(copy_leaf_at(RowKey(row_id)));
    note_leaf_range();
  }
  const RowKey key(row_id);
  if (node()->key_is(static_cast<u32>(pos_ + 1), key)) {
    pos_++;
  } else if (pos_ > 0 && node()->key_is(static_cast<u32>(pos_ - 1), key)) {
    pos_--;
  } else {
    bool found;
    pos_ = node()->lower_bound(key, &found);
    if (!found) return make_status(LS_NOT_FOUND);
  }
  row_id_ = row_id;
  if (!room_for_older()) forget_older();
  bool visible = false;
  LS_TRY(look_at_row(row, &visible));
  return visible ? kOk : make_status(LS_NOT_FOUND);
}

// Which row ids belong into the leaf copied.  Fences are row ids or the beginnings of some.
void RowScan::note_leaf_range() {
  leaf_lo_ = row_id_from(node()->lower_fence());
  leaf_hi_ = node()->has_upper ? row_id_from(node()->upper_fence()) : LS_MAX_ROW_ID + 1;
}

// The row at pos_: the version that the snapshot sees.
Status RowScan::look_at_row(ls_row *row, bool *visible) {
  LS_ASSERT(pos_ >= 0 && pos_ < node()->count);
  return look_at_value(value_bytes(*node(), static_cast<u32>(pos_)), row, visible);
}

// A version that the snapshot sees, and that is no ghost.
[[gnu::always_inline]] inline void RowScan::take_row(u64 row_id, const RowHeader &header,
                                                     Bytes value, ls_row *row) {
  row->row_id = row_id;
  row->writer_tn = header.tn();
  row->cid = header.cid;
  row->seq = header.seq;
  row->flags = header.flags() & ~u32{LS_ROW_SPECULATIVE};
  row->moved_to = 0;
  row->data = value.data() + sizeof(RowHeader);
  row->len = static_cast<u32>(value.size() - sizeof(RowHeader));
}

[[gnu::always_inline]] inline Status RowScan::look_at_value(Bytes value, ls_row *row,
                                                            bool *visible) {
  if (value.size() < sizeof(RowHeader)) return fail_row(file_, row_id_, "shorter than its header");
  const RowHeader header = RowHeader::load(value.data());
  if (header.tn() >= visible_below_ || (header.flags() & unclear_flags_))
    return resolve(value, row, visible);
  // The common case: the snapshot sees all that was written below.
  show(w_, snapshot_, header.tn());
  *visible = !header.has(LS_ROW_GHOST);
  if (!*visible) {
    old_ghosts_ |= no_cleaner_comes_for(header);
    return kOk;
  }
  take_row(row_id_, header, value, row);
  return kOk;
}

// Is the version before this one wanted?
bool RowScan::wants(const RowHeader &header) const {
  return header.has(LS_ROW_HAS_PREV) && !writer_visible(header, snapshot_, viewer_.base);
}

// Find the older versions of the next rows together: all first links of their chains, then the next
// ones.  What an entry says of the version before never changes (VER-2), so it does not matter when
// it is read, if only after the row was.
void RowScan::batch_lookup() {
  constexpr u32 kMax = BatchLookup::kMax;
  // Most chains have one or two links that count: what lies between the newest version and the one
  // that an old snapshot sees is pruned.
  constexpr u32 kLinks = 3;
  struct Chain {
    i32 pos;
    VersionLocator at;
    VersionKey key;
    LeafHint hint;
  };
  Chain chains[kMax];
  u32 n = 0;
  const i32 step = backward_ ? -1 : 1;
  const i32 count = std::min<i32>(node()->count, kMaxLeafRows);
  i32 pos = pos_;
  for (; n < kMax && pos >= 0 && pos < count; pos += step) {
    const Bytes value = value_bytes(*node(), static_cast<u32>(pos));
    const RowHeader header =
        value.size() < sizeof(RowHeader) ? RowHeader{} : RowHeader::load(value.data());
    ahead_[pos] = nullptr;
    if (header.tn() < visible_below_ || !wants(header)) continue;
    Chain &chain = chains[n++];
    chain.pos = pos;
    chain.at = {header.tn(), header.seq};
    w_.txns->version_leaves.prefetch(header.tn(), header.seq);
  }
  ahead_from_ = backward_ ? pos + 1 : pos_;
  ahead_to_ = backward_ ? pos_ + 1 : pos;

  BatchLookup batch_lookup(*w_.pool);
  for (u32 link = 0; link < kLinks && n > 0; link++) {
    for (u32 i = 0; i < n; i++) {
      Chain &chain = chains[i];
      chain.key = VersionKey(chain.at.tn, chain.at.seq);
      VersionStore store = version_store(w_, chain.at.tn);
      batch_lookup.add(store.tree().file(), chain.key, &chain.hint, store.guess(chain.at));
    }
    batch_lookup.run();
    u32 left = 0;
    for (u32 i = 0; i < n && room_for_older(); i++) {
      Chain &chain = chains[i];
      LS_ASSERT(chain.at);
      u8 *older = older_ + older_used_;
      const VersionEntry *entry = version_store(w_, chain.at.tn).at_hint(chain.hint, older);
      if (!entry) continue;
      if (wants(entry->previous)) {
        const VersionLocator at = entry->older();
        if (!at) continue;
        w_.txns->version_leaves.prefetch(at.tn, at.seq);
        chains[left].pos = chain.pos;
        chains[left++].at = at;
      } else if (is_plain(*entry, chain.pos)) {
        ahead_[chain.pos] = entry;
        older_used_ += (sizeof *entry + entry->payload_bytes + 7) & ~7u;
      }
    }
    n = left;
  }
}

// A version of the row that the snapshot sees, and nothing about it that find_version() would have
// more to say of.
bool RowScan::is_plain(const VersionEntry &entry, i32 pos) const {
  constexpr u8 kSpecial = LS_ROW_COPIED | LS_ROW_GHOST | LS_ROW_SPECULATIVE;
  u64 row_id;
  return entry.op == VersionOp::kUpdate && (entry.previous.flags() & kSpecial) == 0 &&
         entry.file_no == file_.file_no.load(std::memory_order_relaxed) &&
         row_id_at(pos, &row_id) && entry.row_id == row_id &&
         writer_visible(entry.previous, snapshot_, viewer_.base);
}

// The entry with the version wanted of the row at pos_, where it has been looked for and found.
const VersionEntry *RowScan::found_ahead() {
  if (snapshot_.kind != LS_SNAPSHOT_MVCC || snapshot_.newest_only ||
      pos_ >= static_cast<i32>(kMaxLeafRows))
    return nullptr;
  if (pos_ < ahead_from_ || pos_ >= ahead_to_) batch_lookup();
  LS_ASSERT(pos_ >= ahead_from_ && pos_ < ahead_to_);
  return ahead_[pos_];
}

Status RowScan::resolve(Bytes value, ls_row *row, bool *visible) {
  Found found;
  RowVersion version;
  if (const VersionEntry *entry = found_ahead()) {
    version.header = entry->previous;
    show(w_, snapshot_, version.header.tn());
    version.payload = Bytes(reinterpret_cast<const u8 *>(entry + 1), entry->payload_bytes);
    fill_row(viewer_, row_id_, version, row);
    *visible = true;
    return kOk;
  }
  LS_ASSERT(older_used_ + kPageSize <= sizeof older_);
  u8 *older = older_ + older_used_;
  LS_TRY(find_version(w_, viewer_, file_, row_id_, value, older, &found, &version));
  if (found == Found::kStale) {
    RowHeader newest;
    bool absent;
    const Status s =
        read_version(w_, file_, viewer_, row_id_, {again_, older}, &version, &newest, &absent);
    if (!ok(s) && code(s) != LS_NOT_FOUND) return s;
    found = ok(s) ? Found::kRow : Found::kNone;
    again_used_ = true;
  }
  *visible = found == Found::kRow;
  if (!*visible) return kOk;
  fill_row(viewer_, row_id_, version, row);
  const u8 *end = version.payload.data() + version.payload.size();
  if (end > older && end <= older + kPageSize)
    older_used_ = (static_cast<u32>(end - older_) + 7) & ~7u;
  return kOk;
}

// False: the key is none of a row.
template <typename Entries>
[[gnu::always_inline]] inline bool RowScan::row_id_of(const Entries &entries, i32 pos,
                                                      u64 *row_id) const {
  u64 rest;
  if (entries.key_bytes(static_cast<u32>(pos)) == rest_bytes_ &&
      rest_number(*node(), entries, static_cast<u32>(pos), &rest)) {
    *row_id = prefix_ | rest;
    return true;
  }
  u8 key[kMaxKeyBytes];
  if (node()->copy_key(static_cast<u16>(pos), key) != kRowKeyBytes) return false;
  *row_id = decode_row_key(key);
  return true;
}

bool RowScan::row_id_at(i32 pos, u64 *row_id) const {
  return with_entries(*node(),
                      [&](const auto &entries) { return row_id_of(entries, pos, row_id); });
}

// To the next row of the range in the scan's direction, visible or not.
Status RowScan::advance(bool *ended) {
  if (place_ == Place::kLeaf) {
    pos_ += backward_ ? -1 : 1;
  } else if (place_ == Place::kFence) {
    LS_TRY(enter_fence());
  } else {
    LS_TRY(enter(ended));
    if (*ended) return kOk;
  }
  while (pos_ < 0 || pos_ >= node()->count) {
    LS_TRY(next_leaf(ended));
    if (*ended) return kOk;
  }
  LS_ASSERT(place_ == Place::kLeaf);
  if (!row_id_at(pos_, &row_id_)) return fail_row(file_, row_id_, "the key behind it is damaged");
  if (!is_beyond(row_id_)) return kOk;
  leave_leaf();
  place_ = backward_ ? Place::kBegin : Place::kEnd;
  *ended = true;
  return kOk;
}

Status RowScan::next(std::span<const ls_row> *rows) {
  bool visible = false;
  forget_older();
  while (!visible) {
    bool ended = false;
    if (!met_) LS_TRY(advance(&ended));
    if (ended) {
      // A scan that has come to the end may stay open for long: memory and descriptor go back.
      std::destroy_at(&read_ahead_);
      std::construct_at(&read_ahead_, w_.ctx, file_);
      return make_status(LS_END);
    }
    met_ = true;
    LS_TRY(look_at_row(&rows_[0], &visible));
    met_ = false;
  }
  *rows = rows_of_leaf();
  return kOk;
}

// rows_[0], and the visible ones behind it.
std::span<const ls_row> RowScan::rows_of_leaf() {
  const u32 n =
      with_entries(*node(), [&](const auto &entries) { return rows_behind_first(entries); });
  return {rows_, n};
}

// How many it are with the first.
template <typename Entries>
u32 RowScan::rows_behind_first(Entries entries) {
  const i32 step = backward_ ? -1 : 1, count = static_cast<i32>(entry_count(*node(), entries));
  u32 n = 1;
  while (n < kMaxLeafRows && room_for_older() && !again_used_) {
    n = plain_rows(entries, n);
    const i32 next = pos_ + step;
    u64 row_id;
    if (n == kMaxLeafRows || next < 0 || next >= count || !row_id_of(entries, next, &row_id) ||
        is_beyond(row_id))
      break;
    pos_ = next;
    row_id_ = row_id;
    // What is wrong with this row is for the next call to say.
    bool visible = false;
    met_ = !ok(look_at_value(value_at(*node(), entries, static_cast<u32>(pos_)), &rows_[n],
                             &visible));
    if (met_) break;
    n += visible;
  }
  return n;
}

// To the last row before one that has to be looked at more closely, or is not in the range: with
// all that is asked of each row in registers.
template <typename Entries>
[[gnu::always_inline]] inline u32 RowScan::plain_rows(const Entries &entries, u32 n) {
  const Node &leaf = *node();
  const i32 step = backward_ ? -1 : 1, count = static_cast<i32>(entry_count(leaf, entries));
  const u64 lo = backward_ ? lo_ : 0, hi = backward_ ? ~u64{0} : hi_, prefix = prefix_;
  const Tn below = std::min(visible_below_, w_.shown.hardened_below());
  const u32 unclear = unclear_flags_ | LS_ROW_GHOST, rest_bytes = rest_bytes_;
  i32 pos = pos_;
  u64 row_id = row_id_;
  for (; n < kMaxLeafRows; n++) {
    const i32 next = pos + step;
    u64 rest;
    if (next < 0 || next >= count || entries.key_bytes(static_cast<u32>(next)) != rest_bytes ||
        !rest_number(leaf, entries, static_cast<u32>(next), &rest))
      break;
    const u64 id = prefix | rest;
    if (id < lo || id >= hi) break;
    const Bytes value = value_at(leaf, entries, static_cast<u32>(next));
    if (value.size() < sizeof(RowHeader)) break;
    const RowHeader header = RowHeader::load(value.data());
    if (header.tn() >= below || (header.flags() & unclear)) break;
    take_row(id, header, value, &rows_[n]);
    pos = next;
    row_id = id;
  }
  pos_ = pos;
  row_id_ = row_id;
  return n;
}

void RowScan::set_backward(bool backward, u64 from) {
  backward_ = backward;
  met_ = false;
  bool found;
  if (place_ == Place::kLeaf) pos_ = node()->lower_bound(RowKey(from), &found);
}

// From outside of the range to its first row in the scan's direction.
Status RowScan::enter(bool *ended) {
  // At the end that the scan runs towards, or nothing to see.
  *ended = place_ == (backward_ ? Place::kBegin : Place::kEnd) || lo_ >= hi_;
  if (*ended) return kOk;
  hook_ = {.parent = {}, .ahead = &read_ahead_};
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
  fence_bytes_ = static_cast<u32>(std::min<size_t>(fence.size(), sizeof fence_));
  std::memcpy(fence_, fence.data(), fence_bytes_);
  place_ = Place::kFence;
  return enter_fence();
}

Status RowScan::enter_fence() {
  LS_TRY(copy_leaf_at(Bytes(fence_, fence_bytes_)));
  place_ = Place::kLeaf;
  return kOk;
}

// The leaf and position next to `bound` in the scan's direction: keys >= bound forward, keys <
// bound backward.
Status RowScan::copy_leaf_at(Bytes bound) {
  BTree tree(w_.ctx, file_);
  const RowKey end(backward_ ? lo_ : hi_);
  hook_.end = end;
  ahead_from_ = ahead_to_ = 0;
  const Status status = backward_ ? tree.leaf_copy_before(bound, false, leaf_, &hook_)
                                  : tree.leaf_copy(bound, leaf_, &hook_);
  hook_.end = {};
  LS_TRY(status);
  pos_ = node()->position_of(bound);
  if (backward_) pos_--;
  const Bytes prefix = node()->prefix();
  prefix_ = row_id_from(prefix);
  rest_bytes_ = kRowKeyBytes - static_cast<u32>(std::min<size_t>(prefix.size(), kRowKeyBytes));
  return kOk;
}

// The cleaner finds ghosts by their undo entries.  Those of an earlier run have none any more, but
// for transactions that were prepared; those of a copied row name the row it was copied from.
bool RowScan::no_cleaner_comes_for(const RowHeader &ghost) const {
  if (ghost.tn() < viewer_.base) return true;
  const Tn from = w_.txns->versions_from.load(std::memory_order_relaxed);
  return (ghost.has(LS_ROW_COPIED) || ghost.tn() < from) && ghost.tn() < settled_below(*w_.txns);
}

// Such ghosts go when a scan has passed them; whether that works out is not the scan's business.
void RowScan::leave_leaf() {
  if (!old_ghosts_ || is_followed(*w_.pool->shared(), file_)) return;
  old_ghosts_ = false;
  PurgeResult purged;
  [[maybe_unused]] const Status ignored =
      purge_leaf(w_, file_, row_id_, settled_below(*w_.txns), &purged);
}

}  // namespace ls
