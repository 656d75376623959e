// index_scan.cpp - opening, moving and copying: one leaf after the other in either direction.
#include "index/index_scan.hpp"

#include <new>

namespace ls {

Status IndexScan::open(Worker &w, FileSlot &index, IndexScan **scan) {
  void *memory = w.scan_memory.take(sizeof(IndexScan));
  if (memory == nullptr) return fail(LS_NO_MEMORY, "no memory for a scan");
  *scan = new (memory) IndexScan(w, index);
  return kOk;
}

void IndexScan::close(IndexScan *scan) {
  if (scan == nullptr) return;
  Worker &w = scan->w_;
  scan->~IndexScan();
  w.scan_memory.give(scan, sizeof *scan);
}

void IndexScan::range(Bytes from, Bytes to, bool unbounded, bool backward) {
  from_.set(from);
  to_.set(to);
  unbounded_ = unbounded;
  backward_ = backward;
  has_slice_ = false;
  crossed_ = false;
  place_ = backward ? Place::kEnd : Place::kBegin;
}

void IndexScan::seek(Bytes position) {
  sought_.set(position);
  sought_start_ = Start::kSought;
  crossed_ = false;
  place_ = Place::kSought;
}

void IndexScan::mark() {
  marked_place_ = place_;
  marked_pos_ = pos_;
}

bool IndexScan::confirm(ls_index_entry *entry) {
  if (!has_slice_ || crossed_ || !seen_.frame->latch.validate(seen_.version)) return false;
  place_ = marked_place_;
  pos_ = marked_pos_;
  return place_ != Place::kLeaf || ok(current(entry));
}

Status IndexScan::next(ls_index_entry *entry) {
  bool ended = false;
  LS_TRY(advance(&ended));
  return ended ? make_status(LS_END) : current(entry);
}

Status IndexScan::ahead(std::span<u64> rows, u32 *n) {
  *n = 0;
  if (place_ != Place::kLeaf) return kOk;
  for (i32 pos = pos_ + direction(); pos >= begin_ && pos < end_ && *n < rows.size();
       pos += direction()) {
    Bytes key;
    LS_TRY(whole_key_at(pos, &key));
    rows[(*n)++] = entry_row_id(key);
  }
  return kOk;
}

Status IndexScan::skip(u32 n, ls_index_entry *entry) {
  pos_ += direction() * static_cast<i32>(n);
  LS_ASSERT(place_ == Place::kLeaf && pos_ >= begin_ && pos_ < end_);
  return current(entry);
}

// A separator in the inner nodes halves what lies in several leaves; within one leaf positions do.
Status IndexScan::middle(Bytes from, Bytes to, bool unbounded, ls_index_entry *entry) {
  BTree tree(w_.ctx, index_);
  Bound end;
  end.set(to);
  for (;;) {
    u8 separator[kMaxKeyBytes];
    u16 bytes = 0;
    LS_TRY(tree.separator_between(from, end, unbounded, separator, &bytes));
    const Bytes half(separator, bytes);
    range(bytes != 0 ? half : from, end, unbounded, false);
    const Status first = next(entry);
    if (code(first) != LS_END || bytes == 0) {
      LS_TRY(first);
      if (bytes != 0) return kOk;
      pos_ = begin_ + (end_ - begin_) / 2;
      return current(entry);
    }
    // Nothing at or behind the separator.
    end.set(half);
    unbounded = false;
  }
}

Status IndexScan::whole_key_at(i32 pos, Bytes *key) {
  *key = key_at(pos);
  return key->size() >= kEntryRowIdBytes ? kOk : fail_short();
}

Status IndexScan::fail_short() const {
  return fail_page(index_.path, node()->header.page_no, "an index entry is shorter than a row id");
}

Status IndexScan::current(ls_index_entry *entry) {
  Bytes whole;
  LS_TRY(whole_key_at(pos_, &whole));
  const Bytes key = entry_key(whole), payload = node()->value(static_cast<u16>(pos_));
  entry->row_id = entry_row_id(whole);
  entry->key = {key.data(), static_cast<u32>(key.size())};
  entry->payload = {payload.data(), static_cast<u32>(payload.size())};
  return kOk;
}

// To the next entry of the range in the scan's direction.
Status IndexScan::advance(bool *ended) {
  if (place_ == Place::kLeaf) {
    pos_ += direction();
  } else {
    LS_TRY(place_ == Place::kSought ? enter_sought(ended) : enter(ended));
  }
  while (!*ended && (pos_ < begin_ || pos_ >= end_)) LS_TRY(next_leaf(ended));
  return kOk;
}

void IndexScan::end_at(Place place, bool *ended) {
  place_ = place;
  *ended = true;
}

// From outside of the range to its first entry in the scan's direction.
Status IndexScan::enter(bool *ended) {
  // At the end that the scan runs towards, or nothing to see.
  *ended = place_ == (backward_ ? Place::kBegin : Place::kEnd) ||
           (!unbounded_ && compare_keys(from_, to_) >= 0);
  if (*ended) return kOk;
  searches_++;
  return read_at(backward_ ? to_ : from_, Start::kEdge);
}

// The place sought lies between the entries of the slice or at its ends.
bool IndexScan::sought_in_slice() const {
  if (!has_slice_) return false;
  const int order = compare_keys(sought_, node()->lower_fence());
  if (backward_ ? order <= 0 : order < 0) return false;
  if (!node()->has_upper) return true;
  const int upper = compare_keys(sought_, node()->upper_fence());
  return backward_ ? upper <= 0 : upper < 0;
}

Status IndexScan::enter_sought(bool *ended) {
  if (!unbounded_ && compare_keys(sought_, to_) >= 0) {
    place_ = Place::kEnd;
    return enter(ended);
  }
  if (compare_keys(sought_, from_) < 0) {
    place_ = Place::kBegin;
    return enter(ended);
  }
  if (!sought_in_slice()) {
    searches_++;
    return read_at(sought_, sought_start_);
  }
  // The first entry behind it (forward), or the last before it.
  i32 low = begin_, high = end_;
  while (low < high) {
    const i32 middle = low + (high - low) / 2;
    const int order = compare_keys(key_at(middle), sought_);
    if (backward_ ? order < 0 : order <= 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  pos_ = backward_ ? low - 1 : low;
  place_ = Place::kLeaf;
  return kOk;
}

// An interrupted read may leave anything in the slice; called again, next() finds the place to go
// on in sought_.
Status IndexScan::next_leaf(bool *ended) {
  if (backward_) {
    sought_.set(node()->lower_fence());
    if (compare_keys(sought_, from_) <= 0) {
      end_at(Place::kBegin, ended);
      return kOk;
    }
  } else {
    sought_.set(node()->upper_fence());
    if (!node()->has_upper || (!unbounded_ && compare_keys(sought_, to_) >= 0)) {
      end_at(Place::kEnd, ended);
      return kOk;
    }
  }
  sought_start_ = Start::kFence;
  crossed_ = true;
  place_ = Place::kSought;
  return read_at(sought_, Start::kFence);
}

// Take the range's entries out of the leaf next to `bound` in the scan's direction.  pos_: forward
// the first >= bound (kSought: > bound), backward the last < bound.
Status IndexScan::read_at(Bytes bound, Start start) {
  const bool last_leaf = start == Start::kEdge && unbounded_;
  const BTree::Aim aim = !backward_  ? BTree::Aim::kAt
                         : last_leaf ? BTree::Aim::kLast
                                     : BTree::Aim::kBefore;
  u16 begin = 0, end = 0, pos = 0;
  has_slice_ = false;
  vouches_ = w_.txns->row_blocks.vouches(index_.table_no.load(std::memory_order_acquire));  // BLK-5
  const Status s = BTree(w_.ctx, index_).read_leaf(bound, aim, [&](const Node &leaf) {
    if (start == Start::kEdge && !backward_) {
      bool found;
      begin = leaf.lower_bound(from_, &found);
      end = unbounded_ ? leaf.count : leaf.position_behind(begin, from_, to_);
    } else {
      begin = leaf.position_of(from_);
      end = unbounded_ ? leaf.count : leaf.position_of(to_);
    }
    pos = start != Start::kEdge ? leaf.position_of(bound) : backward_ ? end : begin;
    leaf.copy_slice(begin, end, slice_);
  }, &seen_);
  if (code(s) == LS_END) place_ = Place::kBegin;  // nothing is less than nothing
  LS_TRY(s);
  const Bytes prefix = node()->prefix();
  if (!prefix.empty()) std::memcpy(key_, prefix.data(), prefix.size());
  begin_ = begin;
  end_ = end;
  pos_ = pos;
  if (backward_) {
    pos_--;
  } else if (start == Start::kSought && pos_ >= begin_ && pos_ < end_ &&
             compare_keys(key_at(pos_), bound) == 0) {
    pos_++;
  }
  has_slice_ = true;
  place_ = Place::kLeaf;
  return kOk;
}

}  // namespace ls
