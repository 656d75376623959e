// value_check.cpp - one pass over the rows, then over what is noted; it counts if nothing changed
// meanwhile.
#include "txn/value_check.hpp"

#include <algorithm>

#include "base/interrupt.hpp"
#include "buffer/further_file.hpp"
#include "txn/row_leaf.hpp"
#include "txn/row_purge.hpp"
#include "txn/value_row.hpp"
#include "vlog/page_set.hpp"
#include "vlog/value_pages.hpp"

namespace ls {

namespace {

constexpr int kMostPasses = 3;

// Memory: a bit for each page, and four bytes for each row that shares.
class ClaimsCheck {
 public:
  ClaimsCheck(Worker &w, FileSlot &file, PageNo end)
      : w_(w),
        file_(file),
        further_(file),
        used_(end),
        tn_base_(w.txns->tn_base.load(std::memory_order_relaxed)) {}

  Status run() {
    for (u64 row_id = 0; row_id <= LS_MAX_ROW_ID;) {
      if (interrupt_pending(w_.ctx.interrupt))
        return fail(LS_INTERRUPTED, "interrupted while values were checked");
      LS_TRY(look_at_leaf(row_id, &row_id));
    }
    std::sort(sharers_.begin(), sharers_.end());
    LS_TRY(compare_free());
    LS_TRY(compare_claims());
    return compare_candidates();
  }

 private:
  Status look_at_leaf(u64 row_id, u64 *next) {
    alignas(8) u8 copy[kPageSize];
    LS_TRY(BTree(w_.ctx, file_).leaf_copy(RowKey(row_id), copy));
    const Node &leaf = *reinterpret_cast<const Node *>(copy);
    *next = rows_end(leaf);
    bool found;   // as when they are counted: those before have been looked at
    for (u16 pos = leaf.lower_bound(RowKey(row_id), &found); pos < leaf.count; pos++) {
      u8 key[kMaxKeyBytes];
      RowParts row;
      ValuePlace place;
      if (leaf.copy_key(pos, key) != kRowKeyBytes || !split_row(leaf.value(pos), &row) ||
          !names_pages(decode_row_key(key)))
        continue;
      const bool gone = row.header.has(LS_ROW_GHOST) && row.header.tn() < tn_base_;   // VPAGES-3
      if (gone) continue;
      if (!load_value_row(row.payload, &place))
        return fail_page(file_.path, leaf.header.page_no, "the row of a value is damaged");
      LS_TRY(look_at_place(decode_row_key(key) / LS_ROWS_PER_VALUE, place));
    }
    return kOk;
  }

  Status look_at_place(u64 value_id, const ValuePlace &place) {
    const PageNo first = place.runs[0].first;
    // VCLAIM-2
    const bool shares = place.hash != 0 && used_.has(first);
    if (shares) sharers_.push_back(first);
    for (const PageRun &run : place.runs.all()) {
      if (run.end() > used_.pages())
        return fail_value(run.first, value_id, "is behind the end of the file");
      for (PageNo page = run.first; page < run.end(); page++) {
        if (used_.has(page) != shares)
          return fail_value(page, value_id, "belongs to another value, too");
      }
    }
    for (const PageRun &run : place.runs.all()) used_.add(run);
    return kOk;
  }

  Status compare_free() {
    PageRun run;
    for (PageNo from = 0;;) {
      const Status status = next_free_run(w_.ctx, file_, &from, &run);
      if (code(status) == LS_NOT_FOUND) return kOk;
      LS_TRY(status);
      for (PageNo page = run.first; page < run.end(); page++) {
        if (used_.has(page))
          return fail_page(further_.ref().path, page, "a page of a value is free");
      }
    }
  }

  // VCLAIM-1.  A claim that could not be given back is among the lost pages.
  Status compare_claims() {
    const bool lost = file_.values.lost_pages.load(std::memory_order_relaxed) > 0;
    size_t noted = 0;
    PageRuns runs;
    i32 more;
    for (PageNo from = 0;;) {
      const Status status = next_claims(w_.ctx, file_, &from, &runs, &more);
      if (code(status) == LS_NOT_FOUND) break;
      LS_TRY(status);
      const auto rows = std::equal_range(sharers_.begin(), sharers_.end(), runs[0].first);
      const i64 sharing = rows.second - rows.first;
      if (more < sharing || (more > sharing && !lost))
        return fail_page(further_.ref().path, runs[0].first,
                         "%lld values share a page with another one, and %d are noted",
                         static_cast<long long>(sharing), more);
      noted += static_cast<size_t>(sharing);
    }
    if (noted != sharers_.size())
      return fail_path(LS_CORRUPT, further_.ref().path,
                       "%zu values share pages, and %zu are noted", sharers_.size(), noted);
    return kOk;
  }

  // VCLAIM-3
  Status compare_candidates() {
    const bool lost = file_.values.lost_pages.load(std::memory_order_relaxed) > 0;
    for (u64 from = 0;;) {
      Candidate candidate;
      const Status status = next_candidate(w_.ctx, file_, &from, &candidate);
      if (code(status) == LS_NOT_FOUND) return kOk;
      LS_TRY(status);
      ValuePlace place;
      if (!load_place(candidate.packed(), &place))
        return fail_path(LS_CORRUPT, further_.ref().path, "a note of shared pages is damaged");
      if (!lost && !used_.has(place.runs[0].first))
        return fail_page(further_.ref().path, place.runs[0].first,
                         "pages of no value are offered to others");
      if (from == 0) return kOk;   // behind the last hash
    }
  }

  Status fail_value(PageNo page, u64 value_id, const char *what) const {
    return fail_page(further_.ref().path, page, "a page of value %llu %s",
                     static_cast<unsigned long long>(value_id), what);
  }

  Worker &w_;
  FileSlot &file_;
  const FurtherFile further_;
  PageSet used_;
  const Tn tn_base_;
  std::vector<PageNo> sharers_;   // first pages, for each row behind the first with it
};

}  // namespace

Status value_check_claims(Worker &w, FileSlot &file, bool *compared) {
  *compared = false;
  ValueSpace &space = file.values;
  for (int i = 0; i < kMostPasses; i++) {
    const u64 ended = space.changes_ended.load(std::memory_order_seq_cst);
    ls_value_stats stats;
    LS_TRY(value_pages_stats(file, &stats));
    if (!stats.counted) return kOk;
    if (space.changes_begun.load(std::memory_order_seq_cst) != ended) continue;
    const Status status = ClaimsCheck(w, file, static_cast<PageNo>(stats.pages)).run();
    if (code(status) == LS_INTERRUPTED) return status;
    *compared = space.changes_begun.load(std::memory_order_seq_cst) == ended;
    if (*compared) return status;
  }
  return kOk;
}

}  // namespace ls
