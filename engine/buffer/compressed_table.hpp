// compressed_table.hpp - where compressed pages lie (compressed_cache.hpp): a hash table of byte
// strings in cells of frames, cut into partitions by page.
//
// A page takes as many cells of 252 bytes as it needs, chained; its entry is at the start of the
// first.  The frames come from the free list; one goes back when all its cells are free.  In each
// partition the pages stand in the order in which they came.
//
// Latch order: see compressed_cache.hpp.
#pragma once
#include "base/check.hpp"
#include "buffer/pool_shared.hpp"

namespace ls {

// A cell's number: of its frame, times cells in a frame, and which one, plus one; 0: none.
using CellNo = u32;
inline constexpr u32 kCompressedCells = 16, kCompressedCellBytes = 252;

// In front of a page's bytes.
struct CompressedEntry {
  u32 file_no_low, file_no_high;   // cells are not aligned for more
  PageNo page_no;
  CellNo in_bucket;     // the next one
  CellNo older, newer;
  u32 crc;              // of the compressed bytes
  u32 since_low, since_high;
  u32 file_slot;
  u16 bytes;
  u16 shuffled_bytes : 15;   // when they are not compressed
  u16 writing : 1;

  FileNo file_no() const { return u64{file_no_high} << 32 | file_no_low; }
  void set_file_no(FileNo file_no) {
    file_no_low = static_cast<u32>(file_no);
    file_no_high = static_cast<u32>(file_no >> 32);
  }
  Gsn since() const { return u64{since_high} << 32 | since_low; }
  void set_since(Gsn since) {
    since_low = static_cast<u32>(since);
    since_high = static_cast<u32>(since >> 32);
  }
};
static_assert(sizeof(CompressedEntry) == 44 && alignof(CompressedEntry) == 4);
inline constexpr u32 kMostCompressedBytes = kPageSize / 2 - sizeof(CompressedEntry);

// The mutex of a partition.
class CompressedLock {
 public:
  // That of a page, which is the one meant by find() and add().
  CompressedLock(PoolShared &pool, FileNo file_no, PageNo page_no);
  // To look at all its pages.
  CompressedLock(PoolShared &pool, u32 partition);
  ~CompressedLock() { part_->mutex.unlock(); }
  CompressedLock(const CompressedLock &) = delete;
  CompressedLock &operator=(const CompressedLock &) = delete;

  CellNo find() const;
  CompressedEntry &entry(CellNo no) const {
    return *reinterpret_cast<CompressedEntry *>(cell(no).bytes);
  }
  // The page's bytes, kMostCompressedBytes at most.
  void copy_out(CellNo no, u8 *out, CompressedEntry *head) const;
  // False: there is no room, and the oldest page is one that the file does not have.
  bool add(const u8 *bytes, const CompressedEntry &head);
  void remove(CellNo no);

  // From the oldest on, until look(entry) says false.
  template <typename Look>
  void each_by_age(const Look &look) const {
    for (CellNo no = part_->oldest; no != 0 && look(entry(no)); no = entry(no).newer) {
    }
  }
  template <typename Look>
  void each_in(u32 bucket, const Look &look) const {
    for (CellNo no = pool_.compressed_heads[bucket]; no != 0; no = entry(no).in_bucket)
      look(entry(no));
  }

 private:
  struct Chunk;   // at the start of a frame with cells
  struct Cell {
    CellNo next;   // of the same page; of a free one: cell + 1
    u8 bytes[kCompressedCellBytes - sizeof(CellNo)];
  };
  static_assert(sizeof(Cell) == kCompressedCellBytes);
  static constexpr u32 kFirstBytes = sizeof(Cell::bytes) - sizeof(CompressedEntry);

  u32 bucket_of(FileNo file_no, PageNo page_no) const {
    return static_cast<u32>(hash_page(file_no, page_no)) & pool_.compressed_mask;
  }
  Chunk &chunk(u32 frame) const {
    return *reinterpret_cast<Chunk *>(pool_.pages + size_t{frame} * kPageSize);
  }
  Cell &cell_at(u32 frame, u32 index) const {
    constexpr u32 kFirst = kPageSize - kCompressedCells * kCompressedCellBytes;
    return *reinterpret_cast<Cell *>(pool_.pages + size_t{frame} * kPageSize + kFirst +
                                     index * kCompressedCellBytes);
  }
  Cell &cell(CellNo no) const {
    LS_ASSERT(no != 0 && (no - 1) / kCompressedCells < pool_.frame_count);
    return cell_at((no - 1) / kCompressedCells, (no - 1) % kCompressedCells);
  }
  void link(u32 frame);
  void unlink(u32 frame);
  bool new_chunk();
  CellNo take_cell();
  void give_back(CellNo no);

  PoolShared &pool_;
  const FileNo file_no_;
  const PageNo page_no_;
  CellNo *head_;
  CompressedPartition *part_;
};

}  // namespace ls
