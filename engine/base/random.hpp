// random.hpp - chance for decisions whose quality does not matter (xorshift); the state is private to a thread and not 0.
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
