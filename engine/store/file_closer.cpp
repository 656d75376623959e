// file_closer.cpp - which files are idle, and the steps that close them.
#include "store/file_closer.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/interrupt.hpp"
#include "buffer/closed_file.hpp"
#include "buffer/sealed_files.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"
#include "txn/row.hpp"

namespace ls {

namespace {

// What prepared transactions have made or dropped may be in use by cleaners, for short.
constexpr u64 kMostBusyMs = 10'000;
constexpr i64 kBusyUs = 1'000;

// What is being closed: it stays open unless close() has done with it.
class Closing {
 public:
  Closing(PoolShared &pool, std::vector<FileSlot *> files)
      : pool_(pool), files_(std::move(files)) {}
  ~Closing() {
    for (FileSlot *file : files_) end_closing(pool_, *file, false);
  }
  Closing(const Closing &) = delete;
  Closing &operator=(const Closing &) = delete;

  const std::vector<FileSlot *> &files() const { return files_; }
  void keep(FileSlot *file) { end(file, false); }
  void close(FileSlot *file) { end(file, true); }

 private:
  void end(FileSlot *file, bool written) {
    std::erase(files_, file);
    end_closing(pool_, *file, written);
  }

  PoolShared &pool_;
  std::vector<FileSlot *> files_;
};

Status seal_row_ids(Worker &w, const Closing &closing) {
  const std::vector<FileSlot *> files = closing.files();
  for (FileSlot *file : files) {
    if (has_rows(file->kind)) LS_TRY(row_ids_seal(w, *file));
  }
  return kOk;
}

// Has redo made its pages?  When it is opened anew it is gone without.
bool has_meta(const BufferPool &pool, const FileSlot &file) {
  return is_meta(pool.page(file.meta.load(std::memory_order_acquire)), file.kind);
}

// *closed: how many; the others could not be made clean.
Status write_and_close(Worker &w, Closing *closing, u32 *closed) {
  BufferPool &pool = *w.pool;
  const bool follows = pool.shared()->following.load(std::memory_order_relaxed);   // FLW-7
  if (!follows) LS_TRY(seal_row_ids(w, *closing));
  LS_TRY(pool.flush_closing(w.ctx));
  const std::vector<const FileSlot *> unclean = pool.unclean_closing();
  const std::vector<FileSlot *> files = closing->files();
  for (FileSlot *file : files) {
    if (std::find(unclean.begin(), unclean.end(), file) != unclean.end() ||
        (follows && !has_meta(pool, *file))) {
      closing->keep(file);
      continue;
    }
    LS_TRY(tree_ops().closed_files->put(w.ctx, closing_name(*file)));
    if (file->logged && !follows) LS_TRY(pool.log_closing(w.ctx, *file));
    closing->close(file);
    (*closed)++;
  }
  return kOk;
}

}  // namespace

Status close_idle_files(Worker &w, u32 most, u32 *closed) {
  *closed = 0;
  PoolShared &pool = *w.pool->shared();
  Closing closing(pool, begin_closing(pool, most));
  return closing.files().empty() ? kOk : write_and_close(w, &closing, closed);
}

Status seal_and_close_files(Worker &w, Tn tn, std::span<const ls_ending_file> files) {
  LS_TRY(seal_files(w.ctx, tn, files));   // SEAL-2
  PoolShared &pool = *w.pool->shared();
  const u64 deadline = now_ms() + kMostBusyMs;
  for (bool busy = true;;) {
    const u32 event = pool.open_event.load(std::memory_order_acquire);
    {
      Closing closing(pool, begin_closing(pool, files, &busy));
      const size_t found = closing.files().size();
      u32 closed = 0;
      if (found > 0) LS_TRY(write_and_close(w, &closing, &closed));
      busy |= closed < found;
    }
    if (!busy) return kOk;
    if (interrupt_pending(w.ctx.interrupt))
      return fail(LS_INTERRUPTED, "interrupted while relation files were being closed");
    if (now_ms() > deadline)
      return fail(LS_IN_USE, "a relation file that the transaction made or dropped is in use");
    WaitReport report(&w.ctx.waits, LS_WAIT_OPEN_RELATION);
    futex_wait_interruptible(&pool.open_event, event, kBusyUs);
  }
}

}  // namespace ls
