// free_runs.hpp - the free pages of files of values, in the tree of vlog/value_tree.hpp.
//
// A run has an entry of each of three kinds: by its first page, by its end, and by its class, which
// is the logarithm of its pages.  No two runs touch.  Under ValueSpace::mutex of the file.
#pragma once
#include "vlog/page_runs.hpp"
#include "vlog/value_tree.hpp"

namespace ls {

class FreeRuns {
 public:
  // file: ValueSpace::number.
  FreeRuns(Ctx &ctx, u64 file);
  // Joined with the runs beside it.
  Status add(PageRun run);
  // So many pages, from a run that has them; of the smallest class of which every run has them,
  // the first one.  LS_NOT_FOUND.
  Status take(u32 pages, PageRun *run);
  // At most so many, from one of the largest class below that.  LS_NOT_FOUND.
  Status take_smaller(u32 pages, PageRun *run);
  // The last one that begins there or behind.  LS_NOT_FOUND.
  Status take_behind(PageNo first, PageRun *run);
  // The run that ends there.  LS_NOT_FOUND: there is none, or it has less than so many pages.
  Status take_last(PageNo end, u32 least, PageRun *run);
  // The first one that begins there or behind.  LS_NOT_FOUND.
  Status next(PageNo from, PageRun *run);

 private:
  ValueKey key(char kind, PageNo page) const;
  ValueKey key(u32 size_class, PageNo page) const;
  Status find(char kind, PageNo page, u32 *pages);
  Status put(PageRun run);
  Status remove(PageRun run);
  static Status run_of(const FoundEntry &found, PageRun *run);
  Status take_found(const FoundEntry &found, u32 most, PageRun *run);

  BTree tree_;
  const u64 file_;
};

}  // namespace ls
