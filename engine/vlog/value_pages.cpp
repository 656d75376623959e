// value_pages.cpp - taking, freeing, growing and cutting.
#include "vlog/value_pages.hpp"

#include <algorithm>
#include <mutex>

#include "buffer/further_file.hpp"
#include "vlog/free_runs.hpp"

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

u64 number_of(const FileSlot &file) { return file.values.number.load(std::memory_order_relaxed); }

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
  space.number.store(ctx.pool->shared()->value_files.fetch_add(1, std::memory_order_relaxed) + 1,
                     std::memory_order_release);
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

namespace {

// Pages that rows behind may name, whatever those that were counted do (VCLAIM-4).
bool awaits_counting(const ValueSpace &space, const PageRuns &runs) {
  return runs[0].first < space.old_end.load(std::memory_order_relaxed) && !space.is_counted();
}

Status change_claims(ValueClaims &claims, ValueSpace &space, const PageRuns &runs, i32 from,
                     i32 to) {
  LS_TRY(claims.set(runs, to));
  if (from == 0) space.claim_entries++;
  if (to == 0) space.claim_entries--;
  space.shared_values.fetch_add(to - from, std::memory_order_relaxed);
  space.shared_pages.fetch_add(i64{to - from} * runs.pages(), std::memory_order_relaxed);
  return kOk;
}

Status let_go(Ctx &ctx, FileSlot &file, const ValueClaim &claim) {
  ValueSpace &space = file.values;
  FreeRuns free(ctx, number_of(file));
  if (claim.hash != 0) {
    ValueClaims claims(ctx, number_of(file));
    const bool waits = awaits_counting(space, claim.runs);
    i32 more = 0;
    if (space.claim_entries > 0) LS_TRY(claims.count(claim.runs, &more));
    if (more <= 0) LS_TRY(claims.forget_candidate(claim));   // VCLAIM-3: before
    if (waits || more > 0) return change_claims(claims, space, claim.runs, more, more - 1);
  }
  give_back(free, space, claim.runs);
  return kOk;
}

}  // namespace

void free_value_pages(Ctx &ctx, FileSlot &file, const ValueClaim &claim) {
  if (claim.runs.count() == 0) return;
  const ls_error error = last_error();
  ValueSpace &space = file.values;
  {
    const std::lock_guard guard(space.mutex);
    // A file that was opened anew meanwhile counts its rows.
    if (space.begun && !ok(let_go(ctx, file, claim)))
      space.lost_pages.fetch_add(claim.runs.pages(), std::memory_order_relaxed);
  }
  set_last_error(error);
}

Status find_value_candidate(Ctx &ctx, FileSlot &file, u64 hash, Candidate *candidate) {
  return ValueClaims(ctx, file.values.number.load(std::memory_order_acquire))
      .find_candidate(hash, candidate);
}

Status share_value_pages(Ctx &ctx, FileSlot &file, const ValueClaim &claim,
                         const Candidate &candidate, bool *shared) {
  *shared = false;
  ValueSpace &space = file.values;
  const std::lock_guard guard(space.mutex);
  if (!space.begun || awaits_counting(space, claim.runs)) return kOk;
  ValueClaims claims(ctx, number_of(file));
  Candidate now;
  const Status status = claims.find_candidate(claim.hash, &now);
  if (code(status) == LS_NOT_FOUND) return kOk;
  LS_TRY(status);
  if (!std::ranges::equal(now.packed(), candidate.packed())) return kOk;
  i32 more;
  LS_TRY(claims.count(claim.runs, &more));
  LS_TRY(change_claims(claims, space, claim.runs, more, more + 1));
  *shared = true;
  return kOk;
}

void note_value_candidate(Ctx &ctx, FileSlot &file, u64 hash, const Candidate &candidate) {
  const ls_error error = last_error();
  {
    const std::lock_guard guard(file.values.mutex);
    if (file.values.begun)
      (void)ok(ValueClaims(ctx, number_of(file)).note_candidate(hash, candidate));
  }
  set_last_error(error);
}

Status count_value(Ctx &ctx, FileSlot &file, const ValueClaim &claim, const Candidate &candidate,
                   bool first) {
  ValueSpace &space = file.values;
  const std::lock_guard guard(space.mutex);
  ValueClaims claims(ctx, number_of(file));
  i32 more;
  LS_TRY(claims.count(claim.runs, &more));
  if (!first) {
    LS_TRY(change_claims(claims, space, claim.runs, more, more + 1));
    more++;
  }
  // With the first claim that there is, and not again with others.
  if (more != 0) return kOk;
  const ls_error error = last_error();
  (void)ok(claims.note_candidate(claim.hash, candidate));
  set_last_error(error);
  return kOk;
}

Status free_unclaimed(Ctx &ctx, FileSlot &file, PageNo *behind) {
  ValueSpace &space = file.values;
  const std::lock_guard guard(space.mutex);
  LS_ASSERT(space.is_counted());
  ValueClaims claims(ctx, number_of(file));
  PageRuns runs;
  i32 more;
  LS_TRY(claims.next(*behind, &runs, &more));
  if (more < 0) {
    LS_TRY(change_claims(claims, space, runs, more, 0));
    FreeRuns free(ctx, number_of(file));
    give_back(free, space, runs);
  }
  *behind = runs[0].first + 1;
  return kOk;
}

Status next_free_run(Ctx &ctx, FileSlot &file, PageNo *from, PageRun *run) {
  const std::lock_guard guard(file.values.mutex);
  LS_TRY(FreeRuns(ctx, number_of(file)).next(*from, run));
  *from = run->end();
  return kOk;
}

Status next_claims(Ctx &ctx, FileSlot &file, PageNo *from, PageRuns *runs, i32 *more) {
  const std::lock_guard guard(file.values.mutex);
  LS_TRY(ValueClaims(ctx, number_of(file)).next(*from, runs, more));
  *from = (*runs)[0].first + 1;
  return kOk;
}

Status next_candidate(Ctx &ctx, FileSlot &file, u64 *from, Candidate *candidate) {
  const std::lock_guard guard(file.values.mutex);
  u64 hash;
  LS_TRY(ValueClaims(ctx, number_of(file)).next_candidate(*from, &hash, candidate));
  *from = hash + 1;
  return kOk;
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
    free_value_pages(ctx_, file_, {one, 0});
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
  stats->shared_values = static_cast<u64>(std::max<i64>(0, space.shared_values.load(relaxed)));
  stats->shared_pages = static_cast<u64>(std::max<i64>(0, space.shared_pages.load(relaxed)));
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
