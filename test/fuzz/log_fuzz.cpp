// log_fuzz.cpp - rounds of the log with right checksums, as they come from its files or from the
// host's log: chunks, records, operations, and what recovery's first pass makes of them.
//
//   input   for each round: bytes, 2 | run, 1 | more in complete_gsn, 1 | chunks
#include "fuzz/fuzz.hpp"
#include "fuzz/records.hpp"
#include "recovery/log_analysis.hpp"
#include "txn/row_undo.hpp"
#include "wal/log_reader.hpp"

namespace ls::fuzz {

namespace {

constexpr u64 kSegmentBytes = 1 << 20;
constexpr u32 kMostRounds = 8;

// The undo of a row's change, and the same as an item of an undo file.
void read_change(const LogOp &op) {
  RowUndo undo, again;
  const Status status = row_undo_of(op, &undo);
  expect_refusal_or(status);
  if (!ok(status)) return;
  const Buffer item = operands_of(pack_row_undo(undo), undo.patch.fresh);
  FUZZ_CHECK(parse_row_undo(item, &again));
  FUZZ_CHECK(again.row_id == undo.row_id && again.file == undo.file);
}

void read_operations(const LogEntry &entry, const LogRecord &record) {
  if (!has_page_operations(record.kind)) return;
  LogOpReader ops(entry);
  for (;;) {
    LogOp op;
    bool end = false;
    const Status status = ops.next(&op, &end);
    expect_refusal_or(status);
    if (!ok(status) || end) return;
    if (record.kind == RecordKind::kRow || record.kind == RecordKind::kFirstRow) read_change(op);
  }
}

class Reader {
 public:
  // Of nothing in files: all rounds are added.
  Reader() : log_(directory().c_str(), kSegmentBytes, 0, 0, 0), analyser_(&analysis_) {
    const LogEntry *none = nullptr;
    FUZZ_CHECK(ok(log_.peek(&none)) && none == nullptr);
  }
  bool add(Bytes round) {
    const Status status = log_.add_round(round);
    expect_refusal_or(status);
    return ok(status) && read();
  }
  void finish() {
    const Status status = analyser_.finish();
    expect_refusal_or(status);
    if (!ok(status)) return;
    LogRowOwners owners(analysis_);
    for (const LogEntry &entry : entries_) (void)owners.of(entry, entry.record());
    for (const auto &[file, logged] : analysis_.files) (void)analysis_.current(file);
    for (const auto &[file, cuts] : analysis_.cuts) (void)is_cut_off(cuts, 7, 7);
  }

 private:
  bool read() {
    Gsn before = 0;
    for (;; log_.pop()) {
      const LogEntry *entry = nullptr;
      const Status status = log_.peek(&entry);
      expect_refusal_or(status);
      if (!ok(status)) return false;
      if (entry == nullptr) return true;
      FUZZ_CHECK(entry->gsn > before);
      before = entry->gsn;
      read_operations(*entry, entry->record());
      entries_.push_back(*entry);
      const Status analysed = analyser_.record(*entry);
      expect_refusal_or(analysed);
      if (!ok(analysed)) return false;
    }
  }

  LogReader log_;
  LogAnalysis analysis_;
  LogAnalyser analyser_;
  std::vector<LogEntry> entries_;
};

}  // namespace

void write_seeds(const SeedWriter &write) {
  u32 n = 0;
  for (const SampleRound &round : sample_rounds()) {
    Output seed;
    seed.number(static_cast<u16>(round.chunks.size())).number<u8>(1).number<u8>(40);
    write(("round" + std::to_string(n++)).c_str(), seed.bytes(round.chunks));
  }
  Output all;
  for (const SampleRound &round : sample_rounds(true))
    all.number(static_cast<u16>(round.chunks.size()))
        .number<u8>(1)
        .number<u8>(40)
        .bytes(round.chunks);
  write("all", all);
}

void test_one(Input &input) {
  Reader reader;
  RoundHeader header{};
  for (u32 n = 0; n < kMostRounds && !input.empty(); n++) {
    const u16 chunk_bytes = input.number<u16>();
    header.run += input.byte() % 4;
    header.complete_gsn += input.byte();
    const Bytes chunks = input.take(chunk_bytes);
    if (!reader.add(make_round(&header, chunks))) return;
  }
  reader.finish();
}

}  // namespace ls::fuzz
