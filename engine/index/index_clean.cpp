// index_clean.cpp - entries go: those that the host names, and those of rows gone for good.
//
// A leaf is cleaned on a copy: while its rows are looked up nothing is latched.  What is found dead
// stays dead, whatever happens to the leaf meanwhile, so it is enough to look for those entries
// again under the latch.
#include "index/index_clean.hpp"

#include <algorithm>

#include "base/copy_page.hpp"
#include "index/index_cleaner.hpp"
#include "txn/row_gone.hpp"
#include "txn/rows_there.hpp"

namespace ls {

namespace {

constexpr u32 kSampledEntries = 8;
// There is a row behind each entry that leads into such a block.
constexpr u32 kRowsAreThere = block_facts({BlockFact::kFull, BlockFact::kVouched});

bool is_small(const Node &leaf) { return leaf.used_bytes() < kPageSize / 4; }

class LeafCleaner {
 public:
  LeafCleaner(Worker &w, const IndexAt &at, FileNo table_no, ls_rows_there *there = nullptr)
      : w_(w), at_(at), table_no_(table_no), there_(there), tree_(w.ctx, at.index) {}

  const Node &copy() const { return *reinterpret_cast<const Node *>(page_); }
  BTree &tree() { return tree_; }

  Status look(Bytes key) {
    return tree_.read_leaf(
        key, BTree::Aim::kAt, [this](const Node &leaf) { copy_page(page_, &leaf); },
        &seen_);
  }

  // Is any of a few entries dead?
  Status sample(bool *dead) {
    const Tn settled = settled_below(*w_.txns);
    const u32 step = std::max(1u, copy().count / kSampledEntries);
    RowGone row;
    for (u32 pos = step / 2; pos < copy().count && !row.gone; pos += step)
      LS_TRY(ask(static_cast<u16>(pos), settled, &row));
    *dead = row.gone;
    return kOk;
  }

  Status find_dead() {
    const Tn settled = settled_below(*w_.txns);
    n_dead_ = 0;
    newest_ = 0;
    for (u16 pos = 0; pos < copy().count; pos++) {
      RowGone row;
      LS_TRY(ask(pos, settled, &row));
      if (!row.gone) continue;
      dead_[n_dead_++] = pos;
      newest_ = std::max(newest_, row.deleter);
    }
    // A file number is used once: it was this table all the time, or a backend has dropped or moved
    // its file meanwhile.  One of which the closer looks whether it can be closed is open: what is
    // dead has to go (GONE-5).
    const bool same =
        at_.table.file_no.load(std::memory_order_acquire) == table_no_ && has_pages(at_.table);
    if (!same) n_dead_ = 0;
    return kOk;
  }

  // Entries of the leaf at `here` and behind that are not dead: what is before, a leaf merged with
  // this one since, counts already.
  u32 kept_behind(Bytes here) const {
    const u16 from = copy().position_of(here);
    const u64 dead =
        n_dead_ - static_cast<u64>(std::lower_bound(dead_, dead_ + n_dead_, from) - dead_);
    return static_cast<u32>(copy().count - from - dead);
  }

  // *all: none of them has gone to another leaf meanwhile, where it has to be looked for again.
  Status remove_dead(u32 *removed, bool *small, bool *all) {
    *removed = 0;
    *all = true;
    *small = is_small(copy());
    if (n_dead_ == 0) return kOk;
    LS_TRY(w_.log.reserve(kRemoveRecordRoom, w_.ctx.interrupt));
    ExclusiveGuard leaf = tree_.exclusive_at(seen_);
    if (!leaf) LS_TRY(find_again(leaf, all));
    if (n_dead_ == 0) {
      leaf.reset_unchanged();
      return kOk;
    }
    remove_and_close(w_, at_.index, leaf, {std::span<const u16>(dead_, n_dead_), newest_}, small);
    *removed = n_dead_;
    return kOk;
  }

 private:
  // The row that the entry leads to; *row stays as it is where that is known to be there.
  Status ask(u16 pos, Tn settled, RowGone *row) {
    u8 buffer[kMaxKeyBytes];
    const Bytes entry(buffer, copy().copy_key(pos, buffer));
    if (entry.size() < kEntryRowIdBytes) {
      return fail_page(at_.index.path, copy().header.page_no,
                       "an index entry is shorter than a row id");
    }
    const u64 row_id = entry_row_id(entry);
    if (is_noted(there_, row_id)) return kOk;
    if (w_.txns->row_blocks.known(table_no_, LS_REL_TABLE, row_id, kRowsAreThere)) return kOk;
    LS_TRY(row_gone(w_, at_.table, row_id, settled, row));
    return row->gone || !there_ ? kOk : note_rows_there(w_, at_.table, row_id, there_);
  }

  // The leaf has changed since: which of the dead entries are in the leaf that the first of them
  // belongs to now?
  Status find_again(ExclusiveGuard &leaf, bool *all) {
    u8 buffer[kMaxKeyBytes];
    LS_TRY(tree_.leaf_exclusive(Bytes(buffer, copy().copy_key(dead_[0], buffer)), 0, leaf));
    const Node &node = *reinterpret_cast<const Node *>(leaf.page());
    u32 n = 0;
    for (u32 i = 0; i < n_dead_; i++) {
      const Bytes entry(buffer, copy().copy_key(dead_[i], buffer));
      *all = node.covers(entry);
      if (!*all) break;
      bool found;
      const u16 pos = node.lower_bound(entry, &found);
      if (found) dead_[n++] = pos;
    }
    n_dead_ = n;
    return kOk;
  }

  Worker &w_;
  const IndexAt &at_;
  const FileNo table_no_;
  ls_rows_there *const there_;
  BTree tree_;
  BTree::PageStamp seen_;
  u32 n_dead_ = 0;
  Tn newest_ = 0;  // IREM-2, of those found dead in the copy
  u16 dead_[kMaxEntries];
  alignas(64) u8 page_[kPageSize];
};

}  // namespace

void remove_and_close(Worker &w, FileSlot &index, ExclusiveGuard &leaf,
                      const EntryRemoval &removal, bool *small) {
  Node *node = reinterpret_cast<Node *>(leaf.page());
  const Gsn gsn = log_entries_remove(w, index, *node, removal);
  remove_entries(node, removal.positions);
  w.pool->mark_changed(w.ctx.log, leaf.frame(), gsn);
  w.txns->index_entries_removed.fetch_add(removal.positions.size(), std::memory_order_relaxed);
  *small = is_small(*node);
  leaf.reset();
}

void merge_small(BTree &tree, Bytes key) {
  [[maybe_unused]] const Status ignored = tree.try_merge(key);
}

Status index_remove(Worker &w, const IndexAt &at, Bytes key, u64 row_id) {
  // there is no such entry
  if (key.size() > LS_MAX_KEY_BYTES || row_id > LS_MAX_ROW_ID) return kOk;
  RowGone row;
  LS_TRY(row_gone(w, at.table, row_id, settled_below(*w.txns), &row));
  BTree tree(w.ctx, at.index);
  const EntryKey entry(key, row_id);
  LS_TRY(w.log.reserve(kRemoveRecordRoom, w.ctx.interrupt));
  ExclusiveGuard leaf;
  LS_TRY(tree.leaf_exclusive(entry, 0, leaf));
  bool found, small = false;
  const u16 pos = reinterpret_cast<const Node *>(leaf.page())->lower_bound(entry, &found);
  if (!found) {
    leaf.reset_unchanged();
    return kOk;
  }
  // The host may know better what is gone, but not since when.
  const Tn newest = row.gone ? row.deleter : kMaxTn;
  remove_and_close(w, at.index, leaf, {std::span<const u16>(&pos, 1), newest}, &small);
  if (small) merge_small(tree, entry);
  return kOk;
}

Status clean_full_leaf(Worker &w, const IndexAt &at, Bytes key, u32 *removed) {
  *removed = 0;
  // Nothing has gone from the table since it was opened.
  if (at.table.rows_gone.load(std::memory_order_relaxed) == 0) return kOk;
  LeafCleaner cleaner(w, at, at.table.file_no.load(std::memory_order_acquire));
  bool dead = false, small, all;
  LS_TRY(cleaner.look(key));
  LS_TRY(cleaner.sample(&dead));
  if (!dead) return kOk;
  LS_TRY(cleaner.find_dead());
  return cleaner.remove_dead(removed, &small, &all);
}

Status index_sweep(Worker &w, const IndexAt &at, u32 max_leaves, ls_index_position *position,
                   u64 *entries, u64 *removed) {
  note_table(at);
  const FileNo table_no = at.table.file_no.load(std::memory_order_acquire);
  // Those counted have gone before the first entry is looked at (GONE-5), and the first row noted.
  if (!position->begun) {
    position->gone = position->there ? begin_rows_there(at.table, position->there)
                                     : at.table.rows_gone.load(std::memory_order_acquire);
    position->begun = true;
  }
  const Status s = sweep_leaves(w, at, table_no, max_leaves, position, entries, removed);
  if (code(s) == LS_END) note_swept(at, position->gone);
  return s;
}

Status sweep_leaves(Worker &w, const IndexAt &at, FileNo table_no, u32 max_leaves,
                    ls_index_position *position, u64 *entries, u64 *removed) {
  *entries = *removed = 0;
  LeafCleaner cleaner(w, at, table_no, position->there);
  if (position->len > sizeof position->key)
    return fail(LS_INVALID, "position of an index sweep is too long");
  for (u32 i = 0; i < max_leaves; i++) {
    u32 gone = 0;
    bool small = false, all = false;
    const Bytes here(position->key, position->len);
    LS_TRY(cleaner.look(here));
    LS_TRY(cleaner.find_dead());
    const u32 kept = cleaner.kept_behind(here);
    LS_TRY(cleaner.remove_dead(&gone, &small, &all));
    *removed += gone;
    if (!all) continue;
    *entries += kept;
    if (small) merge_small(cleaner.tree(), here);
    if (!cleaner.copy().has_upper) return make_status(LS_END);
    const Bytes upper = cleaner.copy().upper_fence();
    if (upper.size() > sizeof position->key)
      return fail_page(at.index.path, cleaner.copy().header.page_no, "fence is too long");
    position->len = static_cast<u32>(upper.size());
    std::memcpy(position->key, upper.data(), upper.size());
  }
  return kOk;
}

}  // namespace ls
