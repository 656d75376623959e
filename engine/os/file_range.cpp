// Relation files: any range of bytes, across segments.
#include <algorithm>
#include <cerrno>

#include "os/fd_cache.hpp"
#include "os/file.hpp"
#include "os/file_settings.hpp"
#include "os/sys_calls.hpp"

namespace ls {

namespace {

// The part of a range that is in one segment.
struct SegmentPart {
  SegmentPart(u64 offset, size_t bytes)
      : segment(static_cast<u32>(offset / kSegmentBytes)),
        offset_in(offset % kSegmentBytes),
        size(static_cast<size_t>(std::min<u64>(bytes, kSegmentBytes - offset_in))) {}
  u32 segment;
  u64 offset_in;
  size_t size;
};

}  // namespace

Status file_read_range(const FileRef &file, u64 offset, u8 *buffer, size_t bytes, size_t *got) {
  for (*got = 0; *got < bytes;) {
    const SegmentPart part(offset + *got, bytes - *got);
    SegmentRef segment;
    const Status status = fd_cache_get(file, part.segment, SegmentOpen::kExisting, &segment);
    if (code(status) == LS_NOT_FOUND && part.segment > 0) return kOk;
    LS_TRY(status);
    const ssize_t n =
        sys_pread(segment->fd(), buffer + *got, part.size, part.offset_in, file.path);
    if (n < 0) return fail_errno(errno, file.path, "could not read relation file");
    *got += static_cast<size_t>(n);
    if (n < static_cast<ssize_t>(part.size)) return kOk;
  }
  return kOk;
}

Status file_write_range(const FileRef &file, u64 offset, const u8 *buffer, size_t bytes,
                        bool write_out) {
  for (size_t done = 0; done < bytes;) {
    const SegmentPart part(offset + done, bytes - done);
    SegmentRef segment;
    LS_TRY(fd_cache_get(file, part.segment, SegmentOpen::kExisting, &segment));
    if (sys_pwrite(segment->fd(), buffer + done, part.size, part.offset_in, file.path) < 0) {
      return fail_errno(errno, file.path, "could not write relation file");
    }
    if (write_out && file_fsync_enabled())
      sys_begin_writeback(segment->fd(), part.offset_in, part.size);
    done += part.size;
  }
  return kOk;
}

}  // namespace ls
