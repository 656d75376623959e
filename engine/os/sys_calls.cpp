// sys_calls.cpp - each call with retry, fault rules and observer around it.
#include "os/sys_calls.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "os/fault.hpp"

namespace ls {

namespace {

// Result of a call that a rule acted on, nullopt when the real call is to be made.
std::optional<int> faulted(FaultOp op, const char *path) {
  if (!fault_active()) return std::nullopt;
  FaultDecision decision = fault_decide(op, path);
  if (!decision.hit) return std::nullopt;
  if (decision.outcome == FaultOutcome::kSucceed) return 0;
  if (decision.outcome == FaultOutcome::kCrash && decision.on_crash) decision.on_crash();
  errno = decision.outcome == FaultOutcome::kCrash ? EIO : decision.error;
  return -1;
}

// Makes the call, the observer looking on.  The call's result is negative when it fails.
template <class Call>
auto observed(const FileCall &what, Call call) {
  FileObserver *observer = file_observer.load(std::memory_order_acquire);
  if (!observer) return call();
  u64 token = observer->before(what);
  auto result = call();
  int error = errno;
  observer->after(what, token, result >= 0);
  errno = error;
  return result;
}

template <class Call>
auto retry(Call call) {
  for (;;) {
    auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

int pwrite_plainly(int fd, const void *buffer, size_t bytes, u64 offset) {
  const char *from = static_cast<const char *>(buffer);
  while (bytes > 0) {
    ssize_t n = retry([&] { return pwrite(fd, from, bytes, static_cast<off_t>(offset)); });
    if (n < 0) return -1;
    if (n == 0) {
      errno = ENOSPC;  // POSIX leaves it open; a device that takes nothing is full
      return -1;
    }
    from += n;
    offset += static_cast<u64>(n);
    bytes -= static_cast<size_t>(n);
  }
  return 0;
}

int pwrite_all(int fd, const void *buffer, size_t bytes, u64 offset) {
  return observed({.op = FaultOp::kWrite, .fd = fd, .offset = offset, .bytes = bytes},
                  [&] { return pwrite_plainly(fd, buffer, bytes, offset); });
}

// A torn write: the first bytes reach the file through a buffered descriptor of its own, because a
// direct one could not write a part of a sector.
void write_torn(int fd, const void *buffer, size_t bytes, u64 offset) {
  char self[64];
  std::snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
  int plain = retry([&] { return open(self, O_WRONLY | O_CLOEXEC); });
  if (plain < 0) return;
  (void)pwrite_all(plain, buffer, bytes, offset);
  close(plain);
}

}  // namespace

int sys_open(const char *path, int flags) {
  if (auto result = faulted(FaultOp::kOpen, path); result && *result < 0) return -1;
  auto call = [&] { return retry([&] { return open(path, flags | O_CLOEXEC, 0600); }); };
  if (!(flags & O_CREAT)) return call();
  return observed({.op = FaultOp::kOpen, .path = path}, call);
}

ssize_t sys_pread(int fd, void *buffer, size_t bytes, u64 offset, const char *path) {
  if (auto result = faulted(FaultOp::kRead, path)) return *result;
  char *to = static_cast<char *>(buffer);
  size_t done = 0;
  while (done < bytes) {
    ssize_t n = retry(
        [&] { return pread(fd, to + done, bytes - done, static_cast<off_t>(offset + done)); });
    if (n < 0) return -1;
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return static_cast<ssize_t>(done);
}

int sys_pwrite(int fd, const void *buffer, size_t bytes, u64 offset, const char *path) {
  if (!fault_active()) return pwrite_all(fd, buffer, bytes, offset);
  FaultDecision decision = fault_decide(FaultOp::kWrite, path);
  if (!decision.hit) return pwrite_all(fd, buffer, bytes, offset);
  write_torn(fd, buffer, static_cast<size_t>(std::min<u64>(decision.first_bytes, bytes)), offset);
  if (decision.outcome == FaultOutcome::kSucceed) return 0;
  if (decision.outcome == FaultOutcome::kCrash && decision.on_crash) decision.on_crash();
  errno = decision.outcome == FaultOutcome::kCrash ? EIO : decision.error;
  return -1;
}

void sys_begin_writeback(int fd, u64 offset, size_t bytes) {
  (void)sync_file_range(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                        SYNC_FILE_RANGE_WRITE);
}

int sys_fdatasync(int fd, const char *path) {
  if (auto result = faulted(FaultOp::kSync, path)) return *result;
  return observed({.op = FaultOp::kSync, .fd = fd},
                  [&] { return retry([&] { return fdatasync(fd); }); });
}

int sys_fsync(int fd, const char *path) {
  if (auto result = faulted(FaultOp::kSync, path)) return *result;
  return observed({.op = FaultOp::kSync, .fd = fd},
                  [&] { return retry([&] { return fsync(fd); }); });
}

int sys_fallocate(int fd, u64 offset, u64 bytes, const char *path) {
  if (auto result = faulted(FaultOp::kExtend, path)) return *result;
  return observed({.op = FaultOp::kExtend, .fd = fd}, [&] {
    return retry(
        [&] { return fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)); });
  });
}

int sys_ftruncate(int fd, u64 bytes, const char *path) {
  if (auto result = faulted(FaultOp::kExtend, path)) return *result;
  return observed({.op = FaultOp::kExtend, .fd = fd},
                  [&] { return retry([&] { return ftruncate(fd, static_cast<off_t>(bytes)); }); });
}

int sys_rename(const char *from, const char *to) {
  if (auto result = faulted(FaultOp::kRename, from)) return *result;
  return observed({.op = FaultOp::kRename, .path = from, .to = to},
                  [&] { return rename(from, to); });
}

int sys_unlink(const char *path) {
  if (auto result = faulted(FaultOp::kUnlink, path)) return *result;
  return observed({.op = FaultOp::kUnlink, .path = path}, [&] { return unlink(path); });
}

}  // namespace ls
