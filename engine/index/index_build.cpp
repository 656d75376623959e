// index_build.cpp - entries gathered until their leaf is known, and the leaf written.
#include "index/index_build.hpp"

#include <algorithm>
#include <new>
#include <span>

#include "base/check.hpp"

namespace ls {

namespace {

// What an entry takes in a leaf behind a prefix, its slot included.  uniform: all in it are of
// these sizes.
u32 entry_bytes(u32 key_bytes, u32 payload_bytes, u32 prefix, bool uniform) {
  const u32 stored = key_bytes > prefix + kHeadBytes ? key_bytes - prefix - kHeadBytes : 0;
  const bool small =
      uniform && fits_uniform(key_bytes - std::min(prefix, key_bytes), payload_bytes);
  return (small ? kUniformSlotBytes : static_cast<u32>(sizeof(Slot))) + stored + payload_bytes;
}

}  // namespace

Status IndexBuild::open(Worker &w, FileSlot &index, u32 fill_percent, IndexBuild **build) {
  if (fill_percent < 10 || fill_percent > 100)
    return fail(LS_INVALID, "fill factor %u is out of range", fill_percent);
  alignas(64) u8 page[kPageSize];
  const Node *leaf = reinterpret_cast<const Node *>(page);
  LS_TRY(BTree(w.ctx, index).leaf_copy({}, page));
  if (leaf->count != 0 || leaf->has_upper)
    return fail(LS_INVALID, "\"%s\" is not empty, it can not be built", index.path);
  *build = new (std::nothrow) IndexBuild(w, index, fill_percent);
  return *build ? kOk : fail(LS_NO_MEMORY, "no memory for an index build");
}

void IndexBuild::close(IndexBuild *build) { delete build; }

Status IndexBuild::add(Bytes entry, Bytes payload) {
  if (entry.size() < kEntryRowIdBytes || entry.size() > kMaxEntryKeyBytes) {
    return fail(LS_TOO_LARGE, "index entry with a key of %zu bytes", entry.size());
  }
  LS_TRY(check_entry_size(entry_key(entry), payload));
  if (!waiting_.empty() && compare_keys(key_of(waiting_.back()), entry) >= 0) {
    return fail(LS_INVALID, "index entries are not in ascending order");
  }
  const u32 payload_bytes = static_cast<u32>(payload.size());
  while (!takes(entry, payload_bytes)) LS_TRY(close_leaf_before(entry));
  waiting_.push_back({static_cast<u32>(bytes_.size()), static_cast<u16>(entry.size()),
                      static_cast<u16>(payload_bytes)});
  bytes_.insert(bytes_.end(), entry.begin(), entry.end());
  bytes_.insert(bytes_.end(), payload.begin(), payload.end());
  heap_ += entry_bytes(static_cast<u32>(entry.size()), payload_bytes, prefix_, uniform_);
  LS_ASSERT(lower_is_before_first());   // BUILD-1
  return kOk;
}

Status IndexBuild::finish() {
  // Without an upper fence there is no prefix.
  while (waiting_.size() > 1 &&
         lower_bytes_ + heap_bytes(waiting_.size(), 0, uniform_) > kNodeSpace)
    LS_TRY(close_leaf_before({}));
  return write_leaf(waiting_.size(), {}, true);
}

bool IndexBuild::lower_is_before_first() const {
  const Bytes first = key_of(waiting_.front());
  return lower().size() <= first.size() && compare_keys(lower(), first) <= 0;
}

// Of the first `count` that wait.
u32 IndexBuild::heap_bytes(size_t count, u32 prefix, bool uniform) const {
  u32 bytes = 0;
  for (const Waiting &e : std::span(waiting_).first(count))
    bytes += entry_bytes(e.key_bytes, e.payload_bytes, prefix, uniform);
  return bytes;
}

// May the entry wait with the others?  Then prefix_, uniform_ and heap_ are right for it, too.
bool IndexBuild::takes(Bytes entry, u32 payload_bytes) {
  const u32 prefix = waiting_.empty() ? common_prefix(lower(), entry)
                                      : std::min(prefix_, common_prefix(lower(), entry));
  const u32 key_bytes = static_cast<u32>(entry.size());
  const bool uniform = waiting_.empty() || (uniform_ && key_bytes == waiting_.back().key_bytes &&
                                            payload_bytes == waiting_.back().payload_bytes);
  const u32 heap = prefix == prefix_ && uniform == uniform_
                       ? heap_
                       : heap_bytes(waiting_.size(), prefix, uniform);
  const u32 separator = key_bytes + 1;  // behind it, at most
  const u32 total =
      lower_bytes_ + heap + entry_bytes(key_bytes, payload_bytes, prefix, uniform) + separator;
  if (!waiting_.empty() && total > limit_) return false;
  prefix_ = prefix;
  uniform_ = uniform;
  heap_ = heap;
  return true;
}

// Do the first `count` that wait fit a leaf up to the separator?
bool IndexBuild::fits(size_t count, Bytes separator) const {
  return lower_bytes_ + heap_bytes(count, common_prefix(lower(), separator), uniform_) +
             separator.size() <=
         kNodeSpace;
}

// Write a leaf with all that wait, or with all but the last where the separator before `next`
// (empty: unknown) would shorten the prefix so much that they do not fit (BUILD-2).
Status IndexBuild::close_leaf_before(Bytes next) {
  u8 buffer[kMaxKeyBytes];
  if (!next.empty()) {
    const Bytes separator(buffer, shortest_between(key_of(waiting_.back()), next, buffer));
    if (fits(waiting_.size(), separator)) return write_leaf(waiting_.size(), separator, false);
  }
  const size_t count = waiting_.size() - 1;
  const Bytes separator(
      buffer, shortest_between(key_of(waiting_[count - 1]), key_of(waiting_[count]), buffer));
  LS_ASSERT(fits(count, separator));   // BUILD-2
  return write_leaf(count, separator, false);
}

// The first `count` that wait, up to the separator; the others go on waiting.
Status IndexBuild::write_leaf(size_t count, Bytes separator, bool last) {
  Node *leaf = reinterpret_cast<Node *>(page_);
  leaf->init(true, 0, lower(), separator, !last);
  for (size_t i = 0; i < count; i++) leaf->append(key_of(waiting_[i]), payload_of(waiting_[i]));
  leaf->rebuild_hints();
  LS_TRY(tree_.fill_last_leaf(*leaf));
  lower_bytes_ = static_cast<u32>(separator.size());
  if (lower_bytes_ != 0) std::memcpy(lower_, separator.data(), lower_bytes_);

  const u32 gone =
      count < waiting_.size() ? waiting_[count].offset : static_cast<u32>(bytes_.size());
  bytes_.erase(bytes_.begin(), bytes_.begin() + gone);
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
  for (Waiting &e : waiting_) e.offset -= gone;
  prefix_ = waiting_.empty() ? 0 : common_prefix(lower(), key_of(waiting_.back()));
  uniform_ = waiting_.size() < 2;
  heap_ = heap_bytes(waiting_.size(), prefix_, uniform_);
  return kOk;
}

}  // namespace ls
