// log_files.hpp - one process' side of the log's segments: writing rounds and syncing them.  Used
// under the mutex of LogShared::round.
//
// The log is written in whole blocks, past the page cache where that is possible: the kernel then
// copies nothing, finds no pages to mark and to clean again, and a sync has only the device to wait
// for.
#pragma once
#include <new>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "wal/log_slot.hpp"
#include "wal/segment_files.hpp"

namespace ls {

template <typename T>
struct LogBlockAllocator {
  using value_type = T;
  T *allocate(size_t n) {
    return static_cast<T *>(::operator new(n * sizeof(T), std::align_val_t{kLogBlockBytes}));
  }
  void deallocate(T *p, size_t) { ::operator delete(p, std::align_val_t{kLogBlockBytes}); }
  bool operator==(const LogBlockAllocator &) const = default;
};
using LogBlocks = std::vector<u8, LogBlockAllocator<u8>>;

class LogFiles {
 public:
  LogFiles(const char *dir, u64 segment_bytes, bool fsync)
      : segments_(dir, segment_bytes, true), fsync_(fsync) {}
  // Descriptors of [from, to): then neither writing nor syncing there needs another, or memory.
  Status open(Lsn from, Lsn to) { return segments_.open(from, to); }
  // Positions, sizes and buffers are those of whole blocks.
  Status write(Lsn lsn, std::span<const u8> bytes);
  Status read_block(Lsn lsn, u8 *block);
  // What any process has written there: the kernel syncs all of a file's dirty pages.
  Status sync(Lsn from, Lsn to, u32 *files_synced);

 private:
  SegmentFiles segments_;
  const bool fsync_;
};

}  // namespace ls
