// copy_page.hpp - a page from one place in memory to another.
#pragma once
#include <cstring>

#include "base/types.hpp"

namespace ls {

// By the C library, in pieces that it copies with vector registers.  Of a copy that has a known
// length GCC makes `rep movs`, and so does the library of more than 2 KiB: the first reads of what
// was copied wait behind that as if they went to memory.  A scan of a million rows of 60 bytes
// takes 27.0 ms, 29.8 with one call for the page (medians).
inline void copy_page(void *to, const void *from) {
  constexpr size_t kPiece = 1024;
  size_t bytes = kPiece;
  asm("" : "+r"(bytes));   // the compiler does not know it
  for (size_t at = 0; at < kPageSize; at += kPiece)
    std::memcpy(static_cast<u8 *>(to) + at, static_cast<const u8 *>(from) + at, bytes);
}

}  // namespace ls
