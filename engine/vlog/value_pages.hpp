// value_pages.hpp - pages for values: taken where some are free, or at the end of the file.
//
// Which pages are free is not stored.  It follows from the rows of the values, so nothing has to be
// kept in step with them through a crash, and nothing leaks for longer than a start.
//
//   VPAGES-1  A page is handed out once until it is freed.  Pages are freed when the row that names
//             them has left its leaf, or names others and the record of that is hardened: a crash
//             brings back no row that is read and names them.  (A ghost may come back.  It is
//             counted as gone, see VPAGES-3.)  Values with the same bytes have the same pages:
//             these are freed with the last claim (vlog/value_claims.hpp).
//   VPAGES-2  When a file is opened its pages are old, and none is free before the keeper has
//             counted the rows (txn/value_count.hpp), in their order; until then values go to its
//             end.  A row that vanishes frees old pages only if it was counted: what is not counted
//             when all rows are is free.
//   VPAGES-3  A ghost of an earlier start is not counted, and frees nothing when it goes: no
//             snapshot sees the row.  It may have gone before the crash that brought it back, its
//             pages have been cut off, and be another value's now.
#pragma once
#include <vector>

#include "buffer/pool.hpp"
#include "leanstore/values.h"
#include "vlog/value_claims.hpp"

namespace ls {

// LS_NO_SPACE, LS_LIMIT: the file can not get longer.  No latch held.
Status take_value_pages(Ctx &ctx, FileSlot &file, u32 pages, PageRuns *runs);
// Free ones only.  LS_NOT_FOUND: there are not as many.
Status take_free_value_pages(Ctx &ctx, FileSlot &file, u32 pages, PageRuns *runs);
// Lets go of a claim on pages that were taken, or shared; or that are old (VPAGES-2) and were
// counted.  Never fails: what cannot be noted is lost until the file is opened again.  No latch
// held.
void free_value_pages(Ctx &ctx, FileSlot &file, const ValueClaim &claim);

// Where pages with this hash are, as of now.  LS_NOT_FOUND.
Status find_value_candidate(Ctx &ctx, FileSlot &file, u64 hash, Candidate *candidate);
// A claim on its pages, if the candidate is still what was found: then they are what was read.
Status share_value_pages(Ctx &ctx, FileSlot &file, const ValueClaim &claim,
                         const Candidate &candidate, bool *shared);
// Of written pages on which the caller has a claim.  In place of the candidate before.  Never
// fails: what cannot be noted is not found.
void note_value_candidate(Ctx &ctx, FileSlot &file, u64 hash, const Candidate &candidate);

// While old rows are counted: one that names such pages, as the first one or not.  A failure has
// changed nothing.
Status count_value(Ctx &ctx, FileSlot &file, const ValueClaim &claim, const Candidate &candidate,
                   bool first);
// When all are counted: looks at one entry from a page on, and sets it behind that.  LS_NOT_FOUND:
// there is none.
Status free_unclaimed(Ctx &ctx, FileSlot &file, PageNo *behind);

// For checks, each the next one from there on, which is set behind it.  LS_NOT_FOUND: none.
Status next_free_run(Ctx &ctx, FileSlot &file, PageNo *from, PageRun *run);
Status next_claims(Ctx &ctx, FileSlot &file, PageNo *from, PageRuns *runs, i32 *more);
Status next_candidate(Ctx &ctx, FileSlot &file, u64 *from, Candidate *candidate);

// To judge a row that vanishes (VPAGES-2), under the latch of its leaf: its pages from old_end_of()
// on are freed; those before, if the row is counted, and VPAGES-3 does not forbid it.
PageNo old_end_of(const FileSlot &file);
bool is_counted_row(const FileSlot &file, u64 row_id);

// While it lives no free page from a page on is handed out.
class ValuePagesFence {
 public:
  ValuePagesFence(Ctx &ctx, FileSlot &file) : ctx_(ctx), file_(file) {}
  ~ValuePagesFence();
  ValuePagesFence(const ValuePagesFence &) = delete;
  ValuePagesFence &operator=(const ValuePagesFence &) = delete;
  Status begin(PageNo first);

 private:
  Ctx &ctx_;
  FileSlot &file_;
  std::vector<PageRun> runs_;
};

// LS_NOT_FOUND: the further file has gone with its relation.
Status value_pages_stats(FileSlot &file, ls_value_stats *stats);

// Give what is free at the end of the file back to the file system, if it is much.  By the keeper.
Status cut_value_file(Ctx &ctx, FileSlot &file);

}  // namespace ls
