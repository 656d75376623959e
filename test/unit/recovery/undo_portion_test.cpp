// What a portion of undo makes of changes in any order: tasks, and the order in them.
#include "recovery/undo_portion.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

namespace ls {
namespace {

constexpr u64 kBlock = UndoOp::kBlockRows;

class UndoPortionTest : public ::testing::Test {
 protected:
  UndoPortionTest() {
    for (u32 i = 0; i < 2; i++) {
      files_.push_back(std::make_unique<FileHandle>());
      files_.back()->number = 10 + i;
    }
  }
  static RowUndo change(u8 code, u64 row_id, u32 seq, u64 count = 1) {
    RowUndo undo{};
    undo.code = code;
    undo.row_id = row_id;
    undo.seq = seq;
    undo.count = count;
    return undo;
  }
  struct Undone {
    size_t task;
    FileNo file;
    RowUndo change;
  };
  std::vector<Undone> undone() {
    portion_.divide();
    std::vector<Undone> all;
    for (size_t task = 0; task < portion_.tasks(); task++) {
      const Status status = portion_.undo(task, [&](const UndoOp &op, const UndoPortion::Rest &) {
        all.push_back({task, op.file->number, op.change});
        return kOk;
      });
      EXPECT_TRUE(ok(status));
    }
    return all;
  }

  std::vector<std::unique_ptr<FileHandle>> files_;
  UndoPortion portion_;
};

TEST_F(UndoPortionTest, a_row_is_undone_backwards_its_insertion_last_and_by_one_task) {
  std::mt19937_64 random(1);
  std::map<std::pair<FileNo, u64>, u32> last_seq;   // of the row's changes, in the order added
  u32 seq = 1'000'000;
  size_t added = 0;
  const auto add = [&](u32 file, RowUndo undo) {
    undo.seq = seq--;
    ASSERT_TRUE(portion_.add(*files_[file], 7, &undo));
    added++;
  };
  for (int i = 0; i < 20'000; i++) {
    const u8 code = random() % 5 == 0 ? kRowDelete : kRowUpdate;
    add(random() % 2, change(code, random() % (4 * kBlock), 0));
  }
  for (u64 row = 0; row < 2 * kBlock; row += 1000) add(0, change(kRowInsert, row, 0, 1000));

  std::map<std::pair<FileNo, u64>, size_t> task_of;   // by file and block
  std::set<std::pair<FileNo, u64>> inserted;
  u64 rows_inserted = 0;
  for (const Undone &u : undone()) {
    const auto [block, is_new] = task_of.try_emplace({u.file, u.change.row_id / kBlock}, u.task);
    EXPECT_EQ(block->second, u.task) << "a block is in one task";
    EXPECT_EQ((u.change.row_id + u.change.count - 1) / kBlock, u.change.row_id / kBlock);
    for (u64 row = u.change.row_id; row < u.change.row_id + u.change.count; row++) {
      const auto [last, first] = last_seq.try_emplace({u.file, row}, u.change.seq);
      EXPECT_TRUE(first || last->second > u.change.seq) << "row " << row;
      EXPECT_FALSE(inserted.contains({u.file, row})) << "row " << row << " is gone by then";
      last->second = u.change.seq;
      if (u.change.code == kRowInsert) inserted.insert({u.file, row});
    }
    if (u.change.code == kRowInsert) rows_inserted += u.change.count;
  }
  EXPECT_EQ(rows_inserted, 9 * 1000u);
  EXPECT_GT(portion_.tasks(), 4u);
}

TEST_F(UndoPortionTest, what_it_has_no_room_for_is_left_to_the_next_one) {
  const std::string old(4000, 'o');
  size_t added = 0;
  RowUndo undo = change(kRowUpdate, 1, 1);
  undo.patch.fresh = Bytes(reinterpret_cast<const u8 *>(old.data()), old.size());
  while (portion_.add(*files_[0], 7, &undo)) {
    added++;
    ASSERT_LT(added, 1u << 20) << "memory is bounded";
  }
  EXPECT_GT(added, 1000u);
  const auto all = undone();
  EXPECT_EQ(all.size(), added);
  EXPECT_EQ(std::string(all[added / 2].change.patch.fresh.begin(),
                        all[added / 2].change.patch.fresh.end()),
            old);
  portion_.clear();
  EXPECT_TRUE(undone().empty());
  ASSERT_TRUE(portion_.add(*files_[0], 7, &undo)) << "there is room again";

  // Insertions without end: what is added and what is left are the range.
  portion_.clear();
  RowUndo range = change(kRowInsert, 100, 1, kMaxTn);
  ASSERT_FALSE(portion_.add(*files_[0], 7, &range));
  u64 rows = 0, next = 100;
  for (const Undone &u : undone()) {
    EXPECT_EQ(u.change.row_id, next);
    next += u.change.count;
    rows += u.change.count;
  }
  EXPECT_EQ(range.row_id, next);
  EXPECT_EQ(range.count + rows, kMaxTn);
}

}  // namespace
}  // namespace ls
