// crc32c.cpp - the checksum by the processor's instruction (x86, ARM), and by tables where there is
// none.
#include "base/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace ls {

namespace {

constexpr u32 kPolynomialReversed = 0x82F63B78u;

// tables[k][b]: effect of byte b followed by k zero bytes ("slicing by eight").
using Tables = std::array<std::array<u32, 256>, 8>;

constexpr Tables make_tables() {
  Tables t{};
  for (u32 b = 0; b < 256; b++) {
    u32 crc = b;
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? kPolynomialReversed : 0);
    t[0][b] = crc;
  }
  for (u32 k = 1; k < 8; k++) {
    for (u32 b = 0; b < 256; b++) t[k][b] = (t[k - 1][b] >> 8) ^ t[0][t[k - 1][b] & 0xff];
  }
  return t;
}

constexpr Tables kTables = make_tables();

u64 load64(const u8 *p) {
  u64 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) u32 crc32c_sse42(u32 seed, const u8 *p, size_t bytes) {
  u64 crc = ~seed;
  for (; bytes >= 8; p += 8, bytes -= 8) crc = _mm_crc32_u64(crc, load64(p));
  u32 crc32 = static_cast<u32>(crc);
  for (; bytes > 0; p++, bytes--) crc32 = _mm_crc32_u8(crc32, *p);
  return ~crc32;
}

#elif defined(__ARM_FEATURE_CRC32)

u32 crc32c_arm(u32 seed, const u8 *p, size_t bytes) {
  u32 crc = ~seed;
  for (; bytes >= 8; p += 8, bytes -= 8) crc = __crc32cd(crc, load64(p));
  for (; bytes > 0; p++, bytes--) crc = __crc32cb(crc, *p);
  return ~crc;
}

#endif

}  // namespace

u32 crc32c_portable(u32 seed, const void *data, size_t bytes) {
  const u8 *p = static_cast<const u8 *>(data);
  u32 crc = ~seed;
  for (; bytes >= 8; p += 8, bytes -= 8) {
    u64 v = load64(p) ^ crc;
    crc = kTables[7][v & 0xff] ^ kTables[6][(v >> 8) & 0xff] ^ kTables[5][(v >> 16) & 0xff] ^
          kTables[4][(v >> 24) & 0xff] ^ kTables[3][(v >> 32) & 0xff] ^
          kTables[2][(v >> 40) & 0xff] ^ kTables[1][(v >> 48) & 0xff] ^ kTables[0][v >> 56];
  }
  for (; bytes > 0; p++, bytes--) crc = (crc >> 8) ^ kTables[0][(crc ^ *p) & 0xff];
  return ~crc;
}

u32 crc32c(u32 seed, const void *data, size_t bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return crc32c_sse42(seed, static_cast<const u8 *>(data), bytes);
#elif defined(__ARM_FEATURE_CRC32)
  return crc32c_arm(seed, static_cast<const u8 *>(data), bytes);
#endif
  return crc32c_portable(seed, data, bytes);
}

}  // namespace ls
