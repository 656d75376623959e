// crc32c_test.cpp - standard values, both variants, every single bit.
#include "base/crc32c.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace ls {
namespace {

TEST(Crc32c, gives_the_standard_values) {
  EXPECT_EQ(crc32c(0, "123456789", 9), 0xE3069283u);
  EXPECT_EQ(crc32c_portable(0, "123456789", 9), 0xE3069283u);
  EXPECT_EQ(crc32c(0, "", 0), 0u);
  // RFC 3720, appendix B.4.
  std::vector<u8> bytes(32, 0);
  EXPECT_EQ(crc32c(0, bytes.data(), bytes.size()), 0x8A9136AAu);
  bytes.assign(32, 0xff);
  EXPECT_EQ(crc32c(0, bytes.data(), bytes.size()), 0x62A8AB43u);
  for (u8 i = 0; i < 32; i++) bytes[i] = i;
  EXPECT_EQ(crc32c(0, bytes.data(), bytes.size()), 0x46DD794Eu);
}

TEST(Crc32c, both_variants_agree_at_every_length_and_alignment) {
  std::mt19937_64 random(7);
  std::vector<u8> bytes(5000);
  for (u8 &b : bytes) b = static_cast<u8>(random());
  for (size_t length = 0; length < 100; length++) {
    for (size_t offset = 0; offset < 9; offset++) {
      ASSERT_EQ(crc32c(0, bytes.data() + offset, length),
                crc32c_portable(0, bytes.data() + offset, length))
          << "length " << length << " offset " << offset;
    }
  }
  for (size_t length = 100; length < bytes.size(); length++) {
    const u32 seed = static_cast<u32>(random());
    ASSERT_EQ(crc32c(seed, bytes.data(), length), crc32c_portable(seed, bytes.data(), length))
        << "length " << length;
  }
}

TEST(Crc32c, parts_may_be_chained) {
  std::vector<u8> bytes(300);
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<u8>(i * 31);
  u32 whole = crc32c(0, bytes.data(), bytes.size());
  for (size_t cut = 0; cut <= bytes.size(); cut++) {
    u32 first = crc32c(0, bytes.data(), cut);
    ASSERT_EQ(crc32c(first, bytes.data() + cut, bytes.size() - cut), whole);
    u32 portable = crc32c_portable(0, bytes.data(), cut);
    ASSERT_EQ(crc32c_portable(portable, bytes.data() + cut, bytes.size() - cut), whole);
  }
}

TEST(Crc32c, notices_every_single_bit) {
  std::vector<u8> page(4096, 0x5a);
  u32 good = crc32c(0, page.data(), page.size());
  for (size_t bit = 0; bit < page.size() * 8; bit += 37) {
    page[bit / 8] ^= static_cast<u8>(1 << bit % 8);
    ASSERT_NE(crc32c(0, page.data(), page.size()), good) << "bit " << bit;
    page[bit / 8] ^= static_cast<u8>(1 << bit % 8);
  }
}

}  // namespace
}  // namespace ls
