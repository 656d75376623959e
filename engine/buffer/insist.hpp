// insist.hpp - what cannot be refused: tried again until frames, memory and space are there.
#pragma once
#include <ctime>

#include "base/check.hpp"
#include "base/status.hpp"
#include "os/host_watch.hpp"

namespace ls {

// Frames, memory or space were lacking, which may be there in a while.
inline bool may_pass(Status status) {
  const ls_status lacks = code(status);
  return lacks == LS_NO_FRAMES || lacks == LS_NO_SPACE || lacks == LS_NO_MEMORY;
}

// step: Status().  Another failure ends the process.  No latch is held.
template <class Step>
void insist(const Step &step) {
  constexpr timespec kRetry{0, 1'000'000};
  for (;;) {
    const Status status = with_memory(step);
    if (ok(status)) return;
    LS_CHECK(may_pass(status), last_error().message);
    nanosleep(&kRetry, nullptr);
    watch_host();
  }
}

}  // namespace ls
