// Values: ids that come round, rows read whatever a snapshot sees, ghosts that stay for pointers;
// bytes in pages that are freed with the row, and counted when the file is opened anew.
#include "txn/row_ids.hpp"
#include "txn/row_read.hpp"
#include "txn/row_undo.hpp"
#include "txn/value_keeper.hpp"
#include "txn/value_pace.hpp"
#include "unit/txn/value_fixture.hpp"

namespace ls::txn_test {
namespace {

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
  const u64 place = row_ids_next(values);
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

TEST_F(Values, one_is_read_whatever_a_snapshot_sees) {
  a.begin();
  TXN_ASSERT_OK(insert(a, 1, "bytes"));
  EXPECT_EQ(read(a, 1), "bytes");
  EXPECT_EQ(read(b, 1), "bytes") << "before its transaction has ended";
  a.commit();
  b.begin();
  TXN_ASSERT_OK(remove(b, 1));
  EXPECT_EQ(read(a, 1), "bytes");
  EXPECT_EQ(read(b, 1), "bytes");
  EXPECT_EQ(b.read(values, row_of(1)), "-") << "a query on the table of values sees the deletion";
  b.abort();
  EXPECT_EQ(a.read(values, row_of(1)).substr(LS_VALUE_HEAD_BYTES), "bytes");
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
  TXN_ASSERT_OK(insert(a, 1, "bytes"));
  const u32 savepoint = txn_savepoint(a.worker());
  const std::string large = text(2, 10'000);
  TXN_ASSERT_OK(insert(a, 2, large));
  txn_rollback_to(a.worker(), savepoint);
  EXPECT_EQ(a.contents(values).size(), 1u) << "a query sees what is left";
  EXPECT_EQ(read(b, 2, 10'000), large);
  TXN_ASSERT_OK(insert(a, 3, "more"));
  a.abort();
  EXPECT_EQ(read(b, 1), "bytes");
  EXPECT_TRUE(a.contents(values).empty());
  clean();
  EXPECT_EQ(read(b, 2, 10'000), large);
  b.release(old);
  clean();
  EXPECT_EQ(engine.verify(values), 0u) << "all of them have gone";
  EXPECT_EQ(stats().free_pages, stats().pages) << "and their pages";
}

TEST_F(Values, a_rollback_that_is_made_again_changes_nothing) {
  a.begin();
  TXN_ASSERT_OK(insert(a, 1, "bytes"));
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

// GONE-4: a snapshot that sees neither the insertion nor the deletion keeps the value.
TEST_F(Values, a_ghost_stays_for_a_snapshot_that_does_not_see_its_row) {
  auto old = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(insert(a, 1, "bytes"));
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

// ---- pages

TEST_F(Values, of_all_sizes_and_in_slices) {
  a.begin();
  std::mt19937_64 random(3);
  std::map<u64, std::string> all;
  for (u64 value = 1; value <= 60; value++) {
    const u32 sizes[] = {0, 1, 1900, 1901, 4095, 4096, 5996, 5997, 8192, 32'768, 32'769, 524'288,
                         524'289, 3'000'000};
    const size_t bytes = value <= std::size(sizes) ? sizes[value - 1] : random() % 100'000;
    all[value] = text(value, bytes);
    TXN_ASSERT_OK(insert(a, value, all[value]));
  }
  a.commit();
  for (const auto &[value, data] : all) {
    const u32 size = static_cast<u32>(data.size());
    EXPECT_EQ(read(a, value, size), data) << size << " bytes";
    for (int i = 0; i < 20; i++) {
      const u32 from = static_cast<u32>(random() % (size + 1));
      const u32 bytes = static_cast<u32>(random() % (size - from + 1));
      std::string part;
      TXN_ASSERT_OK(slice(a, value, {0, size, from, bytes}, &part));
      ASSERT_EQ(part, data.substr(from, bytes)) << size << " bytes from " << from;
    }
  }
  std::string none;
  EXPECT_EQ(code(slice(a, 5, {0, 4095, 4000, 96}, &none)), LS_INVALID);
  EXPECT_EQ(code(slice(a, 5, {0, 4094, 0, 4094}, &none)), LS_CORRUPT) << "of another size";
}

TEST_F(Values, blocks_of_the_server_look_as_if_never_written) {   // VPLACE-1
  a.begin();
  for (u64 value = 1; value <= 9; value++)
    TXN_ASSERT_OK(insert(a, value, std::string(10'000 + 700'000 * (value == 4), '\xff')));
  a.commit();
  std::ifstream file((engine.path() + "/values_fsm"), std::ios::binary);
  std::vector<char> block(8192);
  u32 blocks = 0;
  for (; file.read(block.data(), static_cast<std::streamsize>(block.size())); blocks++) {
    EXPECT_EQ(block[14], 0) << "block " << blocks;
    EXPECT_EQ(block[15], 0) << "block " << blocks;
  }
  EXPECT_GT(blocks, 100u);
  EXPECT_EQ(read(a, 4, 710'000), std::string(710'000, '\xff'));
}

TEST_F(Values, pages_are_free_when_the_deletion_is_below_the_horizon) {   // VPAGES-1
  a.begin();
  for (u64 value = 1; value <= 50; value++) TXN_ASSERT_OK(insert(a, value, text(value, 12'000)));
  a.commit(true);
  const u64 pages = stats().pages;
  EXPECT_EQ(stats().free_pages, 0u);
  auto old = b.snapshot();
  a.begin();
  for (u64 value = 2; value <= 50; value += 2) TXN_ASSERT_OK(remove(a, value, 12'000));
  a.commit(true);
  clean();
  EXPECT_EQ(stats().free_pages, 0u);
  EXPECT_EQ(read(b, 2, 12'000), text(2, 12'000));
  b.release(old);
  clean();
  EXPECT_EQ(stats().free_pages, 25 * 3u);
  a.begin();
  for (u64 value = 51; value <= 75; value++) TXN_ASSERT_OK(insert(a, value, text(value, 12'000)));
  a.commit(true);
  EXPECT_EQ(stats().pages, pages) << "they went to the free ones";
  EXPECT_EQ(stats().free_pages, 0u);
  for (u64 value = 1; value <= 75; value++)
    EXPECT_EQ(read(a, value, 12'000), value % 2 == 0 && value <= 50 ? "-" : text(value, 12'000));
}

// VPAGES-2, VPAGES-3
TEST_F(Values, old_pages_are_counted_while_values_come_and_go) {
  constexpr u32 kBytes = 8192;
  a.begin();
  for (u64 value = 1; value <= 3000; value++) TXN_ASSERT_OK(insert(a, value, text(value, kBytes)));
  a.commit(true);
  a.begin();
  for (u64 value = 1; value <= 3000; value += 3) TXN_ASSERT_OK(remove(a, value, kBytes));
  a.commit(true);
  clean();
  // As when it is opened: nothing is known.
  values.values.reset();
  a.begin();
  for (u64 value = 3001; value <= 3100; value++)
    TXN_ASSERT_OK(insert(a, value, text(value, kBytes)));
  a.commit(true);
  EXPECT_FALSE(stats().counted);
  EXPECT_GE(stats().pages, 6200u) << "at the end: no page is known to be free";
  // In the middle of it rows before and behind vanish, and others come.
  u32 steps = 0;
  ValueKeeper keeper{engine.own(), [&] {
    if (++steps == 20) {
      a.begin();
      for (const u64 value : {2, 5, 2999, 3050}) TXN_EXPECT_OK(remove(a, value, kBytes));
      for (u64 value = 3101; value <= 3110; value++)
        TXN_EXPECT_OK(insert(a, value, text(value, kBytes)));
      a.commit(true);
      clean();
    }
    return false;
  }, [](i64) { return true; }, keeping};
  TXN_ASSERT_OK(count_values(keeper, values));
  EXPECT_GT(steps, 20u);
  EXPECT_TRUE(stats().counted);
  u64 live = 0;
  for (u64 value = 1; value <= 3110; value++) {
    const bool gone = (value <= 3000 && value % 3 == 1) || value == 2 || value == 5 ||
                      value == 2999 || value == 3050;
    ASSERT_EQ(read(a, value, kBytes), gone ? "-" : text(value, kBytes)) << "value " << value;
    live += !gone;
  }
  EXPECT_EQ(stats().pages - stats().free_pages, live * 2);
  EXPECT_EQ(stats().lost_pages, 0u);
}

// It had gone, and the end of the file with it; a crash has brought back the ghost alone.
TEST_F(Values, a_ghost_of_an_earlier_start_frees_no_page) {   // VPAGES-3
  constexpr u32 kBytes = 8192;
  a.begin();
  for (u64 value = 1; value <= 10; value++) TXN_ASSERT_OK(insert(a, value, text(value, kBytes)));
  a.commit(true);
  a.begin();
  for (const u64 value : {9, 10}) TXN_ASSERT_OK(remove(a, value, kBytes));
  a.commit(true);
  values.values.reset();
  std::filesystem::resize_file(engine.path() + "/values_fsm", 8 * kBytes);
  engine.txns().tn_base.store(host.next());
  a.begin();
  for (const u64 value : {11, 12}) TXN_ASSERT_OK(insert(a, value, text(value, kBytes)));
  a.commit(true);
  EXPECT_EQ(stats().pages, 20u) << "they have the pages that the ghosts had";
  clean();
  EXPECT_EQ(engine.verify(values), 10u) << "the ghosts have gone";
  EXPECT_EQ(stats().free_pages, 0u);
  for (const u64 value : {8, 11, 12}) EXPECT_EQ(read(a, value, kBytes), text(value, kBytes));
}

TEST_F(Values, moves_keep_to_their_rate_and_their_share_of_what_is_written) {
  constexpr u64 kMiB = 1 << 20;
  i64 slept_us = 0;
  u64 pages_in_slice = 0;   // that others write while the keeper sleeps
  bool goes_on = true;
  ValueKeeper keeper{engine.own(), [] { return false; }, [&](i64 us) {
    slept_us += us;
    values.values.written_pages += pages_in_slice;
    return goes_on;
  }, keeping};
  ValuePace pace(keeper, values);
  const auto sleep_after = [&](u64 bytes) {
    slept_us = 0;
    bool went_on = false;
    TXN_EXPECT_OK(pace.after(bytes, &went_on));
    EXPECT_TRUE(went_on);
    return slept_us;
  };
  const auto goes_on_after = [&](u64 bytes) {
    bool went_on = true;
    TXN_EXPECT_OK(pace.after(bytes, &went_on));
    return went_on;
  };
  keeping.set({.bytes_per_second = kMiB, .write_percent = 50, .free_percent = 20});
  EXPECT_EQ(pace.pages_at_a_time(), 64u);
  EXPECT_EQ(sleep_after(4 * kMiB), 4'000'000) << "its rate, where nothing is written";
  pages_in_slice = 32;   // 1.25 MiB in a second
  EXPECT_EQ(sleep_after(4 * kMiB), 4'000'000) << "others have written more";
  keeping.set({.bytes_per_second = kMiB, .write_percent = 20, .free_percent = 20});
  EXPECT_EQ(sleep_after(4 * kMiB), 12'800'000) << "until they have written four times as much";
  keeping.set({.bytes_per_second = kMiB, .write_percent = 100, .free_percent = 20});
  EXPECT_EQ(sleep_after(4 * kMiB), 4'000'000);
  keeping.set({.bytes_per_second = kMiB, .write_percent = 1, .free_percent = 20});
  pages_in_slice = 15;
  EXPECT_EQ(sleep_after(4 * kMiB), 4'000'000) << "so little does not count";
  goes_on = false;
  EXPECT_FALSE(goes_on_after(kMiB)) << "the store stops";
  goes_on = true;
  keeping.set({.bytes_per_second = 0, .write_percent = 50, .free_percent = 20});
  EXPECT_FALSE(goes_on_after(1)) << "nothing is to be moved any more";
}

TEST_F(Values, a_file_with_much_free_space_becomes_shorter) {   // VKEEP-1
  a.begin();
  for (u64 value = 1; value <= 1000; value++)
    TXN_ASSERT_OK(insert(a, value, text(value, 9000 + value % 7000)));
  TXN_ASSERT_OK(insert(a, 1001, text(1001, 700'000)));
  a.commit(true);
  a.begin();
  for (u64 value = 1; value <= 1000; value++)
    if (value % 4 != 0) TXN_ASSERT_OK(remove(a, value, static_cast<u32>(9000 + value % 7000)));
  a.commit(true);
  clean();
  keeping.set({.bytes_per_second = 1 << 20, .write_percent = 50, .free_percent = 400});
  EXPECT_FALSE(is_move_due(keeping, values)) << "three quarters are free";
  keeping.set({.bytes_per_second = 0, .write_percent = 50, .free_percent = 20});
  EXPECT_FALSE(is_move_due(keeping, values));
  keeping.set(LS_DEFAULT_VALUE_MOVES);
  EXPECT_TRUE(is_move_due(keeping, values));
  ValueKeeper keeper{engine.own(), [] { return false; }, [](i64) { return true; }, keeping};
  bool did;
  TXN_ASSERT_OK(keep_values(keeper, &did));
  EXPECT_TRUE(did);
  const u64 live = stats().pages - stats().free_pages;
  EXPECT_LE(stats().pages, live * 13 / 10);
  EXPECT_EQ(std::filesystem::file_size((engine.path() + "/values_fsm")), stats().pages * kPageSize);
  EXPECT_EQ(stats().lost_pages, 0u);
  for (u64 value = 4; value <= 1000; value += 4) {
    const u32 bytes = static_cast<u32>(9000 + value % 7000);
    ASSERT_EQ(read(a, value, bytes), text(value, bytes)) << "value " << value;
  }
  EXPECT_EQ(read(a, 1001, 700'000), text(1001, 700'000));
  EXPECT_FALSE(is_move_due(keeping, values));
}

TEST_F(Values, others_are_counted_while_values_wait_to_be_moved) {
  constexpr u32 kBytes = 8192;
  FileSlot &other = *engine.open("other", LS_REL_VALUES);
  a.begin();
  for (u64 value = 1; value <= 1000; value++) {
    TXN_ASSERT_OK(insert(a, value, text(value, kBytes)));
    const std::string data = text(value, kBytes);
    TXN_ASSERT_OK(
        value_insert(a.worker(), other, {value, bytes_of(data).data(), kBytes, false}, a.cid++));
  }
  a.commit(true);
  a.begin();
  for (u64 value = 1; value <= 900; value++) TXN_ASSERT_OK(remove(a, value, kBytes));
  a.commit(true);
  clean();
  other.values.reset();   // as when it is opened
  a.begin();
  const std::string data = text(1001, kBytes);
  TXN_ASSERT_OK(
      value_insert(a.worker(), other, {1001, bytes_of(data).data(), kBytes, false}, a.cid++));
  a.commit(true);
  ASSERT_FALSE(other.values.is_counted());
  keeping.set({.bytes_per_second = 1 << 20, .write_percent = 1, .free_percent = 20});
  bool counted = false;
  u32 slept = 0;
  ls_value_phase phase = LS_VALUES_IDLE;
  ValueKeeper keeper{engine.own(), [] { return false; }, [&](i64) {
    values.values.written_pages += 32;   // others write, but not 99 times as much
    counted = other.values.is_counted();
    phase = keeping.progress().phase;
    return ++slept < 30;
  }, keeping};
  bool did;
  TXN_ASSERT_OK(keep_values(keeper, &did));
  EXPECT_EQ(slept, 30u);
  EXPECT_TRUE(counted);
  EXPECT_EQ(phase, LS_VALUES_MOVING) << "is to be seen again";
  ls_value_stats now{};
  TXN_ASSERT_OK(value_pages_stats(other, &now));
  EXPECT_EQ(now.pages - now.free_pages, 2 * 1001u);
}

TEST_F(Values, a_long_write_ends_when_it_is_interrupted) {
  const volatile int raised = 1;
  a.begin();
  TXN_ASSERT_OK(insert(a, 1, text(1, 20'000)));
  a.worker().ctx.interrupt = &raised;
  EXPECT_EQ(code(insert(a, 2, text(2, 3'000'000))), LS_INTERRUPTED);
  a.worker().ctx.interrupt = nullptr;
  TXN_ASSERT_OK(insert(a, 2, text(2, 3'000'000)));
  a.commit(true);
  EXPECT_EQ(read(a, 2, 3'000'000), text(2, 3'000'000));
  EXPECT_EQ(stats().free_pages, 0u) << "the pages of the first attempt were given back";
}

TEST_F(Values, a_flipped_bit_is_named_and_nothing_else_is_lost) {   // VPLACE-2, VFILE-2
  a.begin();
  for (u64 value = 1; value <= 3; value++) TXN_ASSERT_OK(insert(a, value, text(value, 20'000)));
  a.commit(true);
  {
    std::fstream file(engine.path() + "/values_fsm",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(7 * kPageSize + 100);
    file.put('!');
  }
  std::string out;
  EXPECT_EQ(code(slice(a, 2, {0, 20'000, 0, 20'000}, &out)), LS_CORRUPT);
  EXPECT_NE(std::strstr(last_error().message, "value 2"), nullptr) << last_error().message;
  EXPECT_NE(std::strstr(last_error().path, "values_fsm"), nullptr) << last_error().path;
  for (const u64 value : {1, 3}) EXPECT_EQ(read(a, value, 20'000), text(value, 20'000));
}

}  // namespace
}  // namespace ls::txn_test
