// huge_page.cpp - one large page by MADV_COLLAPSE.
#include "os/huge_page.hpp"

#include <sys/mman.h>

#include <cerrno>

#include "base/check.hpp"

// Linux 6.1; older headers do not know it.
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace ls {

HugePageAnswer make_huge_page(u8 *at) {
  LS_ASSERT(reinterpret_cast<size_t>(at) % kHugePage == 0);
  if (madvise(at, kHugePage, MADV_COLLAPSE) == 0) return HugePageAnswer::kDone;
  return errno == EAGAIN || errno == EBUSY || errno == ENOMEM ? HugePageAnswer::kLater
                                                              : HugePageAnswer::kNever;
}

}  // namespace ls
