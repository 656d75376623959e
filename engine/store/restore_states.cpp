// restore_states.cpp - is what a checkpoint has left a state that fits into a record?
#include "store/restore_states.hpp"

#include "base/status.hpp"
#include "recovery/restore_state.hpp"

namespace ls {

namespace {

// A checkpoint with a log that begins far back is followed by another one: transactions that were
// young then, or of the run before, have undo files now.
constexpr u32 kMostAttempts = 4;

Status fits(const CheckpointResult &result, u64 run) {
  const ControlFile &control = result.control;
  const bool near = control.redo_lsn + kMaxStateLogBytes >= result.end_lsn;
  if (control.redo_run == run && near) return kOk;
  return fail(LS_LIMIT, "recovery would need more than %llu bytes of log behind the checkpoint",
              static_cast<unsigned long long>(kMaxStateLogBytes));
}

}  // namespace

u32 RestoreStates::waiting() const {
  const u32 asked = asked_.load(std::memory_order_acquire);
  return asked == answered_.load(std::memory_order_relaxed) ? 0 : asked;
}

bool RestoreStates::take(u32 request, std::vector<u8> *state, ls_error *why) {
  if (static_cast<i32>(answered_.load(std::memory_order_acquire) - request) < 0) return false;
  const std::lock_guard guard(mutex_);
  *state = state_;
  *why = why_;
  return true;
}

void RestoreStates::answer(u32 request, std::vector<u8> state, Status status) {
  attempts_ = 0;
  {
    const std::lock_guard guard(mutex_);
    state_ = std::move(state);
    why_ = ok(status) ? ls_error{} : last_error();
  }
  answered_.store(request, std::memory_order_release);
}

void RestoreStates::checkpoint_ended(const Attempt &attempt, const char *data_dir, Status status,
                                     const CheckpointResult &result) {
  attempts_++;
  std::vector<u8> state;
  if (ok(status)) status = fits(result, attempt.run);
  if (!ok(status) && attempts_ < kMostAttempts) return;
  if (ok(status)) {
    status = with_memory(
        [&] { return restore_state_pack(data_dir, result.control, result.end_lsn, &state); });
  }
  if (!ok(status)) state.clear();
  answer(attempt.request, std::move(state), status);
}

}  // namespace ls
