// base_copy_fixture.hpp - an imitation of a base backup: the files of a store that is at work are
// copied page by page, in any order and in two halves at different times.
#pragma once
#include <filesystem>
#include <thread>

#include "unit/recovery/page_images_fixture.hpp"

namespace ls::test {

inline constexpr u32 kClients = 3;

class BaseCopy : public ::testing::TestWithParam<u32> {
 protected:
  BaseCopy()
      : directory_(temp_.path()), copied_(copy_.path()),
        config_(images_config(temp_.path(), 150)), copy_config_(images_config(copy_.path(), 400)) {
    for (u32 client = 0; client < kClients; client++) {
      for (u32 relation : {kImageTable, kImageIndex}) {
        directory_.create_file(relation + 10 * client);
        copied_.create_file(relation + 10 * client);
      }
    }
  }

  std::string path(const TempDirectory &root, u32 relation) const {
    return root / HostDirectory::relation_path(relation);
  }

  // Half a page at a time: what comes in between makes a mixture.
  void copy_pages() {
    copy_pages([](u32, PageNo) { return true; });
  }

  // Those of them that are wanted; each file of the copy gets the length of the original.
  template <typename Wanted>
  void copy_pages(Wanted wanted) {
    constexpr u32 kHalf = kPageSize / 2;
    std::mt19937_64 random(GetParam());
    std::vector<std::pair<u32, u64>> halves;
    for (u32 client = 0; client < kClients; client++) {
      for (u32 relation : {kImageTable, kImageIndex}) {
        const u32 file = relation + 10 * client;
        const u64 pages = pages_of(path(temp_, file));
        for (u64 half = 0; half < 2 * pages; half++) {
          if (wanted(file, static_cast<PageNo>(half / 2))) halves.emplace_back(file, half);
        }
        std::filesystem::resize_file(path(copy_, file), pages * kPageSize);
      }
    }
    std::shuffle(halves.begin(), halves.end(), random);
    for (size_t i = 0; i < halves.size(); i++) {
      const auto [file, half] = halves[i];
      char bytes[kHalf];
      std::ifstream from(path(temp_, file), std::ios::binary);
      std::fstream to(path(copy_, file), std::ios::in | std::ios::out | std::ios::binary);
      const auto at = static_cast<std::streamoff>(half * kHalf);
      from.seekg(at).read(bytes, kHalf);
      to.seekp(at).write(bytes, kHalf);
      ASSERT_TRUE(from && to);
      if (i % 16 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void copy_directory() {
    const auto options = std::filesystem::copy_options::recursive |
                         std::filesystem::copy_options::overwrite_existing;
    for (const auto &entry : std::filesystem::directory_iterator(temp_ / "leanstore")) {
      const std::string name = entry.path().filename();
      // What no start reads, and what only tells of pages that were torn in the original.
      if (name == "versions" || name.starts_with("doublewrite")) continue;
      std::filesystem::copy(entry.path(), copy_ / ("leanstore/" + name), options);
    }
  }

  // Pages of the copy that could not be read as they are.
  u32 count_torn() const {
    u32 torn = 0;
    for (u32 client = 0; client < kClients; client++) {
      for (u32 relation : {kImageTable, kImageIndex}) {
        std::ifstream file(path(copy_, relation + 10 * client), std::ios::binary);
        alignas(64) u8 page[kPageSize];
        for (PageNo no = 0; file.read(reinterpret_cast<char *>(page), kPageSize); no++) {
          const bool empty = std::all_of(page, page + kPageSize, [](u8 b) { return b == 0; });
          torn += !empty && page_fault(page, no, kLogEndUnknown) != nullptr;
        }
      }
    }
    return torn;
  }

  // In the copy, recovered.
  void expect_rows(StoreLife &store, const std::vector<ImageClient::Rows> &expected) {
    Host host(store.store(), 1'000'000);
    for (u32 i = 0; i < kClients; i++) {
      ImageClient client(store, host, i, 0);
      EXPECT_EQ(client.found(), expected[i]) << "table of client " << i;
      ls_check_result check;
      for (const bool index : {false, true}) {
        ls_rel *rel = client.session.open(index ? client.index() : client.table(), true,
                                          index ? LS_REL_INDEX : LS_REL_TABLE);
        LS_EXPECT_OK(ls_rel_check(client.session.worker(), rel, &check, &err));
        EXPECT_GE(check.rows, expected[i].size());
      }
    }
  }

  TempDirectory temp_, copy_;
  HostDirectory directory_, copied_;
  ls_config config_, copy_config_;
  ls_error err{};
};

}  // namespace ls::test
