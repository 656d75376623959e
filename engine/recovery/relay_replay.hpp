// relay_replay.hpp - the host's recovery hands in what it replays of its log, before the engine's
// recovery: RELAY-2 in wal/relay_files.hpp.
#pragma once
#include <atomic>
#include <span>
#include <string>

#include "base/status.hpp"
#include "wal/log_segments.hpp"
#include "wal/relay_files.hpp"

namespace ls {

// The rounds that the host replays put in their places; before the engine's recovery, by one
// thread.  All of it may be repeated.
class RelayReplay {
 public:
  // data_dir: of the store.
  RelayReplay(const char *data_dir, u64 segment_bytes, bool fsync);
  // Whole rounds in the order of the stream, without a gap.  Those that the engine's recovery does
  // not need any more are passed over.  LS_CORRUPT: this is no round of this place.
  Status add(Lsn lsn, std::span<const u8> round);
  // Nothing behind counts; all is durable.
  Status finish();

 private:
  Status begin();
  Status cut(Lsn end);

  const std::string data_dir_, dir_;
  const u64 segment_bytes_;
  const bool fsync_;
  bool begun_ = false, wanted_ = false;
  Lsn needed_from_ = 0;       // ControlFile::redo_lsn
  Lsn seen_ = 0;              // end of the last round, 0: none yet
  Lsn first_ = 0, end_ = 0;   // of what was put in its place; equal: nothing
  std::atomic<Lsn> ready_until_{0};
  LogSegments segments_;
  RelayFiles files_;
};

}  // namespace ls
