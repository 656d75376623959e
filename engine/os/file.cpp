// Relation files: pages to segments, reading, writing, growing.
#include "os/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/aligned_memory.hpp"
#include "base/check.hpp"
#include "base/copy_page.hpp"
#include "os/fd_cache.hpp"
#include "os/file_settings.hpp"
#include "os/sys_calls.hpp"

namespace ls {

namespace {

// Set once before threads start; atomic so that a test that changes it races with no thread.
std::atomic<bool> g_fsync{true};

constexpr size_t kZeroChunk = 256 * 1024;

bool is_aligned(const void *p) { return reinterpret_cast<uintptr_t>(p) % kPageSize == 0; }

bool is_zero_page(const u8 *page) {
  u64 first;
  std::memcpy(&first, page, sizeof first);
  return first == 0 && std::memcmp(page, page + sizeof first, kPageSize - sizeof first) == 0;
}

// The segment has no file: is the page beyond the end, or the whole file gone?
Status missing_segment(const FileRef &file, u32 segment) {
  if (segment == 0) return make_status(LS_NOT_FOUND);  // details are recorded
  struct stat st;
  SegmentPath first(file, 0);
  if (stat(first.text, &st) == 0)
    return fail(LS_END, "page lies beyond the end of \"%s\"", first.text);
  return fail(LS_NOT_FOUND, "file \"%s\" does not exist", first.text);
}

Status get_segment(const FileRef &file, u32 segment, SegmentRef *out) {
  Status status = fd_cache_get(file, segment, SegmentOpen::kExisting, out);
  return code(status) == LS_NOT_FOUND ? missing_segment(file, segment) : status;
}

// Allocate [from, to) by writing zeros, where the file system has no fallocate.
Status write_zeros(const OpenSegment &segment, u64 from, u64 to, const char *path) {
  const AlignedPages zeros = allocate_pages(kZeroChunk / kPageSize);
  if (!zeros) return fail(LS_NO_MEMORY, "no memory for a buffer of zeros");
  std::memset(zeros.get(), 0, kZeroChunk);
  while (from < to) {
    size_t n = static_cast<size_t>(std::min<u64>(kZeroChunk, to - from));
    if (sys_pwrite(segment.fd(), zeros.get(), n, from, path) < 0) {
      return fail_errno(errno, path, "could not extend relation file");
    }
    from += n;
  }
  return kOk;
}

Status grow_segment(const OpenSegment &segment, u64 bytes, const char *path) {
  struct stat st;
  if (fstat(segment.fd(), &st) < 0) return fail_errno(errno, path, "could not stat relation file");
  u64 size = static_cast<u64>(st.st_size) / kPageSize * kPageSize;
  if (size >= bytes) return kOk;
  if (sys_fallocate(segment.fd(), size, bytes - size, path) == 0) return kOk;
  if (errno == EOPNOTSUPP || errno == ENOSYS) return write_zeros(segment, size, bytes, path);
  return fail_errno(errno, path, "could not extend relation file");
}

Status sync_directory_of(const char *path) {
  char directory[800];
  std::snprintf(directory, sizeof directory, "%s", path);
  char *slash = std::strrchr(directory, '/');
  if (slash) *slash = '\0';
  return directory_sync(directory);
}

// Of a new segment: its pages are synced later, and the name must not be lost then.  If that fails
// the segment goes again, for a worker that finds it there would not sync the name once more.
Status sync_name(const FileRef &file, const char *path) {
  const Status status = sync_directory_of(path);
  if (ok(status)) return kOk;
  const ls_error error = last_error();
  file_forget(file.file_no);
  LS_TRY(file_unlink(path));
  set_last_error(error);
  return status;
}

Status read_direct_bounced(const OpenSegment &segment, u8 *buffer, u64 offset, const char *path,
                           ssize_t *got) {
  alignas(kPageSize) u8 bounce[kPageSize];
  *got = sys_pread(segment.fd(), bounce, kPageSize, offset, path);
  if (*got < 0) return fail_errno(errno, path, "could not read page");
  std::memcpy(buffer, bounce, static_cast<size_t>(*got));
  return kOk;
}

int write_direct_bounced(const OpenSegment &segment, const u8 *buffer, u64 offset,
                         const char *path) {
  alignas(kPageSize) u8 bounce[kPageSize];
  copy_page(bounce, buffer);
  return sys_pwrite(segment.fd(), bounce, kPageSize, offset, path);
}

}  // namespace

bool file_fsync_enabled() { return g_fsync.load(std::memory_order_relaxed); }

void file_setup(const char *root_dir, bool direct_io, bool fsync, u32 max_fds) {
  fd_cache_setup(root_dir, direct_io, max_fds);
  g_fsync.store(fsync, std::memory_order_relaxed);
}

Status file_read_page(const FileRef &file, PageNo page, u8 *buffer) {
  u32 segment_no = page / kPagesPerSegment;
  u64 offset = u64{page % kPagesPerSegment} * kPageSize;
  SegmentRef segment;
  LS_TRY(get_segment(file, segment_no, &segment));
  ssize_t got;
  if (segment->direct() && !is_aligned(buffer)) {
    LS_TRY(read_direct_bounced(*segment, buffer, offset, file.path, &got));
  } else {
    got = sys_pread(segment->fd(), buffer, kPageSize, offset, file.path);
    if (got < 0) return fail_errno(errno, file.path, "could not read page %u", page);
  }
  if (got < static_cast<ssize_t>(kPageSize))
    return fail(LS_END, "page %u lies beyond the end of \"%s\"", page, file.path);
  if (is_zero_page(buffer))
    return fail(LS_END, "page %u of \"%s\" was never written", page, file.path);
  return kOk;
}

Status file_write_page_to(const OpenSegment &segment, const FileRef &file, PageNo page,
                          const u8 *buffer) {
  u64 offset = u64{page % kPagesPerSegment} * kPageSize;
  int result = segment.direct() && !is_aligned(buffer)
                   ? write_direct_bounced(segment, buffer, offset, file.path)
                   : sys_pwrite(segment.fd(), buffer, kPageSize, offset, file.path);
  if (result < 0) return fail_errno(errno, file.path, "could not write page %u", page);
  return kOk;
}

Status file_write_page(const FileRef &file, PageNo page, const u8 *buffer) {
  SegmentRef segment;
  LS_TRY(get_segment(file, page / kPagesPerSegment, &segment));
  return file_write_page_to(*segment, file, page, buffer);
}

Status file_make(const FileRef &file) {
  SegmentRef segment;
  const Status status = fd_cache_get(file, 0, SegmentOpen::kExisting, &segment);
  if (code(status) != LS_NOT_FOUND) return status;
  LS_TRY(fd_cache_get(file, 0, SegmentOpen::kCreate, &segment));
  return sync_name(file, SegmentPath(file, 0).text);
}

Status file_extend(const FileRef &file, u32 pages) {
  for (u32 first = 0; first < pages;) {
    u32 segment_no = first / kPagesPerSegment;
    u32 count = std::min(pages - first, kPagesPerSegment);
    SegmentPath path(file, segment_no);
    SegmentRef segment;
    Status status = fd_cache_get(file, segment_no, SegmentOpen::kExisting, &segment);
    if (code(status) == LS_NOT_FOUND && segment_no > 0) {
      LS_TRY(fd_cache_get(file, segment_no, SegmentOpen::kCreate, &segment));
      LS_TRY(sync_name(file, path.text));
    } else if (!ok(status)) {
      return status;
    }
    LS_TRY(grow_segment(*segment, u64{count} * kPageSize, path.text));
    first += count;
  }
  return kOk;
}

// By a descriptor of its own: those that are kept go past the page cache.
Status file_begin(const FileRef &file, std::span<const u8> bytes) {
  LS_ASSERT(bytes.size() % kPageSize == 0 && bytes.size() <= kSegmentBytes);
  File first;
  LS_TRY(first.open(SegmentPath(file, 0).text, 0));
  return first.write_at(0, bytes.data(), bytes.size());
}

Status file_shrink(const FileRef &file, u32 pages) {
  u32 have;
  LS_TRY(file_pages(file, &have));
  if (have <= pages) return kOk;
  // The last one first: a segment that is not full ends the file.
  for (u32 segment_no = (have - 1) / kPagesPerSegment + 1; segment_no-- > 0;) {
    const u32 first = segment_no * kPagesPerSegment;
    if (first + kPagesPerSegment <= pages) break;
    const u64 bytes = u64{pages > first ? pages - first : 0} * kPageSize;
    SegmentPath path(file, segment_no);
    SegmentRef segment;
    LS_TRY(get_segment(file, segment_no, &segment));
    if (sys_ftruncate(segment->fd(), bytes, path.text) < 0) {
      return fail_errno(errno, path.text, "could not truncate relation file");
    }
  }
  return kOk;
}

Status file_pages(const FileRef &file, u32 *pages) {
  *pages = 0;
  for (u32 segment_no = 0;; segment_no++) {
    SegmentPath path(file, segment_no);
    struct stat st;
    if (stat(path.text, &st) < 0) {
      int error = errno;
      if (error != ENOENT && error != ENOTDIR)
        return fail_errno(error, path.text, "could not stat relation file");
      if (segment_no == 0) return fail(LS_NOT_FOUND, "file \"%s\" does not exist", path.text);
      return kOk;
    }
    u64 bytes = static_cast<u64>(st.st_size);
    *pages += static_cast<u32>(std::min<u64>(bytes, kSegmentBytes) / kPageSize);
    if (bytes < kSegmentBytes) return kOk;
  }
}

Status file_sync(const FileRef &file, bool *lost) {
  if (lost) *lost = false;
  if (!file_fsync_enabled()) return kOk;
  for (u32 segment_no = 0;; segment_no++) {
    SegmentRef segment;
    Status status = fd_cache_get(file, segment_no, SegmentOpen::kExisting, &segment);
    if (code(status) == LS_NOT_FOUND && segment_no > 0) return kOk;
    LS_TRY(status);
    SegmentPath path(file, segment_no);
    if (sys_fdatasync(segment->fd(), path.text) < 0) {
      if (lost) *lost = true;
      return fail_errno(errno, path.text, "could not sync relation file");
    }
    struct stat st;
    if (fstat(segment->fd(), &st) < 0)
      return fail_errno(errno, path.text, "could not stat relation file");
    if (static_cast<u64>(st.st_size) < kSegmentBytes) return kOk;
  }
}

void file_forget(FileNo file_no) { fd_cache_forget(file_no); }

}  // namespace ls
