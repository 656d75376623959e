// redo_portion.cpp - operations collected until memory is full, then sorted by page.
#include "recovery/redo_portion.hpp"

#include <algorithm>

#include "btree/tree.hpp"
#include "buffer/change_buffer.hpp"
#include "buffer/page_allocator.hpp"

namespace ls {

namespace {

// A portion's memory: so many operations, 80 bytes each, and so many bytes of the log to which they
// point; fewer where the pool is small, for memory is, too.
constexpr size_t kMostOps = 2048 << 10;
constexpr size_t kMostOperandBytes = 64 << 20;
constexpr size_t kFrameOps = 4, kFrameOperandBytes = kPageSize / 8;

}  // namespace

RedoPortion::RedoPortion(Ctx &ctx, LogReader &log, const LogAnalysis &analysis,
                         RecoveryFiles &files, RecoveryPages &pages, Gsn redo_gsn,
                         UndoSpool &undo)
    : ctx_(ctx),
      log_(log),
      analysis_(analysis),
      files_(files),
      pages_(pages),
      redo_gsn_(redo_gsn),
      undo_(undo),
      owners_(analysis),
      most_ops_(std::min(kMostOps, kFrameOps * ctx.pool->shared()->frame_count)),
      most_operand_bytes_(
          std::min(kMostOperandBytes, kFrameOperandBytes * ctx.pool->shared()->frame_count)) {}

Status RedoPortion::collect(bool *no_room, bool *end) {
  ops_.clear();
  freed_.clear();
  operand_bytes_ = 0;
  log_.forget();
  *no_room = *end = files_full_ = false;
  while (ops_.size() < most_ops_ && operand_bytes_ < most_operand_bytes_) {
    const LogEntry *entry;
    LS_TRY(log_.peek(&entry));
    *end = !entry;
    if (*end) break;
    const LogRecord record = entry->record();
    if (!owner_) owner_ = owners_.of(*entry, record);
    const Tn tn = *owner_;
    if (has_page_operations(record.kind) && entry->gsn >= redo_gsn_) {
      LS_TRY(add(*entry, record, tn, no_room));
      if (*no_room) break;
    }
    if (tn != 0 && analysis_.undo_wanted(tn, entry->gsn)) {
      LS_TRY(undo_.add_record(tn, LogOpReader(*entry, record.body)));
    }
    // Not all rounds are in the order of the records in them.
    reached_ = std::max(reached_, entry->lsn);
    log_.pop();
    owner_.reset();
  }
  sort();
  return kOk;
}

// All of a record, or nothing: its operations on one page are one step (REDO-1).
Status RedoPortion::add(const LogEntry &entry, const LogRecord &record, Tn tn, bool *no_room) {
  const size_t before = ops_.size();
  LogOpReader reader(entry, record.body);
  for (;;) {
    LogOp op;
    bool end;
    LS_TRY(reader.next(&op, &end));
    if (end) break;
    const FileNo number = analysis_.current(op.file);   // ANA-3
    RecoveryFile &file = files_[number];
    if (!file.is_settled()) LS_TRY(open_file(number, file, no_room));
    if (file.state == RecoveryFile::State::kGone) continue;
    if (file.cuts && is_cut_off(*file.cuts, op.page, entry.gsn)) continue;   // ANA-5
    u32 page;
    PageNo freed;
    if (gives_back(op.code, op.operands, &freed)) *no_room |= !note_freed(*file.slot, freed);
    if (*no_room || !pages_.name(*file.slot, op.page, &page)) {
      ops_.resize(before);
      *no_room = true;
      return kOk;
    }
    operand_bytes_ += op.operands.size();
    ops_.push_back({entry.gsn, entry.lsn, tn, op.operands.data(), page,
                    static_cast<u16>(op.operands.size()), op.code});
  }
  return kOk;
}

// Only if it matters here.  False: there is no frame for it.
bool RedoPortion::note_freed(FileSlot &file, PageNo page_no) {
  const bool waits = has_buffered_changes(*ctx_.pool->shared(), file, page_no);
  if (!waits && !pages_.is_named(file, page_no)) return true;
  u32 page;
  if (!pages_.name(file, page_no, &page)) return false;
  if (freed_.size() <= page) freed_.resize(page + 1);
  freed_[page] = true;
  return true;
}

Status RedoPortion::open_file(FileNo file_no, RecoveryFile &file, bool *no_room) {
  const auto known = analysis_.files.find(file_no);
  u32 pages = 0;
  Status status = make_status(LS_NOT_FOUND);
  // A number without a FileRecord was forgotten before the last checkpoint; its pages were dropped
  // then.
  if (known != analysis_.files.end() && !known->second.superseded)
    status = file_pages({file_no, known->second.path.c_str()}, &pages);
  if (code(status) == LS_NOT_FOUND) {
    file.state = RecoveryFile::State::kGone;
    return kOk;
  }
  LS_TRY(status);
  const LoggedFile &logged = known->second;
  // For its meta page.
  *no_room = !pages_.room();
  if (*no_room) return kOk;
  const auto cuts = analysis_.cuts.find(file_no);
  file.cuts = cuts == analysis_.cuts.end() ? nullptr : &cuts->second;
  status = ctx_.pool->open_file(ctx_, logged.key(), logged.path.c_str(),
                                static_cast<ls_rel_kind>(logged.record.kind), true, file_no,
                                BTree::format, &file.slot);
  if (code(status) == LS_LIMIT) {
    *no_room = files_full_ = true;
    return kOk;
  }
  // Once: it may be closed and opened again.
  if (file.state == RecoveryFile::State::kUnopened) {
    file.started_empty = pages == 0;
    file.pages = pages;
  }
  // Put in the place of this store's, which is gone: a backend that opens it is told.
  if (code(status) == LS_FOREIGN) {
    file.state = RecoveryFile::State::kGone;
    return kOk;
  }
  LS_TRY(status);
  file.state = RecoveryFile::State::kOpen;
  return kOk;
}

void RedoPortion::sort() {
  first_.assign(size_t{pages_.count()} + 1, 0);
  for (const RedoOp &op : ops_) first_[op.page + 1]++;
  order_.clear();
  for (u32 page = 0; page < pages_.count(); page++) {
    if (first_[page + 1] > 0 || is_freed(page)) order_.push_back(page);
    first_[page + 1] += first_[page];
  }
  sorted_.resize(ops_.size());
  std::vector<u32> place(first_.begin(), first_.end() - 1);
  for (const RedoOp &op : ops_) sorted_[place[op.page]++] = op;
  std::sort(order_.begin(), order_.end(),
            [this](u32 a, u32 b) { return pages_.page(a).place() < pages_.page(b).place(); });
}

}  // namespace ls
