// prefetch.hpp - asking memory for bytes that are about to be read.
#pragma once
#include "base/types.hpp"

namespace ls {

// Every cache line that begins within n bytes, counted from `bytes`.
inline void prefetch(const u8 *bytes, u32 n) {
  for (u32 i = 0; i < n; i += kCacheLine) __builtin_prefetch(bytes + i);
}

}  // namespace ls
