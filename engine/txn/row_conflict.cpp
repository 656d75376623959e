// row_conflict.cpp - the answer from header and row locks; pauses where a decision has to be made
// anew.
#include "txn/row_conflict.hpp"

#include <ctime>

#include "base/check.hpp"

#include "txn/row_read.hpp"

namespace ls {

namespace {

// Half of what 8 bits can tell apart, so that a mark read early is still safe.
constexpr u64 kGenerationWindow = 128;

// Mostly another transaction has just locked or changed the row.  Pauses begin where that would be
// one coincidence too many.
constexpr u32 kRestartsAtOnce = 4;
constexpr u32 kPauseFirstUs = 2;
constexpr u32 kPauseLastUs = 500;

std::atomic<u64> &generation_counter(const Worker &w, const FileSlot &file, u64 row_id) {
  const u64 mixed = (row_id ^ u64{file.index} << 40) * 0x9e3779b97f4a7c15;
  return w.txns->generation_changes[mixed >> 32 & (kGenerationCounters - 1)];
}

ls_status deleted(const RowHeader &header, u64 moved_to, ls_conflict *conflict) {
  if (!header.has(LS_ROW_MOVED)) return LS_DELETED;
  conflict->moved = true;
  conflict->moved_to = moved_to;
  return LS_UPDATED;
}

// The table in row_conflict.hpp, row locks apart.  *certain: the answer does not rest on "not
// active any more".
ls_status judge_change(Worker &w, const ChangeRequest &request, const RowHeader &header,
                       u64 moved_to, ls_conflict *conflict, bool *certain) {
  const ls_change &change = request.change;
  const Tn tn = header.tn();
  *certain = true;
  *conflict = ls_conflict{};
  conflict->tn = tn;
  conflict->seq = header.seq;
  if (tn == w.tn) {
    if (header.has(LS_ROW_SPECULATIVE) || header.cid >= change.cid) {
      conflict->cid = header.cid;
      return LS_SELF_MODIFIED;
    }
    if (!header.has(LS_ROW_GHOST)) return LS_OK;
    return request.any_version ? deleted(header, moved_to, conflict) : LS_INVISIBLE;
  }
  const Tn base = w.txns->tn_base.load(std::memory_order_relaxed);
  const Tn finished_below = change.snapshot->xmin > base ? change.snapshot->xmin : base;
  if (tn >= finished_below) {
    if (tn_is_active(*w.txns, tn)) {
      conflict->speculative = header.has(LS_ROW_SPECULATIVE);
      conflict->cid = header.cid;
      return LS_BEING_MODIFIED;
    }
    *certain = false;
  }
  if (header.has(LS_ROW_GHOST)) return deleted(header, moved_to, conflict);
  if (!request.any_version && !writer_visible(header, *change.snapshot, base)) return LS_UPDATED;
  return LS_OK;
}

}  // namespace

void ChangeBasis::mark(const Worker &w, const FileSlot &file, u64 row_id) {
  counter = &generation_counter(w, file, row_id);
  generation_changes = counter->load(std::memory_order_acquire);
}

bool still_holds(const ChangeBasis &basis, const RowHeader &now) {
  if (!now.same(basis.header)) return false;
  if (!now.has(LS_ROW_LOCKED)) return true;
  LS_ASSERT(basis.counter != nullptr);
  const u64 changes = basis.counter->load(std::memory_order_acquire);
  LS_ASSERT(changes >= basis.generation_changes);  // RLOCK-2
  return changes - basis.generation_changes < kGenerationWindow;
}

void count_generation(Worker &w, const FileSlot &file, u64 row_id) {
  generation_counter(w, file, row_id).fetch_add(1, std::memory_order_acq_rel);
}

void mark_locked(Worker &w, const FileSlot &file, u64 row_id, RowLeaf &leaf) {
  LS_ASSERT(leaf.found());
  const RowHeader h = leaf.header();
  count_generation(w, file, row_id);
  leaf.set_header(RowHeader::make(h.tn(), h.flags() | LS_ROW_LOCKED,
                                  static_cast<u8>(h.generation() + 1), h.cid, h.seq));
  leaf.changed_hint();
}

Status pause_for_others(Worker &w, u32 *round) {
  if (w.ctx.interrupt != nullptr && *w.ctx.interrupt != 0)
    return fail(LS_INTERRUPTED, "interrupted while a row lock was settled");
  u32 us = kPauseFirstUs << (*round < 8 ? *round : 8);
  if (us > kPauseLastUs) us = kPauseLastUs;
  (*round)++;
  const timespec t{0, static_cast<long>(us) * 1000};
  nanosleep(&t, nullptr);
  return kOk;
}

Status restart_decision(Worker &w, u32 *round) {
  w.pool->count_restart(w.slot);
  if (*round >= kRestartsAtOnce) return pause_for_others(w, round);
  (*round)++;
  return kOk;
}

Status check_row_locks(Worker &w, FileSlot &file, const ls_change &change, ChangeBasis *basis,
                       ls_conflict *conflict, bool *again) {
  basis->locks = LockView{};
  if (!basis->header.has(LS_ROW_LOCKED)) return kOk;
  RowLockTable table(w);
  LS_TRY(table.look(file_no_of(file), change.row_id, change.mode, &basis->locks));
  LS_ASSERT(basis->locks.conflict_tn != w.tn);
  if (basis->locks.conflict_tn != 0) {
    *conflict = ls_conflict{};
    conflict->tn = basis->locks.conflict_tn;
    conflict->seq = basis->locks.conflict_seq;
    conflict->holds_lock = basis->locks.own;
    return make_status(LS_LOCKED);
  }
  *again = basis->locks.unsettled;
  return kOk;
}

Status decide_change(Worker &w, FileSlot &file, const ChangeRequest &request, ChangeBasis *basis,
                     ls_conflict *conflict, bool *again) {
  const ls_change &change = request.change;
  const RowHeader &header = basis->header;
  LS_ASSERT(w.tn != 0);
  *again = false;
  bool certain;
  ls_status verdict = judge_change(w, request, header, basis->moved_to, conflict, &certain);
  if ((verdict == LS_UPDATED || verdict == LS_BEING_MODIFIED) && header.has(LS_ROW_LOCKED)) {
    LockValue own;
    bool found;
    LS_TRY(RowLockTable(w).get(file_no_of(file), change.row_id, w.tn, &own, &found));
    const bool granted = found && own.state == LockState::kGranted;
    conflict->holds_lock = granted;
    // Locked by this transaction after it was written: the host has looked at this version when it
    // took the lock.
    if (verdict == LS_UPDATED && !header.has(LS_ROW_GHOST) && granted &&
        own.mode >= LS_LOCK_NO_KEY_UPDATE)
      verdict = LS_OK;
  }
  const Tn base = w.txns->tn_base.load(std::memory_order_relaxed);
  if (verdict == LS_OK && change.crosscheck != nullptr &&
      !writer_visible(header, *change.crosscheck, base)) {
    verdict = LS_UPDATED;
  }
  if (verdict == LS_OK) return check_row_locks(w, file, change, basis, conflict, again);
  if (!certain && (verdict == LS_UPDATED || verdict == LS_DELETED)) {
    bool same = false;
    LS_TRY(row_still(w, file, change.row_id, header, &same));
    *again = !same;
    if (*again) return kOk;
  }
  if (verdict == LS_UPDATED || verdict == LS_DELETED) show(w, *change.snapshot, header.tn());
  return make_status(verdict);
}

}  // namespace ls
