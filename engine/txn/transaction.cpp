// transaction.cpp - begin, commit in its two forms, abort.  The state table is in worker.hpp.
#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.hpp"
#include "txn/prepared.hpp"
#include "txn/rollback.hpp"
#include "txn/worker.hpp"

namespace ls {

namespace {

constexpr u32 kEndRecordBytes = 64;    // kCommit without its note, kPrepared, kAborted

// What the transaction writes from here on shares no undo entry with what it has written.
void part_undo(Worker &w) {
  w.inserts.closed = true;
  w.locks = LockBlock{};
  w.deletes = DeleteRun{};
}

template <class T>
void raise_to(std::atomic<T> &word, T value) {
  T seen = word.load(std::memory_order_relaxed);
  while (seen < value && !word.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

// A transaction's end can not be refused: without an interrupt flag a reservation waits for space
// on the log's disk, and all else that can go wrong with the log is for good.
Gsn append_end(Worker &w, RecordKind kind, Tn tn, Bytes note = {}) {
  LS_CHECK(ok(w.log.reserve(kEndRecordBytes + static_cast<u32>(note.size()), nullptr)),
           last_error().message);
  w.log.start(kind);
  w.log.number(tn);
  w.log.raw(note);
  return w.log.finish();
}

u32 slots_in_use(const TxnShared &t) {
  const u32 highest = t.highest_used.load(std::memory_order_acquire);
  return highest < t.slots ? highest + 1 : t.slots;
}

bool active_contains(const void *arg, Tn tn) {
  return tn_is_active(*static_cast<const TxnShared *>(arg), tn);
}

}  // namespace

Worker::Worker(BufferPool *pool_, Log log_, TxnShared *txns_, u32 slot_)
    : pool(pool_), log(log_, slot_), txns(txns_), slot(slot_) {
  ctx.pool = pool;
  ctx.log = &log;
  log.report_waits(&ctx.waits);
  ctx.slot = slot;
  ctx.random ^= (u64{slot} + 1) * 0xbf58476d1ce4e5b9;
  LS_ASSERT(slot < txns->slots);
}

// The transaction is over: others may take its changes as they are (pairs with the acquire in
// tn_is_active).
void txn_leave(Worker &w) {
  TxnShared::Active &active = w.txns->active[w.slot];
  LS_ASSERT(w.tn != 0 && active.tn.load(std::memory_order_relaxed) == w.tn);
  LS_ASSERT(w.has_log == (active.first_gsn.load(std::memory_order_relaxed) != 0));
  active.tn.store(0, std::memory_order_release);
  active.first_gsn.store(0, std::memory_order_release);
  w.tn = 0;
  w.next_seq = 1;
  w.has_log = w.named = false;
  w.wrote_unlogged = false;
  w.part = 0;
  w.prepared_gsn = 0;
  w.two_phase = nullptr;
  w.two_phase_logged = false;
  w.inserts = InsertRange{};
  w.locks = LockBlock{};
  w.deletes = DeleteRun{};
  w.value_files.clear();
  if (w.dependencies) w.dependencies->forget();
}

void txn_count_dependencies(Worker &w, bool count) {
  w.dependencies = count ? std::make_unique<Dependencies>(w.log.log()) : nullptr;
  w.ctx.dependencies = w.dependencies.get();
  w.log.report_draws(w.dependencies.get());
}

// A worker that waits for its commits begins nothing before the last one is durable: only the last
// one of each slot may not be.
void use_row_of(Worker &w, Tn tn) {
  if (!w.dependencies || tn == w.tn || tn < w.txns->tn_base.load(std::memory_order_relaxed)) return;
  const u32 n = slots_in_use(*w.txns);
  for (u32 i = 0; i < n; i++) {
    TxnShared::Active &active = w.txns->active[i];
    if (i != w.slot && active.last_tn.load(std::memory_order_acquire) == tn) {
      w.dependencies->use_row(active.last_commit.load(std::memory_order_relaxed));
    }
  }
}

Status txn_begin(Worker &w, Tn tn) {
  if (w.tn == tn && tn != 0) return kOk;
  if (w.tn != 0) return fail(LS_INVALID, "a transaction is open already");
  if (w.pool->shared()->following.load(std::memory_order_relaxed))
    return fail(LS_INVALID, "nothing can be changed in a store that follows another one");
  if (tn < w.txns->tn_base.load(std::memory_order_relaxed) || tn == 0) {
    return fail(LS_INVALID, "transaction number %llu is out of range",
                static_cast<unsigned long long>(tn));
  }
  if (tn >= kTnEnd) return fail(LS_NO_TNS, "transaction numbers are used up");
  std::atomic<Tn> &active = w.txns->active[w.slot].tn;
  LS_CHECK(active.load(std::memory_order_relaxed) == 0, "a worker's slot is taken already");
  LS_ASSERT(w.next_seq == 1 && w.inserts.seq == 0 && !w.has_log);  // TXN-2
  raise_to(w.txns->highest_used, w.slot);
  active.store(tn, std::memory_order_release);
  w.tn = tn;
  return kOk;
}

u32 txn_savepoint(Worker &w) {
  LS_ASSERT(w.inserts.seq < w.next_seq);
  part_undo(w);
  return w.next_seq;
}

void txn_set_part(Worker &w, u32 part) {
  if (part == w.part) return;
  part_undo(w);
  w.part = part;
}

Status change_part(Worker &w, Tn tn, u32 seq, u32 *part) {
  alignas(8) u8 bytes[kPageSize];
  const VersionEntry *entry = nullptr;
  LS_TRY(version_store(w, tn).get({tn, seq}, bytes, &entry));
  *part = entry->part();
  return kOk;
}

void log_begin(Worker &w) {
  LS_ASSERT(w.tn != 0);
  if (w.has_log) return;
  // A lower bound of the first record's GSN, published before it is drawn: a checkpoint that does
  // not see it has read the counter before, so it does not truncate what follows.
  w.txns->active[w.slot].first_gsn.store(w.log.log().last_gsn() + 1, std::memory_order_seq_cst);
  w.has_log = true;
}

Status draw_seq(Worker &w, u32 *seq) {
  LS_ASSERT(w.tn != 0);
  if (w.next_seq == ~u32{0}) return fail(LS_MANY_CHANGES, "too many changes in one transaction");
  *seq = w.next_seq++;
  return kOk;
}

u32 draw_run(Worker &w) {
  constexpr u32 kMost = u32{1} << 31;   // half of all
  LS_ASSERT(w.tn != 0);
  if (w.next_seq > kMost) return 0;
  const u32 first = (w.next_seq + kVersionRun - 1) / kVersionRun * kVersionRun;
  w.next_seq = first + kVersionRun;
  return first;
}

Status txn_reserve_commit(Worker &w) {
  if (!w.has_log) return kOk;
  LS_ASSERT(w.tn != 0);
  LS_TRY(w.value_files.sync_first(w.log));
  w.log.set_urgent(true);   // on a full disk it waits for space
  const Status status = w.log.reserve(kEndRecordBytes + LS_COMMIT_NOTE_BYTES, w.ctx.interrupt);
  w.log.set_urgent(false);
  return status;
}

// Once: a wait for what it logs may be interrupted, and go on.
static Status append_prepared(Worker &w, u64 full_xid, Gsn *gsn) {
  LS_ASSERT(w.tn != 0);
  *gsn = w.prepared_gsn;
  if (*gsn != 0) return kOk;
  LS_TRY(w.value_files.sync_first(w.log));
  LS_TRY(w.log.reserve(kEndRecordBytes, w.ctx.interrupt));
  w.log.start(RecordKind::kPrepared);
  w.log.number(w.tn);
  w.log.number(full_xid);
  *gsn = w.prepared_gsn = w.log.finish();
  return kOk;
}

Status txn_write_out(Worker &w, u64 full_xid, u64 *host) {
  *host = 0;
  if (w.has_log) {
    Gsn gsn;
    LS_TRY(append_prepared(w, full_xid, &gsn));
    return w.log.write_out(gsn, w.ctx.interrupt, host);
  }
  // What no transaction takes back, as the pages of an index that was built, is there in the host's
  // log before the host's commit names it.  What another worker has logged belongs to a commit of
  // its own, or is for no commit to rely on.
  const Gsn gsn = w.log.appended();
  u64 end;
  return gsn <= w.log.log().hardened() ? kOk : w.log.write_out(gsn, w.ctx.interrupt, &end);
}

Status write_out_all(Worker &w) {
  const Log log = w.log.log();
  const Gsn gsn = log.last_gsn();
  u64 end;
  if (!log.has_host_log() || gsn <= log.hardened()) return kOk;
  return w.log.write_out(gsn, w.ctx.interrupt, &end);
}

Status txn_prepare_commit(Worker &w, u64 full_xid) {
  Gsn gsn;
  if (w.has_log) {
    LS_TRY(append_prepared(w, full_xid, &gsn));
  } else {
    // The host's commit must not outlive what it has seen here.
    gsn = w.log.log().last_gsn();
  }
  if (!w.log.wait_hardened(gsn, w.ctx.interrupt)) {
    return fail(LS_INTERRUPTED, "interrupted while a prepared transaction was hardened");
  }
  return kOk;
}

void note_highest_tn(Worker &w) { raise_to(w.txns->highest_tn, w.tn); }

// A backend that sees what it wrote waits until it has left (the host's snapshots do), so all that
// depends on it lies behind its record.
Gsn txn_commit(Worker &w, Bytes note, bool awaited) {
  if (w.tn == 0) return 0;
  LS_CHECK(note.size() <= LS_COMMIT_NOTE_BYTES, "the note of a commit is too long");
  LS_ASSERT(w.two_phase == nullptr);
  Gsn gsn = 0;
  if (w.has_log) {
    gsn = append_end(w, RecordKind::kCommit, w.tn, note);
    note_highest_tn(w);
    if (awaited) w.txns->commits.raise(w.tn, gsn);
    TxnShared::Active &active = w.txns->active[w.slot];
    LS_ASSERT(gsn >= active.first_gsn.load(std::memory_order_relaxed));
    LS_ASSERT(gsn > active.last_commit.load(std::memory_order_relaxed));
    active.last_commit.store(gsn, std::memory_order_relaxed);
    active.last_tn.store(w.tn, std::memory_order_release);   // pairs with use_row_of
    if (w.dependencies) w.dependencies->count_commit();
  }
  txn_leave(w);
  return gsn;
}

void show_recent(Worker &w, const ls_snapshot &snapshot, Tn tn) {
  w.shown.start_at(w.txns->tn_base.load(std::memory_order_relaxed));
  if (tn < w.shown.hardened_below() || tn == w.tn || tn == snapshot.own_tn) return;
  // pairs with raise() (SH1)
  const Gsn mark = w.txns->commits.of(tn).load(std::memory_order_acquire);
  const Gsn hardened = w.log.log().hardened();
  if (mark > hardened) w.shown.commit_at(mark);
  if (snapshot.kind == LS_SNAPSHOT_MVCC) w.shown.note_ended(snapshot.xmin, hardened, w.log.log());
}

void txn_rollback_to(Worker &w, u32 savepoint) {
  if (w.tn != 0) roll_back(w, savepoint);
}

void txn_abort(Worker &w) {
  if (w.tn == 0) return;
  if (w.two_phase != nullptr) prepared_take_back(w);
  roll_back(w, 0);
  LS_ASSERT(w.inserts.count == 0);
  if (w.two_phase != nullptr) {
    prepared_give_up(w);
    return;
  }
  if (w.has_log) {
    append_end(w, RecordKind::kAborted, w.tn);
    note_highest_tn(w);
  }
  txn_leave(w);
}

// In a store that follows another one.
template <typename Each>
static void each_followed(const TxnShared &t, Each &&each) {
  const u32 n = t.followed_used.load(std::memory_order_acquire);
  for (u32 i = 0; i < n; i++) {
    if (const Tn tn = t.followed[i].load(std::memory_order_acquire); tn != 0) each(tn);
  }
}

static bool is_followed_txn(const TxnShared &t, Tn tn) {
  bool found = false;
  each_followed(t, [&](Tn other) { found |= other == tn; });
  return found;
}

bool tn_is_active(const TxnShared &t, Tn tn) {
  if (tn < t.tn_base.load(std::memory_order_relaxed)) return false;
  const u32 n = slots_in_use(t);
  for (u32 i = 0; i < n; i++) {
    if (t.active[i].tn.load(std::memory_order_acquire) == tn) return tn != 0;
  }
  if (is_followed_txn(t, tn)) return true;
  return prepared_contains(t, tn);  // last: a transaction moves from there to here
}

size_t active_tns(const TxnShared &t, Tn *out, size_t cap) {
  size_t found = 0;
  const u32 n = slots_in_use(t);
  for (u32 i = 0; i < n; i++) {
    const Tn tn = t.active[i].tn.load(std::memory_order_acquire);
    if (tn == 0) continue;
    if (found < cap) out[found] = tn;
    found++;
  }
  each_followed(t, [&](Tn tn) {
    if (found < cap) out[found] = tn;
    found++;
  });
  return found +
         prepared_tns(t, found < cap ? out + found : nullptr, found < cap ? cap - found : 0);
}

void active_logged(const TxnShared &t, std::vector<ActiveTxn> *out) {
  const u32 n = slots_in_use(t);
  for (u32 i = 0; i < n; i++) {
    const TxnShared::Active &active = t.active[i];
    // A transaction's two words, not one's and the next one's: first_gsn is 0 in between.
    for (Gsn gsn = active.first_gsn.load(std::memory_order_seq_cst); gsn != 0;) {
      const Tn tn = active.tn.load(std::memory_order_acquire);
      const Gsn again = active.first_gsn.load(std::memory_order_seq_cst);
      if (again == gsn) out->push_back({i, tn, gsn});
      if (again == gsn) break;
      gsn = again;
    }
  }
}

Tn txn_horizon(const TxnShared &t) {
  const Tn horizon = t.horizon.load(std::memory_order_acquire);
  const Tn base = t.tn_base.load(std::memory_order_relaxed);
  return horizon > base ? horizon : base;
}

Tn settled_below(const TxnShared &t) {
  // The horizon first: what is below it has begun before, so the scan finds it unless it has ended.
  Tn settled = txn_horizon(t);
  const u32 n = slots_in_use(t);
  for (u32 i = 0; i < n; i++) {
    const Tn tn = t.active[i].tn.load(std::memory_order_acquire);
    if (tn != 0 && tn < settled) settled = tn;
  }
  each_followed(t, [&](Tn tn) { settled = std::min(settled, tn); });
  return prepared_keep(t, settled);
}

VersionStore version_store(Worker &w, Tn tn) {
  LS_ASSERT(std::has_single_bit(w.txns->version_trees));
  const u32 tree = static_cast<u32>(tn) & (w.txns->version_trees - 1);
  return VersionStore(w.ctx, w.pool->file(w.txns->version_file[tree]), w.txns->version_leaves);
}

Viewer viewer_of(const Worker &w, const ls_snapshot &snapshot) {
  const Tn base = w.txns->tn_base.load(std::memory_order_relaxed);
  const bool mvcc = snapshot.kind == LS_SNAPSHOT_MVCC;  // asks its own xmin
  return Viewer{&snapshot, base, mvcc ? base : settled_below(*w.txns),
                ActiveSet{w.txns, active_contains}};
}

}  // namespace ls
