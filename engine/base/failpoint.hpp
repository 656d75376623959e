// failpoint.hpp - points between two steps of the engine at which a test acts (failpoints.def).
//
// LS_FAILPOINT(name) is nothing where LS_DEBUG_CHECKS is not 1.  Where it is, a point that no test
// has armed costs one relaxed load.  A test arms a point with an ArmedFailpoint: each thread of its
// process that comes by then runs the action, which may wait, count, work as another actor, or end
// the process.
//
// At a point the thread may hold latches: its place says which.  An action throws nothing.
#pragma once
#include "base/types.hpp"

#if defined(LS_DEBUG_CHECKS) && LS_DEBUG_CHECKS
#include <atomic>
#include <functional>

#define LS_FAILPOINTS 1
#define LS_FAILPOINT(name) ::ls::reach_failpoint(::ls::Failpoint::name)

namespace ls {

enum class Failpoint : u32 {
#define LS_FAILPOINT_ENTRY(name, actor, window) name,
#include "base/failpoints.def"
#undef LS_FAILPOINT_ENTRY
  kCount
};

using FailpointAction = std::function<void()>;

struct FailpointState {
  std::atomic<const FailpointAction *> action{nullptr};
  std::atomic<u32> inside{0};   // threads that run it, or are about to look whether there is one
};
extern FailpointState failpoint_states[static_cast<u32>(Failpoint::kCount)];

void run_failpoint(FailpointState &state) noexcept;

inline void reach_failpoint(Failpoint point) {
  FailpointState &state = failpoint_states[static_cast<u32>(point)];
  if (state.action.load(std::memory_order_relaxed)) run_failpoint(state);
}

// One at a time for each point.  Its end waits until no thread is inside the action: what that
// refers to outlives the ArmedFailpoint alone.
class ArmedFailpoint {
 public:
  ArmedFailpoint(Failpoint point, FailpointAction action);
  ~ArmedFailpoint();
  ArmedFailpoint(const ArmedFailpoint &) = delete;
  ArmedFailpoint &operator=(const ArmedFailpoint &) = delete;

 private:
  FailpointState &state_;
  const FailpointAction action_;
};

}  // namespace ls

#else
#define LS_FAILPOINTS 0
#define LS_FAILPOINT(name) ((void)0)
#endif
