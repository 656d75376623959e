// relay_replay.hpp - the host's recovery hands in what it replays of its log, before the engine's
// recovery: RELAY-2 in wal/relay_files.hpp.
#pragma once
#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "recovery/restore_state.hpp"
#include "wal/log_segments.hpp"
#include "wal/relay_files.hpp"

namespace ls {

// The rounds that the host replays put in their places; before the engine's recovery, by one
// thread.  All of it may be repeated.
class RelayReplay {
 public:
  // data_dir: of the store.  restoring: it is a copy, and a state is to come (restore_state.hpp).
  RelayReplay(const char *data_dir, u64 segment_bytes, bool fsync, bool restoring);
  // No other process reads the files until sync() or finish(): they are written in larger parts.
  void gather() { gathers_ = true; }
  // Whole rounds in the order of the stream, without a gap.  Those that the engine's recovery does
  // not need any more are passed over.  LS_NOT_FOUND: there is a gap.  LS_CORRUPT: this is no round
  // of this place.
  Status add(Lsn lsn, std::span<const u8> round);
  // What is needed of the log has been added, or is in the state, if restoring.  From now on that
  // is over: control file and log fit each other.  Later ones only say where the log is.
  Status restore(const RestoreState &state);
  // Behind the last round; 0: there was none yet.
  Lsn position() const { return seen_; }
  // All that was added is durable: replay may begin behind it next time.
  Status sync();
  // Nothing behind counts; all is durable.
  Status finish();

 private:
  Status begin();
  Status go_on();
  Status put(Lsn lsn, std::span<const u8> bytes);
  Status write_out();
  Status is_there(Lsn lsn, std::span<const u8> bytes, bool *there);
  Status cut(Lsn end);

  const std::string data_dir_, dir_;
  const u64 segment_bytes_;
  const bool fsync_;
  bool restoring_;
  bool begun_ = false, wanted_ = false;
  bool clean_ = false;        // so says the control file
  Lsn needed_from_ = 0;       // ControlFile::redo_lsn
  Lsn seen_ = 0;              // end of the last round, 0: none yet
  Lsn first_ = 0, end_ = 0;   // of what was put in its place; equal: nothing
  Lsn synced_ = 0;            // up to there
  bool gathers_ = false;
  std::vector<u8> gathered_;   // not written yet, from gathered_at_ on
  Lsn gathered_at_ = 0;
  std::vector<u8> before_;     // what the file has in that place
  std::atomic<Lsn> ready_until_{0};
  LogSegments segments_;
  SegmentFiles present_;   // to read what they have
  RelayFiles files_;
};

}  // namespace ls
