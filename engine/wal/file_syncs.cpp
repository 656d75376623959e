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
    if (entries_[i].file_no != file.file_no) continue;
    entries_[i].asks++;
    return true;
  }
  const size_t bytes = std::strlen(file.path) + 1;
  LS_CHECK(bytes <= sizeof entries_[0].path, "the path of a relation file is too long");
  if (count == kMost) return false;
  entries_[count].file_no = file.file_no;
  entries_[count].asks = 1;
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
  }
  for (; *synced < count; ++*synced) {
    const Status status = file_sync({taken[*synced].file_no, taken[*synced].path});
    if (code(status) != LS_NOT_FOUND) LS_TRY(status);
  }
  const std::lock_guard guard(mutex_);
  // Only this removes, so the first ones are those that were taken.
  u32 kept = 0;
  for (u32 i = 0; i < count_.load(std::memory_order_relaxed); i++) {
    if (i >= count || entries_[i].asks != taken[i].asks) entries_[kept++] = entries_[i];
  }
  count_.store(kept, std::memory_order_relaxed);
  return kOk;
}

}  // namespace ls
