// peer_tree.cpp - the engine's B+-tree below transactions: arena, log, pool, page providers and
// committer in this process.
//
// A change is a record in the log buffer of its thread (page, key, new value), written to the log's
// files by group commits that no session waits for.
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

#include "btree/tree.hpp"
#include "buffer/page_provider.hpp"
#include "os/file.hpp"
#include "os/thread.hpp"
#include "store.hpp"
#include "wal/log.hpp"

namespace ls::bench {

namespace {

constexpr u32 kSlots = kMaxThreads + 1;   // the last one is for the store's own work
constexpr u32 kFlushSlot = kMaxThreads;
constexpr u32 kCommitEveryMs = 5;
// An operation of the benchmark's own: nothing redoes it.
constexpr u8 kPut = kOpIndex | 0x0f;

void check(Status status, const char *what) {
  if (!ok(status)) give_up(kTree.name, std::string(what) + ": " + last_error().message);
}

class TreeStore : public Store {
 public:
  explicit TreeStore(const StoreOptions &options) {
    file_setup(options.directory.c_str(), options.direct_io, false, 64);
    register_tree_ops(BTree::ops());
    LogConfig log_config{kSlots, 1 << 20, u64{64} << 20, false, {}};
    copy_path(log_config.dir, sizeof log_config.dir, options.directory + "/wal");
    PoolConfig pool_config{};
    pool_config.bytes = options.memory;
    pool_config.max_files = 8;
    pool_config.io_partitions = 64;
    copy_path(pool_config.doublewrite_path, sizeof pool_config.doublewrite_path,
              options.directory + "/tear");
    const size_t log_bytes = (Log::arena_bytes(log_config) + kPageSize - 1) / kPageSize * kPageSize;
    arena_bytes_ = log_bytes + BufferPool::arena_bytes(pool_config);
    arena_ = mmap(nullptr, arena_bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena_ == MAP_FAILED) give_up(kTree.name, "no memory for the arena");
    // As a server has it (PostgreSQL's huge_pages = try; buffer/huge_pages.hpp).
    madvise(arena_, arena_bytes_, MADV_HUGEPAGE);
    Log::create(arena_, log_config);
    log_.emplace(Log::attach(arena_));
    check(log_->open_for_append(0, 0, 1), "log");
    void *pool_arena = static_cast<u8 *>(arena_) + log_bytes;
    BufferPool::create(pool_arena, pool_config);
    pool_.emplace(BufferPool::attach(pool_arena, *log_));
    check(committer_.start("committer",
                           [this] { check(log_->run_committer(kCommitEveryMs), "committer"); }),
          "committer");
    check(provider_.start("provider",
                          [this] { check(PageProvider(*pool_, 0).run(stop_), "page provider"); }),
          "page provider");

    std::ofstream(options.directory + "/tree", std::ios::app);
    own_.emplace(*this, kFlushSlot);
    check(pool_->open_file(own_->ctx, {1663, 5, 1, -1}, "tree", LS_REL_INDEX, true, 0,
                           BTree::format, &file_),
          "tree");
    // The log's first file is made now, not in a measured turn.
    if (!own_->log.wait_hardened(log_->last_gsn(), nullptr))
      give_up(kTree.name, "the log has ended");
  }
  ~TreeStore() override {
    own_.reset();
    stop_.store(1, std::memory_order_release);
    wake_providers(*pool_->shared());
    provider_.join();
    log_->stop();
    committer_.join();
    log_->close_for_append();
    munmap(arena_, arena_bytes_);
  }

  std::unique_ptr<Session> session(u32 thread) override;

  // A checkpoint: what is changed goes to the file, and the log before it is given up.
  void settle() override {
    const Gsn all = log_->last_gsn();
    if (!own_->log.wait_hardened(all, nullptr)) give_up(kTree.name, "the log has ended");
    check(pool_->flush(own_->ctx, ~Gsn{0}, true), "flush");
    const Gsn hardened = log_->hardened();
    check(log_->truncate(log_->position_of(std::min(hardened + 1, pool_->oldest_dirty()))),
          "truncate");
  }

  struct Worker {
    Worker(TreeStore &store, u32 slot) : log(*store.log_, slot) {
      ctx.pool = &*store.pool_;
      ctx.log = &log;
      ctx.slot = slot;
      ctx.random += slot;
    }
    LogAppender log;
    Ctx ctx;
  };

 private:
  static void copy_path(char *to, size_t size, const std::string &path) {
    if (path.size() >= size) give_up(kTree.name, "the directory's name is too long");
    path.copy(to, path.size());
    to[path.size()] = '\0';
  }

  friend class TreeSession;
  void *arena_ = nullptr;
  size_t arena_bytes_ = 0;
  std::optional<Log> log_;
  std::optional<BufferPool> pool_;
  std::atomic<u32> stop_{0};
  Thread committer_, provider_;
  std::optional<Worker> own_;
  FileSlot *file_ = nullptr;
};

class TreeSession : public Session {
 public:
  TreeSession(TreeStore &store, u32 thread)
      : worker_(store, thread), tree_(worker_.ctx, *store.file_) {}

  void insert(Key key, const Value &value) override {
    const Bytes bytes(value.bytes, kValueBytes);
    check(worker_.log.reserve(record_room(key), nullptr), "log space");
    ExclusiveGuard leaf;
    check(
        tree_.leaf_exclusive(key, Node::most_entry_bytes(static_cast<u32>(key.size()), kValueBytes),
                             leaf, appended_),
        "insert");
    const u16 pos = node(leaf)->insert(key, bytes);
    // as index/index_insert.cpp
    appended_ = pos + 1 == node(leaf)->count ? leaf.frame() : nullptr;
    log_put(leaf, key, bytes);
  }
  void update(Key key, const Value &value) override {
    check(worker_.log.reserve(record_room(key), nullptr), "log space");
    ExclusiveGuard leaf;
    // The key is there: its leaf need not be, as RocksDB's need not.
    BlindWrite change{BlindWrite::Kind::kOverwrite, Bytes(value.bytes, kValueBytes)};
    check(tree_.leaf_exclusive(key, 0, leaf, nullptr, &change), "update");
    if (change.done) return;
    bool found;
    const u16 pos = node(leaf)->lower_bound(key, &found);
    if (!found) give_up(kTree.name, "the key to be updated is absent");
    __builtin_memcpy(node(leaf)->value_data(pos), value.bytes, kValueBytes);
    log_put(leaf, key, Bytes(value.bytes, kValueBytes));
  }
  bool lookup(Key key, Value *value) override {
    u32 bytes;
    const Status status = tree_.lookup(key, value->bytes, kValueBytes, &bytes);
    if (code(status) == LS_NOT_FOUND) return false;
    check(status, "look-up");
    return true;
  }
  u32 scan(Key from, u32 count, u64 *sum) override {
    alignas(64) u8 page[kPageSize];
    const Node *leaf = reinterpret_cast<const Node *>(page);
    u8 next[ls::kMaxKeyBytes];
    u32 seen = 0;
    for (Bytes at = from;; at = {next, at.size()}) {
      check(tree_.leaf_copy(at, page), "scan");
      bool found;
      for (u16 pos = leaf->lower_bound(at, &found); pos < leaf->count; pos++) {
        *sum += leaf->value(pos)[0];
        if (++seen == count) return seen;
      }
      if (!leaf->has_upper) return seen;
      const Bytes fence = leaf->upper_fence();
      __builtin_memcpy(next, fence.data(), fence.size());
      at = fence;
    }
  }

 private:
  static Node *node(const ExclusiveGuard &leaf) { return reinterpret_cast<Node *>(leaf.page()); }
  static u32 record_room(Key key) {
    return kMaxRecordHeadBytes + kMaxOpHeadBytes + static_cast<u32>(sizeof(u16) + key.size()) +
           kValueBytes;
  }
  void log_put(const ExclusiveGuard &leaf, Key key, Bytes value) {
    const u16 key_bytes = static_cast<u16>(key.size());
    worker_.log.start(RecordKind::kSystem);
    worker_.log.op(tree_.file().file_no.load(std::memory_order_relaxed), node(leaf)->header.page_no,
                   kPut, Bytes(reinterpret_cast<const u8 *>(&key_bytes), sizeof key_bytes), key,
                   value);
    worker_.ctx.pool->mark_dirty(leaf.frame(), worker_.log.finish());
  }

  TreeStore::Worker worker_;
  BTree tree_;
  Frame *appended_ = nullptr;   // a leaf: its last entry is this session's last insertion
};

std::unique_ptr<Session> TreeStore::session(u32 thread) {
  return std::make_unique<TreeSession>(*this, thread);
}

}  // namespace

const Peer kTree{"leanstore tree",
                 "log written by group commit within 5 ms, not synced, nobody waits",
                 false,
                 false,
                 true,
                 [](const StoreOptions &options) -> std::unique_ptr<Store> {
                   return std::make_unique<TreeStore>(options);
                 }};

}  // namespace ls::bench
