// vanished_values.cpp - pages freed with their rows.
#include "txn/vanished_values.hpp"

#include <algorithm>
#include <cstring>

#include "base/copy_page.hpp"
#include "vlog/value_pages.hpp"

namespace ls {

VanishedValues::VanishedValues(Worker &w, FileSlot &file, const Node &leaf) : w_(w), file_(file) {
  copy_page(copy_, &leaf);
}

bool VanishedValues::find(u64 row_id, RowHeader *header, ValuePlace *place) const {
  const Node &leaf = *reinterpret_cast<const Node *>(copy_);
  bool found;
  const u16 pos = leaf.lower_bound(RowKey(row_id), &found);
  RowParts row;
  if (!found || !split_row(leaf.value(pos), &row)) return false;
  *header = row.header;
  return load_value_row(row.payload, place);
}

void VanishedValues::add(u64 row_id) {
  if (!names_pages(row_id)) return;
  counted_[count_] = is_counted_row(file_, row_id);
  if (count_ == 0) {
    old_end_ = old_end_of(file_);
    file_.values.changes_begun.fetch_add(1, std::memory_order_seq_cst);
  }
  rows_[count_++] = row_id;
}

void VanishedValues::free_pages() {
  const Tn tn_base = w_.txns->tn_base.load(std::memory_order_relaxed);
  for (u32 i = 0; i < count_; i++) {
    RowHeader header;
    ValuePlace place;
    if (!find(rows_[i], &header, &place) || header.tn() < tn_base) continue;   // VPAGES-3
    const auto runs = place.runs.all();
    const bool old = std::any_of(runs.begin(), runs.end(),
                                 [&](const PageRun &run) { return run.first < old_end_; });
    if (!old || counted_[i]) free_value_pages(w_.ctx, file_, {place.runs, place.hash});
  }
  if (count_ > 0) file_.values.changes_ended.fetch_add(1, std::memory_order_seq_cst);
}

}  // namespace ls
