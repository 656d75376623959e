// fd_cache.hpp - open descriptors of relation file segments, per process, bounded, least recently
// used go first.
//
// A descriptor that is in use stays open although it has left the cache (shared_ptr).  After fork
// the child begins with an empty cache of its own: the parent's may be locked by a thread that does
// not exist in the child.
#pragma once
#include <memory>

#include "base/status.hpp"
#include "os/file.hpp"

namespace ls {

class OpenSegment {
 public:
  OpenSegment() = default;
  ~OpenSegment();
  OpenSegment(const OpenSegment &) = delete;
  OpenSegment &operator=(const OpenSegment &) = delete;
  void set(int fd, bool direct) {
    fd_ = fd;
    direct_ = direct;
  }
  int fd() const { return fd_; }
  bool direct() const { return direct_; }  // opened O_DIRECT: buffers have to be aligned

 private:
  int fd_ = -1;
  bool direct_ = false;
};
using SegmentRef = std::shared_ptr<OpenSegment>;

enum class SegmentOpen : u8 { kExisting, kCreate };

void fd_cache_setup(const char *root_dir, bool direct_io, u32 max_fds);
bool fd_cache_direct();
const char *fd_cache_root();
// Absolute path of a segment.
struct SegmentPath {
  SegmentPath(const FileRef &file, u32 segment);
  char text[800];
};
// kExisting: LS_NOT_FOUND when the segment's file does not exist.  Never throws (LS_NO_MEMORY).
Status fd_cache_get(const FileRef &file, u32 segment, SegmentOpen mode, SegmentRef *out);
void fd_cache_forget(FileNo file_no);
u32 fd_cache_size();

}  // namespace ls
