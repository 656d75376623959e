// log_writer.hpp - group commit rounds, and one process' (or worker's) side of them: buffers and
// descriptors.  Private to wal/.
//
// A round is written under the round mutex: by the committer thread; or by a worker that waits for
// its own commit, which saves two changes of thread per commit (docs/decisions/0005).  What a
// round needs to know of the one before is in LogShared::round.  Room is made by the process that
// opened the log for appending; a worker that finds too little leaves the round to it.
#pragma once
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "wal/changed_places.hpp"
#include "wal/log_segments.hpp"
#include "wal/log_sink.hpp"
#include "wal/log_slot.hpp"

namespace ls {

// A round is cut when the staging buffer has this much, so that it stays in the cache and bounded.
inline constexpr u32 kStagingBytes = 4 << 20;
// More than this is not written by a worker on its way to its client.
inline constexpr u32 kWorkerRoundBytes = 256 << 10;
// While rounds are synced the next one is collected and written; more than so many wait.
inline constexpr u32 kMostSyncing = 3;

// What a round is for.
enum class RoundFor : u8 {
  kRoom,      // in the buffers: synced only if must_sync()
  kHarden,    // synced
  kWriteOut,  // with a host's log: in it, and no more
};

// How a turn of the committer ended.
struct CommitterTurn {
  bool stopping;      // that was the last one
  bool later;         // what lacks may be there in a while
  bool lacks_memory;  // not to be kicked until then
};

class LogWriter {
 public:
  // segments: null in workers.
  LogWriter(LogShared *shared, std::unique_ptr<LogSegments> segments);
  // Wait for the mutex, one round, wake.
  Status round(RoundFor purpose, u64 *wrote);
  // A worker's turn: false when another thread has the mutex, or kMostSyncing rounds are being
  // synced; their ends wake it when its wait is over, or it is its turn.  Failures go to the
  // committer, which reports them.  delay_us: to wait for other commits, 0: see gather().
  bool try_round(const LogSlot *self, u32 delay_us = 0);
  // Waits for the mutex; FileSyncs::run() without a round.
  Status sync_files();
  Status resume() { return sink_->resume(); }
  // With a host's log, for a worker: a round, unless one has covered gsn already.  *done: it is
  // covered, and the host's log has that at *host; else a part is the committer's to write, or it
  // is blocked_by_append().
  Status write_out(Gsn gsn, const LogSlot *self, bool *done, u64 *host);
  // One round, as kicks want it.
  Status committer_turn(CommitterTurn *turn);
  LogSegments &segments() { return *segments_; }
  // The last round could not complete a record already written because some worker was between
  // drawing a GSN and publishing: that ends by itself in an instant, without a kick.
  bool blocked_by_append() const { return blocked_by_append_; }

 private:
  struct Collected {
    u32 slot;
    u64 from, to;  // ring positions
  };
  Status write(RoundFor purpose, u64 *wrote);
  Status make_room(u64 most);
  Status finish() noexcept;
  void hand_over();
  void wake_next(LogSlot *next);
  bool must_sync() const;
  void gather(u32 delay_us);
  Gsn collect();
  bool is_ours(u64 most) const;
  Status write_collected(Gsn complete);
  Status write_round(std::span<const Collected> parts, Gsn complete);
  void stage(const Collected &part, Gsn complete);
  void inspect(LogSlot &slot, LogBytes records);
  Status sync_beside();
  Status sync();
  void publish(Gsn complete);
  void note_written(Gsn complete);
  void wake_waiters(const LogSlot *self);
  Status fail_log(Status status);

  LogShared *shared_;
  RoundState &state_;
  std::unique_ptr<LogSegments> segments_;
  // A worker's writer is its own; that of the process which opened the log may be called by several
  // threads (Log::commit_round).
  std::mutex whose_;
  std::unique_ptr<LogSink> sink_;
  std::unique_ptr<ChangedPlaces> places_;   // with a host's log
  std::vector<Collected> collected_;
  LogBlocks staging_;           // the round being built, behind what its first block has already
  Lsn end_ = 0;
  u64 host_ = 0;                // LogMark::host of that
  // on disk when this round began; without fsync nothing is known to be
  Lsn durable_ = 0;
  bool must_finish_ = false;    // it is written, and this thread is to sync it
  u64 started_ns_ = 0;
  Gsn written_max_ = 0;         // in everything up to end_
  bool commits_ = false;        // this round has some
  Gsn round_max_ = 0;           // in staging_
  // this round is not synced: a worker that has come meanwhile waits for the next one
  bool only_made_room_ = false;
  Gsn target_ = 0;              // complete_gsn of the collection
  bool blocked_by_append_ = false;
  u64 without_memory_ms_ = 0;   // committer_turn(): since then; 0: the last round had memory
};

// The writer of this process for the log, null when open_for_append was not called here.
std::shared_ptr<LogWriter> log_writer_of(LogShared *shared);
const FileNames *log_file_names_of(LogShared *shared);

// A worker that was preempted while it draws a GSN holds all commits up (blocked_by_append): give
// it the CPU, then more than that.
// times: how often in a row.
void pause_for_append(u32 times);

// Without an interrupt flag nothing but a wake-up matters; the limit only covers a committer that
// stops without a wake-up.
inline constexpr i64 kUninterruptedSleepUs = 1'000'000;

// What is written up to here is durable.
void log_publish(LogShared *shared, Lsn end, Gsn max_written, Gsn complete);
void log_add_position(PositionTable &table, Lsn lsn, Gsn max_before);

}  // namespace ls
