// log_slot.hpp - the log's shared memory: LogShared, then a LogSlot per worker, then their ring
// buffers.
//
// SLOT-1  drained <= published <= drained + buffer_bytes, positions in bytes ever appended to the
//         slot.
// SLOT-2  [drained, published) are whole records; the owner writes only [published, drained +
//         buffer_bytes).
// SLOT-3  every record with a GSN <= hardened is durable and, after a crash, kept.
// SLOT-4  sample i of the position table: every record before samples[i].lsn has a GSN <=
//         samples[i].max_before.
// Owner of a slot: one worker at a time.  Committer: holds the round mutex (log_writer.hpp).
#pragma once
#include <atomic>

#include "base/status.hpp"
#include "base/types.hpp"
#include "os/futex.hpp"
#include "wal/file_syncs.hpp"
#include "wal/image_horizon.hpp"
#include "wal/log.hpp"

namespace ls {

struct LogSlot {
  // Written by the owner.  published: release, pairs with the committer's acquire in collect.
  alignas(kCacheLine) std::atomic<u64> published{0};
  std::atomic<Gsn> appending{0};   // LOG-1
  std::atomic<u32> space_waiting{0};
  // the round in which its owner last began to wait for a commit; 0: never did
  std::atomic<u32> waited_in{0};
  // The owner waits for this commit to be hardened, and is woken alone.  wait_gsn: set by the
  // owner; zeroed by the round's end that wakes it for good, or by the owner when it stops waiting.
  // With kUnderWay it is in a round that is being synced, and out of the line.
  std::atomic<Gsn> wait_gsn{0};
  std::atomic<u32> wake{0};        // futex
  Gsn last_gsn{0};                 // of the record published last; the owner's alone
  // Written by the committer.  drained: release, pairs with the owner's acquire before it
  // overwrites.
  alignas(kCacheLine) std::atomic<u64> drained{0};
  std::atomic<u32> space_seq{0};   // futex
  Gsn drained_gsn{0};              // of the last record before `drained`; under the round mutex

  // Everything that its owner has published is in some round.
  bool is_drained() const {
    return drained.load(std::memory_order_acquire) == published.load(std::memory_order_acquire);
  }
};
static_assert(sizeof(LogSlot) == 2 * kCacheLine);

inline constexpr Gsn kUnderWay = Gsn{1} << 63;

// How far the stream has been written: the end of a round, and where the host's log has that.
struct LogMark {
  Lsn end;
  u64 host;   // 0: there is no host's log, or nothing in it yet
};

enum KickState : u32 { kCommitterAwake = 0, kCommitterKicked, kCommitterSleeping };

// The log is written in such blocks: a multiple of what any device writes at once, or tears.
inline constexpr u32 kLogBlockBytes = 4096;

inline constexpr u32 kPositionSamples = 1024;
// bytes of log between samples, doubled when the table is full
inline constexpr u64 kPositionInterval = 1 << 20;

struct PositionSample {
  Lsn lsn;         // start of a round
  Gsn max_before;
};

struct PositionTable {
  FutexMutex<LockRank::kInnermost> mutex;
  u32 count{0};
  u64 interval{kPositionInterval};
  Lsn end{0};                 // behind the last durable round, and
  Gsn max_written{0};         // the largest GSN before it
  PositionSample samples[kPositionSamples];
};

// What one round leaves to the next.  Under its mutex, whichever process writes them: held while a
// round is collected and written.
struct RoundState {
  FutexMutex<LockRank::kLongAction> mutex;
  // rounds that are being synced: kMostSyncing at most by workers
  std::atomic<u32> syncing{0};
  std::atomic<Gsn> syncing_gsn{0};  // complete_gsn of the last of them
  std::atomic<Lsn> syncing_to{0};   // and its end
  u64 run{0};
  std::atomic<Lsn> end{0};    // behind the last round written; LogShared::end follows with the sync
  Gsn complete{0};            // as computed last; never decreases
  Gsn persisted{0};           // in the last round written
  Gsn max_written{0};         // in all rounds
  u64 host{0};                // where the host's log has the last round (LogMark)
  u64 places_generation{0};   // Log::name_places
  bool places_each_time{true};
  std::atomic<u32> number{1}; // of rounds so far that had something to write
  std::atomic<u64> lately_ns{0};  // how long they take, the last few counting most; not exact
  // how many commits joined one while it was waited for them, times kRoundsLately, the last few
  // counting most
  u32 joined{0};
  ls_error failure{};         // why `failed`
  // what is before `end` in its block: written once more with what comes behind it
  u8 block[kLogBlockBytes];
};

// With a host's log: the last rounds written, so that what the host has flushed for a reason of its
// own is hardened without a flush (Log::note_flushed).
inline constexpr u32 kWrittenRounds = 64;
struct WrittenRounds {
  struct Round {
    LogMark mark;
    Gsn complete;
    Gsn max_written;
  };
  FutexMutex<LockRank::kInnermost> mutex;
  u64 count{0};                   // of all; the last ones are here
  std::atomic<u64> latest{0};     // LogMark::host of the last one
  std::atomic<u64> noted{0};      // and of the last one that was found flushed
  Round rounds[kWrittenRounds];
};

// With a host's log: the last rounds, which the files of the relay log do not have yet (RELAY-3).
// Under the round mutex.
inline constexpr u32 kRelayBufferBytes = 128 << 10;
struct RelayBuffer {
  Lsn from{0};
  u32 used{0};
  u8 bytes[kRelayBufferBytes];
};

struct LogShared {
  LogConfig config;
  // Rarely written, read with every reservation.
  std::atomic<u32> failed{0};     // a write or sync failed
  std::atomic<u32> no_space{0};   // the last round found no room on disk
  // the segment after the present one cannot be made: what is left is for urgent reservations
  std::atomic<u32> low_space{0};
  ImageHorizon image_horizon;     // read with every change of a page
  // last GSN drawn; changed by read-modify-write only
  alignas(kCacheLine) std::atomic<Gsn> counter{0};
  alignas(kCacheLine) std::atomic<Gsn> hardened{0};
  std::atomic<Lsn> end{0};
  // futex: advances with `hardened`, and when waiters must look up
  std::atomic<u32> hardened_seq{0};
  std::atomic<u32> slots_used{0};                    // slots above were never attached
  std::atomic<u32> appending{0};                     // futex: it is open for append
  std::atomic<u32> stop{0};
  std::atomic<u32> stopped{0};                       // the committer has ended in good order
  alignas(kCacheLine) std::atomic<u32> kick{kCommitterAwake};  // futex
  std::atomic<u32> harden_wanted{0};                 // the kick was not only for room
  alignas(kCacheLine) std::atomic<u32> waiters{0};   // in wait_hardened, of Log or LogAppender
  std::atomic<u32> watchers{0};                      // those of Log, which sleep on hardened_seq
  // slots with a wait_gsn and without kUnderWay: commits that no round has covered yet
  std::atomic<u32> in_line{0};
  // futex: wake the worker that is about to write a round when so many are in line; 0: none asks
  std::atomic<u32> commit_group_wanted{0};
  alignas(kCacheLine) RoundState round;
  std::atomic<Lsn> ready_until{0};                   // SEG-2 in log_segments.hpp
  alignas(kCacheLine) std::atomic<u64> stat_bytes{0};
  std::atomic<u64> stat_rounds{0}, stat_fsyncs{0}, stat_fsync_ns{0}, stat_commits{0},
      stat_commits_held{0};
  std::atomic<u64> stat_counted{0}, stat_remote_by_page{0}, stat_remote_by_transaction{0};
  PositionTable positions;
  FileSyncs file_syncs;              // before the next round
  // With a host's log.
  WrittenRounds written;
  std::atomic<u64> pumped_ms{0};   // when Log::pump() has written last
  std::atomic<u32> relay_wanted{0}, relay_done{0};   // requests to sync the relay log; futexes

  // `waited`: what stood in a slot's wait_gsn, and does no more.
  void leave_line(Gsn waited) {
    if (waited != 0 && !(waited & kUnderWay)) in_line.fetch_sub(1, std::memory_order_relaxed);
  }

  LogSlot *slots() {
    return reinterpret_cast<LogSlot *>(reinterpret_cast<u8 *>(this) + slots_offset());
  }
  u8 *ring(u32 slot) {
    return reinterpret_cast<u8 *>(slots() + config.slots) +
           static_cast<size_t>(slot) * config.buffer_bytes;
  }
  RelayBuffer &relay() { return *reinterpret_cast<RelayBuffer *>(ring(config.slots)); }
  static constexpr size_t slots_offset();
};
constexpr size_t LogShared::slots_offset() {
  return (sizeof(LogShared) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace ls
