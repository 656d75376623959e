#include "recovery/log_analysis.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "buffer/file_table.hpp"

namespace ls {

namespace {

constexpr Tn kMaxTn = (Tn{1} << 48) - 1;
constexpr u32 kMaxPathBytes = sizeof(FileSlot::path) - 1;

RecordHeader header_of(const LogEntry &entry) {
  RecordHeader h;
  std::memcpy(&h, entry.data, sizeof h);
  return h;
}

template <typename T>
bool read_body(const LogEntry &entry, u32 offset, T *out) {
  if (entry.bytes < sizeof(RecordHeader) + offset + sizeof(T)) return false;
  std::memcpy(out, entry.data + sizeof(RecordHeader) + offset, sizeof(T));
  return true;
}

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
    if (entry.bytes < sizeof(RecordHeader)) return fail_record(entry, "record is too short");
    SlotState &slot = slots_[entry.slot];
    if (slot.run != entry.run) {
      // A crash ended the slot's transaction; its fate stays as it is.
      if (!slot.nameless.empty()) return fail_nameless(slot);
      slot.run = entry.run;
      slot.tn = 0;
    }
    switch (record_kind(entry)) {
      case RecordKind::kSystem:
        return kOk;
      case RecordKind::kRow:
        if (slot.tn == 0)
          slot.nameless.push_back(i);
        else
          out_->entry_tn[i] = slot.tn;
        return kOk;
      case RecordKind::kBegin:
        return begin(entry, slot);
      case RecordKind::kCommit:
        return end(entry, slot, TxnFate::kCommitted);
      case RecordKind::kPrepared:
        return end(entry, slot, TxnFate::kPrepared);
      case RecordKind::kAborted:
        return end(entry, slot, TxnFate::kAborted);
      case RecordKind::kFile:
        return file(entry);
    }
    return fail_record(entry, "unknown kind of record");
  }

  Status read_tn(const LogEntry &entry, Tn *tn) {
    if (!read_body(entry, 0, tn) || *tn == 0 || *tn > kMaxTn) return fail_record(entry, "bad transaction number");
    out_->max_tn = std::max(out_->max_tn, *tn);
    return kOk;
  }

  Status begin(const LogEntry &entry, SlotState &slot) {
    Tn tn = 0;
    LS_TRY(read_tn(entry, &tn));
    if (!slot.nameless.empty()) return fail_nameless(slot);
    if (!out_->txns.try_emplace(tn, LoggedTxn{tn}).second) return fail_record(entry, "transaction begins twice");
    slot.tn = tn;
    return kOk;
  }

  Status end(const LogEntry &entry, SlotState &slot, TxnFate fate) {
    Tn tn = 0;
    LS_TRY(read_tn(entry, &tn));
    LoggedTxn &txn = out_->txns.try_emplace(tn, LoggedTxn{tn}).first->second;
    if (txn.fate == TxnFate::kCommitted || txn.fate == TxnFate::kAborted)
      return fail_record(entry, "transaction ends twice");
    txn.fate = fate;
    if (fate == TxnFate::kPrepared && !read_body(entry, sizeof(u64), &txn.full_xid))
      return fail_record(entry, "record is too short");
    if (slot.tn == 0 && !slot.nameless.empty()) {
      for (size_t i : slot.nameless) out_->entry_tn[i] = tn;
      slot.nameless.clear();
    }
    // A prepared transaction goes on: an abort still undoes in the same slot.
    if (fate == TxnFate::kPrepared)
      slot.tn = tn;
    else if (slot.tn == tn)
      slot.tn = 0;
    return kOk;
  }

  Status file(const LogEntry &entry) {
    LoggedFile file;
    if (!read_body(entry, 0, &file.record)) return fail_record(entry, "record is too short");
    u32 at = sizeof(RecordHeader) + sizeof(FileRecord);
    const FileRecord &r = file.record;
    if (r.file == 0 || r.path_bytes == 0 || r.path_bytes > kMaxPathBytes || entry.bytes < at + r.path_bytes)
      return fail_record(entry, "bad file record");
    file.path.assign(reinterpret_cast<const char *>(entry.data) + at, r.path_bytes);
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

RecordKind record_kind(const LogEntry &entry) { return header_of(entry).kind; }

LogOpReader::LogOpReader(const LogEntry &entry) : entry_(entry), left_(header_of(entry).ops) {}

Status LogOpReader::next(LogOp *op, bool *end) {
  *end = left_ == 0;
  if (*end) return kOk;
  if (entry_.bytes - position_ < sizeof(PageOpHeader)) return fail_record(entry_, "page operation is cut off");
  std::memcpy(&op->header, entry_.data + position_, sizeof(PageOpHeader));
  position_ += sizeof(PageOpHeader);
  if (entry_.bytes - position_ < op->header.bytes) return fail_record(entry_, "operands are cut off");
  op->operands = Bytes(entry_.data + position_, op->header.bytes);
  position_ += op->header.bytes;
  left_--;
  return kOk;
}

Status analyse_log(const LogImage &image, LogAnalysis *out) { return Analyser(image, out).run(); }

}  // namespace ls
