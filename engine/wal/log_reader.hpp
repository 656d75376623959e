// log_reader.hpp - reads the log back for recovery.  Trusts no byte: every length is checked against the round, a round
// that does not verify is the end of the log.
#pragma once
#include <functional>
#include <vector>

#include "wal/log.hpp"

namespace ls {

// One record; there are very many, so it is taken apart when it is looked at.
struct LogEntry {
  Gsn gsn;
  const u8 *data;      // in memory owned by the LogImage; sound, as log_round_records has found
  Lsn lsn;             // of its round
  u32 slot;
  u32 run;             // of its round
  LogRecord record() const;
};

// The whole readable log from `from` on, sorted by GSN.  Cut per run: of the records of a run only those at or below the
// complete_gsn of that run's last whole round.  (A crash cut the others; the next run's recovery has undone what depended
// on them and goes on counting behind them, so its larger complete_gsn must not bring them back.)
struct LogImage {
  std::vector<LogEntry> entries;   // ascending gsn, all <= complete_gsn of their run
  Gsn complete_gsn = 0;            // of the last whole round (0: no round)
  Gsn max_gsn = 0;                 // largest seen, cut ones included
  Lsn begin = 0;                   // where reading began
  Lsn end = 0;                     // where appending continues
  u64 run = 0;                     // of the last round
  std::vector<std::vector<u8>> storage;
};

// Read all rounds from `from` to the end; one of a run before first_run is left over from a tail that was cut, and ends the
// log.  A missing first segment is LS_CORRUPT; a torn tail is not an error.  A log that ends before known_end is damaged, and
// so is one with a later round that could not have been written before what is missing now was on disk.
Status read_log(const char *dir, u64 segment_bytes, Lsn from, u64 first_run, LogImage &out, Lsn known_end = 0);
// A look at the end of the log before that: no segment is no log, and an end that shows damage is an end.
Status read_log_tail(const char *dir, u64 segment_bytes, Lsn from, u64 first_run, LogImage &out);

}  // namespace ls
