#include "recovery/redo.hpp"

#include <algorithm>
#include <cstring>

#include "base/interrupt.hpp"
#include "btree/tree.hpp"
#include "index/index_log.hpp"
#include "txn/row_log.hpp"

namespace ls {

namespace {

const PageHeader &header_of(const u8 *page) { return *reinterpret_cast<const PageHeader *>(page); }

// A page of the record being applied, exclusively latched until it is done.
struct TouchedPage {
  FileNo file_no;
  PageNo page_no;
  Frame *frame;
  bool apply;    // the page is older than the record
  bool changed;
};

struct PendingOp {
  LogOp op;
  RecoveryFile *file;
  size_t page;   // index into the touched pages
};

class Redo {
 public:
  Redo(Ctx &ctx, const LogAnalysis &analysis, RecoveryFiles *files, RedoStats *stats)
      : ctx_(ctx), pool_(*ctx.pool), analysis_(analysis), files_(*files), stats_(*stats) {}

  // Files are opened before any page is fetched: their meta pages stay in the pool, so there must be frames.
  Status open_files(const LogImage &image) {
    for (const LogEntry &entry : image.entries) {
      if (!has_ops(entry)) continue;
      LogOpReader reader(entry);
      for (;;) {
        LogOp op;
        bool end;
        LS_TRY(reader.next(&op, &end));
        if (end) break;
        LS_TRY(open_file(op.file));
      }
    }
    return kOk;
  }

  // All pages are fetched before the first is changed: fetching may write dirty pages out, and a page must not be written with
  // half of a record in it (R1).
  Status record(const LogEntry &entry, Tn tn) {
    Status status = fetch(entry);
    for (const PendingOp &pending : ops_) {
      if (!ok(status)) break;
      status = apply(entry, pending, tn);
    }
    for (TouchedPage &page : pages_) {
      if (ok(status) && page.changed) pool_.mark_dirty(page.frame, entry.gsn);
      page.frame->latch.unlock_exclusive();
    }
    pages_.clear();
    ops_.clear();
    return status;
  }

  static bool has_ops(const LogEntry &entry) {
    return has_page_operations(record_kind(entry));
  }

 private:
  Status fetch(const LogEntry &entry) {
    LogOpReader reader(entry);
    for (;;) {
      LogOp op;
      bool end;
      LS_TRY(reader.next(&op, &end));
      if (end) break;
      RecoveryFile &file = files_.at(op.file);
      if (file.state == RecoveryFile::State::kGone) continue;
      PendingOp pending{op, &file, 0};
      LS_TRY(touch(entry, pending));
      ops_.push_back(pending);
    }
    if (!ops_.empty()) stats_.records++;
    return kOk;
  }

  Status open_file(FileNo file_no) {
    RecoveryFile &file = files_[file_no];
    if (file.state != RecoveryFile::State::kUnopened) return kOk;
    auto known = analysis_.files.find(file_no);
    // A number without a FileRecord was forgotten before the last checkpoint; its pages were dropped then.
    if (known == analysis_.files.end() || known->second.superseded) return gone(file);
    const LoggedFile &logged = known->second;
    u32 pages = 0;
    Status status = file_pages({file_no, logged.path.c_str()}, &pages);
    if (code(status) == LS_NOT_FOUND) return gone(file);
    LS_TRY(status);
    file.started_empty = pages == 0;
    LS_TRY(pool_.open_file(ctx_, logged.key(), logged.path.c_str(), static_cast<ls_rel_kind>(logged.record.kind), true,
                           file_no, BTree::format, &file.slot));
    file.state = RecoveryFile::State::kOpen;
    return kOk;
  }

  Status gone(RecoveryFile &file) {
    file.slot = nullptr;
    file.state = RecoveryFile::State::kGone;
    stats_.files_missing++;
    return kOk;
  }

  // Find the page among those of this record, or fetch it.
  Status touch(const LogEntry &entry, PendingOp &pending) {
    const LogOp &op = pending.op;
    for (pending.page = 0; pending.page < pages_.size(); pending.page++) {
      if (pages_[pending.page].file_no == op.file && pages_[pending.page].page_no == op.page) return kOk;
    }
    Frame *frame = nullptr;
    LS_TRY(pool_.recovery_page(ctx_, *pending.file->slot, op.page, &frame));
    pages_.push_back({op.file, op.page, frame, header_of(pool_.page(frame)).gsn < entry.gsn, false});
    return kOk;
  }

  Status apply(const LogEntry &entry, const PendingOp &pending, Tn tn) {
    TouchedPage &page = pages_[pending.page];
    if (!page.apply) {
      stats_.ops_skipped++;
      return kOk;
    }
    Status status = dispatch(pending.op, pool_.page(page.frame), tn);
    if (ok(status)) {
      page.changed = true;
      stats_.ops_applied++;
      return kOk;
    }
    if (code(status) != LS_CORRUPT) return status;
    RecoveryFile &file = *pending.file;
    // R2: the host has truncated the file; what the log builds on is gone with it.
    if (file.started_empty && header_of(pool_.page(page.frame)).gsn == 0 && !page.changed) return drop(pending);
    const ls_error cause = last_error();
    return fail_page(file.slot->path, pending.op.page, "log record at position %llu, GSN %llu: %.200s",
                     static_cast<unsigned long long>(entry.lsn), static_cast<unsigned long long>(entry.gsn), cause.message);
  }

  Status dispatch(const LogOp &op, u8 *page, Tn tn) {
    switch (op_family(op.code)) {
      case kOpSpace:
      case kOpTree:
        return BTree::redo(op.code, op.operands, page, op.page);
      case kOpRow:
        if (header_of(page).kind != (op.code == kRowIdHigh ? PageKind::kMeta : PageKind::kLeaf))
          return fail(LS_CORRUPT, "the page is of another kind");
        return row_redo(op.code, op.operands, page, tn);
      case kOpIndex:
        if (header_of(page).kind != PageKind::kLeaf) return fail(LS_CORRUPT, "the page is of another kind");
        return index_redo(op.code, op.operands, page);
      default:
        return fail(LS_CORRUPT, "unknown operation");
    }
  }

  Status drop(const PendingOp &pending) {
    for (TouchedPage &page : pages_) {
      if (page.file_no != pending.op.file) continue;
      page.changed = false;
      page.apply = false;
    }
    const ls_rel_key key = pending.file->slot->key;
    pool_.forget_file(key);
    return gone(*pending.file);
  }

  Ctx &ctx_;
  BufferPool &pool_;
  const LogAnalysis &analysis_;
  RecoveryFiles &files_;
  RedoStats &stats_;
  std::vector<TouchedPage> pages_;
  std::vector<PendingOp> ops_;
};

}  // namespace

Status redo_log(Ctx &ctx, const LogImage &image, const LogAnalysis &analysis, RecoveryFiles *files, RedoStats *stats,
                std::atomic<u64> *done_bytes) {
  Redo redo(ctx, analysis, files, stats);
  LS_TRY(redo.open_files(image));
  Lsn reached = image.begin;
  for (size_t i = 0; i < image.entries.size(); i++) {
    if (interrupt_pending(ctx.interrupt)) return fail(LS_INTERRUPTED, "recovery was interrupted");
    if (Redo::has_ops(image.entries[i])) LS_TRY(redo.record(image.entries[i], analysis.entry_tn[i]));
    // Not all rounds are in the order of the records in them.
    reached = std::max(reached, image.entries[i].lsn);
    done_bytes->store(reached - image.begin, std::memory_order_relaxed);
  }
  done_bytes->store(image.end - image.begin, std::memory_order_relaxed);
  return kOk;
}

}  // namespace ls
