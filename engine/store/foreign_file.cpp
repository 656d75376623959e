// foreign_file.cpp - the walk over another store's file, page by page (ADOPT-1, ADOPT-2).
#include "store/foreign_file.hpp"

#include <cstring>

#include "base/check.hpp"
#include "base/copy_page.hpp"
#include "btree/stored_page.hpp"
#include "txn/row_leaf.hpp"

namespace ls {

ForeignFile::ForeignFile(Ctx &ctx, const char *path)
    : ctx_(ctx), path_(path), file_{ctx.pool->draw_file_no(), path_.c_str()} {}

ForeignFile::~ForeignFile() { file_forget(file_.file_no); }

Status ForeignFile::open(Ctx &ctx, const char *path, ls_rel_kind kind,
                         std::unique_ptr<ForeignFile> *file) {
  *file = std::make_unique<ForeignFile>(ctx, path);
  return (*file)->open_meta(kind);
}

Status ForeignFile::open_meta(ls_rel_kind kind) {
  const Status status = read(kMetaPageNo);
  if (code(status) == LS_END)
    return fail_path(LS_NOT_ADOPTABLE, file_.path, "its file is empty: there is nothing to adopt");
  LS_TRY(status);
  if (!has_rows(kind)) return fail(LS_INVALID, "only files with rows are adopted");
  if (!is_meta(page_, kind))
    return damaged(kMetaPageNo, kind == LS_REL_TABLE ? "not the meta page of a table"
                                                     : "not the meta page of a file of values");
  const MetaPage &meta = *reinterpret_cast<const MetaPage *>(page_);
  if (meta.store == ctx_.pool->shared()->store) {
    return fail_path(LS_NOT_ADOPTABLE, file_.path,
                     "its file belongs to this store: there is nothing to adopt");
  }
  if (meta.magic == kClaimMagic) {
    return fail_path(LS_NOT_ADOPTABLE, file_.path,
                     "all of it was in the log of its store only: there is nothing to adopt");
  }
  page_count_ = meta.page_count;
  copy_page(places_.emplace_back().page, page_);
  return kOk;
}

Status ForeignFile::next(std::span<const ls_row> *rows) {
  while (!places_.empty()) {
    Place &place = places_.back();
    const Swip *reference = next_child(place);
    if (!reference) {
      places_.pop_back();
      continue;
    }
    const PageNo page_no = reference->page_no();
    const Status status = read(page_no);
    if (code(status) == LS_END)
      return damaged(page_no, "it was never written, or lies beyond the end of the file");
    LS_TRY(status);
    if (const char *fault = child_fault(place.page, reference, page_))
      return damaged(page_no, fault);
    const bool is_leaf = reinterpret_cast<const Node *>(page_)->is_leaf;
    if (is_leaf) LS_TRY(take_rows());
    place.child++;
    if (is_leaf) {
      *rows = rows_;
      return kOk;
    }
    LS_ASSERT(places_.size() < kMaxTreeHeight);
    copy_page(places_.emplace_back().page, page_);
  }
  return make_status(LS_END);
}

// Into page_.  LS_END: the file has no such page.
Status ForeignFile::read(PageNo page_no) {
  LS_TRY(file_read_page(file_, page_no, page_));
  ctx_.pages.read++;
  const char *fault = page_fault(page_, page_no, kLogEndUnknown);
  if (!fault) fault = stored_page_fault(page_, page_count_);
  return fault ? damaged(page_no, fault) : kOk;
}

Status ForeignFile::damaged(PageNo page_no, const char *fault) const {
  return fail_page(file_.path, page_no, "%s", fault);
}

// Null: there is none.
const Swip *ForeignFile::next_child(Place &place) {
  const PageHeader &header = *reinterpret_cast<const PageHeader *>(place.page);
  if (header.kind == PageKind::kMeta) {
    const MetaPage &meta = *reinterpret_cast<const MetaPage *>(place.page);
    return place.child == 0 ? reinterpret_cast<const Swip *>(&meta.root) : nullptr;
  }
  Node &node = *reinterpret_cast<Node *>(place.page);
  return place.child <= node.count ? node.child(static_cast<u16>(place.child)) : nullptr;
}

// A moved row lies where it has moved to; what leads there from its old place is a ghost.  A flag
// of an insertion that was speculative says nothing any more: its confirmation is not logged, so a
// crash leaves the flag on rows that have been committed.
Status ForeignFile::take_rows() {
  const Node &leaf = *reinterpret_cast<const Node *>(page_);
  rows_.clear();
  for (u16 pos = 0; pos < leaf.count; pos++) {
    u8 key[kMaxKeyBytes];
    if (leaf.copy_key(pos, key) != kRowKeyBytes)
      return damaged(leaf.header.page_no, "a key is not a row id");
    RowParts row;
    if (const char *fault = row_fault(leaf.value(pos), &row))
      return damaged(leaf.header.page_no, fault);
    if (row.header.has(LS_ROW_GHOST)) continue;
    rows_.push_back({.row_id = decode_row_key(key),
                     .data = row.payload.data(),
                     .len = static_cast<u32>(row.payload.size())});
  }
  return kOk;
}

}  // namespace ls
