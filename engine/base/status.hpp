// status.hpp - how the engine reports: ls_status values, details in a thread-local record.
//
// A function that can fail returns Status ([[nodiscard]]).  The one that detects the failure calls
// fail(...), which stores the details once; its callers only pass the value on.  capi/ copies the
// details to the caller's ls_error.
#pragma once
#include <new>

#include "base/types.hpp"
#include "leanstore/engine.h"

namespace ls {

enum class [[nodiscard]] Status : int {};  // values of ls_status

inline constexpr Status kOk{LS_OK};
constexpr Status make_status(ls_status s) { return Status{static_cast<int>(s)}; }
constexpr bool ok(Status s) { return s == kOk; }
constexpr ls_status code(Status s) { return static_cast<ls_status>(s); }

// A line of the code.  clang before version 16 has no std::source_location for gcc's library.
struct CodePlace {
  const char *file;
  u32 line;
};

// The first argument of fail() and its kin, with the line of the code that it stands on.
template <typename T>
struct Located {
  T value;
  CodePlace at;
  // NOLINTNEXTLINE(google-explicit-constructor): the caller writes the value alone.
  constexpr Located(T v, const char *file = __builtin_FILE(), u32 line = __builtin_LINE())
      : value(v), at{file, line} {}
};

// Record details for the calling thread and return the status.  printf-like.
Status fail(Located<ls_status> status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// The same with errno (ENOSPC/EDQUOT become LS_NO_SPACE, all else LS_IO_ERROR) and the path
// concerned.
Status fail_errno(Located<int> sys_errno, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// The same about a page of a file (LS_CORRUPT).
Status fail_page(Located<const char *> path, PageNo page_no, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// The same about a file as a whole.
Status fail_path(Located<ls_status> status, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// The last failure again, as one of another kind.
Status fail_as(ls_status status);
// Details of the last failure in this thread.
const ls_error &last_error();
void set_last_error(const ls_error &error);  // carry a failure from another thread

// Run `body`, which returns Status; memory that it cannot have is LS_NO_MEMORY.  For where a caller
// waits for the outcome, or other threads would have to live with what is half done.
template <typename Body>
Status with_memory(Body &&body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return fail(LS_NO_MEMORY, "out of memory");
  }
}

#define LS_TRY(expr)                         \
  do {                                       \
    if (::ls::Status s_ = (expr); !::ls::ok(s_)) return s_; \
  } while (0)

}  // namespace ls
