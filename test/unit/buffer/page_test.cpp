// page_test.cpp - checksums of pages, and damage that is told by name.
#include "buffer/page.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace ls::buffer_test {
namespace {

struct alignas(8) Page {
  u8 bytes[kPageSize];
  PageHeader &header() { return *reinterpret_cast<PageHeader *>(bytes); }
};

constexpr Gsn kLogEnd = ~Gsn{0};

Page sealed() {
  Page page;
  for (u32 i = 0; i < kPageSize; i++) page.bytes[i] = static_cast<u8>(i * 7 + 1);
  page.header().format = kPageFormat;
  page.header().page_no = 42;
  page_seal(page.bytes);
  return page;
}

TEST(PageTest, a_sealed_page_is_sound_only_in_its_place) {
  Page page = sealed();
  EXPECT_EQ(page_fault(page.bytes, 42, kLogEnd), nullptr);
  EXPECT_NE(page_fault(page.bytes, 43, kLogEnd), nullptr);
  page.header().format++;
  page_seal(page.bytes);
  EXPECT_NE(page_fault(page.bytes, 42, kLogEnd), nullptr);
}

TEST(PageTest, a_page_ahead_of_the_log_is_damaged) {
  Page page = sealed();
  page.header().gsn = 1000;
  page_seal(page.bytes);
  EXPECT_EQ(page_fault(page.bytes, 42, 1000), nullptr);
  EXPECT_NE(page_fault(page.bytes, 42, 999), nullptr);
}

TEST(PageTest, every_flipped_bit_is_noticed) {
  for (u32 i = 0; i < kPageSize; i += 5) {
    Page page = sealed();
    page.bytes[i] ^= static_cast<u8>(1u << i % 8);
    EXPECT_NE(page_fault(page.bytes, 42, kLogEnd), nullptr) << "byte " << i;
  }
}

TEST(PageTest, the_hosts_tools_see_a_new_page) {
  Page page = sealed();
  EXPECT_EQ(page.bytes[14], 0);
  EXPECT_EQ(page.bytes[15], 0);
  Page zeros{};
  EXPECT_NE(page_fault(zeros.bytes, 0, kLogEnd), nullptr)
      << "a page of zeros was never written by us";
}

}  // namespace
}  // namespace ls::buffer_test
