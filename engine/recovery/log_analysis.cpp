#include "recovery/log_analysis.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "buffer/file_table.hpp"

namespace ls {

namespace {

constexpr u32 kMaxPathBytes = sizeof(FileSlot::path) - 1;

// What is known of a worker slot while its records pass by.
struct SlotState {
  u64 run = 0;
  Tn tn = 0;
  std::vector<size_t> nameless;  // kRow records before the first record that names their transaction (A1)
};

class Analyser {
 public:
  Analyser(const LogImage &image, LogAnalysis *out) : image_(image), out_(out) {}

  Status run() {
    out_->entry_tn.assign(image_.entries.size(), 0);
    for (size_t i = 0; i < image_.entries.size(); i++) LS_TRY(record(i));
    for (auto &[slot, state] : slots_)
      if (!state.nameless.empty()) return fail_nameless(state);
    supersede();
    return kOk;
  }

 private:
  Status fail_nameless(const SlotState &state) const {
    return fail_record(image_.entries[state.nameless.front()], "row change without a transaction");
  }

  Status record(size_t i) {
    const LogEntry &entry = image_.entries[i];
    const LogRecord record = entry.record();
    SlotState &slot = slots_[entry.slot];
    if (slot.run != entry.run) {
      // A crash ended the slot's transaction; its fate stays as it is.
      if (!slot.nameless.empty()) return fail_nameless(slot);
      slot.run = entry.run;
      slot.tn = 0;
    }
    switch (record.kind) {
      case RecordKind::kSystem:
        return kOk;
      case RecordKind::kRow:
        if (slot.tn == 0)
          slot.nameless.push_back(i);
        else
          out_->entry_tn[i] = slot.tn;
        return kOk;
      case RecordKind::kFirstRow:
        out_->entry_tn[i] = record.tn();
        return begin(entry, record, slot);
      case RecordKind::kCommit:
        return end(entry, record, slot, TxnFate::kCommitted);
      case RecordKind::kPrepared:
        return end(entry, record, slot, TxnFate::kPrepared);
      case RecordKind::kAborted:
        return end(entry, record, slot, TxnFate::kAborted);
      case RecordKind::kFile:
        return file(entry, record);
      case RecordKind::kTwoPhase:
        return two_phase(entry, record, slot);
      case RecordKind::kTwoPhaseEnd:
        return two_phase_end(entry, record);
    }
    return fail_record(entry, "unknown kind of record");
  }

  Status check_tn(const LogEntry &entry, Tn tn) {
    if (tn == 0 || tn > kMaxTn) return fail_record(entry, "bad transaction number");
    out_->max_tn = std::max(out_->max_tn, tn);
    return kOk;
  }

  Status begin(const LogEntry &entry, const LogRecord &record, SlotState &slot) {
    const Tn tn = record.tn();
    LS_TRY(check_tn(entry, tn));
    if (!slot.nameless.empty()) return fail_nameless(slot);
    if (!out_->txns.try_emplace(tn, LoggedTxn{tn}).second) return fail_record(entry, "transaction begins twice");
    slot.tn = tn;
    return kOk;
  }

  Status end(const LogEntry &entry, const LogRecord &record, SlotState &slot, TxnFate fate) {
    const Tn tn = record.tn();
    LS_TRY(check_tn(entry, tn));
    LoggedTxn &txn = out_->txns.try_emplace(tn, LoggedTxn{tn}).first->second;
    if (txn.fate == TxnFate::kCommitted || txn.fate == TxnFate::kAborted)
      return fail_record(entry, "transaction ends twice");
    txn.fate = fate;
    if (fate == TxnFate::kPrepared) txn.full_xid = record.full_xid();
    name(slot, tn);
    // A prepared transaction goes on: an abort still undoes in the same slot.
    if (fate == TxnFate::kPrepared)
      slot.tn = tn;
    else if (slot.tn == tn)
      slot.tn = 0;
    return kOk;
  }

  // A1: the slot's first record that tells whose the ones before it are.
  void name(SlotState &slot, Tn tn) {
    if (slot.tn != 0) return;
    for (size_t i : slot.nameless) out_->entry_tn[i] = tn;
    slot.nameless.clear();
  }

  // Its worker has said so, and is free then; or a checkpoint, from a slot that has no transactions.
  Status two_phase(const LogEntry &entry, const LogRecord &record, SlotState &slot) {
    const Tn tn = record.tn();
    LS_TRY(check_tn(entry, tn));
    LoggedTxn &txn = out_->txns.try_emplace(tn, LoggedTxn{tn}).first->second;
    if (txn.fate == TxnFate::kCommitted || txn.fate == TxnFate::kAborted)
      return fail_record(entry, "transaction ends twice");
    txn.fate = TxnFate::kTwoPhase;
    txn.full_xid = record.full_xid();
    out_->two_phase[txn.full_xid] = tn;
    name(slot, tn);
    slot.tn = 0;
    return kOk;
  }

  Status two_phase_end(const LogEntry &entry, const LogRecord &record) {
    const Tn tn = record.tn();
    LS_TRY(check_tn(entry, tn));
    LoggedTxn &txn = out_->txns.try_emplace(tn, LoggedTxn{tn}).first->second;
    if (txn.fate == TxnFate::kCommitted || txn.fate == TxnFate::kAborted)
      return fail_record(entry, "transaction ends twice");
    txn.fate = record.committed() ? TxnFate::kCommitted : TxnFate::kAborted;
    out_->two_phase.erase(record.full_xid());
    return kOk;
  }

  Status file(const LogEntry &entry, const LogRecord &record) {
    LoggedFile file;
    Bytes path;
    if (const char *wrong = load_file_record(record, &file.record, &path)) return fail_record(entry, wrong);
    const FileRecord &r = file.record;
    if (r.file == 0 || path.empty() || path.size() > kMaxPathBytes) return fail_record(entry, "bad file record");
    file.path.assign(path.begin(), path.end());
    out_->max_file_no = std::max(out_->max_file_no, r.file);
    out_->files[r.file] = std::move(file);
    return kOk;
  }

  void supersede() {
    using Key = std::tuple<u32, u32, u32, i32>;
    std::map<Key, FileNo> latest;
    auto key = [](const FileRecord &r) { return Key{r.tablespace, r.database, r.relation, r.owner}; };
    for (auto &[file_no, file] : out_->files) {
      FileNo &last = latest[key(file.record)];
      last = std::max(last, file_no);
    }
    for (auto &[file_no, file] : out_->files) file.superseded = latest[key(file.record)] != file_no;
  }

  const LogImage &image_;
  LogAnalysis *out_;
  std::unordered_map<u32, SlotState> slots_;
};

}  // namespace

Status fail_record(const LogEntry &entry, const char *what) {
  return fail(LS_CORRUPT, "log record at position %llu, GSN %llu: %s", static_cast<unsigned long long>(entry.lsn),
              static_cast<unsigned long long>(entry.gsn), what);
}

Status LogOpReader::next(LogOp *op, bool *end) {
  *end = left_.empty();
  if (*end) return kOk;
  const char *wrong = load_op(&left_, op);
  return wrong == nullptr ? kOk : fail_record(entry_, wrong);
}

Status analyse_log(const LogImage &image, LogAnalysis *out) { return Analyser(image, out).run(); }

}  // namespace ls
