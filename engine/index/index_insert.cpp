// index_insert.cpp - new entries, with and without a look at those with an equal key.
//
// Uniqueness.  The entries with an equal key lie in [key|0..0, key|f..f] (ENTRY-1), as a rule
// within one
// leaf: then its exclusive latch makes looking and inserting one step.  Else (many dead entries of
// one key) their leaves are read without latches, the leaf for the new entry is latched if it is
// the one that was read, and then the others are found unchanged.
// UNIQ-1  Each party latches its own leaf before it looks at the versions of the others', both
//         sequentially consistent: of two concurrent inserters of a key at least one finds the
//         other's leaf latched or changed, and begins again.
#include <algorithm>
#include <vector>

#include "base/failpoint.hpp"
#include "btree/retry.hpp"
#include "index/index_clean.hpp"
#include "index/index_cleaner.hpp"
#include "index/index_log.hpp"

namespace ls {

namespace {

Status check_entry(Worker &w, const IndexAt &at, const NewEntry &entry) {
  if (w.tn == 0) return fail(LS_INVALID, "an index entry is inserted outside a transaction");
  if (entry.row_id > LS_MAX_ROW_ID) {
    return fail(LS_NO_ROW_IDS, "row id %llu is over the limit",
                static_cast<unsigned long long>(entry.row_id));
  }
  LS_TRY(check_entry_size(entry.key, entry.payload));
  note_table(at);
  if (at.index.logged) {
    log_begin(w);
  } else {
    w.wrote_unlogged = true;
  }
  return kOk;
}

class Insertion {
 public:
  Insertion(Worker &w, const IndexAt &at, const NewEntry &entry)
      : w_(w),
        at_(at),
        tree_(w.ctx, at.index),
        key_(entry.key, entry.row_id),
        payload_(entry.payload),
        need_(Node::most_entry_bytes(static_cast<u32>(Bytes(key_).size()),
                                     static_cast<u32>(entry.payload.size()))) {}

  // Latch the leaf of the entry.
  Status open() {
    LS_TRY(reserve());
    LS_TRY(tree_.leaf_exclusive(key_, 0, leaf_, w_.appended_leaves.of(at_.index)));
    find();
    return kOk;
  }
  // The same where the entry may go in unseen; *done: it is in, or will be when a worker reads its
  // leaf.
  Status open_or_buffer(bool *done) {
    LS_TRY(reserve());
    BlindWrite change{BlindWrite::Kind::kInsert, payload_};
    LS_TRY(tree_.leaf_exclusive(key_, 0, leaf_, w_.appended_leaves.of(at_.index), &change));
    *done = change.done;
    if (!change.done) find();
    return kOk;
  }
  Status reserve() { return w_.log.reserve(index_record_room(need_), w_.ctx.interrupt); }
  // The same, if the leaf is still what was seen.
  bool open_at(const BTree::PageStamp &seen) {
    leaf_ = tree_.exclusive_at(seen);
    if (!leaf_) return false;
    find();
    return true;
  }
  void close_unchanged() { leaf_.reset_unchanged(); }
  // As if it had changed: a worker that has looked at the entry, and is about to remove it, has to
  // look again.
  void close_claimed() { leaf_.reset(); }

  bool found() const { return found_; }
  bool has_room() const { return node()->has_room(key_, need_); }
  const Node *node() const { return reinterpret_cast<const Node *>(leaf_.page()); }
  const EntryKey &key() const { return key_; }
  BTree &tree() { return tree_; }

  void insert() {
    Node *leaf = reinterpret_cast<Node *>(leaf_.page());
    leaf->insert_at(pos_, key_, payload_);
    w_.appended_leaves.note(at_.index, pos_ + 1 == leaf->count ? leaf_.frame() : nullptr);
    const Gsn gsn = log_entry_insert(w_, at_.index, leaf->header.page_no, key_, payload_);
    w_.pool->mark_changed(w_.ctx.log, leaf_.frame(), gsn);
    leaf_.reset();
  }

  // The leaf is latched and has no room: let go of it and make some.  Once by removing what is
  // dead, but not where entries are appended to the leaf: it is left behind full and the new one
  // begins empty.
  Status make_room() {
    const bool appending = pos_ == node()->count;
    close_unchanged();
    if (!cleaned_ && !appending) {
      cleaned_ = true;
      u32 removed = 0;
      // Whatever keeps it from cleaning is no reason not to insert.
      if (ok(clean_full_leaf(w_, at_, key_, &removed)) && removed > 0) return kOk;
    }
    LS_TRY(tree_.leaf_exclusive(key_, need_, leaf_));
    close_unchanged();
    return kOk;
  }

 private:
  void find() { pos_ = node()->lower_bound(key_, &found_); }

  Worker &w_;
  const IndexAt &at_;
  BTree tree_;
  const EntryKey key_;
  const Bytes payload_;
  const u32 need_;
  ExclusiveGuard leaf_;
  u16 pos_ = 0;
  bool found_ = false;
  bool cleaned_ = false;
};

// Entries with an equal key in one leaf.
class EqualEntries {
 public:
  EqualEntries(Bytes key, std::span<const u64> ignore)
      : low_(key, 0), high_(key, LS_MAX_ROW_ID), ignore_(ignore) {}

  Bytes low() const { return low_; }
  // There may be some behind this leaf.
  bool go_on_behind(const Node &leaf) const {
    return leaf.has_upper && compare_keys(leaf.upper_fence(), high_) <= 0;
  }
  bool within(const Node &leaf) const {
    return compare_keys(leaf.lower_fence(), low_) <= 0 && !go_on_behind(leaf);
  }

  // The first that counts.  May run on moving bytes.
  bool find(const Node &leaf, u64 *other) const {
    bool exact;
    u8 buffer[kMaxKeyBytes];
    const u32 end = std::min<u32>(leaf.count, kMaxEntries);
    const bool from_start = compare_keys(leaf.lower_fence(), low_) > 0;
    for (u32 pos = from_start ? 0 : leaf.lower_bound(low_, &exact); pos < end; pos++) {
      const Bytes entry(buffer, leaf.copy_key(static_cast<u16>(pos), buffer));
      // ENTRY-1; or torn
      if (entry.size() != Bytes(low_).size() || compare_keys(entry, high_) > 0) return false;
      const u64 row_id = entry_row_id(entry);
      if (std::find(ignore_.begin(), ignore_.end(), row_id) != ignore_.end()) continue;
      *other = row_id;
      return true;
    }
    return false;
  }

 private:
  const EntryKey low_, high_;
  std::span<const u64> ignore_;
};

// What there is of equal entries in several leaves.
struct SpanView {
  std::vector<BTree::PageStamp> others;
  BTree::PageStamp own;      // the leaf for the new entry
  bool conflict = false;
};

Status read_span(Insertion &insertion, const EqualEntries &equal, SpanView *view, u64 *other) {
  *view = SpanView{};
  u8 from[kMaxKeyBytes];
  u32 from_bytes = static_cast<u32>(equal.low().size());
  std::memcpy(from, equal.low().data(), from_bytes);
  for (bool more = true; more && !view->conflict;) {
    bool own = false, conflict = false;
    BTree::PageStamp seen;
    u8 upper[kMaxKeyBytes];
    u32 upper_bytes = 0;
    LS_TRY(insertion.tree().read_leaf(
        Bytes(from, from_bytes), BTree::Aim::kAt,
        [&](const Node &leaf) {
          own = leaf.covers(insertion.key());
          conflict = equal.find(leaf, other);
          more = equal.go_on_behind(leaf);
          const Bytes fence = leaf.upper_fence();
          upper_bytes = static_cast<u32>(std::min<size_t>(fence.size(), kMaxKeyBytes));
          if (upper_bytes != 0) std::memcpy(upper, fence.data(), upper_bytes);
        },
        &seen));
    view->conflict = conflict;
    if (own) {
      view->own = seen;
    } else {
      view->others.push_back(seen);
    }
    from_bytes = upper_bytes;
    std::memcpy(from, upper, upper_bytes);
  }
  return kOk;
}

bool still_so(const std::vector<BTree::PageStamp> &leaves) {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // UNIQ-1: our latch before their versions
  return std::all_of(leaves.begin(), leaves.end(),
                     [](const BTree::PageStamp &s) { return s.frame->latch.validate(s.version); });
}

// The equal entries lie in several leaves.  kOk and *done: inserted; not done: begin again.
Status insert_spanning(Insertion &insertion, const EqualEntries &equal, bool *done, u64 *other) {
  SpanView view;
  LS_TRY(insertion.reserve());
  LS_TRY(read_span(insertion, equal, &view, other));
  if (view.conflict) return make_status(LS_EXISTS);
  LS_FAILPOINT(index_before_insert);
  if (!view.own.frame || !insertion.open_at(view.own)) return kOk;
  *done = !insertion.found() && insertion.has_room() && still_so(view.others);
  if (*done) {
    insertion.insert();
  } else {
    insertion.close_unchanged();
  }
  return kOk;
}

}  // namespace

Status check_entry_size(Bytes key, Bytes payload) {
  if (key.size() > LS_MAX_KEY_BYTES) {
    return fail(LS_TOO_LARGE, "index key of %zu bytes exceeds the limit of %u", key.size(),
                LS_MAX_KEY_BYTES);
  }
  const u32 most = max_payload_bytes(static_cast<u32>(key.size()));
  if (payload.size() <= most) return kOk;
  return fail(LS_TOO_LARGE, "%zu bytes beside an index key of %zu bytes exceed the limit of %u",
              payload.size(), key.size(), most);
}

Status index_insert(Worker &w, const IndexAt &at, const NewEntry &entry) {
  LS_TRY(check_entry(w, at, entry));
  Insertion insertion(w, at, entry);
  for (;;) {
    bool done;
    LS_TRY(insertion.open_or_buffer(&done));
    if (done) return kOk;
    if (insertion.found()) {
      insertion.close_claimed();
      return make_status(LS_EXISTS);
    }
    if (insertion.has_room()) break;
    LS_TRY(insertion.make_room());
  }
  insertion.insert();
  return kOk;
}

Status index_insert_unique(Worker &w, const IndexAt &at, const NewEntry &entry,
                           std::span<const u64> ignore, u64 *other) {
  *other = 0;
  LS_TRY(check_entry(w, at, entry));
  Insertion insertion(w, at, entry);
  const EqualEntries equal(entry.key, ignore);
  for (Retry retry(w.ctx);; retry.again()) {
    LS_TRY(insertion.open());
    bool exists = equal.find(*insertion.node(), other);
    if (!exists && insertion.found()) {
      exists = true;
      *other = entry.row_id;
    }
    if (exists) {
      insertion.close_unchanged();
      return make_status(LS_EXISTS);
    }
    if (!insertion.has_room()) {
      LS_TRY(insertion.make_room());
      continue;
    }
    if (equal.within(*insertion.node())) {
      insertion.insert();
      return kOk;
    }
    insertion.close_unchanged();
    bool done = false;
    LS_TRY(insert_spanning(insertion, equal, &done, other));
    if (done) return kOk;
  }
}

}  // namespace ls
