// checkpoint.cpp - where redo would start, and what has to be on disk for that.
#include "recovery/checkpoint.hpp"

#include <algorithm>

#include "base/failpoint.hpp"
#include "buffer/last_images.hpp"
#include "recovery/host_sync_point.hpp"
#include "txn/prepared.hpp"

namespace ls {

namespace {

// Above the TNs of the log, but for those that recovery finds there.
Tn tn_floor(const CheckpointEnv &env) {
  return std::max(env.txns->highest_tn.load(std::memory_order_seq_cst) + 1,
                  env.txns->tn_base.load(std::memory_order_relaxed));
}

// Read last, but for tn_floor beside transactions: a larger value than necessary does no harm.
// redo_gsn: no change before is missing on disk; 0: not known.
// undo_gsn: of a log that begins in this run.
ControlFile make_control(Ctx &ctx, const CheckpointEnv &env, Lsn redo_lsn, Gsn redo_gsn,
                         Gsn undo_gsn, bool clean) {
  ControlFile control{};
  control.tn_floor = tn_floor(env);
  control.clean = clean;
  control.run = env.run;
  control.redo_lsn = redo_lsn;
  // A position that has moved lies in what this run has logged.
  control.redo_run = redo_lsn == env.redo_lsn ? env.redo_run : env.run;
  control.undo_gsn = control.redo_run == env.run ? undo_gsn : env.undo_gsn;
  control.segment_bytes = env.segment_bytes;
  control.gsn = ctx.pool->log().last_gsn();
  control.redo_gsn = redo_gsn;
  control.next_file_no = ctx.pool->next_file_no();
  control.tn_offset = env.txns->tn_offset.load(std::memory_order_acquire);
  control.log_end = ctx.pool->log().durable_end();
  control.store = ctx.pool->shared()->store;
  control.host_log = ctx.pool->log().has_host_log();
  return control;
}

Status wait_all_hardened(Ctx &ctx) {
  Log &log = ctx.pool->log();
  if (log.wait_hardened(log.last_gsn(), ctx.interrupt)) return kOk;
  return fail(LS_INTERRUPTED, "interrupted while a checkpoint waited for the log");
}

Status truncate_log(Log &log, const CheckpointEnv &env, Lsn redo_lsn) {
  const Lsn noted = env.noted->load(std::memory_order_acquire);
  if (noted != kNothingNoted) LS_TRY(host_sync_point_sync(env.data_dir));
  return log.truncate(std::min(redo_lsn, noted));
}

}  // namespace

Status checkpoint_fuzzy(Ctx &ctx, const CheckpointEnv &env, LongTransactions &long_txns,
                        CheckpointResult *result) {
  Log &log = ctx.pool->log();
  long_txns.begin(log);
  const Gsn images_from = log.has_page_images() ? log.advance_image_horizon() : 0;   // IMG-3
  LS_TRY(wait_all_hardened(ctx));  // so that G is of now, however long the committer has slept
  result->end_lsn = log.end();
  const Gsn hardened = log.hardened();                     // CKPT-1
  Gsn bound = 0;
  LS_TRY(long_txns.collect(ctx, env, hardened, log.end(), &bound));     // CKPT-2
  const Tn floor = tn_floor(env);
  Gsn redo_gsn = std::min(hardened + 1, bound);
  if (images_from != 0) redo_gsn = std::min(redo_gsn, images_from);   // IMG-3
  redo_gsn = std::min(redo_gsn, env.redo_floor + 1);
  u32 prepared = 0;
  LS_TRY(ctx.pool->log_files(ctx));                        // CKPT-3
  LS_TRY(prepared_log_again(*ctx.log, ctx.interrupt, *env.txns, &prepared));
  LS_TRY(wait_all_hardened(ctx));
  LS_ASSERT(hardened + 1 >= images_from);   // IMG-3
  const Gsn up_to = std::max(hardened, images_from);   // of hints: the horizon itself
  LS_TRY(ctx.pool->flush(ctx, up_to, false, env.pace));  // CKPT-4
  redo_gsn = before_dropped_images(*ctx.pool->shared(),
                                   std::min(redo_gsn, ctx.pool->oldest_dirty()));
  LS_ASSERT(redo_gsn <= env.redo_floor + 1);   // RESTORE-4
  const Lsn redo_lsn = std::max(env.redo_lsn, log.position_of(redo_gsn));  // CKPT-5
  result->gsn = log.last_gsn();
  ControlFile control = make_control(ctx, env, redo_lsn, redo_gsn, long_txns.list_gsn(), false);
  control.tn_floor = floor;   // of CKPT-2
  LS_TRY(prepared_sync(*env.txns));   // PFILE-2
  LS_FAILPOINT(recovery_before_control);
  LS_TRY(control_write(env.data_dir, control));
  // It is valid from here on, whatever becomes of the log before it.
  result->redo_lsn = redo_lsn;
  result->redo_run = control.redo_run;
  result->undo_gsn = control.undo_gsn;
  result->control = control;
  // While the log of an earlier run is needed, so is what that has left.
  if (control.redo_run == env.run) long_txns.confirm(env);
  return truncate_log(log, env, result->redo_lsn);
}

Status checkpoint_recovered(Ctx &ctx, const CheckpointEnv &env, Gsn redo_gsn) {
  u32 prepared = 0;
  LS_TRY(prepared_log_again(*ctx.log, ctx.interrupt, *env.txns, &prepared));
  LS_TRY(wait_all_hardened(ctx));
  return control_write(env.data_dir,
                       make_control(ctx, env, env.redo_lsn, redo_gsn, env.undo_gsn, false));
}

Status checkpoint_clean(Ctx &ctx, const CheckpointEnv &env, CheckpointResult *result) {
  Log &log = ctx.pool->log();
  LS_TRY(wait_all_hardened(ctx));
  LS_TRY(ctx.pool->flush(ctx, ~Gsn{0}, true));
  const Gsn waiting =   // for damaged pages
      before_dropped_images(*ctx.pool->shared(), ctx.pool->oldest_dirty());
  const bool all_written = waiting == ~Gsn{0};
  result->redo_lsn = all_written ? log.end() : std::max(env.redo_lsn, log.position_of(waiting));
  u32 prepared = 0;
  LS_TRY(prepared_log_again(*ctx.log, ctx.interrupt, *env.txns, &prepared));
  LS_TRY(wait_all_hardened(ctx));
  result->end_lsn = log.end();
  result->gsn = log.last_gsn();
  LS_TRY(prepared_sync(*env.txns));
  LS_TRY(control_write(env.data_dir,
                       make_control(ctx, env, result->redo_lsn, all_written ? 0 : waiting, 0,
                                    all_written && prepared == 0)));
  return truncate_log(log, env, result->redo_lsn);
}

}  // namespace ls
