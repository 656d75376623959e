#include "recovery/log_analysis.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace ls::test {
namespace {

// A LogImage made by hand; GSNs count up.
class ImageBuilder {
 public:
  ImageBuilder &run(u64 number) {
    run_ = number;
    return *this;
  }
  ImageBuilder &add(u32 slot, RecordKind kind, const std::string &body, u8 ops = 0) {
    std::vector<u8> bytes(sizeof(RecordHeader) + body.size());
    RecordHeader header{static_cast<u16>(bytes.size()), kind, ops, 0, ++gsn_};
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, body.data(), body.size());
    image_.storage.push_back(std::move(bytes));
    const std::vector<u8> &stored = image_.storage.back();
    image_.entries.push_back({gsn_, slot, static_cast<u32>(stored.size()), stored.data(), gsn_ * 100, run_});
    return *this;
  }
  ImageBuilder &begin(u32 slot, Tn tn) { return add(slot, RecordKind::kBegin, words({tn})); }
  ImageBuilder &commit(u32 slot, Tn tn) { return add(slot, RecordKind::kCommit, words({tn})); }
  ImageBuilder &aborted(u32 slot, Tn tn) { return add(slot, RecordKind::kAborted, words({tn})); }
  ImageBuilder &prepared(u32 slot, Tn tn, u64 xid) { return add(slot, RecordKind::kPrepared, words({tn, xid})); }
  ImageBuilder &row(u32 slot) { return add(slot, RecordKind::kRow, op(1, 2, 0x301, "abc"), 1); }
  ImageBuilder &system(u32 slot) { return add(slot, RecordKind::kSystem, op(1, 2, 0x305, "abc"), 1); }
  ImageBuilder &file(FileNo file_no, u32 relation) {
    std::string path = "base/5/" + std::to_string(relation);
    FileRecord r{file_no, 1663, 5, relation, -1, LS_REL_TABLE, 1, static_cast<u16>(path.size())};
    return add(0, RecordKind::kFile, std::string(reinterpret_cast<char *>(&r), sizeof r) + path);
  }
  const LogImage &image() const { return image_; }

  static std::string words(std::initializer_list<u64> values) {
    return std::string(reinterpret_cast<const char *>(values.begin()), values.size() * sizeof(u64));
  }
  static std::string op(FileNo file, PageNo page, u16 code, const std::string &operands) {
    PageOpHeader h{file, page, code, static_cast<u16>(operands.size())};
    return std::string(reinterpret_cast<char *>(&h), sizeof h) + operands;
  }

 private:
  LogImage image_;
  u64 run_ = 1;
  Gsn gsn_ = 0;
};

TxnFate fate(const LogAnalysis &a, Tn tn) { return a.txns.at(tn).fate; }

TEST(LogAnalysisTest, fates_follow_the_records) {
  ImageBuilder b;
  b.begin(0, 10).row(0).begin(1, 11).row(1).commit(0, 10).begin(0, 12).row(0).prepared(1, 11, 77).aborted(0, 12);
  b.begin(0, 13).row(0).begin(2, 14).row(2).prepared(2, 14, 78).commit(2, 14);
  LogAnalysis a;
  ASSERT_EQ(analyse_log(b.image(), &a), kOk);
  EXPECT_EQ(fate(a, 10), TxnFate::kCommitted);
  EXPECT_EQ(fate(a, 11), TxnFate::kPrepared);
  EXPECT_EQ(a.txns.at(11).full_xid, 77u);
  EXPECT_EQ(fate(a, 12), TxnFate::kAborted);
  EXPECT_EQ(fate(a, 13), TxnFate::kRunning);
  EXPECT_EQ(fate(a, 14), TxnFate::kCommitted);
  EXPECT_EQ(a.max_tn, 14u);
}

TEST(LogAnalysisTest, row_records_belong_to_the_transaction_of_their_slot) {
  ImageBuilder b;
  b.begin(0, 10).begin(1, 11).row(1).row(0).system(0).commit(0, 10).begin(0, 12).row(0).row(1);
  LogAnalysis a;
  ASSERT_EQ(analyse_log(b.image(), &a), kOk);
  EXPECT_EQ(a.entry_tn, (std::vector<Tn>{0, 0, 11, 10, 0, 0, 0, 12, 11}));
}

TEST(LogAnalysisTest, beginning_in_the_middle_of_a_transaction_is_named_by_its_end) {
  ImageBuilder b;
  b.row(0).row(1).row(0).commit(0, 20).prepared(1, 21, 5).row(1).aborted(1, 21).begin(0, 22).row(0);
  LogAnalysis a;
  ASSERT_EQ(analyse_log(b.image(), &a), kOk);
  EXPECT_EQ(a.entry_tn, (std::vector<Tn>{20, 21, 20, 0, 0, 21, 0, 0, 22}));
  EXPECT_EQ(fate(a, 21), TxnFate::kAborted);
}

TEST(LogAnalysisTest, row_record_that_nothing_names_is_corruption) {
  for (bool begins : {false, true}) {
    ImageBuilder b;
    b.row(0);
    if (begins) b.begin(0, 5);
    LogAnalysis a;
    EXPECT_EQ(code(analyse_log(b.image(), &a)), LS_CORRUPT);
    EXPECT_NE(std::strstr(last_error().message, "GSN 1"), nullptr) << last_error().message;
  }
}

TEST(LogAnalysisTest, a_run_ends_the_transactions_of_its_slots_but_not_their_fate) {
  ImageBuilder b;
  // Run 1 leaves 10 (slot 0) and 11 (slot 1); run 2, recovering, ends 11 from its own slot and crashes.
  b.begin(0, 10).row(0).begin(1, 11).row(1).run(2).system(8).aborted(8, 11).begin(0, 12).row(0);
  LogAnalysis a;
  ASSERT_EQ(analyse_log(b.image(), &a), kOk);
  EXPECT_EQ(fate(a, 10), TxnFate::kRunning);
  EXPECT_EQ(fate(a, 11), TxnFate::kAborted);
  EXPECT_EQ(fate(a, 12), TxnFate::kRunning);
  EXPECT_EQ(a.entry_tn.back(), 12u);
  b.run(3).row(0);
  LogAnalysis again;
  EXPECT_EQ(code(analyse_log(b.image(), &again)), LS_CORRUPT) << "a slot of a new run has no transaction";
}

TEST(LogAnalysisTest, of_several_numbers_of_a_file_the_latest_counts) {
  ImageBuilder b;
  b.file(5, 100).file(6, 101).file(9, 100).file(6, 101);
  LogAnalysis a;
  ASSERT_EQ(analyse_log(b.image(), &a), kOk);
  EXPECT_TRUE(a.files.at(5).superseded);
  EXPECT_FALSE(a.files.at(6).superseded);
  EXPECT_FALSE(a.files.at(9).superseded);
  EXPECT_EQ(a.files.at(9).path, "base/5/100");
  EXPECT_EQ(a.max_file_no, 9u);
}

TEST(LogAnalysisTest, impossible_records_are_corruption) {
  auto verdict = [](const ImageBuilder &b) {
    LogAnalysis a;
    return code(analyse_log(b.image(), &a));
  };
  EXPECT_EQ(verdict(ImageBuilder().begin(0, 10).begin(1, 10)), LS_CORRUPT) << "begins twice";
  EXPECT_EQ(verdict(ImageBuilder().begin(0, 10).commit(0, 10).aborted(0, 10)), LS_CORRUPT) << "ends twice";
  EXPECT_EQ(verdict(ImageBuilder().begin(0, 0)), LS_CORRUPT) << "no number";
  EXPECT_EQ(verdict(ImageBuilder().begin(0, Tn{1} << 48)), LS_CORRUPT) << "number too large";
  EXPECT_EQ(verdict(ImageBuilder().add(0, RecordKind::kCommit, "123")), LS_CORRUPT) << "cut off";
  EXPECT_EQ(verdict(ImageBuilder().add(0, RecordKind::kPrepared, ImageBuilder::words({3}))), LS_CORRUPT) << "cut off";
  EXPECT_EQ(verdict(ImageBuilder().add(0, static_cast<RecordKind>(77), "")), LS_CORRUPT) << "unknown kind";
  EXPECT_EQ(verdict(ImageBuilder().add(0, RecordKind::kFile, "short")), LS_CORRUPT) << "cut off";
  EXPECT_EQ(verdict(ImageBuilder().file(0, 100)), LS_CORRUPT) << "file 0";
}

TEST(LogOpReaderTest, reads_each_operation_and_nothing_behind_the_record) {
  ImageBuilder b;
  b.add(0, RecordKind::kSystem, ImageBuilder::op(1, 2, 0x201, "xyz") + ImageBuilder::op(3, 4, 0x302, ""), 2);
  LogOpReader reader(b.image().entries[0]);
  LogOp op;
  bool end = true;
  ASSERT_EQ(reader.next(&op, &end), kOk);
  ASSERT_FALSE(end);
  EXPECT_EQ(op.header.file, 1u);
  EXPECT_EQ(std::string(op.operands.begin(), op.operands.end()), "xyz");
  ASSERT_EQ(reader.next(&op, &end), kOk);
  ASSERT_FALSE(end);
  EXPECT_EQ(op.header.page, 4u);
  EXPECT_EQ(op.header.code, 0x302u);
  EXPECT_TRUE(op.operands.empty());
  ASSERT_EQ(reader.next(&op, &end), kOk);
  EXPECT_TRUE(end);
}

TEST(LogOpReaderTest, lengths_that_do_not_add_up_are_corruption) {
  std::string whole = ImageBuilder::op(1, 2, 0x201, "xyz");
  for (size_t bytes = 0; bytes < whole.size(); bytes++) {
    ImageBuilder b;
    b.add(0, RecordKind::kSystem, whole.substr(0, bytes), 1);
    LogOpReader reader(b.image().entries[0]);
    LogOp op;
    bool end;
    EXPECT_EQ(code(reader.next(&op, &end)), LS_CORRUPT) << bytes << " bytes";
  }
}

}  // namespace
}  // namespace ls::test
