// Values: ids that come round, pieces read whatever a snapshot sees, ghosts that stay for pointers.
#include "txn/row_ids.hpp"
#include "txn/row_read.hpp"
#include "txn/row_undo.hpp"
#include "unit/txn/txn_fixture.hpp"

namespace ls::txn_test {
namespace {

class Values : public TxnTest {
 protected:
  Session a{engine, host, 0}, b{engine, host, 1};
  FileSlot &values{*engine.open("values", LS_REL_VALUES)};

  u64 draw(u32 count, bool *used) {
    ls_value_range drawn{};
    TXN_EXPECT_OK(value_ids(a.worker(), values, count, &drawn));
    *used = drawn.used;
    return drawn.first;
  }
  static u64 row_of(u64 value, u64 piece = 0) { return value * LS_ROWS_PER_VALUE + piece; }
  std::string read(Session &s, u64 value) {
    ls_piece piece;
    const Status status = value_fetch(s.worker(), values, row_of(value), &piece);
    if (code(status) == LS_NOT_FOUND) return "-";
    TXN_EXPECT_OK(status);
    return std::string(reinterpret_cast<const char *>(piece.data.data), piece.data.len);
  }
  Status remove(Session &s, u64 value) {
    return value_delete(s.worker(), values, row_of(value), s.cid++);
  }
  u32 values_seq(u64 row_id) {
    alignas(8) u8 copy[kPageSize];
    RowParts parts;
    u32 bytes;
    TXN_EXPECT_OK(copy_row(a.worker(), values, row_id, copy, &parts, &bytes));
    return parts.header.seq;
  }
  // The horizon passes all that has ended, and the cleaner comes.
  void clean() {
    host.publish_horizon();
    u64 removed;
    do {
      TXN_ASSERT_OK(clean_round(engine.own(), &removed, {}));
    } while (removed > 0);
  }
};

TEST_F(Values, ids_begin_with_one_and_follow_each_other) {
  bool used = true;
  EXPECT_EQ(draw(1, &used), 1u);
  EXPECT_FALSE(used);
  EXPECT_EQ(draw(5, &used), 2u);
  EXPECT_EQ(draw(1, &used), 7u);
  u64 first;
  ls_value_range drawn{};
  EXPECT_EQ(code(row_ids(a.worker(), values, 1, &first)), LS_INVALID);
  EXPECT_EQ(code(value_ids(a.worker(), table, 1, &drawn)), LS_INVALID);
}

// RID-4
TEST_F(Values, ids_come_round_and_say_so) {
  constexpr u64 kLap = LS_ROW_IDS_END / LS_ROWS_PER_VALUE;
  bool used = true;
  EXPECT_EQ(draw(1, &used), 1u);
  for (u64 lap = 1; lap <= 3; lap++) {
    TXN_ASSERT_OK(row_ids_skip(a.worker(), values, lap * LS_ROW_IDS_END - row_of(3)));
    EXPECT_EQ(draw(2, &used), kLap - 3);
    EXPECT_EQ(used, lap > 1);
    // One is left: two together lie in the next lap, and value 0 is none.
    EXPECT_EQ(draw(2, &used), 1u);
    EXPECT_TRUE(used);
  }
  u64 place;
  TXN_ASSERT_OK(row_ids_next(a.worker(), values, &place));
  EXPECT_EQ(place, 3 * LS_ROW_IDS_END + row_of(3));
  EXPECT_EQ(row_ids_below(place), LS_ROW_IDS_END);
}

TEST_F(Values, places_are_reserved_ahead_and_kept_by_a_shutdown) {
  bool used;
  TXN_ASSERT_OK(row_ids_skip(a.worker(), values, 5 * LS_ROW_IDS_END + 1));
  const u64 first = draw(1, &used);
  EXPECT_EQ(first, 1u) << "rounded up to a value";
  TXN_ASSERT_OK(row_ids_skip(a.worker(), values, 17));
  EXPECT_EQ(draw(1, &used), 2u) << "never back";
  TXN_ASSERT_OK(row_ids_seal(a.worker(), values));
  EXPECT_EQ(draw(1, &used), 3u);
  // As after a crash: a step is left out.
  const u64 reserved = values.row_id_reserved.load();
  values.next_row_id.store(reserved);
  values.row_id_reserved_gsn.store(0);
  EXPECT_EQ(draw(1, &used),
            (reserved + kPlaceSpace.step) % LS_ROW_IDS_END / LS_ROWS_PER_VALUE);
}

TEST_F(Values, a_piece_is_read_whatever_a_snapshot_sees) {
  a.begin();
  TXN_ASSERT_OK(a.insert(values, row_of(1), "bytes"));
  EXPECT_EQ(read(a, 1), "bytes");
  EXPECT_EQ(read(b, 1), "bytes") << "before its transaction has ended";
  a.commit();
  b.begin();
  TXN_ASSERT_OK(remove(b, 1));
  EXPECT_EQ(read(a, 1), "bytes");
  EXPECT_EQ(read(b, 1), "bytes");
  EXPECT_EQ(b.read(values, row_of(1)), "-") << "a query on the table of pieces sees the deletion";
  b.abort();
  EXPECT_EQ(a.read(values, row_of(1)), "bytes");
  b.begin();
  EXPECT_EQ(code(remove(b, 2)), LS_NOT_FOUND);
  TXN_ASSERT_OK(remove(b, 1));
  b.commit();
  a.begin();
  EXPECT_EQ(code(remove(a, 1)), LS_DELETED);
  a.abort();
  clean();
  EXPECT_EQ(read(a, 1), "-");
}

// By a transaction that has met the pointer in a version that was not committed.
TEST_F(Values, one_that_was_inserted_and_is_rolled_back_is_read_by_those_before) {
  auto old = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.insert(values, row_of(1), "bytes"));
  const u32 savepoint = txn_savepoint(a.worker());
  for (u64 piece = 0; piece < 200; piece++)
    TXN_ASSERT_OK(a.insert(values, row_of(2, piece), std::string(1264, 'x')));
  txn_rollback_to(a.worker(), savepoint);
  EXPECT_EQ(a.contents(values).size(), 1u) << "a query sees what is left";
  EXPECT_EQ(read(b, 2), std::string(1264, 'x'));
  TXN_ASSERT_OK(a.insert(values, row_of(3), "more"));
  a.abort();
  EXPECT_EQ(read(b, 1), "bytes");
  EXPECT_TRUE(a.contents(values).empty());
  clean();
  EXPECT_EQ(read(b, 2), std::string(1264, 'x'));
  b.release(old);
  clean();
  EXPECT_EQ(engine.verify(values), 0u) << "all of them have gone";
}

TEST_F(Values, a_rollback_that_is_made_again_changes_nothing) {
  a.begin();
  TXN_ASSERT_OK(a.insert(values, row_of(1), "bytes"));
  const UndoTarget target{values, row_of(1), a.tn(), values_seq(row_of(1))};
  PageNo first, again;
  TXN_ASSERT_OK(ghost_one(a.worker(), target, row_of(1), &first));
  TXN_ASSERT_OK(ghost_one(a.worker(), target, row_of(1), &again));
  EXPECT_EQ(first, again);
  EXPECT_NE(first, kInvalidPageNo);
  TXN_ASSERT_OK(ghost_one(a.worker(), target, row_of(2), &again));
  EXPECT_EQ(again, kInvalidPageNo);
  a.abort();
}

// GONE-4: a snapshot that sees neither the insertion nor the deletion keeps the piece.
TEST_F(Values, a_ghost_stays_for_a_snapshot_that_does_not_see_its_row) {
  auto old = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.insert(values, row_of(1), "bytes"));
  TXN_ASSERT_OK(a.insert(table, 1, "row"));
  a.commit(true);
  a.begin();
  TXN_ASSERT_OK(remove(a, 1));
  TXN_ASSERT_OK(a.remove(table, 1));
  a.commit(true);
  clean();
  EXPECT_EQ(read(b, 1), "bytes");
  alignas(8) u8 buffer[LS_ROW_BUFFER_BYTES];
  RowParts parts;
  u32 bytes;
  EXPECT_EQ(code(copy_row(b.worker(), table, 1, buffer, &parts, &bytes)), LS_NOT_FOUND)
      << "the row itself has gone";
  b.release(old);
  clean();
  EXPECT_EQ(read(b, 1), "-");
}

}  // namespace
}  // namespace ls::txn_test
