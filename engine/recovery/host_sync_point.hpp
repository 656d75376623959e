// host_sync_point.hpp - leanstore/host_sync_point: up to where of the log the host's own log has
// every commit on disk, too.
//
// A commit is durable when this log is.  The host's record of the same transaction may then be in
// memory only, and a crash takes it along with the transaction's number.  So the host notes from
// time to time how far its own log has come, and reads, before the recovery of its next start,
// which commits came behind that.
//
//   SYNC-1  Every kCommit before HostSyncPoint::position has passed ls_txn_commit when the host
//           asked for that position; the host had recorded it before, and has made its own log
//           durable since.  What else was in the lost record goes along with kCommit (its note).
//   SYNC-2  The log is kept from the position on (ls_store::noted); it is truncated when a note of
//           at least that is synced.
//   SYNC-3  A note is about one run.  A start replaces it when its own records are durable and
//           before the first worker comes; until then the old one is right, as commits of the old
//           run are the only ones.
//   SYNC-4  It is replaced durably once a start, then overwritten in place and synced by
//           checkpoints only: one that is older than need be finds more commits, all of which the
//           host may record twice.
#pragma once
#include <vector>

#include "base/status.hpp"
#include "base/types.hpp"

namespace ls {

inline constexpr Lsn kNothingNoted = ~Lsn{0};

struct HostSyncPoint {
  u64 magic;
  u32 version;
  u32 crc;        // crc32c with this field zero
  Lsn position;   // where a round begins, or will
  u64 run;        // that logs from there on
  u64 tn_offset;  // of that run: full transaction id = TN - this
};
static_assert(sizeof(HostSyncPoint) == 40);

struct CommitsBehind {
  struct Commit {
    u64 full_xid;
    size_t note_at;      // in `notes`
    u32 note_bytes;
  };
  std::vector<Commit> commits;  // ascending
  std::vector<u8> notes;        // what the host has given along with them
  u64 highest_full_xid = 0;    // of all transactions that have logged anything, 0: none
};

// Fills magic, version and checksum in.
Status host_sync_point_replace(const char *data_dir, HostSyncPoint note);
Status host_sync_point_update(const char *data_dir, HostSyncPoint note);
// A store without: nothing is to be read of an earlier one.
Status host_sync_point_remove(const char *data_dir);
Status host_sync_point_sync(const char *data_dir);
// What the log in data_dir/wal has behind the note, made durable before it is told; nothing without
// a note.  LS_CORRUPT: the note is damaged.  Damage in the log is for recovery to find: what lies
// behind it is not told.
Status commits_behind_note(const char *data_dir, u64 segment_bytes, CommitsBehind *out);

}  // namespace ls
