// compressed_cache.cpp - pages compressed on their way out, decompressed on their way in.
#include "buffer/compressed_cache.hpp"

#include <lz4.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/crc32c.hpp"
#include "base/failpoint.hpp"
#include "buffer/compressed_table.hpp"
#include "buffer/io_stage.hpp"
#include "buffer/pool.hpp"

namespace ls {

namespace {

// After how many outcomes, or fewer where one of some is tried, it is asked whether compressed
// pages are wanted again; one in so many must be.
constexpr u32 kLook = 8192, kSeldomLook = 512, kSeldom = 16, kWantedShare = 8;
// So many of the oldest ones of a partition should be in the file.
constexpr u32 kOldest = 32;
// A search through all pages gives the mutex up after so many buckets.
constexpr u32 kBucketsAtOnce = 512;

// A page as it lies in its cells, copied out of them.
struct Copied {
  CompressedEntry head;
  u8 compressed[kMostCompressedBytes];

  void take(const CompressedLock &lock, CellNo no) { lock.copy_out(no, compressed, &head); }
  bool restore(u8 *page) const {
    u8 shuffled[kMostShuffledBytes];
    return crc32c(0, compressed, head.bytes) == head.crc &&
           LZ4_decompress_safe(reinterpret_cast<const char *>(compressed),
                               reinterpret_cast<char *>(shuffled), head.bytes,
                               sizeof shuffled) == head.shuffled_bytes &&
           tree_ops().unshuffle({shuffled, head.shuffled_bytes}, page);
  }
};

// All that are there from the beginning to the end, and some of the others.
template <typename Look>
void each_page(PoolShared &pool, const Look &look) {
  constexpr u32 kStep = kCompressedPartitions * kBucketsAtOnce;
  for (u32 i = 0; i < kCompressedPartitions; i++) {
    for (u32 first = i; first <= pool.compressed_mask; first += kStep) {
      const CompressedLock lock(pool, i);
      for (u32 bucket = first; bucket <= pool.compressed_mask && bucket < first + kStep;
           bucket += kCompressedPartitions)
        lock.each_in(bucket, look);
    }
  }
}

// A page that cannot be restored.  What the file has is as good; or else the store has failed: a
// start makes the page anew from the log, which is kept as long as the entry is here.
Decompressed note_damage(PoolShared &pool, const CompressedEntry &entry) {
  if (entry.since() == 0 || !is_in_use(pool, entry.file_slot, entry.file_no()))
    return Decompressed::kNotHere;
  pool.failure.note(fail_page(pool.files[entry.file_slot].path, entry.page_no,
                              "a changed page was damaged in memory while it was compressed"));
  return Decompressed::kDamaged;
}

bool none_compressed(const PoolShared &pool) {
  return pool.compressed_count.load(std::memory_order_acquire) == 0;
}

}  // namespace

struct PageCompressor::Buffers {
  alignas(kCacheLine) u8 shuffled[kMostShuffledBytes];
  alignas(kCacheLine) u8 compressed[kMostCompressedBytes];
};

PageCompressor::PageCompressor(PoolShared &pool) : pool_(pool), buffers_(new Buffers) {}

PageCompressor::~PageCompressor() = default;

bool PageCompressor::is_worth_it() {
  if (pool_.most_compressed_frames == 0 || !tree_ops().shuffle) return false;
  const u64 decompressed = pool_.decompressed.load(std::memory_order_relaxed);
  const u64 outcomes = decompressed + pool_.outlived.load(std::memory_order_relaxed) + failed_;
  if (outcomes - outcomes_before_ >= (seldom_ ? kSeldomLook : kLook)) {
    seldom_ = (decompressed - decompressed_before_) * kWantedShare < outcomes - outcomes_before_;
    decompressed_before_ = decompressed;
    outcomes_before_ = outcomes;
  }
  return !seldom_ || met_++ % kSeldom == 0;
}

bool PageCompressor::compress(const u8 *leaf) {
  if (!is_worth_it()) return false;
  shuffled_bytes_ = tree_ops().shuffle(leaf, buffers_->shuffled);
  LS_ASSERT(shuffled_bytes_ <= kMostShuffledBytes);
  if (shuffled_bytes_ == 0) return false;
  const int bytes =
      LZ4_compress_default(reinterpret_cast<const char *>(buffers_->shuffled),
                           reinterpret_cast<char *>(buffers_->compressed),
                           static_cast<int>(shuffled_bytes_), sizeof buffers_->compressed);
  if (bytes <= 0) {
    failed_++;
    return false;
  }
  bytes_ = static_cast<u32>(bytes);
  crc_ = crc32c(0, buffers_->compressed, bytes_);
  return true;
}

bool PageCompressor::put(const CompressedPage &page) {
  CompressedLock lock(pool_, page.file_no, page.page_no);
  LS_ASSERT(lock.find() == 0);   // COMP-1
  LS_ASSERT(bytes_ > 0 && shuffled_bytes_ > 0);
  // Under the mutex: a flush looks here after it has said what it wants.
  if (page.since != 0 && page.since <= pool_.flush_bound.load(std::memory_order_seq_cst))
    return false;
  CompressedEntry head{};
  head.set_file_no(page.file_no);
  head.page_no = page.page_no;
  head.file_slot = page.file_slot;
  head.set_since(page.since);
  head.crc = crc_;
  head.bytes = static_cast<u16>(bytes_);
  head.shuffled_bytes = static_cast<u16>(shuffled_bytes_ & 0x7fff);
  FileSlot &file = pool_.files[page.file_slot];
  // Before the page is evicted: the file does not have what it has now (ReadAhead).
  if (page.since != 0) file.page_writes.fetch_add(1, std::memory_order_seq_cst);
  if (!lock.add(buffers_->compressed, head)) return false;
  note_moved(pool_, file, page.since);
  return true;
}

Decompressed decompress_page(PoolShared &pool, FileNo file_no, PageNo page_no, Frame *frame) {
  if (none_compressed(pool)) return Decompressed::kNotHere;
  Copied copied;
  {
    CompressedLock lock(pool, file_no, page_no);
    const CellNo no = lock.find();
    if (no == 0) return Decompressed::kNotHere;
    if (lock.entry(no).writing) return Decompressed::kBusy;
    copied.take(lock, no);
  }
  const bool good =
      copied.restore(pool.pages + static_cast<size_t>(frame - pool.frames) * kPageSize);
  LS_FAILPOINT(buffer_before_take_out);
  // Taken out only now, so that it stays if it is the only image.  Meanwhile it may have been
  // written, and then have made room.
  CompressedLock lock(pool, file_no, page_no);
  if (const CellNo no = lock.find(); no != 0) {
    const CompressedEntry &entry = lock.entry(no);
    if (entry.writing) return Decompressed::kBusy;
    if (!good && note_damage(pool, entry) == Decompressed::kDamaged) return Decompressed::kDamaged;
    if (const Gsn since = entry.since(); since != 0 && good) {
      LS_ASSERT(frame->dirty_since.load(std::memory_order_relaxed) == 0);   // COMP-2
      note_dirty(frame, since);
      note_moved(pool, pool.files[entry.file_slot], since);
    }
    lock.remove(no);
  }
  if (!good) return Decompressed::kNotHere;
  pool.decompressed.fetch_add(1, std::memory_order_relaxed);
  return Decompressed::kYes;
}

Decompressed copy_compressed(PoolShared &pool, FileNo file_no, PageNo page_no, u8 *page) {
  if (none_compressed(pool)) return Decompressed::kNotHere;
  Copied copied;
  {
    CompressedLock lock(pool, file_no, page_no);
    const CellNo no = lock.find();
    if (no == 0) return Decompressed::kNotHere;
    copied.take(lock, no);
  }
  return copied.restore(page) ? Decompressed::kYes : note_damage(pool, copied.head);
}

bool is_compressed_dirty(PoolShared &pool, FileNo file_no, PageNo page_no) {
  if (none_compressed(pool)) return false;
  const CompressedLock lock(pool, file_no, page_no);
  const CellNo no = lock.find();
  return no != 0 && lock.entry(no).since() != 0;
}

void drop_compressed(PoolShared &pool, FileNo file_no, PageNo page_no) {
  if (none_compressed(pool)) return;
  CompressedLock lock(pool, file_no, page_no);
  const CellNo no = lock.find();
  if (no == 0) return;
  LS_CHECK(lock.entry(no).since() == 0, "the only image of a page would be lost");
  lock.remove(no);
}

Decompressed begin_compressed_write(PoolShared &pool, const CompressedPage &page, Gsn up_to,
                                    u8 *copy) {
  Copied copied;
  {
    CompressedLock lock(pool, page.file_no, page.page_no);
    const CellNo no = lock.find();
    if (no == 0) return Decompressed::kNotHere;
    CompressedEntry &entry = lock.entry(no);
    if (entry.since() == 0 || entry.since() > up_to ||
        !is_in_use(pool, entry.file_slot, entry.file_no()))
      return Decompressed::kNotHere;
    // The last image of the number's previous life may be on its way.
    if (entry.writing || IoStageLock(pool, page.file_no, page.page_no).being_written())
      return Decompressed::kBusy;
    entry.writing = 1;
    copied.take(lock, no);
  }
  if (copied.restore(copy)) return Decompressed::kYes;
  end_compressed_write(pool, page.file_no, page.page_no, false);
  return note_damage(pool, copied.head);
}

void end_compressed_write(PoolShared &pool, FileNo file_no, PageNo page_no, bool success) {
  CompressedLock lock(pool, file_no, page_no);
  const CellNo no = lock.find();
  LS_CHECK(no != 0, "a compressed page has gone while it was written");
  CompressedEntry &entry = lock.entry(no);
  LS_ASSERT(entry.writing && entry.since() != 0);
  entry.writing = 0;
  if (!success) return;
  entry.set_since(0);
  pool.compressed_dirty.fetch_sub(1, std::memory_order_relaxed);
}

Gsn oldest_compressed(PoolShared &pool) {
  Gsn oldest = ~Gsn{0};
  each_page(pool, [&](const CompressedEntry &entry) {
    const Gsn since = entry.since();
    if (since != 0 && since < oldest && is_in_use(pool, entry.file_slot, entry.file_no()) &&
        pool.files[entry.file_slot].logged)
      oldest = since;
  });
  return oldest;
}

std::vector<CompressedPage> dirty_compressed(PoolShared &pool, Gsn up_to) {
  std::vector<CompressedPage> found;
  each_page(pool, [&](const CompressedEntry &entry) {
    const Gsn since = entry.since();
    if (since != 0 && since <= up_to)
      found.push_back({entry.file_slot, entry.file_no(), entry.page_no, since});
  });
  return found;
}

std::vector<CompressedPage> dirty_oldest(PoolShared &pool, u32 most) {
  std::vector<CompressedPage> found;
  if (pool.compressed_frames.load(std::memory_order_relaxed) < pool.most_compressed_frames ||
      pool.compressed_dirty.load(std::memory_order_relaxed) == 0)
    return found;
  for (u32 i = 0; i < kCompressedPartitions; i++) {
    u32 looks = 0, room = most / kCompressedPartitions;
    CompressedLock(pool, i).each_by_age([&](const CompressedEntry &entry) {
      if (entry.since() != 0 && !entry.writing) {
        if (room == 0) return false;
        found.push_back({entry.file_slot, entry.file_no(), entry.page_no, entry.since()});
        room--;
      }
      return ++looks < kOldest;
    });
  }
  return found;
}

}  // namespace ls
