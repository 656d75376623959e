// Which store a file belongs to, and that no page is ahead of the log.
#include "unit/store/store_lives.hpp"

namespace ls::test {
namespace {

using StoreIdentityTest = StoreLives;

TEST_F(StoreIdentityTest, a_file_of_another_store_is_refused_and_left_alone) {
  live([&](Session &s) { fill(s, kTable); }, End::kClean);
  lose_store();
  live(
      [&](Session &s) {
        EXPECT_EQ(open(s, kTable), LS_FOREIGN);
        EXPECT_STREQ(s.err.path, HostDirectory::relation_path(kTable).c_str());
        EXPECT_EQ(open(s, kTable), LS_FOREIGN) << "the second time, too";
        fill(s, kOther);   // any store may take an empty file
      },
      End::kClean);
  put_store_back();
  live(
      [&](Session &s) {
        EXPECT_EQ(s.contents(s.open(kTable)).size(), size_t{kRows});
        EXPECT_EQ(open(s, kOther), LS_FOREIGN);
      },
      End::kClean);
}

// Everything of the table is in the log when that is lost: its file must not pass for an empty one.
TEST_F(StoreIdentityTest, a_file_whose_pages_are_all_in_the_log_is_known_for_another_stores) {
  live([&](Session &s) { fill(s, kTable); }, End::kCrash);
  lose_store();
  live([&](Session &s) { EXPECT_EQ(open(s, kTable), LS_FOREIGN); }, End::kClean);
  put_store_back();
  live(
      [&](Session &s) { EXPECT_EQ(s.contents(s.open(kTable)).size(), size_t{kRows}); },
      End::kClean);
}

// As when a file comes back from a copy of another cluster.
TEST_F(StoreIdentityTest, recovery_passes_over_a_file_of_another_store) {
  live([&](Session &s) { fill(s, kTable); }, End::kClean);
  fs::copy_file(file(kTable), temp_ / "strange");
  lose_store();
  fs::resize_file(file(kTable), 0);
  live(
      [&](Session &s) {
        fill(s, kTable);
        fill(s, kOther);
      },
      End::kCrash);
  fs::copy_file(temp_ / "strange", file(kTable), fs::copy_options::overwrite_existing);
  live(
      [&](Session &s) {
        EXPECT_EQ(open(s, kTable), LS_FOREIGN);
        EXPECT_EQ(s.contents(s.open(kOther)).size(), size_t{kRows});
      },
      End::kClean);
}

TEST_F(StoreIdentityTest, a_page_ahead_of_the_log_is_damage_whoever_reads_it) {
  live([&](Session &s) { fill(s, kTable); }, End::kClean);
  constexpr PageNo kPage = 1;
  change_page(kTable, kPage, [](u8 *page) {
    reinterpret_cast<PageHeader *>(page)->gsn += u64{1} << 40;
  });
  live(
      [&](Session &s) {
        ls_rel *rel = s.open(kTable);
        ls_check_result result;
        EXPECT_EQ(ls_rel_check(s.worker(), rel, &result, &err), LS_CORRUPT);
        EXPECT_EQ(err.page_no, kPage);
        EXPECT_NE(std::string(err.message).find("ahead of the log"), std::string::npos)
            << err.message;
        std::string row;
        EXPECT_EQ(s.fetch(rel, 1, &row), LS_CORRUPT);
      },
      End::kClean);
}

}  // namespace
}  // namespace ls::test
