// pool_fixture.hpp - a pool with log, committer and page providers in private memory, and a toy
// tree of fixed shape on it.
//
// Toy tree: meta page -> root directory -> kDirs directories -> kFan leaves each.  Leaf i holds its
// number, a value that only grows, and bytes computed from both, so that a reader can tell any
// mixture.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "buffer/page_allocator.hpp"
#include "buffer/page_guard.hpp"
#include "buffer/page_provider.hpp"
#include "buffer/pool.hpp"
#include "buffer/recovery_pages.hpp"
#include "os/fault.hpp"
#include "unit/os/temp_directory.hpp"
#include "unit/wal/log_image.hpp"
#include "wal/log.hpp"

namespace ls::buffer_test {

#define LS_ASSERT_OK(expr) ASSERT_TRUE(ok(expr)) << last_error().message
#define LS_EXPECT_OK(expr) EXPECT_TRUE(ok(expr)) << last_error().message

inline constexpr u64 kSegmentBytes = 1 << 20;
inline constexpr u32 kWorkers = 8;

struct FreeMemory {
  void operator()(void *p) const { std::free(p); }
};
using Memory = std::unique_ptr<void, FreeMemory>;

// Pages one by one as redo gets them; written and dropped when the frames run out.
class PagesOneByOne {
 public:
  PagesOneByOne(BufferPool &pool, Ctx &ctx) : ctx_(ctx), pages_(pool), reads_(pages_, ctx) {}
  // Exclusively latched.
  Status get(FileSlot &file, PageNo page_no, Frame **frame) {
    u32 index, same;
    if (!pages_.name(file, page_no, &index)) {
      LS_TRY(pages_.make_room(ctx_));
      EXPECT_TRUE(pages_.name(file, page_no, &index));
    }
    reads_.ask({&index, 1});
    bool none;
    LS_TRY(reads_.next(&same, &none));
    EXPECT_TRUE(!none && same == index);
    *frame = pages_.page(index).frame;
    (*frame)->latch.lock_exclusive();
    return kOk;
  }
  RecoveryPages &all() { return pages_; }

 private:
  Ctx &ctx_;
  RecoveryPages pages_;
  RecoveryReads reads_;
};

inline Memory zeroed(size_t bytes) {
  bytes = (bytes + kPageSize - 1) / kPageSize * kPageSize;
  Memory memory(std::aligned_alloc(kPageSize, bytes));
  std::memset(memory.get(), 0, bytes);
  return memory;
}

// One "run" of a store in a directory that outlives it: restart() forgets all memory, as a crash
// does.
class TestPool {
 public:
  explicit TestPool(u32 frames, u32 max_files = 8, bool fsync = false)
      : frames_(frames), max_files_(max_files), fsync_(fsync) {
    start(0, 0, 1);
  }
  ~TestPool() {
    stop();
    fault_clear();
  }

  // Everything in memory is lost; the log is read from its beginning.
  LogImage crash() {
    stop();
    LogImage image;
    EXPECT_TRUE(ok(read_log(log_dir().c_str(), kSegmentBytes, 0, 0, image)))
        << last_error().message;
    start(image.end, image.max_gsn, image.run + 1);
    return image;
  }

  BufferPool &pool() { return *pool_; }
  Log log() { return Log::attach(log_memory_.get()); }
  std::string path(const std::string &name) const { return directory_ / name; }
  std::string doublewrite() const { return directory_ / "doublewrite"; }

  void start_providers(u32 count) {
    for (u32 i = 0; i < count; i++) {
      providers_.emplace_back([this, i] {
        PageProvider provider(*pool_, i);
        if (Status status = provider.run(stop_providers_); !ok(status)) {
          provider_failures_.fetch_add(1, std::memory_order_relaxed);
        }
      });
    }
  }
  void stop_providers() {
    stop_providers_.store(1, std::memory_order_release);
    for (std::thread &t : providers_) t.join();
    providers_.clear();
    stop_providers_.store(0, std::memory_order_release);
  }
  u32 provider_failures() const { return provider_failures_.load(std::memory_order_relaxed); }

  void create_file(const std::string &name) { std::ofstream(path(name), std::ios::binary); }

 private:
  void start(Lsn lsn, Gsn gsn, u64 run) {
    file_setup(directory_.path().c_str(), false, fsync_, 32);
    LogConfig log_config{};
    log_config.slots = kWorkers;
    log_config.buffer_bytes = 4 * kMaxRecordBytes;
    log_config.segment_bytes = kSegmentBytes;
    log_config.fsync = fsync_;
    std::snprintf(log_config.dir, sizeof log_config.dir, "%s", log_dir().c_str());
    log_memory_ = zeroed(Log::arena_bytes(log_config));
    Log::create(log_memory_.get(), log_config);
    EXPECT_TRUE(ok(log().open_for_append(lsn, gsn, run))) << last_error().message;
    committer_ = std::thread([this] {
      Status status = log().run_committer(1);
      EXPECT_TRUE(ok(status));
    });
    PoolConfig config{};
    config.bytes = u64{frames_} * kPageSize;
    config.max_files = max_files_;
    config.io_partitions = 4;
    std::snprintf(config.doublewrite_path, sizeof config.doublewrite_path, "%s",
                  doublewrite().c_str());
    pool_memory_ = zeroed(BufferPool::arena_bytes(config));
    BufferPool::create(pool_memory_.get(), config);
    pool_ = std::make_unique<BufferPool>(BufferPool::attach(pool_memory_.get(), log()));
  }
  void stop() {
    stop_providers();
    log().stop();
    committer_.join();
    log().close_for_append();
    for (FileNo no = 0; no < pool_->next_file_no(); no++) file_forget(no);
    pool_.reset();
  }
  std::string log_dir() const { return directory_ / "wal"; }

  test::TempDirectory directory_;
  u32 frames_, max_files_;
  bool fsync_;
  Memory log_memory_, pool_memory_;
  std::unique_ptr<BufferPool> pool_;
  std::thread committer_;
  std::vector<std::thread> providers_;
  std::atomic<u32> stop_providers_{0};
  std::atomic<u32> provider_failures_{0};
};

// What a thread needs.
struct TestWorker {
  TestWorker(TestPool &test, u32 slot) : log(test.log(), slot) {
    ctx.pool = &test.pool();
    ctx.log = &log;
    ctx.slot = slot;
    ctx.random += slot;
  }
  LogAppender log;
  Ctx ctx;
};

// ---- the toy tree

inline constexpr u32 kDirs = 8;
inline constexpr u32 kFan = 64;
inline constexpr u8 kToyOp = kOpRow + 1;  // on a leaf: u64 value

struct ToyDir {
  PageHeader header;
  u32 level;
  u32 index;
  u64 swips[kFan];
};
struct ToyLeaf {
  static constexpr u32 kWords = 480;
  PageHeader header;
  u32 index;
  u32 reserved;
  u64 value;
  u64 fill[kWords];

  static u64 word(u32 index, u64 value, u32 i) {
    return (u64{index} << 32 ^ value) * 0x9e3779b97f4a7c15ull + i;
  }
  void set(u32 number, u64 v) {
    index = number;
    value = v;
    for (u32 i = 0; i < kWords; i++) fill[i] = word(number, v, i);
  }
  bool whole() const {
    for (u32 i = 0; i < kWords; i++) {
      if (fill[i] != word(index, value, i)) return false;
    }
    return true;
  }
};
static_assert(sizeof(ToyLeaf) <= kPageSize);

inline Swip *swip_at(u64 *word) { return reinterpret_cast<Swip *>(word); }

inline void toy_each_swip(u8 *page, void *arg, bool (*each)(void *arg, Swip *swip)) {
  auto visit = [&](u64 *word) { return *word == 0 || each(arg, swip_at(word)); };
  PageKind kind = reinterpret_cast<PageHeader *>(page)->kind;
  if (kind == PageKind::kMeta) {
    auto *meta = reinterpret_cast<MetaPage *>(page);
    if (visit(&meta->root)) visit(&meta->trunk);
  } else if (kind == PageKind::kInner) {
    for (u64 &word : reinterpret_cast<ToyDir *>(page)->swips) {
      if (!visit(&word)) return;
    }
  } else if (kind == PageKind::kTrunk) {
    visit(&reinterpret_cast<TrunkPage *>(page)->next);
  }
}

// Where the child of a page on the way to `target` (a copy of the page searched) hangs.
inline Swip *toy_location(u8 *page, const u8 *target) {
  auto *kind = reinterpret_cast<const PageHeader *>(target);
  auto *header = reinterpret_cast<const PageHeader *>(page);
  if (header->kind == PageKind::kMeta) {
    auto *meta = reinterpret_cast<MetaPage *>(page);
    return swip_at(kind->kind == PageKind::kTrunk ? &meta->trunk : &meta->root);
  }
  if (header->kind != PageKind::kInner) return nullptr;
  auto *dir = reinterpret_cast<ToyDir *>(page);
  u32 leaf = reinterpret_cast<const ToyLeaf *>(target)->index;
  u32 dir_index =
      kind->kind == PageKind::kLeaf ? leaf / kFan : reinterpret_cast<const ToyDir *>(target)->index;
  return swip_at(&dir->swips[dir->level == 2 ? dir_index : leaf % kFan]);
}

inline Step toy_latch_parent(BufferPool &pool, FileSlot &file, Frame *child, const u8 *child_page,
                             Frame **parent, Swip **swip) {
  Frame *frame = file.meta.load(std::memory_order_acquire);
  FileNo file_no = file.file_no.load(std::memory_order_acquire);
  for (u32 depth = 0; depth < 3; depth++) {
    if (!frame->latch.try_lock_shared()) return Step::kRestart;
    bool ours = frame->file_no.load(std::memory_order_relaxed) == file_no;
    Swip *location = ours ? toy_location(pool.page(frame), child_page) : nullptr;
    Swip next = location ? *location : Swip{};
    frame->latch.unlock_shared();
    if (!next.is_swizzled()) return Step::kRestart;
    if (next.frame() != child) {
      frame = next.frame();
      continue;
    }
    if (!frame->latch.try_lock_exclusive()) return Step::kRestart;
    if (frame->file_no.load(std::memory_order_relaxed) == file_no && location->is_swizzled() &&
        location->frame() == child) {
      *parent = frame;
      *swip = location;
      return Step::kOk;
    }
    frame->latch.unlock_exclusive_unchanged();
    return Step::kRestart;
  }
  return Step::kRestart;
}

inline void register_toy_tree() { register_tree_ops({toy_each_swip, toy_latch_parent}); }

class ToyTree {
 public:
  ToyTree(Ctx &ctx, FileSlot &file) : ctx_(ctx), pool_(*ctx.pool), file_(file) {}

  static ls_rel_key key_of(u32 relation) { return {1, 2, relation, -1}; }

  static Status open(TestPool &test, Ctx &ctx, u32 relation, bool logged, FileSlot **file,
                     FileNo file_no = 0, ls_rel_kind kind = LS_REL_TABLE) {
    std::string name = "rel" + std::to_string(relation);
    if (!std::filesystem::exists(test.path(name))) test.create_file(name);
    return ctx.pool->open_file(ctx, key_of(relation), name.c_str(), kind, logged, file_no, format,
                               file);
  }

  // Meta page and all directories; not redone (tests flush once after building).
  static Status format(Ctx &ctx, FileSlot &file) {
    BufferPool &pool = *ctx.pool;
    PageReservation space;
    LS_TRY(space.prepare(ctx, file, kDirs + 2));
    Frame *frames[kDirs + 2];
    for (u32 i = 0; i < kDirs + 2; i++) {
      LS_TRY(pool.new_frame(ctx, file, i, i == 0 ? PageKind::kMeta : PageKind::kInner, &frames[i]));
    }
    auto *meta = reinterpret_cast<MetaPage *>(pool.page(frames[0]));
    meta->magic = kMetaMagic;
    meta->kind = file.kind;
    meta->root = Swip::hot(frames[1]).raw;
    meta->page_count = kDirs + 2;
    auto *root = reinterpret_cast<ToyDir *>(pool.page(frames[1]));
    root->level = 2;
    for (u32 i = 0; i < kDirs; i++) {
      auto *dir = reinterpret_cast<ToyDir *>(pool.page(frames[i + 2]));
      dir->level = 1;
      dir->index = i;
      root->swips[i] = Swip::hot(frames[i + 2]).raw;
    }
    Gsn gsn = 0;
    if (file.logged) {
      LS_TRY(ctx.log->reserve(64, nullptr));
      ctx.log->start(RecordKind::kSystem);
      gsn = ctx.log->finish();
    }
    for (Frame *frame : frames) pool.mark_dirty(frame, gsn);
    file.meta.store(frames[0], std::memory_order_release);
    for (Frame *frame : frames) frame->latch.unlock_exclusive();
    return kOk;
  }

  // Leaf `index` for the first time.
  Status add_leaf(u32 index) {
    PageReservation space;
    LS_TRY(space.prepare(ctx_, file_, 1));
    if (file_.logged) LS_TRY(ctx_.log->reserve(kAllocatorRecordBytes + 256, nullptr));
    for (;;) {
      OptimisticGuard meta, dir;
      Step step = descend_dir(index, meta, dir);
      if (step == Step::kError) return make_status(last_error().status);
      if (step == Step::kRestart) continue;
      meta.reset();
      u64 version;
      Frame *dir_frame = dir.release(&version), *frame;
      LS_TRY(pool_.new_frame(ctx_, file_, kInvalidPageNo, PageKind::kLeaf, &frame));
      ExclusiveGuard meta_x =
          ExclusiveGuard::lock(pool_, file_.meta.load(std::memory_order_acquire));
      if (!lock_exclusive_at(dir_frame->latch, version)) {
        meta_x.reset_unchanged();
        pool_.free_frame(frame);
        continue;
      }
      ExclusiveGuard dir_x = ExclusiveGuard::adopt(pool_, dir_frame);
      if (file_.logged) ctx_.log->start(RecordKind::kSystem);
      pool_.name_frame(frame, allocate_page(ctx_, file_, meta_x));
      Gsn gsn = file_.logged ? ctx_.log->finish() : 0;
      reinterpret_cast<ToyLeaf *>(pool_.page(frame))->set(index, 0);
      reinterpret_cast<ToyDir *>(dir_x.page())->swips[index % kFan] = Swip::hot(frame).raw;
      pool_.mark_dirty(frame, gsn);
      pool_.mark_dirty(dir_x.frame(), gsn);
      pool_.mark_dirty(meta_x.frame(), gsn);
      frame->latch.unlock_exclusive();
      return kOk;
    }
  }
  Status add_leaves(u32 count) {
    for (u32 i = 0; i < count; i++) LS_TRY(add_leaf(i));
    return kOk;
  }

  // Its page number becomes free.
  Status remove_leaf(u32 index) {
    if (file_.logged) LS_TRY(ctx_.log->reserve(kAllocatorRecordBytes + 256, nullptr));
    for (;;) {
      OptimisticGuard meta, dir, leaf;
      Step step = descend_dir(index, meta, dir);
      if (step == Step::kOk) {
        auto *d = reinterpret_cast<ToyDir *>(const_cast<u8 *>(dir.page()));
        step = pool_.resolve(ctx_, dir, swip_at(&d->swips[index % kFan]), file_, leaf);
      }
      if (step == Step::kError) return make_status(last_error().status);
      if (step == Step::kRestart) continue;
      meta.reset();
      u64 dir_version, leaf_version;
      Frame *dir_frame = dir.release(&dir_version), *leaf_frame = leaf.release(&leaf_version);
      ExclusiveGuard meta_x =
          ExclusiveGuard::lock(pool_, file_.meta.load(std::memory_order_acquire));
      if (!lock_exclusive_at(dir_frame->latch, dir_version)) continue;
      ExclusiveGuard dir_x = ExclusiveGuard::adopt(pool_, dir_frame);
      if (!lock_exclusive_at(leaf_frame->latch, leaf_version)) continue;
      ExclusiveGuard leaf_x = ExclusiveGuard::adopt(pool_, leaf_frame);
      if (file_.logged) ctx_.log->start(RecordKind::kSystem);
      bool trunk = free_page(ctx_, file_, meta_x, leaf_x);
      Gsn gsn = file_.logged ? ctx_.log->finish() : 0;
      reinterpret_cast<ToyDir *>(dir_x.page())->swips[index % kFan] = 0;
      pool_.mark_dirty(dir_x.frame(), gsn);
      pool_.mark_dirty(meta_x.frame(), gsn);
      if (trunk) {
        pool_.mark_dirty(leaf_frame, gsn);
      } else {
        pool_.free_frame(leaf_x.detach());
      }
      return kOk;
    }
  }

  Status read(u32 index, u64 *value) {
    for (;;) {
      OptimisticGuard leaf;
      Step step = descend(index, leaf);
      if (step == Step::kError) return make_status(last_error().status);
      if (step == Step::kRestart) continue;
      alignas(8) u8 copy[kPageSize];
      std::memcpy(copy, leaf.page(), kPageSize);
      if (!leaf.valid()) continue;
      auto *found = reinterpret_cast<ToyLeaf *>(copy);
      if (found->index != index || !found->whole())
        return fail(LS_CORRUPT, "leaf %u is a mixture", index);
      *value = found->value;
      return kOk;
    }
  }

  // value + 1; announced is set before the latch is released.
  Status increment(u32 index, std::atomic<u64> *announced, Gsn *logged = nullptr) {
    if (file_.logged) LS_TRY(ctx_.log->reserve(128, nullptr));
    for (;;) {
      OptimisticGuard guard;
      Step step = descend(index, guard);
      if (step == Step::kError) return make_status(last_error().status);
      if (step == Step::kRestart) continue;
      ExclusiveGuard leaf(pool_, std::move(guard));
      if (!leaf) continue;
      auto *page = reinterpret_cast<ToyLeaf *>(leaf.page());
      u64 value = page->value + 1;
      Gsn gsn = 0;
      if (file_.logged) {
        ctx_.log->start(RecordKind::kSystem);
        ctx_.log->op(file_.file_no, page->header.page_no, kToyOp,
                     {reinterpret_cast<u8 *>(&value), sizeof value});
        gsn = ctx_.log->finish();
      }
      page->set(index, value);
      pool_.mark_dirty(leaf.frame(), gsn);
      if (announced) announced->store(value, std::memory_order_release);
      if (logged) *logged = gsn;
      return kOk;
    }
  }

  Step descend_dir(u32 index, OptimisticGuard &meta, OptimisticGuard &dir) {
    Step step = pool_.resolve_meta(file_, meta);
    if (step != Step::kOk) return step;
    OptimisticGuard root;
    auto *m = reinterpret_cast<MetaPage *>(const_cast<u8 *>(meta.page()));
    step = pool_.resolve(ctx_, meta, swip_at(&m->root), file_, root);
    if (step != Step::kOk) return step;
    if (kOptimisticIsShared) meta.reset();
    auto *r = reinterpret_cast<ToyDir *>(const_cast<u8 *>(root.page()));
    return pool_.resolve(ctx_, root, swip_at(&r->swips[index / kFan]), file_, dir);
  }
  Step descend(u32 index, OptimisticGuard &leaf) {
    OptimisticGuard meta, dir;
    Step step = descend_dir(index, meta, dir);
    if (step != Step::kOk) return step;
    meta.reset();
    auto *d = reinterpret_cast<ToyDir *>(const_cast<u8 *>(dir.page()));
    return pool_.resolve(ctx_, dir, swip_at(&d->swips[index % kFan]), file_, leaf);
  }

  Frame *frame_of(u32 index) {
    for (;;) {
      OptimisticGuard leaf;
      if (descend(index, leaf) == Step::kOk) return leaf.frame();
    }
  }
  PageNo page_no_of(u32 index) {
    for (;;) {
      OptimisticGuard leaf;
      if (descend(index, leaf) != Step::kOk) continue;
      PageNo page_no = leaf.frame()->page_no.load(std::memory_order_relaxed);
      if (leaf.valid()) return page_no;
    }
  }

 private:
  Ctx &ctx_;
  BufferPool &pool_;
  FileSlot &file_;
};

}  // namespace ls::buffer_test
