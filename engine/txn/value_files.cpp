// value_files.cpp - the files that a transaction's commit relies on.
#include <cstring>

#include "base/check.hpp"
#include "txn/worker.hpp"

namespace ls {

// With a host's log that has the bytes (VWAL-1).
Status WrittenValueFiles::add(LogAppender &log, const FileRef &file) {
  if (log.log().has_host_log()) return kOk;
  for (u32 i = 0; i < count_; i++) {
    if (entries_[i].file_no == file.file_no) return kOk;
  }
  // Files that are written to later are synced by the commit.
  if (count_ == kMost) return log.sync_first(file);
  const size_t bytes = std::strlen(file.path) + 1;
  LS_CHECK(bytes <= sizeof entries_[0].path, "the path of a relation file is too long");
  entries_[count_].file_no = file.file_no;
  std::memcpy(entries_[count_++].path, file.path, bytes);
  return kOk;
}

Status WrittenValueFiles::sync_first(LogAppender &log) {
  for (u32 i = 0; i < count_; i++) LS_TRY(log.sync_first({entries_[i].file_no, entries_[i].path}));
  return kOk;
}

}  // namespace ls
