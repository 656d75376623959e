// value_move.cpp - values from the end of their file to free pages before.
#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "txn/row.hpp"
#include "txn/row_ids.hpp"
#include "txn/row_log.hpp"
#include "txn/row_purge.hpp"
#include "txn/value_copy.hpp"
#include "txn/value_keeper.hpp"
#include "txn/value_pace.hpp"
#include "txn/value_share.hpp"
#include "vlog/value_pages.hpp"

namespace ls {

namespace {

// So much has to be free at least.
constexpr u64 kLeastFree = 256;
// What stays free besides: a twentieth.
constexpr u32 kSpareShare = 20;
constexpr u32 kSmallPages = 4;
// Values are moved together, so many or the pages of ValuePace.
constexpr u32 kMostMoves = 256;

struct Move {
  u64 row_id = 0;
  std::vector<u8> before, after;   // payloads
  PageRuns from, to;
  u64 hash = 0;   // of both
};

class Mover {
 public:
  Mover(ValueKeeper &keeper, FileSlot &file, PageNo target)
      : keeper_(keeper),
        w_(keeper.w),
        file_(file),
        further_(file),
        target_(target),
        pace_(keeper, file),
        progress_(keeper.keeping, {.phase = LS_VALUES_MOVING,
                                   .key = file.key,
                                   .end_row_id = row_ids_below(row_ids_next(file)),
                                   .target_bytes = u64{target} * kPageSize}) {}
  ~Mover() {
    for (const Move &move : moves_) free_value_pages(w_.ctx, file_, {move.to, move.hash});
  }

  Status run() {
    const ClaimsChange change(file_);
    ValuePagesFence fence(w_.ctx, file_);
    LS_TRY(fence.begin(target_));
    for (u64 row_id = 0; row_id <= LS_MAX_ROW_ID && !full_;) {
      if (keeper_.stops()) return kOk;
      progress_.at_row(row_id);
      LS_TRY(look_at_leaf(row_id, &row_id));
    }
    return apply();
  }
  u64 moved() const { return moved_; }

 private:
  Status look_at_leaf(u64 row_id, u64 *next) {
    alignas(8) u8 copy[kPageSize];
    LS_TRY(BTree(w_.ctx, file_).leaf_copy(RowKey(row_id), copy));
    const Node &leaf = *reinterpret_cast<const Node *>(copy);
    *next = rows_end(leaf);
    for (u16 pos = 0; pos < leaf.count && !full_; pos++) {
      u8 key[kMaxKeyBytes];
      RowParts row;
      ValuePlace place;
      if (leaf.copy_key(pos, key) != kRowKeyBytes || !split_row(leaf.value(pos), &row)) continue;
      if (row.header.has(LS_ROW_GHOST) || !names_pages(decode_row_key(key)) ||
          !load_value_row(row.payload, &place))
        continue;
      const auto runs = place.runs.all();
      if (std::none_of(runs.begin(), runs.end(),
                       [&](const PageRun &run) { return run.end() > target_; }))
        continue;
      LS_TRY(copy_one(decode_row_key(key), row, place));
      if (moves_.size() >= kMostMoves || moved_pages_ >= pace_.pages_at_a_time()) LS_TRY(apply());
    }
    return kOk;
  }

  // Values that share pages go one after the other: the first one gets a copy, the others find it.
  Status copy_one(u64 row_id, const RowParts &row, const ValuePlace &place) {
    moves_.reserve(kMostMoves);
    Move move{.row_id = row_id, .before = {row.payload.begin(), row.payload.end()}};
    move.from = place.runs;
    move.hash = place.hash;
    const ValueSource source = source_of(further_, row_id, place);
    CopiedValue copied(row_id);
    LS_TRY(share_copied(w_, source, file_, target_, &copied));
    if (copied.shared) {
      move.to = copied.runs;
      moves_.push_back(std::move(move));
      moves_.back().after.assign(copied.row, copied.row + copied.row_bytes);
      return kOk;
    }
    const Status status = take_free_value_pages(w_.ctx, file_, place.runs.pages(), &copied.runs);
    // A large value needs pieces that are not too small; others may have room still.
    full_ = code(status) == LS_NOT_FOUND && place.runs.pages() <= kSmallPages;
    if (code(status) == LS_NOT_FOUND) return kOk;
    LS_TRY(status);
    move.to = copied.runs;
    moves_.push_back(std::move(move));
    moved_pages_ += copied.runs.pages();
    LS_TRY(copy_value(w_, source, file_, &copied));
    if (copied.stale) {   // damaged, or gone meanwhile: it stays
      free_value_pages(w_.ctx, file_, {copied.runs, place.hash});
      moved_pages_ -= copied.runs.pages();
      moves_.pop_back();
    } else {
      moves_.back().after.assign(copied.row, copied.row + copied.row_bytes);
    }
    return kOk;
  }

  // VKEEP-1
  Status apply() {
    if (moves_.empty()) return kOk;
    std::vector<Move> changed_rows;
    changed_rows.reserve(moves_.size());
    LS_TRY(sync());
    Status status = kOk;
    while (!moves_.empty() && ok(status)) {
      bool changed = false;
      status = change_row(moves_.back(), &changed);
      Move move = std::move(moves_.back());
      moves_.pop_back();
      if (!changed) free_value_pages(w_.ctx, file_, {move.to, move.hash});
      if (changed) changed_rows.push_back(std::move(move));
    }
    if (!w_.log.log().wait_hardened(w_.log.log().last_gsn(), w_.ctx.interrupt))
      return fail(LS_INTERRUPTED, "interrupted while moved values were hardened");
    for (const Move &move : changed_rows)
      free_value_pages(w_.ctx, file_, {move.from, move.hash});
    const u64 pages = std::exchange(moved_pages_, 0);
    file_.values.moved_pages.fetch_add(pages, std::memory_order_relaxed);
    moved_ += std::max<u64>(pages, changed_rows.size());
    progress_.moved(pages * kPageSize);
    LS_TRY(status);
    bool goes_on;
    LS_TRY(pace_.after(pages * kPageSize, &goes_on));
    full_ = full_ || !goes_on;
    return kOk;
  }

  // One that has failed may have lost what others wrote, of which another one would know nothing.
  Status sync() {
    if (file_.logged && w_.log.log().has_host_log()) return kOk;   // VWAL-1
    bool lost;
    const Status status = file_sync(further_.ref(), &lost);
    if (lost) w_.pool->shared()->failure.note(status);
    return status;
  }

  // Unless the row says something else by now.
  Status change_row(const Move &move, bool *changed) {
    u32 room = 0;
    do {
      LS_TRY(w_.log.reserve(row_record_room(LS_MAX_ROW_BYTES), w_.ctx.interrupt));
      RowLeaf leaf;
      LS_TRY(leaf.open(w_, file_, move.row_id, room));
      const Bytes before(move.before), after(move.after);
      const bool same = leaf.found() && !leaf.header().has(LS_ROW_GHOST) &&
                        leaf.payload().size() == before.size() &&
                        std::memcmp(leaf.payload().data(), before.data(), before.size()) == 0;
      if (!same) return kOk;
      const RowHeader header = leaf.header();
      *changed = leaf.set(header, after);
      room = *changed ? 0 : growth(static_cast<u32>(before.size()), static_cast<u32>(after.size()));
      if (!*changed && room == 0) return fail_row(file_, move.row_id, "no room to move its value");
      const RowRecord record{w_, file_, leaf.page_no(), move.row_id};
      if (*changed) leaf.changed(log_restore(record, header, make_patch(before, after)));
    } while (room != 0);
    return kOk;
  }

  ValueKeeper &keeper_;
  Worker &w_;
  FileSlot &file_;
  const FurtherFile further_;
  const PageNo target_;
  std::vector<Move> moves_;   // their pages are written
  u32 moved_pages_ = 0;   // of them
  ValuePace pace_;
  ValueProgress progress_;
  u64 moved_ = 0;   // pages, or rows, that were looked at to the end
  bool full_ = false;   // no page before the target is free
};

// How long the file needs to be for what is in use.
PageNo target_of(const ValueSpace &space, PageNo end) {
  const u64 used = end - std::min<u64>(end, space.free_pages.load(std::memory_order_relaxed));
  return static_cast<PageNo>(std::min<u64>(end, used + used / kSpareShare + kLeastFree / 4));
}

PageNo end_of(FileSlot &file) {
  const std::lock_guard guard(file.values.mutex);
  return file.values.end;
}

}  // namespace

bool is_move_due(const ValueKeeping &keeping, FileSlot &file) {
  if (keeping.bytes_per_second() == 0) return false;
  const u64 end = end_of(file);
  const u64 free = file.values.free_pages.load(std::memory_order_relaxed);
  return free >= kLeastFree && free * 100 >= (end - std::min(end, free)) * keeping.free_percent();
}

Status move_values(ValueKeeper &keeper, FileSlot &file, u64 *moved) {
  Mover mover(keeper, file, target_of(file.values, end_of(file)));
  const Status status = mover.run();
  *moved = mover.moved();
  return status;
}

}  // namespace ls
