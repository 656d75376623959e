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

// The instruction begins once per cycle and ends after three: so three parts of a block are taken
// side by side.
constexpr u32 kPartBytes = 128, kBlockBytes = 3 * kPartBytes;

// kBehind[k][b]: effect of byte k of a checksum, being b, behind kPartBytes zero bytes.
using Behind = std::array<std::array<u32, 256>, 4>;

constexpr Behind make_behind() {
  std::array<u32, 32> bits{};   // of one bit of the checksum
  for (u32 bit = 0; bit < 32; bit++) {
    u32 crc = u32{1} << bit;
    for (u32 i = 0; i < kPartBytes; i++) crc = (crc >> 8) ^ kTables[0][crc & 0xff];
    bits[bit] = crc;
  }
  Behind t{};
  for (u32 k = 0; k < 4; k++) {
    for (u32 b = 0; b < 256; b++) {
      for (u32 bit = 0; bit < 8; bit++)
        if (b >> bit & 1) t[k][b] ^= bits[8 * k + bit];
    }
  }
  return t;
}

constexpr Behind kBehind = make_behind();

u64 behind_part(u64 crc) {
  return kBehind[0][crc & 0xff] ^ kBehind[1][crc >> 8 & 0xff] ^ kBehind[2][crc >> 16 & 0xff] ^
         kBehind[3][crc >> 24];
}

// 4 KiB take 0.20 us, in one stream 0.39.
__attribute__((target("sse4.2"))) u32 crc32c_sse42(u32 seed, const u8 *p, size_t bytes) {
  u64 crc = ~seed;
  for (; bytes >= kBlockBytes; p += kBlockBytes, bytes -= kBlockBytes) {
    u64 second = 0, third = 0;
    for (u32 i = 0; i < kPartBytes; i += 8) {
      crc = _mm_crc32_u64(crc, load64(p + i));
      second = _mm_crc32_u64(second, load64(p + kPartBytes + i));
      third = _mm_crc32_u64(third, load64(p + 2 * kPartBytes + i));
    }
    crc = behind_part(behind_part(crc) ^ second) ^ third;
  }
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
