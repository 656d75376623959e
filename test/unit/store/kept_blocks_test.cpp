// What VACUUM has found out is known behind a clean end, of what is as it was then, and of nothing
// else.
#include <gtest/gtest.h>

#include <fstream>

#include "unit/store/store_lives.hpp"

namespace ls::test {
namespace {

constexpr u32 kIndex = 16402;
constexpr u64 kFew = 5, kMany = 700;   // rows of the first block; of the third one

class KeptBlocksTest : public StoreLives {
 protected:
  KeptBlocksTest() { directory_.create_file(kIndex); }

  // Three blocks, all vouched for.
  void fill_and_vouch(Session &s) {
    for (int i = 0; i < 4; i++) fill(s, kTable);
    vacuum(s);
    LS_EXPECT_OK(ls_rel_vouch(s.worker(), s.open(kTable), &err));
  }
  ls_vacuum vacuum(Session &s) {
    host_->publish();
    ls_rel *rel = s.open(kTable);
    ls_rel_info info{};
    LS_EXPECT_OK(ls_rel_get_info(s.worker(), rel, &info, &err));
    ls_vacuum found{};
    found.below = ls_store_horizon(store_);
    found.end_row = info.next_row_id;
    LS_EXPECT_OK(ls_rel_vacuum(s.worker(), rel, &found, &err));
    EXPECT_GE(found.next_row, info.next_row_id);
    return found;
  }
  bool known(Session &s, u64 row_id) {
    return ls_row_known(store_, s.open(kTable), row_id, LS_ROWS_VOUCHED);
  }
  void change(Session &s, u64 row_id) {
    ASSERT_EQ(s.begin(), LS_OK);
    EXPECT_EQ(s.update(s.open(kTable), row_id, [](const std::string &) { return "changed"; }),
              LS_OK);
    s.commit();
  }
  void expect_nothing_known() {
    live([&](Session &s) {
      EXPECT_FALSE(known(s, kFew) || known(s, kMany));
      EXPECT_EQ(s.contents(s.open(kTable)).size(), 4u * kRows);
      EXPECT_EQ(vacuum(s).looked_at, 4u);
    }, End::kClean);
  }
  std::string blocks() const { return std::string(config_.data_dir) + "/row_blocks"; }
  std::string read_blocks() const {
    std::ifstream in(blocks(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write_blocks(const std::string &bytes) const {
    std::ofstream(blocks(), std::ios::binary) << bytes;
  }
};

TEST_F(KeptBlocksTest, what_no_run_has_used_is_kept) {
  live([&](Session &s) { fill_and_vouch(s); }, End::kClean);
  for (int i = 0; i < 3; i++) live([](Session &) {}, End::kClean);
  live([&](Session &s) { EXPECT_TRUE(known(s, kFew) && known(s, kMany)); }, End::kClean);
}

// KEPT-1
TEST_F(KeptBlocksTest, a_clean_end_keeps_what_is_known) {
  live([&](Session &s) { fill_and_vouch(s); }, End::kClean);
  EXPECT_TRUE(fs::exists(blocks()));
  live([&](Session &s) {
    EXPECT_FALSE(fs::exists(blocks()));
    EXPECT_TRUE(known(s, kFew) && known(s, kMany));
    const ls_vacuum found = vacuum(s);
    EXPECT_EQ(found.looked_at, 0u);
    EXPECT_EQ(found.rows, 4u * kRows);
    change(s, kFew);
    EXPECT_FALSE(known(s, kFew));
  }, End::kClean);
  live([&](Session &s) {
    EXPECT_FALSE(known(s, kFew));
    EXPECT_TRUE(known(s, kMany));
    EXPECT_EQ(vacuum(s).looked_at, 1u);
  }, End::kClean);
}

TEST_F(KeptBlocksTest, behind_a_crash_nothing_is_known) {
  live([&](Session &s) { fill_and_vouch(s); }, End::kClean);
  live([&](Session &s) { EXPECT_TRUE(known(s, kFew)); }, End::kCrash);
  expect_nothing_known();
}

// KEPT-1: the file of another run, though the end was clean.
TEST_F(KeptBlocksTest, a_file_of_another_run_counts_for_nothing) {
  live([&](Session &s) { fill_and_vouch(s); }, End::kClean);
  const std::string of_first = read_blocks();
  live([&](Session &s) { change(s, kFew); }, End::kClean);
  write_blocks(of_first);
  expect_nothing_known();
}

TEST_F(KeptBlocksTest, a_damaged_file_counts_for_nothing) {
  live([&](Session &s) { fill_and_vouch(s); }, End::kClean);
  for (size_t i = 0; i < 40; i++) {
    std::string bytes = read_blocks();
    ASSERT_GT(bytes.size(), 200u);
    if (i % 4 == 0) bytes.resize(bytes.size() * i / 40);
    else bytes[bytes.size() * i / 40] ^= 1 << i % 8;
    write_blocks(bytes);
    live([&](Session &s) {
      EXPECT_FALSE(known(s, kFew) || known(s, kMany)) << i;
      EXPECT_EQ(vacuum(s).looked_at, 4u) << i;
      LS_EXPECT_OK(ls_rel_vouch(s.worker(), s.open(kTable), &err));
    }, End::kClean);
  }
}

// KEPT-2
TEST_F(KeptBlocksTest, a_file_that_takes_the_place_of_another_one_has_nothing_of_it) {
  live([&](Session &s) { fill_and_vouch(s); }, End::kClean);
  live([&](Session &s) {
    const ls_rel_key key = relation_key(kTable);
    ls_rel_forget(store_, &key);
    fs::resize_file(file(kTable), 0);
    for (int i = 0; i < 4; i++) fill(s, kTable);
    EXPECT_FALSE(known(s, kFew) || known(s, kMany));
  }, End::kClean);
}


TEST_F(KeptBlocksTest, an_index_that_was_swept_need_not_be_swept_again) {
  u64 gone = 0;
  const auto rows_gone = [&](Session &s) {
    LS_EXPECT_OK(ls_index_rows_gone(s.worker(), s.open(kIndex, true, LS_REL_INDEX),
                                    s.open(kTable), &gone, &err));
    return gone;
  };
  live([&](Session &s) {
    fill_and_vouch(s);
    ls_index_position position{};
    u64 entries, removed;
    ls_status status;
    do {
      status = ls_index_sweep(s.worker(), s.open(kIndex, true, LS_REL_INDEX), s.open(kTable), 100,
                              &position, &entries, &removed, &err);
    } while (status == LS_OK);
    EXPECT_EQ(status, LS_END);
    EXPECT_EQ(rows_gone(s), 0u);
  }, End::kClean);
  for (int i = 0; i < 2; i++) live([](Session &) {}, End::kClean);   // nothing is opened
  live([&](Session &s) { EXPECT_EQ(rows_gone(s), 0u); }, End::kCrash);
  live([&](Session &s) { EXPECT_EQ(rows_gone(s), UINT64_MAX); }, End::kClean);
}

}  // namespace
}  // namespace ls::test
