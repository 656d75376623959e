// status.cpp - the thread's last error: texts, paths and errno of failures.
#include "base/status.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace ls {

namespace {

constexpr u32 kNoPage = UINT32_MAX;

thread_local ls_error tls_error{LS_OK, 0, kNoPage, "", ""};

// Keep the end of a path that is too long: it names the file.
void store_path(const char *path) {
  size_t length = path ? std::strlen(path) : 0;
  constexpr size_t kRoom = sizeof tls_error.path - 1;
  const char *from = length > kRoom ? path + (length - kRoom) : path;
  size_t bytes = length > kRoom ? kRoom : length;
  if (bytes > 0) std::memcpy(tls_error.path, from, bytes);
  tls_error.path[bytes] = '\0';
}

void store(ls_status status, int sys_errno, u32 page_no, const char *path, const char *format,
           va_list args) {
  tls_error.status = status;
  tls_error.sys_errno = sys_errno;
  tls_error.page_no = page_no;
  store_path(path);
  std::vsnprintf(tls_error.message, sizeof tls_error.message, format, args);
}

}  // namespace

Status fail(ls_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  store(status, 0, kNoPage, nullptr, format, args);
  va_end(args);
  return make_status(status);
}

Status fail_errno(int sys_errno, const char *path, const char *format, ...) {
  ls_status status = sys_errno == ENOSPC || sys_errno == EDQUOT ? LS_NO_SPACE : LS_IO_ERROR;
  va_list args;
  va_start(args, format);
  store(status, sys_errno, kNoPage, path, format, args);
  va_end(args);
  return make_status(status);
}

Status fail_page(const char *path, PageNo page_no, const char *format, ...) {
  va_list args;
  va_start(args, format);
  store(LS_CORRUPT, 0, page_no, path, format, args);
  va_end(args);
  return make_status(LS_CORRUPT);
}

Status fail_path(ls_status status, const char *path, const char *format, ...) {
  va_list args;
  va_start(args, format);
  store(status, 0, kNoPage, path, format, args);
  va_end(args);
  return make_status(status);
}

Status fail_as(ls_status status) {
  tls_error.status = status;
  return make_status(status);
}

const ls_error &last_error() { return tls_error; }

void set_last_error(const ls_error &error) { tls_error = error; }

}  // namespace ls
