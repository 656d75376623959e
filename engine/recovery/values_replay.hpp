// values_replay.hpp - the host's recovery hands in bytes of values that it replays of its log
// (VWAL-2, VWAL-3 in vlog/value_sink.hpp).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "os/file.hpp"

namespace ls {

// Bytes to their places in files of values, which are made and grow as is necessary.  By one
// thread, before the engine's recovery; the host syncs the files.  All of it may be repeated.
class ValuesReplay {
 public:
  explicit ValuesReplay(const char *root_dir) : root_(root_dir) {}
  // relation: its path; bytes: from this page on, behind them zeros up to the end of a page.
  // *there false: the relation has gone.
  Status write(const char *relation, PageNo page, std::span<const u8> bytes, bool *there);

 private:
  struct Open {
    std::string path;
    File file;
    u64 used;
  };
  Status segment(const std::string &relation, u32 number, File **file);
  Status make(const std::string &relation, u32 number, Open *made);

  const std::string root_;
  std::vector<Open> open_;
  u64 uses_ = 0;
  std::vector<u8> pages_;
};

}  // namespace ls
