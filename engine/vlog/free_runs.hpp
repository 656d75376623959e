// free_runs.hpp - the free pages of files of values: in a tree like the version store, unlogged and
// not recovered, for it follows from the rows.
//
//   file 'f' first        ->  pages
//   file 'l' end          ->  pages
//   file 's' class first  ->  pages     class: the logarithm of the pages
// Numbers are big endian.  A run has all three entries, and no two runs touch.  Under
// ValueSpace::mutex of the file.
#pragma once
#include "btree/entries.hpp"
#include "vlog/page_runs.hpp"

namespace ls {

class FreeRuns {
 public:
  FreeRuns(Ctx &ctx, FileNo file_no);
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
  // All of the file.
  Status clear();

 private:
  struct Key;
  Status find(char kind, PageNo page, u32 *pages);
  Status put(PageRun run);
  Status remove(PageRun run);
  Status take_found(const FoundEntry &found, u32 most, PageRun *run);

  BTree tree_;
  const FileNo file_no_;
};

}  // namespace ls
