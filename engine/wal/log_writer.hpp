// log_writer.hpp - the committing process' private side of the log: what a group commit round needs besides shared
// memory.  Private to wal/.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "wal/log_segments.hpp"
#include "wal/log_slot.hpp"

namespace ls {

// A round is cut when the staging buffer has this much, so that it stays in the cache and bounded.
inline constexpr u32 kStagingBytes = 4 << 20;

class LogWriter {
 public:
  LogWriter(LogShared *shared, Lsn lsn, Gsn gsn, u64 run);
  Status open() { return segments_.open(end_); }
  Status round(u64 *wrote);
  LogSegments &segments() { return segments_; }
  // The last round could not complete a record already written because some worker was between drawing a GSN and
  // publishing: that ends by itself in an instant, nobody will kick.
  bool blocked_by_append() const { return blocked_by_append_; }

 private:
  struct Collected {
    u32 slot;
    u64 from, to;  // ring positions
  };
  Gsn collect();
  Status write_collected(Gsn complete);
  Status flush_round(Gsn complete);
  void stage(const Collected &part);
  void inspect(const u8 *records, u64 bytes);
  Status sync();
  void publish(Gsn complete);
  void publish_hardened(Gsn complete);
  void fail_log();

  LogShared *shared_;
  LogSegments segments_;
  std::mutex mutex_;            // one round at a time
  std::vector<Collected> collected_;
  std::vector<u8> staging_;     // the round being built
  u16 chunks_ = 0;
  Lsn end_;
  u64 run_;
  Gsn complete_;                // as computed last; never decreases
  Gsn persisted_;               // in the last durable round
  Gsn max_written_;             // in all rounds before the one in staging_
  Gsn round_max_ = 0;           // in staging_
  bool blocked_by_append_ = false;
};

// The writer of this process for the log, null when open_for_append was not called here.
std::shared_ptr<LogWriter> log_writer_of(LogShared *shared);

void log_add_position(PositionTable &table, Lsn lsn, Gsn max_before);

}  // namespace ls
