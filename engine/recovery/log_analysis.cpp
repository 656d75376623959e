// log_analysis.cpp - each kind of record, and what it says about its transaction or file.
#include "recovery/log_analysis.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/check.hpp"
#include "base/interrupt.hpp"
#include "buffer/file_table.hpp"
#include "buffer/page_allocator.hpp"
#include "txn/prepared_file.hpp"
#include "wal/log_bounds.hpp"

namespace ls {

namespace {

constexpr u32 kMaxPathBytes = sizeof(FileSlot::path) - 1;

Status fail_record(Lsn lsn, Gsn gsn, const char *what) {
  return fail(LS_CORRUPT, "log record at position %llu, GSN %llu: %s",
              static_cast<unsigned long long>(lsn), static_cast<unsigned long long>(gsn), what);
}

}  // namespace

void LogSlotTxn::look_up(const LogAnalysis &analysis, const LogEntry &entry,
                         const LogRecord &record) {
  if (record.kind != RecordKind::kRow || tn != 0 || nameless) return;
  const auto at = analysis.listed.find({entry.slot, entry.run});
  if (at != analysis.listed.end() && entry.gsn >= at->second.first_gsn) tn = at->second.tn;
}

bool LogSlotTxn::pass(const LogRecord &record) {
  switch (record.kind) {
    case RecordKind::kRow:
      nameless |= tn == 0;
      return false;
    case RecordKind::kFirstRow:
      tn = record.tn();
      return false;
    case RecordKind::kCommit:
    case RecordKind::kPrepared:
    case RecordKind::kAborted:
    case RecordKind::kTwoPhase: {
      const bool names = nameless;
      nameless = false;
      // A prepared transaction goes on: an abort still undoes in the same slot.  Of kTwoPhase its
      // worker has said so, and is free then; or a checkpoint has, from a slot that has no
      // transactions.
      if (record.kind == RecordKind::kPrepared)
        tn = record.tn();
      else if (record.kind == RecordKind::kTwoPhase || tn == record.tn())
        tn = 0;
      return names;
    }
    case RecordKind::kSystem:
    case RecordKind::kFile:
    case RecordKind::kTwoPhaseEnd:
    case RecordKind::kCut:
    case RecordKind::kEra:
    case RecordKind::kTwoPhaseUndo:
      return false;
  }
  return false;
}

Status LogAnalyser::record(const LogEntry &entry) {
  const LogRecord record = entry.record();
  SlotState &slot = slots_[entry.slot];
  if (slot.txn.run != entry.run) {
    // A crash ended the slot's transaction; its fate stays as it is.
    if (slot.txn.nameless) return fail_nameless(slot);
    slot.txn = {.run = entry.run};
  }
  slot.txn.look_up(*out_, entry, record);
  LS_TRY(what_it_says(entry, record, slot));
  if (slot.txn.pass(record)) out_->named_later[{entry.slot, entry.run}].push_back(record.tn());
  owner_ =
      record.kind == RecordKind::kRow || record.kind == RecordKind::kFirstRow ? slot.txn.tn : 0;
  return kOk;
}

Status LogAnalyser::what_it_says(const LogEntry &entry, const LogRecord &record, SlotState &slot) {
  switch (record.kind) {
    case RecordKind::kSystem:
      return kOk;
    case RecordKind::kRow:
      if (slot.txn.tn == 0 && !slot.txn.nameless) {
        slot.first_nameless = entry.gsn;
        slot.lsn = entry.lsn;
      }
      return kOk;
    case RecordKind::kFirstRow:
      return begin(entry, record, slot);
    case RecordKind::kCommit:
    case RecordKind::kAborted:
      return end(entry, record);
    case RecordKind::kPrepared:
      return set_fate(entry, record, TxnFate::kPrepared);
    case RecordKind::kFile:
      return file(entry, record);
    case RecordKind::kTwoPhase:
      return two_phase(entry, record);
    case RecordKind::kTwoPhaseEnd:
      return two_phase_end(entry, record);
    case RecordKind::kCut:
      return cut(entry);
    case RecordKind::kEra:
      return era(entry, record);
    case RecordKind::kTwoPhaseUndo:
      return two_phase_undo(entry, record);
  }
  return fail_record(entry, "unknown kind of record");
}

Status LogAnalyser::check_tn(const LogEntry &entry, Tn tn) {
  if (tn == 0 || tn > kMaxTn) return fail_record(entry, "bad transaction number");
  out_->max_tn = std::max(out_->max_tn, tn);
  return kOk;
}

Status LogAnalyser::check_not_ended(const LogEntry &entry, Tn tn) {
  LS_TRY(check_tn(entry, tn));
  return out_->ended.has(tn) ? fail_record(entry, "transaction ends twice") : kOk;
}

Status LogAnalyser::begin(const LogEntry &entry, const LogRecord &record, const SlotState &slot) {
  const Tn tn = record.tn();
  LS_TRY(check_tn(entry, tn));
  if (slot.txn.nameless) return fail_nameless(slot);
  const auto [txn, is_new] = out_->txns.try_emplace(tn, LoggedTxn{tn});
  if (out_->ended.has(tn) || (!is_new && entry.gsn > txn->second.in_files_to))
    return fail_record(entry, "transaction begins twice");
  return kOk;
}

Status LogAnalyser::set_fate(const LogEntry &entry, const LogRecord &record, TxnFate fate) {
  const Tn tn = record.tn();
  LS_TRY(check_not_ended(entry, tn));
  LoggedTxn &txn = out_->txns.try_emplace(tn, LoggedTxn{tn}).first->second;
  txn.fate = fate;
  txn.full_xid = record.full_xid();
  return kOk;
}

Status LogAnalyser::end(const LogEntry &entry, const LogRecord &record) {
  const Tn tn = record.tn();
  LS_TRY(check_not_ended(entry, tn));
  out_->ended.add(tn);
  out_->txns.erase(tn);
  std::erase_if(out_->two_phase_undo, [&](const auto &undo) { return undo.second.tn == tn; });
  return kOk;
}

Status LogAnalyser::two_phase(const LogEntry &entry, const LogRecord &record) {
  LS_TRY(set_fate(entry, record, TxnFate::kTwoPhase));
  Tn &known = out_->two_phase[record.full_xid()];
  if (known != record.tn()) out_->txns.erase(known);   // ANA-4
  known = record.tn();
  return kOk;
}

Status LogAnalyser::two_phase_undo(const LogEntry &entry, const LogRecord &record) {
  LS_TRY(check_not_ended(entry, record.tn()));
  LoggedUndo &undo = out_->two_phase_undo[record.full_xid()];
  if (record.piece_at() == 0) undo = {record.tn()};
  const bool fits = undo.tn == record.tn() && undo.bytes.size() == record.piece_at() &&
                    undo.bytes.size() + record.body.size() <= kMostLoggedUndo && !undo.whole;
  if (!fits) return fail_record(entry, "a piece of a prepared transaction is out of place");
  undo.bytes.insert(undo.bytes.end(), record.body.begin(), record.body.end());
  undo.whole = record.is_last_piece();
  return kOk;
}

Status LogAnalyser::two_phase_end(const LogEntry &entry, const LogRecord &record) {
  LS_TRY(end(entry, record));
  out_->two_phase.erase(record.full_xid());
  out_->two_phase_undo.erase(record.full_xid());
  return kOk;
}

Status load_logged_file(const LogEntry &entry, const LogRecord &record, LoggedFile *out) {
  Bytes path;
  if (const char *wrong = load_file_record(record, &out->record, &path))
    return fail_record(entry, wrong);
  const FileRecord &r = out->record;
  const bool good_kind = (has_rows(r.kind) || r.kind == LS_REL_INDEX) && r.logged == 1;
  const bool good_number = r.file != 0 && r.file <= kMaxFileNo;
  if (!good_number || !good_kind || path.empty() || path.size() > kMaxPathBytes)
    return fail_record(entry, "bad file record");
  out->path.assign(path.begin(), path.end());
  return kOk;
}

Status LogAnalyser::file(const LogEntry &entry, const LogRecord &record) {
  LoggedFile file;
  LS_TRY(load_logged_file(entry, record, &file));
  const FileNo number = file.record.file;
  out_->max_file_no = std::max(out_->max_file_no, number);
  const auto [known, is_new] = out_->files.try_emplace(number);
  file.record.anew |= known->second.record.anew;
  known->second = std::move(file);
  return kOk;
}

Status LogAnalyser::cut(const LogEntry &entry) {
  LogOp op;
  bool end;
  LS_TRY(LogOpReader(entry).next(&op, &end));
  PageNo pages;
  if (end || !is_file_cut(op.code, op.operands, &pages)) return fail_record(entry, "bad cut");
  out_->cuts[op.file].push_back({entry.gsn, pages});
  return kOk;
}

void LogAnalyser::order_cuts() {
  for (auto &[file_no, cuts] : out_->cuts) {
    std::sort(cuts.begin(), cuts.end(),
              [](const LoggedCut &a, const LoggedCut &b) { return a.gsn < b.gsn; });
    for (size_t i = cuts.size() - 1; i-- > 0;)
      cuts[i].pages = std::min(cuts[i].pages, cuts[i + 1].pages);
  }
}

bool is_cut_off(const LoggedCuts &cuts, PageNo page, Gsn gsn) {
  const auto later = std::upper_bound(cuts.begin(), cuts.end(), gsn,
                                      [](Gsn at, const LoggedCut &cut) { return at < cut.gsn; });
  return later != cuts.end() && page >= later->pages;
}

// All of its numbers are above those that were used before.
Status LogAnalyser::era(const LogEntry &entry, const LogRecord &record) {
  const TnEra era{record.tn(), record.era_offset()};
  if (era.first > kMaxTn || era.offset > era.first || era.first <= out_->max_tn)
    return fail_record(entry, "impossible transaction numbers");
  out_->eras.push_back(era);
  return kOk;
}

// ANA-3
void LogAnalyser::supersede() {
  using Key = std::tuple<u32, u32, u32, i32>;
  std::map<Key, std::vector<FileNo>> numbers;
  for (const auto &[file_no, file] : out_->files) {
    const FileRecord &r = file.record;
    numbers[{r.tablespace, r.database, r.relation, r.owner}].push_back(file_no);
  }
  for (auto &[key, same] : numbers) {
    std::sort(same.begin(), same.end());
    bool goes_on = true;
    for (size_t i = same.size() - 1; i-- > 0;) {
      out_->files.at(same[i]).superseded = true;
      goes_on &= out_->files.at(same[i + 1]).record.anew == 0;
      if (goes_on) continue_as(same[i], same.back());
    }
  }
}

void LogAnalyser::continue_as(FileNo file, FileNo latest) {
  out_->continued[file] = latest;
  const auto cuts = out_->cuts.find(file);
  if (cuts == out_->cuts.end()) return;
  LoggedCuts moved = std::move(cuts->second);
  out_->cuts.erase(cuts);
  LoggedCuts &all = out_->cuts[latest];
  all.insert(all.end(), moved.begin(), moved.end());
}

FileNo LogAnalysis::current(FileNo file) const {
  if (continued.empty()) return file;
  const auto latest = continued.find(file);
  return latest == continued.end() ? file : latest->second;
}

Status fail_record(const LogEntry &entry, const char *what) {
  return fail_record(entry.lsn, entry.gsn, what);
}

Status LogAnalyser::fail_nameless(const SlotState &slot) {
  return fail_record(slot.lsn, slot.first_nameless, "row change without a transaction");
}

Status LogOpReader::next(LogOp *op, bool *end) {
  *end = left_.empty();
  if (*end) return kOk;
  const char *wrong = load_op(&left_, op);
  return wrong == nullptr ? kOk : fail_record(entry_, wrong);
}

Tn LogRowOwners::named_later(const LogEntry &entry, size_t time) const {
  const auto names = analysis_.named_later.find({entry.slot, entry.run});
  LS_CHECK(names != analysis_.named_later.end() && time < names->second.size(),
           "the log is not the one that was analysed");
  return names->second[time];
}

Tn LogRowOwners::of(const LogEntry &entry, const LogRecord &record) {
  SlotState &slot = slots_[entry.slot];
  if (slot.txn.run != entry.run) slot = {.txn = {.run = entry.run}};
  slot.txn.look_up(analysis_, entry, record);
  slot.named += slot.txn.pass(record);
  if (record.kind == RecordKind::kFirstRow) return slot.txn.tn;
  if (record.kind != RecordKind::kRow) return 0;
  return slot.txn.tn != 0 ? slot.txn.tn : named_later(entry, slot.named);
}

bool LogAnalysis::is_open(Tn tn) const {
  const auto txn = txns.find(tn);
  return txn != txns.end() &&
         (txn->second.fate == TxnFate::kRunning || txn->second.fate == TxnFate::kPrepared);
}

bool LogAnalysis::undo_wanted(Tn tn, Gsn gsn) const {
  return is_open(tn) && gsn > txns.at(tn).in_files_to;
}

Status LogAnalyser::finish() {
  for (auto &[number, slot] : slots_)
    if (slot.txn.nameless) return fail_nameless(slot);
  supersede();
  order_cuts();
  return kOk;
}

static Status analyse_records(LogReader &log, const volatile int *interrupt,
                              LogAnalyser &analyser) {
  for (;; log.pop(), log.forget()) {
    if (interrupt_pending(interrupt)) return fail(LS_INTERRUPTED, "recovery was interrupted");
    const LogEntry *entry;
    LS_TRY(log.peek(&entry));
    if (!entry) return kOk;
    LS_TRY(analyser.record(*entry));
  }
}

Status analyse_log_to(LogReader &log, Lsn to, const volatile int *interrupt, LogAnalysis *out) {
  LogAnalyser analyser(out);
  LS_TRY(analyse_records(log, interrupt, analyser));
  LS_TRY(analyser.finish());
  if (log.extent().end == to) return kOk;
  return fail(LS_CORRUPT, "the log in \"%s\" ends at position %llu, not at %llu",
              log.directory().c_str(), static_cast<unsigned long long>(log.extent().end),
              static_cast<unsigned long long>(to));
}

Status analyse_log(LogReader &log, Lsn known_end, LogAnalysis *out) {
  LogAnalyser analyser(out);
  LS_TRY(analyse_records(log, nullptr, analyser));
  LS_TRY(log.check_end(known_end));
  return analyser.finish();
}

}  // namespace ls
