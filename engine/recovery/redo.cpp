// redo.cpp - the log read in portions, each redone by several threads.
#include "recovery/redo.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "base/interrupt.hpp"
#include "buffer/change_buffer.hpp"
#include "recovery/awaited_images.hpp"
#include "recovery/crew.hpp"
#include "recovery/redo_page.hpp"
#include "recovery/redo_portion.hpp"

namespace ls {

namespace {

// A thread more is worth while for so many pages.
constexpr size_t kPagesPerThread = 1024;
// REDO-6: with more changes a page is read.
constexpr size_t kMostPutOff = 32;

struct RedoTables {
  RecoveryFiles &files;
  RecoveryPages &pages;
  AwaitedImages &awaited;
  bool puts_off;
};

// Half of the change buffer is for changes of damaged pages, and for those to come.
bool half_is_free(const BufferPool &pool) {
  const PoolShared &shared = *pool.shared();
  return shared.change_buffer_frames.load(std::memory_order_relaxed) <
         most_change_buffer_frames(shared) / 2;
}

// The pages of a portion: each thread of the crew takes a batch when it has time.
class PortionRedo {
 public:
  PortionRedo(Ctx &ctx, const RedoTables &tables, const RedoPortion &portion, RedoStats &stats)
      : ctx_(ctx),
        files_(tables.files),
        pages_(tables.pages),
        awaited_(tables.awaited),
        puts_off_(tables.puts_off),
        portion_(portion),
        stats_(stats) {}

  Status run() {
    const size_t processors = std::max(1u, std::thread::hardware_concurrency());
    const size_t threads = std::min(processors, portion_.pages().size() / kPagesPerThread);
    return crew_.run("ls redo", static_cast<u32>(threads), [this](u32) { return work(); });
  }

 private:
  Status work() {
    Ctx ctx;   // the counts in it are a thread's own
    ctx.pool = ctx_.pool;
    ctx.slot = ctx_.slot;
    ctx.interrupt = ctx_.interrupt;
    RedoStats stats;
    LS_TRY(take_pages(ctx, &stats));
    std::lock_guard guard(mutex_);
    stats_.ops_applied += stats.ops_applied;
    stats_.ops_skipped += stats.ops_skipped;
    stats_.ops_put_off += stats.ops_put_off;
    return kOk;
  }

  Status take_pages(Ctx &ctx, RedoStats *stats) {
    RecoveryReads reads(pages_, ctx);
    for (bool more = true;;) {
      while (more && reads.room()) LS_TRY(ask(reads, stats, &more));
      u32 index;
      bool none;
      LS_TRY(reads.next(&index, &none));
      if (none && !more) return kOk;
      if (none) continue;
      RecoveryPages::Page &page = pages_.page(index);
      const FileNo file_no = page.file->file_no.load(std::memory_order_relaxed);
      if (must_wait(pages_.pool(), page)) {
        if (have_whole_page(portion_.ops(index))) {
          begin_anew(pages_.pool(), &page);   // REDO-5
          awaited_.remove(file_no, page.page_no);
        } else if (page.damaged) {
          LS_TRY(await_image(ctx, page, portion_.ops(index)));
          continue;
        } else {   // for what a portion before has put off
          LS_TRY(apply_buffered_changes(ctx, *page.file, page.frame));
        }
      }
      if (portion_.ops(index).empty()) continue;
      RecoveryFile &file = files_.at(file_no);
      bool truncated;
      LS_TRY(redo_page(pages_.pool(), page, file.started_empty, portion_.ops(index), stats,
                       &truncated));
      if (truncated) file.truncated.store(true, std::memory_order_relaxed);
      if (crew_.failed()) return kOk;
      if (interrupt_pending(ctx.interrupt)) return fail(LS_INTERRUPTED, "recovery was interrupted");
    }
  }

  // Of a damaged page.
  Status await_image(Ctx &ctx, const RecoveryPages::Page &page, std::span<const RedoOp> ops) {
    const FileNo file_no = page.file->file_no.load(std::memory_order_relaxed);
    if (awaited_.contains(file_no, page.page_no) || ops.empty()) return kOk;
    const bool blind = are_blind(ops), can = blind || (puts_off_ && can_wait(ops));
    if (can && let_wait(pages_.pool(), page, ops)) return kOk;
    if (blind)
      (void)fail(LS_NO_FRAMES, "the buffer pool is too small for what waits for damaged pages");
    else
      LS_TRY(read_damaged(ctx, page));
    awaited_.add(file_no, page.page_no);
    return kOk;
  }

  Status ask(RecoveryReads &reads, RedoStats *stats, bool *more) {
    const size_t first = taken_.fetch_add(RecoveryReads::kBatch, std::memory_order_relaxed);
    const std::span<const u32> all = portion_.pages();
    *more = first < all.size();
    if (!*more) return kOk;
    u32 wanted[RecoveryReads::kBatch], n = 0;
    for (const u32 index : all.subspan(first, std::min<size_t>(RecoveryReads::kBatch,
                                                               all.size() - first))) {
      if (put_off(index)) {
        stats->ops_put_off += portion_.ops(index).size();
        continue;
      }
      begin_whole(index);
      wanted[n++] = index;
    }
    reads.ask({wanted, n});
    if (interrupt_pending(ctx_.interrupt)) return fail(LS_INTERRUPTED, "recovery was interrupted");
    return kOk;
  }

  // REDO-5
  void begin_whole(u32 index) {
    const RecoveryPages::Page &page = pages_.page(index);
    const FileNo file_no = page.file->file_no.load(std::memory_order_relaxed);
    if (page.read || files_.at(file_no).started_empty || !have_whole_page(portion_.ops(index)))
      return;
    pages_.begin_empty(index);
    awaited_.remove(file_no, page.page_no);
  }

  // REDO-6
  bool put_off(u32 index) {
    const RecoveryPages::Page &page = pages_.page(index);
    if (!puts_off_ || page.read || portion_.is_freed(index)) return false;
    const FileNo file_no = page.file->file_no.load(std::memory_order_relaxed);
    const RecoveryFile &file = files_.at(file_no);
    // What is not in its file is zeros.
    if (file.started_empty || page.page_no >= file.pages) return false;
    const std::span<const RedoOp> ops = portion_.ops(index);
    return ops.size() <= kMostPutOff && can_wait(ops) && half_is_free(pages_.pool()) &&
           !awaited_.contains(file_no, page.page_no) && let_wait(pages_.pool(), page, ops);
  }

  Ctx &ctx_;
  RecoveryFiles &files_;   // found only: no file is entered meanwhile
  RecoveryPages &pages_;
  AwaitedImages &awaited_;
  const bool puts_off_;
  const RedoPortion &portion_;
  std::atomic<size_t> taken_{0};
  Crew crew_;
  std::mutex mutex_;
  RedoStats &stats_;   // under mutex_
};

void drop_truncated(BufferPool &pool, RecoveryFiles &files) {
  for (auto &[number, file] : files) {
    if (file.state != RecoveryFile::State::kOpen || !file.truncated.load(std::memory_order_relaxed))
      continue;
    const ls_rel_key key = file.slot->key;
    pool.forget_file(key);
    file.slot = nullptr;
    file.state = RecoveryFile::State::kGone;
  }
}

// So that others can be opened, all of them: what was changed is on disk.
Status close_files(BufferPool &pool, RecoveryFiles &files) {
  bool closed = false;
  std::set<FileNo> waiting;   // for pages that are damaged
  for (const ChangeBufferPage &page : change_buffer_pages(*pool.shared(), ~Gsn{0})) {
    waiting.insert(page.file_no);
  }
  for (auto &[number, file] : files) {
    if (file.state != RecoveryFile::State::kOpen || waiting.contains(number)) continue;
    if (file.slot->meta_torn.load(std::memory_order_relaxed)) continue;
    pool.close_recovered(*file.slot);
    file.slot = nullptr;
    file.state = RecoveryFile::State::kClosed;
    closed = true;
  }
  if (closed) return kOk;
  return fail(LS_LIMIT, "so many relations have damaged pages that no others can be opened");
}

}  // namespace

Status redo_log(Ctx &ctx, LogReader &log, const LogAnalysis &analysis, RecoveryFiles *files,
                const RedoBounds &bounds, UndoSpool *undo, RedoStats *stats,
                std::atomic<u64> *done_bytes) {
  RecoveryPages pages(*ctx.pool);
  AwaitedImages awaited;
  RedoPortion portion(ctx, log, analysis, *files, pages, bounds.from, *undo);
  // A file of which a page is to be redone later stays open.
  const bool puts_off =
      bounds.puts_off && analysis.files.size() < ctx.pool->shared()->max_files / 2;
  for (bool end = false; !end;) {
    if (interrupt_pending(ctx.interrupt)) return fail(LS_INTERRUPTED, "recovery was interrupted");
    const u64 before = log.extent().records;
    const bool all_room = pages.count() == 0;
    bool no_room;
    LS_TRY(portion.collect(&no_room, &end));
    const bool stands = no_room && log.extent().records == before && all_room;
    if (stands && !portion.files_full())
      return fail(LS_NO_FRAMES, "the buffer pool is too small for a log record");
    LS_TRY(PortionRedo(ctx, {*files, pages, awaited, puts_off}, portion, *stats).run());
    drop_truncated(*ctx.pool, *files);
    if (no_room) LS_TRY(pages.make_room(ctx));
    if (portion.files_full()) LS_TRY(close_files(*ctx.pool, *files));
    if (portion.reached() > log.extent().begin)
      done_bytes->store(portion.reached() - log.extent().begin, std::memory_order_relaxed);
  }
  LS_TRY(awaited.all_came(*files));
  pages.finish();
  done_bytes->store(log.extent().end - log.extent().begin, std::memory_order_relaxed);
  for (auto &[number, file] : *files)
    stats->files_missing += file.state == RecoveryFile::State::kGone;
  return kOk;
}

}  // namespace ls
