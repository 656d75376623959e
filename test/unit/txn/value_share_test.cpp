// Values with the same bytes (VCLAIM-1): they name the same pages, which are free when the last one
// has gone, whatever becomes of their transactions; counted anew when a file is opened; moved
// together.
#include "txn/value_share.hpp"

#include "model/seeds.hpp"
#include "txn/value_check.hpp"
#include "txn/value_row.hpp"
#include "unit/txn/value_fixture.hpp"

namespace ls::txn_test {
namespace {

constexpr u32 kBytes = 12'000;
constexpr u32 kPages = 3;

class SharedValues : public Values {
 protected:
  SharedValues() { share = true; }

  void put(Session &s, u64 value, u64 content, u32 bytes = kBytes) {
    if (looks_for_all) values.values.share_rate.reset();
    TXN_ASSERT_OK(insert(s, value, text(content, bytes)));
    held[value] = {content, bytes};
  }
  void drop(Session &s, u64 value) {
    TXN_ASSERT_OK(remove(s, value, held.at(value).second));
    held.erase(value);
  }
  void put_committed(u64 value, u64 content, u32 bytes = kBytes) {
    a.begin();
    put(a, value, content, bytes);
    a.commit(true);
  }
  void drop_committed(u64 value) {
    a.begin();
    drop(a, value);
    a.commit(true);
    clean();
  }
  u64 used() { return stats().pages - stats().free_pages; }
  // All are there, and the pages in use are those of the distinct contents.
  void expect_whole() {
    std::set<std::pair<u64, u32>> distinct;
    u64 pages = 0;
    for (const auto &[value, what] : held) {
      ASSERT_EQ(read(b, value, what.second), text(what.first, what.second)) << "value " << value;
      // Contents are the beginning of one text each, and ends in the row count for nothing.
      const u32 paged = ValueLayout(what.second).paged_bytes;
      if (distinct.insert({what.first, paged}).second) pages += ValueLayout(what.second).pages();
    }
    EXPECT_EQ(used(), pages);
    EXPECT_EQ(stats().shared_values, held.size() - distinct.size());
    EXPECT_EQ(stats().lost_pages, 0u);
    expect_checked();
  }
  void expect_checked() {
    bool compared = false;
    TXN_EXPECT_OK(value_check_claims(b.worker(), values, &compared));
    EXPECT_EQ(compared, stats().counted);
  }
  PageRuns runs_of(u64 value) {
    alignas(8) u8 copy[LS_ROW_BUFFER_BYTES];
    RowParts parts;
    u32 bytes;
    TXN_EXPECT_OK(copy_row(a.worker(), values, row_of(value) + 1, copy, &parts, &bytes));
    ValuePlace place;
    EXPECT_TRUE(load_value_row(parts.payload, &place));
    return place.runs;
  }
  void count() {
    ValueKeeper keeper{engine.own(), [] { return false; }, [](i64) { return true; }, keeping};
    TXN_ASSERT_OK(count_values(keeper, values));
    EXPECT_TRUE(stats().counted);
  }
  // As when the file is opened: nothing is known.
  void forget() {
    values.values.reset();
    put_committed(1'000'000, 1'000'000, 4096);
    EXPECT_FALSE(stats().counted);
  }

  void keep() {
    ValueKeeper keeper{engine.own(), [] { return false; }, [](i64) { return true; }, keeping};
    bool did;
    TXN_ASSERT_OK(keep_values(keeper, &did));
  }
  void random_transaction(std::mt19937_64 &random, int round, u64 *next) {
    const auto before = held;
    a.begin();
    for (u64 steps = random() % 30; steps > 0; steps--) {
      share = random() % 8 != 0;
      if (held.empty() || random() % 100 < (round % 20 < 12 ? 65u : 25u)) {
        put(a, (*next)++, random() % 12, random() % 2 == 0 ? 5000 : 60'000);
      } else {
        auto victim = held.begin();
        std::advance(victim, random() % held.size());
        drop(a, victim->first);
      }
    }
    const bool rolls_back = random() % 4 == 0;
    if (rolls_back) a.abort();
    if (rolls_back) held = before;
    if (!rolls_back) a.commit(true);
    if (random() % 2 == 0) clean();
    if (random() % 4 == 0) keep();
    expect_checked();
    if (random() % 8 == 0) values.values.reset();   // opened anew
    for (const auto &[value, what] : held)
      ASSERT_EQ(read(b, value, what.second), text(what.first, what.second)) << "value " << value;
  }

  bool looks_for_all = true;
  std::map<u64, std::pair<u64, u32>> held;   // content and bytes of values
};

TEST_F(SharedValues, same_bytes_have_the_same_pages) {
  put_committed(1, 7);
  put_committed(2, 7);
  put_committed(3, 8);
  EXPECT_EQ(used(), 2 * kPages);
  EXPECT_EQ(stats().shared_values, 1u);
  EXPECT_EQ(stats().shared_pages, kPages);
  EXPECT_EQ(stats().written_pages, 2 * kPages);
  EXPECT_EQ(runs_of(1)[0].first, runs_of(2)[0].first);
  expect_whole();
}

TEST_F(SharedValues, a_value_that_is_not_to_share_does_not_and_is_not_found) {
  share = false;
  put_committed(1, 7);
  share = true;
  put_committed(2, 7);
  share = false;
  put_committed(3, 7);
  EXPECT_EQ(used(), 3 * kPages);
  EXPECT_EQ(stats().shared_values, 0u);
}

TEST_F(SharedValues, of_all_sizes_with_tails_and_pages_of_notes) {
  const u32 sizes[] = {1901, 4096, 4097, 5996, 5997, 32'768, 524'289, 1'200'000};
  u64 value = 0;
  for (int round = 0; round < 3; round++)
    for (const u32 bytes : sizes) put_committed(++value, 5, bytes);
  expect_whole();
  std::string part;
  TXN_ASSERT_OK(slice(b, value, {0, 1'200'000, 700'001, 90'000}, &part));
  EXPECT_EQ(part, text(5, 1'200'000).substr(700'001, 90'000));
}

// VCLAIM-2
TEST_F(SharedValues, another_end_in_the_row_shares_pages_too) {
  std::string data = text(5, 8192 + 1000);
  a.begin();
  TXN_ASSERT_OK(insert(a, 1, data));
  data.back() ^= 1;
  TXN_ASSERT_OK(insert(a, 2, data));
  TXN_ASSERT_OK(insert(a, 3, data.substr(0, 8192 + 10)));
  a.commit(true);
  EXPECT_EQ(used(), 2u);
  EXPECT_EQ(read(b, 2, 9192), data);
  EXPECT_EQ(read(b, 3, 8202), data.substr(0, 8202));
  data.back() ^= 1;
  EXPECT_EQ(read(b, 1, 9192), data);
}

TEST_F(SharedValues, pages_go_with_the_last_row_in_either_order) {
  for (const bool first_before : {true, false}) {
    put_committed(1, 7);
    put_committed(2, 7);
    drop_committed(first_before ? 1 : 2);
    EXPECT_EQ(used(), kPages);
    expect_whole();
    drop_committed(first_before ? 2 : 1);
    EXPECT_EQ(used(), 0u);
    EXPECT_EQ(stats().shared_values, 0u);
  }
  // What is free is not found (VCLAIM-3).
  put_committed(3, 7);
  EXPECT_EQ(stats().written_pages, 3 * kPages);
  drop_committed(3);
}

TEST_F(SharedValues, one_found_when_the_first_one_has_gone) {
  put_committed(1, 7);
  put_committed(2, 7);
  drop_committed(1);
  put_committed(3, 7);
  EXPECT_EQ(stats().written_pages, kPages);
  drop_committed(2);
  expect_whole();
}

TEST_F(SharedValues, the_first_ones_transaction_is_rolled_back) {
  a.begin();
  put(a, 1, 7);
  b.begin();
  put(b, 2, 7);
  b.commit(true);
  a.abort();
  held.erase(1);
  clean();
  EXPECT_EQ(used(), kPages);
  expect_whole();
}

TEST_F(SharedValues, the_seconds_transaction_is_rolled_back_and_savepoints) {
  put_committed(1, 7);
  a.begin();
  put(a, 2, 7);
  u32 savepoint = txn_savepoint(a.worker());
  put(a, 3, 7);
  put(a, 4, 8);
  txn_rollback_to(a.worker(), savepoint);
  held.erase(3);
  held.erase(4);
  put(a, 5, 8);
  a.commit(true);
  clean();
  expect_whole();
  a.begin();
  put(a, 6, 7);
  a.abort();
  held.erase(6);
  clean();
  expect_whole();
}

// A snapshot that sees the deleted one keeps its claim.
TEST_F(SharedValues, an_old_snapshot_keeps_what_it_sees) {
  put_committed(1, 7);
  put_committed(2, 7);
  auto old = b.snapshot();
  a.begin();
  drop(a, 1);
  drop(a, 2);
  a.commit(true);
  clean();
  EXPECT_EQ(read(b, 1, kBytes), text(7, kBytes));
  EXPECT_EQ(read(b, 2, kBytes), text(7, kBytes));
  put_committed(3, 7);
  EXPECT_EQ(stats().written_pages, kPages) << "ghosts are found, too";
  b.release(old);
  clean();
  expect_whole();
}

// Only the bytes decide.
TEST_F(SharedValues, equal_hashes_of_other_bytes_are_told_apart) {
  put_committed(1, 7);
  const PageRuns runs = runs_of(1);
  // The same place under the hash of other bytes.
  alignas(8) u8 copy[LS_ROW_BUFFER_BYTES];
  RowParts parts;
  u32 bytes;
  TXN_ASSERT_OK(copy_row(a.worker(), values, row_of(1) + 1, copy, &parts, &bytes));
  ValuePlace place;
  ASSERT_TRUE(load_value_row(parts.payload, &place));
  const std::string other = text(8, kBytes);
  place.hash = BytesInMemory(bytes_of(other).data(), ValueLayout(kBytes).paged_bytes).hash();
  note_candidate(a.worker(), values, 1, place);
  put_committed(2, 8);
  EXPECT_NE(runs_of(2)[0].first, runs[0].first);
  expect_whole();
}

// VCLAIM-4
TEST_F(SharedValues, counted_when_the_file_is_opened) {
  for (u64 value = 1; value <= 1500; value++) put_committed(value, value % 40, 8192 + value % 3);
  for (u64 value = 1; value <= 1500; value += 2) {
    a.begin();
    drop(a, value);
    a.commit();
  }
  clean();
  forget();
  put_committed(2000, 4);
  EXPECT_EQ(stats().shared_values, 0u) << "old pages are not shared before all are counted";
  u32 steps = 0;
  ValueKeeper keeper{engine.own(), [&] {
    // In the middle of it rows before and behind vanish, all of some contents.
    if (++steps == 10) {
      a.begin();
      for (u64 value = 2; value <= 1500; value += 2)
        if (value % 40 == 10 || value % 40 == 20 || value < 200 || value % 7 == 0) drop(a, value);
      put(a, 2001, 10);
      put(a, 2002, 20, 8192);
      a.commit(true);
      clean();
    }
    return false;
  }, [](i64) { return true; }, keeping};
  TXN_ASSERT_OK(count_values(keeper, values));
  EXPECT_GT(steps, 10u);
  // Those that came meanwhile have pages of their own beside equal old ones.
  std::vector<u64> fresh = {2000, 2001, 2002};
  for (const u64 value : fresh) drop_committed(value);
  expect_whole();
  put_committed(2003, 6, 8192 + 1);
  drop_committed(1'000'000);
  expect_whole();
  while (!held.empty()) drop_committed(held.begin()->first);
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(stats().shared_values, 0u);
}

// VCLAIM-4: leaves become one, with rows on both sides of where the counting is.
TEST_F(SharedValues, rows_of_leaves_that_merge_are_counted_once) {
  for (u64 value = 1; value <= 1500; value++) put_committed(value, value % 40, 8192);
  forget();
  u32 steps = 0;
  ValueKeeper keeper{engine.own(), [&] {
    if (++steps % 5 == 0 && held.size() > 100) {
      a.begin();
      const auto before = held;
      u64 nth = steps;
      for (const auto &[value, what] : before)
        if (nth++ % 4 != 0) drop(a, value);
      a.commit(true);
      clean();
    }
    return false;
  }, [](i64) { return true; }, keeping};
  TXN_ASSERT_OK(count_values(keeper, values));
  EXPECT_LE(held.size(), 100u);
  while (!held.empty()) drop_committed(held.begin()->first);
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(stats().shared_values, 0u);
  expect_checked();
}

// What was noted before is not mixed with what is counted, and is removed.
TEST_F(SharedValues, the_tree_is_swept_of_closed_files) {
  for (u64 value = 1; value <= 300; value++) put_committed(value, value);
  FileSlot &tree = engine.pool().file(engine.pool().shared()->value_tree.load() - 1);
  const u64 before = engine.verify(tree);
  EXPECT_GE(before, 300u);
  forget();
  count();
  u64 cursor = 0;
  do {
    TXN_ASSERT_OK(sweep_value_tree(engine.own().ctx, &cursor));
  } while (cursor != 0);
  EXPECT_LE(engine.verify(tree), before + 10);
  expect_whole();
}

TEST_F(SharedValues, a_file_with_shared_values_at_its_end_becomes_shorter) {
  u64 value = 0;
  for (u64 i = 1; i <= 600; i++) put_committed(++value, 1000 + i);
  // Twenty contents, fifty rows of each, behind; and a large one.
  const u64 behind = value;
  for (u64 i = 0; i < 1000; i++) put_committed(++value, i % 20, 9000);
  for (u64 i = 0; i < 3; i++) put_committed(++value, 50, 700'000);
  for (u64 i = 1; i <= behind; i++) {
    a.begin();
    drop(a, i);
    a.commit();
  }
  clean();
  ASSERT_TRUE(is_move_due(keeping, values));
  const u64 moved_before = stats().moved_pages;
  keep();
  expect_whole();
  EXPECT_LE(stats().pages, used() * 13 / 10 + 64);
  EXPECT_LE(stats().moved_pages - moved_before, used()) << "each content once";
  EXPECT_EQ(std::filesystem::file_size(engine.path() + "/values_fsm"), stats().pages * kPageSize);
  EXPECT_FALSE(is_move_due(keeping, values));
  // Copies are found, too.
  put_committed(5000, 3, 9000);
  expect_whole();
}

TEST_F(SharedValues, a_copied_table_shares_as_before) {
  for (u64 value = 1; value <= 60; value++) put_committed(value, value % 6);
  FileSlot &fresh = *engine.open("fresh", LS_REL_VALUES);
  auto s = b.snapshot();
  a.begin();
  RowScan *scan = nullptr;
  TXN_ASSERT_OK(scan_open(b.worker(), values, s->s, 0, LS_MAX_ROW_ID, false, &scan));
  ls_row row{};
  OneByOne rows(scan);
  while (ok(rows.next(&row))) TXN_ASSERT_OK(value_insert_copied(a.worker(), fresh, values, row));
  scan_close(scan);
  a.commit(true);
  b.release(s);
  ls_value_stats now{};
  TXN_ASSERT_OK(value_pages_stats(fresh, &now));
  EXPECT_EQ(now.pages - now.free_pages, 6 * kPages);
  EXPECT_EQ(now.shared_values, 54u);
  for (const auto &[value, what] : held) {
    std::string data(kBytes, '?');
    TXN_ASSERT_OK(value_read(b.worker(), fresh, {value, kBytes, 0, kBytes},
                             reinterpret_cast<u8 *>(data.data())));
    EXPECT_EQ(data, text(what.first, kBytes));
  }
}

// Each is told, with file and page.
TEST_F(SharedValues, a_check_finds_what_does_not_fit_the_rows) {
  put_committed(1, 7);
  put_committed(2, 7);
  put_committed(3, 8);
  put_committed(4, 9);
  expect_checked();
  const std::string data = text(7, kBytes);
  const u64 hash = BytesInMemory(bytes_of(data).data(), kBytes).hash();
  bool compared;
  const auto finds = [&](const char *what) {
    EXPECT_EQ(code(value_check_claims(b.worker(), values, &compared)), LS_CORRUPT);
    EXPECT_TRUE(compared);
    EXPECT_NE(std::strstr(last_error().message, what), nullptr) << last_error().message;
    EXPECT_NE(std::strstr(last_error().path, "values_fsm"), nullptr) << last_error().path;
  };
  // A claim that no row has, and rows without one.
  Ctx &ctx = a.worker().ctx;
  Candidate candidate;
  TXN_ASSERT_OK(find_value_candidate(ctx, values, hash, &candidate));
  bool shared;
  TXN_ASSERT_OK(share_value_pages(ctx, values, {runs_of(1), hash}, candidate, &shared));
  ASSERT_TRUE(shared);
  finds("are noted");
  for (int i = 0; i < 2; i++) free_value_pages(ctx, values, {runs_of(1), hash});
  finds("are noted");
  TXN_ASSERT_OK(share_value_pages(ctx, values, {runs_of(1), hash}, candidate, &shared));
  ASSERT_TRUE(shared);
  expect_checked();
  free_value_pages(ctx, values, {runs_of(3), 0});
  finds("is free");
  PageRuns again;
  TXN_ASSERT_OK(take_value_pages(ctx, values, kPages, &again));
  expect_checked();
  ASSERT_EQ(again[0].first, runs_of(3)[0].first);
}

TEST_F(SharedValues, looks_become_few_where_nothing_is_found_and_many_again) {
  ShareRate &rate = values.values.share_rate;
  looks_for_all = false;
  u64 value = 0;
  const auto put_many = [&](u32 count, auto &&content) {
    for (u32 i = 0; i < count; i += 64) {
      a.begin();
      for (u32 j = 0; j < 64; j++, value++) put(a, value + 1, content(value), 4096);
      a.commit();
    }
  };
  const auto fresh = [](u64 i) { return 1'000'000 + i; };
  put_many(256, [](u64 i) { return i % 4 == 0 ? i % 8 : 1'000'000 + i; });
  EXPECT_FALSE(rate.is_sparse());
  put_many(512, fresh);
  EXPECT_TRUE(rate.is_sparse());
  const u64 shared = stats().shared_values;
  // A few contents are noticed within some turns, and shared from then on.
  put_many(4096, [](u64 i) { return i % 2 == 0 ? i % 6 : 1'000'000 + i; });
  EXPECT_FALSE(rate.is_sparse());
  EXPECT_GT(stats().shared_values, shared + 500);
  put_many(512, fresh);
  EXPECT_TRUE(rate.is_sparse());
  // Each content comes again, but late: those that are looked for are found.
  put_many(4096, fresh);
  EXPECT_TRUE(rate.is_sparse());
  const u64 before = stats().shared_values;
  put_many(4096, [&](u64 i) { return fresh(i - 4096); });
  EXPECT_GT(stats().shared_values, before + 60);
  for (const auto &[number, what] : held) {
    if (number % 16 != 0) continue;
    ASSERT_EQ(read(b, number, what.second), text(what.first, what.second));
  }
  expect_checked();
}

TEST_F(SharedValues, a_damaged_candidate_is_not_shared) {
  put_committed(1, 7);
  {
    std::fstream file(engine.path() + "/values_fsm",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(kPageSize + 100);
    file.put('!');
    file.put('!');
  }
  put_committed(2, 7);
  EXPECT_EQ(read(b, 2, kBytes), text(7, kBytes));
  EXPECT_EQ(stats().shared_values, 0u);
}

// Random transactions, with counting and moves between them, against a model.
TEST_F(SharedValues, at_random) {
  u64 next = 1;
  test::each_seed(3, [&](u64 seed) {
    SCOPED_TRACE("LS_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int round = 0; round < 60 && !HasFailure(); round++)
      random_transaction(random, round, &next);
    share = true;
    put_committed(next, next);   // it is begun
    next++;
    keep();
    a.begin();
    while (!held.empty()) drop(a, held.begin()->first);
    a.commit(true);
    clean();
    EXPECT_EQ(used(), 0u) << "each claim has gone with its row";
    EXPECT_EQ(stats().shared_values, 0u);
    return !HasFailure();
  });
}

// Threads that put and remove the same few contents, beside the cleaner and the mover.
TEST_F(SharedValues, by_threads_at_once) {
  constexpr int kThreads = 3, kRounds = 120;
  std::atomic<u64> next{1};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::mutex left_mutex;
  std::map<u64, u64> left;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      Session s(engine, host, static_cast<u32>(2 + t));
      std::mt19937_64 random(static_cast<u64>(t));
      std::map<u64, u64> mine;
      for (int round = 0; round < kRounds; round++) {
        auto now = mine;
        s.begin();
        for (int i = 0; i < 4; i++) {
          if (now.size() < 6 || random() % 2 == 0) {
            const u64 value = next.fetch_add(1), content = random() % 5;
            TXN_EXPECT_OK(insert(s, value, text(content, kBytes)));
            now[value] = content;
          } else {
            TXN_EXPECT_OK(remove(s, now.begin()->first, kBytes));
            now.erase(now.begin());
          }
        }
        if (random() % 5 == 0) {
          s.abort();
        } else {
          s.commit();
          mine = now;
        }
        for (const auto &[value, content] : mine)
          EXPECT_EQ(read(s, value, kBytes), text(content, kBytes)) << "value " << value;
      }
      const std::lock_guard guard(left_mutex);
      left.insert(mine.begin(), mine.end());
    });
  }
  std::thread cleaner([&] {
    ValueKeeper keeper{engine.own(), [] { return false; }, [](i64) { return true; }, keeping};
    while (!stop.load()) {
      clean();
      bool did;
      TXN_EXPECT_OK(keep_values(keeper, &did));
    }
  });
  for (std::thread &thread : threads) thread.join();
  stop.store(true);
  cleaner.join();
  clean();
  std::set<u64> contents;
  for (const auto &[value, content] : left) {
    EXPECT_EQ(read(b, value, kBytes), text(content, kBytes)) << "value " << value;
    contents.insert(content);
  }
  EXPECT_LT(used(), left.size() * kPages) << "some are shared";
  expect_checked();
  a.begin();
  for (const auto &[value, content] : left) TXN_ASSERT_OK(remove(a, value, kBytes));
  a.commit(true);
  clean();
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(stats().shared_values, 0u);
}

}  // namespace
}  // namespace ls::txn_test
