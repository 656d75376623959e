// A worker's side of its slot.  Owner of the slot's first cache line; see log.hpp for L1-L3 and group_commit.cpp for the
// other side.
#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/interrupt.hpp"
#include "os/futex.hpp"
#include "wal/log.hpp"
#include "wal/log_slot.hpp"

namespace ls {

LogAppender::LogAppender(Log log, u32 slot)
    : log_(log), slot_(log.slot(slot)), ring_(log.shared()->ring(slot)), mask_(log.shared()->config.buffer_bytes - 1) {
  LS_CHECK(slot_->appending.load(std::memory_order_relaxed) == 0 &&
               slot_->precommit.load(std::memory_order_relaxed) == 0,
           "log slot was left in the middle of an append");
  // Acquire: the slot's former owner may have been another process.
  position_ = cursor_ = kicked_at_ = slot_->published.load(std::memory_order_acquire);
  limit_ = slot_->drained.load(std::memory_order_acquire) + mask_ + 1;
  // Before the first GSN is drawn; the committer reads it after the counter (see collect).
  std::atomic<u32> &used = log_.shared()->slots_used;
  u32 seen = used.load(std::memory_order_relaxed);
  while (seen < slot + 1 && !used.compare_exchange_weak(seen, slot + 1, std::memory_order_acq_rel)) {
  }
}

// ---- space

u64 LogAppender::space() const {
  // Acquire pairs with the committer's store after it has copied: what we overwrite is not read any more.
  return slot_->drained.load(std::memory_order_acquire) + mask_ + 1 - position_;
}

Status LogAppender::reserve(u32 bytes, const volatile int *interrupt) {
  const u64 buffer = mask_ + 1;
  LS_CHECK(bytes <= buffer / 2 && !building_, "log reservation");
  const bool refusable = interrupt && !urgent_;
  if (refusable && log_.shared()->low_space.load(std::memory_order_relaxed)) return no_space();
  // A quarter on top is what makes the reservation of a caller up the stack survive this one.
  const u64 need = bytes + buffer / 4;
  const u64 free = space();
  limit_ = position_ + free;
  if (free < need) return wait_for_space(need, interrupt, refusable);
  // Ahead of need, so that a bulk load finds its buffer drained.
  if (buffer - free > buffer / 4 && position_ - kicked_at_ > buffer / 4) {
    kicked_at_ = position_;
    log_.kick();
  }
  return kOk;
}

Status LogAppender::no_space() const { return fail(LS_NO_SPACE, "no space left for the log in \"%s\"", log_.shared()->config.dir); }

Status LogAppender::wait_for_space(u64 need, const volatile int *interrupt, bool refusable) {
  Status status = kOk;
  for (;;) {
    // Sequentially consistent on both sides (LogWriter::stage): either the committer sees that we wait, or we see what it
    // drained or the sequence that it advanced.
    slot_->space_waiting.store(1, std::memory_order_seq_cst);
    const u32 seq = slot_->space_seq.load(std::memory_order_seq_cst);
    const u64 free = slot_->drained.load(std::memory_order_seq_cst) + mask_ + 1 - position_;
    limit_ = position_ + free;
    if (free >= need) break;
    log_.kick();
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

void LogAppender::put(u64 at, const void *bytes, size_t count) {
  if (count == 0) return;
  u64 offset = at & mask_;
  size_t first = static_cast<size_t>(std::min<u64>(count, mask_ + 1 - offset));
  std::memcpy(ring_ + offset, bytes, first);
  if (first < count) std::memcpy(ring_, static_cast<const u8 *>(bytes) + first, count - first);
}

void LogAppender::append(const void *bytes, size_t count) {
  LS_CHECK(building_, "no log record has been started");
  LS_CHECK(cursor_ + count - position_ <= kMaxRecordBytes, "log record is too large");
  LS_CHECK(cursor_ + count <= limit_, "log space was not reserved");
  put(cursor_, bytes, count);
  cursor_ += count;
}

void LogAppender::start(RecordKind kind) {
  LS_CHECK(!building_, "a log record is being built already");
  LS_CHECK(position_ + sizeof(RecordHeader) <= limit_, "log space was not reserved");
  building_ = true;
  kind_ = kind;
  ops_ = 0;
  cursor_ = position_ + sizeof(RecordHeader);
}

void LogAppender::op(FileNo file, PageNo page, u16 code, std::span<const u8> a, std::span<const u8> b,
                     std::span<const u8> c) {
  size_t bytes = a.size() + b.size() + c.size();
  LS_CHECK(bytes <= kMaxRecordBytes && ops_ < UINT8_MAX, "log record is too large");
  PageOpHeader head{file, page, code, static_cast<u16>(bytes)};
  append(&head, sizeof head);
  append(a.data(), a.size());
  append(b.data(), b.size());
  append(c.data(), c.size());
  ops_++;
}

void LogAppender::raw(std::span<const u8> bytes) { append(bytes.data(), bytes.size()); }

void LogAppender::abandon() {
  building_ = false;
  cursor_ = position_;
}

// The record is complete but for its header.  Release pairs with the committer's acquire in collect: the bytes first.
void LogAppender::publish(Gsn gsn) {
  RecordHeader header{static_cast<u16>(cursor_ - position_), kind_, ops_, 0, gsn};
  put(position_, &header, sizeof header);
  slot_->published.store(cursor_, std::memory_order_release);
  bytes_ += cursor_ - position_;
  position_ = cursor_;
  building_ = false;
}

Gsn LogAppender::finish() {
  LS_CHECK(building_, "no log record has been started");
  std::atomic<Gsn> &counter = log_.shared()->counter;
  // L1.  The bound is at most the GSN drawn below, however stale the load.  The release half of the fetch_add keeps the
  // store before it; pairs with the committer's acquire of the counter: who sees our GSN there sees the bound or
  // something later.  Each store to `appending` is a release: who reads it sees everything published before it.
  slot_->appending.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  Gsn gsn = counter.fetch_add(1, std::memory_order_acq_rel) + 1;
  publish(gsn);
  slot_->appending.store(0, std::memory_order_release);
  return gsn;
}

// ---- commit in two steps

Gsn LogAppender::precommit() {
  LS_CHECK(held_ == 0 && !building_, "precommit in the wrong place");
  std::atomic<Gsn> &counter = log_.shared()->counter;
  slot_->precommit.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);  // as in finish()
  held_ = counter.fetch_add(1, std::memory_order_acq_rel) + 1;
  slot_->precommit.store(held_, std::memory_order_release);
  return held_;
}

// Whoever waits for something behind the GSN held may have been passed over by a round; nobody else would start the next.
// The committer reads `precommit` and we read `waiters` sequentially consistent: a waiter that we miss comes later and
// its own kick starts a round that sees our store.
void LogAppender::end_hold() {
  held_ = 0;
  slot_->precommit.store(0, std::memory_order_seq_cst);
  if (log_.shared()->waiters.load(std::memory_order_seq_cst) > 0) log_.kick();
}

Gsn LogAppender::confirm(Tn tn) {
  LS_CHECK(held_ != 0, "confirm without precommit");
  Gsn gsn = held_;
  start(RecordKind::kCommit);
  append(&tn, sizeof tn);
  publish(gsn);
  end_hold();
  return gsn;
}

void LogAppender::cancel_precommit() {
  LS_CHECK(held_ != 0, "cancel without precommit");
  end_hold();
}

}  // namespace ls
