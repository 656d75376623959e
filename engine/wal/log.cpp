// The view of the shared part: layout, positions, waiting, waking.
#include "wal/log.hpp"

#include <memory>
#include <new>
#include <unordered_map>

#include "base/check.hpp"
#include "base/interrupt.hpp"
#include "os/futex.hpp"
#include "wal/log_slot.hpp"
#include "wal/log_writer.hpp"

namespace ls {

namespace {

constexpr u32 kMaxBufferBytes = 32 << 20;  // a chunk has to fit a round

bool is_power_of_two(u64 v) { return v != 0 && (v & (v - 1)) == 0; }

struct WriterRegistry {
  std::mutex mutex;
  std::unordered_map<LogShared *, std::shared_ptr<LogWriter>> writers;
  std::unordered_map<LogShared *, const FileNames *> file_names;
};

WriterRegistry &registry() {
  static WriterRegistry *instance = new WriterRegistry;  // threads may outlive static destruction
  return *instance;
}

void set_writer(LogShared *shared, std::shared_ptr<LogWriter> writer) {
  WriterRegistry &r = registry();
  std::lock_guard lock(r.mutex);
  if (writer) {
    r.writers[shared] = std::move(writer);
  } else {
    r.writers.erase(shared);
  }
}

}  // namespace

std::shared_ptr<LogWriter> log_writer_of(LogShared *shared) {
  WriterRegistry &r = registry();
  std::lock_guard lock(r.mutex);
  auto it = r.writers.find(shared);
  return it == r.writers.end() ? nullptr : it->second;
}

const FileNames *log_file_names_of(LogShared *shared) {
  WriterRegistry &r = registry();
  std::lock_guard lock(r.mutex);
  auto it = r.file_names.find(shared);
  return it == r.file_names.end() ? nullptr : it->second;
}

void Log::use_file_names(const FileNames *names) {
  WriterRegistry &r = registry();
  std::lock_guard lock(r.mutex);
  if (names) {
    r.file_names[shared_] = names;
  } else {
    r.file_names.erase(shared_);
  }
}

size_t Log::arena_bytes(const LogConfig &config) {
  return LogShared::slots_offset() +
         config.slots * (sizeof(LogSlot) + static_cast<size_t>(config.buffer_bytes)) +
         (config.host_log ? sizeof(RelayBuffer) : 0);
}

void Log::create(void *arena, const LogConfig &config) {
  LS_CHECK(reinterpret_cast<uintptr_t>(arena) % kCacheLine == 0, "arena is not aligned");
  LS_CHECK(is_power_of_two(config.buffer_bytes) && config.buffer_bytes >= 4 * kMaxRecordBytes &&
               config.buffer_bytes <= kMaxBufferBytes,
           "log buffer size");
  LS_CHECK(config.segment_bytes > 0 && config.segment_bytes % (1 << 20) == 0, "log segment size");
  LogShared *shared = new (arena) LogShared;
  set_writer(shared, nullptr);  // of a store that had this address before
  shared->config = config;
  for (u32 i = 0; i < config.slots; i++) new (shared->slots() + i) LogSlot;
  if (config.host_log) shared->relay().from = shared->relay().used = 0;
}

Log Log::attach(void *arena) { return Log(static_cast<LogShared *>(arena)); }

LogSlot *Log::slot(u32 i) const {
  LS_CHECK(i < shared_->config.slots, "no such log slot");
  return shared_->slots() + i;
}

bool Log::has_page_images() const { return shared_->config.page_images; }
Gsn Log::image_horizon() const { return shared_->image_horizon.get(); }
void Log::name_places(bool each_time) {
  RoundState &state = shared_->round;
  const std::lock_guard guard(state.mutex);
  state.places_generation++;
  state.places_each_time = each_time;
}

Gsn Log::advance_image_horizon() {
  LS_CHECK(has_page_images(), "the log has no images of pages");
  return shared_->image_horizon.advance(shared_->counter);
}
Gsn Log::look_at_counter() { return shared_->counter.fetch_add(0, std::memory_order_acq_rel); }
Gsn Log::last_gsn() const { return shared_->counter.load(std::memory_order_acquire); }
// Acquire pairs with publish_hardened.
Gsn Log::hardened() const { return shared_->hardened.load(std::memory_order_acquire); }
Lsn Log::end() const { return shared_->end.load(std::memory_order_acquire); }
bool Log::has_host_log() const { return shared_->config.host_log; }
Lsn Log::durable_end() const { return shared_->config.fsync ? end() : 0; }
bool Log::failed() const { return shared_->failed.load(std::memory_order_acquire) != 0; }

// ---- positions

// Samples ascend in both members.  When the table is full every second one goes and the distance
// doubles.
void log_add_position(PositionTable &table, Lsn lsn, Gsn max_before) {
  const std::lock_guard guard(table.mutex);
  [[maybe_unused]] const PositionSample *last =
      table.count > 0 ? &table.samples[table.count - 1] : nullptr;
  LS_ASSERT(!last || (last->lsn <= lsn && last->max_before <= max_before));   // SLOT-4
  if (table.count > 0 && lsn - table.samples[table.count - 1].lsn < table.interval) return;
  if (table.count == kPositionSamples) {
    for (u32 i = 1; i < kPositionSamples / 2; i++) table.samples[i] = table.samples[2 * i];
    table.count = kPositionSamples / 2;
    table.interval *= 2;
  }
  table.samples[table.count++] = {lsn, max_before};
}

Lsn Log::position_of(Gsn gsn) const {
  PositionTable &table = shared_->positions;
  const std::lock_guard guard(table.mutex);
  if (table.max_written < gsn) return table.end;
  u32 low = 0, high = table.count;  // samples before `low` have max_before < gsn
  while (low < high) {
    u32 middle = (low + high) / 2;
    if (table.samples[middle].max_before < gsn) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low > 0 ? table.samples[low - 1].lsn : 0;
}

// ---- waiting

// The exchange orders this thread's published records before the committer's next collect: either
// the committer's own exchange comes later and acquires this one, or it came before and the word
// stays "kicked" for its next turn.
void Log::wake() {
  if (shared_->kick.exchange(kCommitterKicked, std::memory_order_acq_rel) == kCommitterSleeping) {
    futex_wake(&shared_->kick, 1);
  }
}

// The release half pairs with the committer's exchange: which sees the records with the wish.
void Log::kick() {
  shared_->harden_wanted.store(1, std::memory_order_release);
  wake();
}

void Log::drain() { wake(); }

// watchers, hardened_seq: sequentially consistent on both sides.  Either the look of a round's end
// at `watchers` sees this thread, or its look at `hardened_seq` sees the advance and the futex does
// not sleep.
bool Log::wait_hardened(Gsn gsn, const volatile int *interrupt) {
  if (hardened() >= gsn) return true;
  shared_->waiters.fetch_add(1, std::memory_order_seq_cst);
  shared_->watchers.fetch_add(1, std::memory_order_seq_cst);
  kick();
  bool done;
  for (;;) {
    u32 seq = shared_->hardened_seq.load(std::memory_order_seq_cst);
    done = hardened() >= gsn;
    if (done || interrupt_pending(interrupt) || shared_->stopped.load(std::memory_order_acquire))
      break;
    futex_wait_interruptible(&shared_->hardened_seq, seq,
                             interrupt ? kInterruptPollUs : kUninterruptedSleepUs);
  }
  shared_->watchers.fetch_sub(1, std::memory_order_relaxed);
  shared_->waiters.fetch_sub(1, std::memory_order_relaxed);
  return done;
}

// ---- the committing process

Status Log::open_for_append(Lsn lsn, Gsn gsn, u64 run) {
  using Fill = LogSegments::Fill;
  auto segments = std::make_unique<LogSegments>(
      shared_->config.dir, shared_->config.segment_bytes, shared_->config.fsync,
      &shared_->ready_until, shared_->config.host_log ? Fill::kAllocated : Fill::kWritten);
  LS_TRY(segments->open(lsn));
  RoundState &round = shared_->round;
  LS_ASSERT(run > round.run);   // WAL-6
  round.run = run;
  round.complete = round.persisted = round.max_written = gsn;
  round.end.store(lsn, std::memory_order_relaxed);
  round.syncing_gsn.store(0, std::memory_order_relaxed);
  round.syncing_to.store(0, std::memory_order_relaxed);
  round.host = 0;
  if (shared_->config.host_log) shared_->relay().used = 0;
  shared_->written.count = 0;
  shared_->written.latest.store(0, std::memory_order_relaxed);
  shared_->written.noted.store(0, std::memory_order_relaxed);
  // No worker appends yet, so relaxed will do; workers see it through whatever tells them that the
  // store is ready.
  shared_->counter.store(gsn, std::memory_order_relaxed);
  shared_->end.store(lsn, std::memory_order_relaxed);
  shared_->stop.store(0, std::memory_order_relaxed);
  shared_->stopped.store(0, std::memory_order_relaxed);
  shared_->hardened.store(gsn, std::memory_order_release);
  {
    const std::lock_guard guard(shared_->positions.mutex);
    shared_->positions.count = 0;
    shared_->positions.end = lsn;
    shared_->positions.max_written = gsn;
  }
  log_add_position(shared_->positions, lsn, gsn);
  auto writer = std::make_shared<LogWriter>(shared_, std::move(segments));
  LS_TRY(writer->resume());
  set_writer(shared_, std::move(writer));
  shared_->appending.store(1, std::memory_order_release);   // pairs with LogAppender::begin_late
  futex_wake_all(&shared_->appending);
  return kOk;
}

void Log::open_to_read(Lsn lsn, Gsn gsn) {
  shared_->counter.store(gsn, std::memory_order_relaxed);
  shared_->end.store(lsn, std::memory_order_relaxed);
  shared_->hardened.store(gsn, std::memory_order_release);
}

void Log::follow(Lsn end, Gsn gsn) {
  shared_->end.store(end, std::memory_order_relaxed);
  shared_->counter.store(gsn, std::memory_order_release);
}

void Log::cover(Gsn gsn) {
  if (gsn <= hardened()) return;
  shared_->hardened.store(gsn, std::memory_order_seq_cst);
  shared_->hardened_seq.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(&shared_->hardened_seq);
}

void Log::close_for_append() { set_writer(shared_, nullptr); }

void Log::stop() {
  shared_->stop.store(1, std::memory_order_release);
  kick();
}

Status Log::truncate(Lsn lsn) {
  LS_TRY(complete_relay());   // what the buffer gets from now on lies behind
  std::shared_ptr<LogWriter> writer = log_writer_of(shared_);
  if (!writer) return fail(LS_INVALID, "the log is not open for appending");
  PositionTable &table = shared_->positions;
  {
    // Samples before the one at or below lsn are of no use any more.
    const std::lock_guard guard(table.mutex);
    u32 keep = 0;
    while (keep + 1 < table.count && table.samples[keep + 1].lsn <= lsn) keep++;
    for (u32 i = keep; i < table.count; i++) table.samples[i - keep] = table.samples[i];
    table.count -= keep;
  }
  return writer->segments().truncate(lsn, shared_->round.end.load(std::memory_order_acquire));
}

Log::Stats Log::stats() const {
  constexpr auto relaxed = std::memory_order_relaxed;
  return {shared_->stat_bytes.load(relaxed),
          shared_->stat_rounds.load(relaxed),
          shared_->stat_fsyncs.load(relaxed),
          shared_->stat_fsync_ns.load(relaxed),
          shared_->stat_commits.load(relaxed),
          shared_->stat_commits_held.load(relaxed),
          shared_->stat_counted.load(relaxed),
          shared_->stat_remote_by_page.load(relaxed),
          shared_->stat_remote_by_transaction.load(relaxed)};
}

void Log::count_dependencies(bool by_page, bool by_transaction) {
  shared_->stat_counted.fetch_add(1, std::memory_order_relaxed);
  if (by_page) shared_->stat_remote_by_page.fetch_add(1, std::memory_order_relaxed);
  if (by_transaction) shared_->stat_remote_by_transaction.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace ls
