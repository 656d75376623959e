// packed_pages.hpp - clean leaves that had to leave their frames, compressed: whoever wants one again finds it here instead of in the file.
//
// A page provider packs a leaf that it evicts, if that halves it at least; whoever would read it takes it out.  Packed pages lie in cells of
// frames taken from the free list, `packed_percent` of the pool at most; the oldest ones make room for new ones.  Where few are wanted again, or
// few can be packed, only one of sixteen is tried.
//
// K1  A page that is here is in no frame, and is what the file has, but for bytes that mean nothing.  Put in: with parent and frame latched exclusively,
//     before the swip changes.  Taken out: by its only reader (I/O stage), or with the parent latched exclusively by who enters
//     another image of it into a frame; and before its number is given to a new page.
// K2  A file's number is never used again: what is here of files that are gone is met by nobody, and is soon the oldest.
//
// Latch order: parent < frame < partition mutex < frame that is not in a tree.
#pragma once
#include <memory>
#include <span>

#include "buffer/pool_shared.hpp"

namespace ls {

// Of one page provider.
class PagePacker {
 public:
  explicit PagePacker(PoolShared &pool);
  ~PagePacker();
  PagePacker(const PagePacker &) = delete;
  PagePacker &operator=(const PagePacker &) = delete;

  // Compress a copy of a leaf that is about to be evicted; false: it is not to be kept.
  bool pack(const u8 *leaf);
  // What was packed last (K1).
  void put(FileNo file_no, PageNo page_no);

 private:
  struct Buffers;
  bool is_worth_it();

  PoolShared &pool_;
  std::unique_ptr<Buffers> buffers_;
  u32 bytes_ = 0, arranged_bytes_ = 0, crc_ = 0;
  u32 met_ = 0;                          // leaves, where one of some is tried
  u64 failed_ = 0;                       // could not be packed
  u64 outcomes_before_ = 0, unpacked_before_ = 0;   // when it was last asked how many are wanted again
  bool seldom_ = false;
};

// Take the page out, if it is here, into `page`.
bool unpack_page(PoolShared &pool, FileNo file_no, PageNo page_no, u8 *page);
// It comes into a frame from elsewhere.
void drop_packed(PoolShared &pool, FileNo file_no, PageNo page_no);

}  // namespace ls
