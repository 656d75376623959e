// crash_harness.hpp - a store that lives through crashes in child processes, and the workload that
// tells whether it did.
//
// A life = one child process: recovers the store, checks it against what the parent knows, then
// works in several threads until it is killed, dies at a chosen system call, or shuts down.  The
// parent only keeps what the children report through pipes, so it knows what a client would know:
// which commits were acknowledged.
//
// The workload (all in one transaction): move money between two accounts, insert a marker row that
// says what was moved, insert three junk rows or delete the three of an earlier transaction.  Some
// transactions roll back, some roll back to a savepoint, some commit in two phases with a record in
// the "host's log".  Markers have a unique index, junk another one, some sweep the entries of rows
// that are gone; each life builds one more index on the markers and drops that of the life before.
// So after any crash:
//   - each balance is what the markers present say: no transaction is there in part, none without
//     what it had seen
//   - every acknowledged marker is there; two-phase ones exactly when the host's log has them
//   - the junk rows of a transaction are all there or all gone
//   - what recovery has decided once stays: markers of earlier lives neither vanish nor come back
//   - every row has its entry in each index, also in the one that was reported as built; entries of
//     rows that are there have their key
//   - the checker finds nothing
// LS_CRASH_KEEP=directory keeps the store as it was before each life there.
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "unit/store/store_fixture.hpp"

namespace ls::test {

inline constexpr u32 kAccounts = 20;
inline constexpr i64 kInitialBalance = 1000;
inline constexpr u32 kAccountTable = 16384, kMarkerTable = 16385, kJunkTable = 16386;
inline constexpr u32 kMarkerIndex = 16387, kJunkIndex = 16388;
inline constexpr u32 kFirstBuiltIndex = 17000;   // of life 0

// Identity of a transaction of the workload.
struct MarkerId {
  u32 life, worker, number;
  auto operator<=>(const MarkerId &) const = default;
};

struct Marker {
  MarkerId id;
  u32 from, to;
  i64 amount;
  u32 two_phase;
  u32 junk_inserted;   // 1: three rows
  // the transaction (same life, same worker) that has its rows deleted here; 0: none
  u32 junk_deleted;
};

// What children report.
enum class ReportKind : u32 {
  kAcknowledged,  // commit was acknowledged
  kDecided,       // the host's commit record of a two-phase transaction; value: xid
  kPresent,       // after recovery: the marker is there
  kRecovered,     // end of the list of kPresent; value: operations redone
  kXidLimit,      // ids below value may have been handed out
  kBuilt,         // an index on the markers; value: its relation
};
struct Report {
  ReportKind kind;
  Marker marker;
  u64 value;
};
static_assert(sizeof(Report) <= 512);  // one write is atomic (PIPE_BUF)

struct LifePlan {
  enum class End {
    kKill,      // SIGKILL after work_ms of work
    kShutdown,  // in good order after work_ms
    kCall,      // `arm` has made a system call fatal; if it is never made: SIGKILL
  };
  ls_config config{};
  u64 seed = 1;
  u32 workers = 3;
  u32 work_ms = 100;
  End end = End::kKill;
  u32 kill_after_us = 0;                // from the child's start, recovery included; 0: no
  u32 checkpoint_every_ms = 0;          // 0: only those of the store itself
  u64 next_xid = 0;                     // 0: one above all that were used
  std::function<void()> before_recovery;  // in the child
  std::function<void()> before_work;      // in the child
};

// What the parent knows.
struct Knowledge {
  u32 life = 0;
  std::set<MarkerId> acknowledged;      // must be there
  std::set<MarkerId> decided;           // two-phase, in the host's log: must be there
  std::set<u64> committed_xids;         // in the host's log
  std::set<MarkerId> settled;           // exactly what was there after the last complete recovery,
  u32 settled_lives = 0;                // of lives below this
  u64 next_xid = 3;                     // one above all used
  u64 max_committed_xid = 2;
  u32 built_index = 0;                  // has an entry for every marker; 0: none yet
};

class CrashHarness {
 public:
  explicit CrashHarness(const std::string &root);

  // Run one life.  Returns an empty string or what is wrong with the store.
  std::string live(const LifePlan &plan);
  Knowledge &known() { return known_; }
  const std::string &root() const { return directory_.root(); }
  bool recovered() const { return recovered_; }            // in the last life
  u64 operations_redone() const { return operations_; }    // in the last life
  int wait_status() const { return wait_status_; }         // of the last child

 private:
  std::string take(const Report &report);
  std::string judge();

  HostDirectory directory_;
  Knowledge known_;
  std::map<MarkerId, Marker> present_;
  bool recovered_ = false;
  u64 operations_ = 0;
  int wait_status_ = 0;
};


}  // namespace ls::test
