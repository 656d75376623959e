// A worker's side of its slot.  Owner of the slot's first cache line; see log.hpp for LOG-1, LOG-2
// and group_commit.cpp for the other side.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/failpoint.hpp"
#include "base/interrupt.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"
#include "os/host_watch.hpp"
#include "wal/dependencies.hpp"
#include "wal/log.hpp"
#include "wal/log_slot.hpp"
#include "wal/log_writer.hpp"

namespace ls {

namespace {

constexpr u64 kMostEarlyMs = 60'000;

}  // namespace

LogAppender::LogAppender(Log log, u32 slot)
    : log_(log),
      slot_(log.slot(slot)),
      ring_(log.shared()->ring(slot)),
      mask_(log.shared()->config.buffer_bytes - 1),
      record_(std::make_unique_for_overwrite<u8[]>(kMaxRecordBytes)) {
  take_over();
  // Before the first GSN is drawn; the committer reads it after the counter (see collect).
  std::atomic<u32> &used = log_.shared()->slots_used;
  u32 seen = used.load(std::memory_order_relaxed);
  while (seen < slot + 1 &&
         !used.compare_exchange_weak(seen, slot + 1, std::memory_order_acq_rel)) {
  }
}

LogAppender::~LogAppender() = default;

void LogAppender::take_over() {
  LS_CHECK(slot_->appending.load(std::memory_order_relaxed) == 0,
           "log slot was left in the middle of an append");
  // Acquire: the slot's former owner may have been another process.
  position_ = kicked_at_ = slot_->published.load(std::memory_order_acquire);
  limit_ = slot_->drained.load(std::memory_order_acquire) + mask_ + 1;
}

// ---- space

u64 LogAppender::space() const {
  // Acquire pairs with the committer's store after it has copied: what the owner overwrites is not
  // read any more.
  const u64 drained = slot_->drained.load(std::memory_order_acquire);
  LS_ASSERT(drained <= position_ && position_ - drained <= mask_ + 1);   // SLOT-1
  return drained + mask_ + 1 - position_;
}

// What stood in the slot was that of an earlier life of the log.
Status LogAppender::begin_late(const volatile int *interrupt) {
  std::atomic<u32> &appending = log_.shared()->appending;
  const WaitReport report(waits_, LS_WAIT_LOG_SPACE);
  const u64 deadline = now_ms() + kMostEarlyMs;
  while (appending.load(std::memory_order_acquire) == 0) {
    if (interrupt_pending(interrupt))
      return fail(LS_INTERRUPTED, "interrupted while waiting for the log to be opened");
    if (now_ms() > deadline) return fail(LS_NOT_READY, "the log is not open for append");
    futex_wait_interruptible(&appending, 0, kInterruptPollUs);
  }
  take_over();
  early_ = false;
  return kOk;
}

Status LogAppender::reserve(u32 bytes, const volatile int *interrupt) {
  if (early_) LS_TRY(begin_late(interrupt));
  const u64 buffer = mask_ + 1;
  const u64 images = log_.has_page_images() ? kImagesRoom : 0;
  const bool refusable = interrupt && !urgent_;
  if (refusable && log_.shared()->low_space.load(std::memory_order_relaxed)) return no_space();
  // A quarter on top is what makes the reservation of a caller up the stack survive this one; and
  // images of what either of them changes.
  const u64 need = bytes + images + buffer / 4 + images;
  LS_CHECK(bytes <= buffer / 2 && need <= buffer && !building_, "log reservation");
  const u64 free = space();
  limit_ = position_ + free;
  if (free < need) return wait_for_space(need, interrupt, refusable);
  // Ahead of need, so that a bulk load finds its buffer drained.
  if (buffer - free > buffer / 4 && position_ - kicked_at_ > buffer / 4) {
    kicked_at_ = position_;
    log_.drain();
  }
  return kOk;
}

Status LogAppender::reserve_images(const volatile int *interrupt) {
  const bool urgent = std::exchange(urgent_, true);
  const Status status = reserve(0, interrupt);
  urgent_ = urgent;
  return status;
}

Status LogAppender::no_space() const {
  return fail(LS_NO_SPACE, "no space left for the log in \"%s\"", log_.shared()->config.dir);
}

Status LogAppender::wait_for_space(u64 need, const volatile int *interrupt, bool refusable) {
  WaitReport report(waits_, LS_WAIT_LOG_SPACE);
  Status status = kOk;
  for (;;) {
    // Sequentially consistent on both sides (LogWriter::stage): either the committer sees that the
    // owner waits, or the owner sees what was drained or the sequence that was advanced.
    slot_->space_waiting.store(1, std::memory_order_seq_cst);
    const u32 seq = slot_->space_seq.load(std::memory_order_seq_cst);
    const u64 free = slot_->drained.load(std::memory_order_seq_cst) + mask_ + 1 - position_;
    limit_ = position_ + free;
    if (free >= need) break;
    log_.drain();
    if (log_.failed()) {
      status = fail(LS_IO_ERROR, "the log could not be written");
    } else if (interrupt_pending(interrupt)) {
      status = fail(LS_INTERRUPTED, "interrupted while waiting for log space");
    } else if (refusable && log_.shared()->no_space.load(std::memory_order_acquire)) {
      status = no_space();
    }
    if (!ok(status)) break;
    futex_wait_interruptible(&slot_->space_seq, seq, kInterruptPollUs);
  }
  slot_->space_waiting.store(0, std::memory_order_relaxed);
  return status;
}

// ---- one record

void LogAppender::append(const void *bytes, size_t count) {
  LS_CHECK(building_, "no log record has been started");
  LS_CHECK(count <= kMaxRecordBytes - kMaxRecordHeadBytes - used_, "log record is too large");
  LS_CHECK(position_ + kMaxRecordHeadBytes + used_ + count <= limit_, "log space was not reserved");
  if (count > 0) std::memcpy(record_.get() + kMaxRecordHeadBytes + used_, bytes, count);
  used_ += static_cast<u32>(count);
}

void LogAppender::start(RecordKind kind) {
  LS_CHECK(!building_, "a log record is being built already");
  LS_CHECK(position_ + kMaxRecordHeadBytes <= limit_, "log space was not reserved");
  building_ = true;
  kind_ = kind;
  used_ = 0;
}

void LogAppender::number(u64 value) {
  u8 bytes[kMaxVarintBytes];
  append(bytes, put_varint(bytes, value));
}

void LogAppender::op(FileNo file, PageNo page, u8 code, std::span<const u8> a,
                     std::span<const u8> b, std::span<const u8> c) {
  const size_t bytes = a.size() + b.size() + c.size();
  LS_CHECK(bytes <= kMaxRecordBytes, "log record is too large");
  u8 head[kMaxOpHeadBytes];
  append(head, store_op_head(file, page, code, static_cast<u32>(bytes), head));
  append(a.data(), a.size());
  append(b.data(), b.size());
  append(c.data(), c.size());
}

void LogAppender::raw(std::span<const u8> bytes) { append(bytes.data(), bytes.size()); }

void LogAppender::abandon() { building_ = false; }

// The record is complete but for its head.  Release pairs with the committer's acquire in collect:
// the bytes first; and with the next owner's acquire: last_gsn first.
void LogAppender::publish(Gsn gsn) {
  const u64 published = slot_->published.load(std::memory_order_relaxed);
  LS_CHECK(published == position_, "a log slot has two owners");   // SLOT-2
  LS_ASSERT(gsn > slot_->last_gsn);   // LOG-1
  u8 head[kMaxRecordHeadBytes];
  const u32 head_bytes = store_record_head(kind_, used_, gsn, slot_->last_gsn, head);
  u8 *begin = record_.get() + kMaxRecordHeadBytes - head_bytes;
  std::memcpy(begin, head, head_bytes);
  const u64 bytes = head_bytes + used_;
  const u64 offset = position_ & mask_;
  const u64 first = std::min(bytes, mask_ + 1 - offset);
  std::memcpy(ring_ + offset, begin, first);
  if (first < bytes) std::memcpy(ring_, begin + first, bytes - first);
  slot_->last_gsn = gsn;
  if (dependencies_) dependencies_->draw(gsn);
  position_ += bytes;
  counts_.records++;
  counts_.bytes += bytes;
  slot_->published.store(position_, std::memory_order_release);
  building_ = false;
}

Gsn LogAppender::finish() {
  LS_CHECK(building_, "no log record has been started");
  LS_ASSERT(slot_->appending.load(std::memory_order_relaxed) == 0);   // LOG-1
  std::atomic<Gsn> &counter = log_.shared()->counter;
  // LOG-1.  The bound is at most the GSN drawn below, however stale the load.  The release half of
  // the fetch_add keeps the store before it; pairs with the committer's acquire of the counter:
  // when that shows this GSN the committer sees the bound or something later.  Each store to
  // `appending` is a release: with it the committer sees everything published before.
  slot_->appending.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  Gsn gsn = counter.fetch_add(1, std::memory_order_acq_rel) + 1;
  LS_ASSERT(slot_->appending.load(std::memory_order_relaxed) <= gsn);   // LOG-1
  LS_FAILPOINT(log_before_publish);
  publish(gsn);
  slot_->appending.store(0, std::memory_order_release);
  return gsn;
}

Gsn LogAppender::appended() const { return slot_->last_gsn; }

Status LogAppender::make_writer() {
  if (writer_) return kOk;
  return with_memory([&] {
    writer_ = std::make_unique<LogWriter>(log_.shared(), nullptr);
    return kOk;
  });
}

// ---- files beside the log

Status LogAppender::sync_first(const FileRef &file) {
  FileSyncs &syncs = log_.shared()->file_syncs;
  while (!syncs.ask(file)) {
    LS_TRY(make_writer());
    LS_TRY(writer_->sync_files());
  }
  return kOk;
}

// ---- waiting for the own commit

// True: this worker has written a round; look again whether the wait is over.
bool LogAppender::take_turn(Gsn gsn, u32 delay_us, u32 *blocked) {
  if (log_.failed()) return false;
  if (log_.has_host_log() && !host_log()) {
    log_.kick();
    return false;
  }
  // that is under way
  if (log_.shared()->round.syncing_gsn.load(std::memory_order_seq_cst) >= gsn) return false;
  // Without memory for it the committer writes the round.
  if (!ok(make_writer())) {
    log_.kick();
    return false;
  }
  if (!writer_->try_round(slot_, delay_us)) return false;
  if (log_.hardened() >= gsn) return true;
  if (!writer_->blocked_by_append()) return false;
  pause_for_append((*blocked)++);
  return true;
}

// Sequentially consistent, as LogWriter::gather: either that sees this worker in line, or this one
// sees that it waits for its commit group.
void LogAppender::join_line(Gsn gsn) {
  LogShared *shared = log_.shared();
  LS_ASSERT(gsn != 0 && gsn < kUnderWay);
  LS_ASSERT(slot_->wait_gsn.load(std::memory_order_relaxed) == 0);
  slot_->waited_in.store(shared->round.number.load(std::memory_order_relaxed),
                         std::memory_order_relaxed);
  if (shared->round.syncing_gsn.load(std::memory_order_seq_cst) >= gsn) {
    slot_->wait_gsn.store(gsn | kUnderWay, std::memory_order_seq_cst);
    return;
  }
  const u32 line = shared->in_line.fetch_add(1, std::memory_order_seq_cst) + 1;
  slot_->wait_gsn.store(gsn, std::memory_order_seq_cst);
  const u32 wanted = shared->commit_group_wanted.load(std::memory_order_seq_cst);
  if (wanted == 0 || line < wanted) return;
  if (shared->commit_group_wanted.exchange(0, std::memory_order_seq_cst) != 0)
    futex_wake(&shared->commit_group_wanted, 1);
}

// wait_gsn first, then the mutex (in take_turn); a round's end the other way round: either it sees
// this worker, or this worker gets the mutex.
bool LogAppender::wait_hardened(Gsn gsn, const volatile int *interrupt, u32 delay_us) {
  if (log_.hardened() >= gsn) return true;
  LogShared *shared = log_.shared();
  join_line(gsn);
  shared->waiters.fetch_add(1, std::memory_order_seq_cst);
  bool done;
  u32 blocked = 0;
  for (;;) {
    const u32 seq = slot_->wake.load(std::memory_order_seq_cst);
    done = shared->hardened.load(std::memory_order_seq_cst) >= gsn;
    if (done || interrupt_pending(interrupt) || shared->stopped.load(std::memory_order_acquire))
      break;
    if (take_turn(gsn, delay_us, &blocked)) continue;
    futex_wait_interruptible(&slot_->wake, seq,
                             interrupt ? kInterruptPollUs : kUninterruptedSleepUs);
  }
  shared->leave_line(slot_->wait_gsn.exchange(0, std::memory_order_seq_cst));
  shared->waiters.fetch_sub(1, std::memory_order_relaxed);
  return done;
}

// What is too large for a worker, or needs a new segment, the committer writes.
Status LogAppender::write_out(Gsn gsn, const volatile int *interrupt, u64 *host) {
  constexpr unsigned kPollUs = 500;
  LS_TRY(make_writer());
  for (u32 blocked = 0;;) {
    bool done;
    LS_TRY(writer_->write_out(gsn, slot_, &done, host));
    if (done) return kOk;
    if (interrupt_pending(interrupt))
      return fail(LS_INTERRUPTED, "interrupted while a transaction was written to the log");
    if (writer_->blocked_by_append()) {
      pause_for_append(blocked++);
      continue;
    }
    const WaitReport report(waits_, LS_WAIT_LOG_SPACE);
    log_.kick();
    usleep(kPollUs);
    watch_host();
  }
}

}  // namespace ls
