#include "buffer/packed_pages.hpp"

#include <lz4.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/check.hpp"
#include "base/crc32c.hpp"
#include "buffer/pool.hpp"

namespace ls {

namespace {

// A cell's number: of its frame, times cells in a frame, and which one, plus one; 0: none.
using CellNo = u32;
constexpr u32 kCells = 16, kCellBytes = 252;

// At the start of a frame with cells.
struct Chunk {
  u32 next, previous;   // frame + 1, of those of its partition with a free cell
  u16 free;             // cell + 1
  u16 used;
  u8 unused[52];
};
static_assert(sizeof(Chunk) + kCells * kCellBytes == kPageSize);

struct Cell {
  CellNo next;          // of the same page; of a free one: cell + 1
  u8 bytes[kCellBytes - sizeof(CellNo)];
};
static_assert(sizeof(Cell) == kCellBytes);

// In front of the bytes in the first cell.
struct Entry {
  FileNo file_no;
  PageNo page_no;
  CellNo in_bucket;     // the next one
  CellNo older, newer;
  u32 crc;              // of the bytes before they were compressed
  u16 bytes, arranged_bytes;
};
constexpr u32 kFirstBytes = sizeof(Cell::bytes) - sizeof(Entry);
constexpr u32 kMostPackedBytes = kPageSize / 2 - sizeof(Entry);

// After how many outcomes, or fewer where one of some is tried, it is asked whether packed pages are wanted again; one in so many must be.
constexpr u32 kLook = 8192, kSeldomLook = 512, kSeldom = 16, kWantedShare = 8;

class Partition {
 public:
  Partition(PoolShared &pool, FileNo file_no, PageNo page_no) : pool_(pool), file_no_(file_no), page_no_(page_no) {
    const u32 bucket = bucket_of(file_no, page_no);
    head_ = &pool.packed_heads[bucket];
    part_ = &pool.packed_partitions[bucket % kPackedPartitions];
    part_->mutex.lock();
  }
  ~Partition() { part_->mutex.unlock(); }
  Partition(const Partition &) = delete;
  Partition &operator=(const Partition &) = delete;

  CellNo find() const {
    CellNo no = *head_;
    while (no != 0 && !is_wanted(entry(no))) no = entry(no).in_bucket;
    return no;
  }
  void copy_out(CellNo no, u8 *out, Entry *head) const {
    *head = entry(no);
    const u8 *from = cell(no).bytes + sizeof(Entry);
    u32 room = kFirstBytes;
    for (u32 left = head->bytes; left > 0;) {
      const u32 n = std::min(left, room);
      std::memcpy(out, from, n);
      out += n;
      left -= n;
      if (left == 0) break;
      no = cell(no).next;
      from = cell(no).bytes;
      room = sizeof(Cell::bytes);
    }
  }
  void remove(CellNo no) {
    const Entry gone = entry(no);
    CellNo *at = &pool_.packed_heads[bucket_of(gone.file_no, gone.page_no)];
    while (*at != no) at = &entry(*at).in_bucket;
    *at = gone.in_bucket;
    (gone.older != 0 ? entry(gone.older).newer : part_->oldest) = gone.newer;
    (gone.newer != 0 ? entry(gone.newer).older : part_->newest) = gone.older;
    give_back(no);
    pool_.packed_count.fetch_sub(1, std::memory_order_relaxed);
  }
  void add(const u8 *bytes, const Entry &head) {
    const u32 behind = head.bytes > kFirstBytes ? head.bytes - kFirstBytes : 0;
    const u32 cells = 1 + (behind + static_cast<u32>(sizeof(Cell::bytes)) - 1) / static_cast<u32>(sizeof(Cell::bytes));
    CellNo first = 0;
    for (u32 i = 0; i < cells; i++) {
      const CellNo no = take_cell();
      if (no == 0) return give_back(first);
      cell(no).next = first;
      first = no;
    }
    const u8 *from = bytes;
    u32 left = head.bytes;
    for (CellNo no = first; no != 0; no = cell(no).next) {
      const u32 at = no == first ? static_cast<u32>(sizeof(Entry)) : 0, n = std::min(left, static_cast<u32>(sizeof(Cell::bytes)) - at);
      std::memcpy(cell(no).bytes + at, from, n);
      from += n;
      left -= n;
    }
    Entry &added = entry(first);
    added = head;
    added.in_bucket = *head_;
    *head_ = first;
    added.newer = 0;
    added.older = part_->newest;
    (part_->newest != 0 ? entry(part_->newest).newer : part_->oldest) = first;
    part_->newest = first;
    pool_.packed_count.fetch_add(1, std::memory_order_release);
  }

 private:
  u32 bucket_of(FileNo file_no, PageNo page_no) const { return static_cast<u32>(hash_page(file_no, page_no)) & pool_.packed_mask; }
  bool is_wanted(const Entry &e) const { return e.page_no == page_no_ && e.file_no == file_no_; }
  Chunk &chunk(u32 frame) const { return *reinterpret_cast<Chunk *>(pool_.pages + size_t{frame} * kPageSize); }
  Cell &cell_at(u32 frame, u32 index) const {
    return *reinterpret_cast<Cell *>(pool_.pages + size_t{frame} * kPageSize + sizeof(Chunk) + index * kCellBytes);
  }
  Cell &cell(CellNo no) const { return cell_at((no - 1) / kCells, (no - 1) % kCells); }
  Entry &entry(CellNo no) const { return *reinterpret_cast<Entry *>(cell(no).bytes); }

  void link(u32 frame) {
    chunk(frame).previous = 0;
    chunk(frame).next = part_->chunks;
    if (part_->chunks != 0) chunk(part_->chunks - 1).previous = frame + 1;
    part_->chunks = frame + 1;
  }
  void unlink(u32 frame) {
    const Chunk &c = chunk(frame);
    (c.previous != 0 ? chunk(c.previous - 1).next : part_->chunks) = c.next;
    if (c.next != 0) chunk(c.next - 1).previous = c.previous;
  }
  bool new_chunk() {
    Frame *frame = borrow_frame(pool_, pool_.packed_frames, pool_.most_packed_frames);
    if (!frame) return false;
    const u32 index = static_cast<u32>(frame - pool_.frames);
    Chunk &c = chunk(index);
    c = {};
    for (u32 i = 0; i < kCells; i++) cell_at(index, i).next = i + 2 <= kCells ? i + 2 : 0;
    c.free = 1;
    frame->latch.unlock_exclusive();
    link(index);
    return true;
  }
  CellNo take_cell() {
    while (part_->chunks == 0) {
      if (new_chunk()) break;
      if (part_->oldest == 0) return 0;
      remove(part_->oldest);
      pool_.outlived.fetch_add(1, std::memory_order_relaxed);
    }
    const u32 frame = part_->chunks - 1;
    Chunk &c = chunk(frame);
    const u32 index = c.free - 1u;
    c.free = static_cast<u16>(cell_at(frame, index).next);
    c.used++;
    if (c.free == 0) unlink(frame);
    return frame * kCells + index + 1;
  }
  // With those that follow it.
  void give_back(CellNo no) {
    while (no != 0) {
      const CellNo next = cell(no).next;
      const u32 frame = (no - 1) / kCells, index = (no - 1) % kCells;
      Chunk &c = chunk(frame);
      if (c.free == 0) link(frame);
      cell_at(frame, index).next = c.free;
      c.free = static_cast<u16>(index + 1);
      if (--c.used == 0) {
        unlink(frame);
        return_frame(pool_, pool_.packed_frames, pool_.frames + frame);
      }
      no = next;
    }
  }

  PoolShared &pool_;
  const FileNo file_no_;
  const PageNo page_no_;
  CellNo *head_;
  PackedPartition *part_;
};

}  // namespace

struct PagePacker::Buffers {
  alignas(kCacheLine) u8 arranged[kMostArrangedBytes];
  alignas(kCacheLine) u8 packed[kMostPackedBytes];
};

PagePacker::PagePacker(PoolShared &pool) : pool_(pool), buffers_(new Buffers) {}

PagePacker::~PagePacker() = default;

bool PagePacker::is_worth_it() {
  if (pool_.most_packed_frames == 0 || !tree_ops().arrange) return false;
  const u64 unpacked = pool_.unpacked.load(std::memory_order_relaxed);
  const u64 outcomes = unpacked + pool_.outlived.load(std::memory_order_relaxed) + failed_;
  if (outcomes - outcomes_before_ >= (seldom_ ? kSeldomLook : kLook)) {
    seldom_ = (unpacked - unpacked_before_) * kWantedShare < outcomes - outcomes_before_;
    unpacked_before_ = unpacked;
    outcomes_before_ = outcomes;
  }
  return !seldom_ || met_++ % kSeldom == 0;
}

bool PagePacker::pack(const u8 *leaf) {
  if (!is_worth_it()) return false;
  arranged_bytes_ = tree_ops().arrange(leaf, buffers_->arranged);
  LS_ASSERT(arranged_bytes_ <= kMostArrangedBytes);
  const int bytes = LZ4_compress_default(reinterpret_cast<const char *>(buffers_->arranged), reinterpret_cast<char *>(buffers_->packed),
                                         static_cast<int>(arranged_bytes_), sizeof buffers_->packed);
  if (bytes <= 0) {
    failed_++;
    return false;
  }
  bytes_ = static_cast<u32>(bytes);
  crc_ = crc32c(0, buffers_->arranged, arranged_bytes_);
  return true;
}

void PagePacker::put(FileNo file_no, PageNo page_no) {
  Partition partition(pool_, file_no, page_no);
  LS_ASSERT(partition.find() == 0);
  partition.add(buffers_->packed, {file_no, page_no, 0, 0, 0, crc_, static_cast<u16>(bytes_), static_cast<u16>(arranged_bytes_)});
}

bool unpack_page(PoolShared &pool, FileNo file_no, PageNo page_no, u8 *page) {
  if (pool.packed_count.load(std::memory_order_acquire) == 0) return false;
  u8 packed[kMostPackedBytes];
  Entry head;
  {
    Partition partition(pool, file_no, page_no);
    const u32 no = partition.find();
    if (no == 0) return false;
    partition.copy_out(no, packed, &head);
    partition.remove(no);
  }
  u8 arranged[kMostArrangedBytes];
  const int bytes = LZ4_decompress_safe(reinterpret_cast<const char *>(packed), reinterpret_cast<char *>(arranged), head.bytes, sizeof arranged);
  // The file has the page, too.
  if (bytes != head.arranged_bytes || crc32c(0, arranged, head.arranged_bytes) != head.crc) return false;
  if (!tree_ops().restore({arranged, head.arranged_bytes}, page)) return false;
  pool.unpacked.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void drop_packed(PoolShared &pool, FileNo file_no, PageNo page_no) {
  if (pool.packed_count.load(std::memory_order_acquire) == 0) return;
  Partition partition(pool, file_no, page_no);
  if (const u32 no = partition.find()) partition.remove(no);
}

}  // namespace ls
