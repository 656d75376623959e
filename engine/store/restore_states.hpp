// restore_states.hpp - the host asks for states to restore from, the checkpointer makes them
// (recovery/restore_state.hpp).  Both are threads of the engine process.
#pragma once
#include <atomic>
#include <mutex>
#include <vector>

#include "recovery/checkpoint.hpp"

namespace ls {

class RestoreStates {
 public:
  // Host: of a checkpoint that begins behind this; a number to ask with.
  u32 ask() { return asked_.fetch_add(1, std::memory_order_acq_rel) + 1; }
  // Host: RESTORE-4, now and until it sets a greater one.
  void set_floor(Gsn gsn) { floor_.store(gsn, std::memory_order_release); }
  Gsn floor() const { return floor_.load(std::memory_order_acquire); }
  // It is waited for: the checkpoint that is being made, and that one, are not to be spread.
  void hurry(u32 request) { hurried_.store(request, std::memory_order_relaxed); }
  // Is there an answer, to this request or a later one?  *state: empty where none could be made,
  // *why says why.
  bool take(u32 request, std::vector<u8> *state, ls_error *why);

  // Checkpointer: the latest request without an answer; 0: none.
  u32 waiting() const;
  bool hurried() const {
    return waiting() != 0 && waiting() == hurried_.load(std::memory_order_relaxed);
  }
  // A checkpoint that began behind that request has ended so.  No answer yet: another one is to be
  // made at once.
  struct Attempt {
    u32 request;
    u64 run;   // of the store
  };
  void checkpoint_ended(const Attempt &attempt, const char *data_dir, Status status,
                        const CheckpointResult &result);

 private:
  void answer(u32 request, std::vector<u8> state, Status status);

  std::atomic<u32> asked_{0}, answered_{0}, hurried_{0};
  std::atomic<Gsn> floor_{kNoRedoFloor};
  u32 attempts_ = 0;           // of the request that waits, by the checkpointer
  std::mutex mutex_;
  std::vector<u8> state_;      // under mutex_, and so is the next
  ls_error why_{};
};

}  // namespace ls
