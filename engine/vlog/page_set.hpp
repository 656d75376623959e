// page_set.hpp - pages of a file that rows name.
#pragma once
#include <vector>

#include "vlog/page_runs.hpp"

namespace ls {

// A bit for each page: 32 MB for a file of a TiB.
class PageSet {
 public:
  explicit PageSet(PageNo pages) : pages_(pages), words_((size_t{pages} + 63) / 64) {}

  PageNo pages() const { return pages_; }
  void add(const PageRun &run) {
    for (PageNo page = run.first; page < run.end() && page < pages_; page++)
      words_[page / 64] |= u64{1} << page % 64;
  }
  bool has(PageNo page) const {
    return page < pages_ && (words_[page / 64] >> page % 64 & 1) != 0;
  }
  // The next run of pages that are not in it, from `page` on; pages 0: there is none.
  PageRun next_gap(PageNo page) const {
    while (page < pages_ && has(page)) page++;
    PageRun gap{page, 0};
    while (page < pages_ && !has(page)) page++;
    gap.pages = page - gap.first;
    return gap;
  }

 private:
  const PageNo pages_;
  std::vector<u64> words_;
};

}  // namespace ls
