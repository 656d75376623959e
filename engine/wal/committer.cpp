// committer.cpp - the thread that writes rounds on its own, for all that no worker waits for.
//
// With a host's log only the host's processes may write to it.  Then a turn is Log::pump(), by a
// thread of the host's, and the engine's thread makes segments ahead and syncs the relay log.
#include <unistd.h>

#include <algorithm>

#include "base/check.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"
#include "os/thread.hpp"
#include "wal/log_writer.hpp"
#include "wal/relay_files.hpp"
#include "wal/host_post.hpp"

namespace ls {

namespace {

constexpr u32 kRetryMs = 100;
// A round for which there is no memory is tried again for so long: commits wait for it.
constexpr u64 kMostWithoutMemoryMs = 10'000;
// Each attempt on a full disk fills what is left and gives it back.
constexpr u32 kSpareRetryMs = 1000;
// Without a kick the host's log is flushed as often for what nothing waits for.
constexpr u64 kPumpIdleMs = 200;

// Fills the next segment while the committer still writes the present one.  Failures are left to
// the committer: it meets them when it needs the segment.
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
  // See to it that there is a segment behind that of lsn; false when there is none because the disk
  // is full.
  bool want(Lsn lsn) {
    if (segments_.has_spare(lsn)) return true;
    if (wanted_.load(std::memory_order_acquire) == kIdle &&
        now_ms() >= not_before_ms_.load(std::memory_order_relaxed)) {
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
      const Status status =
          with_memory([&] { return segments_.make_spare(lsn_.load(std::memory_order_relaxed)); });
      if (!ok(status)) not_before_ms_.store(now_ms() + kSpareRetryMs, std::memory_order_relaxed);
      full_.store(code(status) == LS_NO_SPACE, std::memory_order_relaxed);
      // unless told to quit meanwhile
      wanted_.compare_exchange_strong(state, kIdle, std::memory_order_acq_rel);
    }
  }

  LogSegments &segments_;
  std::atomic<u32> wanted_{kIdle};
  std::atomic<Lsn> lsn_{0};
  std::atomic<u64> not_before_ms_{0};
  std::atomic<bool> full_{false};  // the last attempt failed for want of space
  Thread thread_;
};

// While the host's log is the log.
class RelayKeeper {
 public:
  explicit RelayKeeper(LogShared *shared)
      : shared_(shared),
        files_(shared->config.dir, shared->config.segment_bytes),
        synced_(shared->round.end.load(std::memory_order_acquire)) {}

  Status run(SpareMaker &spares, u32 idle_ms, const std::function<Status()> &sync_also) {
    for (;;) {
      const bool stopping = shared_->stop.load(std::memory_order_acquire) != 0;
      const u32 wanted = shared_->relay_wanted.load(std::memory_order_acquire);
      shared_->low_space.store(!spares.want(shared_->round.end.load(std::memory_order_acquire)),
                               std::memory_order_relaxed);
      if (stopping && !await_last_round())
        return fail(LS_IO_ERROR, "the log failed before its last round");
      if (stopping || wanted != shared_->relay_done.load(std::memory_order_relaxed)) {
        LS_TRY(sync());
        if (sync_also) LS_TRY(sync_also());
        shared_->relay_done.store(wanted, std::memory_order_release);
        futex_wake_all(&shared_->relay_done);
      }
      if (stopping) return kOk;
      futex_wait(&shared_->relay_wanted, wanted, i64{idle_ms} * 1000);
    }
  }

 private:
  // A round is in the buffer, or in the files, before its writer gives the mutex back.
  Status sync() {
    Lsn end;
    {
      const std::lock_guard guard(shared_->round.mutex);
      LS_TRY(files_.write_out(shared_->relay()));
      end = shared_->round.end.load(std::memory_order_relaxed);
    }
    LS_TRY(files_.sync(synced_, end));
    synced_ = end;
    return kOk;
  }

  bool await_last_round() {
    while (!shared_->stopped.load(std::memory_order_acquire)) {
      const u32 seq = shared_->hardened_seq.load(std::memory_order_seq_cst);
      if (shared_->failed.load(std::memory_order_acquire)) return false;
      if (shared_->stopped.load(std::memory_order_acquire)) break;
      Log::attach(shared_).kick();
      futex_wait(&shared_->hardened_seq, seq, i64{kRetryMs} * 1000);
    }
    return true;
  }

  LogShared *shared_;
  RelayFiles files_;
  Lsn synced_;
};

void end_committing(LogShared *shared) {
  shared->stopped.store(1, std::memory_order_release);
  shared->hardened_seq.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(&shared->hardened_seq);
}

// False: there was no kick.
bool await_kick(LogShared *shared, i64 timeout_us) {
  u32 awake = kCommitterAwake;
  if (!shared->kick.compare_exchange_strong(awake, kCommitterSleeping, std::memory_order_acq_rel) &&
      awake == kCommitterKicked)
    return true;
  futex_wait_interruptible(&shared->kick, kCommitterSleeping, timeout_us);
  return shared->kick.load(std::memory_order_acquire) == kCommitterKicked;
}

}  // namespace

Status LogWriter::committer_turn(CommitterTurn *turn) {
  turn->stopping = shared_->stop.load(std::memory_order_acquire) != 0;
  // Before collecting: a kick from here on starts another round.  Acquire pairs with wake().
  const bool kicked =
      shared_->kick.exchange(kCommitterAwake, std::memory_order_acq_rel) == kCommitterKicked;
  // Acquire pairs with kick().  Workers that only want room do not keep what others have logged
  // from being hardened in its time: kicks for that are heard here, commits are seen in the
  // round, and when no kick comes any more everything is hardened.
  const bool harden = shared_->harden_wanted.exchange(0, std::memory_order_acq_rel) != 0 ||
                      !kicked || turn->stopping;
  u64 wrote;
  const Status status = round(harden ? RoundFor::kHarden : RoundFor::kRoom, &wrote);
  const bool full = code(status) == LS_NO_SPACE;
  turn->lacks_memory = code(status) == LS_NO_MEMORY;
  if (!turn->lacks_memory) without_memory_ms_ = 0;
  else if (without_memory_ms_ == 0) without_memory_ms_ = now_ms();
  turn->later =
      full || (turn->lacks_memory && now_ms() - without_memory_ms_ < kMostWithoutMemoryMs);
  return !ok(status) && (turn->stopping || !turn->later) ? status : kOk;
}

Status Log::run_committer(u32 idle_ms, const std::function<Status()> &sync_also) {
  std::shared_ptr<LogWriter> writer = log_writer_of(shared_);
  if (!writer) return fail(LS_INVALID, "the log is not open for appending");
  SpareMaker spares(writer->segments());
  LS_TRY(spares.start());
  if (shared_->config.host_log) return RelayKeeper(shared_).run(spares, idle_ms, sync_also);
  for (u32 blocked = 0;;) {
    CommitterTurn turn;
    LS_TRY(writer->committer_turn(&turn));
    // Without an ear for kicks: backends that wait for room would have it tried all the time.
    if (turn.lacks_memory) {
      futex_wait(&shared_->stop, 0, i64{kRetryMs} * 1000);
      continue;
    }
    if (turn.stopping) break;  // that was the round after the last append
    shared_->low_space.store(!spares.want(shared_->round.end.load(std::memory_order_acquire)),
                             std::memory_order_relaxed);
    if (!turn.later && writer->blocked_by_append() &&
        shared_->waiters.load(std::memory_order_relaxed) > 0) {
      pause_for_append(blocked++);
      continue;
    }
    blocked = 0;
    u32 awake = kCommitterAwake;
    if (shared_->kick.compare_exchange_strong(awake, kCommitterSleeping,
                                              std::memory_order_acq_rel)) {
      futex_wait(&shared_->kick, kCommitterSleeping, i64{turn.later ? kRetryMs : idle_ms} * 1000);
    }
  }
  end_committing(shared_);
  return kOk;
}

// ---- with a host's log

Status Log::pump(u32 wait_us) {
  std::shared_ptr<LogWriter> writer = log_writer_of(shared_);
  if (!writer || shared_->stopped.load(std::memory_order_acquire)) {
    usleep(wait_us);
    return kOk;
  }
  const bool kicked = await_kick(shared_, wait_us);
  insert_posted();
  note_flushed();
  const u64 lately_ms = shared_->pumped_ms.load(std::memory_order_relaxed);
  if (!kicked && now_ms() - lately_ms < kPumpIdleMs) return kOk;
  CommitterTurn turn;
  LS_TRY(writer->committer_turn(&turn));
  shared_->pumped_ms.store(now_ms(), std::memory_order_relaxed);
  if (turn.lacks_memory || turn.later) {
    futex_wait(&shared_->stop, 0, wait_us);
  } else if (turn.stopping) {
    end_committing(shared_);
  } else if (writer->blocked_by_append() &&
             shared_->waiters.load(std::memory_order_relaxed) > 0) {
    pause_for_append(0);
    kick();
  }
  return kOk;
}

// The newest of the last rounds that is flushed: all before it are.
void Log::note_flushed() {
  WrittenRounds &written = shared_->written;
  const u64 latest = written.latest.load(std::memory_order_acquire);
  if (!host_log() || latest == written.noted.load(std::memory_order_relaxed)) return;
  const u64 flushed = host_log()->flushed();
  WrittenRounds::Round found{};
  {
    const std::lock_guard guard(written.mutex);
    for (u64 i = written.count; i > 0 && i + kWrittenRounds > written.count; i--) {
      const WrittenRounds::Round &round = written.rounds[(i - 1) % kWrittenRounds];
      if (round.mark.host > flushed) continue;
      found = round;
      break;
    }
    if (found.mark.host <= written.noted.load(std::memory_order_relaxed)) return;
    written.noted.store(found.mark.host, std::memory_order_relaxed);
  }
  log_publish(shared_, found.mark.end, found.max_written, found.complete);
}

// What this run has not written needs no sync, whether there is a committer or not.
u32 Log::request_relay_sync() {
  {
    const std::lock_guard guard(shared_->round.mutex);
    if (shared_->written.count == 0) return shared_->relay_done.load(std::memory_order_relaxed);
  }
  const u32 mine = shared_->relay_wanted.fetch_add(1, std::memory_order_acq_rel) + 1;
  futex_wake_all(&shared_->relay_wanted);
  return mine;
}

Status Log::complete_relay() const {
  if (!shared_->config.host_log) return kOk;
  RelayFiles files(shared_->config.dir, shared_->config.segment_bytes);
  const std::lock_guard guard(shared_->round.mutex);
  return files.write_out(shared_->relay());
}

// Numbers wrap around.
bool Log::relay_is_synced(u32 request) const {
  const u32 done = shared_->relay_done.load(std::memory_order_acquire);
  return static_cast<i32>(done - request) >= 0;
}

}  // namespace ls
