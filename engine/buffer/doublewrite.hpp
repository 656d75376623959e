// doublewrite.hpp - protects pages of logged files against torn in-place writes.
//
// A batch first goes, whole, into an area of the doublewrite file and is synced there; only then
// are the pages written in place and the relation files synced; only after that may the area take
// another batch.  So whenever a crash tears a page in place, the area still holds the image that
// was to be written, and doublewrite_recover() puts it back.
//
// File: kTearAreas areas of kTearAreaBytes.  An area: TearHeader, entries and paths, padded to
// whole pages; then the pages.
//   DBLW-1  an area's pages count only when header and page verify (both have checksums): a torn
//           write of it happens before any page is touched in place, so nothing is lost with it.
//   DBLW-2  when the batch is finished its header is erased, so that an image is not brought back
//           much later over a page that was damaged in another way.  The erasure is not synced: it
//           merely has to get there some time.
//   DBLW-3  of several images of a page the one with the largest GSN counts.
//   DBLW-4  an area is given back when all its pages are whole in their files and synced.  One of
//           which that is not known stays taken until the next start, and no page is written any
//           more: the store has failed.
// A page of zeros, or beyond the end of its file, was never touched by the write; redo makes it
// anew from the log.
#pragma once
#include <span>

#include "buffer/pool_shared.hpp"
#include "buffer/page.hpp"
#include "os/file.hpp"

namespace ls {

inline constexpr u32 kTearPages = 256;        // pages in one batch: two syncs are shared by so many
inline constexpr u32 kTearHeaderPages = 9;    // at most, see TearHeader
inline constexpr u64 kTearAreaBytes = u64{kTearHeaderPages + kTearPages} * kPageSize;
inline constexpr u64 kTearMagic = 0x44524155474c534cu;

struct TearHeader {
  u64 magic;
  u32 crc;           // crc32c over the header's used bytes with this field zero
  u32 bytes;         // used: this struct, entries, paths
  u32 pages;
  u32 paths;
};
static_assert(sizeof(TearHeader) == 24);
struct TearEntry {
  PageNo page_no;
  u32 path;          // index
  u32 checksum;      // the page's own, once more
};
static_assert(sizeof(TearEntry) == 12);
struct TearPath {
  char path[sizeof(FileSlot::path)];
};
static_assert(sizeof(TearHeader) + kTearPages * (sizeof(TearEntry) + sizeof(TearPath)) <=
              kTearHeaderPages * kPageSize);

// A process' (thread's) access to the file.
class DoublewriteBuffer {
 public:
  explicit DoublewriteBuffer(PoolShared &pool) : pool_(pool) {}
  bool enabled() const { return pool_.doublewrite_path[0] != '\0'; }
  // `block`: kTearHeaderPages * kPageSize bytes of room, then the sealed pages one after the other
  // (page i belongs to writes[i]).  Takes an area (waits for one; no latch held) and makes the
  // images durable.  The area stays taken until end().  LS_INTERRUPTED, LS_NO_SPACE, LS_IO_ERROR.
  Status begin(u8 *block, std::span<const PageWrite> writes, const volatile int *interrupt);
  // DBLW-4: the pages are whole in place, and synced.
  void end();

 private:
  Status open();
  Status take_area(const volatile int *interrupt);

  PoolShared &pool_;
  File file_;
  u32 area_ = 0;
};

}  // namespace ls
