// io_wait.hpp - the next completion of an io_uring, waited for by its one thread.
//
// What the kernel cannot do at once (a buffered file that knows no waiting, a page that is not in
// its cache) it puts into a queue for a worker thread of its own.  On a machine with more to do
// than processors Linux 6.18 has been seen to lose the start of that worker: the request lay in the
// queue, and its waiter slept for ever.  The next request to be queued brought a worker, which did
// both.  So a waiter that has waited for long queues one that does nothing.
#pragma once
#include <liburing.h>

#include "base/types.hpp"

namespace ls {

// Requests carry other data.  ~0 is liburing's own.
inline constexpr u64 kIoNudge = ~u64{1};

// Hands all queued requests to the kernel.  How many it has refused for good: the last ones queued.
// A nudge that it had not taken before may be among those taken, so its own count is of no use.
u32 io_submit(io_uring &ring);
// A completion; io_uring_cqe_seen() is the caller's.  `expected`: so many requests are under way,
// and it is best to sleep until all have ended.
io_uring_cqe *io_wait(io_uring &ring, u32 expected);
// The same, or null when there is none now.
io_uring_cqe *io_peek(io_uring &ring);

}  // namespace ls
