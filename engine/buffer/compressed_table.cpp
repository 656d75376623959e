// compressed_table.cpp - entries by hash, their bytes in cells of frames.
#include "buffer/compressed_table.hpp"

#include <algorithm>
#include <cstring>

namespace ls {

struct CompressedLock::Chunk {
  u32 next, previous;   // frame + 1, of those of its partition with a free cell
  u16 free;             // cell + 1
  u16 used;
  u8 unused[52];
};

CompressedLock::CompressedLock(PoolShared &pool, FileNo file_no, PageNo page_no)
    : pool_(pool), file_no_(file_no), page_no_(page_no) {
  static_assert(sizeof(Chunk) + kCompressedCells * kCompressedCellBytes == kPageSize);
  const u32 bucket = bucket_of(file_no, page_no);
  head_ = &pool.compressed_heads[bucket];
  part_ = &pool.compressed_partitions[bucket % kCompressedPartitions];
  part_->mutex.lock();
}

CompressedLock::CompressedLock(PoolShared &pool, u32 partition)
    : pool_(pool),
      file_no_(0),
      page_no_(0),
      head_(nullptr),
      part_(&pool.compressed_partitions[partition]) {
  part_->mutex.lock();
}

CellNo CompressedLock::find() const {
  CellNo no = *head_;
  while (no != 0 && !(entry(no).page_no == page_no_ && entry(no).file_no() == file_no_))
    no = entry(no).in_bucket;
  return no;
}

void CompressedLock::copy_out(CellNo no, u8 *out, CompressedEntry *head) const {
  *head = entry(no);
  const u8 *from = cell(no).bytes + sizeof(CompressedEntry);
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

void CompressedLock::remove(CellNo no) {
  const CompressedEntry gone = entry(no);
  LS_ASSERT(!gone.writing);   // COMP-3
  CellNo *at = &pool_.compressed_heads[bucket_of(gone.file_no(), gone.page_no)];
  while (*at != no) at = &entry(*at).in_bucket;
  *at = gone.in_bucket;
  (gone.older != 0 ? entry(gone.older).newer : part_->oldest) = gone.newer;
  (gone.newer != 0 ? entry(gone.newer).older : part_->newest) = gone.older;
  give_back(no);
  LS_ASSERT(pool_.compressed_count.load(std::memory_order_relaxed) > 0);
  pool_.compressed_count.fetch_sub(1, std::memory_order_relaxed);
  if (gone.since() != 0) pool_.compressed_dirty.fetch_sub(1, std::memory_order_relaxed);
}

bool CompressedLock::add(const u8 *bytes, const CompressedEntry &head) {
  LS_ASSERT(head.bytes <= kMostCompressedBytes);
  const u32 behind = head.bytes > kFirstBytes ? head.bytes - kFirstBytes : 0;
  const u32 cells = 1 + (behind + static_cast<u32>(sizeof(Cell::bytes)) - 1) /
                            static_cast<u32>(sizeof(Cell::bytes));
  CellNo first = 0;
  for (u32 i = 0; i < cells; i++) {
    const CellNo no = take_cell();
    if (no == 0) {
      give_back(first);
      return false;
    }
    cell(no).next = first;
    first = no;
  }
  const u8 *from = bytes;
  u32 left = head.bytes;
  for (CellNo no = first; no != 0; no = cell(no).next) {
    const u32 at = no == first ? static_cast<u32>(sizeof(CompressedEntry)) : 0,
              n = std::min(left, static_cast<u32>(sizeof(Cell::bytes)) - at);
    std::memcpy(cell(no).bytes + at, from, n);
    from += n;
    left -= n;
  }
  LS_ASSERT(left == 0);
  CompressedEntry &added = entry(first);
  added = head;
  added.in_bucket = *head_;
  *head_ = first;
  added.newer = 0;
  added.older = part_->newest;
  (part_->newest != 0 ? entry(part_->newest).newer : part_->oldest) = first;
  part_->newest = first;
  pool_.compressed_count.fetch_add(1, std::memory_order_release);
  if (head.since() != 0) pool_.compressed_dirty.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void CompressedLock::link(u32 frame) {
  chunk(frame).previous = 0;
  chunk(frame).next = part_->chunks;
  if (part_->chunks != 0) chunk(part_->chunks - 1).previous = frame + 1;
  part_->chunks = frame + 1;
}

void CompressedLock::unlink(u32 frame) {
  const Chunk &c = chunk(frame);
  LS_ASSERT(c.previous != 0 || part_->chunks == frame + 1);
  (c.previous != 0 ? chunk(c.previous - 1).next : part_->chunks) = c.next;
  if (c.next != 0) chunk(c.next - 1).previous = c.previous;
}

bool CompressedLock::new_chunk() {
  Frame *frame = borrow_frame(pool_, pool_.compressed_frames, pool_.most_compressed_frames);
  if (!frame) return false;
  const u32 index = static_cast<u32>(frame - pool_.frames);
  Chunk &c = chunk(index);
  c = {};
  for (u32 i = 0; i < kCompressedCells; i++)
    cell_at(index, i).next = i + 2 <= kCompressedCells ? i + 2 : 0;
  c.free = 1;
  frame->latch.unlock_exclusive();
  link(index);
  return true;
}

CellNo CompressedLock::take_cell() {
  while (part_->chunks == 0) {
    if (new_chunk()) break;
    if (part_->oldest == 0) return 0;
    const CompressedEntry &oldest = entry(part_->oldest);
    if (oldest.writing ||
        (oldest.since() != 0 && is_in_use(pool_, oldest.file_slot, oldest.file_no())))
      return 0;
    remove(part_->oldest);
    pool_.outlived.fetch_add(1, std::memory_order_relaxed);
  }
  const u32 frame = part_->chunks - 1;
  Chunk &c = chunk(frame);
  LS_ASSERT(c.free != 0 && c.used < kCompressedCells);
  const u32 index = c.free - 1u;
  c.free = static_cast<u16>(cell_at(frame, index).next);
  c.used++;
  if (c.free == 0) unlink(frame);
  return frame * kCompressedCells + index + 1;
}

// With those that follow it.
void CompressedLock::give_back(CellNo no) {
  while (no != 0) {
    const CellNo next = cell(no).next;
    const u32 frame = (no - 1) / kCompressedCells, index = (no - 1) % kCompressedCells;
    Chunk &c = chunk(frame);
    LS_ASSERT(c.used > 0);
    if (c.free == 0) link(frame);
    cell_at(frame, index).next = c.free;
    c.free = static_cast<u16>(index + 1);
    if (--c.used == 0) {
      unlink(frame);
      return_frame(pool_, pool_.compressed_frames, pool_.frames + frame);
    }
    no = next;
  }
}

}  // namespace ls
