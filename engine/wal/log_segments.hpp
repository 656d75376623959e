// log_segments.hpp - the log's files: segment n holds stream bytes [n * segment_bytes, (n + 1) *
// segment_bytes).
//
// A segment's name is its number as 16 hexadecimal digits.  It is made under a temporary name,
// really filled with zeros, synced, renamed, and the directory synced: a segment under its final
// name has its full size, and writing into it changes no metadata (fdatasync stays cheap, a full
// disk shows here and not in the middle of a round).  No commit waits for a sync of the relay log:
// its segments are only allocated, which spares a second write of all that is in them.  Segments
// that are not needed any more are renamed to future numbers; what they still contain is rejected
// by the reader: the position in each round's header does not match.
//
// SEG-1  the segment that contains the stream's end exists.
// SEG-2  every segment that holds stream bytes of [end, *ready_until) exists; a worker that writes
//        a round there needs no more than a look.
// Crash: temporary files are removed at the next open; a rename has happened or not; all states are
// readable.
// Locks: make_mutex_ (creating, renaming, removing) before set_mutex_ (the set of numbers).
// Neither across a write of a round, except when it needs a segment that is not there.
#pragma once
#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "base/status.hpp"
#include "os/file.hpp"

namespace ls {

// Name of segment `number` in dir.
std::string log_segment_path(const std::string &dir, u64 number);
// Numbers of the segments present.
// How many there are; needs no memory.
Status log_segments_count(const char *dir, u64 *count);
Status log_segments_present(const std::string &dir, std::set<u64> &numbers);

class LogSegments {
 public:
  enum class Fill : u8 { kWritten, kAllocated };

  LogSegments(const char *dir, u64 segment_bytes, bool fsync, std::atomic<Lsn> *ready_until,
              Fill fill);
  // The stream continues at lsn: make the directory and its segment, repair or drop what a crash
  // without sync left.
  Status open(Lsn lsn);
  // All segments of [from, to], the one containing `to` included, exist.  LS_NO_SPACE, nothing else
  // harmed.
  Status ensure(Lsn from, Lsn to);
  // A segment behind that of lsn exists already.
  bool has_spare(Lsn lsn);
  Status make_spare(Lsn lsn);
  // Segments wholly before lsn: keep some as spares behind `end`, remove the others.
  Status truncate(Lsn lsn, Lsn end);

 private:
  u64 number_of(Lsn lsn) const { return lsn / segment_bytes_; }
  bool exists(u64 number);
  Status ensure_number(u64 number);
  Status make(u64 number);
  Status fill(File &file, u64 from);
  void add_present(u64 number);
  void publish_ready(u64 from);
  Status sync_directory();

  const std::string dir_;
  const u64 segment_bytes_;
  const bool fsync_;
  const Fill fill_;
  std::mutex make_mutex_;
  std::mutex set_mutex_;
  std::set<u64> present_;            // under set_mutex_
  std::atomic<Lsn> *ready_until_;    // stored under set_mutex_; never decreases
};

}  // namespace ls
