// Plain files and directories: log segments, doublewrite buffer, control file.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "base/check.hpp"
#include "os/file.hpp"
#include "os/file_settings.hpp"
#include "os/sys_calls.hpp"

namespace ls {

File::File(File &&other) noexcept { *this = std::move(other); }

File &File::operator=(File &&other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
    std::memcpy(path_, other.path_, sizeof path_);
  }
  return *this;
}

File::~File() { close(); }

Status File::open(const char *path, int flags) {
  close();
  if (std::strlen(path) >= sizeof path_)
    return fail(LS_INVALID, "path is too long: \"%.100s...\"", path);
  std::strcpy(path_, path);
  fd_ = sys_open(path, flags | O_RDWR);
  if (fd_ >= 0) return kOk;
  if (errno == ENOENT) return fail(LS_NOT_FOUND, "file \"%s\" does not exist", path);
  return fail_errno(errno, path, "could not open file");
}

Status File::open_direct(const char *path) {
  if (!fd_cache_direct()) return open(path, 0);
  const Status status = open(path, O_DIRECT);
  return !ok(status) && last_error().sys_errno == EINVAL ? open(path, 0) : status;
}

void File::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Status File::read_at(u64 offset, void *buffer, size_t bytes, size_t *got) {
  LS_ASSERT(is_open());
  ssize_t n = sys_pread(fd_, buffer, bytes, offset, path_);
  if (n < 0) return fail_errno(errno, path_, "could not read file");
  *got = static_cast<size_t>(n);
  return kOk;
}

Status File::write_at(u64 offset, const void *buffer, size_t bytes) {
  LS_ASSERT(is_open());
  if (sys_pwrite(fd_, buffer, bytes, offset, path_) < 0)
    return fail_errno(errno, path_, "could not write file");
  return kOk;
}

Status File::sync_data() {
  LS_ASSERT(is_open());
  if (!file_fsync_enabled()) return kOk;
  if (sys_fdatasync(fd_, path_) < 0) return fail_errno(errno, path_, "could not sync file");
  return kOk;
}

Status File::truncate(u64 bytes) {
  LS_ASSERT(is_open());
  if (sys_ftruncate(fd_, bytes, path_) < 0)
    return fail_errno(errno, path_, "could not truncate file");
  return kOk;
}

Status File::allocate(u64 bytes, bool *done) {
  LS_ASSERT(is_open());
  u64 from;
  LS_TRY(size(&from));
  *done = from >= bytes || sys_fallocate(fd_, from, bytes - from, path_) == 0;
  if (*done || errno == EOPNOTSUPP || errno == ENOSYS) return kOk;
  return fail_errno(errno, path_, "could not extend file");
}

Status File::size(u64 *bytes) {
  LS_ASSERT(is_open());
  struct stat st;
  if (fstat(fd_, &st) < 0) return fail_errno(errno, path_, "could not stat file");
  *bytes = static_cast<u64>(st.st_size);
  return kOk;
}

Status File::is_linked(bool *linked) {
  LS_ASSERT(is_open());
  struct stat st;
  if (fstat(fd_, &st) < 0) return fail_errno(errno, path_, "could not stat file");
  *linked = st.st_nlink > 0;
  return kOk;
}

Status file_write_atomically(const char *path, std::span<const u8> bytes) {
  char temporary[700];
  int length = std::snprintf(temporary, sizeof temporary, "%s.tmp", path);
  if (length < 0 || static_cast<size_t>(length) >= sizeof temporary)
    return fail(LS_INVALID, "path is too long");
  {
    File file;
    LS_TRY(file.open(temporary, O_CREAT | O_TRUNC));
    LS_TRY(file.write_at(0, bytes.data(), bytes.size()));
    LS_TRY(file.sync_data());
  }
  LS_TRY(file_rename(temporary, path));
  const char *slash = std::strrchr(path, '/');
  const char *directory = slash ? temporary : ".";
  if (slash) {
    std::snprintf(temporary, sizeof temporary, "%.*s", static_cast<int>(slash - path), path);
  }
  // The new file is in its place: a full disk must not pass for nothing having happened.
  const Status synced = directory_sync(directory);
  return code(synced) == LS_NO_SPACE ? fail_as(LS_IO_ERROR) : synced;
}

Status file_unlink(const char *path) {
  if (sys_unlink(path) < 0 && errno != ENOENT)
    return fail_errno(errno, path, "could not remove file");
  return kOk;
}

Status file_rename(const char *from, const char *to) {
  if (sys_rename(from, to) < 0)
    return fail_errno(errno, from, "could not rename file to \"%s\"", to);
  return kOk;
}

Status directory_sync(const char *path) {
  if (!file_fsync_enabled()) return kOk;
  int fd = sys_open(path, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return fail_errno(errno, path, "could not open directory");
  int result = sys_fsync(fd, path);
  int error = errno;
  ::close(fd);
  // Some file systems cannot sync a directory; then they do not need it.
  if (result < 0 && error != EINVAL && error != EBADF)
    return fail_errno(error, path, "could not sync directory");
  return kOk;
}

Status directory_list(const char *path, bool (*each)(void *arg, const char *name), void *arg) {
  // Closed also when `each` finds no memory.
  const std::unique_ptr<DIR, int (*)(DIR *)> directory(opendir(path), closedir);
  if (!directory) return fail_errno(errno, path, "could not open directory");
  errno = 0;
  while (dirent *entry = readdir(directory.get())) {
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    if (!each(arg, entry->d_name)) break;
    errno = 0;
  }
  if (errno != 0) return fail_errno(errno, path, "could not read directory");
  return kOk;
}

Status directory_names(const char *path, std::vector<std::string> *names) {
  return directory_list(path, [](void *arg, const char *name) {
    static_cast<std::vector<std::string> *>(arg)->emplace_back(name);
    return true;
  }, names);
}

}  // namespace ls
