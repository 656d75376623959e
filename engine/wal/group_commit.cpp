// Group commit: collect what all slots have published, write it as one round, sync once, wake the
// workers that wait for it.
//
// Why complete_gsn is right (log.hpp, LOG-1 and LOG-2).  Let g be a GSN at or below the counter
// value C read first.  The counter is changed by read-modify-writes only, so the acquire load of
// collect() synchronizes with the fetch_add that drew g, and everything the owner did before is
// visible: `appending` shows its bound <= g or a later value.
//   - the bound: complete_gsn stays below it, hence below g;
//   - a later value: it was stored (release) after the record of g was published, and is read with
//     acquire, so the load of `published` that follows covers the record.
// A bound may be older than a complete_gsn computed before (its owner loaded the counter long ago
// and then slept); what was complete then still is, so the maximum of both is taken.
//
// What is acknowledged is `hardened`.  It follows complete_gsn only when that number itself is in a
// durable round, because recovery cuts there.  So a round without chunks is written when
// complete_gsn has moved past records that earlier rounds contain but did not cover.
//
// The mutex is held while a round is collected and written, not while it is synced: the next one is
// collected, and waits for its commit group, meanwhile, and may be synced at the same time.  That
// cannot acknowledge too much: a round is written when all before it have been, so its sync, begun
// after that, covers them; and after a failure `failed` keeps workers and committer from starting
// another.
//
// A round that only makes room in the buffers (a bulk load) is written and not synced: the next one
// that is waited for is synced with all before it, and only then `hardened`, `end` and the position
// table move.  A crash may tear any of them; none proves anything about another
// (StoredRoundHeader's durable_lsn is that of the last sync), so the log ends at the first that is
// not whole.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"
#include "os/host_watch.hpp"
#include "os/thread.hpp"
#include "wal/log_writer.hpp"

namespace ls {

namespace {

constexpr u32 kBlockedYields = 32;
constexpr u32 kBlockedSleepUs = 100;
// gather(): what it may take, however long rounds take; and after how many rounds without a commit
// a worker is in no commit group any more.
constexpr u64 kMostGatherNs = 1'000'000;
constexpr u32 kCommitGroupRounds = 8;
// What happened lately: the last so many rounds count most.
constexpr u32 kRoundsLately = 16;
// Where no commit joins, it is tried again in one round of so many.
constexpr u32 kTryAgainRounds = 16;
// Rounds are synced when they have so much together, asked for or not: what a commit behind them
// has to wait for is bounded.
constexpr u64 kMostUnsynced = 16 << 20;

}  // namespace

LogWriter::LogWriter(LogShared *shared, std::unique_ptr<LogSegments> segments)
    : shared_(shared),
      state_(shared->round),
      segments_(std::move(segments)),
      sink_(make_log_sink(shared)) {
  const FileNames *names = shared->config.host_log ? log_file_names_of(shared) : nullptr;
  if (names) places_ = std::make_unique<ChangedPlaces>(*names);
  collected_.reserve(shared->config.slots);
}

// Fill collected_; returns complete_gsn of what it has.
Gsn LogWriter::collect() {
  collected_.clear();
  // Pairs with finish(); comes first.
  const Gsn counter = shared_->counter.load(std::memory_order_acquire);
  Gsn limit = counter;
  // A slot attached later draws its first GSN after the counter was read.
  u32 slots = shared_->slots_used.load(std::memory_order_acquire);
  for (u32 i = 0; i < slots; i++) {
    LogSlot &slot = shared_->slots()[i];
    Gsn appending = slot.appending.load(std::memory_order_acquire);
    u64 published = slot.published.load(std::memory_order_acquire);
    if (appending != 0) limit = std::min(limit, appending - 1);
    // changed under the round mutex only
    u64 drained = slot.drained.load(std::memory_order_relaxed);
    LS_ASSERT(drained <= published);   // SLOT-1
    if (published != drained) collected_.push_back({i, drained, published});
  }
  blocked_by_append_ = limit < counter;
  state_.complete = std::max(state_.complete, limit);
  LS_ASSERT(state_.complete <= counter);   // LOG-2
  return state_.complete;
}

// Largest GSN and number of commits in records just copied.  A commit behind the collection's
// complete_gsn waits for a record of another slot that draws its GSN at this moment.
void LogWriter::inspect(LogSlot &slot, LogBytes records) {
  u64 commits = 0, held = 0;
  while (!records.empty()) {
    LogRecord record;
    LS_CHECK(load_record(&records, slot.drained_gsn, &record) == nullptr,
             "log buffer holds a broken record");
    LS_CHECK(record.gsn > state_.persisted, "a round was complete without this record");   // WAL-1
    LS_ASSERT(record.gsn > slot.drained_gsn);   // LOG-1
    slot.drained_gsn = record.gsn;
    round_max_ = std::max(round_max_, record.gsn);
    commits += record.kind == RecordKind::kCommit;
    held += record.kind == RecordKind::kCommit && record.gsn > target_;
    if (places_) places_->add(record);
  }
  commits_ |= commits > 0;
  if (commits > 0) shared_->stat_commits.fetch_add(commits, std::memory_order_relaxed);
  if (held > 0) shared_->stat_commits_held.fetch_add(held, std::memory_order_relaxed);
}

// Copy one slot's records behind the round being built and give the ring space back.  From here on
// nothing may need memory.
void LogWriter::stage(const Collected &part, Gsn complete) {
  LogSlot &slot = shared_->slots()[part.slot];
  const u64 buffer = shared_->config.buffer_bytes;
  const u8 *ring = shared_->ring(part.slot);
  const u64 bytes = part.to - part.from;
  LS_CHECK(bytes <= buffer, "log buffer overrun");
  LS_ASSERT(part.from == slot.drained.load(std::memory_order_relaxed));   // SLOT-1
  LS_ASSERT(staging_.capacity() - staging_.size() >= kMaxChunkHeadBytes + bytes);
  u8 head[kMaxChunkHeadBytes];
  const u32 head_bytes =
      store_chunk_head({part.slot, static_cast<u32>(bytes), slot.drained_gsn}, complete, head);
  staging_.insert(staging_.end(), head, head + head_bytes);
  const u64 offset = part.from & (buffer - 1);
  const u64 first = std::min(bytes, buffer - offset);
  staging_.insert(staging_.end(), ring + offset, ring + offset + first);
  staging_.insert(staging_.end(), ring, ring + (bytes - first));
  // Release half: the reads of the ring come first; pairs with LogAppender::space.  Sequentially
  // consistent for space_waiting, see reserve().
  slot.drained.store(part.to, std::memory_order_seq_cst);
  if (slot.space_waiting.load(std::memory_order_seq_cst)) {
    slot.space_seq.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(&slot.space_seq);
  }
  inspect(slot, LogBytes(staging_).last(bytes));
}

Status LogWriter::write_round(std::span<const Collected> parts, Gsn complete) {
  LS_ASSERT(complete >= state_.persisted);   // WAL-3
  const u32 before = sink_->begin(end_, &staging_);
  staging_.resize(before + kRoundHeaderBytes);
  round_max_ = 0;
  if (places_) places_->begin(state_);
  for (const Collected &part : parts) stage(part, complete);
  if (places_) places_->insert();   // PLACE-1
  const u32 bytes = static_cast<u32>(staging_.size()) - before;
  store_round_header({end_, bytes, 0, complete, state_.run, durable_}, staging_.data() + before);
  log_add_position(shared_->positions, end_, state_.max_written);
  LS_TRY(sink_->write(end_, before, &staging_));
  end_ += bytes;
  state_.max_written = std::max(state_.max_written, round_max_);
  shared_->stat_bytes.fetch_add(bytes, std::memory_order_relaxed);
  shared_->stat_rounds.fetch_add(1, std::memory_order_relaxed);
  return kOk;
}

// One round, or several when there is much: all but the last carry the old complete_gsn, which they
// keep true.
Status LogWriter::write_collected(Gsn complete) {
  std::span<const Collected> left(collected_);
  for (;;) {
    size_t n = 0;
    for (u64 bytes = kRoundHeaderBytes; n < left.size(); n++) {
      bytes += kMaxChunkHeadBytes + (left[n].to - left[n].from);
      if (n > 0 && bytes > kStagingBytes) break;
    }
    const bool last = n == left.size();
    LS_TRY(write_round(left.first(n), last ? complete : state_.persisted));
    if (last) break;
    left = left.subspan(n);
  }
  state_.persisted = complete;
  LS_ASSERT(end_ > state_.end.load(std::memory_order_relaxed));
  state_.end.store(end_, std::memory_order_release);
  return kOk;
}

// What commits of this round refer to, in other files.
Status LogWriter::sync_beside() {
  LS_ASSERT(state_.mutex.is_locked());
  u64 before = now_ns();
  u32 files;
  LS_TRY(shared_->file_syncs.run(&files));
  if (files > 0) {
    shared_->stat_fsyncs.fetch_add(files, std::memory_order_relaxed);
    shared_->stat_fsync_ns.fetch_add(now_ns() - before, std::memory_order_relaxed);
  }
  return kOk;
}

Status LogWriter::sync_files() {
  const std::lock_guard guard(state_.mutex);
  if (shared_->failed.load(std::memory_order_relaxed)) {
    set_last_error(state_.failure);
    return Status(state_.failure.status);
  }
  const Status status = sync_beside();
  return ok(status) || code(status) == LS_NO_MEMORY ? status : fail_log(status);
}

// Everything written, by whatever process.
Status LogWriter::sync() {
  u64 before = now_ns();
  u32 files;
  LS_TRY(sink_->sync(shared_->end.load(std::memory_order_relaxed), {end_, host_}, &files));
  if (files > 0) {
    shared_->stat_fsyncs.fetch_add(files, std::memory_order_relaxed);
    shared_->stat_fsync_ns.fetch_add(now_ns() - before, std::memory_order_relaxed);
  }
  return kOk;
}

// Several rounds may be synced at a time, and end in any order: the maximum counts.  A sync covers
// all that was written before it began.
namespace {

void publish_hardened(LogShared *shared, Gsn complete) {
  LS_ASSERT(complete <= shared->counter.load(std::memory_order_relaxed));   // SLOT-3
  Gsn before = shared->hardened.load(std::memory_order_relaxed);
  do {
    if (before >= complete) return;
  } while (!shared->hardened.compare_exchange_weak(
      before, complete, std::memory_order_seq_cst));  // pairs with Log::hardened
  shared->hardened_seq.fetch_add(1, std::memory_order_seq_cst);
  if (shared->watchers.load(std::memory_order_seq_cst) > 0) futex_wake_all(&shared->hardened_seq);
}

}  // namespace

void log_publish(LogShared *shared, Lsn end, Gsn max_written, Gsn complete) {
  LS_ASSERT(end <= shared->round.end.load(std::memory_order_acquire));   // WAL-7
  {
    PositionTable &positions = shared->positions;
    const std::lock_guard guard(positions.mutex);
    positions.end = std::max(positions.end, end);
    positions.max_written = std::max(positions.max_written, max_written);
    shared->end.store(positions.end, std::memory_order_release);
  }
  publish_hardened(shared, complete);
}

void LogWriter::publish(Gsn complete) { log_publish(shared_, end_, written_max_, complete); }

// Under the mutex.  The first failure is what is reported.
Status LogWriter::fail_log(Status status) {
  LS_ASSERT(state_.mutex.is_locked());
  if (shared_->failed.load(std::memory_order_relaxed)) return status;
  state_.failure = last_error();
  state_.failure.status = code(status);
  shared_->failed.store(1, std::memory_order_release);
  for (u32 i = 0; i < shared_->config.slots; i++) {
    LogSlot &slot = shared_->slots()[i];
    slot.space_seq.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(&slot.space_seq);
  }
  return status;
}

// A worker takes what is short and fits; making room, and much data, are the committer's.  The log
// does not end where no segment is yet (SEG-1).
bool LogWriter::is_ours(u64 most) const {
  if (segments_) return true;
  return (most <= kWorkerRoundBytes || shared_->config.host_log) &&
         end_ + most < shared_->ready_until.load(std::memory_order_acquire);
}

// A worker that waits without having asked for this round is seen here, or sees the mutex and is
// woken at the round's end (wake_waiters).
bool LogWriter::must_sync() const {
  const bool commits = commits_ && !shared_->config.host_log;   // the host flushes its own
  return commits || end_ - shared_->end.load(std::memory_order_relaxed) >= kMostUnsynced ||
         shared_->waiters.load(std::memory_order_seq_cst) > 0;
}

// Whatever the round may need: nothing has left the buffers when it is not to be had.  LS_NO_SPACE,
// LS_NO_MEMORY: it may be later.
Status LogWriter::make_room(u64 most) {
  return with_memory([&] {
    if (segments_) LS_TRY(segments_->ensure(end_, end_ + most));
    u64 largest = 0;
    for (const Collected &part : collected_) largest = std::max(largest, part.to - part.from);
    // A round is cut at kStagingBytes, but not within a part (write_collected).
    const u64 staged = std::min(
        most, std::max<u64>(kStagingBytes, kRoundHeaderBytes + kMaxChunkHeadBytes + largest));
    staging_.reserve(std::bit_ceil(staged + 2 * kLogBlockBytes));
    // The sync begins where the last one has ended.
    return sink_->open(shared_->end.load(std::memory_order_relaxed), end_, end_ + most);
  });
}

// Rounds in the host's log, of which it is not known yet how far that is durable.
void LogWriter::note_written(Gsn complete) {
  WrittenRounds &written = shared_->written;
  const std::lock_guard guard(written.mutex);
  written.rounds[written.count++ % kWrittenRounds] = {{end_, state_.host}, complete,
                                                      state_.max_written};
  written.latest.store(state_.host, std::memory_order_release);
  // A segment behind that of the end is to be there; where none can be made writers have to hear of
  // that while there still is room.
  const u64 segment = shared_->config.segment_bytes;
  if (shared_->ready_until.load(std::memory_order_relaxed) < (end_ / segment + 2) * segment)
    futex_wake_all(&shared_->relay_wanted);
}

// Under the mutex: one round, up to its sync.
Status LogWriter::write(RoundFor purpose, u64 *wrote) {
  LS_ASSERT(state_.mutex.is_locked());
  *wrote = 0;
  must_finish_ = only_made_room_ = false;
  if (shared_->failed.load(std::memory_order_relaxed)) {
    set_last_error(state_.failure);
    return Status(state_.failure.status);
  }
  const Lsn durable = shared_->end.load(std::memory_order_relaxed);
  const Lsn begin = end_ = state_.end.load(std::memory_order_relaxed);
  LS_ASSERT(durable <= begin);   // WAL-4
  durable_ = shared_->config.fsync ? durable : 0;
  host_ = state_.host;
  commits_ = false;
  const Gsn complete = target_ = collect();
  bool uncovered = state_.max_written > state_.persisted && complete > state_.persisted;
  const bool writes = !collected_.empty() || uncovered;
  if (!writes && begin == durable) {
    publish_hardened(shared_, complete);
    return kOk;
  }
  if (!writes && purpose == RoundFor::kWriteOut) return kOk;
  // It is being synced already, by a worker or the committer, which wakes the waiting ones then.
  // Before the log ends that is not relied on.
  if (!writes && state_.syncing_to.load(std::memory_order_relaxed) >= begin &&
      !shared_->stop.load(std::memory_order_acquire))
    return kOk;
  started_ns_ = now_ns();
  state_.number.fetch_add(1, std::memory_order_relaxed);
  // Room first: nothing has left the buffers when there is none.
  u64 most = kRoundHeaderBytes;
  for (const Collected &part : collected_)
    most += kRoundHeaderBytes + kMaxChunkHeadBytes + (part.to - part.from);
  if (!is_ours(most)) {
    Log::attach(shared_).kick();
    return kOk;
  }
  Status status = make_room(most);
  if (segments_) shared_->no_space.store(code(status) == LS_NO_SPACE, std::memory_order_release);
  if (code(status) == LS_NO_MEMORY) return status;
  if (code(status) == LS_NO_SPACE) {
    // What is in the files already need not wait for room.
    if (begin != durable && !ok(sync())) return fail_log(make_status(last_error().status));
    written_max_ = state_.max_written;
    publish(state_.persisted);
    return status;
  }
  if (ok(status)) status = sync_beside();
  if (code(status) == LS_NO_MEMORY) return status;
  if (ok(status) && writes) status = write_collected(complete);
  if (!ok(status)) return fail_log(status);
  *wrote = end_ - begin;
  if (shared_->config.host_log && writes) note_written(complete);
  only_made_room_ = purpose == RoundFor::kWriteOut || (purpose == RoundFor::kRoom && !must_sync());
  if (only_made_room_) return kOk;
  must_finish_ = true;
  host_ = state_.host;
  written_max_ = state_.max_written;
  // Sequentially consistent, as LogAppender::wait_hardened: a worker that finds its commit under
  // way is woken when this sync ends.
  state_.syncing.fetch_add(1, std::memory_order_seq_cst);
  state_.syncing_gsn.store(complete, std::memory_order_seq_cst);
  state_.syncing_to.store(end_, std::memory_order_relaxed);
  return kOk;
}

// Without the mutex: the sync, while another worker or the committer may write the next round.
Status LogWriter::finish() noexcept {
  hand_over();
  Status status = sync();
  if (!ok(status)) {
    const std::lock_guard guard(state_.mutex);
    status = fail_log(status);
  } else if (!shared_->failed.load(
                 std::memory_order_acquire)) {  // else all wait for the host's PANIC
    publish(target_);
    const u64 lately = state_.lately_ns.load(std::memory_order_relaxed);
    state_.lately_ns.store(
        lately + (now_ns() - started_ns_) / kRoundsLately - lately / kRoundsLately,
        std::memory_order_relaxed);
  }
  LS_ASSERT(state_.syncing.load(std::memory_order_relaxed) > 0);
  state_.syncing.fetch_sub(1, std::memory_order_seq_cst);
  return status;
}

// ---- the next one to write a round

void pause_for_append(u32 times) {
  if (times < kBlockedYields) {
    sched_yield();
  } else {
    usleep(kBlockedSleepUs);
    watch_host();
  }
}

// A sync costs the same for one commit and for many, much of it CPU.  So a worker that is about to
// write a round sleeps until a quarter of the workers that have waited for a commit lately, and are
// in none of the rounds that are being synced, are in line for this one; the others have the CPU
// meanwhile.  At most for as long as a round takes.  A worker that commits alone never waits.
// Where CPUs are to spare most are in line already when a round ends.  Where on average less than
// one has joined lately it is not worth it: to wait makes a commit later, to be joined by one
// spares a sync.
// delay_us: in any case, for all of them and for one at least.
void LogWriter::gather(u32 delay_us) {
  LS_ASSERT(state_.mutex.is_locked());
  const u32 number = state_.number.load(std::memory_order_relaxed);
  const u32 slots = shared_->slots_used.load(std::memory_order_acquire);
  u32 group = 0;
  for (u32 i = 0; i < slots; i++) {
    const LogSlot &slot = shared_->slots()[i];
    const u32 waited_in = slot.waited_in.load(std::memory_order_relaxed);
    group += waited_in != 0 && number - waited_in < kCommitGroupRounds &&
             !(slot.wait_gsn.load(std::memory_order_relaxed) & kUnderWay);
  }
  const u32 wanted = delay_us ? std::max(group, 2u) : (group + 3) / 4;
  const i64 patience_us =
      delay_us
          ? delay_us
          : static_cast<i64>(
                std::min(state_.lately_ns.load(std::memory_order_relaxed), kMostGatherNs) / 1000);
  if (wanted < 2 || patience_us == 0) return;
  if (delay_us == 0 && state_.joined < kRoundsLately && number % kTryAgainRounds != 0) return;
  // Sequentially consistent, as LogAppender::join_line.
  shared_->commit_group_wanted.store(wanted, std::memory_order_seq_cst);
  const u32 before = shared_->in_line.load(std::memory_order_seq_cst);
  if (before < wanted) {
    futex_wait(&shared_->commit_group_wanted, wanted, patience_us);
    // an interrupted worker leaves the line
    const u32 now = std::max(before, shared_->in_line.load(std::memory_order_relaxed));
    state_.joined += now - before - state_.joined / kRoundsLately;
  }
  shared_->commit_group_wanted.store(0, std::memory_order_relaxed);
}

// The round is written and its sync begins: the workers with their commits in it leave the line,
// and one that came too late for it may begin the next.
void LogWriter::hand_over() {
  if (shared_->in_line.load(std::memory_order_seq_cst) == 0) return;
  LogSlot *next = nullptr;
  const u32 slots = shared_->slots_used.load(std::memory_order_acquire);
  for (u32 i = 0; i < slots; i++) {
    LogSlot &slot = shared_->slots()[i];
    Gsn gsn = slot.wait_gsn.load(std::memory_order_seq_cst);
    if (gsn == 0 || (gsn & kUnderWay)) continue;
    if (gsn > target_) {
      if (!slot.is_drained() || blocked_by_append_) next = &slot;
    } else if (slot.wait_gsn.compare_exchange_strong(gsn, gsn | kUnderWay,
                                                     std::memory_order_seq_cst)) {
      shared_->leave_line(gsn);
    }
  }
  wake_next(next);
}

// Nothing to do where the next round has begun already, or one of many syncs has to end before:
// that round's end looks again.
void LogWriter::wake_next(LogSlot *next) {
  if (!next || state_.mutex.is_locked()) return;
  if (state_.syncing.load(std::memory_order_seq_cst) >= kMostSyncing) return;
  next->wake.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(&next->wake, 1);
}

// Wakes all workers that need not wait any more, and one with a record that came too late for this
// round (or was held up by an append that had not ended): that one writes the next round.
// wait_gsn: sequentially consistent on both sides, after the mutex was released and the sync has
// ended: a waiter that is not seen here sees that.
void LogWriter::wake_waiters(const LogSlot *self) {
  if (shared_->waiters.load(std::memory_order_seq_cst) == 0) return;
  const Gsn hardened = shared_->hardened.load(std::memory_order_seq_cst);
  LogSlot *next = nullptr;
  const u32 slots = shared_->slots_used.load(std::memory_order_acquire);
  for (u32 i = 0; i < slots; i++) {
    LogSlot &slot = shared_->slots()[i];
    Gsn gsn = slot.wait_gsn.load(std::memory_order_seq_cst);
    if (gsn == 0 || &slot == self) continue;
    if ((gsn & ~kUnderWay) > hardened) {
      if (!(gsn & kUnderWay) && (!slot.is_drained() || only_made_room_ || blocked_by_append_))
        next = &slot;
    } else if (slot.wait_gsn.compare_exchange_strong(gsn, 0, std::memory_order_seq_cst)) {
      shared_->leave_line(gsn);
      slot.wake.fetch_add(1, std::memory_order_seq_cst);
      futex_wake(&slot.wake, 1);
    }
  }
  wake_next(next);
}

Status LogWriter::round(RoundFor purpose, u64 *wrote) {
  std::lock_guard ours(whose_);
  // enough waited
  if (shared_->commit_group_wanted.exchange(0, std::memory_order_relaxed) != 0)
    futex_wake(&shared_->commit_group_wanted, 1);
  Status status;
  {
    const std::lock_guard guard(state_.mutex);
    status = write(purpose, wrote);
  }
  if (must_finish_) status = finish();
  wake_waiters(nullptr);
  return status;
}

// Whatever keeps gsn from being covered, the caller has to wait for it.
Status LogWriter::write_out(Gsn gsn, const LogSlot *self, bool *done, u64 *host) {
  Status status = kOk;
  bool wrote_some = false;
  {
    const std::lock_guard guard(state_.mutex);
    if (state_.persisted < gsn) {
      u64 wrote;
      status = write(RoundFor::kWriteOut, &wrote);
      wrote_some = wrote > 0;
    }
    *done = ok(status) && state_.persisted >= gsn;
    *host = state_.host;
  }
  if (wrote_some) wake_waiters(self);
  if (!ok(status)) Log::attach(shared_).kick();
  return status;
}

bool LogWriter::try_round(const LogSlot *self, u32 delay_us) {
  if (state_.syncing.load(std::memory_order_seq_cst) >= kMostSyncing || !state_.mutex.try_lock())
    return false;
  Status status;
  {
    const std::lock_guard guard(state_.mutex, std::adopt_lock);
    gather(delay_us);
    u64 wrote;
    status = write(RoundFor::kHarden, &wrote);
  }
  if (must_finish_) status = finish();
  wake_waiters(self);
  if (!ok(status)) Log::attach(shared_).kick();
  return true;
}

Status Log::commit_round(u64 *wrote) {
  std::shared_ptr<LogWriter> writer = log_writer_of(shared_);
  if (!writer) return fail(LS_INVALID, "the log is not open for appending");
  return writer->round(RoundFor::kHarden, wrote);
}

}  // namespace ls
