// index_stale.cpp - entries with a key that their row has no more, since it was updated under the
// same row id.
//
// Only the host can tell: it knows what keys the versions of a row have.  What may happen while it
// asks is that the row gets the key again.
// STALE-1  A row gets its key before its entry is inserted.  A worker that inserts an entry that is
//          there already changes the version of its leaf.  So if the leaf has the version that was
//          there before the row was asked, no row has got the key since without either showing it
//          when asked, or being about to insert the entry.
#include "buffer/page.hpp"
#include "index/index_clean.hpp"
#include "txn/meta_page.hpp"

namespace ls {

Status index_note_stale(Worker &w, FileSlot &index) {
  if (index.stale_entries.load(std::memory_order_acquire)) return kOk;
  LS_TRY(w.log.reserve(index_record_room(0), w.ctx.interrupt));
  ExclusiveGuard meta;
  LS_TRY(latch_meta(w, index, &meta));
  MetaPage *page = reinterpret_cast<MetaPage *>(meta.page());
  if (page->stale_entries != 0) {
    meta.reset_unchanged();
    return kOk;
  }
  page->stale_entries = 1;
  w.pool->mark_changed(w.ctx.log, meta.frame(), log_stale_entries(w, index));
  index.stale_entries.store(true, std::memory_order_release);
  meta.reset();
  return kOk;
}

Status index_look(Worker &w, FileSlot &index, Bytes key, u64 row_id, BTree::PageStamp *seen) {
  if (key.size() > LS_MAX_KEY_BYTES || row_id > LS_MAX_ROW_ID) return make_status(LS_NOT_FOUND);
  const EntryKey entry(key, row_id);
  bool found = false;
  LS_TRY(BTree(w.ctx, index)
             .read_leaf(
                 entry, BTree::Aim::kAt, [&](const Node &leaf) { leaf.lower_bound(entry, &found); },
                 seen));
  return found ? kOk : make_status(LS_NOT_FOUND);
}

Status index_remove_seen(Worker &w, FileSlot &index, const StaleEntry &stale, bool *removed) {
  *removed = false;
  if (stale.newest > kMaxTn) return fail(LS_INVALID, "no transaction has such a number");
  BTree tree(w.ctx, index);
  const EntryKey entry(stale.key, stale.row_id);
  LS_TRY(w.log.reserve(kRemoveRecordRoom, w.ctx.interrupt));
  ExclusiveGuard leaf = tree.exclusive_at(stale.seen);
  if (!leaf) return kOk;
  bool small = false;
  const u16 pos = reinterpret_cast<const Node *>(leaf.page())->lower_bound(entry, removed);
  if (!*removed) {
    const PageNo page_no = reinterpret_cast<const Node *>(leaf.page())->header.page_no;
    leaf.reset_unchanged();
    return fail_page(index.path, page_no, "an index entry is gone from an unchanged leaf");
  }
  remove_and_close(w, index, leaf, {std::span<const u16>(&pos, 1), stale.newest}, &small);
  if (small) merge_small(tree, entry);
  return kOk;
}

}  // namespace ls
