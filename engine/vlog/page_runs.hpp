// page_runs.hpp - where the pages of a value lie: runs of pages in its relation's file of values.
#pragma once
#include <span>

#include "base/check.hpp"
#include "base/types.hpp"

namespace ls {

struct PageRun {
  PageNo first = 0;
  u32 pages = 0;
  PageNo end() const { return first + pages; }
};

class PageRuns {
 public:
  static constexpr u32 kMost = 64;

  void add(PageRun run) {
    pages_ += run.pages;
    if (count_ > 0 && runs_[count_ - 1].end() == run.first) {
      runs_[count_ - 1].pages += run.pages;
      return;
    }
    LS_CHECK(count_ < kMost, "a value has too many runs of pages");
    runs_[count_++] = run;
  }
  u32 count() const { return count_; }
  u32 pages() const { return pages_; }
  const PageRun &operator[](u32 i) const { return runs_[i]; }
  std::span<const PageRun> all() const { return {runs_, count_}; }
  // The page of the file that is the value's page `i`, with those behind it in its run; at most
  // `most`.
  PageRun from(u32 i, u32 most) const {
    for (const PageRun &run : all()) {
      if (i < run.pages) return {run.first + i, run.pages - i < most ? run.pages - i : most};
      i -= run.pages;
    }
    LS_CHECK(false, "a page behind the end of a value");
    return {};
  }

 private:
  PageRun runs_[kMost];
  u32 count_ = 0, pages_ = 0;
};

}  // namespace ls
