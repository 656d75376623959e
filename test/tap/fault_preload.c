/*
 * fault_preload.c - makes chosen system calls of a server fail: loaded by LD_PRELOAD, compiled by
 * FaultyDisk.pm.
 *
 * The environment variable LS_FAULTS names a file of rules, read anew at every call, so that a test
 * changes them while the server runs.  A line: CALL ERRNO PART, for calls on files with PART in
 * their paths; with ERRNO 0 they do not fail, but wait until that line is gone.  No file: nothing
 * fails.  io_uring is reported absent, because what it writes passes no function of the C library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NO_FAULT (-1)
#define HELD_UP 0

static int
fault_now(const char *call, const char *path)
{
	const char *file = getenv("LS_FAULTS");
	char		rules[4096];
	ssize_t		n;
	int			rules_fd, saved_errno = errno;

	if (!file || (rules_fd = (int) syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC)) < 0)
	{
		errno = saved_errno;
		return NO_FAULT;
	}
	n = syscall(SYS_read, rules_fd, rules, sizeof rules - 1);
	close(rules_fd);
	rules[n > 0 ? n : 0] = '\0';
	errno = saved_errno;

	for (char *rest = rules, *line; (line = strsep(&rest, "\n")) != NULL;)
	{
		char		name[32], part[256];
		int			error;

		if (sscanf(line, "%31s %d %255s", name, &error, part) == 3 && strcmp(name, call) == 0 &&
			strstr(path, part))
			return error;
	}
	return NO_FAULT;
}

/* The error to report, 0 for the call to be made. */
static int
fault_of(const char *call, const char *path)
{
	int			error;

	while ((error = fault_now(call, path)) == HELD_UP)
		usleep(10 * 1000);
	return error == NO_FAULT ? 0 : error;
}

static int
fault(const char *call, int fd)
{
	char		link[64], path[1024];
	int			saved_errno = errno;
	ssize_t		n;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	path[n > 0 ? n : 0] = '\0';
	errno = saved_errno;
	return fault_of(call, path);
}

#define REAL(result, name, ...) \
	static result (*real) (__VA_ARGS__) = NULL; \
	if (!real) real = (result (*) (__VA_ARGS__)) dlsym(RTLD_NEXT, name)

#define FAIL_IF_TOLD(call, fd) \
	do { int error_ = fault(call, fd); if (error_) { errno = error_; return -1; } } while (0)

ssize_t
pread(int fd, void *buffer, size_t bytes, off_t offset)
{
	REAL(ssize_t, "pread", int, void *, size_t, off_t);
	FAIL_IF_TOLD("pread", fd);
	return real(fd, buffer, bytes, offset);
}

ssize_t
pread64(int fd, void *buffer, size_t bytes, off64_t offset)
{
	REAL(ssize_t, "pread64", int, void *, size_t, off64_t);
	FAIL_IF_TOLD("pread", fd);
	return real(fd, buffer, bytes, offset);
}

ssize_t
pwrite(int fd, const void *buffer, size_t bytes, off_t offset)
{
	REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
	FAIL_IF_TOLD("pwrite", fd);
	return real(fd, buffer, bytes, offset);
}

ssize_t
pwrite64(int fd, const void *buffer, size_t bytes, off64_t offset)
{
	REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
	FAIL_IF_TOLD("pwrite", fd);
	return real(fd, buffer, bytes, offset);
}

int
fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	REAL(int, "fallocate", int, int, off_t, off_t);
	FAIL_IF_TOLD("fallocate", fd);
	return real(fd, mode, offset, bytes);
}

int
fallocate64(int fd, int mode, off64_t offset, off64_t bytes)
{
	REAL(int, "fallocate64", int, int, off64_t, off64_t);
	FAIL_IF_TOLD("fallocate", fd);
	return real(fd, mode, offset, bytes);
}

int
fdatasync(int fd)
{
	REAL(int, "fdatasync", int);
	FAIL_IF_TOLD("fdatasync", fd);
	return real(fd);
}

int
access(const char *path, int mode)
{
	int			error = fault_of("access", path);

	REAL(int, "access", const char *, int);
	if (error == 0)
		return real(path, mode);
	errno = error;
	return -1;
}

int
io_uring_queue_init(unsigned entries, void *ring, unsigned flags)
{
	return -ENOSYS;
}
