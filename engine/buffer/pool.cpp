// The pool's arena and its frames: claiming, naming, dirtying and giving back.
#include "buffer/pool.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "base/check.hpp"
#include "buffer/compressed_cache.hpp"
#include "buffer/io_stage.hpp"
#include "buffer/last_images.hpp"
#include "buffer/page_image.hpp"

namespace ls {

namespace {

constexpr u32 kMinFrames = 16;

// Where everything lies in the arena, in bytes from its start.
struct Layout {
  u32 frames, files, file_heads, io_heads, partitions, change_buffer_heads, compressed_heads;
  u32 use_lines;
  size_t uses_at;
  size_t frames_at, files_at, file_heads_at, io_heads_at, partitions_at, change_buffer_heads_at,
      change_buffer_partitions_at, compressed_heads_at, compressed_partitions_at, pages_at, total;
};

size_t align_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

Layout layout_of(const PoolConfig &config) {
  Layout l{};
  l.frames = std::max<u32>(static_cast<u32>(config.bytes / kPageSize), kMinFrames);
  l.files = std::max<u32>(config.max_files, 1) + config.own_files;
  l.use_lines = std::max<u32>(config.workers, 1);
  l.file_heads = std::bit_ceil(l.files);
  l.partitions = std::bit_ceil(std::max<u32>(config.io_partitions, 1));
  l.io_heads = std::max(std::bit_ceil(l.frames / 4), l.partitions);
  // Ten small changes for each frame at most: chains stay short.
  l.change_buffer_heads = std::max(std::bit_ceil(l.frames), kChangeBufferPartitions);
  // Fewer pages than frames, as a rule.
  l.compressed_heads = std::max(std::bit_ceil(l.frames), kCompressedPartitions);
  size_t at = align_up(sizeof(PoolShared), kCacheLine);
  auto place = [&at](size_t count, size_t bytes) {
    size_t start = at;
    at = align_up(at + count * bytes, kCacheLine);
    return start;
  };
  l.frames_at = place(l.frames + 1, sizeof(Frame));
  l.files_at = place(l.files, sizeof(FileSlot));
  l.uses_at = place(l.use_lines, sizeof(FileUses));
  l.file_heads_at = place(l.file_heads, sizeof(u32));
  l.io_heads_at = place(l.io_heads, sizeof(u32));
  l.partitions_at = place(l.partitions, sizeof(IoPartition));
  l.change_buffer_heads_at = place(l.change_buffer_heads, sizeof(BufferedChange *));
  l.change_buffer_partitions_at = place(kChangeBufferPartitions, sizeof(ChangeBufferPartition));
  l.compressed_heads_at = place(l.compressed_heads, sizeof(u32));
  l.compressed_partitions_at = place(kCompressedPartitions, sizeof(CompressedPartition));
  l.pages_at = at;
  // one page more: the arena may start anywhere
  l.total = at + kPageSize + (size_t{l.frames} + 1) * kPageSize;
  return l;
}

template <typename T>
T *construct(u8 *at, size_t count) {
  T *array = reinterpret_cast<T *>(at);
  for (size_t i = 0; i < count; i++) new (array + i) T{};
  return array;
}

}  // namespace

size_t BufferPool::arena_bytes(const PoolConfig &config) { return layout_of(config).total; }

void BufferPool::create(void *arena, const PoolConfig &config) {
  LS_ASSERT(reinterpret_cast<size_t>(arena) % kCacheLine == 0);
  LS_ASSERT(config.compressed_cache_percent <= 100);
  Layout l = layout_of(config);
  u8 *base = static_cast<u8 *>(arena);
  auto *pool = new (arena) PoolShared{};
  pool->frame_count = l.frames;
  // Enough free frames for a burst of readers, but never a large part of a small pool.
  pool->low_water = std::max(std::min<u32>(64, l.frames / 8), l.frames / 100);
  pool->high_water = pool->low_water + pool->low_water / 2 + 1;
  pool->max_files = l.files;
  pool->own_files = config.own_files;
  pool->uses = construct<FileUses>(base + l.uses_at, l.use_lines);
  pool->use_lines = l.use_lines;
  pool->file_mask = l.file_heads - 1;
  pool->io_mask = l.io_heads - 1;
  pool->partition_mask = l.partitions - 1;
  pool->change_buffer_mask = l.change_buffer_heads - 1;
  pool->compressed_mask = l.compressed_heads - 1;
  pool->most_compressed_frames =
      static_cast<u32>(u64{l.frames} * config.compressed_cache_percent / 100);
  std::memcpy(pool->doublewrite_path, config.doublewrite_path, sizeof pool->doublewrite_path);
  pool->frames = construct<Frame>(base + l.frames_at, size_t{l.frames} + 1);
  pool->files = construct<FileSlot>(base + l.files_at, l.files);
  pool->file_heads = construct<std::atomic<u32>>(base + l.file_heads_at, l.file_heads);
  pool->io_heads = construct<std::atomic<u32>>(base + l.io_heads_at, l.io_heads);
  pool->partitions = construct<IoPartition>(base + l.partitions_at, l.partitions);
  pool->change_buffer_heads =
      construct<BufferedChange *>(base + l.change_buffer_heads_at, l.change_buffer_heads);
  pool->change_buffer_partitions = construct<ChangeBufferPartition>(
      base + l.change_buffer_partitions_at, kChangeBufferPartitions);
  pool->compressed_heads = construct<u32>(base + l.compressed_heads_at, l.compressed_heads);
  pool->compressed_partitions =
      construct<CompressedPartition>(base + l.compressed_partitions_at, kCompressedPartitions);
  pool->pages =
      reinterpret_cast<u8 *>(align_up(reinterpret_cast<size_t>(base) + l.pages_at, kPageSize));
  LS_ASSERT(pool->pages + (size_t{l.frames} + 1) * kPageSize <= base + l.total);
  pool->next_file_no.store(1, std::memory_order_relaxed);

  auto *empty = reinterpret_cast<MetaPage *>(pool->pages + size_t{l.frames} * kPageSize);
  std::memset(static_cast<void *>(empty), 0, kPageSize);
  empty->header.kind = PageKind::kMeta;
  empty->header.format = kPageFormat;
  for (u32 i = 0; i < l.files; i++) {
    pool->files[i].index = i;
    pool->files[i].meta.store(pool->empty_meta(), std::memory_order_relaxed);
  }
  for (u32 i = l.frames; i-- > 0;) free_list_push(*pool, pool->frames + i);
}

BufferPool BufferPool::attach(void *arena, Log log) {
  return BufferPool(static_cast<PoolShared *>(arena), log);
}

bool claim_frame(PoolShared &pool, FileSlot &file, Frame *frame, PageNo page_no) {
  LS_ASSERT(frame->state.load(std::memory_order_relaxed) == FrameState::kFree);
  LS_ASSERT(frame->writing.load(std::memory_order_relaxed) == 0);   // STAGE-3
  FileNo file_no = file.file_no.load(std::memory_order_acquire);
  frame->file_slot.store(file.index, std::memory_order_relaxed);
  frame->file_no.store(file_no, std::memory_order_relaxed);
  frame->page_no.store(page_no, std::memory_order_relaxed);
  frame->dirty_since.store(0, std::memory_order_relaxed);
  frame->dirty_next.store(0, std::memory_order_relaxed);
  frame->superseded.store(0, std::memory_order_relaxed);
  frame->visits.store(0, std::memory_order_relaxed);
  // Counted before the state is looked at: finish_leaving looks the other way round.
  file.frames.fetch_add(1, std::memory_order_seq_cst);
  frame->state.store(FrameState::kLoading, std::memory_order_release);
  FileState state = file.state.load(std::memory_order_seq_cst);
  if ((has_pages(state) || state == FileState::kOpening) &&
      file.file_no.load(std::memory_order_relaxed) == file_no) {
    return true;
  }
  release_frame(pool, frame);
  (void)fail(LS_NOT_FOUND, "the file was dropped");
  return false;
}

void release_frame(PoolShared &pool, Frame *frame) {
  LS_ASSERT(frame->state.load(std::memory_order_relaxed) != FrameState::kFree);
  LS_ASSERT(frame->writing.load(std::memory_order_relaxed) == 0);     // STAGE-3
  LS_ASSERT(frame->next_free.load(std::memory_order_relaxed) == 0);   // FRAME-4
  FileSlot &file = pool.files[frame->file_slot.load(std::memory_order_relaxed)];
  frame->dirty_since.store(0, std::memory_order_relaxed);
  frame->dirty_next.store(0, std::memory_order_relaxed);
  frame->state.store(FrameState::kFree, std::memory_order_release);
  free_list_push(pool, frame);
  LS_ASSERT(file.frames.load(std::memory_order_relaxed) > 0);
  if (file.frames.fetch_sub(1, std::memory_order_seq_cst) == 1) finish_leaving(pool, file);
}

Status BufferPool::new_frame(Ctx &ctx, FileSlot &file, PageNo page_no, PageKind kind,
                             Frame **frame) {
  Frame *f;
  LS_TRY(free_list_take(ctx, *shared_, &f));
  // Free, but a page provider that met it in its last life may still be looking.
  f->latch.lock_exclusive();
  if (!claim_frame(*shared_, file, f, kInvalidPageNo)) {
    f->latch.unlock_exclusive();
    return make_status(LS_NOT_FOUND);
  }
  u8 *bytes = page(f);
  std::memset(bytes, 0, kPageSize);
  auto *header = reinterpret_cast<PageHeader *>(bytes);
  header->kind = kind;
  header->format = kPageFormat;
  header->page_no = kInvalidPageNo;
  if (page_no != kInvalidPageNo) name_frame(f, page_no);
  *frame = f;
  return kOk;
}

void BufferPool::name_frame(Frame *frame, PageNo page_no) {
  LS_ASSERT(frame->latch.is_exclusive());
  LS_ASSERT(frame->state.load(std::memory_order_relaxed) == FrameState::kLoading);
  LS_ASSERT(frame->page_no.load(std::memory_order_relaxed) == kInvalidPageNo);
  reinterpret_cast<PageHeader *>(page(frame))->page_no = page_no;
  drop_compressed(*shared_, frame->file_no.load(std::memory_order_relaxed), page_no);
  Frame *freed = nullptr;
  {
    IoStageLock stage(*shared_, frame->file_no.load(std::memory_order_relaxed), page_no);
    frame->page_no.store(page_no, std::memory_order_relaxed);
    Frame *old = stage.find();
    if (old) {
      LS_CHECK(old->state.load(std::memory_order_relaxed) == FrameState::kLoaded,
               "a page in use was handed out as new");
      // The log must be kept from the old life's first unwritten change on, until a newer image is
      // on disk.
      const Gsn since = old->dirty_since.load(std::memory_order_relaxed);
      LS_ASSERT(frame->dirty_since.load(std::memory_order_relaxed) == 0);   // FRAME-3
      frame->dirty_since.store(since, std::memory_order_release);
      note_moved(*shared_, file(frame->file_slot.load(std::memory_order_relaxed)), since);
      if (old->writing.load(std::memory_order_relaxed)) {
        old->superseded.store(1, std::memory_order_relaxed);
      } else {
        stage.remove(old);
        freed = old;
      }
    }
  }
  if (freed) release_frame(*shared_, freed);
}

void BufferPool::free_frame(Frame *frame) {
  LS_ASSERT(frame->latch.is_exclusive());
  LS_ASSERT(frame->in_tree() ||
            frame->state.load(std::memory_order_relaxed) == FrameState::kLoading);
  LS_CHECK(reinterpret_cast<PageHeader *>(page(frame))->kind != PageKind::kTrunk,
           "a trunk page is in use");
  FileSlot &slot = file(frame->file_slot.load(std::memory_order_relaxed));
  PageNo page_no = frame->page_no.load(std::memory_order_relaxed);
  bool keep = false;
  if (page_no != kInvalidPageNo) {
    IoStageLock stage(*shared_, frame->file_no.load(std::memory_order_relaxed), page_no);
    const Gsn since = frame->dirty_since.load(std::memory_order_relaxed);
    const bool dirty = slot.logged && since != 0 && !needs_no_last_image(*shared_, since);
    bool writing = frame->writing.load(std::memory_order_relaxed);
    keep = dirty || writing;
    if (keep) {
      // What it referred to has gone elsewhere: those frames may be other pages when it is written.
      reinterpret_cast<PageHeader *>(page(frame))->kind = PageKind::kFree;
      // A page without a last image only waits for the end of its write.
      frame->superseded.store(!dirty, std::memory_order_relaxed);
      frame->state.store(FrameState::kLoaded, std::memory_order_release);
      stage.insert(frame);
    }
  }
  // Before the latch is given up: an actor that waits for it then looks at the state.
  if (!keep) frame->state.store(FrameState::kLoading, std::memory_order_release);
  frame->latch.unlock_exclusive();  // a new version: a reader that knew the page is not valid
  if (!keep) release_frame(*shared_, frame);
}

void note_dirty(Frame *frame, Gsn since) {
  // `writing` stands still: its setter needs the shared latch.
  std::atomic<Gsn> &word =
      frame->writing.load(std::memory_order_relaxed) ? frame->dirty_next : frame->dirty_since;
  if (word.load(std::memory_order_relaxed) == 0) word.store(since, std::memory_order_release);
}

void note_moved(PoolShared &pool, const FileSlot &file, Gsn since) {
  if (!file.logged || since == 0) return;
  Gsn oldest = pool.moved_since.load(std::memory_order_seq_cst);
  while (since < oldest &&
         !pool.moved_since.compare_exchange_weak(oldest, since, std::memory_order_seq_cst)) {
  }
}

void BufferPool::mark_dirty(Frame *frame, Gsn gsn) {
  LS_ASSERT(frame->latch.is_exclusive());   // FRAME-3
  auto *header = reinterpret_cast<PageHeader *>(page(frame));
  // The latch is held since before the record was made.
  LS_ASSERT(gsn == 0 || header->gsn <= gsn);
  note_dirty(frame, gsn ? gsn : 1);
  if (gsn) header->gsn = gsn;
  if (frame->state.load(std::memory_order_relaxed) == FrameState::kLoading) {
    LS_ASSERT(frame->page_no.load(std::memory_order_relaxed) != kInvalidPageNo);
    frame->state.store(FrameState::kHot, std::memory_order_release);
  }
}

void BufferPool::mark_changed(LogAppender *log, Frame *frame, Gsn gsn) {
  u8 *bytes = page(frame);
  auto *header = reinterpret_cast<PageHeader *>(bytes);
  const bool due = gsn != 0 && header->gsn < log_.image_horizon();   // IMG-1
  mark_dirty(frame, gsn);
  if (!due) return;
  LS_CHECK(log, "a worker without log changes a logged file");
  header->gsn =
      log_page_image(*log, file(frame->file_slot.load(std::memory_order_relaxed)), bytes);
}

void BufferPool::mark_dirty_hint(LogAppender *log, Frame *frame) {
  LS_ASSERT(frame->latch.is_exclusive() && frame->in_tree());
  u8 *bytes = page(frame);
  auto *header = reinterpret_cast<PageHeader *>(bytes);
  const FileSlot &slot = file(frame->file_slot.load(std::memory_order_relaxed));
  if (!slot.logged || !log_.has_page_images()) return note_dirty(frame, log_.last_gsn() + 1);
  note_dirty(frame, log_.look_at_counter() + 1);
  if (header->gsn >= log_.image_horizon()) return;   // IMG-1
  LS_CHECK(log, "a worker without log changes a logged file");
  header->gsn = log_page_image(*log, slot, bytes);
}

PoolStats BufferPool::stats() const {
  PoolStats s{};
  s.reads = shared_->reads.load(std::memory_order_relaxed);
  s.writes = shared_->writes.load(std::memory_order_relaxed);
  s.evictions = shared_->evictions.load(std::memory_order_relaxed);
  s.reads_ahead = shared_->reads_ahead.load(std::memory_order_relaxed);
  s.batches_ahead = shared_->batches_ahead.load(std::memory_order_relaxed);
  s.frames = shared_->frame_count;
  s.free = shared_->free_count.load(std::memory_order_relaxed);
  s.change_buffer_inserts = shared_->change_buffer_inserts.load(std::memory_order_relaxed);
  s.change_buffer_pending = shared_->change_buffer_count.load(std::memory_order_relaxed);
  s.decompressed = shared_->decompressed.load(std::memory_order_relaxed);
  s.compressed = shared_->compressed_count.load(std::memory_order_relaxed);
  s.compressed_dirty = shared_->compressed_dirty.load(std::memory_order_relaxed);
  s.compressed_frames = shared_->compressed_frames.load(std::memory_order_relaxed);
  for (u32 i = 0; i < shared_->frame_count; i++) {
    s.dirty += frame(i)->dirty_since.load(std::memory_order_relaxed) != 0;
  }
  for (const PoolCounters &c : shared_->counters) {
    s.hits += c.hits.load(std::memory_order_relaxed);
    s.restarts += c.restarts.load(std::memory_order_relaxed);
    s.splits += c.splits.load(std::memory_order_relaxed);
    s.merges += c.merges.load(std::memory_order_relaxed);
  }
  return s;
}

void BufferPool::count_read_ahead(u32 pages) {
  shared_->reads.fetch_add(pages, std::memory_order_relaxed);
  shared_->reads_ahead.fetch_add(pages, std::memory_order_relaxed);
  shared_->batches_ahead.fetch_add(1, std::memory_order_relaxed);
}

static void count(std::atomic<u64> &counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void BufferPool::count_restart(u32 worker_slot) {
  count(shared_->counters[worker_slot % kCounterStripes].restarts);
}
void BufferPool::count_split(u32 worker_slot) {
  count(shared_->counters[worker_slot % kCounterStripes].splits);
}
void BufferPool::count_merge(u32 worker_slot) {
  count(shared_->counters[worker_slot % kCounterStripes].merges);
}

}  // namespace ls
