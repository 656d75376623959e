// From swip to page: the hot path, heating cool pages, and reading evicted ones through the I/O
// stage.
#include <cstring>

#include "base/check.hpp"
#include "base/copy_page.hpp"
#include "base/failpoint.hpp"
#include "base/prefetch.hpp"
#include "buffer/change_buffer.hpp"
#include "buffer/compressed_cache.hpp"
#include "buffer/followed_pages.hpp"
#include "buffer/io_stage.hpp"
#include "buffer/page_guard.hpp"
#include "buffer/pool.hpp"

namespace ls {

namespace {

constexpr i64 kLoadSliceUs = 50'000;
constexpr i64 kWriteSliceUs = 500;

u64 load_swip(const Swip *location) { return __atomic_load_n(&location->raw, __ATOMIC_RELAXED); }
void store_swip(Swip *location, Swip swip) {
  __atomic_store_n(&location->raw, swip.raw, __ATOMIC_RELAXED);
}
// For LS_ASSERT, so clang takes it for unused in release builds.
[[maybe_unused]] bool is_evicted(const Swip *location, PageNo page_no) {
  const Swip swip{load_swip(location)};
  return swip.is_evicted() && swip.page_no() == page_no;
}

bool is_gone(const FileSlot &file) {
  FileState state = file.state.load(std::memory_order_acquire);
  return !has_pages(state) && state != FileState::kOpening;
}

Step dropped() {
  (void)fail(LS_NOT_FOUND, "the file was dropped");
  return Step::kError;
}

// Give a page met in passing its second chance.  Not needed for correctness: when the parent cannot
// be had now the page stays cool.  False: the parent has changed.
bool make_hot(OptimisticGuard &parent, Swip *location) {
  if (!parent.begin_change()) return parent.still_same();
  // Under the latch the swip is the one validated before, only its cool bit may differ.
  Swip swip{load_swip(location)};
  LS_ASSERT(swip.is_swizzled());
  if (swip.is_cool()) {
    LS_ASSERT(swip.frame()->state.load(std::memory_order_relaxed) == FrameState::kCool);
    swip.frame()->state.store(FrameState::kHot, std::memory_order_release);
    store_swip(location, Swip::hot(swip.frame()));
  }
  parent.end_change();
  return parent.still_same();
}

// Of the file's tree, as it is now.
Status count_pages(BufferPool &pool, FileSlot &file, PageNo *count) {
  for (;;) {
    OptimisticGuard guard;
    const Step step = pool.resolve_meta(file, guard);
    if (step == Step::kError) return make_status(last_error().status);
    if (step == Step::kRestart) continue;
    *count = __atomic_load_n(&reinterpret_cast<const MetaPage *>(guard.page())->page_count,
                             __ATOMIC_RELAXED);
    if (guard.valid()) return kOk;
  }
}

// Read the page into the frame; errors name file and page.  LS_END (no details): there is no such
// page on disk. in_tree: not during recovery, nor when the file is opened.
Status read_page(const Ctx &ctx, PoolShared &pool, FileSlot &file, PageNo page_no, u8 *bytes,
                 bool in_tree) {
  WaitReport report(&ctx.waits, LS_WAIT_PAGE_READ);
  FileRef ref = file.ref();
  Status status = file_read_page(ref, page_no, bytes);
  pool.reads.fetch_add(1, std::memory_order_relaxed);
  const char *fault = nullptr;
  if (ok(status) && page_no == kMetaPageNo) {
    fault = page_fault(bytes, page_no, kLogEndUnknown);  // load_meta looks at its store first
  } else if (ok(status)) {
    PageNo page_count = kInvalidPageNo;
    // Leaves refer to no page.
    if (in_tree && reinterpret_cast<const PageHeader *>(bytes)->kind != PageKind::kLeaf)
      LS_TRY(count_pages(*ctx.pool, file, &page_count));
    fault = read_fault(bytes, page_no, ctx.pool->log().last_gsn(), page_count);
  }
  // A file that is being dropped may be short of pages or names already.
  if ((fault || !ok(status)) && is_gone(file)) return fail(LS_NOT_FOUND, "the file was dropped");
  if (fault) return fail_page(ref.path, page_no, "%s", fault);
  return status;
}

Status no_such_page(const FileSlot &file, PageNo page_no) {
  return fail_page(file.path, page_no,
                   "page does not exist (the file ends before it, or it was never written)");
}

// Of a page about to be searched: header, hints and first slots, and the fences; asked for while
// the frame's line is on its way.  (A million random look-ups by key in a query: 3.1 us each
// without, 2.55 with.)
void ask_for(const u8 *page) {
  constexpr u32 kFirstBytes = 6 * kCacheLine;
  prefetch(page, kFirstBytes);
  __builtin_prefetch(page + kPageSize - kCacheLine);
}

// Sleep until the load that `event` was read for has ended.
bool wait_for_load(Ctx &ctx, Frame *frame, u32 event) {
  WaitReport report(&ctx.waits, LS_WAIT_PAGE_READ);
  while (frame->io_event().load(std::memory_order_acquire) == event) {
    futex_wait_interruptible(&frame->io_event(), event, kLoadSliceUs);
    if (ctx.interrupt && *ctx.interrupt) {
      (void)fail(LS_INTERRUPTED, "interrupted while waiting for a page to be read");
      return false;
    }
  }
  return true;
}

// Where an evicted swip was met; the parent may be latched again while its version holds.
struct EvictedRef {
  Frame *parent;
  u64 version;
  Swip *location;
  FileNo file_no;
  PageNo page_no;
};

// With the parent latched: may the page in the frame, which is the caller's alone, become the child
// that the swip refers to?
Status become_child(Ctx &ctx, FileSlot &file, const EvictedRef &ref, Frame *frame) {
  LS_ASSERT(ref.parent->latch.is_exclusive());
  LS_ASSERT(frame->state.load(std::memory_order_relaxed) == FrameState::kLoading);
  BufferPool &pool = *ctx.pool;
  const auto child_fault = tree_ops().child_fault;
  if (const char *fault =
          child_fault ? child_fault(pool.page(ref.parent), ref.location, pool.page(frame))
                      : nullptr) {
    if (is_gone(file)) return fail(LS_NOT_FOUND, "the file was dropped");
    return fail_page(file.path, frame->page_no.load(std::memory_order_relaxed), "%s", fault);
  }
  return apply_buffered_changes(ctx, file, frame);
}

// Take the page out of the I/O stage and let the swip point to it.  kRestart: the parent has
// changed, or another actor did it.  kError: it is another page than its parent says, or a change
// that waited for it does not fit it.  state: what the frame is now (kLoaded, kFollowed: any reader
// may do this; kLoading: its reader only).
Step swizzle(Ctx &ctx, FileSlot &file, const EvictedRef &ref, FrameState state) {
  PoolShared &pool = *ctx.pool->shared();
  if (!lock_exclusive_at(ref.parent->latch, ref.version)) return Step::kRestart;
  LS_ASSERT(is_evicted(ref.location, ref.page_no));
  Frame *frame;
  {
    IoStageLock stage(pool, ref.file_no, ref.page_no);
    frame = stage.find();
    if (frame && frame->state.load(std::memory_order_relaxed) == state) {
      stage.remove(frame);
      frame->state.store(FrameState::kLoading, std::memory_order_relaxed);   // ours alone
    } else {
      frame = nullptr;
    }
  }
  if (!frame) {
    ref.parent->latch.unlock_exclusive_unchanged();
    return Step::kRestart;
  }
  if (!ok(become_child(ctx, file, ref, frame))) {
    // No reader can have entered another frame: it would not have found the parent valid.
    IoStageLock stage(pool, ref.file_no, ref.page_no);
    frame->state.store(state, std::memory_order_release);
    stage.insert(frame);
    ref.parent->latch.unlock_exclusive_unchanged();
    return Step::kError;
  }
  LS_ASSERT(!has_buffered_changes(pool, file, ref.page_no));   // CHBUF-3
  frame->visits.store(0, std::memory_order_relaxed);
  frame->state.store(FrameState::kHot, std::memory_order_release);
  store_swip(ref.location, Swip::hot(frame));
  ref.parent->latch.unlock_exclusive();  // a new version: STAGE-1
  return Step::kOk;
}

// While the page is being written it is not taken out of where it lies compressed.
Status decompress(Ctx &ctx, PoolShared &pool, const EvictedRef &ref, Frame *frame,
                  bool *decompressed) {
  for (;;) {
    const Decompressed outcome = decompress_page(pool, ref.file_no, ref.page_no, frame);
    *decompressed = outcome == Decompressed::kYes;
    if (outcome == Decompressed::kDamaged) return make_status(last_error().status);
    if (outcome != Decompressed::kBusy) return kOk;
    WaitReport report(&ctx.waits, LS_WAIT_PAGE_READ);
    std::atomic<u32> never{0};
    futex_wait_interruptible(&never, 0, kWriteSliceUs);
    if (ctx.interrupt && *ctx.interrupt)
      return fail(LS_INTERRUPTED, "interrupted while waiting for a page to be written");
  }
}

// The reader has entered `frame` (kLoading) into the I/O stage: read it and hand it on.
Step read_entered(Ctx &ctx, PoolShared &pool, FileSlot &file, const EvictedRef &ref, Frame *frame,
                  u8 *bytes) {
  LS_ASSERT(frame->state.load(std::memory_order_relaxed) == FrameState::kLoading);
  bool decompressed;
  Status status = decompress(ctx, pool, ref, frame, &decompressed);
  if (ok(status) && !decompressed) {
    ctx.pages.read++;
    ctx.just_read = ref.page_no;
    status = read_page(ctx, pool, file, ref.page_no, bytes, true);
    if (code(status) == LS_END) status = no_such_page(file, ref.page_no);
  }
  if (ok(status)) {
    const Step step = swizzle(ctx, file, ref, FrameState::kLoading);
    if (step == Step::kOk) {
      io_stage_wake(frame);
      return Step::kRestart;
    }
    if (step == Step::kError) status = make_status(last_error().status);
  }
  // What the file does not have stays: the next reader tries the same, in vain.
  const bool stays = ok(status) || frame->dirty_since.load(std::memory_order_relaxed) != 0;
  {
    IoStageLock stage(pool, ref.file_no, ref.page_no);
    LS_ASSERT(stage.find() == frame);   // STAGE-2
    if (stays) {
      frame->state.store(FrameState::kLoaded, std::memory_order_release);
    } else {
      stage.remove(frame);
    }
  }
  io_stage_wake(frame);
  if (ok(status)) return Step::kRestart;
  // a reader that waited tries itself, and reports its own error
  if (!stays) release_frame(pool, frame);
  return Step::kError;
}

}  // namespace

Step BufferPool::resolve_meta(FileSlot &file, OptimisticGuard &meta) {
  meta.reset();
  Frame *frame = file.meta.load(std::memory_order_acquire);
  OptimisticGuard guard(*this, frame);
  if (is_gone(file)) return dropped();
  // A frame that was the meta page before the version was read, and still is the slot's, is it at
  // that version.
  if (file.meta.load(std::memory_order_acquire) != frame) return Step::kRestart;
  meta = std::move(guard);
  return Step::kOk;
}

Step BufferPool::resolve(Ctx &ctx, OptimisticGuard &parent, Swip *location, FileSlot &file,
                         OptimisticGuard &child) {
  child.reset();
  Swip swip{load_swip(location)};
  if (!parent.valid()) {
    parent.reset();
    return Step::kRestart;
  }
  if (!swip.is_hot()) {
    if (swip.is_evicted() && is_followed(*shared_, file))
      return resolve_followed(ctx, parent, file, swip.page_no(), child);
    if (swip.is_evicted()) return read_evicted(ctx, parent, location, file, swip.page_no());
    if (swip.is_null()) {
      parent.reset();
      if (is_gone(file)) return dropped();
      (void)fail(LS_CORRUPT, "\"%s\": reference to no page", file.path);
      return Step::kError;
    }
    if (!make_hot(parent, location)) {
      parent.reset();
      return Step::kRestart;
    }
  }
  Frame *frame = swip.frame();
  LS_ASSERT(index_of(frame) < frame_count());
  ask_for(page(frame));
  OptimisticGuard guard(*this, frame);
  // In this order: were the child's frame given up before its version was read, the file's state
  // shows it, unless the slot is in use again; then the parent's frame was given up, too, and is
  // not valid.
  bool gone = is_gone(file);
  if (!parent.valid()) {
    parent.reset();
    return Step::kRestart;
  }
  if (gone) {
    parent.reset();
    return dropped();
  }
  count_hit(ctx, guard);
  child = std::move(guard);
  return Step::kOk;
}

// Only leaves count.
void BufferPool::count_hit(Ctx &ctx, const OptimisticGuard &child) {
  const u8 kind = __atomic_load_n(child.page() + offsetof(PageHeader, kind), __ATOMIC_RELAXED);
  if (kind != static_cast<u8>(PageKind::kLeaf)) return;
  std::atomic<u64> &hits = shared_->counters[ctx.slot % kCounterStripes].hits;
  hits.store(hits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  // An unvalidated number at worst moves one page from one counter to the other.
  const PageNo met = __atomic_load_n(&reinterpret_cast<const PageHeader *>(child.page())->page_no,
                                     __ATOMIC_RELAXED);
  if (met != ctx.just_read) ctx.pages.hit++;
  ctx.just_read = kInvalidPageNo;
}

// As resolve(): kRestart after a page was read, or while redo is at it.
Step BufferPool::resolve_followed(Ctx &ctx, OptimisticGuard &parent, FileSlot &file, PageNo page_no,
                                  OptimisticGuard &child) {
  if (is_gone(file)) {
    parent.reset();
    return dropped();
  }
  FollowedLook look = look_followed(*this, file, page_no);
  if (!look.guard) {
    u64 version;
    Frame *above = parent.release(&version);
    Status status = kOk;
    if (look.state == FrameState::kLoading) {
      if (!wait_for_load(ctx, look.frame, look.event)) return Step::kError;
    } else if (look.frame) {
      look.frame->latch.version_wait();
    } else {
      status = load_followed(ctx, file, page_no, Absent::kFails);
    }
    // What the parent said may have been said while redo changed it.
    return ok(status) || !above->latch.validate(version) ? Step::kRestart : Step::kError;
  }
  if (!parent.valid()) {
    parent.reset();
    return Step::kRestart;
  }
  note_wanted(look.frame);
  count_hit(ctx, look.guard);
  child = std::move(look.guard);
  return Step::kOk;
}

// The swip was evicted while the parent had this version.  Ends with kRestart or kError, never with
// a page: the parent changes.
Step BufferPool::read_evicted(Ctx &ctx, OptimisticGuard &parent, Swip *location, FileSlot &file,
                              PageNo page_no) {
  EvictedRef ref{};
  ref.parent = parent.release(&ref.version);
  ref.location = location;
  ref.file_no = file.file_no.load(std::memory_order_acquire);
  ref.page_no = page_no;
  if (is_gone(file)) return dropped();
  LS_FAILPOINT(buffer_before_load);
  LS_ASSERT(kOptimisticIsShared || latches_held() == 0);
  if (!ok(reserve_for_changes(ctx, file, page_no))) return Step::kError;
  Frame *spare = nullptr;  // claimed for this page
  Frame *found;
  FrameState state{};
  u32 event = 0;
  for (;;) {
    bool changed = false;
    {
      IoStageLock stage(*shared_, ref.file_no, page_no);
      found = stage.find();
      if (found) {
        state = found->state.load(std::memory_order_relaxed);
        event = found->io_event().load(std::memory_order_relaxed);
      } else if (spare) {
        // Another reader that swizzled the page since this one read the swip had latched the parent
        // before it took the page out of the stage: this one sees the parent's new version here.
        changed = !ref.parent->latch.validate(ref.version);
        if (!changed) stage.insert(spare);
      }
    }
    if (found || changed) {
      if (spare) release_frame(*shared_, spare);
      break;
    }
    if (spare) {
      return read_entered(ctx, *shared_, file, ref, spare, page(spare));
    }
    if (!ok(free_list_take(ctx, *shared_, &spare))) return Step::kError;
    if (!claim_frame(*shared_, file, spare, page_no)) return Step::kError;
  }
  if (!found) return Step::kRestart;
  if (state == FrameState::kLoaded || state == FrameState::kFollowed)
    return swizzle(ctx, file, ref, state) == Step::kError ? Step::kError : Step::kRestart;
  return wait_for_load(ctx, found, event) ? Step::kRestart : Step::kError;
}

bool BufferPool::is_beside_file(const FileSlot &file, PageNo page_no) const {
  const FileNo file_no = file.file_no.load(std::memory_order_relaxed);
  // In the order in which a page goes from one to the other.
  return is_compressed_dirty(*shared_, file_no, page_no) ||
         IoStageLock(*shared_, file_no, page_no).find() != nullptr;
}

ReadPast BufferPool::read_past(const FileSlot &file, PageNo page_no, u8 *page) const {
  const FileNo file_no = file.file_no.load(std::memory_order_relaxed);
  const Decompressed copied = copy_compressed(*shared_, file_no, page_no, page);
  if (copied == Decompressed::kDamaged) return ReadPast::kNot;  // the ordinary way says so
  if (has_buffered_changes(*shared_, file, page_no) ||
      IoStageLock(*shared_, file_no, page_no).find())
    return ReadPast::kNot;
  return copied == Decompressed::kYes ? ReadPast::kCopied : ReadPast::kFile;
}

// A claimed frame becomes the page, or is given back.
Step BufferPool::enter(Ctx &ctx, FileSlot &file, const EvictedChild &child, Frame *frame,
                       const u8 *bytes) {
  const PageNo page_no = child.page_no;
  const FileNo file_no = file.file_no.load(std::memory_order_relaxed);
  LS_ASSERT(frame->page_no.load(std::memory_order_relaxed) == page_no);
  copy_page(page(frame), bytes);
  Step step = Step::kRestart;
  if (lock_exclusive_at(child.parent->latch, *child.version)) {
    LS_ASSERT(is_evicted(child.location, page_no));
    // If a frame of it is there another reader is reading it: that will be its frame.  No reader
    // begins to now.  And if the file does not have it, it stays where it is.
    const bool alone = !is_beside_file(file, page_no);
    if (alone) {
      drop_compressed(*shared_, file_no, page_no);
      const EvictedRef ref{child.parent, *child.version, child.location, file_no, page_no};
      step = ok(become_child(ctx, file, ref, frame)) ? Step::kOk : Step::kError;
    }
    if (step == Step::kOk) {
      LS_ASSERT(!has_buffered_changes(*shared_, file, page_no));   // CHBUF-3
      frame->state.store(FrameState::kCool, std::memory_order_release);
      store_swip(child.location, Swip::cool(frame));
      child.parent->latch.unlock_exclusive();
      *child.version += 2;
    } else {
      child.parent->latch.unlock_exclusive_unchanged();
    }
  }
  if (step != Step::kOk) release_frame(*shared_, frame);
  return step;
}

// What was read past the pool had no buffered changes.
void BufferPool::take_in(Ctx &ctx, FileSlot &file, const EvictedChild &child, const u8 *bytes) {
  // A file of more than a quarter of the pool gets frames that no other file is going to want soon.
  const bool large =
      file.pages_allocated.load(std::memory_order_relaxed) > shared_->frame_count / 4;
  if (large && shared_->free_count.load(std::memory_order_relaxed) <= shared_->high_water) return;
  Frame *frame = free_list_pop(*shared_);
  if (frame && claim_frame(*shared_, file, frame, child.page_no))
    (void)enter(ctx, file, child, frame, bytes);
}

Step BufferPool::bring_in(Ctx &ctx, FileSlot &file, const EvictedChild &child, const u8 *bytes) {
  Frame *frame;
  if (!ok(reserve_for_changes(ctx, file, child.page_no)) ||
      !ok(free_list_take(ctx, *shared_, &frame)) ||
      !claim_frame(*shared_, file, frame, child.page_no))
    return Step::kError;
  return enter(ctx, file, child, frame, bytes);
}

Status read_or_zero(BufferPool &pool, Ctx &ctx, FileSlot &file, PageNo page_no, Frame *frame,
                    bool *absent) {
  const Status status = read_page(ctx, *pool.shared(), file, page_no, pool.page(frame), false);
  ctx.pages.read++;
  *absent = code(status) == LS_END;
  if (!*absent) return status;
  std::memset(pool.page(frame), 0, kPageSize);
  return kOk;
}

namespace {

Status read_followed(Ctx &ctx, FileSlot &file, PageNo page_no, Absent absent, u8 *page) {
  Status status = make_status(LS_END);
  if (absent != Absent::kAnew) {
    status = read_page(ctx, *ctx.pool->shared(), file, page_no, page, absent == Absent::kFails);
    ctx.pages.read++;
    ctx.just_read = page_no;
  }
  if (code(status) != LS_END) return status;
  if (absent == Absent::kFails) return no_such_page(file, page_no);
  std::memset(page, 0, kPageSize);
  return kOk;
}

}  // namespace

Status load_followed(Ctx &ctx, FileSlot &file, PageNo page_no, Absent absent) {
  BufferPool &pool = *ctx.pool;
  PoolShared &shared = *pool.shared();
  Frame *frame;
  LS_TRY(free_list_take(ctx, shared, &frame));
  if (!claim_frame(shared, file, frame, page_no)) return make_status(LS_NOT_FOUND);
  const FileNo file_no = frame->file_no.load(std::memory_order_relaxed);
  bool ours;
  {
    IoStageLock stage(shared, file_no, page_no);
    std::atomic_thread_fence(std::memory_order_seq_cst);   // pairs with end_following()
    ours = is_followed(shared, file) && !stage.find();     // STAGE-2
    if (ours) stage.insert(frame);
  }
  if (!ours) {
    release_frame(shared, frame);
    return kOk;
  }
  const Status status = read_followed(ctx, file, page_no, absent, pool.page(frame));
  {
    IoStageLock stage(shared, file_no, page_no);
    if (ok(status)) frame->state.store(FrameState::kFollowed, std::memory_order_release);
    else stage.remove(frame);
  }
  io_stage_wake(frame);
  if (!ok(status)) {
    const ls_error error = last_error();
    release_frame(shared, frame);
    set_last_error(error);
  }
  return status;
}

Status find_followed(Ctx &ctx, FileSlot &file, PageNo page_no, bool anew, Frame **frame) {
  LS_ASSERT(page_no != kMetaPageNo);
  for (;;) {
    const FollowedLook look = look_followed(*ctx.pool, file, page_no);
    *frame = look.frame;
    if (!look.frame) {
      LS_TRY(load_followed(ctx, file, page_no, anew ? Absent::kAnew : Absent::kZeros));
    } else if (look.state != FrameState::kLoading) {
      return kOk;
    } else if (!wait_for_load(ctx, look.frame, look.event)) {
      return make_status(LS_INTERRUPTED);
    }
  }
}

namespace {

// Exclusively latched.
Status claim_latched(Ctx &ctx, FileSlot &file, PageNo page_no, Frame **frame) {
  PoolShared &pool = *ctx.pool->shared();
  Frame *f;
  LS_TRY(free_list_take(ctx, pool, &f));
  f->latch.lock_exclusive();
  if (!claim_frame(pool, file, f, page_no)) {
    f->latch.unlock_exclusive();
    return make_status(LS_NOT_FOUND);
  }
  *frame = f;
  return kOk;
}

}  // namespace

Status load_zero(Ctx &ctx, FileSlot &file, PageNo page_no, Frame **frame) {
  LS_TRY(claim_latched(ctx, file, page_no, frame));
  std::memset(ctx.pool->page(*frame), 0, kPageSize);
  (*frame)->state.store(FrameState::kLoaded, std::memory_order_release);
  return kOk;
}

Status load_or_zero(BufferPool &pool, Ctx &ctx, FileSlot &file, PageNo page_no, Frame **frame,
                    bool *absent) {
  Frame *f;
  LS_TRY(claim_latched(ctx, file, page_no, &f));
  const Status status = read_or_zero(pool, ctx, file, page_no, f, absent);
  if (!ok(status)) {
    f->latch.unlock_exclusive();
    release_frame(*pool.shared(), f);
    return status;
  }
  f->state.store(FrameState::kLoaded, std::memory_order_release);
  *frame = f;
  return kOk;
}

Status BufferPool::load_page(Ctx &ctx, FileSlot &file, PageNo page_no, Frame **frame) {
  Frame *f;
  bool absent;
  LS_TRY(load_or_zero(*this, ctx, file, page_no, &f, &absent));
  if (absent) {
    f->latch.unlock_exclusive();
    release_frame(*shared_, f);
    return no_such_page(file, page_no);
  }
  *frame = f;
  return kOk;
}

}  // namespace ls
