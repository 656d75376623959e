// file_cut.cpp - free pages behind the last one in use are forgotten, then cut off.
#include "buffer/file_cut.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "base/check.hpp"
#include "base/copy_page.hpp"
#include "base/failpoint.hpp"
#include "base/interrupt.hpp"
#include "buffer/io_stage.hpp"
#include "buffer/page_allocator.hpp"
#include "wal/host_post.hpp"

namespace ls {

namespace {

constexpr int kTries = 16;
constexpr i64 kWriteSliceUs = 500;
constexpr size_t kPlacesAtOnce = 256;

// What the lists say at one version of the meta page.
struct Plan {
  Frame *meta = nullptr;
  u64 version = 0;
  PageNo page_count = 0;
  FileCut to{};
  std::vector<PageNo> list{};   // of free pages, afterwards

  bool is_same() const { return meta->latch.validate(version); }
};

u64 load_swip(const u64 *location) { return __atomic_load_n(location, __ATOMIC_RELAXED); }

Step damaged(const FileSlot &file, PageNo page_no, const char *what) {
  (void)fail_page(file.path, page_no, "%s", what);
  return Step::kError;
}

// The trunk that *location in the page of `parent` refers to.  Once it is in memory the parent is
// looked at again: while the meta page has not changed the lists have not.
Step follow_trunk(Ctx &ctx, FileSlot &file, const Plan &plan, OptimisticGuard &parent,
                  u64 *location, OptimisticGuard &trunk) {
  Frame *frame = parent.frame();
  const PageNo page_no = frame->page_no.load(std::memory_order_relaxed);
  for (;;) {
    const Step step =
        ctx.pool->resolve(ctx, parent, reinterpret_cast<Swip *>(location), file, trunk);
    if (step != Step::kRestart) return step;
    if (interrupt_pending(ctx.interrupt)) {
      (void)fail(LS_INTERRUPTED, "interrupted while free pages were looked for");
      return Step::kError;
    }
    parent = OptimisticGuard(*ctx.pool, frame);
    const bool same = frame->in_tree() &&
                      frame->page_no.load(std::memory_order_relaxed) == page_no &&
                      frame->file_no.load(std::memory_order_relaxed) ==
                          file.file_no.load(std::memory_order_relaxed);
    if (!same || !plan.is_same()) return Step::kRestart;
  }
}

// Calls each(trunk, numbers), for the meta page's own list with trunk 0, until it returns false.
// kRestart: the lists have changed.
template <typename Each>
Step each_list(Ctx &ctx, FileSlot &file, Plan *plan, const Each &each) {
  alignas(8) u8 copy[kPageSize];
  OptimisticGuard page;
  if (const Step step = ctx.pool->resolve_meta(file, page); step != Step::kOk) return step;
  copy_page(copy, page.page());
  if (!page.valid()) return Step::kRestart;
  const auto *meta = reinterpret_cast<const MetaPage *>(copy);
  if (meta->free_count > kMaxFreeList) return damaged(file, kMetaPageNo, "free list is too long");
  plan->meta = page.frame();
  plan->version = page.version();
  plan->page_count = meta->page_count;
  plan->to = {meta->page_count, 0, meta->free_total};
  PageNo page_no = kMetaPageNo;
  std::span<const PageNo> numbers(meta->free_pages, meta->free_count);
  u64 *location = &reinterpret_cast<MetaPage *>(const_cast<u8 *>(page.page()))->trunk;
  for (;;) {
    const auto bad = [&](PageNo number) {
      return number == kMetaPageNo || number >= plan->page_count;
    };
    if (page_no >= plan->page_count || std::any_of(numbers.begin(), numbers.end(), bad)) {
      return damaged(file, page_no, "a free page was never handed out");
    }
    if (!each(page_no, numbers) || load_swip(location) == 0) break;
    OptimisticGuard next;
    if (const Step step = follow_trunk(ctx, file, *plan, page, location, next); step != Step::kOk)
      return step;
    page = std::move(next);
    copy_page(copy, page.page());
    if (!page.valid()) return Step::kRestart;
    const auto *trunk = reinterpret_cast<const TrunkPage *>(copy);
    page_no = trunk->header.page_no;
    if (trunk->header.kind != PageKind::kTrunk || trunk->count > kMostInTrunk) {
      return plan->is_same() ? damaged(file, page_no, "not a list of free pages") : Step::kRestart;
    }
    numbers = {trunk->pages, trunk->count};
    location = &reinterpret_cast<TrunkPage *>(const_cast<u8 *>(page.page()))->next;
  }
  return plan->is_same() ? Step::kOk : Step::kRestart;
}

struct Trunk {
  PageNo page_no;
  PageNo highest;   // of its numbers and its own
  u32 pages;
};

// Where the file could end, and the trunks from the first on.
Step find_end(Ctx &ctx, FileSlot &file, Plan *plan, std::vector<Trunk> *trunks) {
  std::vector<bool> free;
  u64 counted = 0;
  bool twice = false;
  const auto note = [&](PageNo number) {
    LS_ASSERT(number < free.size());
    twice |= free[number];
    free[number] = true;
    counted++;
  };
  const Step step = each_list(ctx, file, plan, [&](PageNo trunk, std::span<const PageNo> numbers) {
    if (free.empty()) free.resize(plan->page_count);
    if (trunk != kMetaPageNo) {
      note(trunk);
      const PageNo last =
          numbers.empty() ? trunk : *std::max_element(numbers.begin(), numbers.end());
      trunks->push_back({trunk, std::max(trunk, last), static_cast<u32>(numbers.size()) + 1});
    }
    std::for_each(numbers.begin(), numbers.end(), note);
    return !twice;
  });
  if (step != Step::kOk) return step;
  if (twice) return damaged(file, kMetaPageNo, "a page is free twice");
  if (counted != plan->to.free_total)
    return damaged(file, kMetaPageNo, "free pages are counted wrong");
  LS_ASSERT(!free.empty() && !free[kMetaPageNo]);
  while (free[plan->to.page_count - 1]) plan->to.page_count--;
  return Step::kOk;
}

// Trunks behind which there is nothing of the end stay as they are; the numbers of those before
// them go to the list.
Step make_plan(Ctx &ctx, FileSlot &file, Plan *plan) {
  std::vector<Trunk> trunks;
  if (const Step step = find_end(ctx, file, plan, &trunks); step != Step::kOk) return step;
  FileCut to = plan->to;
  if (to.page_count == plan->page_count) return Step::kOk;
  to.trunk = 0;
  to.free_total = 0;
  while (!trunks.empty() && trunks.back().highest < to.page_count) {
    to.trunk = trunks.back().page_no;
    to.free_total += trunks.back().pages;
    trunks.pop_back();
  }
  const u64 version = plan->version;
  const auto keep = [&](PageNo number) {
    if (number != kMetaPageNo && number < to.page_count) plan->list.push_back(number);
  };
  const Step step = each_list(ctx, file, plan, [&](PageNo trunk, std::span<const PageNo> numbers) {
    if (trunk != kMetaPageNo && trunk == to.trunk) return false;
    keep(trunk);
    std::for_each(numbers.begin(), numbers.end(), keep);
    return plan->list.size() <= kMaxFreeList;
  });
  if (step != Step::kOk) return step;
  if (plan->version != version) return Step::kRestart;
  if (plan->list.size() > kMaxFreeList) return Step::kOk;   // too many: none is taken off
  // The last one is taken first: pages at the beginning of the file.
  std::sort(plan->list.begin(), plan->list.end(), std::greater<PageNo>());
  to.free_total += static_cast<u32>(plan->list.size());
  LS_ASSERT(to.free_total < to.page_count && to.trunk < to.page_count);   // ALLOC-2
  plan->to = to;
  return Step::kOk;
}

// Trunks that the meta page refers to no more, up to the one it keeps; returns the reference to
// that.  Those that are not in memory have no others behind them that are (FRAME-2).
Swip free_trunks(Ctx &ctx, Swip first, PageNo kept, Gsn gsn) {
  while (first.is_swizzled() && first.frame()->page_no.load(std::memory_order_relaxed) != kept) {
    ExclusiveGuard trunk = ExclusiveGuard::lock(*ctx.pool, first.frame());
    first = Swip{reinterpret_cast<const TrunkPage *>(trunk.page())->next};
    free_trunk_page(ctx, trunk, gsn);
  }
  if (first.is_swizzled()) return first;
  return kept ? Swip::evicted(kept) : Swip{};
}

// The first step.  file.mutex is held, log space reserved.  *busy: a worker is about to take pages.
Step forget_pages(Ctx &ctx, FileSlot &file, const Plan &plan, bool *busy) {
  if (!lock_exclusive_at(plan.meta->latch, plan.version)) return Step::kRestart;
  ExclusiveGuard guard = ExclusiveGuard::adopt(*ctx.pool, plan.meta);
  LS_ASSERT(file.mutex.is_locked());   // CUT-2
  // A worker that reserves after this exchange finds the meta page latched, and then as it is
  // afterwards.
  *busy = file.pages_reserved.fetch_add(0, std::memory_order_acq_rel) != 0;
  if (*busy || plan.to.page_count == plan.page_count) {
    if (!*busy)
      file.pages_allocated.store(whole_blocks(plan.page_count), std::memory_order_seq_cst);
    guard.reset_unchanged();
    return Step::kOk;
  }
  auto *meta = reinterpret_cast<MetaPage *>(guard.page());
  LS_ASSERT(meta->page_count == plan.page_count);
  const Swip first_trunk{meta->trunk};
  if (file.logged) ctx.log->start(RecordKind::kCut);
  cut_file(ctx, file, guard, plan.to, plan.list);
  const Gsn gsn = file.logged ? ctx.log->finish() : 0;
  meta->trunk = free_trunks(ctx, first_trunk, plan.to.trunk, gsn).raw;
  ctx.pool->mark_changed(ctx.log, guard.frame(), gsn);
  // CUT-2: room beyond is asked for under file.mutex.
  file.pages_allocated.store(whole_blocks(plan.to.page_count), std::memory_order_seq_cst);
  return Step::kOk;
}

// CUT-3 for one frame.  True: it holds no such page any more.
bool drop_last_image(BufferPool &pool, Frame *frame, FileNo file_no, PageNo first) {
  const PageNo page_no = frame->page_no.load(std::memory_order_relaxed);
  if (frame->file_no.load(std::memory_order_relaxed) != file_no || page_no < first ||
      page_no == kInvalidPageNo)
    return true;
  {
    IoStageLock stage(*pool.shared(), file_no, page_no);
    if (!stage.is_page(frame) || !stage.holds(frame)) return true;
    const bool idle = frame->state.load(std::memory_order_acquire) == FrameState::kLoaded &&
                      frame->writing.load(std::memory_order_relaxed) == 0;
    if (!idle) return false;
    stage.remove(frame);
  }
  release_frame(*pool.shared(), frame);
  return true;
}

Status drop_last_images(Ctx &ctx, FileNo file_no, PageNo first) {
  for (u32 i = 0; i < ctx.pool->frame_count(); i++) {
    while (!drop_last_image(*ctx.pool, ctx.pool->frame(i), file_no, first)) {
      if (interrupt_pending(ctx.interrupt))
        return fail(LS_INTERRUPTED, "interrupted while the end of page writes was awaited");
      std::atomic<u32> never{0};
      futex_wait(&never, 0, kWriteSliceUs);
    }
  }
  return kOk;
}

// CUT-1.
Status harden(Ctx &ctx) {
  Log &log = ctx.pool->log();
  if (log.wait_hardened(log.last_gsn(), ctx.interrupt)) return kOk;
  if (log.failed()) return fail(LS_IO_ERROR, "a file cannot be cut: the log has failed");
  return fail(LS_INTERRUPTED, "interrupted while a cut waited for the log");
}

// PLACE-2.
Status name_places(Ctx &ctx, const FileSlot &file, PageNo first, PageNo end) {
  if (!file.logged || !ctx.pool->log().has_host_log()) return kOk;
  LS_ASSERT(file.mutex.is_locked());   // PLACE-2: the pages are in no use meanwhile
  std::array<ls_page_place, kPlacesAtOnce> places;
  while (first < end) {
    size_t count = 0;
    for (; first < end && count < places.size(); first++) places[count++] = {file.key, first};
    const auto insert = [&](const ls_host_log &host) {
      host.insert_places(places.data(), count, true);
    };
    LS_TRY(post_to_host(ctx.pool->log(), std::ref(insert), ctx.interrupt));
  }
  return kOk;
}

Step cut_planned(Ctx &ctx, FileSlot &file, const Plan &plan, FileLength *length, Status *status) {
  LS_FAILPOINT(buffer_before_cut);
  // Held to the end: no worker makes the file longer meanwhile.
  const std::lock_guard lock(file.mutex);
  bool busy;
  if (const Step step = forget_pages(ctx, file, plan, &busy); step != Step::kOk || busy)
    return step;
  *status = file.logged ? harden(ctx) : kOk;
  if (ok(*status))
    *status =
        drop_last_images(ctx, file.file_no.load(std::memory_order_relaxed), plan.to.page_count);
  if (ok(*status))
    *status = name_places(ctx, file, whole_blocks(plan.to.page_count), length->before);
  if (ok(*status)) *status = file_shrink(file.ref(), whole_blocks(plan.to.page_count));
  if (ok(*status)) length->after = whole_blocks(plan.to.page_count);
  return Step::kOk;
}

Status cut_off(Ctx &ctx, FileSlot &file, bool look, FileLength *length) {
  // The host does not unlink or empty the file meanwhile.
  const FilePin pin(file, file.file_no.load(std::memory_order_relaxed));
  if (!pin.pinned()) return fail(LS_NOT_FOUND, "the file was dropped");
  LS_TRY(file_pages(file.ref(), &length->before));
  length->after = length->before;
  for (int i = 0; i < kTries; i++, ctx.pool->count_restart(ctx.slot)) {
    Plan plan;
    Step step = make_plan(ctx, file, &plan);
    if (step == Step::kOk && look) {
      length->after = std::min(length->before, whole_blocks(plan.to.page_count));
      return kOk;
    }
    if (step == Step::kOk) {
      if (file.logged)
        LS_TRY(ctx.log->reserve(kCutRecordBytes + kMaxRecordHeadBytes, ctx.interrupt));
      Status status = kOk;
      step = cut_planned(ctx, file, plan, length, &status);
      if (step == Step::kOk) return status;
    }
    if (step == Step::kError) return make_status(last_error().status);
  }
  return kOk;
}

}  // namespace

Status file_look_for_cut(Ctx &ctx, FileSlot &file, FileLength *length) {
  return cut_off(ctx, file, true, length);
}

Status file_cut_off(Ctx &ctx, FileSlot &file, FileLength *length) {
  return cut_off(ctx, file, false, length);
}

}  // namespace ls
