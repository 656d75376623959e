// types.hpp - the words every folder shares: integer names, page geometry, identifiers.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ls {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

// Page geometry. 4 KiB: the write amplification argument of the LeanStore paper, table 1.
inline constexpr u32 kPageSize = 4096;
// PostgreSQL's segment size: 1 GiB files, every one but the last exactly full.
inline constexpr u64 kSegmentBytes = u64{1} << 30;
inline constexpr u32 kPagesPerSegment = static_cast<u32>(kSegmentBytes / kPageSize);

using PageNo = u32;   // within one relation file, counted over its segments
using FileNo = u64;   // names a relation file in the log; never used twice in the life of a store
using Gsn = u64;      // place in the total order of log records; 0 = never logged
using Tn = u64;       // transaction number, 48 bits
using Lsn = u64;      // byte position in the log stream

// Drawn by chance when a store is made: its files carry it, so that no other store takes them for
// its own.
struct StoreId {
  u64 high, low;
  bool operator==(const StoreId &) const = default;
};

inline constexpr Tn kMaxTn = (Tn{1} << 48) - 1;
// With it a writer's number is in no snapshot's past (FTXN-2 in txn/followed_txns.hpp).
inline constexpr Tn kHiddenTn = Tn{1} << 47;
// No transaction begins from here on; a start may still give the prepared ones others.
inline constexpr Tn kTnEnd = kHiddenTn - (Tn{1} << 32);
inline constexpr PageNo kMetaPageNo = 0;
inline constexpr PageNo kInvalidPageNo = 0xffffffffu;
inline constexpr u64 kCacheLine = 64;

}  // namespace ls
