// Pages by number, for redo: a private map from (file, page) to frame instead of a tree, whose swips mean nothing yet.
//
// One thread, before the store is open; no page provider runs.  When the frames run out, all but the pages used last are written
// (guarded against tearing like any other write: recovery may crash as well) and dropped.
#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/check.hpp"
#include "buffer/page_guard.hpp"
#include "buffer/page_writer.hpp"

namespace ls {

namespace {

// Pages handed out most recently stay where they are, to be found again soon.  Latched ones stay anyway: the caller is at work on
// a record that touches them.
constexpr u64 kKeepRecent = 8;

struct RecoveryMap {
  struct Entry {
    Frame *frame;
    u64 used;
  };
  PoolShared *pool = nullptr;
  std::unordered_map<u64, Entry> entries;
  u64 clock = 0;
};

std::unique_ptr<RecoveryMap> recovery_map;

u64 key_of(const FileSlot &file, PageNo page_no) { return u64{file.index} << 32 | page_no; }

bool is_meta(BufferPool &pool, Frame *frame) {
  return pool.file(frame->file_slot.load(std::memory_order_relaxed)).meta.load(std::memory_order_relaxed) == frame;
}

// Write the dirty pages not used since `before`.
Status write_dirty(BufferPool &pool, Ctx &ctx, u64 before) {
  std::vector<std::pair<u64, Frame *>> dirty;
  for (auto &[key, entry] : recovery_map->entries) {
    if (entry.used >= before || entry.frame->latch.is_exclusive()) continue;
    if (entry.frame->dirty_since.load(std::memory_order_relaxed)) dirty.push_back({key, entry.frame});
  }
  std::sort(dirty.begin(), dirty.end());
  PageWriter writer(pool);
  for (auto &[key, frame] : dirty) {
    // Nothing is added for a file that was forgotten meanwhile.
    LS_CHECK(writer.add(frame, ~Gsn{0}, PageWriter::Patience::kWait) != PageWriter::Added::kBusy,
             "somebody else writes pages during recovery");
    if (writer.full()) LS_TRY(writer.write(ctx.interrupt));
  }
  return writer.write(ctx.interrupt);
}

// Drop the pages not used since `before`, all clean or of forgotten files; meta pages belong to their slots.
void drop_pages(BufferPool &pool, u64 before) {
  auto &entries = recovery_map->entries;
  for (auto it = entries.begin(); it != entries.end();) {
    Frame *frame = it->second.frame;
    if (it->second.used >= before || frame->latch.is_exclusive() || is_meta(pool, frame)) {
      ++it;
      continue;
    }
    release_frame(*pool.shared(), frame);
    it = entries.erase(it);
  }
}

// A meta page that redo has left empty: the file's creation did not become durable.
void settle_files(BufferPool &pool) {
  for (u32 i = 0; i < pool.shared()->max_files; i++) {
    FileSlot &slot = pool.file(i);
    if (!file_is(slot, FileState::kActive)) continue;
    Frame *frame = slot.meta.load(std::memory_order_relaxed);
    auto *meta = reinterpret_cast<const MetaPage *>(pool.page(frame));
    if (meta->magic == kMetaMagic) {
      take_row_ids(slot, *meta);
    } else {
      ls_rel_key key = slot.key;
      pool.forget_file(key);
    }
  }
}

}  // namespace

Status BufferPool::recovery_page(Ctx &ctx, FileSlot &file, PageNo page_no, Frame **frame) {
  if (!recovery_map) {
    recovery_map = std::make_unique<RecoveryMap>();
    recovery_map->pool = shared_;
  }
  LS_CHECK(recovery_map->pool == shared_, "recovery of two pools at once");
  RecoveryMap &map = *recovery_map;
  u64 key = key_of(file, page_no);
  auto found = map.entries.find(key);
  if (found != map.entries.end()) {
    found->second.used = ++map.clock;
    *frame = found->second.frame;
    (*frame)->latch.lock_exclusive();
    return kOk;
  }
  Frame *f = file.meta.load(std::memory_order_relaxed);
  if (page_no != kMetaPageNo || f == shared_->empty_meta()) {
    // Not to the last frame: files opened on the way need one each.
    if (shared_->free_count.load(std::memory_order_relaxed) <= shared_->low_water) {
      u64 before = map.clock > kKeepRecent ? map.clock - kKeepRecent : 0;
      LS_TRY(write_dirty(*this, ctx, before));
      drop_pages(*this, before);
    }
    bool absent;
    LS_TRY(load_or_zero(*this, ctx, file, page_no, &f, &absent));
    f->state.store(FrameState::kHot, std::memory_order_release);
  } else {
    f->latch.lock_exclusive();
  }
  map.entries[key] = {f, ++map.clock};
  *frame = f;
  return kOk;
}

Status BufferPool::recovery_end(Ctx &ctx) {
  if (recovery_map) {
    LS_CHECK(recovery_map->pool == shared_, "recovery of two pools at once");
    LS_TRY(write_dirty(*this, ctx, ~u64{0}));
    drop_pages(*this, ~u64{0});
    recovery_map.reset();
  }
  settle_files(*this);
  return kOk;
}

}  // namespace ls
