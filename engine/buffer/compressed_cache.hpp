// compressed_cache.hpp - the compressed page cache: evicted leaves, compressed, found here instead
// of in the file.
//
// A page provider compresses a leaf that it evicts, if that halves it at least, changed or not; a
// reader that would read it takes it out.  Compressed pages lie in cells of frames taken from the
// free list, `compressed_cache_percent` of the pool at most.  The oldest ones that the file has,
// too, make room for new ones.  Where few are wanted again, or few can be compressed, only one of
// sixteen is tried.
//
// COMP-1  A page that is here is in no frame, and is its newest content, but for its buffered
//         changes and bytes that mean nothing.  Put in: with parent and frame latched exclusively,
//         before the swip changes.  Taken out: by its only reader (I/O stage); if the file has it,
//         too, by a scan, a checkpoint or recovery that enters another image of it into a frame,
//         with the parent latched exclusively.
// COMP-2  `since`: as Frame::dirty_since.  A page provider or a reader that moves such a mark puts
//         it into its new place, notes that (note_moved), and takes it from its old one: a scan for
//         the oldest (BufferPool::oldest_dirty) finds it in one of them or there.
// COMP-3  A page that is being written is not taken out: a reader that wants it waits.
// COMP-4  A file's number is never another file's.  What is here of files that are gone is met by
//         no worker, and makes room like what the file has.  What is here of one that was closed is
//         what the file has, and is met when it is opened again.
//
// Latch order: parent < frame < partition mutex < frame that is not in a tree, I/O partition mutex.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "buffer/pool_shared.hpp"

namespace ls {

struct CompressedPage {
  u32 file_slot;
  FileNo file_no;
  PageNo page_no;
  Gsn since;      // 0: the file has it
};

// Of one page provider.
class PageCompressor {
 public:
  explicit PageCompressor(PoolShared &pool);
  ~PageCompressor();
  PageCompressor(const PageCompressor &) = delete;
  PageCompressor &operator=(const PageCompressor &) = delete;

  // Compress a copy of a leaf that is about to be evicted; false: it is not to be kept.
  bool compress(const u8 *leaf);
  // What was compressed last (COMP-1).  False: there is no room, or a flush that is under way wants
  // it written.
  bool put(const CompressedPage &page);

 private:
  struct Buffers;
  bool is_worth_it();

  PoolShared &pool_;
  std::unique_ptr<Buffers> buffers_;
  u32 bytes_ = 0, shuffled_bytes_ = 0, crc_ = 0;
  u32 met_ = 0;                          // leaves, where one of some is tried
  u64 failed_ = 0;                       // could not be compressed
  // when it was last asked how many are wanted again
  u64 outcomes_before_ = 0, decompressed_before_ = 0;
  bool seldom_ = false;
};

// kBusy: it is being written.  kDamaged: it is not what it was, and the file does not have it; the
// store has failed then (PoolShared::failure), and a start makes the page anew.
enum class Decompressed : u8 { kYes, kNotHere, kBusy, kDamaged };
// Take the page out, if it is here, into a frame that is the caller's alone.
Decompressed decompress_page(PoolShared &pool, FileNo file_no, PageNo page_no, Frame *frame);
// The page itself stays.
Decompressed copy_compressed(PoolShared &pool, FileNo file_no, PageNo page_no, u8 *page);
// Is it here, and not in the file?
bool is_compressed_dirty(PoolShared &pool, FileNo file_no, PageNo page_no);
// The file has it, too, and it comes into a frame from elsewhere.
void drop_compressed(PoolShared &pool, FileNo file_no, PageNo page_no);

// ---- to be written (page_writer.hpp)
// Claim a page of up_to or before, and copy it.  Only kYes claims.  kNotHere: it has been taken
// out, or written.
Decompressed begin_compressed_write(PoolShared &pool, const CompressedPage &page, Gsn up_to,
                                    u8 *copy);
// The file has it now; or the write has failed.
void end_compressed_write(PoolShared &pool, FileNo file_no, PageNo page_no, bool success);
// Pages of logged files: the least GSN; ~0 when none.
Gsn oldest_compressed(PoolShared &pool);
// Those of up_to or before.
std::vector<CompressedPage> dirty_compressed(PoolShared &pool, Gsn up_to);
// Of those that would make room next, if the file had them: `most` at most.  Nothing while there
// are frames to take.
std::vector<CompressedPage> dirty_oldest(PoolShared &pool, u32 most);

}  // namespace ls
