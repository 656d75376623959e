// file_use.hpp - keeps a relation file open while a worker is at it: for a call, or for a scan.
//
// Each worker has a line of its own in shared memory with the slots that it uses.  So to begin and
// to end a use is a write to a line that no other worker writes.
//   USE-1  A worker announces the use first, then it looks at the slot's state and number.  The
//          closer changes the state first, then it looks at the lines.  Both are sequentially
//          consistent: either the closer finds the use and lets the file be, or the worker finds
//          the state and waits for the end of the closing.
//   USE-2  A slot does not get another file while it is in a worker's line.
// A worker with a use may wait for rows or locks, and may begin further uses: the closer never
// waits for uses.  A worker that finds the table full waits for a bounded time (BufferPool::open).
#pragma once
#include "buffer/pool.hpp"

namespace ls {

class FileUse {
 public:
  FileUse() = default;
  ~FileUse() { end(); }
  FileUse(const FileUse &) = delete;
  FileUse &operator=(const FileUse &) = delete;

  // The file is opened again if it was closed; the handle follows it.  LS_NOT_FOUND: it was
  // dropped.  LS_LIMIT, LS_INTERRUPTED: it was to be opened.
  Status begin(Ctx &ctx, FileHandle *file) {
    if (file->slot && try_begin(ctx, *file)) return kOk;
    return begin_elsewhere(ctx, file);
  }
  // False: it is not open in that slot now.
  bool begin_open(Ctx &ctx, const FileHandle &file) { return file.slot && try_begin(ctx, file); }
  // What `other` uses, too.
  void begin_also(Ctx &ctx, const FileUse &other);
  void end() {
    if (!place_) return;
    // Release: the closer that finds the file unused sees what was done in it.
    if (place_ == &file_->further_uses) {
      place_->fetch_sub(1, std::memory_order_release);
    } else {
      place_->store(0, std::memory_order_release);
    }
    place_ = nullptr;
  }
  explicit operator bool() const { return place_ != nullptr; }
  FileSlot &file() const { return *file_; }

 private:
  bool try_begin(Ctx &ctx, const FileHandle &file) {
    announce(ctx, *file.slot);
    PoolShared &pool = *ctx.pool->shared();
    if (file.slot->file_no.load(std::memory_order_relaxed) == file.number &&
        file.slot->state.load(std::memory_order_seq_cst) == FileState::kActive &&
        file.slot->file_no.load(std::memory_order_relaxed) == file.number) {
      const u64 now = pool.use_clock.load(std::memory_order_relaxed);
      std::atomic<u64> &last = file.slot->last_used;
      if (last.load(std::memory_order_relaxed) != now) last.store(now, std::memory_order_relaxed);
      return true;
    }
    end();
    return false;
  }
  void announce(Ctx &ctx, FileSlot &file) {
    PoolShared &pool = *ctx.pool->shared();
    file_ = &file;
    for (std::atomic<u32> &place : pool.uses[ctx.slot % pool.use_lines].slots) {
      if (place.load(std::memory_order_relaxed) != 0) continue;
      u32 none = 0;
      // Another context may have the same worker slot: recovery's.
      if (place.compare_exchange_strong(none, file.index + 1, std::memory_order_seq_cst)) {
        place_ = &place;
        return;
      }
    }
    file.further_uses.fetch_add(1, std::memory_order_seq_cst);
    place_ = &file.further_uses;
  }
  Status begin_elsewhere(Ctx &ctx, FileHandle *file);

  std::atomic<u32> *place_ = nullptr;
  FileSlot *file_ = nullptr;
};

}  // namespace ls
