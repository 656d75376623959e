// Which store a file belongs to, and that no page is ahead of the log.
#include <filesystem>

#include "buffer/page.hpp"
#include "unit/store/store_fixture.hpp"

namespace ls::test {
namespace {

namespace fs = std::filesystem;

constexpr u32 kTable = 16400, kOther = 16401;
constexpr int kRows = 200;

class StoreIdentityTest : public ::testing::Test {
 protected:
  StoreIdentityTest() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    directory_.create_file(kTable);
    directory_.create_file(kOther);
  }

  // One life that ends as a crash of the host does, or in good order.
  enum class End { kCrash, kClean };
  void live(const std::function<void(Session &)> &work, End end) {
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(next_xid_));
    Host host(store.store(), next_xid_);
    {
      Session s(store.store(), &host, 0);
      work(s);
    }
    next_xid_ = host.next_xid() + 100;
    if (end == End::kCrash) LS_ASSERT_OK(ls_store_abandon(store.store(), &err));
  }
  void fill(Session &s, u32 relation) {
    ls_rel *rel = s.open(relation);
    ASSERT_EQ(s.begin(), LS_OK) << s.err.message;
    u64 id = 0;
    for (int i = 0; i < kRows; i++) {
      ASSERT_EQ(s.insert(rel, "row " + std::to_string(i), &id), LS_OK) << s.err.message;
    }
    s.commit();
  }
  ls_status open(Session &s, u32 relation) {
    const ls_rel_key key = relation_key(relation);
    ls_rel rel;
    const std::string path = HostDirectory::relation_path(relation);
    return ls_rel_open(s.worker(), &key, path.c_str(), LS_REL_TABLE, true, &rel, &s.err);
  }
  // The engine's directory goes; one that is empty takes its place.
  void lose_store() {
    fs::rename(config_.data_dir, kept());
    fs::create_directory(config_.data_dir);
  }
  void put_store_back() {
    fs::remove_all(config_.data_dir);
    fs::rename(kept(), config_.data_dir);
  }
  std::string kept() const { return temp_ / "kept"; }
  std::string file(u32 relation) const { return temp_ / HostDirectory::relation_path(relation); }

  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  u64 next_xid_ = 100;
  ls_error err{};
};

TEST_F(StoreIdentityTest, a_file_of_another_store_is_refused_and_left_alone) {
  live([&](Session &s) { fill(s, kTable); }, End::kClean);
  lose_store();
  live(
      [&](Session &s) {
        EXPECT_EQ(open(s, kTable), LS_FOREIGN);
        EXPECT_STREQ(s.err.path, HostDirectory::relation_path(kTable).c_str());
        EXPECT_EQ(open(s, kTable), LS_FOREIGN) << "the second time, too";
        fill(s, kOther);   // an empty file is anybody's
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
  {
    alignas(8) u8 page[kPageSize];
    std::fstream in(file(kTable), std::ios::binary | std::ios::in | std::ios::out);
    in.seekg(kPage * kPageSize);
    in.read(reinterpret_cast<char *>(page), sizeof page);
    reinterpret_cast<PageHeader *>(page)->gsn += u64{1} << 40;
    page_seal(page);
    in.seekp(kPage * kPageSize);
    in.write(reinterpret_cast<const char *>(page), sizeof page);
  }
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
