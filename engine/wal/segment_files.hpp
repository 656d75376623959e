// segment_files.hpp - one process' descriptors of the log's segments, opened as they are needed.
// That a segment exists is LogSegments' business.
#pragma once
#include <map>
#include <span>
#include <string>

#include "base/status.hpp"
#include "os/file.hpp"

namespace ls {

class SegmentFiles {
 public:
  // direct: past the page cache, where that is possible.
  SegmentFiles(const char *dir, u64 segment_bytes, bool direct)
      : dir_(dir), segment_bytes_(segment_bytes), direct_(direct) {}
  u64 number_of(Lsn lsn) const { return lsn / segment_bytes_; }
  // The first segment that has nothing of what ends at `end`.
  u64 number_behind(Lsn end) const { return (end + segment_bytes_ - 1) / segment_bytes_; }
  u64 offset_of(Lsn lsn) const { return lsn % segment_bytes_; }
  // LS_NOT_FOUND: the segment is not there.
  Status get(u64 number, File **out);
  // Descriptors of [from, to).
  Status open(Lsn from, Lsn to);
  Status write(Lsn lsn, std::span<const u8> bytes);
  // Of segments that will not be written again; the same name never comes back.
  void close_before(u64 number) { files_.erase(files_.begin(), files_.lower_bound(number)); }
  void close_all() { files_.clear(); }

 private:
  const std::string dir_;
  const u64 segment_bytes_;
  const bool direct_;
  std::map<u64, File> files_;
};

}  // namespace ls
