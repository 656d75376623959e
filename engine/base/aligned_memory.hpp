// aligned_memory.hpp - buffers for pages, aligned as direct I/O wants them.
#pragma once
#include <memory>
#include <new>

#include "base/types.hpp"

namespace ls {

struct FreePages {
  void operator()(u8 *pages) const { ::operator delete(pages, std::align_val_t{kPageSize}); }
};
using AlignedPages = std::unique_ptr<u8, FreePages>;

// Null when there is no memory.
inline AlignedPages allocate_pages(size_t count) {
  return AlignedPages(static_cast<u8 *>(
      ::operator new(count * kPageSize, std::align_val_t{kPageSize}, std::nothrow)));
}

}  // namespace ls
