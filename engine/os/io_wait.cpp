// io_wait.cpp - waiting in slices, with a nudge behind each.
#include "os/io_wait.hpp"

#include <cerrno>

#include "base/check.hpp"

namespace ls {

namespace {

// Longer than most reads take; a nudge that was not needed costs the kernel a few microseconds.
constexpr __kernel_timespec kSlice{.tv_sec = 0, .tv_nsec = 200'000'000};

// One that the kernel does not take now is tried again after the next slice.
void nudge(io_uring &ring) {
  io_uring_sqe *sqe = io_uring_get_sqe(&ring);
  if (!sqe) return;
  io_uring_prep_nop(sqe);
  io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
  io_uring_sqe_set_data64(sqe, kIoNudge);
  (void)io_uring_submit(&ring);
}

// True: it was a nudge's, and is gone.
bool drop_nudge(io_uring &ring, io_uring_cqe *cqe) {
  if (io_uring_cqe_get_data64(cqe) != kIoNudge) return false;
  io_uring_cqe_seen(&ring, cqe);
  return true;
}

}  // namespace

u32 io_submit(io_uring &ring) {
  while (const u32 left = io_uring_sq_ready(&ring)) {
    const int n = io_uring_submit(&ring);
    if (n < 0 && n != -EINTR && n != -EAGAIN && n != -EBUSY) return left;
  }
  return 0;
}

io_uring_cqe *io_wait(io_uring &ring, u32 expected) {
  for (;;) {
    if (io_uring_cqe *ended = io_peek(ring)) return ended;
    io_uring_cqe *cqe = nullptr;
    __kernel_timespec slice = kSlice;
    const int result = io_uring_wait_cqes(&ring, &cqe, expected, &slice, nullptr);
    if (result == -ETIME) nudge(ring);
    LS_CHECK(result == 0 || result == -ETIME || result == -EINTR || result == -EAGAIN,
             "io_uring wait");
  }
}

io_uring_cqe *io_peek(io_uring &ring) {
  io_uring_cqe *cqe = nullptr;
  while (io_uring_peek_cqe(&ring, &cqe) == 0) {
    if (!drop_nudge(ring, cqe)) return cqe;
  }
  return nullptr;
}

}  // namespace ls
