// Scans: ranges, both directions, turning around, seeking; against a sorted list.
#include <random>

#include "unit/index/index_fixture.hpp"

namespace ls::test {
namespace {

class IndexScanTest : public testing::Test {
 protected:
  // Two entries for every third number, payloads of some length: many leaves.
  void fill(u64 n) {
    IndexSession s(store, 0);
    LS_ASSERT_OK(s.begin());
    for (u64 i = 0; i < n; i++) {
      for (u64 copy = 0; copy < (i % 3 == 0 ? 2 : 1); copy++) {
        entries.push_back({number_key(i * 10), 2 * i + copy + 1, std::string(i % 50, 'p')});
        LS_ASSERT_OK(s.add(entries.back().key, entries.back().row_id, entries.back().payload));
      }
    }
    s.commit();
  }
  // The entries between two bounds.
  std::vector<Entry> between(const std::string &from, const std::optional<std::string> &to) const {
    std::vector<Entry> found;
    for (const Entry &e : entries) {
      const std::string whole = entry_of(e.key, e.row_id);
      if (whole >= from && (!to || whole < *to)) found.push_back(e);
    }
    return found;
  }
  std::string any_bound(std::mt19937_64 &random) const {
    const std::string key = number_key(random() % (entries.size() * 10));
    switch (random() % 5) {
      case 0: return key.substr(0, 1 + random() % key.size());
      case 1: return entry_of(key, random() % 100);
      // longer than any entry
      case 2: return entry_of(key, random() % 100) + std::string(1200, 'x');
      case 3: return random() % 2 ? std::string() : std::string("\2");
      default: return key;
    }
  }

  IndexStore store;
  std::vector<Entry> entries;
  ls_error err{};
};

TEST_F(IndexScanTest, middle_is_in_the_range_and_halves_it) {
  fill(5000);
  IndexSession s(store, 0);
  IndexScanner scan(s.worker(), s.index);
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; i++) {
    const std::string from = any_bound(random);
    std::optional<std::string> to;
    if (random() % 4 != 0) to = any_bound(random);
    std::vector<Entry> left = between(from, to);
    std::string low = from;
    std::optional<std::string> high = to;
    u32 steps = 0;
    for (; !left.empty(); steps++) {
      const auto found = scan.middle(low, high);
      ASSERT_TRUE(found);
      const auto at = std::find(left.begin(), left.end(), *found);
      ASSERT_NE(at, left.end());
      if (random() % 2) {
        low = entry_of(found->key, found->row_id + 1);
        left.erase(left.begin(), at + 1);
      } else {
        high = entry_of(found->key, found->row_id);
        left.erase(at, left.end());
      }
    }
    EXPECT_EQ(scan.middle(low, high), std::nullopt);
    EXPECT_LE(steps, 30u);
  }
}

TEST_F(IndexScanTest, ranges_in_both_directions) {
  fill(2000);
  IndexSession s(store, 0);
  IndexScanner scan(s.worker(), s.index);
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; i++) {
    const std::string from = any_bound(random);
    std::optional<std::string> to;
    if (random() % 4 != 0) to = any_bound(random);
    std::vector<Entry> expected = between(from, to);
    const bool backward = random() % 2;
    if (backward) std::reverse(expected.begin(), expected.end());
    scan.range(from, to, backward);
    ASSERT_EQ(scan.rest(), expected);
    EXPECT_EQ(scan.next(), std::nullopt) << "LS_END again";
  }
}

TEST_F(IndexScanTest, a_look_up_touches_one_leaf) {
  fill(2000);
  IndexSession s(store, 0);
  IndexScanner scan(s.worker(), s.index);
  const u64 before = store.stats().page_hits;
  u64 look_ups = 0;
  for (u64 i = 0; i < 2000; i++) {
    if (i % 3 == 0) continue;  // two entries, which may lie in two leaves
    scan.range(number_key(i * 10), number_key(i * 10 + 1));
    EXPECT_EQ(scan.rest().size(), 1u);
    look_ups++;
  }
  // When the last entry of a leaf is asked for the leaf's fence tells that nothing follows.  Few
  // are made again.
  EXPECT_LT(store.stats().page_hits - before, look_ups * 11 / 10);
}

TEST_F(IndexScanTest, turning_around_seeking_and_looking_ahead_at_random) {
  fill(1500);
  u64 skipped = 0;
  IndexSession s(store, 0);
  IndexScanner scan(s.worker(), s.index);
  std::mt19937_64 random(2);
  for (int round = 0; round < 60; round++) {
    const std::string from = any_bound(random);
    std::optional<std::string> to;
    if (random() % 3 != 0) to = any_bound(random);
    const std::vector<Entry> list = between(from, to);
    bool backward = random() % 2;
    scan.range(from, to, backward);
    // The place between two entries of the list: at - 1 and at; on: the entry there was just
    // returned.
    long at = backward ? static_cast<long>(list.size()) : 0;
    bool on = false;
    for (int step = 0; step < 200; step++) {
      if (random() % 8 == 0) {
        backward = !backward;
        scan.set_backward(backward);
      }
      if (random() % 10 == 0) {
        const std::string position = any_bound(random);
        scan.seek(position);
        at = 0;
        on = false;
        for (const Entry &e : list) {
          const std::string whole = entry_of(e.key, e.row_id);
          if (whole == position) on = true;
          if (whole >= position) break;
          at++;
        }
      }
      long next = on ? (backward ? at - 1 : at + 1) : (backward ? at - 1 : at);
      const std::optional<Entry> got = scan.next();
      if (next < 0 || next >= static_cast<long>(list.size())) {
        ASSERT_EQ(got, std::nullopt) << "round " << round << " step " << step;
        at = backward ? 0 : static_cast<long>(list.size());
        on = false;
      } else {
        ASSERT_EQ(got, list[static_cast<size_t>(next)]) << "round " << round << " step " << step;
        at = next;
        on = true;
      }
      const std::vector<u64> rows = scan.ahead(random() % 100);
      ASSERT_TRUE(on || rows.empty());
      for (size_t i = 0; i < rows.size(); i++) {
        next = at + static_cast<long>(i + 1) * (backward ? -1 : 1);
        ASSERT_TRUE(next >= 0 && next < static_cast<long>(list.size()));
        ASSERT_EQ(rows[i], list[static_cast<size_t>(next)].row_id)
            << "round " << round << " step " << step;
      }
      if (rows.empty() || random() % 3 == 0) continue;
      const u32 over = 1 + random() % rows.size();
      at += static_cast<long>(over) * (backward ? -1 : 1);
      ASSERT_EQ(scan.skip(over), list[static_cast<size_t>(at)])
          << "round " << round << " step " << step;
      skipped += over;
    }
  }
  EXPECT_GT(skipped, 1000u);
}

TEST_F(IndexScanTest, taking_giving_back_turning_and_seeking_at_random) {
  fill(1500);
  u64 given_back = 0, same = 0, single = 0;
  IndexSession s(store, 0);
  IndexScanner scan(s.worker(), s.index);
  std::mt19937_64 random(4);
  for (int round = 0; round < 60; round++) {
    const std::string from = any_bound(random);
    std::optional<std::string> to;
    if (random() % 3 != 0) to = any_bound(random);
    const std::vector<Entry> list = between(from, to);
    const long size = static_cast<long>(list.size());
    bool backward = random() % 2;
    scan.range(from, to, backward);
    // The place of the entry returned last, or the end where the scan is: -1 or size.
    long at = backward ? size : -1;
    for (int step = 0; step < 60; step++) {
      if (random() % 6 == 0) {
        backward = !backward;
        scan.set_backward(backward);
      }
      if (!list.empty() && random() % 10 == 0) {
        at = static_cast<long>(random() % list.size());
        const Entry &there = list[static_cast<size_t>(at)];
        scan.seek(entry_of(there.key, there.row_id));
      }
      const long by = backward ? -1 : 1;
      if (random() % 4 == 0) {
        const std::optional<Entry> got = scan.next();
        at = std::clamp(at + by, -1l, size);
        const bool inside = at >= 0 && at < size;
        ASSERT_EQ(got, inside ? std::optional(list[static_cast<size_t>(at)]) : std::nullopt)
            << "round " << round << " step " << step;
        single++;
        continue;
      }
      const auto taken = scan.take();
      ASSERT_EQ(taken.empty(), at + by < 0 || at + by >= size);
      if (taken.empty()) {
        at = std::clamp(at + by, -1l, size);
        continue;
      }
      for (const auto &[entry, same_key, visible] : taken) {
        at += by;
        ASSERT_TRUE(at >= 0 && at < size);
        ASSERT_EQ(entry, list[static_cast<size_t>(at)]) << "round " << round << " step " << step;
        EXPECT_FALSE(visible) << "no row is there";
        if (same_key) {
          ASSERT_EQ(entry.key, list[static_cast<size_t>(at - by)].key);
        }
        same += same_key;
      }
      if (random() % 2 == 0) continue;
      const u32 back = static_cast<u32>(random() % taken.size());
      scan.give_back(back);
      at -= by * static_cast<long>(back);
      given_back += back;
    }
  }
  EXPECT_GT(given_back, 1000u);
  EXPECT_GT(same, 1000u);
  EXPECT_GT(single, 100u);
}

// Whatever the layout of a leaf, and however long keys are: all of them, in batches.
TEST_F(IndexScanTest, batches_of_short_long_and_equal_keys) {
  std::mt19937_64 random(5);
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  for (u64 i = 0; i < 3000; i++) {
    const u64 kind = i / 1000;
    const std::string key = kind == 0   ? number_key(i / 200)
                            : kind == 1 ? text_key("k" + std::to_string(i))
                                        : text_key(std::string(random() % 1200, 'x') +
                                                   std::to_string(i));
    entries.push_back({key, i + 1, kind == 0 ? "" : std::string(random() % 20, 'p')});
    LS_ASSERT_OK(s.add(entries.back().key, entries.back().row_id, entries.back().payload));
  }
  s.commit();
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return entry_of(a.key, a.row_id) < entry_of(b.key, b.row_id);
  });
  for (const bool backward : {false, true}) {
    IndexScanner scan(s.worker(), s.index);
    scan.range({}, std::nullopt, backward);
    std::vector<Entry> list = entries, got;
    if (backward) std::reverse(list.begin(), list.end());
    size_t calls = 0;
    for (auto taken = scan.take(); !taken.empty(); taken = scan.take(), calls++)
      for (const auto &one : taken) got.push_back(one.entry);
    ASSERT_EQ(got, list);
    EXPECT_LT(calls, list.size() / 2);
  }
}

TEST_F(IndexScanTest, what_is_removed_behind_its_back) {
  fill(3000);
  IndexSession s(store, 0);
  for (bool backward : {false, true}) {
    IndexScanner scan(s.worker(), s.index);
    scan.range({}, std::nullopt, backward);
    std::vector<Entry> list = between({}, std::nullopt);
    if (backward) std::reverse(list.begin(), list.end());
    size_t seen = 0;
    for (; seen < list.size() / 3; seen++) ASSERT_EQ(scan.next(), list[seen]);
    // All but every hundredth of the rest, and everything passed: leaves melt together under the
    // scan.
    for (size_t i = 0; i < list.size(); i++) {
      if (i < seen || i % 100 != 0) LS_ASSERT_OK(s.take_away(list[i].key, list[i].row_id));
    }
    const std::vector<Entry> rest = scan.rest();
    // What its leaf held when it came there may still be returned; nothing twice, nothing missed.
    std::vector<Entry> kept, expected;
    for (const Entry &e : rest) {
      const size_t i = static_cast<size_t>(std::find(list.begin(), list.end(), e) - list.begin());
      ASSERT_GE(i, seen);
      if (i % 100 == 0) kept.push_back(e);
    }
    for (size_t i = seen; i < list.size(); i++) {
      if (i % 100 == 0) expected.push_back(list[i]);
    }
    EXPECT_EQ(kept, expected);
    EXPECT_LT(rest.size(), expected.size() + 300);
    LS_ASSERT_OK(s.begin());
    for (const Entry &e : list) {
      const ls_status status = s.add(e.key, e.row_id, e.payload);
      ASSERT_TRUE(status == LS_OK || status == LS_EXISTS);
    }
    s.commit();
  }
  EXPECT_GT(store.stats().merges, 10u);
}

TEST_F(IndexScanTest, what_was_read_ahead_is_confirmed) {
  fill(20);  // one leaf
  IndexSession s(store, 0);
  for (bool backward : {false, true}) {
    IndexScanner scan(s.worker(), s.index);
    scan.range(number_key(50), number_key(100), backward);
    const auto first = scan.next();
    scan.mark();
    const auto second = scan.next();
    ASSERT_EQ(scan.confirm(), IndexScanner::Confirmed(first));
    EXPECT_EQ(scan.next(), second);
    EXPECT_EQ(scan.searches(), 1u);
    scan.rest();
    scan.mark();
    ASSERT_EQ(scan.confirm(), IndexScanner::Confirmed(std::in_place)) << "the end";
    EXPECT_EQ(scan.next(), std::nullopt);
  }
}

TEST_F(IndexScanTest, what_has_changed_is_not_confirmed) {
  fill(2000);
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  IndexScanner scan(s.worker(), s.index);
  scan.range(number_key(5000), number_key(5100));
  ASSERT_TRUE(scan.next());
  scan.mark();
  LS_ASSERT_OK(s.add(number_key(5005), 9999));
  EXPECT_EQ(scan.confirm(), std::nullopt) << "there is another entry by now";
  scan.range(number_key(5001), number_key(5004));
  EXPECT_EQ(scan.next(), std::nullopt);
  scan.mark();
  LS_ASSERT_OK(s.add(number_key(5002), 9998));
  EXPECT_EQ(scan.confirm(), std::nullopt) << "nor is the end";
  s.commit();

  // Entries may have come into the leaves that were left.
  scan.range({}, std::nullopt);
  for (int i = 0; i < 1000; i++) ASSERT_TRUE(scan.next());
  scan.mark();
  EXPECT_EQ(scan.confirm(), std::nullopt);
  scan.seek(number_key(5003));
  const auto sought = scan.next();
  ASSERT_TRUE(sought);
  scan.mark();
  EXPECT_EQ(scan.confirm(), IndexScanner::Confirmed(sought))
      << "a place that was sought is a new beginning";
}

TEST_F(IndexScanTest, an_empty_index) {
  IndexSession s(store, 0);
  IndexScanner scan(s.worker(), s.index);
  for (bool backward : {false, true}) {
    scan.range({}, std::nullopt, backward);
    EXPECT_EQ(scan.next(), std::nullopt);
    scan.set_backward(!backward);
    EXPECT_EQ(scan.next(), std::nullopt);
    scan.seek("abc");
    EXPECT_EQ(scan.next(), std::nullopt);
    scan.seek({});
    EXPECT_EQ(scan.next(), std::nullopt);
  }
}

}  // namespace
}  // namespace ls::test
