// change_buffer.cpp - the table of buffered changes: added, made, dropped.
#include "buffer/change_buffer.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/check.hpp"
#include "base/copy_page.hpp"
#include "buffer/page_image.hpp"
#include "buffer/pool.hpp"
#include "wal/image_horizon.hpp"

namespace ls {

// At the start of a frame that holds cells of one size.  Under the mutex of its partition.
struct ChangeChunk {
  ChangeChunk *next, *previous;   // of those with a free cell
  BufferedChange *free;            // given back
  u16 fresh;                      // where those begin that were never used
  u16 used;                       // cells in use
  u8 units;
};

namespace {

constexpr u32 kFirstCell = (sizeof(ChangeChunk) + kChangeUnit - 1) / kChangeUnit * kChangeUnit;

u8 *page_in(PoolShared &pool, const Frame *frame) {
  return pool.pages + static_cast<size_t>(frame - pool.frames) * kPageSize;
}

ChangeChunk *chunk_of(PoolShared &pool, const BufferedChange *change) {
  const size_t at = static_cast<size_t>(reinterpret_cast<const u8 *>(change) - pool.pages);
  LS_ASSERT(at / kPageSize < pool.frame_count && at % kPageSize >= kFirstCell);
  return reinterpret_cast<ChangeChunk *>(pool.pages + at / kPageSize * kPageSize);
}

Frame *frame_of(PoolShared &pool, const ChangeChunk *chunk) {
  return pool.frames +
         static_cast<size_t>(reinterpret_cast<const u8 *>(chunk) - pool.pages) / kPageSize;
}

bool has_free_cell(const ChangeChunk &chunk) {
  return chunk.free || chunk.fresh + chunk.units * kChangeUnit <= kPageSize;
}

void link(ChangeBufferPartition &partition, ChangeChunk *chunk) {
  ChangeChunk *&first = partition.chunks[chunk->units - 1];
  chunk->previous = nullptr;
  chunk->next = first;
  if (first) first->previous = chunk;
  first = chunk;
}

void unlink(ChangeBufferPartition &partition, ChangeChunk *chunk) {
  if (chunk->previous) chunk->previous->next = chunk->next;
  else partition.chunks[chunk->units - 1] = chunk->next;
  if (chunk->next) chunk->next->previous = chunk->previous;
}

ChangeChunk *new_chunk(PoolShared &pool, ChangeBufferPartition &partition, u32 units) {
  Frame *frame = borrow_frame(pool, pool.change_buffer_frames, most_change_buffer_frames(pool));
  if (!frame) return nullptr;
  auto *chunk = reinterpret_cast<ChangeChunk *>(page_in(pool, frame));
  *chunk = {nullptr, nullptr, nullptr, kFirstCell, 0, static_cast<u8>(units)};
  frame->latch.unlock_exclusive();
  link(partition, chunk);
  return chunk;
}

BufferedChange *take_cell(PoolShared &pool, ChangeBufferPartition &partition, u32 units) {
  LS_ASSERT(units > 0 && units <= kMostChangeUnits);
  ChangeChunk *chunk = partition.chunks[units - 1];
  if (!chunk) chunk = new_chunk(pool, partition, units);
  if (!chunk) return nullptr;
  LS_ASSERT(chunk->units == units && has_free_cell(*chunk));
  BufferedChange *cell = chunk->free;
  if (cell) {
    chunk->free = cell->next;
  } else {
    cell = reinterpret_cast<BufferedChange *>(reinterpret_cast<u8 *>(chunk) + chunk->fresh);
    chunk->fresh = static_cast<u16>(chunk->fresh + units * kChangeUnit);
  }
  chunk->used++;
  if (!has_free_cell(*chunk)) unlink(partition, chunk);
  return cell;
}

void give_back(PoolShared &pool, ChangeBufferPartition &partition, BufferedChange *cell) {
  ChangeChunk *chunk = chunk_of(pool, cell);
  LS_ASSERT(chunk->used > 0);
  if (!has_free_cell(*chunk)) link(partition, chunk);
  cell->next = chunk->free;
  chunk->free = cell;
  if (--chunk->used > 0) return;
  unlink(partition, chunk);
  return_frame(pool, pool.change_buffer_frames, frame_of(pool, chunk));
}

// Take the first one that goes() out of a chain; false: there is none.
template <typename Goes>
bool remove_one(PoolShared &pool, ChangeBufferPartition &partition, BufferedChange **at,
                const Goes &goes) {
  while (*at && !goes(**at)) at = &(*at)->next;
  BufferedChange *gone = *at;
  if (!gone) return false;
  *at = gone->next;
  give_back(pool, partition, gone);
  LS_ASSERT(pool.change_buffer_count.load(std::memory_order_relaxed) > 0);
  pool.change_buffer_count.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

// visit(partition, head) for each bucket, its partition's mutex being held.
template <typename Visit>
void each_bucket(PoolShared &pool, const Visit &visit) {
  if (pool.change_buffer_count.load(std::memory_order_acquire) == 0) return;
  for (u32 p = 0; p < kChangeBufferPartitions; p++) {
    ChangeBufferPartition &partition = pool.change_buffer_partitions[p];
    std::lock_guard lock(partition.mutex);
    for (u32 i = p; i <= pool.change_buffer_mask; i += kChangeBufferPartitions)
      visit(partition, &pool.change_buffer_heads[i]);
  }
}

}  // namespace

ChangeBufferLock::ChangeBufferLock(PoolShared &pool, const FileSlot &file, PageNo page_no)
    : pool_(pool),
      file_(file),
      file_no_(file.file_no.load(std::memory_order_relaxed)),
      page_no_(page_no) {
  const u32 bucket = static_cast<u32>(hash_page(file_no_, page_no)) & pool.change_buffer_mask;
  head_ = &pool.change_buffer_heads[bucket];
  partition_ = &pool.change_buffer_partitions[bucket % kChangeBufferPartitions];
  partition_->mutex.lock();
}

const BufferedChange *ChangeBufferLock::first() const {
  const BufferedChange *change = *head_;
  while (change && !is_of_page(*change)) change = change->next;
  return change;
}

const BufferedChange *ChangeBufferLock::after(const BufferedChange *change) const {
  do change = change->next;
  while (change && !is_of_page(*change));
  return change;
}

PageOperation BufferedChange::operation() const {
  Tn tn = 0;
  if (has_tn) std::memcpy(&tn, operands + bytes, sizeof tn);
  return {code, {operands, bytes}, tn};
}

BufferedChange *ChangeBufferLock::make(u8 code, u32 operand_bytes, Tn tn) {
  const u32 tail = tn == 0 ? 0 : sizeof tn;
  if (operand_bytes + tail > kMostChangeBytes) return nullptr;
  const u32 units = (kChangeHeadBytes + operand_bytes + tail + kChangeUnit - 1) / kChangeUnit;
  BufferedChange *change = take_cell(pool_, *partition_, units);
  if (!change) return nullptr;
  change->next = nullptr;
  change->gsn = 0;
  change->file_no = file_no_;
  change->page_no = page_no_;
  change->file_slot = file_.index;
  change->bytes = static_cast<u16>(operand_bytes);
  change->code = code;
  change->has_tn = tn != 0;
  if (tn != 0) std::memcpy(change->operands + operand_bytes, &tn, sizeof tn);
  return change;
}

void ChangeBufferLock::give_back(BufferedChange *change) {
  ls::give_back(pool_, *partition_, change);
}

void ChangeBufferLock::add(BufferedChange *change, Gsn gsn) {
  change->gsn = gsn;
  BufferedChange **at = head_;
  while (*at) {
    LS_ASSERT(!is_of_page(**at) || (*at)->gsn <= gsn);
    at = &(*at)->next;
  }
  *at = change;
  pool_.change_buffer_count.fetch_add(1, std::memory_order_release);
}

void ChangeBufferLock::remove_all() {
  while (remove_one(pool_, *partition_, head_,
                    [this](const BufferedChange &change) { return is_of_page(change); })) {
  }
}

bool has_buffered_changes(PoolShared &pool, const FileSlot &file, PageNo page_no) {
  if (pool.change_buffer_count.load(std::memory_order_acquire) == 0) return false;
  return ChangeBufferLock(pool, file, page_no).first() != nullptr;
}

Status reserve_for_changes(Ctx &ctx, const FileSlot &file, PageNo page_no) {
  if (ctx.pool->log().image_horizon() == 0) return kOk;
  if (!has_buffered_changes(*ctx.pool->shared(), file, page_no)) return kOk;
  LS_CHECK(ctx.log, "a worker without log reads a page with buffered changes");
  return ctx.log->reserve_images(ctx.interrupt);
}

namespace {

// What the page has already was made before a crash.  All of one record are one step (REDO-1).
Status make_changes(const ChangeBufferLock &waiting, const FileSlot &file, u8 *page,
                    PageNo page_no) {
  auto *header = reinterpret_cast<PageHeader *>(page);
  for (const BufferedChange *c = waiting.first(); c;) {
    const Gsn gsn = c->gsn;
    const bool older = header->gsn < gsn;
    for (; c && c->gsn == gsn; c = waiting.after(c)) {
      if (!older || ok(tree_ops().redo(c->operation(), page, page_no))) continue;
      const ls_error cause = last_error();
      return fail_page(file.path, page_no,
                       "change of GSN %llu, made while the page was not in memory: %.200s",
                       static_cast<unsigned long long>(gsn), cause.message);
    }
    if (older) header->gsn = gsn;
  }
  return kOk;
}

}  // namespace

Status apply_buffered_changes(Ctx &ctx, FileSlot &file, Frame *frame) {
  PoolShared &pool = *ctx.pool->shared();
  if (pool.change_buffer_count.load(std::memory_order_acquire) == 0) return kOk;
  const PageNo page_no = frame->page_no.load(std::memory_order_relaxed);
  ChangeBufferLock waiting(pool, file, page_no);
  const BufferedChange *first = waiting.first();
  if (!first) return kOk;
  u8 *page = page_in(pool, frame);
  alignas(kCacheLine) u8 copy[kPageSize];
  copy_page(copy, page);
  auto *header = reinterpret_cast<PageHeader *>(copy);
  const Gsn horizon = ctx.pool->log().image_horizon(), before = header->gsn;
  LS_TRY(make_changes(waiting, file, copy, page_no));
  if (header->gsn == before) {
    waiting.remove_all();
    return kOk;
  }
  // IMG-1.  What was changed before the horizon alone the checkpoint that has moved it writes.
  if (before < horizon && (header->gsn >= horizon || horizon == kImagesOfAll))
    header->gsn = log_page_image(*ctx.log, file, copy);
  frame->latch.lock_exclusive();
  copy_page(page, copy);
  note_dirty(frame, first->gsn);   // before they leave
  LS_ASSERT(frame->dirty_since.load(std::memory_order_relaxed) <= first->gsn);   // CHBUF-1
  frame->latch.unlock_exclusive();
  waiting.remove_all();
  return kOk;
}

Gsn oldest_buffered_change(PoolShared &pool) {
  Gsn oldest = ~Gsn{0};
  each_bucket(pool, [&](ChangeBufferPartition &, BufferedChange **head) {
    for (const BufferedChange *c = *head; c; c = c->next) {
      if (c->gsn < oldest && is_in_use(pool, c->file_slot, c->file_no)) oldest = c->gsn;
    }
  });
  return oldest;
}

std::vector<ChangeBufferPage> change_buffer_pages(PoolShared &pool, Gsn up_to) {
  std::vector<ChangeBufferPage> pages;
  each_bucket(pool, [&](ChangeBufferPartition &, BufferedChange **head) {
    const size_t begin = pages.size();
    for (const BufferedChange *c = *head; c; c = c->next) {
      if (c->gsn > up_to || !is_in_use(pool, c->file_slot, c->file_no)) continue;
      const bool known = std::any_of(pages.begin() + static_cast<std::ptrdiff_t>(begin),
                                     pages.end(), [c](const ChangeBufferPage &p) {
                                       return p.page_no == c->page_no && p.file_no == c->file_no;
                                     });
      if (!known)
        pages.push_back({c->file_slot, c->file_no, c->page_no, c->code,
                         {c->operands, c->operands + c->bytes}});
    }
  });
  std::sort(pages.begin(), pages.end(), [](const ChangeBufferPage &a, const ChangeBufferPage &b) {
    return a.file_slot != b.file_slot ? a.file_slot < b.file_slot : a.page_no < b.page_no;
  });
  return pages;
}

void drop_buffered_changes(PoolShared &pool, FileNo file_no) {
  each_bucket(pool, [&](ChangeBufferPartition &partition, BufferedChange **head) {
    while (remove_one(pool, partition, head,
                      [file_no](const BufferedChange &c) { return c.file_no == file_no; })) {
    }
  });
}

}  // namespace ls
