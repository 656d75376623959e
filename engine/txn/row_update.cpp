// row_update.cpp - replace a row in place, or turn it into a ghost.
//
// (1) copy the row, decide; (2) write the undo entry; (3) latch the leaf, compare the header with
//     the copy, and either begin again or (4) change, log one record.  A crash at any point leaves
//     the record hardened or not: recovery redoes the change and, for a loser, undoes it from the
//     record alone.
#include "base/check.hpp"
#include "base/failpoint.hpp"
#include "txn/row.hpp"
#include "txn/row_conflict.hpp"
#include "txn/row_log.hpp"
#include "txn/row_read.hpp"
#include "txn/version_prune.hpp"

namespace ls {

namespace {

// A change on its way: what the row is to become.
struct Change {
  Worker &w;
  FileSlot &file;
  const ls_change &request;
  Bytes data;             // update
  u64 moved_to = 0;       // delete
  bool ghost = false;
  u32 own_seq = 0;        // drawn once, whatever is repeated
  u32 seq = 0;            // that, or a run's
  VersionLocator older;   // where the chain goes on behind the version replaced
};

Status put_undo(Change &c, VersionEntry *entry, Bytes before) {
  LS_ASSERT(entry->previous.tn() != c.w.tn || entry->previous.seq < c.seq);  // TXN-2
  entry->op = c.ghost ? VersionOp::kDelete : VersionOp::kUpdate;
  entry->file_slot = c.file.index;
  entry->file_no = file_no_of(c.file);
  entry->row_id = c.request.row_id;
  entry->set_part(c.w.part);
  entry->payload_bytes = static_cast<u32>(before.size());
  LS_TRY(version_store(c.w, c.w.tn).put({c.w.tn, c.seq}, *entry, before));
  c.w.txns->versions_written.fetch_add(1, std::memory_order_relaxed);
  return kOk;
}

// Does the deletion follow the last one, of a row that the same insertion has written?
bool follows(const Change &c, const RowHeader &previous, const DeleteRun &run) {
  constexpr u64 kNear = 8;   // of a run at least every eighth number is used
  return c.moved_to == 0 && run.file_no == file_no_of(c.file) &&
         c.request.row_id > run.last && c.request.row_id - run.last <= kNear &&
         !previous.has(LS_ROW_HAS_PREV) && previous.same(run.previous);
}

// *entered false: it has an entry of its own.  A row that is met again, as it has changed
// meanwhile, has one, too.
Status enter_run(Change &c, const RowHeader &previous, bool *entered) {
  constexpr u32 kLongStreak = 4;
  DeleteRun &run = c.w.deletes;
  *entered = false;
  if (!c.ghost) return kOk;
  if (!follows(c, previous, run)) {
    run = DeleteRun{};
    if (c.file.kind == LS_REL_TABLE)
      run = {.file_no = file_no_of(c.file), .previous = previous, .last = c.request.row_id};
    return kOk;
  }
  run.last = c.request.row_id;
  const bool inside = run.seq != 0 && run.last - run.first < kVersionRun;
  if (!inside && ++run.streak < kLongStreak) return kOk;
  if (!inside) {
    c.seq = draw_run(c.w);
    if (c.seq == 0) return kOk;
    VersionEntry entry{};
    entry.previous = previous;
    entry.run = kVersionRun;
    LS_TRY(put_undo(c, &entry, {}));
    run.first = run.last;
    run.seq = c.seq;
  }
  c.seq = run.seq + static_cast<u32>(run.last - run.first);
  c.older = {};
  *entered = true;
  return kOk;
}

Status write_undo(Change &c, const RowHeader &previous, Bytes payload) {
  bool entered;
  LS_TRY(enter_run(c, previous, &entered));
  if (entered) return kOk;
  if (c.own_seq == 0) LS_TRY(draw_seq(c.w, &c.own_seq));
  c.seq = c.own_seq;
  c.older = older_needed(previous, txn_horizon(*c.w.txns));
  VersionEntry entry{};
  entry.previous = previous;
  entry.older_tn = c.older.tn;
  entry.older_seq = c.older.seq;
  return put_undo(c, &entry, c.ghost ? Bytes{} : payload);
}

RowHeader new_header(const Change &c, const ChangeBasis &basis) {
  LS_ASSERT(c.ghost || c.moved_to == 0);
  LS_ASSERT(basis.header.has(LS_ROW_LOCKED) || !basis.locks.any_live);
  u8 flags = LS_ROW_HAS_PREV;
  if (c.ghost) flags |= LS_ROW_GHOST;
  if (c.moved_to != 0) flags |= LS_ROW_MOVED;
  if (c.request.mode == LS_LOCK_UPDATE) flags |= LS_ROW_KEYS_CHANGED;
  // Compatible locks of others (KEY SHARE) and the transaction's own outlive the change.
  if (basis.locks.any_live) flags |= LS_ROW_LOCKED;
  return RowHeader::make(c.w.tn, flags, basis.header.generation(), c.request.cid, c.seq);
}

// Under the leaf's latch.  False: the row is not the one decided on any more.
bool apply(Change &c, const ChangeBasis &basis, Bytes old_payload, RowLeaf &leaf) {
  if (!leaf.found() || !still_holds(basis, leaf.header())) return false;
  LS_ASSERT(c.seq != 0);  // its undo entry is written
  const RowHeader now = new_header(c, basis);
  Bytes tail;
  if (c.ghost && c.moved_to != 0)
    tail = Bytes(reinterpret_cast<const u8 *>(&c.moved_to), kMovedBytes);
  LS_CHECK(leaf.set(now, c.ghost ? old_payload : c.data, tail),
           "a leaf lacks the room that it was latched with");
  const RowRecord record{c.w, c.file, leaf.page_no(), c.request.row_id};
  leaf.changed(c.ghost ? log_delete(record, basis.header, now, c.moved_to)
                       : log_update(record, basis.header, now, old_payload, c.data));
  return true;
}

// RLOCK-4 in row_lock_table.hpp.
Status take_locks_along(const Change &c, const ChangeBasis &basis, bool *again) {
  *again = false;
  if (c.moved_to == 0 || c.request.mode == LS_LOCK_UPDATE || !basis.locks.any_live) return kOk;
  u32 copied;
  LS_TRY(RowLockTable(c.w).copy_to_successor(file_no_of(c.file), c.request.row_id, c.moved_to,
                                             &copied, again));
  if (*again || copied == 0) return kOk;
  LS_TRY(c.w.log.reserve(0, c.w.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(c.w, c.file, c.moved_to, 0));
  if (!leaf.found())
    return fail_row(c.file, c.moved_to, "a row is to move there, but there is none");
  mark_locked(c.w, c.file, c.moved_to, leaf);
  return kOk;
}

Status change_leaf(Change &c, const ChangeBasis &basis, Bytes old_payload, bool *done) {
  const u32 old_bytes = static_cast<u32>(old_payload.size());
  const u32 moved_bytes = c.moved_to != 0 ? kMovedBytes : 0;
  const u32 new_bytes = c.ghost ? old_bytes + moved_bytes : static_cast<u32>(c.data.size());
  LS_TRY(c.w.log.reserve(row_record_room(old_bytes + new_bytes), c.w.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(c.w, c.file, c.request.row_id, growth(old_bytes, new_bytes)));
  *done = apply(c, basis, old_payload, leaf);
  return kOk;
}

// Has the version that the snapshot sees been updated before the row was deleted?  That is an
// update to the host, as it is where each version has a place of its own.
Status updated_before(const Change &c, const RowHeader &ghost, bool *updated) {
  LS_ASSERT(ghost.has(LS_ROW_GHOST));
  alignas(8) u8 bytes[kPageSize];
  const VersionEntry *entry = nullptr;
  *updated = false;
  Worker &w = c.w;
  const ls_snapshot &snapshot = *c.request.snapshot;
  const Tn base = w.txns->tn_base.load(std::memory_order_relaxed);
  if (writer_visible(ghost, snapshot, base)) return kOk;
  const Status s = version_store(w, ghost.tn()).get({ghost.tn(), ghost.seq}, bytes, &entry);
  if (code(s) == LS_NOT_FOUND) return kOk;
  LS_TRY(s);
  *updated = !writer_visible(entry->previous, snapshot, base);
  return kOk;
}

// May it be made?  The row as copied is in `basis`.
Status decide(const Change &c, ChangeBasis *basis, ls_conflict *conflict, bool *again) {
  const Status s = decide_change(c.w, c.file, ChangeRequest{c.request}, basis, conflict, again);
  if (code(s) != LS_DELETED) return s;
  bool updated;
  LS_TRY(updated_before(c, basis->header, &updated));
  return updated ? make_status(LS_UPDATED) : s;
}

void tell_deleted(const Change &c, const RowParts &row) {
  *c.request.deleted = {.row_id = c.request.row_id,
                        .writer_tn = row.header.tn(),
                        .cid = row.header.cid,
                        .seq = row.header.seq,
                        .flags = row.header.flags(),
                        .moved_to = 0,
                        .data = row.payload.data(),
                        .len = static_cast<u32>(row.payload.size())};
}

Status run(Change &c, ls_conflict *conflict) {
  if (c.w.tn == 0) return fail(LS_INVALID, "a row is changed outside a transaction");
  alignas(8) u8 space[kPageSize];
  u8 *copy = c.request.deleted ? c.request.buffer : space;
  u32 pauses = 0;
  for (;;) {
    ChangeBasis basis;
    basis.mark(c.w, c.file, c.request.row_id);
    RowParts parts;
    u32 bytes;
    LS_TRY(copy_row(c.w, c.file, c.request.row_id, copy, &parts, &bytes));
    basis.header = parts.header;
    basis.moved_to = parts.moved_to;
    bool again;
    LS_TRY(decide(c, &basis, conflict, &again));
    if (again) {
      LS_TRY(pause_for_others(c.w, &pauses));
      continue;
    }
    LS_ASSERT(basis.locks.conflict_tn == 0 && !basis.locks.unsettled);  // RLOCK-1
    if (c.file.logged) log_begin(c.w);
    LS_TRY(write_undo(c, parts.header, parts.payload));
    LS_TRY(take_locks_along(c, basis, &again));
    if (again) {
      LS_TRY(pause_for_others(c.w, &pauses));
      continue;
    }
    LS_FAILPOINT(txn_before_change);
    bool done;
    LS_TRY(change_leaf(c, basis, parts.payload, &done));
    if (done) {
      if (c.request.deleted) tell_deleted(c, parts);
      break;
    }
    LS_TRY(restart_decision(c.w, &pauses));
  }
  if (!c.file.logged) c.w.wrote_unlogged = true;
  return c.older ? prune_versions(c.w, c.older) : kOk;
}

}  // namespace

Status row_update(Worker &w, FileSlot &file, const ls_change &change, Bytes data,
                  ls_conflict *conflict) {
  if (data.size() > LS_MAX_ROW_BYTES)
    return fail(LS_TOO_LARGE, "a row of %zu bytes is over the limit", data.size());
  LS_ASSERT(change.deleted == nullptr);
  Change c{w, file, change, data, 0, false, 0, 0, {}};
  return run(c, conflict);
}

Status row_delete(Worker &w, FileSlot &file, const ls_change &change, u64 moved_to,
                  ls_conflict *conflict) {
  if (moved_to == 0 && change.mode != LS_LOCK_UPDATE)
    return fail(LS_INVALID, "a row is deleted in a mode that keeps its key");
  Change c{w, file, change, {}, moved_to, true, 0, 0, {}};
  return run(c, conflict);
}

}  // namespace ls
