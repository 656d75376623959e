// Bulk build: every entry is there, leaves are as full as asked for, whatever the keys look like.
#include <random>

#include "btree/tree.hpp"
#include "unit/index/index_fixture.hpp"

namespace ls::test {
namespace {

class IndexBuildTest : public testing::Test {
 protected:
  // Ascending.
  void build(IndexSession &s, const std::vector<Entry> &entries, u32 fill_percent) {
    ls_index_build *build = nullptr;
    LS_ASSERT_OK(ls_index_build_open(s.worker(), s.index, fill_percent, &build, &err));
    for (const Entry &e : entries) {
      LS_ASSERT_OK(ls_index_build_add(build, to_bytes(entry_of(e.key, e.row_id)),
                                      to_bytes(e.payload), &err));
    }
    LS_ASSERT_OK(ls_index_build_finish(build, &err));
  }
  static std::vector<Entry> numbers(u64 n) {
    std::vector<Entry> entries;
    for (u64 i = 0; i < n; i++) entries.push_back({number_key(i), i + 1, ""});
    return entries;
  }
  static void sort(std::vector<Entry> *entries) {
    std::sort(entries->begin(), entries->end(), [](const Entry &a, const Entry &b) {
      return entry_of(a.key, a.row_id) < entry_of(b.key, b.row_id);
    });
  }
  IndexStore store;
  ls_error err{};
};

TEST_F(IndexBuildTest, an_index_without_entries) {
  IndexSession s(store, 0);
  build(s, {}, 90);
  EXPECT_EQ(s.check(), 0u);
  LS_ASSERT_OK(s.begin());
  LS_EXPECT_OK(s.add(number_key(1), 1));
  s.commit();
  EXPECT_EQ(s.check(), 1u);
}

TEST_F(IndexBuildTest, leaves_are_filled_as_asked) {
  const std::vector<Entry> entries = numbers(20000);
  u64 pages[2] = {};
  for (int i = 0; i < 2; i++) {
    IndexStore other;
    IndexSession s(other, 0);
    build(s, entries, i == 0 ? 100 : 50);
    EXPECT_EQ(s.entries(), entries);
    EXPECT_EQ(s.check(), entries.size());
    ls_check_result result{};
    LS_EXPECT_OK(ls_rel_check(s.worker(), s.index, &result, &err));
    pages[i] = result.leaf_pages;
  }
  EXPECT_GT(pages[1], pages[0] * 19 / 10);
  EXPECT_LT(pages[1], pages[0] * 21 / 10);
  // 14 bytes of key behind a prefix, of which four lie in the slot of ten.
  EXPECT_LT(pages[0], 20000u * (sizeof(Slot) + 6) / kNodeSpace + 2);
}

// Keys with long common prefixes, prefixes that end in the middle of a leaf, the largest of all,
// payloads up to the limit.
TEST_F(IndexBuildTest, keys_of_every_shape) {
  std::mt19937_64 random(7);
  std::vector<Entry> entries;
  for (int group = 0; group < 60; group++) {
    const std::string common(random() % 900, static_cast<char>('a' + random() % 26));
    const u64 n = random() % 40;
    for (u64 i = 0; i < n; i++) {
      const std::string key = text_key(common + std::to_string(random() % 100000));
      const u32 most = ls_index_max_payload(static_cast<u32>(key.size()));
      const u32 payload = random() % 4 == 0 ? most - random() % 3 : random() % (most / 8);
      entries.push_back({key, random() % (LS_MAX_ROW_ID + 1), std::string(payload, 'p')});
    }
  }
  for (u32 i = 0; i < 200; i++) {
    std::string key(LS_MAX_KEY_BYTES, '\2');
    key.back() = static_cast<char>(i);
    entries.push_back(
        {key, i, std::string(i % 2 ? ls_index_max_payload(LS_MAX_KEY_BYTES) : 0, 'q')});
  }
  sort(&entries);
  for (u32 fill_percent : {10u, 70u, 100u}) {
    IndexStore other;
    IndexSession s(other, 0);
    build(s, entries, fill_percent);
    EXPECT_EQ(s.check(), entries.size());
    EXPECT_EQ(s.entries(), entries);
    // And it can be inserted into everywhere.
    LS_ASSERT_OK(s.begin());
    for (const Entry &e : entries) {
      const std::string key = e.key.substr(0, e.key.size() - 1) +
                              std::string(1, static_cast<char>(e.key.back() + 1)) + "z";
      if (key.size() > LS_MAX_KEY_BYTES) continue;
      const ls_status status = s.add(
          key, e.row_id, std::string(ls_index_max_payload(static_cast<u32>(key.size())), 'n'));
      EXPECT_TRUE(status == LS_OK || status == LS_EXISTS) << to_text(status, s.err);
    }
    s.commit();
    EXPECT_GT(s.check(), entries.size());
  }
}

TEST_F(IndexBuildTest, what_is_not_ascending_is_refused) {
  IndexSession s(store, 0);
  ls_index_build *build = nullptr;
  LS_ASSERT_OK(ls_index_build_open(s.worker(), s.index, 90, &build, &err));
  LS_ASSERT_OK(ls_index_build_add(build, to_bytes(entry_of(number_key(5), 2)), {}, &err));
  EXPECT_EQ(ls_index_build_add(build, to_bytes(entry_of(number_key(5), 2)), {}, &err), LS_INVALID);
  EXPECT_EQ(ls_index_build_add(build, to_bytes(entry_of(number_key(5), 1)), {}, &err), LS_INVALID);
  EXPECT_EQ(ls_index_build_add(build, to_bytes("abc"), {}, &err), LS_TOO_LARGE);
  LS_EXPECT_OK(ls_index_build_add(build, to_bytes(entry_of(number_key(5), 3)), {}, &err));
  LS_EXPECT_OK(ls_index_build_finish(build, &err));
  EXPECT_EQ(s.check(), 2u);
  EXPECT_EQ(ls_index_build_open(s.worker(), s.index, 90, &build, &err), LS_INVALID)
      << "it is not empty";
  EXPECT_EQ(build, nullptr);
}

TEST_F(IndexBuildTest, given_up_it_leaves_a_tree_that_is_whole) {
  IndexSession s(store, 0);
  ls_index_build *build = nullptr;
  LS_ASSERT_OK(ls_index_build_open(s.worker(), s.index, 90, &build, &err));
  for (const Entry &e : numbers(5000))
    LS_ASSERT_OK(ls_index_build_add(build, to_bytes(entry_of(e.key, e.row_id)), {}, &err));
  ls_index_build_abandon(build);
  ls_check_result result{};
  LS_EXPECT_OK(ls_rel_check(s.worker(), s.index, &result, &err));
  EXPECT_GT(result.rows, 4000u);
  EXPECT_LT(result.rows, 5000u);
}

TEST_F(IndexBuildTest, larger_than_the_pool) {
  IndexSession s(store, 0);
  const u64 n = 300000;  // about 1,200 leaves in a pool of 512 pages
  build(s, numbers(n), 100);
  EXPECT_EQ(s.check(), n);
  EXPECT_GT(store.stats().pages_evicted, 0u);
  IndexScanner scan(s.worker(), s.index);
  for (u64 i = 0; i < n; i += 1237) {
    scan.range(number_key(i), number_key(i + 1));
    EXPECT_EQ(scan.next(), (Entry{number_key(i), i + 1, ""}));
    EXPECT_EQ(scan.next(), std::nullopt);
  }
}

TEST_F(IndexBuildTest, an_unlogged_index_writes_no_log) {
  IndexSession s(store, 0, false);
  const u64 before = store.stats().log_bytes;
  build(s, numbers(20000), 100);
  LS_ASSERT_OK(s.begin());
  for (u64 i = 0; i < 1000; i++) LS_ASSERT_OK(s.add(number_key(i * 20), 50000 + i));
  s.commit();
  for (u64 i = 0; i < 1000; i++) LS_ASSERT_OK(s.take_away(number_key(i), i + 1));
  EXPECT_EQ(s.check(), 20000u);
  LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
  EXPECT_LT(store.stats().log_bytes - before, 10000u);
}

}  // namespace
}  // namespace ls::test
