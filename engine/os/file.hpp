// file.hpp - every system call on files goes through here, so tests can make them fail
// (os/fault.hpp).
//
// Relation files: segments of 1 GiB ("path", "path.1", ...), opened on demand and cached per
// process (bounded LRU, thread-safe), keyed by file number: a forgotten number is closed lazily.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "base/types.hpp"

namespace ls {

struct FileRef {
  FileNo file_no;
  const char *path;  // first segment, relative to the root directory
};
// With this bit a number is that of a relation's further file, which is always opened through the
// page cache.
inline constexpr FileNo kFurtherFile = FileNo{1} << 63;

// Process-wide settings, once per process before use.  Without direct I/O in the file system
// (tmpfs) files are opened buffered.  fsync == false: no sync function here does anything.
void file_setup(const char *root_dir, bool direct_io, bool fsync, u32 max_fds);

// Read one page.  LS_END when it lies (partly) beyond the end of the file or was never written (a
// hole, or space that file_extend allocated: all zeros, which no page of ours is); LS_NOT_FOUND
// when the file is gone.
Status file_read_page(const FileRef &file, PageNo page, u8 *buffer);
Status file_write_page(const FileRef &file, PageNo page, const u8 *buffer);
// Grow to at least `pages` pages with space really allocated (ENOSPC shows here, not at
// write-back).  Segments are filled to 1 GiB before the next is created; the first is the host's:
// LS_NOT_FOUND when it does not exist.  One caller per file at a time.
Status file_extend(const FileRef &file, u32 pages);
// What an empty file begins with, through the page cache: no I/O, if the file is gone before it is
// written back, and no allocation that has to be journalled.  The file has these bytes then; like
// all pages they are synced later.
Status file_begin(const FileRef &file, std::span<const u8> bytes);
// Shrink to so many pages, if it has more.  Segments that are emptied stay, for other processes may
// have them open.  Not beside file_extend.
Status file_shrink(const FileRef &file, u32 pages);
Status file_pages(const FileRef &file, u32 *pages);  // size now; LS_NOT_FOUND when there is none
// *lost, unless null: the sync itself has failed.  What was written before may have gone from the
// page cache then, and the next sync would know nothing of it: it must not be tried again.
Status file_sync(const FileRef &file, bool *lost = nullptr);
void file_forget(FileNo file_no);  // close this process' descriptors, those of a further file, too

// Of further files, which have no pages of the engine: any bytes.  Make the first segment, if it is
// not there; its name is durable then.
Status file_make(const FileRef &file);
// *got: less than `bytes` only at the end of the file.  LS_NOT_FOUND: there is none.
Status file_read_range(const FileRef &file, u64 offset, u8 *buffer, size_t bytes, size_t *got);
// Within what file_extend has allocated.  write_out: the kernel begins to, so that a sync that a
// commit is going to wait for has less to do.
Status file_write_range(const FileRef &file, u64 offset, const u8 *buffer, size_t bytes,
                        bool write_out = false);

class IoRing;  // io_ring.hpp; one thread at a time
IoRing *io_ring_create(u32 entries);
void io_ring_destroy(IoRing *ring);
struct IoRingDeleter {
  void operator()(IoRing *ring) const { io_ring_destroy(ring); }
};

// A batch of page writes by io_uring (or pwrite where the kernel has none).  Buffers must stay
// until io_write_pages returns.
struct PageWrite {
  FileRef file;
  PageNo page;
  const u8 *buffer;
  Status status{LS_OK};  // result
};
// all done at return; first failure returned
Status io_write_pages(IoRing *ring, std::span<PageWrite> writes);

// Plain files (log segments, doublewrite buffer, control file): absolute paths.
class File {
 public:
  File() = default;
  File(File &&other) noexcept;
  File &operator=(File &&other) noexcept;
  ~File();
  // flags as open(2) without the access mode; created 0600.
  Status open(const char *path, int flags);
  // Past the page cache if file_setup says so and the file system can: write_at takes only
  // multiples of 4096 then, everywhere.
  Status open_direct(const char *path);
  void close();
  bool is_open() const { return fd_ >= 0; }
  // short only at the end of the file
  Status read_at(u64 offset, void *buffer, size_t bytes, size_t *got);
  Status write_at(u64 offset, const void *buffer, size_t bytes);        // all or an error
  Status sync_data();
  Status truncate(u64 bytes);
  // Grow to `bytes`, with space that is there and reads as zeros, without writing it.  *done false:
  // the file system cannot, and nothing has changed.
  Status allocate(u64 bytes, bool *done);
  Status size(u64 *bytes);
  // Does it have a name still?
  Status is_linked(bool *linked);
  const char *path() const { return path_; }

 private:
  int fd_ = -1;
  char path_[640] = "";
};
// temp, sync, rename, sync dir
Status file_write_atomically(const char *path, std::span<const u8> bytes);
Status file_unlink(const char *path);   // absent is fine
Status file_rename(const char *from, const char *to);
Status directory_sync(const char *path);
Status directory_list(const char *path, bool (*each)(void *arg, const char *name), void *arg);
Status directory_names(const char *path, std::vector<std::string> *names);   // all of them

}  // namespace ls
