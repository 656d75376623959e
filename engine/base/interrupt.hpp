// interrupt.hpp - the host's interrupt flag: set by a signal handler or another thread, polled in
// long waits.
#pragma once

namespace ls {

// Relaxed: the flag carries no data.
inline bool interrupt_pending(const volatile int *flag) {
  return flag && __atomic_load_n(flag, __ATOMIC_RELAXED) != 0;
}

// How long a wait may sleep before it looks at the flag again; a signal ends the sleep at once,
// this bounds the case that it arrived just before.
inline constexpr long kInterruptPollUs = 50'000;

}  // namespace ls
