// contention.hpp - when a leaf is to be divided because its writers wait for each other, though
// they want different entries of it ("Contention and Space Management in B-Trees", CIDR 2021,
// section 3).
//
// Counted is in the frame (Frame::contention), only by writers that had to wait, once they have the
// page: a writer that did not wait pays nothing.  How many writers there were in all the latch's
// version tells, which every one of them moves by two.
#pragma once
#include <algorithm>
#include <bit>

#include "base/check.hpp"
#include "buffer/frame.hpp"

namespace ls {

struct Contention {
  static constexpr u16 kWaits = 16;             // before a leaf is divided
  // at most: where less than one writer in a hundred waits, counting begins anew
  static constexpr u32 kAccessesPerWait = 100;

  u16 waits;
  u16 place;        // where the last one that waited went
  u32 version;      // low half of the latch's version when counting began
};
static_assert(sizeof(Contention) == sizeof(Frame::contention));

// A writer that has waited for the page goes to the entry at `place`.  Exclusively latched, at
// `version`.  The place of the first entry of the right half if the leaf is to be divided, else 0.
inline u16 note_wait(Frame &frame, u64 version, u16 place) {
  LS_ASSERT(version % 2 == 1);
  auto now = std::bit_cast<Contention>(frame.contention.load(std::memory_order_relaxed));
  if (now.waits == 0) now.version = static_cast<u32>(version);
  const u32 waits = now.waits + 1u, accesses = (static_cast<u32>(version) - now.version) / 2;
  const bool often = accesses / Contention::kAccessesPerWait <= waits;
  const u16 divide = often && waits >= Contention::kWaits && place != now.place
                         ? std::max(place, now.place)
                         : u16{0};
  now.waits =
      often && divide == 0 ? static_cast<u16>(std::min<u32>(waits, Contention::kWaits)) : u16{0};
  now.place = place;
  frame.contention.store(std::bit_cast<u64>(now), std::memory_order_relaxed);
  return divide;
}

}  // namespace ls
