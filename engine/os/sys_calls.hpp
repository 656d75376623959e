// sys_calls.hpp - the system calls on files, each with the fault layer in front.  Results and errno
// as the call itself; EINTR is retried.  `path` is for the fault rules only.
#pragma once
#include <sys/types.h>

#include "base/types.hpp"

namespace ls {

// O_CLOEXEC added, mode 0600
int sys_open(const char *path, int flags);
// short only at the end of file
ssize_t sys_pread(int fd, void *buffer, size_t bytes, u64 offset, const char *path);
// All or an error: 0, or -1 with errno.
int sys_pwrite(int fd, const void *buffer, size_t bytes, u64 offset, const char *path);
// The kernel writes a range of its cache to the device from now on.  A hint: what fails on the way
// is what the next sync of the file reports.
void sys_begin_writeback(int fd, u64 offset, size_t bytes);
int sys_fdatasync(int fd, const char *path);
int sys_fsync(int fd, const char *path);  // directories
int sys_fallocate(int fd, u64 offset, u64 bytes, const char *path);
int sys_ftruncate(int fd, u64 bytes, const char *path);
int sys_rename(const char *from, const char *to);
int sys_unlink(const char *path);

}  // namespace ls
