// check.hpp - assertions.  LS_CHECK: an own invariant, checked in every build, ends the process
// tree (abort(): the host restarts and recovers).  LS_ASSERT: the same where LS_DEBUG_CHECKS is 1.
#pragma once

namespace ls {
[[noreturn]] void check_failed(const char *file, int line, const char *expression, const char *why);
}

#define LS_CHECK(expr, why) \
  (__builtin_expect(!!(expr), 1) ? (void)0 : ::ls::check_failed(__FILE__, __LINE__, #expr, why))

#if defined(LS_DEBUG_CHECKS) && LS_DEBUG_CHECKS
#define LS_ASSERT(expr) LS_CHECK(expr, "assertion")
#else
#define LS_ASSERT(expr) ((void)sizeof(!(expr)))
#endif
