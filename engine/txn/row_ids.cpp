// row_ids.cpp - ids reserved in steps on the meta page, drawn from memory.
#include "txn/row_ids.hpp"

#include "base/check.hpp"
#include "os/futex.hpp"
#include "txn/meta_page.hpp"
#include "txn/row.hpp"
#include "txn/row_log.hpp"

namespace ls {

namespace {

// What unlogged tables have in row_id_reserved and row_id_durable: beyond every row id, far from
// overflow.
constexpr u64 kNoReservation = u64{1} << 62;

// Log space is reserved.
Gsn store_high(Worker &w, const FileSlot &file, ExclusiveGuard &meta, u64 high) {
  LS_ASSERT((high & ~kRowIdExact) <= most_row_id_high(file.kind));
  reinterpret_cast<MetaPage *>(meta.page())->row_id_high = high;
  const Gsn gsn = log_row_id_high(w, file, high);
  w.pool->mark_changed(w.ctx.log, meta.frame(), gsn);
  return gsn;
}

// First draw in this run.
Status begin_run(Worker &w, FileSlot &file) {
  LS_TRY(w.log.reserve(row_record_room(0), w.ctx.interrupt));
  const std::lock_guard mutex(file.mutex);
  if (file.row_id_reserved_gsn.load(std::memory_order_relaxed) != 0) return kOk;
  ExclusiveGuard meta;
  LS_TRY(latch_meta(w, file, &meta));
  const u64 high = reinterpret_cast<const MetaPage *>(meta.page())->row_id_high;
  const IdSpace &space = id_space(file.kind);
  const u64 start = row_id_start(high, space);
  LS_ASSERT(start != 0);
  file.next_row_id.store(start, std::memory_order_relaxed);
  Gsn gsn = 1;
  if (file.logged) {
    gsn = store_high(w, file, meta, start + space.step);
    file.row_id_reserved.store(start + space.step, std::memory_order_relaxed);
    file.row_id_durable.store(0, std::memory_order_relaxed);
  } else {
    meta.reset_unchanged();
    file.row_id_reserved.store(kNoReservation, std::memory_order_relaxed);
    file.row_id_durable.store(kNoReservation, std::memory_order_relaxed);
  }
  // pairs with row_ids(): the words above are set
  file.row_id_reserved_gsn.store(gsn, std::memory_order_release);
  return kOk;
}

// Reserve a step beyond `end`.
Status extend(Worker &w, FileSlot &file, u64 end) {
  LS_TRY(w.log.reserve(row_record_room(0), w.ctx.interrupt));
  const u64 step = id_space(file.kind).step;
  {
    const std::lock_guard mutex(file.mutex);
    const u64 reserved = file.row_id_reserved.load(std::memory_order_relaxed);
    if (end + step / 2 <= reserved) return kOk;
    LS_ASSERT(file.row_id_durable.load(std::memory_order_relaxed) <= reserved);  // RID-2
    const u64 high = (end > reserved ? end : reserved) + step;
    if (w.log.log().hardened() >= file.row_id_reserved_gsn.load(std::memory_order_relaxed)) {
      file.row_id_durable.store(reserved, std::memory_order_release);
    }
    ExclusiveGuard meta;
    LS_TRY(latch_meta(w, file, &meta));
    const Gsn gsn = store_high(w, file, meta, high);
    file.row_id_reserved_gsn.store(gsn, std::memory_order_relaxed);
    file.row_id_reserved.store(high, std::memory_order_release);
  }
  w.log.log().kick();
  return kOk;
}

Status wait_reservation(Worker &w, FileSlot &file) {
  u64 reserved;
  Gsn gsn;
  {
    const std::lock_guard mutex(file.mutex);
    reserved = file.row_id_reserved.load(std::memory_order_relaxed);
    gsn = file.row_id_reserved_gsn.load(std::memory_order_relaxed);
  }
  if (!w.log.log().wait_hardened(gsn, w.ctx.interrupt)) {
    return fail(LS_INTERRUPTED, "interrupted while a row id reservation was hardened");
  }
  LS_ASSERT(w.log.log().hardened() >= gsn);  // RID-1
  const std::lock_guard mutex(file.mutex);
  if (file.row_id_durable.load(std::memory_order_relaxed) < reserved) {
    file.row_id_durable.store(reserved, std::memory_order_release);
  }
  return kOk;
}

// Ids below `end` are reserved, and this may be relied on.  *again: ask once more.
Status reserve(Worker &w, FileSlot &file, u64 end, bool *again) {
  const u64 step = id_space(file.kind).step;
  if (end + step / 2 > file.row_id_reserved.load(std::memory_order_acquire))
    LS_TRY(extend(w, file, end));
  const u64 durable = file.row_id_durable.load(std::memory_order_acquire);
  *again = durable == 0 || end > durable + step;
  return *again ? wait_reservation(w, file) : kOk;
}

Status draw(Worker &w, FileSlot &file, u64 count, u64 *first) {
  for (;;) {
    if (file.row_id_reserved_gsn.load(std::memory_order_acquire) == 0) LS_TRY(begin_run(w, file));
    u64 next = file.next_row_id.load(std::memory_order_relaxed);
    const u64 end = next + count;
    if (end > id_space(file.kind).end) return fail(LS_NO_ROW_IDS, "it has used up its row ids");
    bool again;
    LS_TRY(reserve(w, file, end, &again));
    if (again) continue;
    if (file.next_row_id.compare_exchange_weak(next, end, std::memory_order_relaxed)) {
      LS_ASSERT(next != 0);
      LS_ASSERT(end <= file.row_id_reserved.load(std::memory_order_acquire));  // RID-2
      *first = next;
      return kOk;
    }
  }
}

}  // namespace

Status row_ids(Worker &w, FileSlot &file, u32 count, u64 *first) {
  if (count == 0) return fail(LS_INVALID, "no row ids asked for");
  if (file.kind == LS_REL_VALUES) return fail(LS_INVALID, "row ids are drawn for values");
  return draw(w, file, count, first);
}

Status value_ids(Worker &w, FileSlot &file, u32 count, ls_value_range *values) {
  if (count == 0 || file.kind != LS_REL_VALUES) return fail(LS_INVALID, "no value ids to draw");
  const u64 rows = u64{count} * LS_ROWS_PER_VALUE;
  if (rows > LS_ROW_IDS_END / 2) return fail(LS_TOO_LARGE, "%u value ids at a time", count);
  for (;;) {
    u64 place;
    LS_TRY(draw(w, file, rows, &place));
    LS_ASSERT(place % LS_ROWS_PER_VALUE == 0);
    const u64 row = place % LS_ROW_IDS_END;  // RID-4
    // Behind the end of a lap, which these would go beyond, the next draw has room.
    if (row < LS_ROWS_PER_VALUE || row + rows > LS_ROW_IDS_END) continue;
    *values = {row / LS_ROWS_PER_VALUE, place >= LS_ROW_IDS_END};
    return kOk;
  }
}

Status row_ids_skip(Worker &w, FileSlot &file, u64 to) {
  const IdSpace &space = id_space(file.kind);
  if (file.kind == LS_REL_VALUES) to = (to + LS_ROWS_PER_VALUE - 1) & ~u64{LS_ROWS_PER_VALUE - 1};
  if (to > space.end) return fail(LS_NO_ROW_IDS, "it has used up its row ids");
  if (file.row_id_reserved_gsn.load(std::memory_order_acquire) == 0) LS_TRY(begin_run(w, file));
  for (;;) {
    u64 next = file.next_row_id.load(std::memory_order_relaxed);
    if (next >= to) return kOk;
    bool again;
    LS_TRY(reserve(w, file, to, &again));
    if (!again) file.next_row_id.compare_exchange_weak(next, to, std::memory_order_relaxed);
  }
}

void row_ids_return(FileSlot &file, u64 first, u64 end) {
  LS_ASSERT(first <= end);
  // A file that was sealed or forgotten meanwhile holds another word.
  file.next_row_id.compare_exchange_strong(end, first, std::memory_order_relaxed);
}

u64 row_ids_next(const FileSlot &file) {
  // Before the first draw the words are as opening the file has left them: next_row_id is the meta
  // page's row_id_high.
  const bool begun = file.row_id_reserved_gsn.load(std::memory_order_acquire) != 0;
  const u64 word = file.next_row_id.load(std::memory_order_relaxed);
  return begun ? word : row_id_start(word, id_space(file.kind));
}

Status row_ids_seal(Worker &w, FileSlot &file) {
  LS_TRY(w.log.reserve(row_record_room(0), nullptr));
  const std::lock_guard mutex(file.mutex);
  // what the meta page says still is true
  if (file.row_id_reserved_gsn.load(std::memory_order_relaxed) == 0) return kOk;
  LS_ASSERT(file.next_row_id.load(std::memory_order_relaxed) <=
            file.row_id_reserved.load(std::memory_order_relaxed));
  ExclusiveGuard meta;
  LS_TRY(latch_meta(w, file, &meta));
  store_high(w, file, meta, file.next_row_id.load(std::memory_order_relaxed) | kRowIdExact);
  // A draw after this begins a new run.
  file.next_row_id.store(reinterpret_cast<const MetaPage *>(meta.page())->row_id_high,
                         std::memory_order_relaxed);
  file.row_id_reserved_gsn.store(0, std::memory_order_release);
  return kOk;
}

}  // namespace ls
