// log_inspect.cpp - records and operations as items, with names for their kinds.
#include "recovery/log_inspect.hpp"

#include <algorithm>
#include <utility>

#include "btree/tree_redo.hpp"
#include "buffer/page_image.hpp"
#include "index/index_log.hpp"
#include "txn/row_log.hpp"

namespace ls {

namespace {

const char *kind_name(RecordKind kind) {
  switch (kind) {
    case RecordKind::kSystem: return "system";
    case RecordKind::kRow:
    case RecordKind::kFirstRow: return "row";
    case RecordKind::kCommit: return "commit";
    case RecordKind::kPrepared: return "prepared";
    case RecordKind::kAborted: return "aborted";
    case RecordKind::kFile: return "file";
    case RecordKind::kTwoPhase: return "two-phase prepared";
    case RecordKind::kTwoPhaseEnd: return "two-phase end";
    case RecordKind::kCut: return "cut";
    case RecordKind::kEra: return "transaction numbers";
    case RecordKind::kTwoPhaseUndo: return "two-phase undo";
  }
  return "unknown";
}

const char *operation_name(u8 code) {
  switch (code) {
    case kTreeFormat: return "tree format";
    case kTreeImage: return "tree page image";
    case kTreeTruncate: return "tree split, left half";
    case kTreeInsertChild: return "tree split, parent";
    case kTreeRemoveChild: return "tree merge, parent";
    case kTreeRoot: return "tree root";
    case kTreeInsert: return "blind insert";
    case kTreeOverwrite: return "blind overwrite";
    case kRowInsert: return "row insert";
    case kRowInsertMany: return "rows insert";
    case kRowUpdate: return "row update";
    case kRowDelete: return "row delete";
    case kRowRemove: return "rows remove";
    case kRowRestore: return "row restore";
    case kRowInsertCopied: return "row insert copied";
    case kRowIdHigh: return "row ids reserve";
    case kPageImage: return "page image";
    case kIndexInsert: return "index insert";
    case kIndexRemove:
    case kIndexRemoveDated: return "index remove";
    case kIndexStale: return "index may be stale";
    default: return op_family(code) == kOpSpace ? "free pages" : "unknown";
  }
}

}  // namespace

LogInspector::LogInspector(Files files, const char *dir, u64 segment_bytes, Lsn from, Lsn to)
    : stream_(dir, segment_bytes), position_(from), to_(to), files_(std::move(files)) {}

Status LogInspector::next(ls_log_item *item) {
  for (;;) {
    if (ops_) {
      LogOp op;
      bool end;
      LS_TRY(ops_->next(&op, &end));
      if (!end) {
        *item = record_;
        item->operation = operation_name(op.code);
        item->page = op.page;
        item->operand_bytes = static_cast<u32>(op.operands.size());
        name_file(op.file, item);
        return kOk;
      }
      ops_.reset();
    }
    if (next_record_ == records_.size()) {
      LS_TRY(next_round());
      continue;
    }
    begin_record();
    if (!ops_) {
      *item = record_;
      return kOk;
    }
  }
}

Status LogInspector::next_round() {
  if (position_ >= to_) return make_status(LS_END);
  bool whole;
  LS_TRY(log_round_header(stream_, position_, &header_, &whole));
  if (whole) {
    round_.resize(header_.bytes);
    LS_TRY(log_round_load(stream_, header_, round_.data(), &whole));
  }
  if (!whole) {
    return fail_page(
        stream_.path_at(position_).c_str(), UINT32_MAX,
        "no sound log round begins at position %llu: "
        "it is no such position, or the log was truncated, or it is damaged",
        static_cast<unsigned long long>(position_));
  }
  records_.clear();
  next_record_ = 0;
  LS_TRY(log_round_records(
      header_, round_.data(), [&](u32 slot, const LogRecord &record, const u8 *bytes) {
        records_.push_back({record.gsn, bytes, header_.lsn, slot, static_cast<u32>(header_.run)});
      }));
  position_ += header_.bytes;
  return kOk;
}

void LogInspector::begin_record() {
  const LogEntry &entry = records_[next_record_++];
  const LogRecord record = entry.record();
  record_ = {};
  record_.position = entry.lsn;
  record_.gsn = entry.gsn;
  record_.run = entry.run;
  record_.slot = entry.slot;
  record_.bytes = record.bytes;
  record_.kind = kind_name(record.kind);
  record_.page = UINT32_MAX;
  record_.tn = transaction_of(entry.slot, record);
  if (record.kind == RecordKind::kFile) note_file(record);
  if (has_page_operations(record.kind) && !record.body.empty()) ops_.emplace(entry);
}

// As analysis does it (ANA-1), but forwards only.
Tn LogInspector::transaction_of(u32 slot, const LogRecord &record) {
  switch (record.kind) {
    case RecordKind::kFirstRow: return running_[slot] = record.tn();
    case RecordKind::kCommit:
    case RecordKind::kAborted:
    case RecordKind::kTwoPhase:
    case RecordKind::kTwoPhaseEnd:
      std::erase_if(running_, [&](auto &entry) { return entry.second == record.tn(); });
      return record.tn();
    case RecordKind::kRow: {
      auto found = running_.find(slot);
      return found == running_.end() ? 0 : found->second;
    }
    default: return record.tn();
  }
}

void LogInspector::note_file(const LogRecord &record) {
  FileRecord file;
  Bytes path;
  if (load_file_record(record, &file, &path) != nullptr) return;
  files_[file.file] = {file.tablespace, file.database, file.relation, file.owner};
  name_file(file.file, &record_);
}

void LogInspector::name_file(FileNo file_no, ls_log_item *item) const {
  item->file_no = file_no;
  auto found = files_.find(file_no);
  item->has_file = found != files_.end();
  if (item->has_file) item->file = found->second;
}

}  // namespace ls
