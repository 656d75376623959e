// relation.cpp - size, purge, cut and verification of one relation file.
#include "store/relation.hpp"

#include <cstring>
#include <vector>

#include "btree/tree.hpp"
#include "buffer/file_cut.hpp"
#include "buffer/file_use.hpp"
#include "buffer/followed_pages.hpp"
#include "index/index_entry.hpp"
#include "store/version_trees.hpp"
#include "txn/row.hpp"
#include "txn/row_ids.hpp"
#include "txn/row_leaf.hpp"
#include "txn/row_purge.hpp"
#include "txn/row_read.hpp"

namespace ls {

namespace {

// Two passes: during the walk only the leaf's own bytes; the versions behind them afterwards,
// because the walk may be holding structure changes up and looking into other trees may need I/O.
class RowChecker {
 public:
  RowChecker(Worker &w, FileSlot &file, const BTree::CheckResult &walk, ls_check_result *result)
      : w_(w), file_(file), walk_(walk), result_(*result) {}

  static Status leaf(void *arg, const Node *node, u16 from) {
    return static_cast<RowChecker *>(arg)->check_leaf(*node, from);
  }

  Status check_versions() {
    for (const Chained &row : chained_) LS_TRY(check_version(row));
    return kOk;
  }

 private:
  // A row with an older version.
  struct Chained {
    PageNo page_no;
    u64 row_id;
    RowHeader header;
  };

  Status check_leaf(const Node &node, u16 from) {
    if (walk_.leaf_pages <= 1) {  // the first leaf: a walk that others disturbed is made again
      result_ = {};
      chained_.clear();
    }
    for (u16 pos = from; pos < node.count; pos++) {
      u8 key[kMaxKeyBytes];
      if (node.copy_key(pos, key) != kRowKeyBytes)
        return damaged(node.header.page_no, "a key is not a row id");
      LS_TRY(check_row(node.header.page_no, decode_row_key(key), node.value(pos)));
    }
    return kOk;
  }

  Status damaged(PageNo page_no, const char *what) const {
    return fail_page(file_.path, page_no, "%s", what);
  }

  Status check_row(PageNo page_no, u64 row_id, Bytes value) {
    RowParts parts;
    if (const char *fault = row_fault(value, &parts)) return damaged(page_no, fault);
    const RowHeader &header = parts.header;
    if (row_id >= next_row_id_) next_row_id_ = row_ids_below(row_ids_next(file_));  // it grows
    if (row_id >= next_row_id_) return damaged(page_no, "a row id was never handed out");
    (header.has(LS_ROW_GHOST) ? result_.ghosts : result_.rows)++;
    if (header.has(LS_ROW_HAS_PREV) && header.tn() >= txn_horizon(*w_.txns))
      chained_.push_back({page_no, row_id, header});
    return kOk;
  }

  // The version before may be gone only when no snapshot needs it: then the horizon has passed the
  // writer, or the row has changed since it was copied.  And it was never there when the writer had
  // ended before the store started, or began to follow another one.
  Status check_version(const Chained &row) {
    const RowHeader &header = row.header;
    const VersionEntry *entry = nullptr;
    Status status = version_store(w_, header.tn()).get({header.tn(), header.seq}, version_, &entry);
    if (ok(status)) {
      result_.versions++;
      bool fits = entry->op == VersionOp::kUpdate || entry->op == VersionOp::kDelete;
      // Of another file number: the file was closed, or copied, since; no snapshot that needs the
      // version came with it.
      if (fits && (entry->row_id == row.row_id || header.has(LS_ROW_COPIED))) return kOk;
    } else if (code(status) != LS_NOT_FOUND) {
      return status;
    } else if (header.has(LS_ROW_COPIED)) {
      // The row that it was copied from may be gone, and has taken them along: no snapshot needs
      // them.
      return kOk;
    }
    bool same = false;
    LS_TRY(row_still(w_, file_, row.row_id, header, &same));
    if (!same || header.tn() < txn_horizon(*w_.txns) || has_left_none(header.tn()))
      return kOk;
    return damaged(row.page_no, ok(status) ? "a row points to another row's version"
                                           : "the version before a row is missing");
  }

  bool has_left_none(Tn tn) const {
    return tn < w_.txns->versions_from.load(std::memory_order_relaxed) &&
           !tn_is_active(*w_.txns, tn);
  }

  Worker &w_;
  FileSlot &file_;
  const BTree::CheckResult &walk_;
  ls_check_result &result_;
  u64 next_row_id_ = 0;
  std::vector<Chained> chained_;
  alignas(8) u8 version_[kPageSize];
};

// Order, and that no entry is there twice, is the tree's own business.
Status check_entries(void *arg, const Node *leaf, u16 from) {
  const FileSlot &file = *static_cast<const FileSlot *>(arg);
  for (u16 pos = from; pos < leaf->count; pos++) {
    u8 buffer[kMaxKeyBytes];
    const u32 bytes = leaf->copy_key(pos, buffer);
    if (bytes < kEntryRowIdBytes || bytes > kMaxEntryKeyBytes) {
      return fail_page(file.path, leaf->header.page_no, "an index entry has a key of %u bytes",
                       bytes);
    }
    if (leaf->value(pos).size() > max_payload_bytes(bytes - kEntryRowIdBytes)) {
      return fail_page(file.path, leaf->header.page_no, "an index entry is too large");
    }
  }
  return kOk;
}

// *head: of the meta page, up to the list of free pages.
Status read_meta_head(Worker &w, FileSlot &file, MetaPage *head) {
  for (;;) {
    OptimisticGuard meta;
    if (w.pool->resolve_meta(file, meta) == Step::kError) return make_status(last_error().status);
    if (!meta.frame()) continue;
    std::memcpy(static_cast<void *>(head), meta.page(), offsetof(MetaPage, free_pages));
    if (meta.valid()) return kOk;
  }
}

// Redo opens a file before it makes its pages.
Status check_formatted(Worker &w, FileHandle *file) {
  FileUse use;
  MetaPage head;
  LS_TRY(use.begin(w.ctx, file));
  LS_TRY(read_meta_head(w, use.file(), &head));
  return head.magic == kMetaMagic ? kOk : fail(LS_END, "\"%s\" is empty", use.file().path);
}

}  // namespace

Status relation_open(Worker &w, const ls_rel_key &key, const char *path, ls_rel_kind kind,
                     bool logged, FileHandle *file) {
  if (!has_rows(kind) && kind != LS_REL_INDEX)
    return fail(LS_INVALID, "unknown kind of relation");
  if (key.tablespace == 0) return fail(LS_INVALID, "tablespace 0 is the engine's own");
  LS_TRY(w.pool->open_handle(w.ctx, key, path, kind, logged, BTree::format, file));
  return is_followed(*w.pool->shared(), *file->slot) ? check_formatted(w, file) : kOk;
}

Status relation_open_empty(const Worker &w, ls_rel_kind kind, FileHandle *file) {
  FileSlot *slot = empty_tree(*w.pool, kind);
  if (!slot) return fail(LS_INVALID, "the store has no empty tree of that kind");
  *file = {slot, slot->file_no.load(std::memory_order_relaxed)};
  return kOk;
}

bool relation_is_open(const FileHandle &file) {
  return file_is(*file.slot, FileState::kActive) &&
         file.slot->file_no.load(std::memory_order_acquire) == file.number;
}

Status relation_info(Worker &w, FileSlot &file, ls_rel_info *info) {
  MetaPage head;
  LS_TRY(read_meta_head(w, file, &head));
  info->pages = head.page_count;
  info->free_pages = head.free_total;
  info->height = head.height;
  info->next_row_id = info->next_place = 0;
  if (!has_rows(file.kind)) return kOk;
  info->next_place = row_ids_next(file);
  info->next_row_id = row_ids_below(info->next_place);
  return kOk;
}

Status relation_purge(Worker &w, FileSlot &file, u64 row_id, u64 *end_row) {
  PurgeResult purged;
  LS_TRY(purge_leaf(w, file, row_id, settled_below(*w.txns), &purged));
  *end_row = purged.end_row;
  // One that was emptied when its neighbours were not in memory.
  if (purged.removed == 0) merge_small_leaf(w, file, row_id);
  return kOk;
}

Status relation_cut(Worker &w, FileSlot &file, bool look, u64 *before, u64 *after) {
  FileLength length;
  LS_TRY(look ? file_look_for_cut(w.ctx, file, &length) : file_cut_off(w.ctx, file, &length));
  *before = length.before;
  *after = length.after;
  return kOk;
}

Status relation_check(Worker &w, FileSlot &file, ls_check_result *result) {
  *result = {};
  BTree tree(w.ctx, file);
  BTree::CheckResult pages{};
  RowChecker rows(w, file, pages, result);
  bool table = has_rows(file.kind);
  void *arg = table ? static_cast<void *>(&rows) : &file;
  LS_TRY(tree.verify(&pages, arg, table ? RowChecker::leaf : check_entries));
  LS_TRY(rows.check_versions());
  if (!table) result->rows = pages.entries;
  result->pages = pages.pages;
  result->leaf_pages = pages.leaf_pages;
  result->inner_pages = pages.inner_pages;
  result->free_pages = pages.free_pages;
  return kOk;
}

}  // namespace ls
