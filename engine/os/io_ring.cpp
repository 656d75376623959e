// io_ring.cpp - a batch of page writes through the ring; by pwrite what the ring could not do.
#include "os/io_ring.hpp"

#include <algorithm>
#include <cerrno>

#include "base/check.hpp"
#include "os/fault.hpp"
#include "os/file_settings.hpp"
#include "os/io_wait.hpp"

namespace ls {

namespace {

constexpr u32 kMaxEntries = 4096;

bool is_aligned(const void *p) { return reinterpret_cast<uintptr_t>(p) % kPageSize == 0; }

void write_plainly(PageWrite &write) {
  write.status = file_write_page(write.file, write.page, write.buffer);
}

}  // namespace

IoRing::IoRing(u32 entries)
    : entries_(std::clamp<u32>(entries, 1, kMaxEntries)), segments_(entries_), complete_(entries_) {
  usable_ = io_uring_queue_init(entries_, &ring_, 0) == 0;
}

IoRing::~IoRing() {
  if (usable_) io_uring_queue_exit(&ring_);
}

// All that was queued, or 0 when the kernel takes nothing: then the ring is not used again.
u32 IoRing::submit(u32 queued) {
  const u32 refused = io_submit(ring_);
  if (refused == 0) return queued;
  LS_CHECK(refused >= queued, "io_uring took a part of a batch and then failed");
  io_uring_queue_exit(&ring_);
  usable_ = false;
  return 0;
}

// The segments stay referenced until every completion is in.  What the ring could not do whole
// (short write, EAGAIN, a kernel without the operation) is done again by pwrite, which then names
// the error.
void IoRing::write_batch(std::span<PageWrite> writes) noexcept {
  LS_ASSERT(writes.size() <= entries_);
  std::fill_n(complete_.begin(), writes.size(), 0);
  u32 queued = 0;
  for (size_t i = 0; i < writes.size(); i++) {
    PageWrite &write = writes[i];
    SegmentRef &segment = segments_[i];
    if (!ok(fd_cache_get(write.file, write.page / kPagesPerSegment, SegmentOpen::kExisting,
                         &segment)))
      continue;
    if (segment->direct() && !is_aligned(write.buffer)) continue;
    io_uring_sqe *sqe = io_uring_get_sqe(&ring_);
    if (!sqe) break;
    io_uring_prep_write(sqe, segment->fd(), write.buffer, kPageSize,
                        static_cast<u64>(write.page % kPagesPerSegment) * kPageSize);
    io_uring_sqe_set_data64(sqe, i);
    queued++;
  }
  for (u32 left = submit(queued); left > 0;) {
    io_uring_cqe *cqe = io_wait(ring_, left);
    complete_[io_uring_cqe_get_data64(cqe)] = cqe->res == static_cast<int>(kPageSize);
    io_uring_cqe_seen(&ring_, cqe);
    left--;
  }
  for (size_t i = 0; i < writes.size(); i++) {
    segments_[i].reset();
    if (complete_[i]) {
      writes[i].status = kOk;
    } else {
      write_plainly(writes[i]);
    }
  }
}

IoRing *io_ring_create(u32 entries) { return new IoRing(entries); }

void io_ring_destroy(IoRing *ring) { delete ring; }

Status io_write_pages(IoRing *ring, std::span<PageWrite> writes) {
  for (size_t done = 0; done < writes.size();) {
    // Injected faults act on pwrite.
    bool use_ring = ring && ring->usable() && !fault_active();
    size_t n = use_ring ? std::min<size_t>(writes.size() - done, ring->entries()) : 1;
    if (use_ring) {
      ring->write_batch(writes.subspan(done, n));
    } else {
      write_plainly(writes[done]);
    }
    done += n;
  }
  // last_error() describes the failure that happened last; make it and the status returned the same
  // one.
  for (PageWrite &write : writes) {
    if (ok(write.status)) continue;
    return write.status;
  }
  return kOk;
}

}  // namespace ls
