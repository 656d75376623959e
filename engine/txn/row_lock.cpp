// row_lock.cpp - SELECT FOR UPDATE and its weaker kin.  The protocol is in row_lock_table.hpp
// (RLOCK-1, RLOCK-2); it ends under the leaf's latch like an update does, but changes the header's
// lock bits only and logs nothing: after a crash there are no locks.
#include "base/check.hpp"
#include "txn/row.hpp"
#include "txn/row_conflict.hpp"
#include "txn/row_read.hpp"

namespace ls {

namespace {

struct Locking {
  Worker &w;
  FileSlot &file;
  const ls_change &request;
  bool any_version;
  u8 *copy;                 // the row as it is
  u8 *older;                // a version before it
  // the row is another one's continuation: its insertion is no change of the key
  bool successor = false;
  u32 seq = 0;              // drawn, and not used for good
  u64 moved_to = 0;         // when locked: where the row goes on with the same key
};

bool keeps_key(const RowHeader &header) { return !header.has(LS_ROW_KEYS_CHANGED); }

// What the transaction's own change of the row keeps others from, as if it held that lock.  Even a
// row that it has inserted can be locked by others: FOR KEY SHARE, when it is the continuation of
// one that they see.
bool implied(const Locking &l, const RowHeader &header) {
  if (header.tn() != l.w.tn) return false;
  return l.request.mode <= LS_LOCK_NO_KEY_UPDATE || !keeps_key(header);
}

// FOR KEY SHARE does not mind changes that leave the keys alone: neither those of running
// transactions nor those that the snapshot does not see.  Finds the version behind them; *found
// false: there is none, or a key was changed.
Status look_through(Locking &l, const RowParts &newest, RowVersion *version, bool *found,
                    bool *stale) {
  LS_ASSERT(l.request.mode == LS_LOCK_KEY_SHARE);
  *version = RowVersion{newest.header, newest.payload, newest.moved_to};
  *found = *stale = false;
  if (l.successor) {
    // A host moves the row when a key changes, so the newest version tells.
    *found = keeps_key(newest.header);
    return kOk;
  }
  const Tn base = l.w.txns->tn_base.load(std::memory_order_relaxed);
  const Tn newest_tn = newest.header.tn();
  // Asked once: all of its versions count as running then, also when it ends meanwhile.
  const bool running = newest_tn != l.w.tn && tn_is_active(*l.w.txns, newest_tn);
  VersionLocator next{newest_tn, newest.header.seq};
  for (;;) {
    const RowHeader &header = version->header;
    const bool seen = l.any_version ? !running || header.tn() != newest_tn
                                    : writer_visible(header, *l.request.snapshot, base);
    if (seen) break;
    if (!header.has(LS_ROW_HAS_PREV) || !keeps_key(header) || !next) return kOk;
    LS_TRY(version_before(l.w, l.file, l.request.row_id, next, newest.payload, l.older, version,
                          &next, stale));
    if (*stale) return kOk;
  }
  if (version->header.has(LS_ROW_GHOST)) return kOk;
  const ls_snapshot *crosscheck = l.request.crosscheck;
  *found = crosscheck == nullptr || writer_visible(version->header, *crosscheck, base);
  return kOk;
}

// *seq: of the entry.
Status write_lock_undo(Locking &l, const LockView &view, u32 *seq) {
  LockBlock &block = l.w.locks;
  const FileNo file_no = file_no_of(l.file);
  *seq = block.seq;
  if (!view.own && block.has(file_no, l.request.row_id)) return kOk;   // RLOCK-5
  if (l.seq == 0) LS_TRY(draw_seq(l.w, &l.seq));
  VersionEntry entry{};
  entry.op = VersionOp::kLock;
  entry.file_slot = l.file.index;
  entry.file_no = file_no;
  entry.row_id = view.own ? l.request.row_id : LockBlock::first_of(l.request.row_id);
  entry.had_mode = view.own ? static_cast<u8>(view.own_value.mode + 1) : 0;
  entry.set_part(l.w.part);
  entry.older_seq = view.own ? view.own_value.seq : 0;
  LS_TRY(version_store(l.w, l.w.tn).put({l.w.tn, l.seq}, entry, {}));
  l.w.txns->versions_written.fetch_add(1, std::memory_order_relaxed);
  *seq = l.seq;
  if (view.own) return kOk;
  block = {file_no, entry.row_id, l.seq};
  l.seq = 0;   // other rows use it from here on
  return kOk;
}

// RLOCK-2, under the leaf's latch.
Status mark_header(Locking &l, const ChangeBasis &basis, bool *marked) {
  *marked = false;
  LS_TRY(l.w.log.reserve(0, l.w.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(l.w, l.file, l.request.row_id, 0));
  if (!leaf.found() || !still_holds(basis, leaf.header())) return kOk;
  mark_locked(l.w, l.file, l.request.row_id, leaf);
  *marked = true;
  return kOk;
}

// *granted false: another worker was faster, decide anew.
Status grant(Locking &l, const ChangeBasis &basis, bool *granted) {
  LS_ASSERT(basis.locks.conflict_tn == 0 && !basis.locks.unsettled);  // RLOCK-1
  LS_ASSERT(!basis.locks.holds(l.request.mode));
  u32 seq;
  LS_TRY(write_lock_undo(l, basis.locks, &seq));
  RowLockTable table(l.w);
  const LockValue value{static_cast<u8>(l.request.mode), LockState::kTentative, 0, seq};
  LS_TRY(table.put(file_no_of(l.file), l.request.row_id, l.w.tn, value));
  // From here on the entry must not stay tentative: a failure ends the transaction, and its end
  // settles the entry.
  LS_TRY(mark_header(l, basis, granted));
  if (*granted) {
    l.w.txns->row_locks.fetch_add(1, std::memory_order_relaxed);
    const LockValue settled{value.mode, LockState::kGranted, 0, value.seq};
    return table.put(file_no_of(l.file), l.request.row_id, l.w.tn, settled);
  }
  if (basis.locks.own)
    return table.put(file_no_of(l.file), l.request.row_id, l.w.tn, basis.locks.own_value);
  return table.remove(file_no_of(l.file), l.request.row_id, l.w.tn);
}

// Decide on the row as copied; on LS_OK *version is what the caller gets.
Status decide(Locking &l, const RowParts &parts, ChangeBasis *basis, RowVersion *version,
              ls_conflict *conflict, bool *again) {
  *version = RowVersion{parts.header, parts.payload, parts.moved_to};
  const Status s =
      decide_change(l.w, l.file, ChangeRequest{l.request, l.any_version}, basis, conflict, again);
  const ls_status verdict = code(s);
  if (*again || l.request.mode != LS_LOCK_KEY_SHARE ||
      (verdict != LS_BEING_MODIFIED && verdict != LS_UPDATED))
    return s;
  bool found;
  LS_TRY(look_through(l, parts, version, &found, again));
  if (*again || !found) return *again ? kOk : s;
  return check_row_locks(l.w, l.file, l.request, basis, conflict, again);
}

Status run(Locking &l, RowVersion *version, ls_conflict *conflict) {
  u32 pauses = 0;
  for (;;) {
    ChangeBasis basis;
    basis.mark(l.w, l.file, l.request.row_id);
    RowParts parts;
    u32 bytes;
    LS_TRY(copy_row(l.w, l.file, l.request.row_id, l.copy, &parts, &bytes));
    basis.header = parts.header;
    basis.moved_to = parts.moved_to;
    bool again;
    LS_TRY(decide(l, parts, &basis, version, conflict, &again));
    if (again) {
      LS_TRY(pause_for_others(l.w, &pauses));
      continue;
    }
    bool done = implied(l, parts.header);
    if (!done && basis.locks.holds(l.request.mode)) {
      LS_TRY(row_still(l.w, l.file, l.request.row_id, parts.header, &done));
      if (!done) {
        LS_TRY(restart_decision(l.w, &pauses));
        continue;
      }
    }
    if (!done) LS_TRY(grant(l, basis, &done));
    if (done) {
      if (parts.header.has(LS_ROW_MOVED) && keeps_key(parts.header)) l.moved_to = parts.moved_to;
      return kOk;
    }
    LS_TRY(restart_decision(l.w, &pauses));
  }
}

// Where a row has moved to there is none.  The move was rolled back: the lock on the row that is
// back will do.  Or the other row was deleted, and has gone already: to be told as if its ghost
// were still there.
Status successor_missing(const Locking &first, u64 row_id, u64 successor, u8 *copy,
                         ls_conflict *conflict) {
  RowParts parts;
  u32 bytes;
  const Status s = copy_row(first.w, first.file, row_id, copy, &parts, &bytes);
  if (code(s) == LS_NOT_FOUND) return kOk;
  LS_TRY(s);
  // A rollback puts the row that moved back before it removes the other.
  if (!parts.header.has(LS_ROW_MOVED) || parts.moved_to != successor) return kOk;
  *conflict = ls_conflict{};
  conflict->tn = parts.header.tn();
  return make_status(LS_DELETED);
}

// RLOCK-4: FOR KEY SHARE on a row that has moved with its key unchanged: lock it where it is now,
// too.
Status lock_successors(const Locking &first, ls_conflict *conflict) {
  LS_ASSERT(first.moved_to == 0 || first.request.mode == LS_LOCK_KEY_SHARE);  // RLOCK-4
  alignas(8) u8 copy[kPageSize];
  ls_change request = first.request;
  request.crosscheck = nullptr;
  u64 before = first.request.row_id;
  for (u64 row_id = first.moved_to; row_id != 0;) {
    request.row_id = row_id;
    Locking l{first.w, first.file, request, false, copy, first.older, true};
    RowVersion version;
    const Status s = run(l, &version, conflict);
    switch (code(s)) {
      case LS_OK: break;
      case LS_NOT_FOUND: return successor_missing(first, before, row_id, copy, conflict);
      // Changed by ourselves.
      case LS_SELF_MODIFIED:
      case LS_INVISIBLE: return kOk;
      default: conflict->holds_lock = true; return s;
    }
    before = row_id;
    row_id = l.moved_to;
  }
  return kOk;
}

}  // namespace

Status row_lock(Worker &w, FileSlot &file, const ls_change &change, bool any_version, u8 *buffer,
                ls_row *row, bool *newer, ls_conflict *conflict) {
  if (w.tn == 0) return fail(LS_INVALID, "a row is locked outside a transaction");
  alignas(8) u8 older[kPageSize];
  Locking l{w, file, change, any_version, buffer, older, false};
  RowVersion version;
  LS_TRY(run(l, &version, conflict));
  if (version.payload.data() >= older && version.payload.data() < older + kPageSize) {
    std::memcpy(buffer, version.payload.data(), version.payload.size());
    version.payload = Bytes(buffer, version.payload.size());
  }
  LS_ASSERT(version.payload.data() >= buffer);
  LS_ASSERT(version.payload.data() + version.payload.size() <= buffer + kPageSize);
  show(w, *change.snapshot, version.header.tn());
  fill_row(viewer_of(w, *change.snapshot), change.row_id, version, row);
  const Tn base = w.txns->tn_base.load(std::memory_order_relaxed);
  *newer = version.header.tn() != w.tn && !writer_visible(version.header, *change.snapshot, base);
  return lock_successors(l, conflict);
}

Status row_locker(Worker &w, FileSlot &file, u64 row_id, Tn *tn, u32 *seq) {
  alignas(8) u8 copy[kPageSize];
  RowParts parts;
  u32 bytes;
  LS_TRY(copy_row(w, file, row_id, copy, &parts, &bytes));
  if (!parts.header.has(LS_ROW_LOCKED)) return make_status(LS_NOT_FOUND);
  LockView view;
  LS_TRY(RowLockTable(w).look(file_no_of(file), row_id, LS_LOCK_UPDATE, &view));
  if (view.holds(LS_LOCK_KEY_SHARE)) {
    *tn = w.tn;
    *seq = view.own_value.seq;
    return kOk;
  }
  if (view.conflict_tn == 0) return make_status(LS_NOT_FOUND);
  *tn = view.conflict_tn;
  *seq = view.conflict_seq;
  return kOk;
}

}  // namespace ls
