// rollback.cpp - walks a transaction's undo entries backwards, once per rollback to a savepoint or
// abort.
//
// Order matters only between changes of one row, and that is the order of their seq.  An open
// insert range is not in the store yet; its place in the order is its seq.  Repeating an undo does
// nothing (the row carries another (tn, seq) then), so a step that ran out of frames is simply made
// again.
//
// A crash in the middle: recovery redoes the compensations and undoes the rest from the log.
#include "txn/rollback.hpp"

#include <ctime>

#include "base/check.hpp"
#include "buffer/file_use.hpp"
#include "buffer/insist.hpp"
#include "os/host_watch.hpp"
#include "txn/row_lock_table.hpp"
#include "txn/row_read.hpp"
#include "txn/row_undo.hpp"

namespace ls {

namespace {

constexpr long kRetryNs = 1'000'000;

// The file of entry after entry: in use until one comes that is of another.
class EntryFile {
 public:
  // LS_NOT_FOUND when it was forgotten: its rows are gone with it.
  Status of(Worker &w, const VersionEntry &entry, FileSlot **file) {
    if (!use_ || number_ != entry.file_no) {
      use_.end();
      FileHandle handle{&w.pool->file(entry.file_slot), entry.file_no};
      LS_TRY(use_.begin(w.ctx, &handle));
      number_ = entry.file_no;
    }
    LS_ASSERT(use_.file().file_no.load(std::memory_order_relaxed) == number_);
    *file = &use_.file();
    return kOk;
  }

 private:
  FileUse use_;
  FileNo number_ = 0;
};

Status undo_lock_of_row(Worker &w, RowLockTable &table, u32 seq, const VersionEntry &entry,
                        u64 row_id) {
  LockValue value;
  bool found;
  LS_TRY(table.get(entry.file_no, row_id, w.tn, &value, &found));
  if (!found || value.seq != seq) return kOk;
  if (entry.had_mode == 0) return table.remove(entry.file_no, row_id, w.tn);
  const LockValue before{static_cast<u8>(entry.had_mode - 1), LockState::kGranted, 0,
                         entry.older_seq};
  return table.put(entry.file_no, row_id, w.tn, before);
}

// With the copies that movers have made (RLOCK-4 in row_lock_table.hpp).
Status undo_lock(Worker &w, u32 seq, const VersionEntry &entry, FileSlot &file) {
  RowLockTable table(w);
  u64 rows[kLockBlockRows] = {entry.row_id};
  u32 n = 1;
  if (entry.had_mode == 0) LS_TRY(table.own_in_block(entry.file_no, entry.row_id, seq, rows, &n));
  for (u32 i = 0; i < n; i++) {
    for (u64 row_id = rows[i]; row_id != 0;) {
      LS_TRY(undo_lock_of_row(w, table, seq, entry, row_id));
      LS_TRY(successor_of(w, file, row_id, &row_id));
    }
  }
  return kOk;
}

Status undo_entry(Worker &w, EntryFile &at, u32 seq, const VersionEntry &entry, Bytes payload) {
  FileSlot *file;
  LS_TRY(at.of(w, entry, &file));
  if (entry.op == VersionOp::kLock) return undo_lock(w, seq, entry, *file);
  return undo_change(w, UndoTarget{*file, entry.row_id, w.tn, seq}, entry, payload);
}

// For the cleaner: a ghost lies there that no snapshot needs once the horizon has passed the
// transaction.  It stands behind what is walked back; if that is rolled back, too, it is made anew.
Status note_ghost(Worker &w, const UndoTarget &target, u64 row_id) {
  u32 seq;
  LS_TRY(draw_seq(w, &seq));
  VersionEntry entry{};
  entry.op = VersionOp::kDelete;
  entry.file_slot = target.file.index;
  entry.file_no = target.file.file_no.load(std::memory_order_relaxed);
  entry.row_id = row_id;
  entry.previous = RowHeader::make(w.tn, 0, 0, 0, target.seq);
  LS_TRY(version_store(w, w.tn).put({w.tn, seq}, entry, {}));
  w.txns->versions_written.fetch_add(1, std::memory_order_relaxed);
  return kOk;
}

// Pieces of values stay as ghosts: a reader may have met the pointer, in a version that it took for
// what it was, one not committed.
Status ghost_inserted(Worker &w, const UndoTarget &target, u64 count) {
  PageNo noted = kInvalidPageNo;
  for (u64 row_id = target.row_id; row_id < target.row_id + count; row_id++) {
    PageNo page_no;
    LS_TRY(ghost_one(w, target, row_id, &page_no));
    if (page_no == kInvalidPageNo || page_no == noted) continue;
    LS_TRY(note_ghost(w, target, row_id));
    noted = page_no;
  }
  return kOk;
}

// Such a note: the ghost carries the number of its insertion, not the note's.
Status is_note(Worker &w, const UndoTarget &target, const VersionEntry &entry, bool *note) {
  *note = false;
  if (target.file.kind != LS_REL_VALUES || w.tn != target.tn || entry.previous.tn() != w.tn)
    return kOk;
  alignas(8) u8 copy[kPageSize];
  RowParts row;
  u32 bytes;
  const Status s = copy_row(w, target.file, target.row_id, copy, &row, &bytes);
  if (code(s) == LS_NOT_FOUND) return kOk;
  LS_TRY(s);
  *note = row.header.has(LS_ROW_GHOST) && row.header.tn() == w.tn &&
          row.header.seq == entry.previous.seq;
  return kOk;
}

Status undo_delete(Worker &w, const UndoTarget &target, const VersionEntry &entry) {
  bool note;
  LS_TRY(is_note(w, target, entry, &note));
  if (!note) return put_back(w, target, entry.previous, PayloadBefore{});
  return note_ghost(w, {target.file, target.row_id, target.tn, entry.previous.seq}, target.row_id);
}

struct Walk {
  Worker &w;
  u32 savepoint;
  bool range_open;  // the insert range is still to be undone
  EntryFile file;
};

// Undo with retries: frames, memory and places for open files become free, and a full disk is the
// administrator's to clear.  What was forgotten meanwhile needs none.
Status insist(Status (*step)(void *arg), void *arg) {
  for (;;) {
    const Status s = step(arg);
    if (code(s) == LS_NOT_FOUND) return kOk;
    if (!may_pass(s) && code(s) != LS_LIMIT) return s;
    const timespec t{0, kRetryNs};
    nanosleep(&t, nullptr);
    watch_host();
  }
}

Status undo_range(Walk &walk) {
  walk.range_open = false;
  const InsertRange &range = walk.w.inserts;
  LS_ASSERT(range.count > 0 && range.seq >= walk.savepoint);
  VersionEntry entry{};
  entry.op = VersionOp::kInsert;
  entry.file_slot = range.file_slot;
  entry.file_no = range.file_no;
  entry.row_id = range.first;
  entry.count = range.count;
  struct Step { Walk &walk; const VersionEntry &entry; } step{walk, entry};
  return insist([](void *arg) {
    Step &s = *static_cast<Step *>(arg);
    return undo_entry(s.walk.w, s.walk.file, s.walk.w.inserts.seq, s.entry, {});
  }, &step);
}

Status visit(void *arg, u32 seq, const VersionEntry &entry, Bytes payload) {
  Walk &walk = *static_cast<Walk *>(arg);
  if (walk.range_open && walk.w.inserts.seq > seq) LS_TRY(undo_range(walk));
  struct Step {
    Walk &walk;
    u32 seq;
    const VersionEntry &entry;
    Bytes payload;
  } step{walk, seq, entry, payload};
  return insist([](void *a) {
    Step &s = *static_cast<Step *>(a);
    return undo_entry(s.walk.w, s.walk.file, s.seq, s.entry, s.payload);
  }, &step);
}

Status walk_back(void *arg) {
  Walk &walk = *static_cast<Walk *>(arg);
  alignas(8) u8 leaf[kPageSize];
  LS_TRY(version_store(walk.w, walk.w.tn)
             .take_back(walk.w.tn, walk.savepoint, walk.w.next_seq, leaf, &walk, visit));
  return walk.range_open ? undo_range(walk) : kOk;
}

}  // namespace

Status successor_of(Worker &w, FileSlot &file, u64 row_id, u64 *successor) {
  alignas(8) u8 copy[kPageSize];
  RowParts parts;
  u32 bytes;
  *successor = 0;
  const Status s = copy_row(w, file, row_id, copy, &parts, &bytes);
  if (code(s) == LS_NOT_FOUND) return kOk;
  LS_TRY(s);
  if (parts.header.has(LS_ROW_MOVED) && !parts.header.has(LS_ROW_KEYS_CHANGED))
    *successor = parts.moved_to;
  return kOk;
}

Status undo_change(Worker &w, const UndoTarget &target, const VersionEntry &entry, Bytes payload) {
  switch (entry.op) {
    case VersionOp::kInsert:
      // After a start there is no reader.
      if (target.file.kind == LS_REL_VALUES && w.tn == target.tn)
        return ghost_inserted(w, target, entry.count);
      // Cannot be refused: it does without the memory.
      return remove_inserted(w, target, entry.count, nullptr);
    case VersionOp::kUpdate: {
      PayloadBefore before;
      before.whole = true;
      before.bytes = payload;
      return put_back(w, target, entry.previous, before);
    }
    case VersionOp::kDelete:
      return undo_delete(w, target, entry);
    case VersionOp::kLock:
      break;
  }
  return kOk;
}

void roll_back(Worker &w, u32 savepoint) {
  if (w.next_seq <= savepoint || w.next_seq == 1) return;
  LS_ASSERT(w.tn != 0 && !w.ctx.must_open);
  const volatile int *interrupt = w.ctx.interrupt;
  w.ctx.interrupt = nullptr;
  w.ctx.must_open = true;
  Walk walk{w, savepoint, w.inserts.count > 0 && w.inserts.seq >= savepoint, {}};
  const Status s = insist(walk_back, &walk);
  LS_CHECK(ok(s), last_error().message);
  LS_CHECK(!walk.range_open, "a rollback has left out a range of insertions");
  if (w.inserts.seq >= savepoint) w.inserts = InsertRange{};
  w.locks = LockBlock{};
  w.deletes = DeleteRun{};
  w.ctx.interrupt = interrupt;
  w.ctx.must_open = false;
}

}  // namespace ls
