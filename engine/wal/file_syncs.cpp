// file_syncs.cpp - the list, and the syncs.
#include "wal/file_syncs.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/check.hpp"

namespace ls {

bool FileSyncs::ask(const FileRef &file) {
  const std::lock_guard guard(mutex_);
  const u32 count = count_.load(std::memory_order_relaxed);
  for (u32 i = 0; i < count; i++) {
    if (entries_[i].file_no == file.file_no) return true;
  }
  const size_t bytes = std::strlen(file.path) + 1;
  LS_CHECK(bytes <= sizeof entries_[0].path, "the path of a relation file is too long");
  if (count == kMost) return false;
  entries_[count].file_no = file.file_no;
  std::memcpy(entries_[count].path, file.path, bytes);
  // Pairs with run(): a round that has the record of this worker's commit sees it.
  count_.store(count + 1, std::memory_order_release);
  return true;
}

Status FileSyncs::run(u32 *synced) {
  *synced = 0;
  if (count_.load(std::memory_order_acquire) == 0) return kOk;
  Entry taken[kMost];
  u32 count;
  {
    const std::lock_guard guard(mutex_);
    count = count_.load(std::memory_order_relaxed);
    std::copy_n(entries_, count, taken);
    count_.store(0, std::memory_order_relaxed);
  }
  for (; *synced < count; ++*synced) {
    const Status status = file_sync({taken[*synced].file_no, taken[*synced].path});
    if (ok(status) || code(status) == LS_NOT_FOUND) continue;
    if (code(status) != LS_NO_MEMORY) return status;
    // As many as there were, and those that have come since.
    for (u32 i = *synced; i < count; i++) {
      if (!ask({taken[i].file_no, taken[i].path})) return status;
    }
    return status;
  }
  return kOk;
}

}  // namespace ls
