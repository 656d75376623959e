// Writing dirty pages on purpose (checkpoint, host flush, shutdown), and the bound for truncating
// the log.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include "base/check.hpp"
#include "base/failpoint.hpp"
#include "base/interrupt.hpp"
#include "base/wait_report.hpp"
#include "buffer/change_buffer.hpp"
#include "buffer/compressed_cache.hpp"
#include "buffer/file_use.hpp"
#include "buffer/further_file.hpp"
#include "buffer/page_writer.hpp"

namespace ls {

namespace {

// A page that another writer is writing is tried again after this long.
constexpr i64 kBusySleepUs = 500;
constexpr i64 kClosingSliceUs = 20'000;

// Wait until no actor holds the frame exclusively, so that a change already logged has been marked.
void settle(Frame *frame) {
  u64 version;
  if (!frame->latch.try_version(version)) frame->latch.version_wait();
}

struct Candidate {
  u32 file_slot;   // of the page when it was found
  PageNo page_no;
  Frame *frame;
};

// What page providers are told meanwhile: to write what is being flushed instead of compressing it.
// So a page that was compressed at the end of the search for compressed pages has been written, or
// is in a frame, and one that was in a frame at the end of that for frames has been written.
class FlushBound {
 public:
  FlushBound(PoolShared &pool, Gsn up_to) : pool_(pool) {
    const std::lock_guard lock(pool.flush_mutex);
    LS_ASSERT(pool.flushes > 0 || pool.flush_bound.load(std::memory_order_relaxed) == 0);
    pool.flushes++;
    if (up_to > pool.flush_bound.load(std::memory_order_relaxed))
      pool.flush_bound.store(up_to, std::memory_order_seq_cst);
  }
  ~FlushBound() {
    const std::lock_guard lock(pool_.flush_mutex);
    LS_ASSERT(pool_.flushes > 0);
    if (--pool_.flushes == 0) pool_.flush_bound.store(0, std::memory_order_seq_cst);
  }
  FlushBound(const FlushBound &) = delete;
  FlushBound &operator=(const FlushBound &) = delete;

 private:
  PoolShared &pool_;
};

struct FlushFilter {
  Gsn up_to;
  bool include_unlogged;
  std::optional<u32> database = {};
  bool closing = false;   // files that are being closed only
  bool waits = true;      // for pages that are latched, or not hardened; else they stay dirty

  bool wants(const FileSlot &slot) const {
    if (closing ? !file_is(slot, FileState::kClosing) : !has_pages(slot)) return false;
    if (database && slot.key.database != *database) return false;
    return slot.logged || (include_unlogged && !is_own(slot));
  }
};

std::vector<Candidate> collect(const BufferPool &pool, const FlushFilter &filter) {
  std::vector<Candidate> found;
  for (u32 i = 0; i < pool.frame_count(); i++) {
    Frame *frame = pool.frame(i);
    settle(frame);
    Gsn since = frame->dirty_since.load(std::memory_order_acquire);
    if (since == 0 || since > filter.up_to) continue;
    u32 slot = frame->file_slot.load(std::memory_order_relaxed);
    if (!filter.wants(pool.file(slot))) continue;
    found.push_back({slot, frame->page_no.load(std::memory_order_relaxed), frame});
  }
  return found;
}

std::vector<CompressedPage> collect_compressed(const BufferPool &pool, const FlushFilter &filter) {
  std::vector<CompressedPage> found = dirty_compressed(*pool.shared(), filter.up_to);
  std::erase_if(
      found, [&](const CompressedPage &page) { return !filter.wants(pool.file(page.file_slot)); });
  return found;
}

PageWriter::Added add(BufferPool &pool, PageWriter &writer, const FlushFilter &filter,
                      const Candidate &page) {
  // The frame may hold another page by now: then that is written, or nothing.
  if (!filter.wants(pool.file(page.frame->file_slot.load(std::memory_order_relaxed))))
    return PageWriter::Added::kNothing;
  using enum PageWriter::Patience;
  return writer.add(page.frame, filter.up_to, filter.waits ? kWait : kTry);
}

PageWriter::Added add(BufferPool &, PageWriter &writer, const FlushFilter &filter,
                      const CompressedPage &page) {
  return writer.add(page, filter.up_to);
}

// In file order.
template <typename Page>
Status write_all(BufferPool &pool, Ctx &ctx, const FlushFilter &filter, std::vector<Page> pages,
                 const FlushPace &pace) {
  std::sort(pages.begin(), pages.end(), [](const Page &a, const Page &b) {
    return a.file_slot != b.file_slot ? a.file_slot < b.file_slot : a.page_no < b.page_no;
  });
  PageWriter writer(pool);
  const size_t total = pages.size();
  size_t done = 0;
  while (!pages.empty()) {
    std::vector<Page> busy;
    Gsn unhardened = 0;
    for (const Page &page : pages) {
      done++;
      if (add(pool, writer, filter, page) == PageWriter::Added::kBusy) busy.push_back(page);
      unhardened = std::max(unhardened, writer.unhardened());
      if (!writer.full()) continue;
      LS_TRY(writer.write(ctx.interrupt));
      if (pace && done < total) pace(done, total);
    }
    LS_TRY(writer.write(ctx.interrupt));
    if (!filter.waits) break;
    LS_TRY(writer.harden(unhardened, ctx.interrupt));
    pages = std::move(busy);
    if (pages.empty()) break;
    if (ctx.interrupt && *ctx.interrupt)
      return fail(LS_INTERRUPTED, "interrupted while writing pages");
    std::atomic<u32> never{0};
    futex_wait(&never, 0, kBusySleepUs);
  }
  return kOk;
}

// Unlogged pages are not synced when they are written: neither those of this flush nor those
// evicted before.  A sync that has failed fails the store, as it does for logged ones: no log has
// these pages, and another try would find nothing to sync.  A temporary file does not outlive its
// session.
Status sync_unlogged(BufferPool &pool, const FlushFilter &filter) {
  for (u32 i = 0; i < pool.shared()->max_files; i++) {
    FileSlot &slot = pool.file(i);
    if (!filter.wants(slot) || slot.logged || slot.key.owner != -1) continue;
    FileNo file_no = slot.file_no.load(std::memory_order_relaxed);
    const FilePin pin(slot, file_no);
    if (!pin.pinned()) continue;
    bool lost;
    Status status = file_sync(slot.ref(), &lost);
    if (ok(status) && slot.kind == LS_REL_VALUES) {
      status = file_sync(FurtherFile(slot).ref(), &lost);
      if (code(status) == LS_NOT_FOUND) status = kOk;
    }
    if (!lost) {
      LS_TRY(status);
      continue;
    }
    pool.shared()->failure.note(status);
    return fail_as(LS_IO_ERROR);
  }
  return kOk;
}

// Use a file to make the buffered changes of its pages.  Unused: it was dropped, or is being
// closed.  The closer makes them itself, or leaves them waiting when it cannot: a checkpoint counts
// those (oldest_buffered_change), but files that the host is about to copy must have them.
Status begin_use(PoolShared &pool, Ctx &ctx, const FlushFilter &filter, const FileHandle &file,
                 FileUse *use) {
  for (;;) {
    const u32 event = pool.open_event.load(std::memory_order_acquire);
    if (use->begin_open(ctx, file)) return kOk;
    if (!filter.database || !file_is(*file.slot, FileState::kClosing)) return kOk;
    if (interrupt_pending(ctx.interrupt)) {
      return fail(LS_INTERRUPTED, "interrupted while a relation file was being closed");
    }
    const WaitReport report(&ctx.waits, LS_WAIT_OPEN_RELATION);
    futex_wait_interruptible(&pool.open_event, event, kClosingSliceUs);
  }
}

// Buffered changes are made: then their pages are dirty.
Status apply_change_buffer(BufferPool &pool, Ctx &ctx, const FlushFilter &filter,
                           std::span<const ChangeBufferPage> pages, const FlushPace &pace) {
  for (size_t done = 0; done < pages.size();) {
    const ChangeBufferPage &first = pages[done];
    size_t end = done + 1;
    while (end < pages.size() && end < done + kTearPages && pages[end].file_no == first.file_no)
      end++;
    FileSlot &file = pool.file(first.file_slot);
    FileUse use;
    const bool wanted = filter.wants(file);
    if (wanted && !filter.closing) {
      LS_TRY(begin_use(*pool.shared(), ctx, filter, {&file, first.file_no}, &use));
    }
    if (wanted && (filter.closing || use)) {
      const Status status = tree_ops().bring_in(ctx, file, {&first, end - done});
      if (code(status) != LS_NOT_FOUND) LS_TRY(status);   // dropped meanwhile
    }
    if (ctx.interrupt && *ctx.interrupt)
      return fail(LS_INTERRUPTED, "interrupted while reading pages to be changed");
    done = end;
    if (pace && done < pages.size()) pace(done, pages.size());
  }
  return kOk;
}

Status flush_all(BufferPool &pool, Ctx &ctx, const FlushFilter &filter,
                 const FlushPace &pace = {}) {
  const FlushBound bound(*pool.shared(), filter.up_to);
  const std::vector<ChangeBufferPage> waiting = change_buffer_pages(*pool.shared(), filter.up_to);
  std::vector<CompressedPage> compressed = collect_compressed(pool, filter);
  // To read the leaves of buffered changes, to write compressed pages and to write frames take as
  // long, if there are any.
  const size_t parts = size_t{1} + !waiting.empty() + !compressed.empty();
  size_t part = 0;
  const FlushPace in_part = [&](size_t done, size_t total) {
    pace(part * total + done, parts * total);
  };
  const FlushPace &paced = pace ? in_part : pace;
  if (!waiting.empty()) {
    LS_TRY(apply_change_buffer(pool, ctx, filter, waiting, paced));
    part++;
  }
  if (!compressed.empty()) {
    LS_TRY(write_all(pool, ctx, filter, std::move(compressed), paced));
    part++;
  }
  LS_FAILPOINT(buffer_before_frames);
  LS_TRY(write_all(pool, ctx, filter, collect(pool, filter), paced));
  return filter.include_unlogged ? sync_unlogged(pool, filter) : kOk;
}

}  // namespace

Status BufferPool::make_buffered_changes(Ctx &ctx, std::span<const ChangeBufferPage> pages) {
  return apply_change_buffer(*this, ctx, {.up_to = ~Gsn{0}, .include_unlogged = false}, pages, {});
}

Status BufferPool::flush(Ctx &ctx, Gsn up_to, bool include_unlogged, const FlushPace &pace) {
  return flush_all(*this, ctx, {.up_to = up_to, .include_unlogged = include_unlogged}, pace);
}

Status BufferPool::flush_frames(Ctx &ctx) {
  const FlushFilter filter{.up_to = ~Gsn{0}, .include_unlogged = false};
  return write_all(*this, ctx, filter, collect(*this, filter), {});
}

Status BufferPool::flush_database(Ctx &ctx, u32 database) {
  return flush_all(*this, ctx, {.up_to = ~Gsn{0}, .include_unlogged = true, .database = database});
}

// While the store follows, redo may be waiting for one of the files: the log is covered behind it.
Status BufferPool::flush_closing(Ctx &ctx) {
  const bool follows = shared_->following.load(std::memory_order_relaxed);
  return flush_all(*this, ctx, {.up_to = ~Gsn{0}, .include_unlogged = true, .closing = true,
                                .waits = !follows});
}

std::vector<const FileSlot *> BufferPool::unclean_closing() const {
  std::vector<const FileSlot *> found;
  auto note = [&](u32 slot) {
    const bool noted = !found.empty() && found.back() == &file(slot);
    if (file_is(file(slot), FileState::kClosing) && !noted) found.push_back(&file(slot));
  };
  for (const ChangeBufferPage &page : change_buffer_pages(*shared_, ~Gsn{0})) note(page.file_slot);
  for (const CompressedPage &page : dirty_compressed(*shared_, ~Gsn{0})) note(page.file_slot);
  for (u32 i = 0; i < frame_count(); i++) {
    Frame *f = frame(i);
    const u32 slot = f->file_slot.load(std::memory_order_relaxed);
    if (f->state.load(std::memory_order_acquire) == FrameState::kFree) continue;
    if (!file_is(file(slot), FileState::kClosing)) continue;
    settle(f);
    // In this order: a write that fails leaves the mark, and ends behind it.
    const bool writing = f->writing.load(std::memory_order_acquire) != 0;
    if (writing || f->dirty_since.load(std::memory_order_acquire) != 0) note(slot);
  }
  return found;
}

Gsn BufferPool::oldest_dirty() const {
  const std::lock_guard lock(shared_->scan_mutex);
  LS_ASSERT(shared_->moved_since.load(std::memory_order_relaxed) == 0);
  shared_->moved_since.store(~Gsn{0}, std::memory_order_seq_cst);
  // In this order: CHBUF-1.
  Gsn oldest = std::min(oldest_buffered_change(*shared_), oldest_compressed(*shared_));
  LS_FAILPOINT(buffer_inside_scan);
  for (u32 i = 0; i < frame_count(); i++) {
    Frame *f = frame(i);
    settle(f);
    Gsn since = f->dirty_since.load(std::memory_order_acquire);
    if (since == 0 || since >= oldest) continue;
    const FileSlot &slot = shared_->files[f->file_slot.load(std::memory_order_relaxed)];
    if (slot.logged && !is_leaving(slot)) oldest = since;
  }
  return std::min(oldest, shared_->moved_since.exchange(0, std::memory_order_seq_cst));
}

}  // namespace ls
