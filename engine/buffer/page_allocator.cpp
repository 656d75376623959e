// Free page numbers: taking, giving back, trunks, and the redo of all three.
//
// ALLOC-1  below MetaPage::page_count every number is in use, in the meta page's list, in a trunk's
//          list, or a trunk.
// ALLOC-2  free_total counts the last three.
// Lists are stacks and their operations carry the numbers, so redo repeats them exactly on a page
// of the same state.
#include "buffer/page_allocator.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/check.hpp"
#include "buffer/page_image.hpp"

namespace ls {

namespace {

enum AllocatorOp : u8 {
  kTakeFree = kOpSpace + 1,   // meta: u32 page
  kTakeNew = kOpSpace + 2,    // meta: u32 page
  kPut = kOpSpace + 3,        // meta: u32 page
  kMakeTrunk = kOpSpace + 4,  // the page: TrunkList, numbers
  // meta: TrunkList without numbers; `count` left its list for the trunk
  kSpill = kOpSpace + 5,
  kRefill = kOpSpace + 6,     // meta: TrunkList, numbers; the trunk becomes a free page itself
  kCut = kOpSpace + 7,        // meta: FileCut, numbers: the list as it is afterwards
};

struct TrunkList {
  PageNo trunk;
  PageNo next;   // trunk behind it, 0: none
  u32 count;
};

constexpr u32 kListMax = kMaxFreeList;
constexpr u32 kTrunkMove = kMostInTrunk;
constexpr u32 kRefillBelow = 16;  // prepare brings a trunk back
static_assert(kRefillBelow + kTrunkMove + 1 <= kListMax);
static_assert(2 * (kMaxOpHeadBytes + sizeof(TrunkList)) + kTrunkMove * sizeof(PageNo) <=
              kAllocatorRecordBytes);

// A file grows by the pages wanted and a part of itself: a large one by a thirty-second, never with
// more than 2 MiB to spare; one below 8 MiB by a quarter of what it has behind its first 64 KiB, up
// to 256 KiB.  Each step is an extent of the file and a call that takes 70 us on ext4.  To free one
// takes time, too, where the file system discards what is free.  Even, because the host counts in
// blocks of two pages.
constexpr u32 kStepPart = 32, kMaxStep = 512;
constexpr u32 kSmallFile = 16, kSmallPart = 4, kSmallStep = 64;
static_assert(u64{kMostPages} + kPagesForUndo + kMaxStep + 1 < kInvalidPageNo);

using Bytes = std::span<const u8>;

template <typename T>
Bytes bytes_of(const T &value) {
  return {reinterpret_cast<const u8 *>(&value), sizeof value};
}

void log_op(Ctx &ctx, const FileSlot &file, PageNo page, AllocatorOp code, Bytes a, Bytes b = {}) {
  if (!file.logged) return;
  LS_CHECK(ctx.log, "a worker without log changes a logged file");
  ctx.log->op(file.file_no.load(std::memory_order_relaxed), page, code, a, b);
}

PageNo page_of(Swip swip) {
  if (swip.is_null()) return 0;
  return swip.is_evicted() ? swip.page_no() : swip.frame()->page_no.load(std::memory_order_relaxed);
}

Swip disk_swip(PageNo page_no) { return page_no ? Swip::evicted(page_no) : Swip{}; }

// What a change does to the page, in normal operation and in redo alike.
void take_new(MetaPage *meta) { meta->page_count++; }
void take_free(MetaPage *meta) {
  LS_ASSERT(meta->free_count > 0);
  meta->free_count--;
  meta->free_total--;
}
void put(MetaPage *meta, PageNo page_no) {
  LS_ASSERT(meta->free_count < kListMax);
  meta->free_pages[meta->free_count++] = page_no;
  meta->free_total++;
}
void spill(MetaPage *meta, u32 count, Swip trunk) {
  LS_ASSERT(count <= meta->free_count);
  meta->free_count -= count;
  meta->trunk = trunk.raw;
  meta->free_total++;
}
void make_trunk(TrunkPage *trunk, Swip next, const PageNo *pages, u32 count) {
  LS_ASSERT(count <= kTrunkMove);
  u8 *bytes = reinterpret_cast<u8 *>(trunk);
  std::memset(bytes + sizeof(PageHeader), 0, kPageSize - sizeof(PageHeader));
  trunk->header.kind = PageKind::kTrunk;
  trunk->header.format = kPageFormat;
  trunk->next = next.raw;
  trunk->count = count;
  std::memcpy(trunk->pages, pages, count * sizeof(PageNo));
}
void refill(MetaPage *meta, Swip next, PageNo trunk, const PageNo *pages, u32 count) {
  LS_ASSERT(meta->free_count + count + 1 <= kListMax);
  std::memcpy(meta->free_pages + meta->free_count, pages, count * sizeof(PageNo));
  meta->free_count += count;
  meta->free_pages[meta->free_count++] = trunk;
  meta->trunk = next.raw;
}

void cut(MetaPage *meta, const FileCut &to, const PageNo *pages, u32 count, Swip trunk) {
  meta->page_count = to.page_count;
  meta->free_total = to.free_total;
  meta->free_count = count;
  std::copy_n(pages, count, meta->free_pages);
  meta->trunk = trunk.raw;
}

struct MetaView {
  u32 page_count, free_count;
  bool has_trunk;
};

Step read_meta(Ctx &ctx, FileSlot &file, MetaView *view) {
  OptimisticGuard guard;
  Step step = ctx.pool->resolve_meta(file, guard);
  if (step != Step::kOk) return step;
  auto *meta = reinterpret_cast<const MetaPage *>(guard.page());
  *view = {meta->page_count, meta->free_count, meta->trunk != 0};
  return guard.valid() ? Step::kOk : Step::kRestart;
}

// Move the first trunk's numbers to the meta page.
Step try_refill(Ctx &ctx, FileSlot &file) {
  OptimisticGuard meta_guard, trunk_guard;
  Step step = ctx.pool->resolve_meta(file, meta_guard);
  if (step != Step::kOk) return step;
  auto *seen = reinterpret_cast<MetaPage *>(const_cast<u8 *>(meta_guard.page()));
  bool wanted = seen->trunk != 0 && seen->free_count < kRefillBelow;
  if (!meta_guard.valid()) return Step::kRestart;
  if (!wanted) return Step::kOk;  // another worker did it
  step =
      ctx.pool->resolve(ctx, meta_guard, reinterpret_cast<Swip *>(&seen->trunk), file, trunk_guard);
  if (step != Step::kOk) return step;
  ExclusiveGuard meta(*ctx.pool, std::move(meta_guard));
  if (!meta) return Step::kRestart;
  ExclusiveGuard trunk(*ctx.pool, std::move(trunk_guard));
  if (!trunk) return Step::kRestart;
  auto *m = reinterpret_cast<MetaPage *>(meta.page());
  auto *t = reinterpret_cast<TrunkPage *>(trunk.page());
  PageNo trunk_no = trunk.frame()->page_no.load(std::memory_order_relaxed);
  if (t->header.kind != PageKind::kTrunk || t->count > kTrunkMove ||
      !are_pages_of(t->pages, t->count, m->page_count)) {
    (void)fail_page(file.path, trunk_no, "not a list of free pages");
    return Step::kError;
  }
  TrunkList list{trunk_no, page_of(Swip{t->next}), t->count};
  Gsn gsn = 0;
  if (file.logged) {
    ctx.log->start(RecordKind::kSystem);
    log_op(ctx, file, kMetaPageNo, kRefill, bytes_of(list),
           {reinterpret_cast<u8 *>(t->pages), t->count * sizeof(PageNo)});
    gsn = ctx.log->finish();
  }
  refill(m, Swip{t->next}, trunk_no, t->pages, t->count);
  ctx.pool->mark_changed(ctx.log, meta.frame(), gsn);
  free_trunk_page(ctx, trunk, gsn);
  return Step::kOk;
}

Status no_pages(const FileSlot &file) {
  if (file.kind == LS_REL_VERSIONS) {
    return fail_path(LS_MANY_CHANGES, file.path, "the store of old row versions is full");
  }
  return fail_path(LS_NO_PAGES, file.path, "it has as many pages as a file can have");
}

Status extend(FileSlot &file, u32 pages) {
  const std::lock_guard lock(file.mutex);
  return grow_file(file, pages);
}

}  // namespace

Status grow_file(FileSlot &file, u32 pages) {
  const std::lock_guard lock(file.end_mutex);
  if (pages <= file.pages_allocated.load(std::memory_order_relaxed)) return kOk;
  const u32 behind = pages - std::min(pages, kSmallFile);
  const u32 small = std::min(behind / kSmallPart, kSmallStep);
  const u32 step = std::clamp(pages / kStepPart, small, kMaxStep);
  const u32 target = whole_blocks(pages + step);
  LS_TRY(file_extend(file.ref(), target));
  file.pages_allocated.store(target, std::memory_order_relaxed);
  return kOk;
}

PageReservation::~PageReservation() {
  if (!file_) return;
  const u32 reserved = file_->pages_reserved.fetch_sub(count_, std::memory_order_release);
  LS_ASSERT(reserved >= count_);
  (void)reserved;
}

Status PageReservation::prepare(Ctx &ctx, FileSlot &file, u32 count) {
  LS_ASSERT(!file_);
  file_ = &file;
  count_ = count;
  // Counted before the meta page is looked at: another worker that reserves sees that, or what
  // was taken.  And a cut (file_cut.cpp) sees it, or is seen in the meta page.
  const u64 reserved = u64{file.pages_reserved.fetch_add(count, std::memory_order_seq_cst)} + count;
  MetaView view{};
  // While the file is being made there is no meta page yet, only this worker, and nothing handed
  // out.
  bool making = file_is(file, FileState::kOpening);
  while (!making) {
    Step step = read_meta(ctx, file, &view);
    if (step == Step::kOk && view.has_trunk && view.free_count < kRefillBelow) {
      if (file.logged)
        LS_TRY(ctx.log->reserve(kAllocatorRecordBytes + kMaxRecordHeadBytes, ctx.interrupt));
      step = try_refill(ctx, file);
      if (step == Step::kOk) continue;
    }
    if (step == Step::kOk) break;
    if (step == Step::kError) return make_status(last_error().status);
    ctx.pool->count_restart(ctx.slot);
  }
  // Those on the list are taken first.
  const u64 from_list = std::min(reserved, u64{view.free_count});
  const u64 wanted = view.page_count + reserved - from_list;
  const u64 beyond = ctx.undoing ? kPagesForUndo : 0;
  const u64 most = most_pages.load(std::memory_order_relaxed) + beyond;
  if (wanted > most) return no_pages(file);
  const u32 room = static_cast<u32>(wanted);
  if (room <= file.pages_allocated.load(std::memory_order_seq_cst)) return kOk;
  // Pinned, so that the host does not truncate the file for its next user while this worker makes
  // it longer.
  FileNo file_no = file.file_no.load(std::memory_order_relaxed);
  if (making) return extend(file, room);
  const FilePin pin(file, file_no);
  return pin.pinned() ? extend(file, room) : fail(LS_NOT_FOUND, "the file was dropped");
}

PageNo allocate_page(Ctx &ctx, FileSlot &file, ExclusiveGuard &guard) {
  LS_ASSERT(guard.frame()->page_no.load(std::memory_order_relaxed) == kMetaPageNo);
  auto *meta = reinterpret_cast<MetaPage *>(guard.page());
  if (meta->free_count > 0) {
    PageNo page_no = meta->free_pages[meta->free_count - 1];
    LS_ASSERT(are_pages_of(&page_no, 1, meta->page_count));   // ALLOC-1
    log_op(ctx, file, kMetaPageNo, kTakeFree, bytes_of(page_no));
    take_free(meta);
    return page_no;
  }
  PageNo page_no = meta->page_count;
  LS_CHECK(page_no < kInvalidPageNo, "file has as many pages as there are numbers");
  ctx.pages.extended++;
  log_op(ctx, file, kMetaPageNo, kTakeNew, bytes_of(page_no));
  take_new(meta);
  return page_no;
}

bool free_page(Ctx &ctx, FileSlot &file, ExclusiveGuard &guard, ExclusiveGuard &page) {
  auto *meta = reinterpret_cast<MetaPage *>(guard.page());
  PageNo page_no = page.frame()->page_no.load(std::memory_order_relaxed);
  LS_ASSERT(are_pages_of(&page_no, 1, meta->page_count));   // ALLOC-1
  if (meta->free_count < kListMax) {
    log_op(ctx, file, kMetaPageNo, kPut, bytes_of(page_no));
    if (file.logged && ctx.pool->log().has_page_images()) log_free_image(*ctx.log, file, page_no);
    put(meta, page_no);
    return false;
  }
  Swip next{meta->trunk};
  const PageNo *pages = meta->free_pages + (meta->free_count - kTrunkMove);
  TrunkList list{page_no, page_of(next), kTrunkMove};
  log_op(ctx, file, page_no, kMakeTrunk, bytes_of(list),
         {reinterpret_cast<const u8 *>(pages), kTrunkMove * sizeof(PageNo)});
  log_op(ctx, file, kMetaPageNo, kSpill, bytes_of(list));
  make_trunk(reinterpret_cast<TrunkPage *>(page.page()), next, pages, kTrunkMove);
  spill(meta, kTrunkMove, Swip::hot(page.frame()));
  return true;
}

void cut_file(Ctx &ctx, FileSlot &file, ExclusiveGuard &guard, const FileCut &to,
              std::span<const PageNo> free_pages) {
  LS_ASSERT(free_pages.size() <= kListMax);
  LS_ASSERT(to.page_count > kMetaPageNo && free_pages.size() <= to.free_total);   // ALLOC-2
  const Bytes numbers(reinterpret_cast<const u8 *>(free_pages.data()), free_pages.size_bytes());
  log_op(ctx, file, kMetaPageNo, kCut, bytes_of(to), numbers);
  cut(reinterpret_cast<MetaPage *>(guard.page()), to, free_pages.data(),
      static_cast<u32>(free_pages.size()), disk_swip(to.trunk));
}

void free_trunk_page(Ctx &ctx, ExclusiveGuard &trunk, Gsn gsn) {
  auto *header = reinterpret_cast<PageHeader *>(trunk.page());
  LS_ASSERT(header->kind == PageKind::kTrunk);
  header->kind = PageKind::kFree;
  // Its last image must not be on disk before the record is: without that it is a trunk still.
  if (gsn) header->gsn = gsn;
  ctx.pool->free_frame(trunk.detach());
}

bool gives_back(u8 code, Bytes operands, PageNo *page) {
  if (code != kPut || operands.size() != sizeof *page) return false;
  std::memcpy(page, operands.data(), sizeof *page);
  return true;
}

bool makes_trunk(u8 code) { return code == kMakeTrunk; }

bool is_file_cut(u8 code, Bytes operands, PageNo *pages) {
  FileCut to;
  if (code != kCut || operands.size() < sizeof to) return false;
  std::memcpy(&to, operands.data(), sizeof to);
  *pages = to.page_count;
  return to.page_count > kMetaPageNo;
}

// ---- redo

namespace {

Status misfit(PageNo page_no, const char *what) {
  return fail(LS_CORRUPT, "log does not fit page %u: %s", page_no, what);
}

// Can so many pages be in the list, and be free in all (meta_fault)?
bool may_be_free(const MetaPage &meta, u32 free_count, u32 free_total) {
  return free_count <= free_total && free_total < meta.page_count;
}

Status redo_single(u8 code, Bytes operands, MetaPage *meta, PageNo at) {
  PageNo page_no;
  if (operands.size() != sizeof page_no) return misfit(at, "operand of a free space operation");
  std::memcpy(&page_no, operands.data(), sizeof page_no);
  switch (code) {
    case kTakeNew:
      if (meta->page_count != page_no || page_no >= kMostPages + kPagesForUndo)
        return misfit(at, "page taken is not the next one");
      take_new(meta);
      return kOk;
    case kTakeFree:
      if (meta->free_count == 0 || meta->free_count > kListMax ||
          meta->free_pages[meta->free_count - 1] != page_no) {
        return misfit(at, "page taken is not the last free one");
      }
      take_free(meta);
      return kOk;
    default:
      if (meta->free_count >= kListMax) return misfit(at, "list of free pages is full");
      if (!are_pages_of(&page_no, 1, meta->page_count))
        return misfit(at, "page given back is not one of the file");
      if (!may_be_free(*meta, meta->free_count + 1, meta->free_total + 1))
        return misfit(at, "more free pages than the file has");
      put(meta, page_no);
      return kOk;
  }
}

Status redo_cut(Bytes operands, MetaPage *meta, PageNo at) {
  FileCut to;
  PageNo pages[kListMax];
  if (operands.size() < sizeof to) return misfit(at, "operands of a cut");
  std::memcpy(&to, operands.data(), sizeof to);
  operands = operands.subspan(sizeof to);
  const u32 count = static_cast<u32>(operands.size() / sizeof(PageNo));
  const bool fits = operands.size() % sizeof(PageNo) == 0 && count <= kListMax &&
                    to.page_count > kMetaPageNo && to.page_count <= meta->page_count &&
                    to.trunk < to.page_count && to.free_total >= count &&
                    to.free_total < to.page_count &&
                    page_of(Swip{meta->root}) < to.page_count;
  if (!fits) return misfit(at, "a cut to another number of pages");
  if (count > 0) std::memcpy(pages, operands.data(), operands.size());
  if (!are_pages_of(pages, count, to.page_count)) return misfit(at, "a free page has been cut off");
  cut(meta, to, pages, count, disk_swip(to.trunk));
  return kOk;
}

}  // namespace

Status page_allocator_redo(u8 code, Bytes operands, u8 *page, PageNo page_no) {
  auto *meta = reinterpret_cast<MetaPage *>(page);
  bool on_meta = code != kMakeTrunk;
  if (on_meta != (page_no == kMetaPageNo) || (on_meta && meta->magic != kMetaMagic))
    return misfit(page_no, "not a meta page, or one");
  if (code == kTakeFree || code == kTakeNew || code == kPut)
    return redo_single(code, operands, meta, page_no);
  if (code == kCut) return redo_cut(operands, meta, page_no);
  TrunkList list;
  PageNo pages[kTrunkMove];
  if (code < kTakeFree || code > kRefill || operands.size() < sizeof list)
    return misfit(page_no, "unknown operation");
  std::memcpy(&list, operands.data(), sizeof list);
  operands = operands.subspan(sizeof list);
  if (list.count > kTrunkMove) return misfit(page_no, "too long a list of free pages");
  if (code == kSpill) {
    if (list.count > meta->free_count) return misfit(page_no, "list of free pages is too short");
    if (!are_pages_of(&list.trunk, 1, meta->page_count))
      return misfit(page_no, "list of free pages is not in the file");
    if (!may_be_free(*meta, meta->free_count - list.count, meta->free_total + 1))
      return misfit(page_no, "more free pages than the file has");
    spill(meta, list.count, disk_swip(list.trunk));
    return kOk;
  }
  if (operands.size() != list.count * sizeof(PageNo))
    return misfit(page_no, "length of a list of free pages");
  std::memcpy(pages, operands.data(), operands.size());
  const PageNo page_count = on_meta ? meta->page_count : kInvalidPageNo;
  const bool good = (list.next == 0 || are_pages_of(&list.next, 1, page_count)) &&
                    are_pages_of(pages, list.count, page_count);
  if (!good || (on_meta && !are_pages_of(&list.trunk, 1, page_count)))
    return misfit(page_no, "a free page is not one of the file");
  if (code == kMakeTrunk) {
    auto *trunk = reinterpret_cast<TrunkPage *>(page);
    trunk->header.page_no = page_no;
    make_trunk(trunk, disk_swip(list.next), pages, list.count);
    return kOk;
  }
  if (meta->free_count + list.count + 1 > kListMax)
    return misfit(page_no, "list of free pages is full");
  if (!may_be_free(*meta, meta->free_count + list.count + 1, meta->free_total))
    return misfit(page_no, "more free pages than the file has");
  refill(meta, disk_swip(list.next), list.trunk, pages, list.count);
  return kOk;
}

}  // namespace ls
