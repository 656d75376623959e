// standby_follow.hpp - a standby with tables that can be read: what its host replays is redone at
// once, in the pool that readers use (docs/decisions/0053).
//
//   step   by                 does
//   begin  owner of threads   redoes the files of the log up to a place, the pool to itself
//   join   the same           catches up with the host's replay and lets readers in: kFollowing
//   round  the host's replay  redoes each round when it is in the relay log
//   cover  owner of threads   pages may be written as far as the host's replay will come again
//   end    owner of threads   readers stay; recovery goes on as after a crash
//
// FLW-4  A snapshot that is taken behind `join` has all versions that it needs: before what was
//        committed by then it needs none, and those of open transactions are made of the log
//        (recovery/open_versions.hpp).  The host keeps older snapshots away.
// FLW-5  A page is not written before the host's replay, begun anew, would come as far as its last
//        change before it lets readers in: the log counts as hardened up to there (cover).
// FLW-6  The host's replay goes on behind a round when that is redone.  So all that a snapshot sees
//        as committed is in the trees.
//
// follow_mutex: the host's replay and `join` exclude each other.
#pragma once
#include <span>

#include "recovery/log_follower.hpp"
#include "store/store.hpp"

namespace ls {

// One process' side.
struct FollowProcess {
  FollowProcess(BufferPool &pool, const ls_store &store, const ControlFile &control)
      : w(&pool, pool.log(), store.txns, store.config.worker_slots + kSlotRecovery),
        follower(w, store.config.data_dir, control) {}
  Worker w;
  LogFollower follower;
};

// to: of the relay log; the host's replay is at it or behind, and will come there again (FLW-5).
// 0: nothing was replayed yet, which will do if the store was shut down; else LS_NOT_READY, and it
// can be called again.
Status follow_begin(ls_store &store, Lsn to);
Status follow_join(ls_store &store);

// By the host's replay: the relay log has all before `position`.
void follow_note_replayed(ls_store &store, Lsn position);
// round: the one that has just come, or empty: go on, what was in conflict is resolved up to
// `resolved`.  LS_CONFLICT: see LogFollower::apply.
struct FollowRound {
  std::span<const u8> round;
  Tn resolved = 0;
  bool aborted = false;
  LogFollower::Conflict conflict{};
  Gsn reached = 0;   // with LS_LIMIT: of this round
};
Status follow_round(ls_store &store, FollowRound *round);

// By the same: the files of a database are about to go, and no reader has one.
Status follow_forget_database(ls_store &store, u32 database);

// What redo has come to; the host makes sure of it, then says so.
inline Gsn follow_reached(const ls_store &store) {
  return store.followed_gsn.load(std::memory_order_acquire);
}
void follow_cover(ls_store &store, Gsn gsn);

// The host's replay has ended.  In the pool all is as recovery's redo leaves it.
Status follow_end(ls_store &store);

}  // namespace ls
