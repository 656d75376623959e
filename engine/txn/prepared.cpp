// prepared.cpp - PREPARE TRANSACTION writes a file and takes a slot; the end gives both back.
#include "txn/prepared.hpp"

#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/failpoint.hpp"
#include "base/interrupt.hpp"
#include "buffer/file_use.hpp"
#include "buffer/sealed_files.hpp"
#include "os/futex.hpp"
#include "txn/prepared_file.hpp"
#include "txn/rollback.hpp"
#include "txn/row_lock_table.hpp"

namespace ls {

namespace {

u32 value(PreparedState state) { return static_cast<u32>(state); }

// Release: a worker that finds the state finds what was written before.
void set_state(PreparedSlot &slot, PreparedState state) {
  slot.state.store(value(state), std::memory_order_release);
  futex_wake_all(&slot.state);
}

bool is_in(const PreparedSlot &slot, PreparedState state) {
  return slot.state.load(std::memory_order_relaxed) == value(state);
}

bool change_state(PreparedSlot &slot, PreparedState from, PreparedState to) {
  u32 expected = value(from);
  return slot.state.compare_exchange_strong(expected, value(to), std::memory_order_acq_rel);
}

PreparedSlot *reserve_slot(TxnShared &t) {
  for (u32 i = 0; i < t.prepared_slots; i++) {
    PreparedSlot &slot = t.prepared[i];
    if (!change_state(slot, PreparedState::kFree, PreparedState::kReserved)) continue;
    LS_ASSERT(slot.tn.load(std::memory_order_relaxed) == 0);
    LS_ASSERT(slot.keep.load(std::memory_order_relaxed) == 0);  // PREP-3
    u32 used = t.prepared_used.load(std::memory_order_relaxed);
    while (used <= i &&
           !t.prepared_used.compare_exchange_weak(used, i + 1, std::memory_order_acq_rel)) {
    }
    return &slot;
  }
  return nullptr;
}

void free_slot(PreparedSlot &slot) {
  LS_ASSERT(slot.tn.load(std::memory_order_relaxed) == 0);
  slot.keep.store(0, std::memory_order_release);
  LS_ASSERT(slot.in_log.load(std::memory_order_relaxed) == 0);   // PFILE-2
  slot.full_xid = 0;
  set_state(slot, PreparedState::kFree);
}

void log_two_phase(LogAppender &log, Tn tn, u64 full_xid, Gsn *gsn) {
  log.start(RecordKind::kTwoPhase);
  log.number(tn);
  log.number(full_xid);
  *gsn = log.finish();
}

// Without an interrupt flag: what must not be refused.
void reserve_end(LogAppender &log) {
  LS_CHECK(ok(log.reserve(kTwoPhaseRoom, nullptr)), last_error().message);
}

// Writes the transaction's undo entries and row locks; each relation file is named before it is
// first used.  Files that the transaction has made are gone when it is rolled back, and need none.
class Collector {
 public:
  Collector(Worker &w, PreparedFileWriter &out) : w_(w), out_(out) {}

  Status run(std::span<const ls_ending_file> ending) {
    LS_TRY(out_.tn(w_.tn));
    for (const ls_ending_file &file : ending) {
      LS_TRY(out_.ending(file));
      if (!file.at_commit) made_.insert(name_of(file.key));
    }
    LS_TRY(version_store(w_, w_.tn).for_each(
        w_.tn, this, [](void *arg, u32 seq, const VersionEntry &entry, Bytes payload) {
          return static_cast<Collector *>(arg)->change(seq, entry, payload);
        }));
    if (!has_locks_) return kOk;
    return RowLockTable(w_).locks_of(
        w_.tn, this, [](void *arg, FileNo file_no, u64 row_id, const LockValue &lock) {
          return static_cast<Collector *>(arg)->lock(file_no, row_id, lock);
        });
  }

 private:
  using Name = std::tuple<u32, u32, u32, i32>;
  static Name name_of(const ls_rel_key &key) {
    return {key.tablespace, key.database, key.relation, key.owner};
  }

  Status change(u32 seq, const VersionEntry &entry, Bytes payload) {
    bool known;
    LS_TRY(relation(entry, &known));
    if (!known) return kOk;
    if (entry.op == VersionOp::kLock) {
      has_locks_ = true;
      return kOk;
    }
    PreparedChange change{};
    change.seq = seq;
    change.op = entry.op;
    change.file = entry.file_no;
    change.count = entry.count;
    change.row_id = entry.row_id;
    change.previous = entry.previous;
    change.older_seq = entry.older_tn == w_.tn ? entry.older_seq : 0;
    change.payload_bytes = static_cast<u32>(payload.size());
    return out_.change(change, payload);
  }

  // A copy of a lock, made by the mover of the row, names the same relation file (RLOCK-4).
  Status lock(FileNo file_no, u64 row_id, const LockValue &lock) {
    if (lock.state != LockState::kGranted || !relations_[file_no]) return kOk;
    return out_.lock({row_id, file_no, lock.mode, 0});
  }

  // *known false: the file was forgotten, or made by this transaction; its rows go with it.
  Status relation(const VersionEntry &entry, bool *known) {
    const auto [at, is_new] = relations_.try_emplace(entry.file_no, false);
    *known = at->second;
    if (!is_new) return kOk;
    FileUse use;
    FileHandle handle{&w_.pool->file(entry.file_slot), entry.file_no};
    const Status status = use.begin(w_.ctx, &handle);
    if (code(status) == LS_NOT_FOUND) return kOk;
    LS_TRY(status);
    const FileSlot &file = use.file();
    if (made_.contains(name_of(file.key))) return kOk;
    *known = at->second = true;
    const FileRecord record{entry.file_no,
                            file.key.tablespace,
                            file.key.database,
                            file.key.relation,
                            file.key.owner,
                            file.kind,
                            file.logged,
                            static_cast<u16>(std::strlen(file.path)),
                            0};
    return out_.file(record, file.path);
  }

  Worker &w_;
  PreparedFileWriter &out_;
  std::set<Name> made_;
  std::map<FileNo, bool> relations_;
  bool has_locks_ = false;
};

Status write_file(Worker &w, PreparedSlot &slot, std::span<const ls_ending_file> ending) {
  const char *directory = w.txns->prepared_dir;
  const u64 full_xid = slot.full_xid;
  PreparedFileWriter out(directory, full_xid);
  LS_TRY(Collector(w, out).run(ending));
  std::vector<u8> image;
  LS_TRY(out.finish(&image));
  if (image.empty())
    return prepared_file_post(w.log.log(), directory, full_xid, w.ctx.interrupt);
  {
    // Before the log has it: a checkpoint with a later redo point finds it.
    const std::lock_guard guard(w.txns->prepared_mutex);
    std::memcpy(slot.undo, image.data(), image.size());
    slot.undo_bytes = static_cast<u32>(image.size());
    slot.in_log.store(full_xid, std::memory_order_seq_cst);
  }
  return prepared_image_log(w.log, w.tn, full_xid, image, w.ctx.interrupt);
}

// With a host's log the host makes it durable, with its own record of the transaction.
Status harden_prepared(Worker &w, Gsn gsn) {
  u64 host;
  if (w.log.log().has_host_log()) return w.log.write_out(gsn, w.ctx.interrupt, &host);
  if (w.log.wait_hardened(gsn, w.ctx.interrupt)) return kOk;
  return fail(LS_INTERRUPTED, "interrupted while a prepared transaction was hardened");
}

// The file is gone, or stays: then the next start removes it.
void remove_file(const TxnShared &t, u64 full_xid) {
  [[maybe_unused]] const Status ignored =
      with_memory([&] { return prepared_file_remove(t.prepared_dir, full_xid); });
}

// Its end is logged at `end`.  One that was undone may have to be undone once more, until that is
// hardened: so long its undo stays where a checkpoint finds it (PFILE-2), and its file.  The log
// that has stopped without a failure leaves the file to the next start.
void let_go_of_undo(Worker &w, PreparedSlot &slot, Gsn end, bool committed) {
  const bool for_good = committed || w.log.wait_hardened(end, nullptr);   // or the host says so
  bool has_file;
  {
    const std::lock_guard guard(w.txns->prepared_mutex);
    has_file = slot.in_log.exchange(0, std::memory_order_seq_cst) == 0;
  }
  if (for_good && has_file) remove_file(*w.txns, slot.full_xid);
}

// Rolls back for another transaction than the worker's own.
void undo_for(Worker &w, Tn tn, u32 next_seq) {
  LS_ASSERT(tn != 0 && tn != w.tn);
  const Tn own_tn = std::exchange(w.tn, tn);
  const u32 own_seq = std::exchange(w.next_seq, next_seq);
  const InsertRange own_inserts = std::exchange(w.inserts, InsertRange{});
  roll_back(w, 0);
  LS_ASSERT(w.tn == tn && w.next_seq >= next_seq);  // notes of ghosts
  w.tn = own_tn;
  w.next_seq = own_seq;
  w.inserts = own_inserts;
}

// Claimed by this worker.
void finish_claimed(Worker &w, PreparedSlot &slot, Tn tn, bool committed) {
  LS_ASSERT(is_in(slot, PreparedState::kFinishing));
  const u64 full_xid = slot.full_xid;
  end_sealed_files(*w.pool, tn, committed);   // SEAL-3
  LS_FAILPOINT(txn_after_seals);
  if (!committed) undo_for(w, tn, slot.next_seq);
  reserve_end(w.log);
  Gsn end;
  {
    const std::lock_guard guard(w.txns->prepared_mutex);
    LS_ASSERT(slot.tn.load(std::memory_order_relaxed) == tn);  // PREP-1
    end = log_two_phase_end(w.log, tn, full_xid, committed);
    slot.tn.store(0, std::memory_order_release);  // as in txn_leave
  }
  set_state(slot, PreparedState::kEnded);
  let_go_of_undo(w, slot, end, committed);
  free_slot(slot);
}

PreparedSlot *find_slot(TxnShared &t, Tn tn) {
  const u32 n = t.prepared_used.load(std::memory_order_acquire);
  for (u32 i = 0; i < n; i++) {
    if (t.prepared[i].tn.load(std::memory_order_acquire) == tn) return &t.prepared[i];
  }
  return nullptr;
}

}  // namespace

Gsn log_two_phase_end(LogAppender &log, Tn tn, u64 full_xid, bool committed) {
  log.start(RecordKind::kTwoPhaseEnd);
  log.number(tn);
  log.number(full_xid);
  log.number(committed);
  return log.finish();
}

Status txn_prepare(Worker &w, u64 full_xid, std::span<const ls_ending_file> ending) {
  if (w.tn == 0 || w.two_phase != nullptr || w.prepared_gsn != 0)
    return fail(LS_INVALID, "a transaction is prepared at the wrong moment");
  LS_TRY(close_range(w));
  log_begin(w);
  PreparedSlot *slot = reserve_slot(*w.txns);
  if (slot == nullptr)
    return fail(LS_MANY_PREPARED, "no room for another prepared transaction, there are %u",
                w.txns->prepared_slots);
  slot->full_xid = full_xid;
  // before the locks are collected
  slot->keep.store(txn_horizon(*w.txns), std::memory_order_seq_cst);
  w.two_phase = slot;
  LS_TRY(write_file(w, *slot, ending));
  LS_TRY(w.value_files.sync_first(w.log));
  LS_FAILPOINT(txn_before_prepared_record);
  LS_TRY(w.log.reserve(kTwoPhaseRoom, w.ctx.interrupt));
  Gsn gsn;
  log_two_phase(w.log, w.tn, full_xid, &gsn);
  LS_ASSERT(gsn >= w.txns->active[w.slot].first_gsn.load(std::memory_order_relaxed));
  note_highest_tn(w);
  w.two_phase_logged = true;
  return harden_prepared(w, gsn);
}

void txn_hand_over(Worker &w) {
  LS_CHECK(w.two_phase != nullptr && w.two_phase_logged,
           "a transaction is handed over that is not prepared");
  PreparedSlot &slot = *w.two_phase;
  LS_ASSERT(is_in(slot, PreparedState::kReserved));
  LS_ASSERT(w.inserts.count == 0);  // PREP-1
  slot.next_seq = w.next_seq;
  slot.tn.store(w.tn, std::memory_order_release);
  set_state(slot, PreparedState::kHeld);
  txn_leave(w);
}

void prepared_take_back(Worker &w) { unseal_files(*w.pool, w.tn); }

void prepared_give_up(Worker &w) {
  PreparedSlot &slot = *w.two_phase;
  LS_ASSERT(is_in(slot, PreparedState::kReserved));
  const u64 full_xid = slot.full_xid;
  Gsn end = 0;
  reserve_end(w.log);
  if (w.two_phase_logged) {
    end = log_two_phase_end(w.log, w.tn, full_xid, false);
  } else {
    w.log.start(RecordKind::kAborted);
    w.log.number(w.tn);
    w.log.finish();
    note_highest_tn(w);
  }
  txn_leave(w);
  let_go_of_undo(w, slot, end, false);
  free_slot(slot);
}

Status prepared_finish(Worker &w, Tn tn, bool committed) {
  if (tn == 0) return kOk;
  for (;;) {
    PreparedSlot *slot = find_slot(*w.txns, tn);
    if (slot == nullptr) return kOk;
    if (change_state(*slot, PreparedState::kHeld, PreparedState::kFinishing)) {
      if (slot->tn.load(std::memory_order_acquire) == tn) {
        finish_claimed(w, *slot, tn, committed);
        return kOk;
      }
      set_state(*slot, PreparedState::kHeld);  // another one's by now
      continue;
    }
    if (interrupt_pending(w.ctx.interrupt))
      return fail(LS_INTERRUPTED, "interrupted while a prepared transaction was being finished");
    futex_wait_interruptible(&slot->state, value(PreparedState::kFinishing), kInterruptPollUs);
  }
}

size_t prepared_tns(const TxnShared &t, Tn *out, size_t cap) {
  size_t found = 0;
  const u32 n = t.prepared_used.load(std::memory_order_acquire);
  for (u32 i = 0; i < n; i++) {
    const Tn tn = t.prepared[i].tn.load(std::memory_order_acquire);
    if (tn == 0) continue;
    if (found < cap) out[found] = tn;
    found++;
  }
  return found;
}

bool prepared_contains(const TxnShared &t, Tn tn) {
  const u32 n = t.prepared_used.load(std::memory_order_acquire);
  for (u32 i = 0; i < n; i++) {
    if (t.prepared[i].tn.load(std::memory_order_acquire) == tn) return tn != 0;
  }
  return false;
}

Tn prepared_keep(const TxnShared &t, Tn settled) {
  const u32 n = t.prepared_used.load(std::memory_order_acquire);
  for (u32 i = 0; i < n; i++) {
    const PreparedSlot &slot = t.prepared[i];
    for (const Tn bound :
         {slot.tn.load(std::memory_order_acquire), slot.keep.load(std::memory_order_seq_cst)}) {
      if (bound != 0 && bound < settled) settled = bound;
    }
  }
  return settled;
}

Status prepared_log_again(LogAppender &log, const volatile int *interrupt, TxnShared &t, u32 *n) {
  *n = 0;
  const u32 used = t.prepared_used.load(std::memory_order_acquire);
  for (u32 i = 0; i < used; i++) {
    LS_TRY(log.reserve(kTwoPhaseRoom, interrupt));
    const std::lock_guard guard(t.prepared_mutex);
    const Tn tn = t.prepared[i].tn.load(std::memory_order_acquire);
    if (tn == 0) continue;
    LS_ASSERT(!is_in(t.prepared[i], PreparedState::kEnded));  // PREP-1
    Gsn gsn;
    log_two_phase(log, tn, t.prepared[i].full_xid, &gsn);
    (*n)++;
  }
  return kOk;
}

namespace {

// Of a transaction that has no file; 0: there is none.
u64 copy_undo(TxnShared &t, const PreparedSlot &slot, std::vector<u8> *image) {
  const std::lock_guard guard(t.prepared_mutex);
  const u64 full_xid = slot.in_log.load(std::memory_order_relaxed);
  if (full_xid != 0) image->assign(slot.undo, slot.undo + slot.undo_bytes);
  return full_xid;
}

// False: the transaction has ended meanwhile.
bool note_file(TxnShared &t, PreparedSlot &slot, u64 full_xid) {
  const std::lock_guard guard(t.prepared_mutex);
  return slot.in_log.compare_exchange_strong(full_xid, 0);
}

}  // namespace

// A transaction that ends while its file is written leaves that to be removed here.
Status prepared_sync(TxnShared &t) {
  const std::lock_guard one(t.prepared_files_mutex);
  std::vector<u8> image;
  image.reserve(kMostLoggedUndo);   // so that none is needed under the mutex
  const u32 used = t.prepared_used.load(std::memory_order_acquire);
  for (u32 i = 0; i < used; i++) {
    const u64 full_xid = copy_undo(t, t.prepared[i], &image);
    if (full_xid == 0) continue;
    LS_TRY(prepared_image_write(t.prepared_dir, full_xid, image));
    if (!note_file(t, t.prepared[i], full_xid)) remove_file(t, full_xid);
  }
  return kOk;
}

Status prepared_restore(TxnShared &t, Tn tn, u64 full_xid, u32 next_seq) {
  PreparedSlot *slot = reserve_slot(t);
  if (slot == nullptr)
    return fail(LS_MANY_PREPARED,
                "there are more prepared transactions than the %u that the host allows now",
                t.prepared_slots);
  slot->full_xid = full_xid;
  slot->next_seq = next_seq;
  slot->keep.store(t.tn_base.load(std::memory_order_relaxed), std::memory_order_seq_cst);
  slot->tn.store(tn, std::memory_order_release);
  set_state(*slot, PreparedState::kHeld);
  return kOk;
}

}  // namespace ls
