// store_start.cpp - from an arena just formatted to a store that takes workers.
//
// Order, and what a crash leaves:
//   redo     versions/ made empty; torn pages repaired; log read; pages redone.  All of it can be
//            repeated: the log and the control file are as they were, but for the run number and
//            xid_limit.
//   finish   fresh or clean start: control file says "not clean" before anything else is written.
//            A start that takes prepared transactions over announces their numbers there, too.
//            Losers undone, fates logged (a new run in the log, behind the old one), control file
//            without xid_limit: workers may come.  From the first checkpoint's control file on the
//            old runs are not read any more.  A crash before it repeats recovery over both runs.
#include "store/store_start.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "btree/tree.hpp"
#include "buffer/last_images.hpp"
#include "buffer/page_provider.hpp"
#include "os/clock.hpp"
#include "os/file.hpp"
#include "os/futex.hpp"
#include "recovery/checkpoint.hpp"
#include "recovery/host_sync_point.hpp"
#include "recovery/two_phase.hpp"
#include "store/file_closer.hpp"
#include "store/kept_blocks.hpp"
#include "store/standby_follow.hpp"
#include "store/store_process.hpp"
#include "store/store_threads.hpp"
#include "store/version_trees.hpp"
#include "txn/followed_txns.hpp"
#include "txn/prepared.hpp"
#include "wal/log_segments.hpp"

namespace ls {

namespace {

constexpr size_t kPathBytes = 640;
constexpr u32 kEraRoom = 64;   // of a record
void path_in(const ls_store &store, const char *name, char *path) {
  std::snprintf(path, kPathBytes, "%s/%s", store.config.data_dir, name);
}

// Redo is done, and readers are there (standby_follow.hpp).
bool was_followed(const ls_store &store) {
  return store.followed_to.load(std::memory_order_relaxed) != 0;
}

Status draw_store_id(StoreId *id) {
  static_assert(sizeof *id <= 256, "is never cut short nor interrupted");
  if (getrandom(id, sizeof *id, 0) == sizeof *id) return kOk;
  return fail_errno(errno, "", "could not get random bytes");
}

// Without a control file there must be no log either: else the control file alone was removed, and
// a fresh start would lose the data.
Status check_fresh(const ls_store &store) {
  char wal[kPathBytes];
  path_in(store, "wal", wal);
  std::set<u64> segments;
  LS_TRY(log_segments_present(wal, segments));
  if (segments.empty()) return kOk;
  // An earlier start may have created the first segment and crashed before the control file.
  LogReader log(wal, store.config.log_segment_bytes, 0, 0);
  const LogEntry *first;
  if (ok(log_begins(wal, store.config.log_segment_bytes, 0)) && ok(log.peek(&first)) && !first &&
      log.extent().run == 0)
    return kOk;
  return fail(LS_CORRUPT,
              "there is a log in \"%s\" but no control file beside it; restore both from a backup",
              wal);
}

class Redoer {
 public:
  explicit Redoer(ls_store &store)
      : store_(store),
        process_(store_process(store)),
        state_(*process_.recovery),
        followed_(was_followed(store)) {}

  Status run(u64 next_full_xid) {
    LS_TRY(followed_ ? prepare_undo() : prepare_files());
    LS_TRY(read(next_full_xid));
    ControlFile &control = state_.control;
    store_.run = std::max(control.run, state_.log.run) + 1;
    if (state_.replay_needed()) LS_TRY(announce_run());
    Gsn last_gsn = std::max(control.gsn, state_.log.max_gsn);
    LS_TRY(process_.log.open_for_append(state_.log.end, last_gsn, store_.run));
    if (store_.config.host_log && store_.config.page_images)
      process_.restore_states.set_floor(last_gsn);   // until the host has set one
    process_.pool.set_next_file_no(
        std::max({FileNo{1}, control.next_file_no, state_.analysis.max_file_no + 1}));
    state_.next_full_xid = next_full_xid;
    LS_TRY(redo());
    return sort_out();
  }

 private:
  Status prepare_files() {
    char path[kPathBytes];
    path_in(store_, "wal", path);
    LS_TRY(directory_make(path));
    LS_TRY(directory_make(store_.txns->prepared_dir));
    LS_TRY(prepare_undo());
    LS_TRY(version_trees_make(store_));
    path_in(store_, "doublewrite", path);
    return doublewrite_recover(path);
  }

  Status prepare_undo() {
    char path[kPathBytes];
    path_in(store_, "undo", path);
    LS_TRY(directory_make(path));
    state_.undo = std::make_unique<UndoSpool>(path);
    return kOk;
  }

  Status read(u64 next_full_xid) {
    ControlFile &control = state_.control;
    bool exists;
    LS_TRY(control_read(store_.config.data_dir, &control, &exists));
    state_.fresh = !exists;
    if (state_.fresh) {
      control = {};
      LS_TRY(draw_store_id(&control.store));
      process_.pool.shared()->store = control.store;
      return check_fresh(store_);
    }
    LS_TRY(take_id());
    if (!control.clean) LS_TRY(limit_xids(next_full_xid));
    LS_TRY(control_check_segments(control, store_.config.log_segment_bytes, LS_CORRUPT));
    LS_TRY(check_log());
    if (control.clean) {
      state_.log.end = control.redo_lsn;
      return kOk;
    }
    LS_TRY(read_list());
    const u64 began = now_us();
    LogReader log = open_log();
    LS_TRY(log_begins(wal_, control.segment_bytes, control.redo_lsn));
    LS_TRY(analyse_log(log, control.log_end, &state_.analysis));
    state_.log = log.extent();
    store_.report.analysis_us = now_us() - began;
    return log.make_durable();
  }

  // Readers that have stayed compare it with that of files.
  Status take_id() {
    StoreId &id = process_.pool.shared()->store;
    if (!followed_) id = state_.control.store;
    if (id == state_.control.store) return kOk;
    return fail(LS_CORRUPT, "the control file in \"%s\" is of another store",
                store_.config.data_dir);
  }

  // Which log: as it was, or another one where nothing of it is needed any more.
  Status check_log() {
    const bool host_log = store_.config.host_log;
    if (log_fits(state_.control, host_log)) return kOk;
    return fail(LS_INVALID, "the store was not shut down, and its log was %s then",
                host_log ? "its own" : "the host's");
  }

  Status read_list() {
    if (state_.control.undo_gsn == 0) return kOk;
    char path[kPathBytes];
    path_in(store_, "undo", path);
    LS_TRY(undo_list_read(path, state_.control.undo_gsn, &state_.long_transactions));
    analyse_list(state_.long_transactions, &state_.analysis);
    for (const auto &[tn, txn] : state_.long_transactions.txns) {
      if (txn.undo.bytes > 0) state_.undo->adopt(tn, txn.undo);
    }
    return kOk;
  }

  LogReader open_log() {
    path_in(store_, "wal", wal_);
    return LogReader(wal_, state_.control.segment_bytes, state_.control.redo_lsn,
                     state_.control.redo_run);
  }

  // Before the host hands out the ids in question again (ControlFile::xid_limit), as it does even
  // if recovery is refused.
  Status limit_xids(u64 next_full_xid) {
    ControlFile &control = state_.control;
    if (control.xid_limit != 0 && control.xid_limit <= next_full_xid) return kOk;
    control.xid_limit = next_full_xid;
    return control_write(store_.config.data_dir, control);
  }

  // Before anything is logged under a run number that a torn round may have used already.
  Status announce_run() {
    state_.control.run = store_.run;
    return control_write(store_.config.data_dir, state_.control);
  }

  Status redo() {
    LogAppender log(process_.log, store_.config.worker_slots + kSlotRecovery);
    Ctx ctx;
    ctx.pool = &process_.pool;
    ctx.log = &log;
    ctx.slot = store_.config.worker_slots + kSlotRecovery;
    ctx.interrupt = &store_.recovery_cancelled;
    RedoStats stats;
    const u64 began = now_us();
    if (state_.replay_needed())
      store_.log_bytes.store(state_.log.end - state_.control.redo_lsn, std::memory_order_relaxed);
    if (state_.replay_needed()) {
      LogReader again = open_log();
      // What was followed is on the pages: only undo is gathered.
      const RedoBounds bounds{.from = followed_ ? ~Gsn{0} : state_.control.redo_gsn,
                              .puts_off = true};
      LS_TRY(redo_log(ctx, again, state_.analysis, &state_.files, bounds, state_.undo.get(),
                      &stats, &store_.redone_bytes));
      if (again.extent().end != state_.log.end || again.extent().records != state_.log.records)
        return fail(LS_CORRUPT, "the log in \"%s\" was changed while it was read", wal_);
    }
    RecoveryReport &report = store_.report;
    report.clean = state_.control.clean;
    state_.clean_run = state_.control.clean && !followed_ ? state_.control.run : 0;
    report.fresh = state_.fresh;
    report.log_records = state_.log.records;
    report.ops_applied = stats.ops_applied;
    report.ops_skipped = stats.ops_skipped;
    report.ops_put_off = stats.ops_put_off;
    report.files_missing = stats.files_missing;
    report.redo_us = now_us() - began;
    return kOk;
  }

  Status sort_out() {
    for (auto &[tn, txn] : state_.analysis.txns) {
      bool unknown_to_host = txn.full_xid >= state_.control.xid_limit;
      if (txn.fate == TxnFate::kPrepared && !unknown_to_host) state_.doubts.push_back(txn);
      if (txn.fate == TxnFate::kRunning || (txn.fate == TxnFate::kPrepared && unknown_to_host))
        state_.losers.push_back(tn);
    }
    for (auto &[full_xid, tn] : state_.analysis.two_phase) {
      const bool unknown_to_host = full_xid >= state_.control.xid_limit;
      const auto txn = state_.analysis.txns.find(tn);
      if (txn == state_.analysis.txns.end() || txn->second.fate != TxnFate::kTwoPhase ||
          txn->second.full_xid != full_xid) {
        return fail(LS_CORRUPT, "the log ends prepared transaction %llu in another way",
                    static_cast<unsigned long long>(full_xid));
      }
      (unknown_to_host ? state_.undone : state_.doubts).push_back(txn->second);
    }
    store_.report.doubts = state_.doubts.size();
    return kOk;
  }

  ls_store &store_;
  StoreProcess &process_;
  RecoveryState &state_;
  const bool followed_;
  char wal_[kPathBytes];
};

class Finisher {
 public:
  explicit Finisher(ls_store &store)
      : store_(store),
        process_(store_process(store)),
        state_(*process_.recovery),
        w_(&process_.pool, process_.log, store.txns, store.config.worker_slots + kSlotRecovery),
        followed_(was_followed(store)) {}

  Status run(const ls_in_doubt *doubts, size_t n_doubts) {
    std::vector<Tn> committed;
    LS_TRY(decide(doubts, n_doubts, &committed));
    LS_TRY(read_prepared());
    LS_TRY(number_transactions());
    LS_TRY(announce_numbers());
    if (!followed_) process_.threads = std::make_unique<StoreThreads>(process_);
    w_.ctx.interrupt = &store_.recovery_cancelled;
    LS_TRY(followed_ ? process_.threads->start_committer() : process_.threads->start_writers());
    if (store_.config.host_log) LS_TRY(log_era());
    // Readers have opened files under numbers that no log has yet.
    if (followed_) LS_TRY(process_.pool.log_files(w_.ctx));
    if (!followed_) LS_TRY(version_trees_open(w_.ctx, store_));
    if (state_.clean_run != 0) take_kept_blocks(w_, store_, state_.clean_run);
    LS_TRY(drop_kept_blocks(store_));
    store_.txns->keeps_versions = followed_;
    LS_TRY(process_.threads->start_closer());
    UndoStats stats;
    const u64 began = now_us();
    {
      const DropLastImages no_checkpoint_until_then(process_.pool);
      LS_TRY(undo_losers(w_, slots_for_undo(), *state_.undo, state_.analysis, state_.losers,
                         &stats));
    }
    for (Tn tn : committed) LS_TRY(log_fate(w_, RecordKind::kCommit, tn));
    LS_TRY(settle_two_phase());
    if (followed_) FollowedTxns(*store_.txns).clear();
    store_.txns->keeps_versions = false;
    store_.report.losers = stats.losers + undo_.size();
    store_.report.undo_records = stats.records;
    store_.report.undo_us = now_us() - began;
    const bool replayed = state_.replay_needed();
    store_.redo_lsn.store(replayed ? state_.control.redo_lsn : state_.log.end,
                          std::memory_order_relaxed);
    store_.redo_run = replayed ? state_.control.redo_run : store_.run;
    store_.undo_gsn = replayed ? state_.control.undo_gsn : 0;
    const Gsn redo_gsn = replayed ? state_.control.redo_gsn : 0;
    LS_TRY(checkpoint_recovered(w_.ctx, checkpoint_env(store_), redo_gsn));
    if (store_.config.host_sync_points) LS_TRY(store_begin_sync_points(store_));
    else LS_TRY(host_sync_point_remove(store_.config.data_dir));
    return process_.threads->start_keepers();
  }

 private:
  // Every doubt must be answered.
  Status decide(const ls_in_doubt *doubts, size_t n_doubts, std::vector<Tn> *committed) {
    for (const LoggedTxn &txn : state_.doubts) {
      const ls_in_doubt *answer = std::find_if(
          doubts, doubts + n_doubts, [&](const ls_in_doubt &d) { return d.tn == txn.tn; });
      if (answer == doubts + n_doubts)
        return fail(LS_INVALID, "transaction %llu is in doubt and was not decided",
                    static_cast<unsigned long long>(txn.tn));
      if (answer->prepared && txn.fate != TxnFate::kTwoPhase)
        return fail(LS_INVALID, "transaction %llu has no second phase",
                    static_cast<unsigned long long>(txn.tn));
      if (txn.fate == TxnFate::kTwoPhase) {
        list_of(*answer).push_back(txn);
      } else {
        (answer->committed ? *committed : state_.losers).push_back(txn.tn);
      }
    }
    return kOk;
  }

  // Two-phase.  Readers that have stayed know the numbers of one that has been committed.
  std::vector<LoggedTxn> &list_of(const ls_in_doubt &answer) {
    if (!answer.committed) return answer.prepared ? prepared_ : state_.undone;
    return answer.prepared && !followed_ ? may_end_ : ended_;
  }

  // Of those that have to be undone, and of those that stay.
  Status read_prepared() {
    for (const LoggedTxn &txn : state_.undone) LS_TRY(read_file(txn, &undo_.emplace_back()));
    for (const LoggedTxn &txn : prepared_) LS_TRY(read_file(txn, &keep_.emplace_back()));
    for (const LoggedTxn &txn : may_end_) {   // TWOPH-5
      PreparedFile file;
      const Status status =
          find_prepared(store_.txns->prepared_dir, state_.analysis, txn, &file);
      if (code(status) == LS_NOT_FOUND) {
        ended_.push_back(txn);
        continue;
      }
      LS_TRY(status);
      keep_.push_back(std::move(file));
    }
    store_.report.prepared = keep_.size();
    return kOk;
  }

  Status read_file(const LoggedTxn &txn, PreparedFile *file) const {
    return ls::read_prepared(store_.txns->prepared_dir, state_.analysis, txn, file);
  }

  // TN = full xid + offset; those of transactions that begin now are above all that were ever used.
  // If the host has lost transaction ids, and with a log of its own it has not, the offset takes a
  // step, and prepared transactions get numbers of this start, too (TWOPH-1).
  Status number_transactions() {
    TxnShared &txns = *store_.txns;
    const u64 next_xid = state_.next_full_xid;
    u64 first_xid = next_xid;
    Tn floor = std::max(state_.control.tn_floor, state_.analysis.max_tn + 1);
    for (const PreparedFile &file : keep_) {
      first_xid = std::min(first_xid, file.full_xid);
      for (Tn tn : file.tns) floor = std::max(floor, tn + 1);
    }
    const u64 known = followed_ ? txns.tn_offset.load(std::memory_order_relaxed)
                                : state_.control.tn_offset;
    const u64 offset = next_xid + known < floor ? floor - first_xid : known;
    const Tn base = first_xid + offset;
    first_new_ = next_xid + offset;
    if (base > kMaxTn - (next_xid - first_xid))
      return fail(LS_CORRUPT, "the transaction numbers found in \"%s\" are impossible",
                  store_.config.data_dir);
    txns.tn_offset.store(offset, std::memory_order_relaxed);
    if (!followed_) {
      txns.tn_base.store(base, std::memory_order_relaxed);
      txns.horizon.store(base, std::memory_order_relaxed);
      txns.versions_from.store(first_new_, std::memory_order_relaxed);
    }
    // Those of prepared transactions are in use, and the next start's must be larger.
    txns.highest_tn.store(first_new_ - 1, std::memory_order_relaxed);
    return note_era(offset == known ? first_new_ : base, offset);
  }

  Status note_era(Tn base, u64 offset) {
    TnEras &eras = store_.txns->eras;
    if (followed_) {   // those of the log are there, and readers ask (ERA-5)
      eras.add(base, offset);
      return eras.write(store_.config.data_dir);
    }
    bool exists;
    LS_TRY(eras.read(store_.config.data_dir, &exists));
    if (!exists && !state_.fresh)
      return fail(LS_CORRUPT, "there is no file \"tn_eras\" in \"%s\"; "
                  "restore it from a backup of the whole cluster", store_.config.data_dir);
    bool added = false;
    for (const TnEra &era : state_.analysis.eras)
      added |= eras.add(era.first, era.offset);   // ERA-4
    // Before the first one there was nothing.
    added |= eras.add(exists ? base : 0, offset);
    return added ? eras.write(store_.config.data_dir) : kOk;
  }

  // ERA-4.  Before anything that has a number of this start.
  Status log_era() {
    LS_TRY(w_.log.reserve(kEraRoom, w_.ctx.interrupt));
    w_.log.start(RecordKind::kEra);
    w_.log.number(first_new_);
    w_.log.number(store_.txns->tn_offset.load(std::memory_order_relaxed));
    w_.log.finish();
    return kOk;
  }

  // Readers that have stayed have theirs, and no other worker comes before undo has ended.
  std::vector<u32> slots_for_undo() const {
    std::vector<u32> slots;
    for (u32 i = 0; i < store_.config.worker_slots; i++)
      if (!store_slot_attached(store_, i)) slots.push_back(i);
    if (slots.empty()) slots.push_back(store_.config.worker_slots + kSlotValues);
    return slots;
  }

  // Files go when the log says for good that no recovery needs them.
  Status settle_two_phase() {
    for (size_t i = 0; i < undo_.size(); i++) {
      LS_TRY(TwoPhaseRecovery(w_, undo_[i]).undo());
      LS_TRY(log_end_of(state_.undone[i], false));
    }
    for (const LoggedTxn &txn : ended_) LS_TRY(log_end_of(txn, true));
    std::vector<u64> kept;
    for (PreparedFile &file : keep_) {
      const Tn tn = file.full_xid + store_.txns->tn_offset.load(std::memory_order_relaxed);
      LS_TRY(TwoPhaseRecovery(w_, file).take_over(tn));
      LS_TRY(seal_and_close_files(w_, tn, file.ending));
      kept.push_back(file.full_xid);
    }
    if (!process_.log.wait_hardened(process_.log.last_gsn(), w_.ctx.interrupt))
      return fail(LS_INTERRUPTED, "interrupted while prepared transactions were settled");
    return prepared_files_clean(store_.txns->prepared_dir, kept);
  }

  Status log_end_of(const LoggedTxn &txn, bool committed) {
    LS_TRY(w_.log.reserve(kTwoPhaseRoom, w_.ctx.interrupt));
    log_two_phase_end(w_.log, txn.tn, txn.full_xid, committed);
    return kOk;
  }

  // TWOPH-4.  A start that finds nothing to replay leaves the clean state with it.
  Status announce_numbers() {
    ControlFile &control = state_.control;
    if (state_.replay_needed() && keep_.empty()) return kOk;
    control.tn_floor = store_.txns->highest_tn.load(std::memory_order_relaxed) + 1;
    control.tn_offset = store_.txns->tn_offset.load(std::memory_order_relaxed);
    if (!state_.replay_needed()) {
      control.clean = 0;
      control.host_log = store_.config.host_log;
      control.run = store_.run;
      control.segment_bytes = store_.config.log_segment_bytes;
      control.redo_lsn = state_.log.end;
      control.redo_run = store_.run;
      control.next_file_no = process_.pool.next_file_no();
    }
    return control_write(store_.config.data_dir, control);
  }

  ls_store &store_;
  StoreProcess &process_;
  RecoveryState &state_;
  Worker w_;
  const bool followed_;   // readers are there, with snapshots of their own
  Tn first_new_ = 0;      // of a transaction that begins now
  std::vector<LoggedTxn> prepared_, ended_;   // two-phase: still prepared; committed
  std::vector<LoggedTxn> may_end_;            // one or the other (TWOPH-5)
  std::vector<PreparedFile> undo_, keep_;     // of state_.undone; of those that stay
};

// The host wants to end.  Nothing is lost: the next start begins again.
void give_up(ls_store &store, StoreProcess &process) {
  const ls_error error = last_error();
  process.recovery.reset();
  process.log.close_for_append();
  set_last_error(error);
  store.state.store(static_cast<u32>(StoreState::kStopped), std::memory_order_release);
  futex_wake_all(&store.state);
}

Status begin_recovering(ls_store &store) {
  u32 expected = static_cast<u32>(StoreState::kCreated);
  if (store.state.compare_exchange_strong(expected, static_cast<u32>(StoreState::kRecovering),
                                          std::memory_order_acq_rel))
    return kOk;
  return fail(LS_INVALID, "recovery was started already");
}

}  // namespace

Status store_recovery_redo(ls_store &store, u64 next_full_xid, ls_in_doubt **doubts,
                           size_t *n_doubts) {
  *doubts = nullptr;
  *n_doubts = 0;
  StoreProcess &process = store_process(store);
  LS_TRY(was_followed(store) ? follow_end(store) : begin_recovering(store));
  process.recovery = std::make_unique<RecoveryState>();
  const Status status = Redoer(store).run(next_full_xid);
  if (code(status) == LS_INTERRUPTED) give_up(store, process);
  LS_TRY(status);
  const std::vector<LoggedTxn> &found = process.recovery->doubts;
  if (found.empty()) return kOk;
  *doubts = static_cast<ls_in_doubt *>(std::calloc(found.size(), sizeof **doubts));
  if (!*doubts) return fail(LS_NO_MEMORY, "no memory for %zu transactions in doubt", found.size());
  for (const LoggedTxn &txn : found)
    (*doubts)[(*n_doubts)++] = {txn.tn, txn.full_xid, txn.fate == TxnFate::kTwoPhase, false, false};
  return kOk;
}

Status store_recovery_finish(ls_store &store, const ls_in_doubt *doubts, size_t n_doubts) {
  StoreProcess &process = store_process(store);
  if (store_state(store) != StoreState::kRecovering || !process.recovery)
    return fail(LS_INVALID, "recovery is finished by the process that has started it");
  const Status status = with_memory([&] { return Finisher(store).run(doubts, n_doubts); });
  process.recovery.reset();
  if (!ok(status)) {
    // A thread that failed is the cause; what this one met is the consequence.
    ls_error error = last_error();
    (void)store_failed(store, &error);
    process.threads.reset();
    set_last_error(error);
    if (error.status == LS_INTERRUPTED) give_up(store, process);
    return make_status(error.status);
  }
  store.state.store(static_cast<u32>(StoreState::kReady), std::memory_order_release);
  futex_wake_all(&store.state);
  return kOk;
}

}  // namespace ls
