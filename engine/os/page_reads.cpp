// page_reads.cpp - neighbouring pages gathered into runs, queued, reaped.
#include "os/page_reads.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/check.hpp"
#include "os/fault.hpp"
#include "os/io_wait.hpp"

namespace ls {

namespace {

// To read so many pages more takes less than another read.
constexpr PageNo kGap = 4;

// Each has a descriptor.
std::atomic<u32> g_rings{0};
// The kernel may map a new ring where one was that another thread has closed.  ThreadSanitizer does
// not see that, and is told that accesses to the two are ordered: by a release before the one is
// unmapped and an acquire after the other is mapped.
std::atomic<u32> g_closed{0};

void give_back_ring() { g_rings.fetch_sub(1, std::memory_order_relaxed); }

bool take_ring() {
  if (g_rings.fetch_add(1, std::memory_order_relaxed) < PageReads::kMostRings) return true;
  give_back_ring();
  return false;
}

}  // namespace

// Room for all that may be under way or have ended: what the kernel has been told of must not be
// forgotten for want of memory.
PageReads::PageReads(u32 entries) : runs_(entries) {
  queued_.reserve(entries);
  added_.reserve(entries);
  ended_.reserve(entries);
  if (!take_ring()) return;
  usable_ = io_uring_queue_init(entries, &ring_, 0) == 0;
  g_closed.load(std::memory_order_acquire);
  if (!usable_) give_back_ring();
}

PageReads::~PageReads() {
  while (take(true)) {
  }
  close();
}

void PageReads::close() {
  if (!usable_) return;
  g_closed.fetch_add(1, std::memory_order_release);
  io_uring_queue_exit(&ring_);
  usable_ = false;
  give_back_ring();
}

// Injected faults act on pread.
bool PageReads::possible() const { return usable_ && !fault_active(); }

bool PageReads::gather(Run &run, std::span<const Page> pages) {
  LS_ASSERT(run.tags.empty());
  const PageNo first = pages[0].page;
  try {
    for (const Page &page : pages) {
      for (PageNo between = first + static_cast<PageNo>(run.parts.size()); between < page.page;
           between++) {
        run.parts.push_back({nowhere_, kPageSize});
        run.tags.push_back(kNobody);
      }
      run.parts.push_back({page.buffer, kPageSize});
      run.tags.push_back(page.tag);
    }
    return true;
  } catch (const std::bad_alloc &) {
    run.parts.clear();
    run.tags.clear();
    return false;
  }
}

// False: they are not going to be read.
bool PageReads::queue(const FileRef &file, std::span<const Page> pages) {
  Run &run = runs_[pages[0].tag];
  const PageNo first = pages[0].page;
  if (!gather(run, pages)) {
    for (const Page &page : pages) ended_.push_back({page.tag, false});
    return true;
  }
  if (!usable_ ||
      !ok(fd_cache_get(file, first / kPagesPerSegment, SegmentOpen::kExisting, &run.segment)))
    return false;
  io_uring_sqe *sqe = io_uring_get_sqe(&ring_);
  if (!sqe) return false;
  io_uring_prep_readv(sqe, run.segment->fd(), run.parts.data(),
                      static_cast<unsigned>(run.parts.size()),
                      u64{first % kPagesPerSegment} * kPageSize);
  io_uring_sqe_set_data64(sqe, pages[0].tag);
  queued_.push_back(pages[0].tag);
  return true;
}

void PageReads::submit(const FileRef &file) {
  std::sort(added_.begin(), added_.end(),
            [](const Page &a, const Page &b) { return a.page < b.page; });
  for (size_t begin = 0; begin < added_.size();) {
    size_t end = begin + 1;
    while (end < added_.size() && added_[end].page <= added_[end - 1].page + 1 + kGap &&
           added_[end].page / kPagesPerSegment == added_[begin].page / kPagesPerSegment) {
      end++;
    }
    if (!queue(file, std::span(added_).subspan(begin, end - begin)))
      this->end(runs_[added_[begin].tag], 0);
    begin = end;
  }
  added_.clear();
  const u32 queued = static_cast<u32>(queued_.size());
  if (queued == 0) return;   // or there is no ring
  if (const u32 refused = io_submit(ring_))
    return give_up(queued - std::min(refused, queued));
  under_way_ += queued;
  queued_.clear();
}

// The kernel takes nothing more: what it has taken ends, the rest has failed.
void PageReads::give_up(u32 submitted) {
  under_way_ += submitted;
  std::vector<u32> queued;
  queued.swap(queued_);
  while (take(true)) {
  }
  close();
  for (u32 run : std::span(queued).subspan(submitted)) end(runs_[run], 0);
}

void PageReads::end(Run &run, size_t bytes) {
  for (size_t i = 0; i < run.tags.size(); i++) {
    if (run.tags[i] != kNobody) ended_.push_back({run.tags[i], bytes >= (i + 1) * kPageSize});
  }
  run.segment.reset();
  run.parts.clear();
  run.tags.clear();
}

// The next run that the kernel has ended.  False: there is none now, and if `wait`, none is left.
bool PageReads::take(bool wait) {
  if (under_way_ == 0) return false;
  io_uring_cqe *cqe = wait ? io_wait(ring_, 1) : io_peek(ring_);
  if (!cqe) return false;
  Run &run = runs_[io_uring_cqe_get_data64(cqe)];
  const size_t bytes = cqe->res > 0 ? static_cast<size_t>(cqe->res) : 0;
  io_uring_cqe_seen(&ring_, cqe);
  under_way_--;
  end(run, bytes);
  return true;
}

bool PageReads::next(bool wait, Ended *ended) {
  while (ended_.empty()) {
    if (!take(wait)) return false;
  }
  *ended = ended_.back();
  ended_.pop_back();
  return true;
}

}  // namespace ls
