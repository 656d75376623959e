// status.cpp - the thread's last error: texts, paths and errno of failures.
#include "base/status.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace ls {

namespace {

constexpr u32 kNoPage = UINT32_MAX;

thread_local ls_error tls_error{LS_OK, 0, kNoPage, 0, "", "", ""};

// Keep the end of a path that is too long: it names the file.
template <size_t kBytes>
void store_path(char (&to)[kBytes], const char *path) {
  const size_t length = path ? std::strlen(path) : 0;
  const size_t bytes = std::min(length, kBytes - 1);
  if (bytes > 0) std::memcpy(to, path + (length - bytes), bytes);
  to[bytes] = '\0';
}

struct FailureDetails {
  ls_status status;
  CodePlace at;
  int sys_errno = 0;
  u32 page_no = kNoPage;
  const char *path = nullptr;
};

Status store(const FailureDetails &failure, const char *format, va_list args) {
  tls_error.status = failure.status;
  tls_error.sys_errno = failure.sys_errno;
  tls_error.page_no = failure.page_no;
  tls_error.line = failure.at.line;
  store_path(tls_error.source, failure.at.file);
  store_path(tls_error.path, failure.path);
  std::vsnprintf(tls_error.message, sizeof tls_error.message, format, args);
  return make_status(failure.status);
}

}  // namespace

Status fail(Located<ls_status> status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const Status result = store({.status = status.value, .at = status.at}, format, args);
  va_end(args);
  return result;
}

Status fail_errno(Located<int> sys_errno, const char *path, const char *format, ...) {
  const bool full = sys_errno.value == ENOSPC || sys_errno.value == EDQUOT;
  va_list args;
  va_start(args, format);
  const Status result = store({.status = full ? LS_NO_SPACE : LS_IO_ERROR,
                               .at = sys_errno.at,
                               .sys_errno = sys_errno.value,
                               .path = path},
                              format, args);
  va_end(args);
  return result;
}

Status fail_page(Located<const char *> path, PageNo page_no, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const Status result =
      store({.status = LS_CORRUPT, .at = path.at, .page_no = page_no, .path = path.value}, format,
            args);
  va_end(args);
  return result;
}

Status fail_path(Located<ls_status> status, const char *path, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const Status result =
      store({.status = status.value, .at = status.at, .path = path}, format, args);
  va_end(args);
  return result;
}

Status fail_as(ls_status status) {
  tls_error.status = status;
  return make_status(status);
}

const ls_error &last_error() { return tls_error; }

void set_last_error(const ls_error &error) { tls_error = error; }

}  // namespace ls
