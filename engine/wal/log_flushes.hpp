// log_flushes.hpp - the rounds in the log's files, one after the other, for recovery and for
// inspection.  Trusts no byte.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "os/file.hpp"
#include "wal/log_record.hpp"

namespace ls {

// Random access to the stream, buffered.
class LogStream {
 public:
  LogStream(const char *dir, u64 segment_bytes);
  // Copy [lsn, lsn + bytes); *whole is false when the stream ends before.  LS_CORRUPT: a segment is
  // missing between others.
  Status read(Lsn lsn, u8 *to, size_t bytes, bool *whole);
  // What was read becomes durable: it may so far be only in the page cache, and recovery builds on
  // it.
  Status sync(Lsn from, Lsn end);
  // Behind the last segment that follows that of lsn without a gap.
  Status end_of_segments(Lsn lsn, Lsn *end) const;
  std::string path_at(Lsn lsn) const;
  const std::string &directory() const { return dir_; }

 private:
  Status fill(Lsn lsn);
  Status missing(u64 number);

  const std::string dir_;
  const u64 segment_bytes_;
  File file_;
  u64 number_ = 0;
  std::vector<u8> window_;
  Lsn window_lsn_ = 0;
  size_t window_bytes_ = 0;
};

// Whether a round may begin here: its header says so.
Status log_round_header(LogStream &stream, Lsn lsn, RoundHeader *header, bool *plausible);
// Copy the round of that header to `to` (header.bytes); *whole: its checksum matches.
Status log_round_load(LogStream &stream, const RoundHeader &header, u8 *to, bool *whole);

// Call `each` for every record of a whole round, chunk by chunk.  LS_CORRUPT when the contents do
// not make sense: that is no torn write, the checksum matched.
using LogRecordEach = std::function<void(u32 slot, const LogRecord &record, const u8 *bytes)>;
Status log_round_records(const RoundHeader &header, const u8 *round, const LogRecordEach &each);

// A whole round behind `lsn`, of run `run` or a later one, that was written when all before `lsn`
// and something behind it was on disk already.  If there is one, what is at `lsn` is no torn write.
// *position: of that round; 0: none.
Status log_find_proof(LogStream &stream, Lsn lsn, u64 run, Lsn *position);

}  // namespace ls
