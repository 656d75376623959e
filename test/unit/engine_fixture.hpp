// engine_fixture.hpp - the engine below transactions in one process: arena, log, pool, and the
// threads that serve them, on a directory of the test's own.  Threads of the test are the workers;
// each takes a Worker of its own.
//
//   EngineFixture engine({.pool_bytes = 256 * kPageSize});
//   EngineFixture::Worker worker(engine, 0);
//   FileSlot *file = engine.open(worker.ctx, 7, true);
//   BTree tree(worker.ctx, *file);
//
// Destroy or leave alone all workers before stop(), crash() and restart().
#pragma once
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "btree/tree.hpp"
#include "buffer/page_provider.hpp"
#include "os/file.hpp"
#include "os/thread.hpp"
#include "unit/os/temp_directory.hpp"
#include "unit/wal/log_image.hpp"
#include "wal/log.hpp"

namespace ls::test {

struct EngineOptions {
  u64 pool_bytes = u64{4} << 20;
  u32 max_files = 16;
  u32 io_partitions = 8;
  u32 slots = 16;                      // worker slots
  u32 log_buffer_bytes = 256 * 1024;
  u64 log_segment_bytes = u64{1} << 20;
  u32 page_providers = 1;              // threads
  u32 compressed_cache_percent = 25;             // of the pool
  bool committer = true;               // a thread; without it the test calls log().commit_round()
  bool doublewrite = true;
  bool direct_io = false;
};

class EngineFixture {
 public:
  explicit EngineFixture(const EngineOptions &options = {}) : options_(options) { start(0, 0); }
  ~EngineFixture() { crash(); }

  // What a thread needs to work; slot: its own.
  struct Worker {
    Worker(EngineFixture &engine, u32 slot) : log(engine.log(), slot) {
      ctx.pool = &engine.pool();
      ctx.log = &log;
      ctx.slot = slot;
      ctx.random += slot;
    }
    Worker(const Worker &) = delete;
    Worker &operator=(const Worker &) = delete;
    LogAppender log;
    Ctx ctx;
  };

  BufferPool &pool() { return *pool_; }
  Log &log() { return *log_; }
  const std::string &directory() const { return directory_.path(); }
  std::string log_directory() const { return directory_ / "wal"; }
  const EngineOptions &options() const { return options_; }

  static ls_rel_key key_of(u32 relation) { return {1663, 5, relation, -1}; }
  static std::string path_of(u32 relation) { return "rel" + std::to_string(relation); }

  // Open relation number `relation`; its file is created when absent.
  FileSlot *open(Ctx &ctx, u32 relation, bool logged, ls_rel_kind kind = LS_REL_TABLE) {
    std::string path = path_of(relation);
    std::ofstream(directory_ / path, std::ios::app);
    FileSlot *slot = nullptr;
    Status status = pool_->open_file(ctx, key_of(relation), path.c_str(), kind, logged, 0,
                                     BTree::format, &slot);
    EXPECT_EQ(code(status), LS_OK) << last_error().message;
    return slot;
  }

  // Write every dirty page.
  void flush(Ctx &ctx) {
    Status status = pool_->flush(ctx, ~Gsn{0}, true);
    EXPECT_EQ(code(status), LS_OK) << last_error().message;
  }

  // Stop in good order: all pages written, the log hardened.
  void stop() {
    {
      Worker worker(*this, options_.slots - 1);
      flush(worker.ctx);
    }
    crash();
  }
  // Stop as it is: what is only in memory is lost (but for what the committer's last round takes).
  void crash() {
    if (!arena_) return;
    stop_providers_.store(1, std::memory_order_release);
    wake_providers(*pool_->shared());
    for (auto &provider : providers_) provider->join();
    providers_.clear();
    log_->stop();
    committer_.reset();
    EXPECT_EQ(failures_.load(), 0);
    for (u32 i = 0; i < options_.max_files; i++)
      if (FileNo file_no = pool_->file(i).file_no.load()) file_forget(file_no);
    log_->close_for_append();
    next_lsn_ = log_->end();
    next_gsn_ = log_->last_gsn();
    munmap(arena_, arena_bytes_);
    arena_ = nullptr;
  }
  // After stop() or crash(): a new run in a fresh arena.  Nothing is replayed.
  void restart() { start(next_lsn_, next_gsn_); }

 private:
  void start(Lsn lsn, Gsn gsn) {
    file_setup(directory_.path().c_str(), options_.direct_io, false, 64);
    register_tree_ops(BTree::ops());
    LogConfig log_config{
        options_.slots, options_.log_buffer_bytes, options_.log_segment_bytes, false, {}};
    copy_path(log_config.dir, sizeof log_config.dir, log_directory());
    PoolConfig pool_config{};
    pool_config.bytes = options_.pool_bytes;
    pool_config.compressed_cache_percent = options_.compressed_cache_percent;
    pool_config.max_files = options_.max_files;
    pool_config.io_partitions = options_.io_partitions;
    if (options_.doublewrite)
      copy_path(pool_config.doublewrite_path, sizeof pool_config.doublewrite_path,
                directory_ / "tear");
    size_t log_bytes = (Log::arena_bytes(log_config) + kPageSize - 1) / kPageSize * kPageSize;
    arena_bytes_ = log_bytes + BufferPool::arena_bytes(pool_config);
    arena_ = mmap(nullptr, arena_bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(arena_, MAP_FAILED);
    Log::create(arena_, log_config);
    log_.emplace(Log::attach(arena_));
    Status status = log_->open_for_append(lsn, gsn, ++run_);
    ASSERT_EQ(code(status), LS_OK) << last_error().message;
    void *pool_arena = static_cast<u8 *>(arena_) + log_bytes;
    BufferPool::create(pool_arena, pool_config);
    pool_.emplace(BufferPool::attach(pool_arena, *log_));
    // Descriptors are cached per process by file number: no number twice.
    static std::atomic<FileNo> next_file_no{1};
    pool_->set_next_file_no(next_file_no.fetch_add(1000));
    start_threads();
  }

  void start_threads() {
    stop_providers_.store(0);
    if (options_.committer) {
      committer_ = std::make_unique<Thread>();
      (void)committer_->start("committer", [this] { note(log_->run_committer(5)); });
    }
    for (u32 i = 0; i < options_.page_providers; i++) {
      providers_.push_back(std::make_unique<Thread>());
      (void)providers_.back()->start(
          "provider", [this, i] { note(PageProvider(*pool_, i).run(stop_providers_)); });
    }
  }

  void note(Status status) {
    if (!ok(status)) {
      failures_++;
      ADD_FAILURE() << "engine thread: " << last_error().message;
    }
  }

  static void copy_path(char *to, size_t size, const std::string &path) {
    ASSERT_LT(path.size(), size);
    path.copy(to, path.size());
    to[path.size()] = '\0';
  }

  EngineOptions options_;
  TempDirectory directory_;
  void *arena_ = nullptr;
  size_t arena_bytes_ = 0;
  std::optional<Log> log_;
  std::optional<BufferPool> pool_;
  std::unique_ptr<Thread> committer_;
  std::vector<std::unique_ptr<Thread>> providers_;
  std::atomic<u32> stop_providers_{0};
  std::atomic<int> failures_{0};
  Lsn next_lsn_ = 0;
  Gsn next_gsn_ = 0;
  u64 run_ = 0;
};

}  // namespace ls::test
