// standby_follow.cpp - the steps from the files of the log to redo of each round.
#include "store/standby_follow.hpp"

#include <algorithm>
#include <memory>

#include "buffer/followed_pages.hpp"
#include "buffer/page_provider.hpp"
#include "recovery/open_versions.hpp"
#include "recovery/undo_list.hpp"
#include "store/kept_blocks.hpp"
#include "store/store_process.hpp"
#include "store/store_threads.hpp"
#include "store/version_trees.hpp"

namespace ls {

// The numbers of files that readers open come from here on: no log will ever get there.
constexpr FileNo kOwnFileNumbers = FileNo{1} << 40;

namespace {

Status read_control(const ls_store &store, ControlFile *control) {
  bool exists;
  LS_TRY(control_read(store.config.data_dir, control, &exists));
  if (!exists || !control->host_log || !store.config.host_log)
    return fail(LS_INVALID, "the store has no log of the host to be followed");
  return control_check_segments(*control, store.config.log_segment_bytes, LS_INVALID);
}

class Beginner {
 public:
  Beginner(ls_store &store, Lsn to)
      : store_(store), process_(store_process(store)), to_(to),
        directory_(store.config.data_dir) {}

  Status run() {
    LS_TRY(read_control(store_, &control_));
    LS_TRY(directory_make(store_.txns->prepared_dir));
    LS_TRY(version_trees_make(store_));
    LS_TRY(doublewrite_recover((directory_ + "/doublewrite").c_str()));
    process_.pool.shared()->store = control_.store;
    LogAnalysis analysis;
    LS_TRY(analyse(&analysis));
    LS_TRY(number_transactions(analysis));
    process_.pool.shared()->following.store(true, std::memory_order_seq_cst);
    UndoSpool undo(directory_ + "/undo");
    for (const auto &[tn, txn] : listed_.txns)
      if (txn.undo.bytes > 0) undo.adopt(tn, txn.undo);
    LS_TRY(redo(analysis, &undo));
    Ctx ctx = context();
    LS_TRY(version_trees_open(ctx, store_));
    LS_TRY(empty_trees_open(ctx, store_));
    process_.threads = std::make_unique<StoreThreads>(process_);
    LS_TRY(process_.threads->start_followers());
    Worker w(&process_.pool, process_.log, store_.txns, ctx.slot);
    w.ctx.interrupt = ctx.interrupt;
    LS_TRY(keep_open_versions(w, undo, analysis));   // FLW-4
    store_.followed_to.store(to_, std::memory_order_release);
    store_.followed_gsn.store(extent_.complete_gsn, std::memory_order_release);
    return kOk;
  }

 private:
  LogReader open_log() const {
    return LogReader((directory_ + "/wal").c_str(), control_.segment_bytes, control_.redo_lsn,
                     control_.redo_run, to_);
  }
  Ctx context() {
    Ctx ctx;
    ctx.pool = &process_.pool;
    ctx.slot = store_.config.worker_slots + kSlotRecovery;
    ctx.interrupt = &store_.recovery_cancelled;
    return ctx;
  }

  Status analyse(LogAnalysis *analysis) {
    if (control_.undo_gsn != 0) {
      LS_TRY(undo_list_read((directory_ + "/undo").c_str(), control_.undo_gsn, &listed_));
      analyse_list(listed_, analysis);
    }
    LogReader log = open_log();
    LS_TRY(analyse_log_to(log, to_, &store_.recovery_cancelled, analysis));
    extent_ = log.extent();
    return kOk;
  }

  Status number_transactions(const LogAnalysis &analysis) {
    TxnShared &txns = *store_.txns;
    bool exists;
    LS_TRY(txns.eras.read(store_.config.data_dir, &exists));
    u64 offset = control_.tn_offset;
    for (const TnEra &era : analysis.eras) {
      txns.eras.add(era.first, era.offset);
      offset = era.offset;
    }
    txns.tn_offset.store(offset, std::memory_order_relaxed);
    txns.tn_base.store(1, std::memory_order_relaxed);
    const Tn floor = control_.tn_floor;
    const Tn used = std::max(analysis.max_tn, floor - std::min(floor, Tn{1}));
    txns.highest_tn.store(used, std::memory_order_relaxed);
    txns.versions_from.store(used + 1, std::memory_order_relaxed);
    return kOk;
  }

  Status redo(const LogAnalysis &analysis, UndoSpool *undo) {
    const Gsn last = std::max({control_.gsn, extent_.max_gsn, extent_.complete_gsn});
    process_.log.open_to_read(to_, last);
    process_.pool.set_next_file_no(
        std::max({FileNo{1}, control_.next_file_no, analysis.max_file_no + 1}) + kOwnFileNumbers);
    Ctx ctx = context();
    LogReader log = open_log();
    RecoveryFiles files;
    RedoStats stats;
    return redo_log(ctx, log, analysis, &files, {control_.redo_gsn, false}, undo, &stats,
                    &store_.redone_bytes);
  }

  ls_store &store_;
  StoreProcess &process_;
  const Lsn to_;
  const std::string directory_;
  ControlFile control_{};
  UndoList listed_;
  LogExtent extent_;
};

void publish(ls_store &store, const LogFollower &follower) {
  const Gsn last = std::max(follower.max_gsn(), follower.redone());
  Log log = store_process(store).log;
  log.follow(follower.position(), std::max(last, log.last_gsn()));
  store.followed_gsn.store(follower.redone(), std::memory_order_release);
  store.followed_to.store(follower.position(), std::memory_order_release);
}

// FLW-7: what has been redone can be covered before the rest.
void note_limit(ls_store &store, const LogFollower &follower) {
  Log log = store_process(store).log;
  log.follow(log.end(), std::max(follower.redone(), log.last_gsn()));
}

// Its side of this process, anew: the files of the log have all that was replayed.
Status make_follower(ls_store &store, std::unique_ptr<FollowProcess> *made) {
  ControlFile control{};
  LS_TRY(read_control(store, &control));
  *made = std::make_unique<FollowProcess>(store_process(store).pool, store, control);
  const Lsn to = std::max(store.replayed_to.load(std::memory_order_relaxed),
                          store.followed_to.load(std::memory_order_relaxed));
  return (*made)->follower.resume(to, store.followed_gsn.load(std::memory_order_relaxed));
}

}  // namespace

Status follow_begin(ls_store &store, Lsn to) {
  ControlFile control{};
  LS_TRY(read_control(store, &control));
  if (to == 0 && control.clean) to = control.redo_lsn;
  if (to == 0) return fail(LS_NOT_READY, "nothing was replayed yet");
  u32 expected = static_cast<u32>(StoreState::kCreated);
  if (!store.state.compare_exchange_strong(expected, static_cast<u32>(StoreState::kRecovering),
                                           std::memory_order_acq_rel))
    return fail(LS_INVALID, "recovery was started already");
  LS_TRY(drop_kept_blocks(store));   // KEPT-1
  return Beginner(store, to).run();
}

Status follow_join(ls_store &store) {
  const std::lock_guard lock(store.follow_mutex);
  std::unique_ptr<FollowProcess> process;
  LS_TRY(make_follower(store, &process));
  LogFollower::Conflict none;
  Status status;
  do {
    process->follower.resolved(~Tn{0});   // there are no readers
    status = process->follower.apply(&none);   // asks about transactions
  } while (code(status) == LS_CONFLICT);
  if (code(status) == LS_LIMIT) {
    note_limit(store, process->follower);
    store.followed_gsn.store(process->follower.redone(), std::memory_order_release);
  }
  LS_TRY(status);
  publish(store, process->follower);
  store.state.store(static_cast<u32>(StoreState::kFollowing), std::memory_order_release);
  futex_wake_all(&store.state);
  return kOk;
}

void follow_note_replayed(ls_store &store, Lsn position) {
  if (position > store.replayed_to.load(std::memory_order_relaxed))
    store.replayed_to.store(position, std::memory_order_seq_cst);   // FLW-6
}

Status follow_round(ls_store &store, FollowRound *round) {
  const std::lock_guard lock(store.follow_mutex);
  if (store_state(store) != StoreState::kFollowing) return kOk;
  StoreProcess &process = store_process(store);
  const bool anew = !process.follow;
  if (anew) LS_TRY(make_follower(store, &process.follow));
  LogFollower &follower = process.follow->follower;
  if (!anew && !round->round.empty()) LS_TRY(follower.add_round(round->round));
  if (round->resolved != 0) follower.resolved(round->resolved);
  if (round->aborted) follower.aborted();
  const Status status = follower.apply(&round->conflict);
  if (code(status) == LS_LIMIT) note_limit(store, follower);
  if (ok(status)) publish(store, follower);
  round->reached = follower.redone();
  return status;
}

Status follow_forget_database(ls_store &store, u32 database) {
  Ctx ctx;
  ctx.pool = &store_process(store).pool;
  ctx.slot = store.config.worker_slots + kSlotRecovery;
  return ctx.pool->forget_database(ctx, database);
}

void follow_cover(ls_store &store, Gsn gsn) { store_process(store).log.cover(gsn); }

Status follow_end(ls_store &store) {
  StoreProcess &process = store_process(store);
  u32 expected = static_cast<u32>(StoreState::kFollowing);
  if (!process.threads ||
      !store.state.compare_exchange_strong(expected, static_cast<u32>(StoreState::kRecovering),
                                           std::memory_order_acq_rel))
    return fail(LS_INVALID, "following is ended by the process that has begun it");
  process.threads->stop_followers();
  process.follow.reset();
  end_following(process.pool);
  return kOk;
}

}  // namespace ls
