#include "buffer/waiting_changes.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/check.hpp"
#include "buffer/pool.hpp"

namespace ls {

// At the start of a frame that holds cells of one size.  Under the mutex of its partition.
struct ChangeChunk {
  ChangeChunk *next, *previous;   // of those with a free cell
  WaitingChange *free;            // given back
  u16 fresh;                      // where those begin that were never used
  u16 used;                       // cells in use
  u8 units;
};

namespace {

// Of the pool's frames, one in so many may hold changes.
constexpr u32 kShareOfFrames = 8;
constexpr u32 kFirstCell = (sizeof(ChangeChunk) + kChangeUnit - 1) / kChangeUnit * kChangeUnit;

u8 *page_in(PoolShared &pool, const Frame *frame) { return pool.pages + static_cast<size_t>(frame - pool.frames) * kPageSize; }

ChangeChunk *chunk_of(PoolShared &pool, const WaitingChange *change) {
  const size_t at = static_cast<size_t>(reinterpret_cast<const u8 *>(change) - pool.pages);
  return reinterpret_cast<ChangeChunk *>(pool.pages + at / kPageSize * kPageSize);
}

Frame *frame_of(PoolShared &pool, const ChangeChunk *chunk) {
  return pool.frames + static_cast<size_t>(reinterpret_cast<const u8 *>(chunk) - pool.pages) / kPageSize;
}

bool has_free_cell(const ChangeChunk &chunk) { return chunk.free || chunk.fresh + chunk.units * kChangeUnit <= kPageSize; }

void link(WaitingPartition &partition, ChangeChunk *chunk) {
  ChangeChunk *&first = partition.chunks[chunk->units - 1];
  chunk->previous = nullptr;
  chunk->next = first;
  if (first) first->previous = chunk;
  first = chunk;
}

void unlink(WaitingPartition &partition, ChangeChunk *chunk) {
  if (chunk->previous) chunk->previous->next = chunk->next;
  else partition.chunks[chunk->units - 1] = chunk->next;
  if (chunk->next) chunk->next->previous = chunk->previous;
}

ChangeChunk *new_chunk(PoolShared &pool, WaitingPartition &partition, u32 units) {
  Frame *frame = borrow_frame(pool, pool.waiting_frames, pool.frame_count / kShareOfFrames);
  if (!frame) return nullptr;
  auto *chunk = reinterpret_cast<ChangeChunk *>(page_in(pool, frame));
  *chunk = {nullptr, nullptr, nullptr, kFirstCell, 0, static_cast<u8>(units)};
  frame->latch.unlock_exclusive();
  link(partition, chunk);
  return chunk;
}

WaitingChange *take_cell(PoolShared &pool, WaitingPartition &partition, u32 units) {
  ChangeChunk *chunk = partition.chunks[units - 1];
  if (!chunk) chunk = new_chunk(pool, partition, units);
  if (!chunk) return nullptr;
  WaitingChange *cell = chunk->free;
  if (cell) {
    chunk->free = cell->next;
  } else {
    cell = reinterpret_cast<WaitingChange *>(reinterpret_cast<u8 *>(chunk) + chunk->fresh);
    chunk->fresh = static_cast<u16>(chunk->fresh + units * kChangeUnit);
  }
  chunk->used++;
  if (!has_free_cell(*chunk)) unlink(partition, chunk);
  return cell;
}

void give_back(PoolShared &pool, WaitingPartition &partition, WaitingChange *cell) {
  ChangeChunk *chunk = chunk_of(pool, cell);
  if (!has_free_cell(*chunk)) link(partition, chunk);
  cell->next = chunk->free;
  chunk->free = cell;
  if (--chunk->used > 0) return;
  unlink(partition, chunk);
  return_frame(pool, pool.waiting_frames, frame_of(pool, chunk));
}

// Take the first one that goes() out of a chain; false: there is none.
template <typename Goes>
bool remove_one(PoolShared &pool, WaitingPartition &partition, WaitingChange **at, const Goes &goes) {
  while (*at && !goes(**at)) at = &(*at)->next;
  WaitingChange *gone = *at;
  if (!gone) return false;
  *at = gone->next;
  give_back(pool, partition, gone);
  pool.waiting_count.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

// visit(partition, head) for each bucket, its partition's mutex being held.
template <typename Visit>
void each_bucket(PoolShared &pool, const Visit &visit) {
  if (pool.waiting_count.load(std::memory_order_acquire) == 0) return;
  for (u32 p = 0; p < kWaitingPartitions; p++) {
    WaitingPartition &partition = pool.waiting_partitions[p];
    std::lock_guard lock(partition.mutex);
    for (u32 i = p; i <= pool.waiting_mask; i += kWaitingPartitions) visit(partition, &pool.waiting_heads[i]);
  }
}

}  // namespace

WaitingLock::WaitingLock(PoolShared &pool, const FileSlot &file, PageNo page_no)
    : pool_(pool), file_(file), file_no_(file.file_no.load(std::memory_order_relaxed)), page_no_(page_no) {
  const u32 bucket = static_cast<u32>(hash_page(file_no_, page_no)) & pool.waiting_mask;
  head_ = &pool.waiting_heads[bucket];
  partition_ = &pool.waiting_partitions[bucket % kWaitingPartitions];
  partition_->mutex.lock();
}

const WaitingChange *WaitingLock::first() const {
  const WaitingChange *change = *head_;
  while (change && !is_of_page(*change)) change = change->next;
  return change;
}

const WaitingChange *WaitingLock::after(const WaitingChange *change) const {
  do change = change->next;
  while (change && !is_of_page(*change));
  return change;
}

WaitingChange *WaitingLock::make(u8 code, u32 operand_bytes) {
  if (operand_bytes > kMostChangeBytes) return nullptr;
  const u32 units = (static_cast<u32>(sizeof(WaitingChange)) + operand_bytes + kChangeUnit - 1) / kChangeUnit;
  WaitingChange *change = take_cell(pool_, *partition_, units);
  if (change) *change = {nullptr, 0, file_no_, page_no_, file_.index, static_cast<u16>(operand_bytes), code};
  return change;
}

void WaitingLock::add(WaitingChange *change, Gsn gsn) {
  change->gsn = gsn;
  WaitingChange **at = head_;
  while (*at) at = &(*at)->next;
  *at = change;
  pool_.waiting_count.fetch_add(1, std::memory_order_release);
  pool_.put_off.fetch_add(1, std::memory_order_relaxed);
}

void WaitingLock::remove_all() {
  while (remove_one(pool_, *partition_, head_, [this](const WaitingChange &change) { return is_of_page(change); })) {
  }
}

bool changes_wait(PoolShared &pool, const FileSlot &file, PageNo page_no) {
  if (pool.waiting_count.load(std::memory_order_acquire) == 0) return false;
  return WaitingLock(pool, file, page_no).first() != nullptr;
}

Status make_waiting_changes(PoolShared &pool, FileSlot &file, Frame *frame) {
  if (pool.waiting_count.load(std::memory_order_acquire) == 0) return kOk;
  const PageNo page_no = frame->page_no.load(std::memory_order_relaxed);
  WaitingLock waiting(pool, file, page_no);
  const WaitingChange *first = waiting.first();
  if (!first) return kOk;
  u8 *page = page_in(pool, frame);
  alignas(kCacheLine) u8 copy[kPageSize];
  std::memcpy(copy, page, kPageSize);
  auto *header = reinterpret_cast<PageHeader *>(copy);
  for (const WaitingChange *c = first; c; c = waiting.after(c)) {
    if (c->gsn <= header->gsn) continue;   // made before a crash, and the page was damaged when recovery came by
    if (!ok(tree_ops().redo(c->code, std::span<const u8>(c->operands, c->bytes), copy, page_no))) {
      const ls_error cause = last_error();
      return fail_page(file.path, page_no, "change of GSN %llu, made while the page was not in memory: %.200s",
                       static_cast<unsigned long long>(c->gsn), cause.message);
    }
    header->gsn = c->gsn;
  }
  frame->latch.lock_exclusive();
  std::memcpy(page, copy, kPageSize);
  note_dirty(frame, first->gsn);   // V1: before they leave
  frame->latch.unlock_exclusive();
  waiting.remove_all();
  return kOk;
}

Gsn oldest_waiting(PoolShared &pool) {
  Gsn oldest = ~Gsn{0};
  each_bucket(pool, [&](WaitingPartition &, WaitingChange **head) {
    for (const WaitingChange *c = *head; c; c = c->next) {
      if (c->gsn < oldest && is_in_use(pool, c->file_slot, c->file_no)) oldest = c->gsn;
    }
  });
  return oldest;
}

std::vector<WaitingPage> waiting_pages(PoolShared &pool, Gsn up_to) {
  std::vector<WaitingPage> pages;
  each_bucket(pool, [&](WaitingPartition &, WaitingChange **head) {
    const size_t begin = pages.size();
    for (const WaitingChange *c = *head; c; c = c->next) {
      if (c->gsn > up_to || !is_in_use(pool, c->file_slot, c->file_no)) continue;
      const bool known = std::any_of(pages.begin() + static_cast<std::ptrdiff_t>(begin), pages.end(), [c](const WaitingPage &p) {
        return p.page_no == c->page_no && p.file_no == c->file_no;
      });
      if (!known) pages.push_back({c->file_slot, c->file_no, c->page_no, {c->operands, c->operands + c->bytes}});
    }
  });
  std::sort(pages.begin(), pages.end(), [](const WaitingPage &a, const WaitingPage &b) {
    return a.file_slot != b.file_slot ? a.file_slot < b.file_slot : a.page_no < b.page_no;
  });
  return pages;
}

void drop_waiting(PoolShared &pool, FileNo file_no) {
  each_bucket(pool, [&](WaitingPartition &partition, WaitingChange **head) {
    while (remove_one(pool, partition, head, [file_no](const WaitingChange &c) { return c.file_no == file_no; })) {
    }
  });
}

}  // namespace ls
