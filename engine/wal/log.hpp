// log.hpp - the write-ahead log: a buffer per worker slot, one total order, group commit
// (LeanStore paper section 7.1; "Rethinking Logging, Checkpoints, and Recovery", SIGMOD 2020).
//
// Total order.  One counter hands out GSNs; a commit is a record like any other, so "hardened up to
// G" answers every question: a transaction is durable when G >= its commit's GSN; a page may be
// written when G >= the page's GSN; what recovery keeps is the prefix up to G.  (The paper uses
// per-page Lamport GSNs and two watermarks; one fetch_add per record replaces both;
// docs/decisions/0002.)
//
// Appending takes no lock.  Protocol (pairs with the committer's collect):
//   LOG-1  appending_ := counter + 1 (a lower bound), then gsn := ++counter, then bytes, then
//          published_ (release), then appending_ := 0.
//   LOG-2  the committer reads the counter first, then per slot appending_, then published_.
//          complete_gsn = min(counter read, every nonzero bound - 1).
//
// Space: reserve() before any latch is taken; append never waits.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <span>

#include "base/status.hpp"
#include "base/types.hpp"
#include "base/wait_report.hpp"
#include "leanstore/engine.h"
#include "os/file.hpp"
#include "wal/log_record.hpp"

namespace ls {

class Dependencies;  // dependencies.hpp
class FileNames;     // changed_places.hpp
class LogWriter;   // log_writer.hpp
struct LogSlot;    // log_slot.hpp: ring buffer and the words above, in the arena
// in the arena: counter, hardened watermark, LSNs, futexes, segment table, counters
struct LogShared;

struct LogConfig {
  u32 slots;             // host and engine slots together
  u32 buffer_bytes;      // per slot, power of two, >= 4 * kMaxRecordBytes
  u64 segment_bytes;     // multiple of 1 MiB
  bool fsync;
  bool host_log;         // rounds go into the host's log, too (log_sink.hpp)
  bool page_images;      // whole pages behind a horizon (image_horizon.hpp)
  char dir[512];         // ".../leanstore/wal"
};

class Log {  // a view of the shared part; cheap to copy, one per process
 public:
  static size_t arena_bytes(const LogConfig &config);
  // Format `arena`.
  static void create(void *arena, const LogConfig &config);
  static Log attach(void *arena);

  // ---- positions
  Gsn last_gsn() const;       // drawn so far
  Gsn hardened() const;       // complete_gsn of the last durable round
  Lsn end() const;            // stream position after the last durable round
  // the same, 0 without fsync: then a crash of the machine may lose it and that is no damage
  Lsn durable_end() const;
  // Every record with a GSN >= gsn lies at or after this position, which is the start of a round or
  // end() (used to truncate).  0 when it may lie before what this run has written: the redo
  // position then stays where it is, so callers take the maximum with it.
  Lsn position_of(Gsn gsn) const;

  // ---- images of pages (image_horizon.hpp)
  bool has_page_images() const;     // as configured
  Gsn image_horizon() const;        // 0: not yet, or never
  // To what comes next.  By the checkpoint, or an actor that takes turns with it.
  Gsn advance_image_horizon();
  // Nothing: but a change of the horizon is seen behind it, or waits for what the caller has
  // latched (IMG-1).  Returns last_gsn().
  Gsn look_at_counter();

  // ---- waiting (holding no latch). Wakes the committer; a worker waits for its own commits by
  // LogAppender.  interrupt may be null; false when it was raised, or when the committer has ended
  // in good order.  After a failed write or sync it never returns true: it waits for the host's
  // PANIC or the interrupt flag, so that nothing is acknowledged.
  bool wait_hardened(Gsn gsn, const volatile int *interrupt);
  void kick();                // there is something to harden; does not wait
  // room is wanted in a log buffer: its records need not become durable at once
  void drain();
  // ---- committer: engine thread
  // Continue the stream at `lsn` (LogImage::end; 0 in a new store) with GSNs after `gsn` (at least
  // LogImage::max_gsn).  `run` must be greater than LogImage::run, also when a recovery is
  // repeated: records of an earlier run that its recovery cut off are told from this run's by it.
  // Makes the directory.  In the process that has the threads which commit and truncate.
  Status open_for_append(Lsn lsn, Gsn gsn, u64 run);
  // Instead, where pages are redone and written of a log that another process writes: it is durable
  // up to `lsn` and `gsn`.
  void open_to_read(Lsn lsn, Gsn gsn);
  // A log that another store appends to has come so far; pages may be written up to `gsn`.
  void follow(Lsn end, Gsn gsn);
  void cover(Gsn gsn);
  // Drop what open_for_append holds in this process (descriptors, buffer); no committer may run.
  void close_for_append();
  // One round: collect, write, fdatasync (with that of rounds before that were only written),
  // publish, wake.  *wrote: bytes.  Also callable by a test's thread.
  // LS_NO_SPACE: no room for a further segment, LS_NO_MEMORY: nothing was taken from the buffers,
  // call again.  Any other failure is final.
  Status commit_round(u64 *wrote);
  // Loop of the committer thread until stop(): rounds when kicked (to drain: perhaps without a
  // sync), at least every `idle_ms` without a kick when anything is unhardened, and a last one.  A
  // failed write or sync ends it with the status (the host PANICs).  A full disk does not: it tries
  // again, and writers that need buffer space meanwhile get LS_NO_SPACE.
  // sync_also: with a host's log, what has to be durable as the relay log has (RELAY-1).
  Status run_committer(u32 idle_ms, const std::function<Status()> &sync_also = {});
  void stop();

  // ---- with a host's log (LogConfig::host_log): by a thread that may use it (log_sink.hpp)
  bool has_host_log() const;
  // For all writers that this process makes from now on; null: none (ChangedPlaces).
  void use_file_names(const FileNames *names);
  // Instead of the committer's loop: wait for a kick, at most for so long, and write what there
  // is; from open_for_append on, as long as anything waits for the log, stop() included.  Fails as
  // commit_round.
  Status pump(u32 wait_us);
  // From the next round on: pages that are changed are named again in the host's log, once, or
  // with each round that changes them (PLACE-1).
  void name_places(bool each_time);
  // What the host has flushed is hardened.
  void note_flushed();
  // RELAY-1: what is in the host's log by now becomes durable in the relay log, too; a number to
  // ask with.
  u32 request_relay_sync();
  bool relay_is_synced(u32 request) const;
  // Before the log's files are read (RELAY-3).  Without a host's log they have all.
  Status complete_relay() const;

  bool failed() const;        // a write or sync failed: nothing will be hardened any more
  // Remove or recycle segments wholly before lsn (<= end()).
  Status truncate(Lsn lsn);

  struct Stats {
    u64 bytes, rounds, fsyncs, fsync_ns, commits, commits_held, counted, remote_by_page,
        remote_by_transaction;
  };
  Stats stats() const;
  // Of a commit, by workers that are asked to (dependencies.hpp).
  void count_dependencies(bool by_page, bool by_transaction);

  LogShared *shared() const { return shared_; }
  LogSlot *slot(u32 i) const;

 private:
  explicit Log(LogShared *shared) : shared_(shared) {}
  void wake();
  LogShared *shared_;
};

// What a record may need behind it: images of the pages that it changes without having all of them,
// three at most (a split: the left half, its parent, the meta page).
inline constexpr u32 kImagesRoom = 3 * (kMaxRecordHeadBytes + kMaxOpHeadBytes + kPageSize);

// A worker's side of its slot; private to the worker.
class LogAppender {
 public:
  LogAppender(Log log, u32 slot);
  ~LogAppender();
  // Its worker came when the log was not open for append: reserve() waits for that, for a minute
  // (LS_NOT_READY), and takes the slot as the life before has left it.
  void come_early() { early_ = true; }
  // Room for records of `bytes` in total (incl. headers), at most half the buffer; waits for the
  // committer.  No latch held, no record being built.  Up to a quarter of the buffer stays
  // available across reserve+append of callees.  LS_INTERRUPTED, LS_NO_SPACE (log disk full),
  // LS_IO_ERROR (log failed).  Urgent is what must not be refused or brings space back: undo, the
  // end of a transaction, a checkpoint.  It never gets LS_NO_SPACE, it waits; others get it while
  // there still is a segment left for the urgent.  Without an interrupt flag a reservation is
  // urgent, too.
  Status reserve(u32 bytes, const volatile int *interrupt);
  // The same for images alone, where a page is only read: not refused for want of space.
  Status reserve_images(const volatile int *interrupt);
  void set_urgent(bool urgent) { urgent_ = urgent; }
  // Lives as long as the appender; null: the host does not want to know what it waits for.
  void report_waits(const HostWaits *waits) { waits_ = waits; }
  // The same, of what it depends on.
  void report_draws(Dependencies *dependencies) { dependencies_ = dependencies; }

  // Build one record: start, the numbers of its kind, any number of op()/raw(), finish.  Never
  // waits, never fails after reserve().
  void start(RecordKind kind);
  void number(u64 value);
  void op(FileNo file, PageNo page, u8 code, std::span<const u8> a, std::span<const u8> b = {},
          std::span<const u8> c = {});  // operand bytes are a|b|c
  void raw(std::span<const u8> bytes);
  Gsn finish();      // draws the GSN, publishes
  void abandon();    // drop the record being built

  // The GSN of the record that was appended last, by this worker or the slot's owner before.
  Gsn appended() const;

  // As Log::wait_hardened, but writes the round itself when no other worker nor the committer does;
  // after waiting for other commits so long (0: see LogWriter::gather).
  bool wait_hardened(Gsn gsn, const volatile int *interrupt, u32 delay_us = 0);

  // With a host's log: what was appended up to gsn gets into it, in rounds that cover it, before
  // what the host writes there next; *host: it ends there.
  Status write_out(Gsn gsn, const volatile int *interrupt, u64 *host);

  // What this worker has written to a file beside the log becomes durable before any record that
  // is appended after this (file_syncs.hpp).  LS_NO_MEMORY; any other failure is one of the log.
  Status sync_first(const FileRef &file);

  const ls_log_counts &counts() const { return counts_; }
  const Log &log() const { return log_; }
  Log &log() { return log_; }

 private:
  void append(const void *bytes, size_t count);
  void publish(Gsn gsn);
  void take_over();
  Status begin_late(const volatile int *interrupt);
  Status no_space() const;
  Status wait_for_space(u64 need, const volatile int *interrupt, bool refusable);
  u64 space() const;       // ring bytes behind position_ that the committer has drained
  void join_line(Gsn gsn);
  Status make_writer();
  bool take_turn(Gsn gsn, u32 delay_us, u32 *blocked);

  Log log_;
  std::unique_ptr<LogWriter> writer_;  // from the first wait on
  LogSlot *slot_;
  u8 *ring_;
  u64 mask_;
  // The record being built, behind room for its head; it goes into the ring when its GSN is known.
  std::unique_ptr<u8[]> record_;
  u32 used_ = 0;           // its bytes without head
  u64 position_ = 0;       // where it will begin, in ring bytes ever
  u64 limit_ = 0;          // it may not pass this (drained + buffer size, as last seen)
  u64 kicked_at_ = 0;      // position_ when reserve() last woke the committer ahead of need
  ls_log_counts counts_{};  // appended so far
  const HostWaits *waits_ = nullptr;
  Dependencies *dependencies_ = nullptr;
  RecordKind kind_{};
  bool building_ = false;
  bool urgent_ = false;
  bool early_ = false;
};

}  // namespace ls
