// random.hpp - chance for decisions that need no good one (xorshift); the state is private to a
// thread and not 0.
#pragma once
#include "base/types.hpp"

namespace ls {

inline u32 next_random(u64 &state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return static_cast<u32>(state >> 32);
}

}  // namespace ls
