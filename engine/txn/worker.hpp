// worker.hpp - transaction state: the shared table of active transactions, and a worker's private
// side.
//
// active[slot] holds the TN from its first write until commit is through (ls_txn_commit) or undo
// has finished: "active" covers aborting ones, so a snapshot taken after the host forgot an aborted
// transaction still finds it here.
//
// A transaction, all steps by its worker:
//   from     to         by                  what others see
//   none     running    txn_begin           active[slot] = tn, before its first change can be seen
//   running  prepared   txn_prepare_commit  hardened as prepared: after a crash the host decides
//   running  two-phase  txn_prepare, then   it leaves its worker and waits for the host's decision
//                       txn_hand_over       (prepared.hpp)
//   any      committed  txn_commit          commit record appended: its place in the total order;
//                                           then active[slot] = 0
//   any      aborted    txn_abort           changes undone in place, then active[slot] = 0
//
// TXN-1  A worker that finds a header of tn and then finds tn not active knows: committed, or
//        undone since the header was read.  Reading the header again decides (active[slot] = 0 is
//        stored with release after the undo).
// TXN-2  Sequence numbers are used once within a transaction, whatever is rolled back.
#pragma once
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "base/spare_memory.hpp"
#include "os/futex.hpp"
#include "txn/row_blocks.hpp"
#include "txn/shown.hpp"
#include "txn/tn_eras.hpp"
#include "version/horizon.hpp"
#include "version/version_store.hpp"
#include "version/visibility.hpp"
#include "wal/dependencies.hpp"

namespace ls {

inline constexpr u32 kMaxVersionTrees = 64;
// Rows share one by chance: so many that locks elsewhere do not keep a change from being made.
inline constexpr u32 kGenerationCounters = 1024;

struct RangeShared;   // range/range_locks.hpp

// More is in a file at once, and not in the log.
inline constexpr u32 kMostLoggedUndo = 16 << 10;

// The place of a transaction prepared for two-phase commit: prepared.hpp.
enum class PreparedState : u32 { kFree = 0, kReserved, kHeld, kFinishing, kEnded };
struct alignas(kCacheLine) PreparedSlot {
  std::atomic<u32> state{0};   // PreparedState; futex
  u32 next_seq{0};             // kHeld: its sequence numbers are below
  std::atomic<Tn> tn{0};       // active: from the hand-over to its end
  // from kReserved on: ghosts left by writers at or above it stay (prepared.hpp, PREP-3); 0: none
  std::atomic<Tn> keep{0};
  u64 full_xid{0};
  // full_xid while the log has what its file would say, and `undo` (PFILE-2); changed under
  // prepared_mutex
  std::atomic<u64> in_log{0};
  u32 undo_bytes{0};
  u8 undo[kMostLoggedUndo];
};

struct TxnShared {
  u32 slots;                                   // host + engine slots
  // slots above were never attached: bounds the scans of active[]
  std::atomic<u32> highest_used{0};
  std::atomic<u64> tn_offset{0}, tn_base{0};
  TnEras eras;                                 // complete before workers come, but on a standby
  std::atomic<Tn> horizon{0};
  HorizonShared snapshots;                     // exact: which versions above the horizon are needed
  // Of transactions that have a record in the log, but for active ones (CKPT-2 in
  // recovery/checkpoint.hpp).
  std::atomic<Tn> highest_tn{0};
  CommitMarks commits{};                       // which are visible and not hardened
  u32 version_trees{0};                        // power of two
  u32 version_file[kMaxVersionTrees]{};        // FileSlot indexes
  VersionLeaves version_leaves;
  RowBlocks row_blocks;
  u32 lock_file{0};                            // FileSlot index of the row lock tree
  std::atomic<u64> versions_written{0}, versions_removed{0}, ghosts_removed{0}, row_locks{0};
  std::atomic<u64> index_entries_removed{0};   // dead ones
  // Changes of rows' lock generations, by row: tells whether the 8 bits in a header may have come
  // round.
  std::atomic<u64> generation_changes[kGenerationCounters]{};
  std::atomic<u32> cleaner_pauses{0};          // CleanerPauses in force
  std::atomic<u32> cleaner_busy{0};            // 1 during a round; futex
  // active TN per slot, and a GSN not after its first record's (log must be kept from there); 0:
  // none
  struct alignas(32) Active {
    std::atomic<Tn> tn;
    std::atomic<Gsn> first_gsn;
    std::atomic<Tn> last_tn;          // the one before that has committed, and
    std::atomic<Gsn> last_commit;     // where: stored before, with release
  };
  Active *active;                              // array[slots] in the arena
  std::atomic<u32> *attached;                  // array[slots]
  // Of a store that follows another one (followed_txns.hpp): active, too, places below
  // followed_used.
  std::atomic<Tn> *followed{nullptr};
  u32 followed_places{0};
  std::atomic<u32> followed_used{0};
  // Transactions below that had ended when the store started, or began to follow, have left no
  // versions, whatever their rows say (FLW-4 in store/standby_follow.hpp).
  std::atomic<Tn> versions_from{0};
  // Recovery's undo finds in the version store what readers have of the rows
  // (store/standby_follow.hpp).
  bool keeps_versions = false;
  u32 prepared_slots{0};
  std::atomic<u32> prepared_used{0};           // slots at or above were never used
  PreparedSlot *prepared{nullptr};             // array[prepared_slots] in the arena
  // The log says of a transaction that it is prepared, or has ended.
  FutexMutex<LockRank::kInnermost> prepared_mutex;
  FutexMutex<LockRank::kLongAction> prepared_files_mutex;   // one prepared_sync() at a time
  char prepared_dir[600]{};                    // where their files are
};

// Where the cleaner goes on in the row lock tree.
struct LockSweep {
  u8 key[32]{};
  u32 key_bytes = 0;
  u64 locks_seen = 0;   // TxnShared::row_locks at the beginning of the sweep
  bool running = false;
};

// Where the cleaner goes on in the version store, above the horizon (txn/version_sweep.hpp).
struct VersionSweep {
  u32 tree = 0;
  BTree::LeafCursor cursor;
  bool running = false;
  u64 kept = 0;            // entries left by this pass, or the last
  u64 credit = 0;          // how many entries a pass may look at
  u64 versions_seen = 0;   // TxnShared::versions_written when that was counted
};

// Insertions of consecutive row ids share one undo entry, which is written when the range ends.
struct InsertRange {
  u32 file_slot = 0;
  FileNo file_no = 0;
  u64 first = 0;
  u32 count = 0;       // 0: no range
  u32 seq = 0;
  bool closed = false; // a savepoint lies behind: the next insertion begins a new one
  u32 part = 0;        // Worker::part when it began
};

// Row locks of so many consecutive row ids share one undo entry (RLOCK-5).
inline constexpr u64 kLockBlockRows = 64;
// The one that the worker's transaction has begun last.
struct LockBlock {
  FileNo file_no = 0;
  u64 first = 0;   // row id; a multiple of kLockBlockRows
  u32 seq = 0;     // of the undo entry; 0: there is none
  static u64 first_of(u64 row_id) { return row_id / kLockBlockRows * kLockBlockRows; }
  bool has(FileNo file, u64 row_id) const {
    return seq != 0 && file_no == file && first == first_of(row_id);
  }
};

// Deletions of rows near each other, which one insertion has written, share an undo entry (VER-4).
// This is where the worker's transaction has deleted last.
struct DeleteRun {
  FileNo file_no = 0;
  RowHeader previous{};   // of each of them
  u64 last = 0;           // row id
  u32 streak = 0;         // deletions, each a little behind the one before
  u32 seq = 0;            // of the run's first row; 0: none is open
  u64 first = 0;          // row id
};

// The leaves of the rows that a worker has looked up last, two of each file.  Rows that an index
// scan fetches, or that are fetched and then changed, often are neighbours (index scan in the order
// of the rows: 0.6 of the time without); rows that are read in turn with others that are written
// are neighbours among themselves (insertions of keys that deleted rows had).
class LastLeaves {
 public:
  // Empty unless the row is near the last one of either leaf: to look whether a leaf is the right
  // one costs a cache miss, too.
  BTree::LeafFinger *of(const FileSlot &file, u64 row_id) {
    Entry *both = entries_[file.index % kFiles];
    const FileNo file_no = file.file_no.load(std::memory_order_relaxed);
    if (!both[0].is_near(file_no, row_id)) {
      std::swap(both[0], both[1]);   // the one used last comes first
      if (!both[0].is_near(file_no, row_id)) both[0] = {.file_no = file_no};
    }
    both[0].row_id = row_id;
    return &both[0].near;
  }

 private:
  static constexpr u32 kFiles = 8;
  static constexpr u64 kNear = 32;   // rows: about a leaf of them
  struct Entry {
    FileNo file_no = 0;
    u64 row_id = 0;
    BTree::LeafFinger near;
    bool is_near(FileNo file, u64 row) const {
      return file_no == file && row + kNear - row_id < 2 * kNear;
    }
  };
  Entry entries_[kFiles][2];
};

// The leaves that a worker has last inserted into at their ends, by index: where keys ascend, the
// next one belongs there, too, and needs no descent.  After an insertion anywhere else none is
// remembered, so that keys in random order do not pay for a wrong guess.  (COPY of 2 million rows
// with an ascending primary key: 0.86 of the CPU time.)
class AppendedLeaves {
 public:
  Frame *of(const FileSlot &file) const {
    const Entry &entry = entries_[file.index % kEntries];
    return entry.file_no == file.file_no.load(std::memory_order_relaxed) ? entry.leaf : nullptr;
  }
  void note(const FileSlot &file, Frame *leaf) {
    entries_[file.index % kEntries] = {file.file_no.load(std::memory_order_relaxed), leaf};
  }

 private:
  static constexpr u32 kEntries = 8;
  struct Entry {
    FileNo file_no = 0;
    Frame *leaf = nullptr;
  };
  Entry entries_[kEntries];
};

// Files of values that the worker's transaction has written to, which its commit relies on
// (wal/file_syncs.hpp).
class WrittenValueFiles {
 public:
  // LS_NO_MEMORY, and failures of the log.
  Status add(LogAppender &log, const FileRef &file);
  Status sync_first(LogAppender &log);
  void clear() { count_ = 0; }

 private:
  static constexpr u32 kMost = 8;
  struct Entry {
    FileNo file_no;
    char path[sizeof(FileSlot::path) + 4];
  };
  Entry entries_[kMost];
  u32 count_ = 0;
};

// Private to a process/thread; one per attached slot.
struct Worker {
  Worker(BufferPool *pool, Log log, TxnShared *txns, u32 slot);
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  BufferPool *pool;
  LogAppender log;
  TxnShared *txns;
  RangeShared *ranges = nullptr;   // of host workers; set by the store
  u32 slot;
  Ctx ctx;                  // points at this worker's log and pool

  Tn tn = 0;                // active transaction
  u32 next_seq = 1;
  bool has_log = false;     // its records have begun, or are about to
  bool named = false;       // one of them has named the transaction
  bool wrote_unlogged = false;
  u32 part = 0;             // of the transaction, which writes now (txn_set_part); 0: none
  Gsn prepared_gsn = 0;     // of the record that says so; 0: it is not prepared
  PreparedSlot *two_phase = nullptr;   // between txn_prepare and its hand-over or abort
  bool two_phase_logged = false;
  Shown shown;
  std::unique_ptr<Dependencies> dependencies;   // ctx points at it, too; null: not counted
  InsertRange inserts;
  LockBlock locks;
  DeleteRun deletes;
  BTree::LeafFinger lock_place;   // in the row lock tree, where the worker was last; a guess
  LastLeaves last_leaves;
  AppendedLeaves appended_leaves;
  SpareMemory scan_memory;
  WrittenValueFiles value_files;
  LockSweep lock_sweep;     // cleaner only
  VersionSweep version_sweep;
};

// ---- transaction.cpp; two-phase commit: prepared.hpp
Status txn_begin(Worker &w, Tn tn);
u32 txn_savepoint(Worker &w);
Status txn_reserve_commit(Worker &w);
// From the next change on this part of the transaction writes.
void txn_set_part(Worker &w, u32 part);
// The part that has made a change.  LS_NOT_FOUND: its undo entry has gone, or is not written yet,
// which that of a part is.
Status change_part(Worker &w, Tn tn, u32 seq, u32 *part);
Status txn_prepare_commit(Worker &w, u64 full_xid);
// The same with a host's log, which has it behind this call but need not be flushed; *host: as of
// LogMark, 0: there are no changes.  Then it is about the records of this worker only.
Status txn_write_out(Worker &w, u64 full_xid, u64 *host);
// What any worker has logged so far is in the host's log, if there is one, behind this call.
Status write_out_all(Worker &w);
Gsn txn_commit(Worker &w, Bytes note = {}, bool awaited = false);
void txn_abort(Worker &w);
void txn_rollback_to(Worker &w, u32 savepoint);
bool tn_is_active(const TxnShared &t, Tn tn);
// Copy active TNs (unsorted, at most cap); how many there are.
size_t active_tns(const TxnShared &t, Tn *out, size_t cap);
// The log must be kept from this GSN on for running transactions; ~0 when there is none.
struct ActiveTxn {
  u32 slot;
  Tn tn;           // 0: it is just leaving its slot
  Gsn first_gsn;   // not after its first record's
};
// Those that have logged something, or are about to.
void active_logged(const TxnShared &t, std::vector<ActiveTxn> *out);
// Every snapshot sees the changes of committed transactions below as done.  One that is being
// undone may be below.
Tn txn_horizon(const TxnShared &t);
// The same without those: transactions below have ended, in every sense, and their ghosts may go.
Tn settled_below(const TxnShared &t);
// The worker's transaction is over, or in a PreparedSlot by now.
void txn_leave(Worker &w);
// Before that, when it has a record in the log.
void note_highest_tn(Worker &w);
// Count from now on, or no more, how often the worker's commits depend on the logs of others.
void txn_count_dependencies(Worker &w, bool count);
// The worker has read a row; tn has written its newest version.
void use_row_of(Worker &w, Tn tn);

// The worker is shown a version that tn has written, or that tn has deleted it; tn has committed,
// or the version does not count.
void show_recent(Worker &w, const ls_snapshot &snapshot, Tn tn);
inline void show(Worker &w, const ls_snapshot &snapshot, Tn tn) {
  if (tn >= w.shown.hardened_below()) [[unlikely]] show_recent(w, snapshot, tn);
}

// For the folder's other files: announce the first logged change; a fresh sequence number;
// the partition of a transaction; the eyes of a snapshot (take it before reading rows).
void log_begin(Worker &w);
Status draw_seq(Worker &w, u32 *seq);
// The first of the sequence numbers of a run (VER-4), all of which are taken; 0: a transaction with
// so many changes keeps the rest for them.
u32 draw_run(Worker &w);
VersionStore version_store(Worker &w, Tn tn);
Viewer viewer_of(const Worker &w, const ls_snapshot &snapshot);

// ---- row_insert.cpp: the range of insertions that the worker keeps gets its undo entry
Status close_range(Worker &w);

// ---- row_log.cpp: kOpRow operations
// Redo one operation on its page; tn: of the transaction the record belongs to (0 for system
// records).
Status row_redo(u8 code, Bytes operands, u8 *page, Tn tn);

// ---- cleaner.cpp: engine thread; removes versions and ghosts that no snapshot needs, stale row
// lock entries, and what `more` removes.
struct CleanMore {
  void *arg = nullptr;
  Status (*clean)(void *arg, Worker &w, u64 *removed) = nullptr;   // null: nothing
};
Status clean_round(Worker &w, u64 *removed, const CleanMore &more = {});
// In a store that follows another one: versions alone, below the horizon.
Status clean_versions(Worker &w, u64 *removed);

// Keeps the cleaner, the only actor that changes rows and indexes unasked, from doing so.
class CleanerPause {
 public:
  explicit CleanerPause(TxnShared &txns);
  ~CleanerPause();
  CleanerPause(const CleanerPause &) = delete;
  CleanerPause &operator=(const CleanerPause &) = delete;
  // Waits for the end of a round that has begun before.
  Status wait(const volatile int *interrupt);

 private:
  TxnShared &txns_;
};

}  // namespace ls
