// swip.hpp - a reference to a child page that is either a pointer or a page number (paper section 3
// and 6.2).
//
//   hot      pointer to the Frame
//   cool     pointer | kCool: candidate for eviction, the pointer still is good
//   evicted  page number | kEvicted: the only form on disk; in memory with what was known of the
//   leaf's free space when it left
// One exclusive-or-nothing rule: a swip is changed only under the exclusive latch of the page it
// lies in.
#pragma once
#include "base/types.hpp"

namespace ls {
struct Frame;

// Of a leaf: bytes for further entries, each with a slot of its own; key_bytes: not 0: of entries
// with keys of that length, and no values.
struct LeafFreeSpace {
  u32 bytes = 0;       // 0: not known
  u32 key_bytes = 0;
};

struct Swip {
  u64 raw = 0;

  static constexpr u64 kEvicted = u64{1} << 63;
  static constexpr u64 kCool = u64{1} << 62;

  // of LeafFreeSpace::bytes
  static constexpr u32 kFreeSpaceShift = 32, kMostFreeSpace = (1u << 12) - 1;
  // of LeafFreeSpace::key_bytes
  static constexpr u32 kFreeSpaceKeyShift = 44, kMostFreeSpaceKey = (1u << 9) - 1;

  static Swip evicted(PageNo page_no) { return Swip{kEvicted | page_no}; }
  static Swip evicted(PageNo page_no, LeafFreeSpace space) {
    if (space.bytes > kMostFreeSpace || space.key_bytes > kMostFreeSpaceKey) space = {};
    return Swip{kEvicted | u64{space.key_bytes} << kFreeSpaceKeyShift |
                u64{space.bytes} << kFreeSpaceShift | page_no};
  }
  static Swip hot(Frame *frame) { return Swip{reinterpret_cast<u64>(frame)}; }
  static Swip cool(Frame *frame) { return Swip{reinterpret_cast<u64>(frame) | kCool}; }

  bool is_null() const { return raw == 0; }
  bool is_evicted() const { return raw & kEvicted; }
  bool is_cool() const { return (raw & (kEvicted | kCool)) == kCool; }
  bool is_hot() const { return !(raw & (kEvicted | kCool)) && raw != 0; }
  bool is_swizzled() const { return is_hot() || is_cool(); }
  Frame *frame() const { return reinterpret_cast<Frame *>(raw & ~(kEvicted | kCool)); }
  // Of evicted ones.
  PageNo page_no() const { return static_cast<PageNo>(raw); }
  LeafFreeSpace free_space() const {
    return {static_cast<u32>(raw >> kFreeSpaceShift) & kMostFreeSpace,
            static_cast<u32>(raw >> kFreeSpaceKeyShift) & kMostFreeSpaceKey};
  }
};
static_assert(sizeof(Swip) == 8);

// Is it one as they are on disk, to a page behind the meta page of a file with so many?
bool is_stored_swip(Swip swip, PageNo page_count);
}  // namespace ls
