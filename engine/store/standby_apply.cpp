// standby_apply.cpp - analysis and redo of a part of the log, or none where the store follows; all
// of it written at the end.
#include "store/standby_apply.hpp"

#include <set>

#include "buffer/page_provider.hpp"
#include "recovery/redo.hpp"
#include "recovery/restore_state.hpp"
#include "recovery/undo_collector.hpp"
#include "store/standby_follow.hpp"
#include "store/store_process.hpp"
#include "wal/log_segments.hpp"
#include "wal/relay_files.hpp"

namespace ls {

namespace {

class Applier {
 public:
  Applier(ls_store &store, const RestoreState &state, Lsn to, const volatile int *stop)
      : store_(store),
        process_(store_process(store)),
        directory_(store.config.data_dir),
        wal_(directory_ + "/wal"),
        undo_(directory_ + "/undo"),
        state_(state),
        to_(to),
        stop_(stop) {}

  // followed: the store's pages have all before `to`, and are only written.
  Status run(bool followed, u64 *log_bytes) {
    bool exists;
    LS_TRY(control_read(store_.config.data_dir, &control_, &exists));
    if (!exists || control_.clean || !control_.host_log)
      return fail(LS_INVALID, "the store has no log of the host to be redone");
    LS_TRY(control_check_segments(control_, store_.config.log_segment_bytes, LS_INVALID));
    if (followed) LS_TRY(write_followed());
    // As old as the last one, it may have another list of transactions.
    const Lsn least = control_.redo_lsn + (followed ? 0 : 1);
    const bool newer = state_.control.redo_lsn >= least && state_.control.run >= control_.run &&
                       state_.control.redo_lsn <= to_;
    if (!newer) return kOk;
    if (control_.undo_gsn != 0)
      LS_TRY(undo_list_read(undo_.c_str(), control_.undo_gsn, &before_));
    if (!followed) LS_TRY(redo_all());
    UndoList list;
    LS_TRY(gather_undo(&list));
    const std::lock_guard lock(store_.follow_mutex);   // a follower is not reading the log there
    LS_TRY(restore_state_write(store_.config.data_dir,   // APPLY-2
                               {state_.control, {}, state_.eras, state_.log_end, {}}));
    LS_TRY(directory_sync(store_.config.data_dir));
    *log_bytes = to_ - control_.redo_lsn;
    LS_TRY(undo_files_clean(undo_.c_str(), list));
    return remove_log();
  }

 private:
  LogReader open_log() const {
    return LogReader(wal_.c_str(), control_.segment_bytes, control_.redo_lsn, control_.redo_run,
                     to_);
  }

  Status redo_all() {
    LS_TRY(doublewrite_recover((directory_ + "/doublewrite").c_str()));
    process_.pool.shared()->store = control_.store;
    LogAnalysis analysis;
    LS_TRY(analyse(&analysis));
    return redo(analysis);
  }

  // APPLY-4
  Status write_followed() const {
    if (store_.followed_to.load(std::memory_order_acquire) < to_)
      return fail(LS_NOT_READY, "the log has not been redone up to the state");
    RelayFiles relay(wal_.c_str(), control_.segment_bytes);
    LS_TRY(relay.sync(state_.control.redo_lsn, to_));
    return follow_flush(store_, stop_);
  }

  Status analyse(LogAnalysis *analysis) {
    if (control_.undo_gsn != 0) analyse_list(before_, analysis);
    LS_TRY(log_begins(wal_.c_str(), control_.segment_bytes, control_.redo_lsn));
    LogReader log = open_log();
    LS_TRY(analyse_log_to(log, to_, stop_, analysis));
    extent_ = log.extent();
    // Nothing is going to be undone now.
    analysis->txns.clear();
    return log.make_durable();
  }

  Status redo(const LogAnalysis &analysis) {
    process_.log.open_to_read(to_, std::max(control_.gsn, extent_.max_gsn));
    process_.pool.set_next_file_no(
        std::max({FileNo{1}, control_.next_file_no, analysis.max_file_no + 1}));
    LogAppender log(process_.log, store_.config.worker_slots + kSlotRecovery);
    Ctx ctx;
    ctx.pool = &process_.pool;
    ctx.log = &log;
    ctx.slot = store_.config.worker_slots + kSlotRecovery;
    ctx.interrupt = stop_;
    LogReader reader = open_log();
    RecoveryFiles files;
    UndoSpool nothing(directory_);
    RedoStats stats;
    LS_TRY(redo_log(ctx, reader, analysis, &files, {control_.redo_gsn, false}, &nothing, &stats,
                    &store_.redone_bytes));
    LS_TRY(process_.pool.flush(ctx, ~Gsn{0}, false));
    close_descriptors();
    if (process_.pool.oldest_dirty() == ~Gsn{0}) return kOk;
    return fail(LS_CORRUPT, "changes wait for damaged pages");
  }

  // Of files that the host may be going to unlink.
  void close_descriptors() {
    for (u32 i = 0; i < process_.pool.shared()->max_files; i++) {
      const FileSlot &file = process_.pool.file(i);
      if (has_pages(file)) file_forget(file.file_no.load(std::memory_order_relaxed));
    }
  }

  // APPLY-3.  The original's list is read as the file that becomes this store's.
  Status gather_undo(UndoList *list) {
    const Gsn gsn = state_.control.undo_gsn;
    if (gsn == 0) return kOk;
    LS_TRY(file_write_atomically((undo_ + "/" + undo_list_name(gsn)).c_str(), state_.list));
    UndoList original;
    LS_TRY(undo_list_read(undo_.c_str(), gsn, &original));
    list->gsn = gsn;
    UndoCollector collector(undo_, before_, list);
    for (const auto &[tn, txn] : original.txns) {
      const auto known = before_.txns.find(tn);
      const LongTransaction fresh{.place = txn.place, .first_gsn = txn.first_gsn};
      collector.want(tn, known != before_.txns.end() ? known->second : fresh);
    }
    LogReader log = open_log();
    LS_TRY(collector.run(log, gsn, stop_));
    for (auto &[tn, txn] : list->txns) txn.txn.in_files_to = gsn;
    if (list->txns.size() != original.txns.size())
      return fail(LS_CORRUPT, "the log in \"%s\" lacks long transactions", wal_.c_str());
    return undo_list_write(undo_.c_str(), *list);
  }

  Status remove_log() const {
    std::set<u64> present;
    LS_TRY(log_segments_present(wal_, present));
    for (const u64 number : present) {
      if ((number + 1) * control_.segment_bytes > state_.control.redo_lsn) break;
      LS_TRY(file_unlink(log_segment_path(wal_, number).c_str()));
    }
    return kOk;
  }

  ls_store &store_;
  StoreProcess &process_;
  const std::string directory_, wal_, undo_;
  const RestoreState &state_;
  const Lsn to_;
  const volatile int *stop_;
  ControlFile control_{};
  UndoList before_;   // that it names
  LogExtent extent_;
};

}  // namespace

Status standby_apply(ls_store &store, std::span<const u8> state, Lsn to, const volatile int *stop,
                     u64 *log_bytes) {
  *log_bytes = 0;
  RestoreState unpacked;
  LS_TRY(restore_state_unpack(state, &unpacked));
  return Applier(store, unpacked, to, stop).run(false, log_bytes);
}

Status follow_restart_point(ls_store &store, std::span<const u8> state, Lsn to,
                            const volatile int *stop, u64 *log_bytes) {
  *log_bytes = 0;
  RestoreState unpacked;
  LS_TRY(restore_state_unpack(state, &unpacked));
  return Applier(store, unpacked, to, stop).run(true, log_bytes);
}

Status follow_flush(ls_store &store, const volatile int *stop) {
  BufferPool &pool = store_process(store).pool;
  const Gsn redone = follow_reached(store);
  Ctx ctx;
  ctx.pool = &pool;
  ctx.slot = store.config.worker_slots + kSlotCheckpoint;
  ctx.interrupt = stop;
  LS_TRY(pool.flush(ctx, redone, false));
  if (pool.oldest_dirty() > redone) return kOk;
  return fail(LS_CORRUPT, "changes wait for damaged pages");
}

}  // namespace ls
