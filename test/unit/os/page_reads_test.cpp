// Reads that go on by themselves: neighbours together, gaps, the end of the file.
#include "os/page_reads.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "os/file.hpp"
#include "unit/os/temp_directory.hpp"

namespace ls {
namespace {

constexpr u32 kPages = 40;

class PageReadsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    file_setup(directory_.path().c_str(), false, false, 16);
    std::ofstream out(directory_ / "rel", std::ios::binary);
    for (u32 i = 0; i < kPages; i++) out << std::string(kPageSize, static_cast<char>('A' + i));
    out.close();
    memory_.reset(static_cast<u8 *>(std::aligned_alloc(kPageSize, 64 * kPageSize)));
    std::memset(memory_.get(), 0, 64 * kPageSize);
  }
  ~PageReadsTest() override { file_forget(1); }

  u8 *buffer(u32 tag) { return memory_.get() + size_t{tag} * kPageSize; }
  // Page by tag; which came whole.
  std::map<u32, bool> read(const std::vector<PageNo> &pages) {
    PageReads reads(64);
    std::map<u32, bool> whole;
    if (!reads.possible()) return whole;
    for (u32 tag = 0; tag < pages.size(); tag++) reads.add(pages[tag], buffer(tag), tag);
    reads.submit({1, "rel"});
    for (PageReads::Ended ended; reads.next(true, &ended);) whole[ended.tag] = ended.whole;
    EXPECT_EQ(whole.size(), pages.size());
    return whole;
  }
  bool holds(u32 tag, PageNo page) {
    const std::string expected(kPageSize, static_cast<char>('A' + page));
    return std::memcmp(buffer(tag), expected.data(), kPageSize) == 0;
  }

  struct Free {
    void operator()(u8 *p) const { std::free(p); }
  };
  test::TempDirectory directory_;
  std::unique_ptr<u8, Free> memory_;
};

TEST_F(PageReadsTest, each_buffer_gets_its_page_whatever_lies_between) {
  // gaps of two, four and five pages; out of order
  const std::vector<PageNo> pages{30, 3, 4, 5, 8, 13, 19, 0, 39};
  for (auto &[tag, whole] : read(pages)) {
    EXPECT_TRUE(whole) << "page " << pages[tag];
    EXPECT_TRUE(holds(tag, pages[tag])) << "page " << pages[tag];
  }
  for (u32 tag = static_cast<u32>(pages.size()); tag < 64; tag++)
    EXPECT_EQ(*buffer(tag), 0) << "a buffer that nobody gave";
}

TEST_F(PageReadsTest, what_lies_behind_the_end_is_not_whole) {
  const std::vector<PageNo> pages{38, 39, 40, 43, 1000};
  for (auto &[tag, whole] : read(pages))
    EXPECT_EQ(whole, pages[tag] < kPages) << "page " << pages[tag];
}

TEST_F(PageReadsTest, a_process_has_a_bounded_number_of_rings) {
  std::vector<std::unique_ptr<PageReads>> rings;
  for (u32 i = 0; i < PageReads::kMostRings; i++) rings.push_back(std::make_unique<PageReads>(8));
  if (!rings.back()->possible()) GTEST_SKIP() << "no io_uring here";
  EXPECT_FALSE(PageReads(8).possible());
  rings.pop_back();
  EXPECT_TRUE(PageReads(8).possible());
}

}  // namespace
}  // namespace ls
