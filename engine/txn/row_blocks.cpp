// row_blocks.cpp - the memory of cells, and which file has which.
#include "txn/row_blocks.hpp"

#include <iterator>
#include <new>

#include "base/check.hpp"

namespace ls {

namespace {

void vouch_word(RowCell &cell, u32 word) {
  constexpr u32 kStep =
      static_cast<u32>(BlockFact::kVouched) - static_cast<u32>(BlockFact::kClean);
  u64 seen = cell.facts[word].load(std::memory_order_relaxed), now;
  do {
    now = seen | (seen & RowCell::all(BlockFact::kClean)) << kStep;
  } while (!cell.facts[word].compare_exchange_weak(seen, now, std::memory_order_seq_cst));
}

}  // namespace

size_t RowBlocks::bytes_for(u64 frames) {
  return buckets_for(frames) * (sizeof(Bucket) + kWays * sizeof(RowCell));
}

void RowBlocks::init(void *memory, u64 frames) {
  const u64 count = buckets_for(frames);
  u8 *at = static_cast<u8 *>(memory);
  LS_ASSERT(reinterpret_cast<size_t>(at) % kCacheLine == 0);
  buckets_ = reinterpret_cast<Bucket *>(at);
  cells_ = reinterpret_cast<RowCell *>(at + count * sizeof(Bucket));
  mask_ = count - 1;
  for (u64 i = 0; i < count; i++) new (buckets_ + i) Bucket{};
  for (u64 i = 0; i < count * kWays; i++) new (cells_ + i) RowCell{};
}

RowCell *RowBlocks::own(u64 file_no, u64 cell_no) {
  LS_ASSERT(file_no != 0);
  Bucket &bucket = bucket_of(file_no, cell_no);
  // The one that is there; else one that was never used; else any, another one each time.
  u32 way = static_cast<u32>((cell_no + file_no) % kWays);
  for (u32 i = 0; i < kWays; i++) {
    if (bucket.tags[i].file_no.load(std::memory_order_relaxed) == 0) way = i;
  }
  for (u32 i = 0; i < kWays; i++) {
    if (bucket.tags[i].is(file_no, cell_no)) way = i;
  }
  RowCell *cell = cells_ + cell_index(bucket, way);
  u32 free = 0;
  if (!cell->owned.compare_exchange_strong(free, 1, std::memory_order_seq_cst)) return nullptr;
  Tag &tag = bucket.tags[way];
  if (tag.is(file_no, cell_no)) return cell;
  // No file's, then empty, then this one's.  A worker that still takes it for the other file's
  // clears too much.
  cell->moves.fetch_add(1, std::memory_order_seq_cst);
  tag.file_no.store(0, std::memory_order_seq_cst);
  for (std::atomic<u64> &word : cell->facts) word.store(0, std::memory_order_seq_cst);
  tag.cell_no.store(cell_no, std::memory_order_seq_cst);
  tag.file_no.store(file_no, std::memory_order_seq_cst);
  cell->moves.fetch_add(1, std::memory_order_seq_cst);
  return cell;
}

void RowBlocks::put(const Known &known) {
  const OwnCell cell(*this, known.file_no, known.cell_no);
  LS_ASSERT(cell.get());
  for (u32 word = 0; word < std::size(known.facts); word++)
    cell.get()->facts[word].store(known.facts[word], std::memory_order_release);
  std::copy(std::begin(known.rows), std::end(known.rows), cell.get()->rows);
}

void RowBlocks::vouch(u64 file_no) {
  vouches_[file_no % kVouchCounters].fetch_add(1, std::memory_order_seq_cst);
  for (u64 i = 0; i <= mask_; i++) {
    for (u32 way = 0; way < kWays; way++) {
      const Tag &tag = buckets_[i].tags[way];
      if (tag.file_no.load(std::memory_order_relaxed) != file_no) continue;
      RowCell *cell = cells_ + cell_index(buckets_[i], way);
      u32 free = 0;
      if (!cell->owned.compare_exchange_strong(free, 1, std::memory_order_seq_cst)) continue;
      const bool same = tag.file_no.load(std::memory_order_relaxed) == file_no;
      for (u32 word = 0; same && word < std::size(cell->facts); word++) vouch_word(*cell, word);
      release(cell);
    }
  }
}

}  // namespace ls
