// value_pages.cpp - taking, freeing, growing and cutting.
#include "vlog/value_pages.hpp"

#include <algorithm>
#include <mutex>

#include "vlog/free_runs.hpp"
#include "vlog/value_file.hpp"

namespace ls {

namespace {

// The file grows by an eighth, within these.
constexpr u32 kLeastGrowth = 16, kMostGrowth = 4096;
// The end of the file is cut when so many pages are free there, and an eighth of the file.
constexpr u32 kLeastCut = 256, kLeastCutShare = 8;
// A value may lie in so many pieces, none smaller than that share of it; one that is moved, to make
// its file shorter, in more.
constexpr u32 kMostPieces = 16, kMostPiecesMoved = 48;
static_assert(kMostPiecesMoved < PageRuns::kMost);
// Of 4 KiB, in a file.
constexpr u64 kMostValuePages = 0xf000'0000;

FileNo number_of(const FileSlot &file) { return file.file_no.load(std::memory_order_relaxed); }

// VPAGES-2
Status begin(Ctx &ctx, FileSlot &file) {
  ValueSpace &space = file.values;
  if (space.begun) return kOk;
  const FurtherFile further(file);
  u32 pages = 0;
  const Status status = file_pages(further.ref(), &pages);
  if (code(status) == LS_NOT_FOUND) {
    LS_TRY(file_make(further.ref()));
  } else {
    LS_TRY(status);
  }
  LS_TRY(FreeRuns(ctx, number_of(file)).clear());
  space.end = space.allocated = pages;
  space.free_pages.store(0, std::memory_order_relaxed);
  space.counted_below.store(pages == 0 ? ValueSpace::kAllCounted : 0, std::memory_order_relaxed);
  // Last: a row that vanishes is judged by it.
  space.old_end.store(pages, std::memory_order_release);
  space.begun = true;
  return kOk;
}

Status grow(FileSlot &file, u64 end) {
  ValueSpace &space = file.values;
  if (end > kMostValuePages) return fail_path(LS_LIMIT, file.path, "its file of values is full");
  if (end <= space.allocated) return kOk;
  const u64 more = std::clamp(space.allocated / 8, kLeastGrowth, kMostGrowth);
  const u64 wanted = std::min<u64>(std::max<u64>(end, space.allocated + more), kMostValuePages);
  const FurtherFile further(file);
  Status status = file_extend(further.ref(), static_cast<u32>(wanted));
  u64 allocated = wanted;
  if (code(status) == LS_NO_SPACE && wanted > end) {
    status = file_extend(further.ref(), static_cast<u32>(end));
    allocated = end;
  }
  LS_TRY(status);
  space.allocated = static_cast<PageNo>(allocated);
  return kOk;
}

// What of `pages` is to be had in pieces that are not too small.
Status take_free(FreeRuns &free, u32 pages, u32 most_pieces, PageRuns *runs) {
  const u32 least = (pages + most_pieces - 1) / most_pieces;
  while (runs->pages() < pages && runs->count() < most_pieces) {
    const u32 wanted = pages - runs->pages();
    PageRun run;
    Status status = free.take(wanted, &run);
    if (code(status) == LS_NOT_FOUND && wanted > 1) status = free.take_smaller(wanted, &run);
    if (code(status) == LS_NOT_FOUND) return kOk;
    LS_TRY(status);
    if (run.pages < std::min(least, wanted)) return free.add(run);
    runs->add(run);
  }
  return kOk;
}

void give_back(FreeRuns &free, ValueSpace &space, const PageRuns &runs) {
  for (const PageRun &run : runs.all()) {
    if (ok(free.add(run))) {
      space.free_pages.fetch_add(run.pages, std::memory_order_relaxed);
    } else {
      space.lost_pages.fetch_add(run.pages, std::memory_order_relaxed);
    }
  }
}

}  // namespace

namespace {

Status take(Ctx &ctx, FileSlot &file, u32 pages, bool may_grow, PageRuns *runs) {
  ValueSpace &space = file.values;
  *runs = {};
  const std::lock_guard guard(space.mutex);
  LS_TRY(begin(ctx, file));
  FreeRuns free(ctx, number_of(file));
  Status status = take_free(free, pages, may_grow ? kMostPieces : kMostPiecesMoved, runs);
  space.free_pages.fetch_sub(runs->pages(), std::memory_order_relaxed);
  if (ok(status) && runs->pages() < pages) {
    const u32 missing = pages - runs->pages();
    status = may_grow ? grow(file, u64{space.end} + missing) : make_status(LS_NOT_FOUND);
    if (ok(status)) {
      runs->add({space.end, missing});
      space.end += missing;
    }
  }
  if (ok(status)) return kOk;
  const ls_error error = last_error();
  give_back(free, space, *runs);
  set_last_error(error);
  return status;
}

}  // namespace

Status take_value_pages(Ctx &ctx, FileSlot &file, u32 pages, PageRuns *runs) {
  return take(ctx, file, pages, true, runs);
}

Status take_free_value_pages(Ctx &ctx, FileSlot &file, u32 pages, PageRuns *runs) {
  return take(ctx, file, pages, false, runs);
}

void free_value_pages(Ctx &ctx, FileSlot &file, const PageRuns &runs) {
  if (runs.count() == 0) return;
  const ls_error error = last_error();
  ValueSpace &space = file.values;
  {
    const std::lock_guard guard(space.mutex);
    FreeRuns free(ctx, number_of(file));
    // A file that was opened anew meanwhile counts its rows.
    if (space.begun) give_back(free, space, runs);
  }
  set_last_error(error);
}

PageNo old_end_of(const FileSlot &file) {
  return file.values.old_end.load(std::memory_order_acquire);
}

bool is_counted_row(const FileSlot &file, u64 row_id) {
  return row_id < file.values.counted_below.load(std::memory_order_acquire);
}

Status ValuePagesFence::begin(PageNo first) {
  ValueSpace &space = file_.values;
  for (;;) {
    const std::lock_guard guard(space.mutex);
    if (runs_.size() == runs_.capacity()) runs_.reserve(runs_.size() * 2 + 64);
    PageRun run;
    const Status status = FreeRuns(ctx_, number_of(file_)).take_behind(first, &run);
    if (code(status) == LS_NOT_FOUND) return kOk;
    LS_TRY(status);
    runs_.push_back(run);
    space.free_pages.fetch_sub(run.pages, std::memory_order_relaxed);
  }
}

ValuePagesFence::~ValuePagesFence() {
  for (const PageRun &run : runs_) {
    PageRuns one;
    one.add(run);
    free_value_pages(ctx_, file_, one);
  }
}

Status value_pages_stats(FileSlot &file, ls_value_stats *stats) {
  const auto relaxed = std::memory_order_relaxed;
  ValueSpace &space = file.values;
  *stats = {};
  const std::lock_guard guard(space.mutex);
  u32 pages = space.end;
  if (!space.begun) {
    const Status status = file_pages(FurtherFile(file).ref(), &pages);
    if (code(status) != LS_NOT_FOUND) LS_TRY(status);
  }
  stats->pages = pages;
  stats->free_pages = space.free_pages.load(relaxed);
  stats->lost_pages = space.lost_pages.load(relaxed);
  stats->written_pages = space.written_pages.load(relaxed);
  stats->moved_pages = space.moved_pages.load(relaxed);
  stats->counted = space.begun && space.is_counted();
  return kOk;
}

Status cut_value_file(Ctx &ctx, FileSlot &file) {
  ValueSpace &space = file.values;
  const std::lock_guard guard(space.mutex);
  if (!space.begun || !space.is_counted()) return kOk;
  FreeRuns free(ctx, number_of(file));
  PageRun run;
  const Status status =
      free.take_last(space.end, std::max(kLeastCut, space.end / kLeastCutShare), &run);
  if (code(status) == LS_NOT_FOUND) return kOk;
  LS_TRY(status);
  space.end = run.first;
  space.free_pages.fetch_sub(run.pages, std::memory_order_relaxed);
  LS_TRY(file_shrink(FurtherFile(file).ref(), space.end));
  space.allocated = space.end;
  return kOk;
}

}  // namespace ls
