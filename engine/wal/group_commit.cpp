// Group commit: collect what all slots have published, write it as one round, sync once, tell everybody.
//
// Why complete_gsn is right (log.hpp, L1-L3).  Let g be a GSN at or below the counter value C read first.  The counter is
// changed by read-modify-writes only, so our acquire load synchronizes with the fetch_add that drew g, and everything the
// owner did before is visible: `appending` (or `precommit`) shows its bound <= g or a later value.
//   - the bound: complete_gsn stays below it, hence below g;
//   - a later value: it was stored (release) after the record of g was published, and we read it with acquire, so
//     the load of `published` that follows covers the record.
// A bound may be older than a complete_gsn computed before (its owner loaded the counter long ago and then slept); what
// was complete then still is, so the maximum of both is taken.
//
// What is acknowledged is `hardened`.  It follows complete_gsn only when that number itself is in a durable round, because
// recovery cuts there.  So a round without chunks is written when complete_gsn has moved past records that earlier rounds
// contain but did not cover.  When there is no such record (a cancelled precommit) `hardened` moves without a write:
// no record lies between.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.hpp"
#include "base/crc32c.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"
#include "os/thread.hpp"
#include "wal/log_writer.hpp"

namespace ls {

namespace {

constexpr u32 kNoSpaceRetryMs = 100;
// A worker that was preempted while it draws a GSN holds everybody up: give it the CPU, then more than that.
constexpr u32 kBlockedYields = 32;
constexpr u32 kBlockedSleepUs = 100;
// Each attempt on a full disk fills what is left and gives it back.
constexpr u32 kSpareRetryMs = 1000;

}  // namespace

LogWriter::LogWriter(LogShared *shared, Lsn lsn, Gsn gsn, u64 run)
    : shared_(shared),
      segments_(shared->config.dir, shared->config.segment_bytes, shared->config.fsync),
      end_(lsn),
      run_(run),
      complete_(gsn),
      persisted_(gsn),
      max_written_(gsn) {}

// Fill collected_; returns complete_gsn of what it has.
Gsn LogWriter::collect() {
  collected_.clear();
  Gsn limit = shared_->counter.load(std::memory_order_acquire);  // pairs with finish() and precommit(); comes first
  Gsn append_limit = std::numeric_limits<Gsn>::max();
  // A slot attached later draws its first GSN after the counter was read.
  u32 slots = shared_->slots_used.load(std::memory_order_acquire);
  for (u32 i = 0; i < slots; i++) {
    LogSlot &slot = shared_->slots()[i];
    Gsn appending = slot.appending.load(std::memory_order_acquire);
    Gsn precommit = slot.precommit.load(std::memory_order_seq_cst);  // see end_hold()
    u64 published = slot.published.load(std::memory_order_acquire);
    if (appending != 0) append_limit = std::min(append_limit, appending - 1);
    if (precommit != 0) limit = std::min(limit, precommit - 1);
    u64 drained = slot.drained.load(std::memory_order_relaxed);  // only we write it
    if (published != drained) collected_.push_back({i, drained, published});
  }
  blocked_by_append_ = append_limit < limit;
  return std::max(complete_, std::min(limit, append_limit));
}

// Largest GSN and number of commits in records just copied.
void LogWriter::inspect(const u8 *records, u64 bytes) {
  u64 commits = 0;
  while (bytes > 0) {
    RecordHeader header;
    LS_CHECK(bytes >= sizeof header, "log buffer holds a broken record");
    std::memcpy(&header, records, sizeof header);
    LS_CHECK(header.bytes >= sizeof header && header.bytes <= bytes, "log buffer holds a broken record");
    round_max_ = std::max(round_max_, header.gsn);
    commits += header.kind == RecordKind::kCommit;
    records += header.bytes;
    bytes -= header.bytes;
  }
  if (commits > 0) shared_->stat_commits.fetch_add(commits, std::memory_order_relaxed);
}

// Copy one slot's records behind the round being built and give the ring space back.
void LogWriter::stage(const Collected &part) {
  const u64 buffer = shared_->config.buffer_bytes;
  const u8 *ring = shared_->ring(part.slot);
  const u64 bytes = part.to - part.from;
  LS_CHECK(bytes <= buffer, "log buffer overrun");
  ChunkHeader chunk{part.slot, static_cast<u32>(bytes)};
  const u8 *head = reinterpret_cast<const u8 *>(&chunk);
  staging_.insert(staging_.end(), head, head + sizeof chunk);
  const u64 offset = part.from & (buffer - 1);
  const u64 first = std::min(bytes, buffer - offset);
  staging_.insert(staging_.end(), ring + offset, ring + offset + first);
  staging_.insert(staging_.end(), ring, ring + (bytes - first));
  chunks_++;
  LogSlot &slot = shared_->slots()[part.slot];
  // Release half: our reads of the ring come first; pairs with LogAppender::space.  Sequentially consistent for
  // space_waiting, see reserve().
  slot.drained.store(part.to, std::memory_order_seq_cst);
  if (slot.space_waiting.load(std::memory_order_seq_cst)) {
    slot.space_seq.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(&slot.space_seq);
  }
  inspect(staging_.data() + staging_.size() - bytes, bytes);
}

// Write what staging_ holds as one round.
Status LogWriter::flush_round(Gsn complete) {
  RoundHeader header{kLogMagic, kLogVersion, chunks_, end_, static_cast<u32>(staging_.size()), 0, complete, run_};
  std::memcpy(staging_.data(), &header, sizeof header);
  header.crc = crc32c(0, staging_.data(), staging_.size());
  std::memcpy(staging_.data(), &header, sizeof header);
  log_add_position(shared_->positions, end_, max_written_);
  LS_TRY(segments_.write(end_, staging_));
  end_ += staging_.size();
  max_written_ = std::max(max_written_, round_max_);
  shared_->stat_bytes.fetch_add(staging_.size(), std::memory_order_relaxed);
  shared_->stat_rounds.fetch_add(1, std::memory_order_relaxed);
  return kOk;
}

// One round, or several when there is much: all but the last carry the old complete_gsn, which they keep true.
Status LogWriter::write_collected(Gsn complete) {
  auto begin = [&] {
    staging_.assign(sizeof(RoundHeader), 0);
    chunks_ = 0;
    round_max_ = 0;
  };
  begin();
  for (const Collected &part : collected_) {
    u64 more = sizeof(ChunkHeader) + (part.to - part.from);
    if (chunks_ > 0 && (staging_.size() + more > kStagingBytes || chunks_ == UINT16_MAX)) {
      LS_TRY(flush_round(persisted_));
      begin();
    }
    stage(part);
  }
  return flush_round(complete);
}

Status LogWriter::sync() {
  u64 before = now_ns();
  u32 files;
  LS_TRY(segments_.sync(&files));
  if (files > 0) {
    shared_->stat_fsyncs.fetch_add(files, std::memory_order_relaxed);
    shared_->stat_fsync_ns.fetch_add(now_ns() - before, std::memory_order_relaxed);
  }
  return kOk;
}

void LogWriter::publish_hardened(Gsn complete) {
  complete_ = complete;
  if (shared_->hardened.load(std::memory_order_relaxed) >= complete) return;
  shared_->hardened.store(complete, std::memory_order_release);  // pairs with Log::hardened
  shared_->hardened_seq.fetch_add(1, std::memory_order_seq_cst);
  if (shared_->waiters.load(std::memory_order_seq_cst) > 0) futex_wake_all(&shared_->hardened_seq);
}

void LogWriter::publish(Gsn complete) {
  {
    FutexGuard guard(shared_->positions.mutex);
    shared_->positions.end = end_;
    shared_->positions.max_written = max_written_;
  }
  shared_->end.store(end_, std::memory_order_release);
  persisted_ = complete;
  publish_hardened(complete);
}

void LogWriter::fail_log() {
  shared_->failed.store(1, std::memory_order_release);
  for (u32 i = 0; i < shared_->config.slots; i++) {
    LogSlot &slot = shared_->slots()[i];
    slot.space_seq.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(&slot.space_seq);
  }
}

Status LogWriter::round(u64 *wrote) {
  std::lock_guard lock(mutex_);
  *wrote = 0;
  if (shared_->failed.load(std::memory_order_relaxed)) return fail(LS_IO_ERROR, "the log could not be written");
  Gsn complete = collect();
  bool uncovered = max_written_ > persisted_ && complete > persisted_;
  if (collected_.empty() && !uncovered) {
    publish_hardened(complete);
    return kOk;
  }
  // Room first: nothing has left the buffers when there is none.
  u64 most = sizeof(RoundHeader);
  for (const Collected &part : collected_) most += sizeof(RoundHeader) + sizeof(ChunkHeader) + (part.to - part.from);
  Status status = segments_.ensure(end_, end_ + most);
  shared_->no_space.store(code(status) == LS_NO_SPACE, std::memory_order_release);
  if (code(status) == LS_NO_SPACE) return status;
  Lsn before = end_;
  if (ok(status)) status = write_collected(complete);
  if (ok(status)) status = sync();
  if (!ok(status)) {
    fail_log();
    return status;
  }
  *wrote = end_ - before;
  publish(complete);
  return kOk;
}

Status Log::commit_round(u64 *wrote) {
  std::shared_ptr<LogWriter> writer = log_writer_of(shared_);
  if (!writer) return fail(LS_INVALID, "the log is not open for appending");
  return writer->round(wrote);
}

namespace {

// Fills the next segment while the committer still writes the present one.  Failures are left to the committer: it
// meets them when it needs the segment.
class SpareMaker {
 public:
  explicit SpareMaker(LogSegments &segments) : segments_(segments) {}
  ~SpareMaker() {
    wanted_.store(kQuit, std::memory_order_release);
    futex_wake_all(&wanted_);
    thread_.join();
  }
  Status start() {
    return thread_.start("ls log segment", [this] { run(); });
  }
  // See to it that there is a segment behind that of lsn; false when there is none because the disk is full.
  bool want(Lsn lsn) {
    if (segments_.has_spare(lsn)) return true;
    if (wanted_.load(std::memory_order_acquire) == kIdle && now_ms() >= not_before_ms_.load(std::memory_order_relaxed)) {
      lsn_.store(lsn, std::memory_order_relaxed);
      wanted_.store(kWork, std::memory_order_release);  // pairs with the load in run()
      futex_wake_all(&wanted_);
    }
    return !full_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr u32 kIdle = 0, kWork = 1, kQuit = 2;

  void run() {
    for (;;) {
      u32 state = wanted_.load(std::memory_order_acquire);
      if (state == kQuit) return;
      if (state == kIdle) {
        futex_wait(&wanted_, kIdle, -1);
        continue;
      }
      Status status = segments_.make_spare(lsn_.load(std::memory_order_relaxed));
      if (!ok(status)) not_before_ms_.store(now_ms() + kSpareRetryMs, std::memory_order_relaxed);
      full_.store(code(status) == LS_NO_SPACE, std::memory_order_relaxed);
      wanted_.compare_exchange_strong(state, kIdle, std::memory_order_acq_rel);  // unless told to quit meanwhile
    }
  }

  LogSegments &segments_;
  std::atomic<u32> wanted_{kIdle};
  std::atomic<Lsn> lsn_{0};
  std::atomic<u64> not_before_ms_{0};
  std::atomic<bool> full_{false};  // the last attempt failed for want of space
  Thread thread_;
};

}  // namespace

Status Log::run_committer(u32 idle_ms) {
  std::shared_ptr<LogWriter> writer = log_writer_of(shared_);
  if (!writer) return fail(LS_INVALID, "the log is not open for appending");
  SpareMaker spares(writer->segments());
  LS_TRY(spares.start());
  std::atomic<u32> &kick = shared_->kick;
  u32 blocked = 0;
  for (;;) {
    bool stopping = shared_->stop.load(std::memory_order_acquire) != 0;
    // Before collecting: a kick from here on starts another round.  Acquire pairs with kick().
    kick.exchange(kCommitterAwake, std::memory_order_acq_rel);
    u64 wrote;
    Status status = writer->round(&wrote);
    bool full = code(status) == LS_NO_SPACE;
    if (!ok(status) && !(full && !stopping)) return status;
    if (stopping) break;  // that was the round after the last append
    shared_->low_space.store(!spares.want(end()), std::memory_order_relaxed);
    if (!full && writer->blocked_by_append() && shared_->waiters.load(std::memory_order_relaxed) > 0) {
      if (++blocked < kBlockedYields) {
        sched_yield();
      } else {
        usleep(kBlockedSleepUs);
      }
      continue;
    }
    blocked = 0;
    u32 awake = kCommitterAwake;
    if (kick.compare_exchange_strong(awake, kCommitterSleeping, std::memory_order_acq_rel)) {
      futex_wait(&kick, kCommitterSleeping, i64{full ? kNoSpaceRetryMs : idle_ms} * 1000);
    }
  }
  shared_->stopped.store(1, std::memory_order_release);
  shared_->hardened_seq.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(&shared_->hardened_seq);
  return kOk;
}

}  // namespace ls
