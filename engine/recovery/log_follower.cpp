// log_follower.cpp - one record after the other: found, looked at, latched, changed.
#include "recovery/log_follower.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/copy_page.hpp"
#include "base/failpoint.hpp"
#include "btree/tree.hpp"
#include "buffer/followed_pages.hpp"
#include "buffer/page_allocator.hpp"
#include "index/index_log.hpp"
#include "recovery/redo_page.hpp"
#include "recovery/undo_list.hpp"
#include "txn/followed_rows.hpp"

namespace ls {

namespace {

FollowedRow row_of(const RedoOp &op) { return {op.code, Bytes(op.operands, op.bytes), op.tn}; }

const Node &node_of(const u8 *page) { return *reinterpret_cast<const Node *>(page); }

u64 row_at(const Node &leaf, u16 pos) {
  u8 key[kMaxKeyBytes] = {};
  leaf.copy_key(pos, key);
  return decode_row_key(key);
}

}  // namespace

LogFollower::LogFollower(Worker &w, const char *data_dir, const ControlFile &control)
    : w_(w),
      directory_(data_dir),
      control_(control),
      txns_(*w.txns) {
  w_.ctx.must_open = true;
}

Status LogFollower::resume(Lsn to, Gsn redone) {
  LS_TRY(analyse_listed((directory_ + "/undo").c_str(), control_.undo_gsn, &analysis_));
  LogReader reader(wal().c_str(), control_.segment_bytes, control_.redo_lsn, control_.redo_run, to);
  LS_TRY(analyse_log_to(reader, to, w_.ctx.interrupt, &analysis_));
  for (const auto &[tn, txn] : analysis_.txns) LS_TRY(txns_.begin(tn));
  for (const auto &[full_xid, tn] : analysis_.two_phase) LS_TRY(txns_.begin(tn));
  // That one's last start was before, or comes.
  forgotten_ = std::max(w_.txns->highest_tn.load(std::memory_order_relaxed), analysis_.max_tn) + 1;
  owners_.emplace(analysis_);
  log_.emplace(wal().c_str(), control_.segment_bytes, control_.redo_lsn, control_.redo_run, to);
  redone_ = redone;
  return kOk;
}

Status LogFollower::apply(Conflict *conflict) {
  const Status status = apply_complete(conflict);
  pages_.clear();
  uses_.clear();   // the files may be closed
  return status;
}

Status LogFollower::apply_complete(Conflict *conflict) {
  for (;; log_->pop(), owner_.reset()) {
    const LogEntry *entry;
    LS_TRY(log_->peek(&entry));
    if (!entry) break;
    const LogRecord taken = entry->record();
    if (!owner_) owner_ = owners_->of(*entry, taken);
    if (entry->gsn <= redone_) continue;
    LS_FAILPOINT(recovery_before_followed);
    LS_TRY(record(*entry, taken, conflict));
    redone_ = entry->gsn;
    resolved_ = 0;   // FLW-3
  }
  log_->forget();
  return kOk;
}

// FLW-1: all of it, or nothing.
Status LogFollower::record(const LogEntry &entry, const LogRecord &record, Conflict *conflict) {
  if (record.kind == RecordKind::kEra &&
      record.era_offset() != w_.txns->tn_offset.load(std::memory_order_relaxed))   // FLW-8
    return fail_record(entry, "transactions are numbered anew");
  if (record.kind == RecordKind::kFirstRow) {
    if (asked_ != record.tn()) {
      asked_ = record.tn();
      *conflict = {.asked = asked_};
      return make_status(LS_CONFLICT);
    }
    LS_TRY(txns_.begin(record.tn()));   // FTXN-1
  }
  if (has_page_operations(record.kind)) {
    LS_TRY(gather(entry, record));
    LS_TRY(find_pages());
    LS_TRY(look_for_conflict(entry, conflict));
    LS_TRY(keep_versions());
    while (!lock_pages()) {
      sched_yield();
      LS_TRY(find_pages());
    }
    LS_TRY(redo_pages(entry));
  }
  return note(entry, record);
}

// ---- files

Status LogFollower::file_of(FileNo number, File **file) {
  const auto [at, is_new] = files_.try_emplace(number);
  *file = &at->second;
  if (!is_new) return kOk;
  const auto logged = analysis_.files.find(analysis_.current(number));
  // One without a name was forgotten before the log begins.
  at->second.gone = logged == analysis_.files.end() || logged->second.superseded;
  if (at->second.gone) return kOk;
  const Status status = open(logged->first, logged->second, &at->second);
  if (!ok(status)) files_.erase(at);   // it is tried again
  return status;
}

Status LogFollower::open(FileNo number, const LoggedFile &logged, File *file) {
  u32 pages;
  Status status = file_pages({number, logged.path.c_str()}, &pages);
  if (ok(status)) {
    status = w_.pool->open_logged(w_.ctx, logged.record, logged.path.c_str(), &file->handle);
  }
  file->gone = code(status) == LS_NOT_FOUND || code(status) == LS_FOREIGN;
  return file->gone ? kOk : status;
}

Status LogFollower::note_file(const LogEntry &entry, const LogRecord &record) {
  LoggedFile logged;
  LS_TRY(load_logged_file(entry, record, &logged));
  const FileNo number = logged.record.file;
  // What bore the name before is another file.
  if (logged.record.anew && !files_.contains(number)) {
    for (auto &[other, file] : files_) {
      const auto known = analysis_.files.find(analysis_.current(other));
      file.gone |= known != analysis_.files.end() && known->second.path == logged.path;
    }
    w_.pool->forget_file(logged.key());
  }
  analysis_.files[number] = std::move(logged);
  return kOk;
}

// ---- what a record says of transactions and files

Status LogFollower::note(const LogEntry &entry, const LogRecord &record) {
  switch (record.kind) {
    case RecordKind::kTwoPhase:
      return txns_.begin(record.tn());
    case RecordKind::kCommit:
    case RecordKind::kAborted:
    case RecordKind::kTwoPhaseEnd:
      return txns_.end(w_, record.tn());
    case RecordKind::kFile:
      return note_file(entry, record);
    case RecordKind::kEra:
      forgotten_ = record.tn();   // FROW-3
      return kOk;
    case RecordKind::kCut: {
      PageNo pages = 0;
      for (const PageOps &page : pages_)
        if (!page.skip && is_file_cut(page.ops[0].code, row_of(page.ops[0]).operands, &pages))
          drop_followed_from(*w_.pool, *page.file, pages);
      return kOk;
    }
    default:
      return kOk;
  }
}

// ---- pages of a record

Status LogFollower::gather(const LogEntry &entry, const LogRecord &record) {
  pages_.clear();
  uses_.clear();
  LogOpReader reader(entry, record.body);
  for (;;) {
    LogOp op;
    bool end;
    LS_TRY(reader.next(&op, &end));
    if (end) return kOk;
    File *file;
    LS_TRY(file_of(op.file, &file));
    if (file->gone) continue;
    const auto cuts = analysis_.cuts.find(analysis_.current(op.file));
    if (cuts != analysis_.cuts.end() && is_cut_off(cuts->second, op.page, entry.gsn))
      continue;   // ANA-5
    auto page = std::find_if(pages_.begin(), pages_.end(), [&](const PageOps &p) {
      return p.file == file->handle.slot && p.page_no == op.page;
    });
    if (page == pages_.end()) {
      uses_.push_back(std::make_unique<FileUse>());
      const Status status = uses_.back()->begin(w_.ctx, &file->handle);
      file->gone = code(status) == LS_NOT_FOUND;
      if (file->gone) continue;
      LS_TRY(status);
      pages_.emplace_back();
      page = pages_.end() - 1;
      page->file = file->handle.slot;
      page->page_no = op.page;
    }
    page->ops.push_back({entry.gsn, entry.lsn, txns_.written_as(*owner_), op.operands.data(), 0,
                         static_cast<u16>(op.operands.size()), op.code});
  }
}

Status LogFollower::find_pages() {
  for (PageOps &page : pages_) {
    if (page.page_no == kMetaPageNo) {
      page.frame = page.file->meta.load(std::memory_order_acquire);
      continue;
    }
    const bool whole = is_whole_page(page.ops[0].code) && !may_need_forgotten();
    LS_TRY(find_followed(w_.ctx, *page.file, page.page_no, whole, &page.frame));
  }
  return kOk;
}

// Also: which pages have the record's changes already?
Status LogFollower::look_for_conflict(const LogEntry &entry, Conflict *conflict) {
  alignas(64) u8 copy[kPageSize];
  for (PageOps &page : pages_) {
    Tn newest = 0;
    for (const RedoOp &op : page.ops) {
      Tn removed = 0;
      if (op.code == kRowRemove || op.code == kRowInsertCopied) {
        LS_TRY(copy_page(page, copy));
        if (page.skip) break;
        LS_TRY(newest_removed(row_of(op), node_of(copy), &removed));
        if (op.code == kRowInsertCopied && removed == 0) removed = forgotten_ - 1;   // FLW-8
      } else if ((op.code == kIndexRemove || op.code == kIndexRemoveDated) &&
                 !index_removal_newest(op.code, row_of(op).operands, &removed)) {
        return fail_record(entry, "damaged removal of index entries");
      }
      newest = std::max(newest, removed);
    }
    if (newest <= resolved_ || newest < txn_horizon(*w_.txns)) continue;
    *conflict = {.newest = newest, .database = page.file->key.database};
    return make_status(LS_CONFLICT);
  }
  return kOk;
}

// FLW-2
Status LogFollower::keep_versions() {
  alignas(64) u8 copy[kPageSize];
  for (PageOps &page : pages_) {
    page.leads.clear();
    for (size_t i = 0; i < page.ops.size(); i++) {
      const u8 code = page.ops[i].code;
      if (code != kRowUpdate && code != kRowDelete && code != kRowRestore) continue;
      LS_CHECK(i == 0, "a record changes several rows of a page");
      LS_TRY(copy_page(page, copy));
      if (page.skip) break;
      LS_TRY(keep_version(w_, *page.file, row_of(page.ops[i]), node_of(copy),
                          &page.leads.emplace_back()));
    }
    if (may_need_forgotten()) LS_TRY(find_leads(page));
  }
  return kOk;
}

// FROW-3: does a snapshot that there is not see all of before as ended?
bool LogFollower::may_need_forgotten() const { return txn_horizon(*w_.txns) < forgotten_; }

Status LogFollower::find_leads(PageOps &page) {
  if (!has_rows(page.file->kind)) return kOk;
  std::vector<RowLead> leads;
  alignas(64) u8 image[kPageSize] = {};
  for (const RedoOp &op : page.ops) {
    if (!is_whole_page(op.code)) continue;
    LS_TRY(redo_op(op, *page.file, image, page.page_no));
    const Node &leaf = node_of(image);
    if (leaf.header.kind == PageKind::kLeaf)
      LS_TRY(find_forgotten(w_, txns_, forgotten_, leaf, &leads));
  }
  LS_TRY(find_writers_of(page, &leads));
  page.leads.insert(page.leads.end(), leads.begin(), leads.end());
  return kOk;
}

// In the pages that the record's rows come from: this one, or its neighbour in a split or a merge.
Status LogFollower::find_writers_of(const PageOps &page, std::vector<RowLead> *leads) {
  const auto has_none = [](const RowLead &lead) { return !lead.has_previous && !lead.writer; };
  alignas(64) u8 copy[kPageSize];
  for (PageOps &from : pages_) {
    if (from.file != page.file || from.page_no == kMetaPageNo) continue;
    if (std::none_of(leads->begin(), leads->end(), has_none)) break;
    LS_TRY(copy_page(from, copy));
    if (!from.skip && node_of(copy).header.kind == PageKind::kLeaf)
      find_writers(node_of(copy), leads);
  }
  return kOk;
}

// Only this thread changes pages, but they may leave memory.
Status LogFollower::copy_page(PageOps &page, u8 *copy) {
  for (;;) {
    SharedGuard guard = SharedGuard::lock(*w_.pool, page.frame);
    if (!is_page(page)) {
      guard.reset();
      LS_TRY(find_pages());
      continue;
    }
    ls::copy_page(copy, guard.page());
    page.skip = reinterpret_cast<const PageHeader *>(copy)->gsn >= page.ops[0].gsn;   // REDO-1
    return kOk;
  }
}

bool LogFollower::is_page(const PageOps &page) const {
  return is_frame_of(*page.frame, *page.file, page.page_no);
}

// All of them, or none: the first is waited for while none is held.
bool LogFollower::lock_pages() {
  bool good = true;
  for (PageOps &page : pages_) {
    page.guard = &page == pages_.data()
                     ? ExclusiveGuard::lock(*w_.pool, page.frame)
                     : try_lock_followed(*w_.pool, *page.file, page.page_no, page.frame);
    good = page.guard && is_page(page);
    if (!good) break;
  }
  if (good) return true;
  for (PageOps &page : pages_) {
    if (page.guard) page.guard.reset_unchanged();
  }
  return false;
}

Status LogFollower::redo_pages(const LogEntry &entry) {
  for (PageOps &page : pages_) {
    const Gsn gsn = reinterpret_cast<const PageHeader *>(page.guard.page())->gsn;
    page.skip = gsn >= entry.gsn;   // REDO-1
    if (page.skip) continue;
    LS_TRY(redo_ops(page, entry.gsn));
  }
  for (PageOps &page : pages_) {
    if (page.skip) page.guard.reset_unchanged();
    else page.guard.reset();
  }
  return kOk;
}

Status LogFollower::redo_ops(PageOps &page, Gsn gsn) {
  u8 *bytes = page.guard.page();
  for (const RedoOp &op : page.ops) LS_TRY(redo_op(op, *page.file, bytes, page.page_no));
  for (const RowLead &lead : page.leads) give_lead(lead, reinterpret_cast<Node *>(bytes));
  const Node &leaf = node_of(bytes);
  const bool of_rows = leaf.header.kind == PageKind::kLeaf && has_rows(page.file->kind);
  if (of_rows) txns_.hide_rows(reinterpret_cast<Node *>(bytes));   // FTXN-2
  w_.pool->mark_dirty(page.frame, gsn);
  if (page.page_no == kMetaPageNo) take_meta(*page.file, *reinterpret_cast<MetaPage *>(bytes));
  if (of_rows && leaf.count > 0)
    w_.txns->row_blocks.changed(page.file->file_no.load(std::memory_order_relaxed),
                                page.file->kind, row_at(leaf, 0),
                                row_at(leaf, static_cast<u16>(leaf.count - 1)));   // BLK-1
  return kOk;
}

}  // namespace ls
