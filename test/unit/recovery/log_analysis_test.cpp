// log_analysis_test.cpp - fates, files and damage, from records made by hand.
#include "recovery/log_analysis.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace ls::test {
namespace {

// Records made by hand; GSNs count up.
class ImageBuilder {
 public:
  ImageBuilder &run(u32 number) {
    run_ = number;
    return *this;
  }
  ImageBuilder &add(u32 slot, RecordKind kind, const std::string &behind) {
    std::vector<u8> bytes(kMaxRecordHeadBytes);
    bytes.resize(
        store_record_head(kind, static_cast<u32>(behind.size()), gsn_ + 1, gsn_, bytes.data()));
    gsn_++;
    bytes.insert(bytes.end(), behind.begin(), behind.end());
    bytes.reserve(kMaxRecordBytes);
    storage_.push_back(std::move(bytes));
    entries_.push_back({gsn_, storage_.back().data(), gsn_ * 100, slot, run_});
    return *this;
  }
  ImageBuilder &begin(u32 slot, Tn tn) {
    return add(slot, RecordKind::kFirstRow, numbers({tn}) + op(1, 2, kOpRow + 1, "abc"));
  }
  ImageBuilder &commit(u32 slot, Tn tn) { return add(slot, RecordKind::kCommit, numbers({tn})); }
  ImageBuilder &aborted(u32 slot, Tn tn) { return add(slot, RecordKind::kAborted, numbers({tn})); }
  ImageBuilder &prepared(u32 slot, Tn tn, u64 xid) {
    return add(slot, RecordKind::kPrepared, numbers({tn, xid}));
  }
  ImageBuilder &two_phase(u32 slot, Tn tn, u64 xid) {
    return add(slot, RecordKind::kTwoPhase, numbers({tn, xid}));
  }
  ImageBuilder &two_phase_end(u32 slot, Tn tn, u64 xid, bool committed) {
    return add(slot, RecordKind::kTwoPhaseEnd, numbers({tn, xid, committed}));
  }
  ImageBuilder &row(u32 slot) { return add(slot, RecordKind::kRow, op(1, 2, kOpRow + 1, "abc")); }
  ImageBuilder &system(u32 slot) {
    return add(slot, RecordKind::kSystem, op(1, 2, kOpRow + 5, "abc"));
  }
  ImageBuilder &cut(FileNo file_no, PageNo pages) {
    const u32 operands[] = {pages, 0, 0};
    return add(
        0, RecordKind::kCut,
        op(file_no, 0, kOpSpace + 7, {reinterpret_cast<const char *>(operands), sizeof operands}));
  }
  ImageBuilder &file(FileNo file_no, u32 relation, bool anew = false) {
    std::string path = "base/5/" + std::to_string(relation);
    FileRecord r{file_no, 1663, 5, relation, -1, LS_REL_TABLE, 1, static_cast<u16>(path.size()),
                 anew};
    return add(0, RecordKind::kFile, std::string(reinterpret_cast<char *>(&r), sizeof r) + path);
  }
  const std::vector<LogEntry> &entries() const { return entries_; }

  static std::string numbers(std::initializer_list<u64> values) {
    std::string bytes;
    for (u64 value : values) {
      u8 out[kMaxVarintBytes];
      bytes.append(reinterpret_cast<char *>(out), put_varint(out, value));
    }
    return bytes;
  }
  static std::string op(FileNo file, PageNo page, u8 code, const std::string &operands) {
    u8 head[kMaxOpHeadBytes];
    const u32 bytes = store_op_head(file, page, code, static_cast<u32>(operands.size()), head);
    return std::string(reinterpret_cast<char *>(head), bytes) + operands;
  }

 private:
  std::vector<LogEntry> entries_;
  std::vector<std::vector<u8>> storage_;
  u32 run_ = 1;
  Gsn gsn_ = 0;
};

Status analyse(const ImageBuilder &b, LogAnalysis *out) {
  LogAnalyser analyser(out);
  for (const LogEntry &entry : b.entries()) LS_TRY(analyser.record(entry));
  return analyser.finish();
}

std::vector<Tn> owners(const ImageBuilder &b, const LogAnalysis &analysis) {
  LogRowOwners owners(analysis);
  std::vector<Tn> all;
  for (const LogEntry &entry : b.entries()) all.push_back(owners.of(entry, entry.record()));
  return all;
}

TxnFate fate(const LogAnalysis &a, Tn tn) { return a.txns.at(tn).fate; }
bool has_ended(const LogAnalysis &a, Tn tn) { return a.ended.has(tn) && !a.txns.contains(tn); }

TEST(LogAnalysisTest, fates_follow_the_records) {
  ImageBuilder b;
  b.begin(0, 10)
      .row(0)
      .begin(1, 11)
      .row(1)
      .commit(0, 10)
      .begin(0, 12)
      .row(0)
      .prepared(1, 11, 77)
      .aborted(0, 12);
  b.begin(0, 13).row(0).begin(2, 14).row(2).prepared(2, 14, 78).commit(2, 14);
  LogAnalysis a;
  ASSERT_EQ(analyse(b, &a), kOk);
  EXPECT_TRUE(has_ended(a, 10));
  EXPECT_EQ(fate(a, 11), TxnFate::kPrepared);
  EXPECT_EQ(a.txns.at(11).full_xid, 77u);
  EXPECT_TRUE(has_ended(a, 12));
  EXPECT_EQ(fate(a, 13), TxnFate::kRunning);
  EXPECT_TRUE(has_ended(a, 14));
  EXPECT_EQ(a.max_tn, 14u);
}

TEST(LogAnalysisTest, ends_are_remembered_wherever_numbers_are) {
  TnSet set;
  for (Tn tn : {Tn{1}, Tn{511}, Tn{512}, Tn{kMaxTn}}) {
    EXPECT_FALSE(set.has(tn));
    set.add(tn);
    EXPECT_TRUE(set.has(tn));
  }
  for (Tn tn : {Tn{0}, Tn{2}, Tn{510}, Tn{513}, Tn{1023}, Tn{kMaxTn - 1}})
    EXPECT_FALSE(set.has(tn));
  for (const bool again : {false, true}) {   // an end and a beginning of what has ended
    ImageBuilder b;
    b.begin(0, 700).commit(0, 700).begin(0, 701).aborted(0, 701).begin(0, 702);
    if (again) b.begin(1, 700);
    else b.commit(0, 701);
    LogAnalysis a;
    EXPECT_EQ(code(analyse(b, &a)), LS_CORRUPT);
  }
}

TEST(LogAnalysisTest, prepared_transactions_leave_their_slots_and_end_anywhere) {
  ImageBuilder b;
  // 10 began before the log does
  b.row(0).two_phase(0, 10, 70).begin(0, 20).row(0).commit(0, 20);
  b.begin(1, 11).row(1).two_phase(1, 11, 71);
  // in the middle of 21, which began before, too
  b.row(2).two_phase_end(2, 11, 71, false).row(2).commit(2, 21);
  b.two_phase(9, 10, 70).two_phase(9, 12, 72).begin(1, 13).two_phase(1, 13, 73).two_phase_end(
      3, 13, 73, true);
  LogAnalysis a;
  ASSERT_EQ(analyse(b, &a), kOk);
  EXPECT_EQ(owners(b, a),
            (std::vector<Tn>{10, 0, 20, 20, 0, 11, 11, 0, 21, 0, 21, 0, 0, 0, 13, 0, 0}));
  EXPECT_EQ(a.two_phase, (std::unordered_map<u64, Tn>{{70, 10}, {72, 12}}));
  EXPECT_EQ(fate(a, 10), TxnFate::kTwoPhase);
  EXPECT_TRUE(has_ended(a, 11));
  EXPECT_TRUE(has_ended(a, 13));
}

// ANA-5, CUT-4
TEST(LogAnalysisTest, pages_are_cut_off_for_what_was_logged_before) {
  ImageBuilder b;
  b.system(0).cut(1, 50).system(0).cut(2, 5).cut(1, 100).system(0).cut(1, 80);   // GSNs 1 to 7
  LogAnalysis a;
  ASSERT_EQ(analyse(b, &a), kOk);
  const LoggedCuts &cuts = a.cuts.at(1);
  EXPECT_TRUE(is_cut_off(cuts, 50, 1));
  EXPECT_FALSE(is_cut_off(cuts, 49, 1));
  EXPECT_FALSE(is_cut_off(cuts, 79, 2)) << "the cut itself";
  for (const Gsn gsn : {3, 4, 5, 6}) {
    EXPECT_TRUE(is_cut_off(cuts, 80, gsn));
    EXPECT_FALSE(is_cut_off(cuts, 79, gsn));
  }
  EXPECT_FALSE(is_cut_off(cuts, 100, 7));
  EXPECT_TRUE(is_cut_off(a.cuts.at(2), 5, 3));
  EXPECT_FALSE(a.cuts.contains(3));
  for (const std::string &bad : {std::string(), ImageBuilder::op(1, 0, kOpSpace + 7, "abc"),
                                 ImageBuilder::op(1, 0, kOpSpace + 1, std::string(12, 'x')),
                                 ImageBuilder::op(1, 0, kOpSpace + 7, std::string(12, '\0'))}) {
    ImageBuilder damaged;
    damaged.add(0, RecordKind::kCut, bad);
    LogAnalysis none;
    EXPECT_EQ(code(analyse(damaged, &none)), LS_CORRUPT);
  }
}

// A start gives it another TN; a xid that the host hands out again, having lost the first, is
// another transaction.
// ANA-4
TEST(LogAnalysisTest, prepared_transactions_are_told_apart_by_xid_and_order) {
  ImageBuilder b;
  b.begin(0, 10).row(0).two_phase(0, 10, 70).run(2).two_phase(9, 100, 70);
  LogAnalysis a;
  ASSERT_EQ(analyse(b, &a), kOk);
  EXPECT_EQ(a.two_phase, (std::unordered_map<u64, Tn>{{70, 100}}));
  b.two_phase_end(9, 100, 70, false);
  LogAnalysis ended;
  ASSERT_EQ(analyse(b, &ended), kOk);
  EXPECT_TRUE(ended.two_phase.empty());
  EXPECT_FALSE(ended.txns.contains(10)) << "neither a loser nor in doubt";
  b.begin(0, 200).two_phase(0, 200, 70);
  LogAnalysis again;
  ASSERT_EQ(analyse(b, &again), kOk);
  EXPECT_EQ(again.two_phase, (std::unordered_map<u64, Tn>{{70, 200}}));
}

// ANA-1
TEST(LogAnalysisTest, row_records_belong_to_the_transaction_of_their_slot) {
  ImageBuilder b;
  b.begin(0, 10).begin(1, 11).row(1).row(0).system(0).commit(0, 10).begin(0, 12).row(0).row(1);
  LogAnalysis a;
  ASSERT_EQ(analyse(b, &a), kOk);
  EXPECT_EQ(owners(b, a), (std::vector<Tn>{10, 11, 11, 10, 0, 0, 12, 12, 11}));
}

TEST(LogAnalysisTest, beginning_in_the_middle_of_a_transaction_is_named_by_its_end) {
  ImageBuilder b;
  b.row(0).row(1).row(0).commit(0, 20).prepared(1, 21, 5).row(1).aborted(1, 21).begin(0, 22).row(0);
  LogAnalysis a;
  ASSERT_EQ(analyse(b, &a), kOk);
  EXPECT_EQ(owners(b, a), (std::vector<Tn>{20, 21, 20, 0, 0, 21, 0, 22, 22}));
  EXPECT_TRUE(has_ended(a, 21));
}

TEST(LogAnalysisTest, row_record_that_nothing_names_is_corruption) {
  for (bool begins : {false, true}) {
    ImageBuilder b;
    b.row(0);
    if (begins) b.begin(0, 5);
    LogAnalysis a;
    EXPECT_EQ(code(analyse(b, &a)), LS_CORRUPT);
    EXPECT_NE(std::strstr(last_error().message, "GSN 1"), nullptr) << last_error().message;
  }
}

// ANA-2
TEST(LogAnalysisTest, a_run_ends_the_transactions_of_its_slots_but_not_their_fate) {
  ImageBuilder b;
  // Run 1 leaves 10 (slot 0) and 11 (slot 1); run 2, recovering, ends 11 from its own slot and
  // crashes.
  b.begin(0, 10).row(0).begin(1, 11).row(1).run(2).system(8).aborted(8, 11).begin(0, 12).row(0);
  LogAnalysis a;
  ASSERT_EQ(analyse(b, &a), kOk);
  EXPECT_EQ(fate(a, 10), TxnFate::kRunning);
  EXPECT_TRUE(has_ended(a, 11));
  EXPECT_EQ(fate(a, 12), TxnFate::kRunning);
  EXPECT_EQ(owners(b, a).back(), 12u);
  b.run(3).row(0);
  LogAnalysis again;
  EXPECT_EQ(code(analyse(b, &again)), LS_CORRUPT) << "a slot of a new run has no transaction";
}

// ANA-3
TEST(LogAnalysisTest, of_several_numbers_of_a_file_the_latest_counts) {
  ImageBuilder b;
  b.file(5, 100).file(6, 101).file(9, 100).file(6, 101);
  LogAnalysis a;
  ASSERT_EQ(analyse(b, &a), kOk);
  EXPECT_TRUE(a.files.at(5).superseded);
  EXPECT_FALSE(a.files.at(6).superseded);
  EXPECT_FALSE(a.files.at(9).superseded);
  EXPECT_EQ(a.files.at(9).path, "base/5/100");
  EXPECT_EQ(a.max_file_no, 9u);
}

// ANA-3: closed and opened again, it is the same file; made anew, it is another one.
TEST(LogAnalysisTest, a_file_goes_on_under_its_latest_number) {
  ImageBuilder b;
  b.file(1, 100).cut(1, 50).file(2, 100, true).cut(2, 40).file(3, 100).file(2, 100);
  b.file(5, 100).cut(5, 30).file(6, 101);
  LogAnalysis a;
  ASSERT_EQ(analyse(b, &a), kOk);
  EXPECT_EQ(a.current(1), 1u) << "truncated away";
  EXPECT_EQ(a.current(2), 5u);
  EXPECT_EQ(a.current(3), 5u);
  EXPECT_EQ(a.current(5), 5u);
  EXPECT_EQ(a.current(6), 6u);
  for (FileNo file : {1, 2, 3}) EXPECT_TRUE(a.files.at(file).superseded) << file;
  ASSERT_EQ(a.cuts.at(5).size(), 2u);
  EXPECT_TRUE(is_cut_off(a.cuts.at(5), 35, a.cuts.at(5)[0].gsn)) << "by the later cut";
  EXPECT_FALSE(is_cut_off(a.cuts.at(5), 25, 1));
  EXPECT_EQ(a.cuts.at(1).size(), 1u);
}

TEST(LogAnalysisTest, impossible_records_are_corruption) {
  auto verdict = [](const ImageBuilder &b) {
    LogAnalysis a;
    return code(analyse(b, &a));
  };
  EXPECT_EQ(verdict(ImageBuilder().begin(0, 10).begin(1, 10)), LS_CORRUPT) << "begins twice";
  EXPECT_EQ(verdict(ImageBuilder().begin(0, 10).commit(0, 10).aborted(0, 10)), LS_CORRUPT)
      << "ends twice";
  EXPECT_EQ(verdict(ImageBuilder().begin(0, 0)), LS_CORRUPT) << "no number";
  EXPECT_EQ(verdict(ImageBuilder().begin(0, Tn{1} << 48)), LS_CORRUPT) << "number too large";
  EXPECT_EQ(verdict(ImageBuilder().add(0, RecordKind::kFile, "short")), LS_CORRUPT) << "cut off";
  EXPECT_EQ(verdict(ImageBuilder().file(0, 100)), LS_CORRUPT) << "file 0";
}

TEST(LogOpReaderTest, reads_each_operation_and_nothing_behind_the_record) {
  ImageBuilder b;
  b.add(0, RecordKind::kSystem,
        ImageBuilder::op(1, 2, 0x21, "xyz") + ImageBuilder::op(3, 4, 0x32, ""));
  LogOpReader reader(b.entries()[0]);
  LogOp op;
  bool end = true;
  ASSERT_EQ(reader.next(&op, &end), kOk);
  ASSERT_FALSE(end);
  EXPECT_EQ(op.file, 1u);
  EXPECT_EQ(std::string(op.operands.begin(), op.operands.end()), "xyz");
  ASSERT_EQ(reader.next(&op, &end), kOk);
  ASSERT_FALSE(end);
  EXPECT_EQ(op.page, 4u);
  EXPECT_EQ(op.code, 0x32);
  EXPECT_TRUE(op.operands.empty());
  ASSERT_EQ(reader.next(&op, &end), kOk);
  EXPECT_TRUE(end);
}

TEST(LogOpReaderTest, lengths_that_do_not_add_up_are_corruption) {
  std::string whole = ImageBuilder::op(1, 2, 0x21, "xyz");
  for (size_t bytes = 1; bytes < whole.size(); bytes++) {
    ImageBuilder b;
    b.add(0, RecordKind::kSystem, whole.substr(0, bytes));
    LogOpReader reader(b.entries()[0]);
    LogOp op;
    bool end;
    EXPECT_EQ(code(reader.next(&op, &end)), LS_CORRUPT) << bytes << " bytes";
  }
}

}  // namespace
}  // namespace ls::test
