// log_inspect.hpp - the records of the log, one page operation at a time, for people: what is in
// it, of which transaction, about which file.
//
// Reads the files, so only what is durable; while the store runs.  Changes nothing.  What it reads
// may be truncated away meanwhile: then the scan ends with an error that says so.
#pragma once
#include <optional>
#include <unordered_map>
#include <vector>

#include "recovery/log_analysis.hpp"
#include "wal/log_flushes.hpp"

namespace ls {

class LogInspector {
 public:
  using Files = std::unordered_map<FileNo, ls_rel_key>;
  // Rounds that begin in [from, to); `from` must be where one does.  files: those that are open.
  LogInspector(Files files, const char *dir, u64 segment_bytes, Lsn from, Lsn to);
  // LS_END behind the last one.
  Status next(ls_log_item *item);

 private:
  Status next_round();
  void begin_record();
  Tn transaction_of(u32 slot, const LogRecord &record);
  void note_file(const LogRecord &record);
  void name_file(FileNo file_no, ls_log_item *item) const;

  LogStream stream_;
  Lsn position_;               // of the next round
  const Lsn to_;
  RoundHeader header_{};
  std::vector<u8> round_;
  std::vector<LogEntry> records_;  // of the round, in the order in which they stand
  size_t next_record_ = 0;
  ls_log_item record_{};         // what its items have in common
  std::optional<LogOpReader> ops_;
  std::unordered_map<u32, Tn> running_;            // by slot, as far as its kFirstRow was met
  Files files_;
};

}  // namespace ls
