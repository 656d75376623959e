// log_image.hpp - a whole log in memory, for tests that look at all of its records.
#pragma once
#include <memory>
#include <vector>

#include "wal/log_reader.hpp"

namespace ls {

struct LogImage : LogExtent {
  std::vector<LogEntry> entries;
  std::shared_ptr<LogReader> reader;   // its memory
};

inline Status read_log(const char *dir, u64 segment_bytes, Lsn from, u64 first_run, LogImage &out,
                       Lsn known_end = 0) {
  out = LogImage{};
  out.reader = std::make_shared<LogReader>(dir, segment_bytes, from, first_run);
  LS_TRY(log_begins(dir, segment_bytes, from));
  for (;; out.reader->pop()) {
    const LogEntry *entry;
    LS_TRY(out.reader->peek(&entry));
    if (!entry) break;
    out.entries.push_back(*entry);
  }
  static_cast<LogExtent &>(out) = out.reader->extent();
  LS_TRY(out.reader->check_end(known_end));
  return out.reader->make_durable();
}

}  // namespace ls
