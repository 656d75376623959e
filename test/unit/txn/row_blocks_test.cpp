// What is known of blocks of rows: set in two steps, cleared by a change, never another file's.
#include "txn/row_blocks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

namespace ls::test {
namespace {

constexpr u64 kFile = 7;
constexpr u32 kFullFact = block_facts({BlockFact::kFull});
constexpr u64 kRowsPerCell = u64{RowCell::kBlocks} << kRowsPerBlockShift;

class RowBlocksTest : public testing::Test {
 protected:
  RowBlocksTest()
      : memory_(static_cast<u8 *>(::operator new(RowBlocks::bytes_for(0), kAlign))) {
    std::fill_n(memory_.get(), RowBlocks::bytes_for(0), u8{0});
    blocks.init(memory_.get(), 0);
  }
  // The block of a row is found to be full, unless `meanwhile` changes it.
  template <typename Meanwhile>
  bool find_full(u64 file, u64 row_id, Meanwhile &&meanwhile) {
    const u64 block = (row_id - 1) >> kRowsPerBlockShift;
    OwnCell own(blocks, file, block / RowCell::kBlocks);
    if (!own.get()) return false;
    const u32 in_cell = static_cast<u32>(block % RowCell::kBlocks);
    own.get()->begin(in_cell);
    meanwhile();
    return own.get()->settle(in_cell, RowCell::bit(in_cell, BlockFact::kFull) |
                                          RowCell::bit(in_cell, BlockFact::kClean));
  }
  bool find_full(u64 file, u64 row_id) {
    return find_full(file, row_id, [] {});
  }
  bool is_full(u64 file, u64 row_id) {
    return blocks.known(file, LS_REL_TABLE, row_id, kFullFact);
  }
  void change(u64 first, u64 last) { blocks.changed(kFile, LS_REL_TABLE, first, last); }

  static constexpr std::align_val_t kAlign{kCacheLine};
  struct Free {
    void operator()(u8 *memory) const { ::operator delete(memory, kAlign); }
  };
  RowBlocks blocks;

 private:
  std::unique_ptr<u8, Free> memory_;
};

// BLK-1
TEST_F(RowBlocksTest, a_change_clears_its_block_alone) {
  for (u64 row = 1; row <= 5 * 256; row += 256) EXPECT_TRUE(find_full(kFile, row));
  change(2 * 256, 2 * 256);   // the last row of the second block
  for (u64 block = 0; block < 5; block++) {
    EXPECT_EQ(is_full(kFile, block * 256 + 1), block != 1) << block;
    EXPECT_EQ(is_full(kFile, block * 256 + 256), block != 1) << block;
  }
  change(3 * 256, 3 * 256 + 1);   // of two
  EXPECT_FALSE(is_full(kFile, 3 * 256));
  EXPECT_FALSE(is_full(kFile, 3 * 256 + 1));
  EXPECT_TRUE(is_full(kFile, 1));
  EXPECT_TRUE(is_full(kFile, 5 * 256));
}

// BLK-2
TEST_F(RowBlocksTest, a_change_while_rows_are_looked_at_wins) {
  EXPECT_FALSE(find_full(kFile, 300, [&] { change(400, 400); }));
  EXPECT_FALSE(is_full(kFile, 300));
  EXPECT_TRUE(find_full(kFile, 300, [&] { change(513, 600); }));
  EXPECT_TRUE(is_full(kFile, 300));
}

TEST_F(RowBlocksTest, changes_of_rows_of_two_cells) {
  EXPECT_TRUE(find_full(kFile, kRowsPerCell));
  EXPECT_TRUE(find_full(kFile, kRowsPerCell + 1));
  change(kRowsPerCell - 5, kRowsPerCell + 5);
  EXPECT_FALSE(is_full(kFile, kRowsPerCell));
  EXPECT_FALSE(is_full(kFile, kRowsPerCell + 1));
}

// A block has 16 values, each with one row: of two ids, by where its bytes are.
TEST_F(RowBlocksTest, changes_of_values) {
  constexpr u32 kCleanFact = block_facts({BlockFact::kClean});
  auto is_clean = [&](u64 row) { return blocks.known(kFile, LS_REL_VALUES, row, kCleanFact); };
  for (u64 value = 1; value < 100; value++) {
    for (const u64 row : {value * LS_ROWS_PER_VALUE, value * LS_ROWS_PER_VALUE + 1}) {
      for (u64 block = 0; block < 7; block++) {
        OwnCell own(blocks, kFile, 0);
        own.get()->begin(static_cast<u32>(block));
        own.get()->settle(static_cast<u32>(block),
                          RowCell::bit(static_cast<u32>(block), BlockFact::kClean));
      }
      EXPECT_TRUE(is_clean(row)) << row;
      blocks.changed(kFile, LS_REL_VALUES, row, row);
      EXPECT_FALSE(is_clean(row)) << row;
      u64 clean = 0;
      for (u64 block = 0; block < 7; block++) clean += is_clean(block * 16 * LS_ROWS_PER_VALUE + 1);
      EXPECT_EQ(clean, 6u) << row;
    }
  }
}

TEST_F(RowBlocksTest, vouching_is_for_clean_blocks_of_one_file) {
  constexpr u32 kVouchedFact = block_facts({BlockFact::kVouched});
  EXPECT_TRUE(find_full(kFile, 1));
  EXPECT_TRUE(find_full(kFile, 600));
  EXPECT_TRUE(find_full(kFile + 1, 1));
  change(600, 600);
  blocks.vouch(kFile);
  EXPECT_TRUE(blocks.known(kFile, LS_REL_TABLE, 1, kVouchedFact));
  EXPECT_FALSE(blocks.known(kFile, LS_REL_TABLE, 600, kVouchedFact));
  EXPECT_FALSE(blocks.known(kFile, LS_REL_TABLE, 300, kVouchedFact));
  EXPECT_FALSE(blocks.known(kFile + 1, LS_REL_TABLE, 1, kVouchedFact));
}

// More files than there are cells: what is lost is not known, and none has another's.
TEST_F(RowBlocksTest, a_cell_that_another_file_gets_is_empty) {
  constexpr u64 kFiles = 5000;
  for (u64 file = 1; file <= kFiles; file++) {
    EXPECT_FALSE(is_full(file, 1)) << file;
    EXPECT_TRUE(find_full(file, 1)) << file;
    EXPECT_TRUE(is_full(file, 1)) << file;
    EXPECT_FALSE(is_full(file, 257)) << file;
  }
  u64 known = 0;
  for (u64 file = 1; file <= kFiles; file++) known += is_full(file, 1);
  EXPECT_GT(known, 0u);
  EXPECT_LT(known, kFiles);
}

// BLK-4
TEST_F(RowBlocksTest, a_cell_has_one_owner) {
  OwnCell first(blocks, kFile, 0);
  ASSERT_NE(first.get(), nullptr);
  EXPECT_EQ(OwnCell(blocks, kFile, 0).get(), nullptr);
  EXPECT_NE(OwnCell(blocks, kFile, 1).get(), nullptr);
}

// A row that is there or not, under a mutex for its leaf's latch.  It is found to be there by one
// thread, taken away and put back by another: as long as it is away it is not known to be there.
// Other files drive the cell out of its place now and then.
TEST_F(RowBlocksTest, what_is_known_is_never_behind_the_change) {
  std::mutex leaf;
  bool there = true;
  std::atomic<bool> stop{false};
  std::atomic<u64> found{0};
  std::thread looks([&] {
    while (!stop.load()) {
      bool seen = false;
      const u64 block = 0;
      OwnCell own(blocks, kFile, block);
      if (!own.get()) continue;
      own.get()->begin(0);
      {
        std::lock_guard latched(leaf);
        seen = there;
      }
      found += own.get()->settle(0, seen ? RowCell::bit(0, BlockFact::kFull) : 0);
    }
  });
  std::thread others([&] {
    for (u64 file = kFile + 1; !stop.load(); file++) find_full(file, 1);
  });
  u64 known = 0;
  // As often as it takes until the other threads had their turn, but not for ever.
  for (u32 i = 0; i < 20'000 || ((known == 0 || found == 0) && i < 20'000'000); i++) {
    if (i % 64 == 0) std::this_thread::yield();
    for (const bool now : {false, true}) {
      {
        std::lock_guard latched(leaf);
        there = now;
        change(1, 1);
      }
      for (u32 look = 0; look < 20; look++) {
        const bool full = is_full(kFile, 1);
        ASSERT_FALSE(full && !now) << i;
        known += full;
      }
    }
  }
  stop = true;
  looks.join();
  others.join();
  EXPECT_GT(found.load(), 0u);
  EXPECT_GT(known, 0u);
}

}  // namespace
}  // namespace ls::test
