// value_count.cpp - the pages that rows name, leaf by leaf; the others are free.
#include <cstring>
#include <mutex>

#include "base/copy_page.hpp"
#include "txn/row.hpp"
#include "txn/row_ids.hpp"
#include "txn/row_purge.hpp"
#include "txn/value_keeper.hpp"
#include "txn/value_row.hpp"
#include "txn/value_share.hpp"
#include "vlog/free_runs.hpp"
#include "vlog/page_set.hpp"
#include "vlog/value_pages.hpp"

namespace ls {

namespace {

// Before something is tried again.
constexpr i64 kRetryUs = 125'000;

class Counter {
 public:
  Counter(ValueKeeper &keeper, FileSlot &file)
      : keeper_(keeper),
        w_(keeper.w),
        file_(file),
        used_(file.values.old_end.load(std::memory_order_acquire)),
        tn_base_(w_.txns->tn_base.load(std::memory_order_relaxed)) {}

  // A leaf, a row or a gap at which it fails is tried again: to begin anew would take pages for
  // free that have been handed out since.
  Status run() {
    ValueProgress progress(keeper_.keeping, {.phase = LS_VALUES_COUNTING,
                                             .key = file_.key,
                                             .end_row_id = row_ids_below(row_ids_next(file_))});
    for (u64 row_id = 0; row_id <= LS_MAX_ROW_ID;) {
      if (keeper_.stops()) return kOk;
      progress.at_row(row_id);
      const u64 first = row_id;
      LS_TRY(insist([&] { return copy_leaf(first, &row_id); }));
      LS_TRY(count_leaf(first));
    }
    for (PageRun gap = used_.next_gap(0); gap.pages > 0; gap = used_.next_gap(gap.end())) {
      LS_TRY(insist([&] { return note_free(gap); }));
    }
    file_.values.counted_below.store(ValueSpace::kAllCounted, std::memory_order_release);
    for (PageNo behind = 0;;) {
      const Status status = insist([&] { return free_unclaimed(w_.ctx, file_, &behind); });
      if (code(status) == LS_NOT_FOUND) return kOk;
      LS_TRY(status);
    }
  }

 private:
  // *next: the first row behind the leaf.
  Status copy_leaf(u64 row_id, u64 *next) {
    RowLeaf leaf;
    LS_TRY(leaf.open(w_, file_, row_id, 0));
    copy_page(copy_, leaf.node());
    *next = rows_end(*leaf.node());
    // Under the latch: what vanishes from the leaf before is not counted, what does later was.
    file_.values.counted_below.store(*next, std::memory_order_release);
    return kOk;
  }

  // From row_id on: a merge of leaves may have brought rows before it, which are counted, to it.
  Status count_leaf(u64 row_id) {
    bool ghosts = false, found;
    const Node &leaf = *reinterpret_cast<const Node *>(copy_);
    for (u16 pos = leaf.lower_bound(RowKey(row_id), &found); pos < leaf.count; pos++) {
      u8 key[kMaxKeyBytes];
      RowParts row;
      if (leaf.copy_key(pos, key) != kRowKeyBytes || !split_row(leaf.value(pos), &row))
        return fail_page(file_.path, leaf.header.page_no, "a row of a value is damaged");
      const bool gone = row.header.has(LS_ROW_GHOST) && row.header.tn() < tn_base_;   // VPAGES-3
      ghosts |= gone;
      if (gone || !names_pages(decode_row_key(key))) continue;
      ValuePlace place;
      if (!load_value_row(row.payload, &place))
        return fail_page(file_.path, leaf.header.page_no, "the row of a value is damaged");
      LS_TRY(insist([&] { return count_row(decode_row_key(key), place); }));
    }
    if (!ghosts) return kOk;
    return insist([&] {
      PurgeResult purged;
      return purge_leaf(w_, file_, row_id, settled_below(*w_.txns), &purged);
    });
  }

  // VCLAIM-4.  What lies behind the old pages has its claims from the workers that took it.
  Status count_row(u64 row_id, const ValuePlace &place) {
    const PageNo page = place.runs[0].first;
    if (place.hash != 0 && page < used_.pages()) {
      Candidate candidate;
      pack_candidate(row_id / LS_ROWS_PER_VALUE, place, &candidate);
      LS_TRY(count_value(w_.ctx, file_, {place.runs, place.hash}, candidate, !used_.has(page)));
    }
    for (const PageRun &run : place.runs.all()) used_.add(run);
    return kOk;
  }

  Status note_free(const PageRun &gap) {
    ValueSpace &space = file_.values;
    const std::lock_guard guard(space.mutex);
    LS_TRY(FreeRuns(w_.ctx, space.number.load(std::memory_order_relaxed)).add(gap));
    space.free_pages.fetch_add(gap.pages, std::memory_order_relaxed);
    return kOk;
  }

  template <typename Step>
  Status insist(const Step &step) {
    for (;;) {
      const Status status = step();
      const ls_status lacks = code(status);
      if (lacks != LS_NO_FRAMES && lacks != LS_NO_MEMORY && lacks != LS_IO_ERROR) return status;
      if (!keeper_.sleep(kRetryUs)) return status;
    }
  }

  ValueKeeper &keeper_;
  Worker &w_;
  FileSlot &file_;
  PageSet used_;
  const Tn tn_base_;
  alignas(8) u8 copy_[kPageSize];
};

}  // namespace

Status count_values(ValueKeeper &keeper, FileSlot &file) {
  const ClaimsChange change(file);
  const Status status = Counter(keeper, file).run();
  // Once: what is not known now is known when the file is opened again.
  if (!ok(status)) file.values.counting_failed.store(true, std::memory_order_relaxed);
  return status;
}

}  // namespace ls
