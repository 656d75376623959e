// huge_page.hpp - asking the operating system to back memory with pages of 2 MiB.
#pragma once
#include "base/types.hpp"

namespace ls {

inline constexpr size_t kHugePage = size_t{2} << 20;

enum class HugePageAnswer : u8 {
  kDone,    // it is one now, or was already
  kLater,   // some of it is being written or read, or there is no room: perhaps another time
  kNever,   // not this memory, or not on this system
};

// The 2 MiB at `at`, a multiple of that, of which something has been written.  The bytes stay, and
// others may use them meanwhile.
HugePageAnswer make_huge_page(u8 *at);

}  // namespace ls
