// relay_files.hpp - the log's files where the host's log is the log: the relay log.  The rounds of
// the host's log at their places in the stream, in the format of the engine's log, so that recovery
// reads them as ever.
//
//   RELAY-1  What the host inserted before the place where its own recovery would begin is synced
//            here before that place counts (Log::sync_relay).
//   RELAY-2  After a crash no round counts that the host's log has lost.  Such rounds may be here:
//            RelayReplay (recovery/) cuts them off, behind the last round that was replayed.  When
//            none was there are none: the host makes the first round behind the place where its
//            recovery would begin durable before ls_host_log::insert returns.
//   RELAY-3  While the store runs the last rounds are in shared memory (RelayBuffer), so that the
//            files get them in larger parts.  What reads or syncs the files writes them out before
//            (Log::complete_relay).  After a crash the host's log has them: RELAY-1.
#pragma once
#include <span>

#include "base/status.hpp"
#include "wal/log_slot.hpp"
#include "wal/segment_files.hpp"

namespace ls {

// One process' side of it: buffered writes of any bytes.
class RelayFiles {
 public:
  RelayFiles(const char *dir, u64 segment_bytes) : segments_(dir, segment_bytes, false) {}
  Status open(Lsn from, Lsn to);
  // The next round, which may stay in the buffer.  The round mutex is held, here and below.
  Status add(RelayBuffer &buffer, Lsn lsn, std::span<const u8> round);
  Status write_out(RelayBuffer &buffer);
  Status write(Lsn lsn, std::span<const u8> bytes) { return segments_.write(lsn, bytes); }
  // What any process has written in [from, to) and is not truncated: segments that are gone are
  // not needed, and no name comes back.
  Status sync(Lsn from, Lsn to);

 private:
  SegmentFiles segments_;
};

}  // namespace ls
