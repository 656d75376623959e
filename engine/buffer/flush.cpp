// Writing dirty pages on purpose (checkpoint, host flush, shutdown), and the bound for truncating the log.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/check.hpp"
#include "buffer/page_writer.hpp"
#include "buffer/waiting_changes.hpp"

namespace ls {

namespace {

// A page that somebody else is writing is tried again after this long.
constexpr i64 kBusySleepUs = 500;
// Scans that reuse of freed pages may disturb before oldest_dirty() falls back to an older, still valid answer.
constexpr int kScans = 4;

// Wait until nobody holds the frame exclusively, so that a change already logged has been marked.
void settle(Frame *frame) {
  u64 version;
  if (!frame->latch.try_version(version)) frame->latch.version_wait();
}

struct Candidate {
  u64 place;  // file slot, page number: in file order
  Frame *frame;
};

struct FlushFilter {
  Gsn up_to;
  bool include_unlogged;
  std::optional<u32> database = {};

  bool wants(const FileSlot &slot) const {
    if (database && slot.key.database != *database) return false;
    if (!file_is(slot, FileState::kActive)) return false;
    return slot.logged || (include_unlogged && slot.kind != LS_REL_VERSIONS);
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
    found.push_back({u64{slot} << 32 | frame->page_no.load(std::memory_order_relaxed), frame});
  }
  std::sort(found.begin(), found.end(), [](const Candidate &a, const Candidate &b) { return a.place < b.place; });
  return found;
}

Status write_all(BufferPool &pool, Ctx &ctx, const FlushFilter &filter, std::vector<Candidate> pages, const FlushPace &pace) {
  PageWriter writer(pool);
  const size_t total = pages.size();
  size_t done = 0;
  while (!pages.empty()) {
    std::vector<Candidate> busy;
    for (const Candidate &c : pages) {
      done++;
      // The frame may hold another page by now: then that is written, or nothing.
      if (!filter.wants(pool.file(c.frame->file_slot.load(std::memory_order_relaxed)))) continue;
      if (writer.add(c.frame, filter.up_to, PageWriter::Patience::kWait) == PageWriter::Added::kBusy) busy.push_back(c);
      if (!writer.full()) continue;
      LS_TRY(writer.write(ctx.interrupt));
      if (pace && done < total) pace(done, total);
    }
    LS_TRY(writer.write(ctx.interrupt));
    pages = std::move(busy);
    if (pages.empty()) break;
    if (ctx.interrupt && *ctx.interrupt) return fail(LS_INTERRUPTED, "interrupted while writing pages");
    std::atomic<u32> never{0};
    futex_wait(&never, 0, kBusySleepUs);
  }
  return kOk;
}

// Unlogged pages are not synced when they are written: neither those of this flush nor those evicted before.
Status sync_unlogged(BufferPool &pool, const FlushFilter &filter) {
  for (u32 i = 0; i < pool.shared()->max_files; i++) {
    FileSlot &slot = pool.file(i);
    if (!filter.wants(slot)) continue;
    FileNo file_no = slot.file_no.load(std::memory_order_relaxed);
    if (!pin_file(slot, file_no)) continue;
    Status status = file_sync(slot.ref());
    unpin_file(slot);
    LS_TRY(status);
  }
  return kOk;
}

// Changes that wait are made: then their pages are dirty.
Status bring_in_waiting(BufferPool &pool, Ctx &ctx, const FlushFilter &filter, const std::vector<WaitingPage> &pages, const FlushPace &pace) {
  for (size_t done = 0; done < pages.size();) {
    const WaitingPage &first = pages[done];
    size_t end = done + 1;
    while (end < pages.size() && end < done + kTearPages && pages[end].file_no == first.file_no) end++;
    FileSlot &file = pool.file(first.file_slot);
    if (filter.wants(file) && file.file_no.load(std::memory_order_relaxed) == first.file_no) {
      const Status status = tree_ops().bring_in(ctx, file, {&first, end - done});
      if (code(status) != LS_NOT_FOUND) LS_TRY(status);   // dropped meanwhile
    }
    if (ctx.interrupt && *ctx.interrupt) return fail(LS_INTERRUPTED, "interrupted while reading pages to be changed");
    done = end;
    if (pace && done < pages.size()) pace(done, pages.size());
  }
  return kOk;
}

Status flush_all(BufferPool &pool, Ctx &ctx, const FlushFilter &filter, const FlushPace &pace = {}) {
  const std::vector<WaitingPage> waiting = waiting_pages(*pool.shared(), filter.up_to);
  // To read them takes half of the time, if there are any.
  auto part = [&pace, parts = waiting.empty() ? size_t{1} : size_t{2}](size_t before) -> FlushPace {
    if (!pace || parts == 1) return pace;
    return [&pace, before, parts](size_t done, size_t total) { pace(before * total + done, parts * total); };
  };
  LS_TRY(bring_in_waiting(pool, ctx, filter, waiting, part(0)));
  LS_TRY(write_all(pool, ctx, filter, collect(pool, filter), part(1)));
  return filter.include_unlogged ? sync_unlogged(pool, filter) : kOk;
}

}  // namespace

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

Gsn BufferPool::oldest_dirty() const {
  Gsn hardened = log_.hardened();
  for (int scan = 0; scan < kScans; scan++) {
    u64 takeovers = shared_->takeovers.load(std::memory_order_seq_cst);
    Gsn oldest = oldest_waiting(*shared_);   // before the frames: V1
    for (u32 i = 0; i < frame_count(); i++) {
      Frame *f = frame(i);
      settle(f);
      Gsn since = f->dirty_since.load(std::memory_order_acquire);
      if (since == 0 || since >= oldest) continue;
      const FileSlot &slot = shared_->files[f->file_slot.load(std::memory_order_relaxed)];
      if (slot.logged && !file_is(slot, FileState::kForgotten)) oldest = since;
    }
    // A mark that moved from a frame not yet seen to one seen before was announced first (name_frame).
    if (shared_->takeovers.load(std::memory_order_seq_cst) == takeovers) {
      shared_->redo_bound.store(std::min(hardened + 1, oldest), std::memory_order_relaxed);
      return oldest;
    }
  }
  return shared_->redo_bound.load(std::memory_order_relaxed);
}

}  // namespace ls
