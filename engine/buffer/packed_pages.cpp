#include "buffer/packed_pages.hpp"

#include <lz4.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/crc32c.hpp"
#include "buffer/io_stage.hpp"
#include "buffer/packed_table.hpp"
#include "buffer/pool.hpp"

namespace ls {

namespace {

// After how many outcomes, or fewer where one of some is tried, it is asked whether packed pages are wanted again; one in so many must be.
constexpr u32 kLook = 8192, kSeldomLook = 512, kSeldom = 16, kWantedShare = 8;
// So many of the oldest ones of a partition should be in the file.
constexpr u32 kOldest = 32;
// Who looks at all pages lets others in between.
constexpr u32 kBucketsAtOnce = 512;

// A page as it lies in its cells, copied out of them.
struct Copied {
  PackedEntry head;
  u8 packed[kMostPackedBytes];

  void take(const PackedLock &lock, CellNo no) { lock.copy_out(no, packed, &head); }
  bool restore(u8 *page) const {
    u8 arranged[kMostArrangedBytes];
    return crc32c(0, packed, head.bytes) == head.crc &&
           LZ4_decompress_safe(reinterpret_cast<const char *>(packed),
                               reinterpret_cast<char *>(arranged), head.bytes,
                               sizeof arranged) == head.arranged_bytes &&
           tree_ops().restore({arranged, head.arranged_bytes}, page);
  }
};

// All that are there from the beginning to the end, and some of the others.
template <typename Look>
void each_page(PoolShared &pool, const Look &look) {
  constexpr u32 kStep = kPackedPartitions * kBucketsAtOnce;
  for (u32 i = 0; i < kPackedPartitions; i++) {
    for (u32 first = i; first <= pool.packed_mask; first += kStep) {
      const PackedLock lock(pool, i);
      for (u32 bucket = first; bucket <= pool.packed_mask && bucket < first + kStep; bucket += kPackedPartitions) lock.each_in(bucket, look);
    }
  }
}

// A page that cannot be restored.  What the file has is as good; or else the store has failed: a
// start makes the page anew from the log, which is kept as long as the entry is here.
Unpacked note_damage(PoolShared &pool, const PackedEntry &entry) {
  if (entry.since() == 0 || !is_in_use(pool, entry.file_slot, entry.file_no()))
    return Unpacked::kNotHere;
  pool.failure.note(fail_page(pool.files[entry.file_slot].path, entry.page_no,
                              "a changed page was damaged in memory while it was packed"));
  return Unpacked::kDamaged;
}

bool none_packed(const PoolShared &pool) { return pool.packed_count.load(std::memory_order_acquire) == 0; }

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
  if (arranged_bytes_ == 0) return false;
  const int bytes = LZ4_compress_default(reinterpret_cast<const char *>(buffers_->arranged), reinterpret_cast<char *>(buffers_->packed),
                                         static_cast<int>(arranged_bytes_), sizeof buffers_->packed);
  if (bytes <= 0) {
    failed_++;
    return false;
  }
  bytes_ = static_cast<u32>(bytes);
  crc_ = crc32c(0, buffers_->packed, bytes_);
  return true;
}

bool PagePacker::put(const PackedPage &page) {
  PackedLock lock(pool_, page.file_no, page.page_no);
  LS_ASSERT(lock.find() == 0);
  // Under the mutex: a flush looks here after it has said what it wants.
  if (page.since != 0 && page.since <= pool_.flush_bound.load(std::memory_order_seq_cst)) return false;
  PackedEntry head{};
  head.set_file_no(page.file_no);
  head.page_no = page.page_no;
  head.file_slot = page.file_slot;
  head.set_since(page.since);
  head.crc = crc_;
  head.bytes = static_cast<u16>(bytes_);
  head.arranged_bytes = static_cast<u16>(arranged_bytes_ & 0x7fff);
  FileSlot &file = pool_.files[page.file_slot];
  // Before the page is evicted: the file does not have what it has now (ReadAhead).
  if (page.since != 0) file.page_writes.fetch_add(1, std::memory_order_seq_cst);
  if (!lock.add(buffers_->packed, head)) return false;
  note_moved(pool_, file, page.since);
  return true;
}

Unpacked unpack_page(PoolShared &pool, FileNo file_no, PageNo page_no, Frame *frame) {
  if (none_packed(pool)) return Unpacked::kNotHere;
  Copied copied;
  {
    PackedLock lock(pool, file_no, page_no);
    const CellNo no = lock.find();
    if (no == 0) return Unpacked::kNotHere;
    if (lock.entry(no).writing) return Unpacked::kBusy;
    copied.take(lock, no);
  }
  const bool good =
      copied.restore(pool.pages + static_cast<size_t>(frame - pool.frames) * kPageSize);
  // Taken out only now, so that it stays if it is the only image.  Meanwhile it may have been
  // written, and then have made room.
  PackedLock lock(pool, file_no, page_no);
  if (const CellNo no = lock.find(); no != 0) {
    const PackedEntry &entry = lock.entry(no);
    if (entry.writing) return Unpacked::kBusy;
    if (!good && note_damage(pool, entry) == Unpacked::kDamaged) return Unpacked::kDamaged;
    if (const Gsn since = entry.since(); since != 0 && good) {
      note_dirty(frame, since);
      note_moved(pool, pool.files[entry.file_slot], since);
    }
    lock.remove(no);
  }
  if (!good) return Unpacked::kNotHere;
  pool.unpacked.fetch_add(1, std::memory_order_relaxed);
  return Unpacked::kYes;
}

Unpacked copy_packed(PoolShared &pool, FileNo file_no, PageNo page_no, u8 *page) {
  if (none_packed(pool)) return Unpacked::kNotHere;
  Copied copied;
  {
    PackedLock lock(pool, file_no, page_no);
    const CellNo no = lock.find();
    if (no == 0) return Unpacked::kNotHere;
    copied.take(lock, no);
  }
  return copied.restore(page) ? Unpacked::kYes : note_damage(pool, copied.head);
}

bool is_packed_unwritten(PoolShared &pool, FileNo file_no, PageNo page_no) {
  if (none_packed(pool)) return false;
  const PackedLock lock(pool, file_no, page_no);
  const CellNo no = lock.find();
  return no != 0 && lock.entry(no).since() != 0;
}

void drop_packed(PoolShared &pool, FileNo file_no, PageNo page_no) {
  if (none_packed(pool)) return;
  PackedLock lock(pool, file_no, page_no);
  const CellNo no = lock.find();
  if (no == 0) return;
  LS_CHECK(lock.entry(no).since() == 0, "the only image of a page would be lost");
  lock.remove(no);
}

Unpacked begin_packed_write(PoolShared &pool, const PackedPage &page, Gsn up_to, u8 *copy) {
  Copied copied;
  {
    PackedLock lock(pool, page.file_no, page.page_no);
    const CellNo no = lock.find();
    if (no == 0) return Unpacked::kNotHere;
    PackedEntry &entry = lock.entry(no);
    if (entry.since() == 0 || entry.since() > up_to || !is_in_use(pool, entry.file_slot, entry.file_no())) return Unpacked::kNotHere;
    // The last image of the number's previous life may be on its way.
    if (entry.writing || IoStageLock(pool, page.file_no, page.page_no).being_written()) return Unpacked::kBusy;
    entry.writing = 1;
    copied.take(lock, no);
  }
  if (copied.restore(copy)) return Unpacked::kYes;
  end_packed_write(pool, page.file_no, page.page_no, false);
  return note_damage(pool, copied.head);
}

void end_packed_write(PoolShared &pool, FileNo file_no, PageNo page_no, bool success) {
  PackedLock lock(pool, file_no, page_no);
  const CellNo no = lock.find();
  LS_CHECK(no != 0, "a packed page has gone while it was written");
  PackedEntry &entry = lock.entry(no);
  entry.writing = 0;
  if (!success) return;
  entry.set_since(0);
  pool.packed_unwritten.fetch_sub(1, std::memory_order_relaxed);
}

Gsn oldest_packed(PoolShared &pool) {
  Gsn oldest = ~Gsn{0};
  each_page(pool, [&](const PackedEntry &entry) {
    const Gsn since = entry.since();
    if (since != 0 && since < oldest && is_in_use(pool, entry.file_slot, entry.file_no()) && pool.files[entry.file_slot].logged) oldest = since;
  });
  return oldest;
}

std::vector<PackedPage> unwritten_packed(PoolShared &pool, Gsn up_to) {
  std::vector<PackedPage> found;
  each_page(pool, [&](const PackedEntry &entry) {
    const Gsn since = entry.since();
    if (since != 0 && since <= up_to) found.push_back({entry.file_slot, entry.file_no(), entry.page_no, since});
  });
  return found;
}

std::vector<PackedPage> unwritten_oldest(PoolShared &pool, u32 most) {
  std::vector<PackedPage> found;
  if (pool.packed_frames.load(std::memory_order_relaxed) < pool.most_packed_frames || pool.packed_unwritten.load(std::memory_order_relaxed) == 0) return found;
  for (u32 i = 0; i < kPackedPartitions; i++) {
    u32 looks = 0, room = most / kPackedPartitions;
    PackedLock(pool, i).each_by_age([&](const PackedEntry &entry) {
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
