// Second chance (LeanStore paper, section 6.2): hot pages met by chance become cool, cool ones met
// again, some times over where pages of their file are often wanted again (rereference.hpp), are
// evicted.
//
// Latches are only tried, never waited for, and none is held during I/O.  The parent comes from
// TreeOps::latch_parent, which finds it from the page's own keys: no frame knows its parent.
//
// Frames of forgotten and closed files are dropped the same way, bottom-up through their parents
// and without being written, because an engine thread may still be at work in such a tree: its
// exclusively latched pages must not lose the children under them.  Only what cannot be reached
// from its meta page any more (left behind by a failed open) is dropped directly, after many
// visits.
#include "buffer/page_provider.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/check.hpp"
#include "base/copy_page.hpp"
#include "base/failpoint.hpp"
#include "base/random.hpp"
#include "buffer/compressed_cache.hpp"
#include "buffer/followed_pages.hpp"
#include "buffer/io_stage.hpp"
#include "buffer/page_writer.hpp"

namespace ls {

namespace {

constexpr u32 kSamples = 64;          // frames looked at together (paper, section 6.2)
constexpr u32 kMaxSamples = 16;       // such looks per round
constexpr u32 kFramesPerSample = 1024;
constexpr u8 kOrphanVisits = 2;       // a load is dropped when no reader has come for it by then
constexpr u8 kUnreachableVisits = 32;
constexpr u8 kFollowedVisits = 1;   // a page of a followed file stays as long as it is met
// without any progress, before the provider sleeps for a moment
constexpr u32 kIdleRounds = 8;
constexpr i64 kIdleSleepUs = 1'000;
constexpr i64 kRestSleepUs = 100'000;
constexpr i64 kSweepSleepUs = 10'000; // while dropped files have frames
constexpr i64 kLaterSleepUs = 100'000;

bool not_swizzled(void *arg, Swip *swip) {
  if (!swip->is_swizzled()) return true;
  *static_cast<bool *>(arg) = true;
  return false;
}

bool has_swizzled_children(u8 *page) {
  if (reinterpret_cast<PageHeader *>(page)->kind == PageKind::kLeaf) return false;
  bool found = false;
  tree_ops().each_swip(page, &found, not_swizzled);
  return found;
}

}  // namespace

struct PageProvider::State {
  State(BufferPool &p, u32 id)
      : pool(p), writer(p), compressor(*p.shared()), random(0x9e3779b97f4a7c15ull * (id + 1)) {
    evictable.reserve(kSamples);
    written.reserve(kTearPages);
  }

  BufferPool &pool;
  PageWriter writer;
  PageCompressor compressor;
  u64 random;
  enum class Outcome : u8 { kEvicted, kKept, kToBeWritten };
  std::vector<Frame *> evictable;  // cool, to be kept no longer
  std::vector<Frame *> written;    // cool or followed, in the writer's batch
  u32 freed = 0;
  u32 compressed = 0;                  // tried at least
  bool progress = false;
  alignas(64) u8 copy[kPageSize];

  bool copy_page(Frame *frame, FileSlot *file);
  void note_rereference(FileSlot &file, bool wanted);
  bool has_looks_left(Frame *frame, FileSlot &file);
  void look_at(Frame *frame);
  void cool(Frame *frame, FileSlot &file);
  Outcome evict(Frame *frame, bool forgotten, bool may_compress);
  void write_first(Frame *frame);
  void write_oldest_compressed();
  void drop_loaded(Frame *frame, bool forgotten);
  void look_at_followed(Frame *frame);
  void drop_forgotten(Frame *frame, FileSlot &file);
  void drop_meta(Frame *frame, FileSlot &file);
  bool drop_unreachable(Frame *frame, FileSlot &file);
  void sweep();
};

// A consistent copy of a page that is in a tree of `file`.
bool PageProvider::State::copy_page(Frame *frame, FileSlot *file) {
  if (!frame->latch.try_lock_shared()) return false;
  bool good = frame->in_tree() && frame->file_slot.load(std::memory_order_relaxed) == file->index &&
              frame->file_no.load(std::memory_order_relaxed) ==
                  file->file_no.load(std::memory_order_relaxed);
  if (good) ls::copy_page(copy, pool.page(frame));
  frame->latch.unlock_shared();
  return good;
}

void PageProvider::State::note_rereference(FileSlot &file, bool wanted) {
  file.rereference.note(wanted, kFileLooks);
  pool.shared()->rereference.note(wanted, kPoolLooks);
}

// Of a cool page that is met once more.
bool PageProvider::State::has_looks_left(Frame *frame, FileSlot &file) {
  const u8 visits = frame->visits.load(std::memory_order_relaxed);
  if (visits == 0) return false;   // read by a scan, and no worker has asked for it
  note_rereference(file, false);
  if (visits >= last_look(file.rereference, pool.shared()->rereference)) return false;
  frame->visits.store(visits + 1, std::memory_order_relaxed);
  progress = true;
  return true;
}

void PageProvider::State::cool(Frame *frame, FileSlot &file) {
  if (frame->page_no.load(std::memory_order_relaxed) == kMetaPageNo) return;
  if (!copy_page(frame, &file) || has_swizzled_children(copy)) return;
  LS_FAILPOINT(buffer_before_cool);
  Frame *parent;
  Swip *swip;
  if (tree_ops().latch_parent(pool, file, frame, copy, &parent, &swip) != Step::kOk) return;
  LS_ASSERT(parent->latch.is_exclusive() && swip->frame() == frame);   // FRAME-1
  if (swip->raw == Swip::hot(frame).raw) {
    __atomic_store_n(&swip->raw, Swip::cool(frame).raw, __ATOMIC_RELAXED);
    frame->visits.store(1, std::memory_order_relaxed);
    frame->state.store(FrameState::kCool, std::memory_order_release);
    progress = true;
    // There is time until it is written.
    const auto is_sparse = tree_ops().is_sparse;
    if (is_sparse && frame->dirty_since.load(std::memory_order_relaxed) != 0 &&
        is_sparse(file, copy)) {
      pool.shared()->sparse_leaves.put(static_cast<u32>(frame - pool.shared()->frames));
    }
  }
  // readers that know the swip as hot still find the page there
  parent->latch.unlock_exclusive_unchanged();
}

// Of a forgotten file nothing is kept: it is not to be compressed either.
PageProvider::State::Outcome PageProvider::State::evict(Frame *frame, bool forgotten,
                                                        bool may_compress) {
  FileSlot &file = pool.file(frame->file_slot.load(std::memory_order_relaxed));
  if (!copy_page(frame, &file) || (has_swizzled_children(copy) && forgotten)) return Outcome::kKept;
  // What a scan has read and no worker has asked for since is not compressed.
  bool to_compress = may_compress && frame->visits.load(std::memory_order_relaxed) != 0 &&
                     frame->writing.load(std::memory_order_relaxed) == 0 &&
                     reinterpret_cast<const PageHeader *>(copy)->kind == PageKind::kLeaf &&
                     compressor.compress(copy);
  if (!to_compress && !forgotten && frame->dirty_since.load(std::memory_order_relaxed) != 0)
    return Outcome::kToBeWritten;
  LS_FAILPOINT(buffer_before_evict);
  Frame *parent;
  Swip *swip;
  if (tree_ops().latch_parent(pool, file, frame, copy, &parent, &swip) != Step::kOk)
    return Outcome::kKept;
  LS_ASSERT(parent->latch.is_exclusive() && swip->frame() == frame);   // FRAME-1
  bool wanted = swip->is_cool() || forgotten;
  if (!wanted || !frame->latch.try_lock_exclusive()) {
    parent->latch.unlock_exclusive_unchanged();
    return Outcome::kKept;
  }
  u8 *page = pool.page(frame);
  Outcome outcome = Outcome::kEvicted;
  const Gsn since = forgotten ? 0 : frame->dirty_since.load(std::memory_order_relaxed);
  if (has_swizzled_children(page)) {
    outcome = Outcome::kKept;
    if (!forgotten) {
      // A worker went through it and made a child hot (FRAME-2): it is not cold.
      __atomic_store_n(&swip->raw, Swip::hot(frame).raw, __ATOMIC_RELAXED);
      frame->state.store(FrameState::kHot, std::memory_order_release);
    }
  } else if (frame->writing.load(std::memory_order_relaxed) != 0) {
    outcome = Outcome::kKept;
  } else {
    to_compress = to_compress && std::memcmp(copy, page, kPageSize) == 0;
    if (to_compress) {
      compressed++;
      to_compress = compressor.put({file.index, frame->file_no.load(std::memory_order_relaxed),
                                    frame->page_no.load(std::memory_order_relaxed), since});
    }
    if (!to_compress && since != 0) outcome = Outcome::kToBeWritten;
  }
  if (outcome != Outcome::kEvicted) {
    frame->latch.unlock_exclusive_unchanged();
    parent->latch.unlock_exclusive_unchanged();
    return outcome;
  }
  LS_ASSERT(frame->page_no.load(std::memory_order_relaxed) != kMetaPageNo);
  const auto leaf_free_space = tree_ops().leaf_free_space;
  const Swip evicted = Swip::evicted(frame->page_no.load(std::memory_order_relaxed),
                                     leaf_free_space ? leaf_free_space(page) : LeafFreeSpace{});
  __atomic_store_n(&swip->raw, evicted.raw, __ATOMIC_RELAXED);
  frame->state.store(FrameState::kLoading, std::memory_order_relaxed);  // this provider's
  frame->latch.unlock_exclusive();
  parent->latch.unlock_exclusive();
  release_frame(*pool.shared(), frame);
  pool.shared()->evictions.fetch_add(1, std::memory_order_relaxed);
  freed++;
  return Outcome::kEvicted;
}

// It is evicted when that has happened.
void PageProvider::State::write_first(Frame *frame) {
  if (writer.full() ||
      writer.add(frame, ~Gsn{0}, PageWriter::Patience::kTry) != PageWriter::Added::kYes)
    return;
  progress = true;
  written.push_back(frame);
}

// As many as were compressed, or for which there was no room: those make room for the next ones.
void PageProvider::State::write_oldest_compressed() {
  if (compressed == 0) return;
  for (const CompressedPage &page :
       dirty_oldest(*pool.shared(), std::max(compressed, kCompressedPartitions))) {
    if (writer.full()) return;
    (void)writer.add(page, ~Gsn{0});
  }
}

// A page in the I/O stage: freed pages are written, then dropped; loads that no reader came for are
// dropped.
void PageProvider::State::drop_loaded(Frame *frame, bool forgotten) {
  bool dirty = frame->dirty_since.load(std::memory_order_relaxed) != 0;
  if (!forgotten) {
    u8 visits = frame->visits.load(std::memory_order_relaxed) + 1;
    frame->visits.store(visits, std::memory_order_relaxed);
    if (visits < kOrphanVisits) return;
    if (dirty) {
      if (writer.add(frame, ~Gsn{0}, PageWriter::Patience::kTry) == PageWriter::Added::kYes)
        progress = true;
      return;
    }
  }
  FileNo file_no = frame->file_no.load(std::memory_order_relaxed);
  PageNo page_no = frame->page_no.load(std::memory_order_relaxed);
  {
    IoStageLock stage(*pool.shared(), file_no, page_no);
    if (!stage.holds(frame) || frame->state.load(std::memory_order_relaxed) != FrameState::kLoaded)
      return;
    if (frame->writing.load(std::memory_order_relaxed)) return;
    if (frame->file_no.load(std::memory_order_relaxed) != file_no ||
        frame->page_no.load(std::memory_order_relaxed) != page_no) {
      return;
    }
    if (!forgotten && frame->dirty_since.load(std::memory_order_relaxed) != 0) return;
    // Of a superseded one the end of its write is the end.
    LS_ASSERT(!frame->superseded.load(std::memory_order_relaxed));
    stage.remove(frame);
  }
  release_frame(*pool.shared(), frame);
  freed++;
}

// Readers that want it set `visits` back.
void PageProvider::State::look_at_followed(Frame *frame) {
  const u8 visits = frame->visits.load(std::memory_order_relaxed);
  if (visits < kFollowedVisits) {
    frame->visits.store(visits + 1, std::memory_order_relaxed);
    progress = true;
  } else if (frame->dirty_since.load(std::memory_order_relaxed) != 0) {
    write_first(frame);
  } else if (drop_followed(pool, frame, false)) {
    pool.shared()->evictions.fetch_add(1, std::memory_order_relaxed);
    freed++;
  }
}

// The last frame of a forgotten or closed file.
void PageProvider::State::drop_meta(Frame *frame, FileSlot &file) {
  if (file.frames.load(std::memory_order_acquire) != 1 || !frame->latch.try_lock_exclusive())
    return;
  bool good = is_leaving(file) && file.meta.load(std::memory_order_relaxed) == frame &&
              file.frames.load(std::memory_order_acquire) == 1 &&
              !frame->writing.load(std::memory_order_relaxed);
  if (good) {
    LS_ASSERT(frame->page_no.load(std::memory_order_relaxed) == kMetaPageNo);
    file.meta.store(pool.shared()->empty_meta(), std::memory_order_release);
    frame->state.store(FrameState::kLoading, std::memory_order_relaxed);
  }
  frame->latch.unlock_exclusive();
  if (!good) return;
  release_frame(*pool.shared(), frame);
  freed++;
}

bool PageProvider::State::drop_unreachable(Frame *frame, FileSlot &file) {
  if (!frame->latch.try_lock_exclusive()) return false;
  bool good = is_leaving(file) && frame->in_tree() &&
              frame->file_slot.load(std::memory_order_relaxed) == file.index &&
              frame->file_no.load(std::memory_order_relaxed) ==
                  file.file_no.load(std::memory_order_relaxed) &&
              !frame->writing.load(std::memory_order_relaxed);
  if (good) frame->state.store(FrameState::kLoading, std::memory_order_relaxed);
  frame->latch.unlock_exclusive();
  if (!good) return false;
  release_frame(*pool.shared(), frame);
  freed++;
  return true;
}

void PageProvider::State::drop_forgotten(Frame *frame, FileSlot &file) {
  if (frame->state.load(std::memory_order_acquire) == FrameState::kLoaded)
    return drop_loaded(frame, true);
  if (frame->state.load(std::memory_order_acquire) == FrameState::kFollowed) {
    freed += drop_followed(pool, frame, true);
    return;
  }
  if (!frame->in_tree()) return;
  if (file.meta.load(std::memory_order_relaxed) == frame) return drop_meta(frame, file);
  if (evict(frame, true, false) == Outcome::kEvicted) return;
  u8 visits = frame->visits.load(std::memory_order_relaxed);
  if (visits >= kUnreachableVisits) {
    drop_unreachable(frame, file);
  } else {
    frame->visits.store(visits + 1, std::memory_order_relaxed);
  }
}

void PageProvider::State::look_at(Frame *frame) {
  FrameState state = frame->state.load(std::memory_order_acquire);
  if (state == FrameState::kFree || state == FrameState::kLoading) return;
  FileSlot &file = pool.file(frame->file_slot.load(std::memory_order_relaxed));
  if (is_leaving(file)) return drop_forgotten(frame, file);
  if (!has_pages(file)) return;
  if (state == FrameState::kLoaded) return drop_loaded(frame, false);
  if (state == FrameState::kFollowed) return look_at_followed(frame);
  if (state == FrameState::kHot) {
    if (frame->visits.load(std::memory_order_relaxed) != 0) {
      frame->visits.store(0, std::memory_order_relaxed);
      note_rereference(file, true);
    }
    return cool(frame, file);
  }
  if (!has_looks_left(frame, file)) evictable.push_back(frame);
}

// Clear out forgotten and closed files wherever their frames are.
void PageProvider::State::sweep() {
  const std::unique_lock lock(pool.shared()->sweep_mutex, std::try_to_lock);
  if (!lock) return;
  for (u32 i = 0; i < pool.frame_count(); i++) {
    Frame *frame = pool.frame(i);
    if (frame->state.load(std::memory_order_relaxed) == FrameState::kFree) continue;
    FileSlot &file = pool.file(frame->file_slot.load(std::memory_order_relaxed));
    if (is_leaving(file)) drop_forgotten(frame, file);
  }
  for (u32 i = 0; i < pool.shared()->max_files; i++) finish_leaving(*pool.shared(), pool.file(i));
}

PageProvider::PageProvider(BufferPool &pool, u32 id) : pool_(pool), state_(new State(pool, id)) {}

PageProvider::~PageProvider() { delete state_; }

Status PageProvider::round(u32 *freed) {
  State &s = *state_;
  s.freed = 0;
  s.progress = false;
  s.written.clear();
  s.compressed = 0;
  // Further samples make the batch worth its syncs; in a small pool they would leave no time for a
  // second chance.
  u32 samples = std::min(kMaxSamples, 1 + pool_.frame_count() / kFramesPerSample);
  const u32 batch = std::clamp(pool_.shared()->low_water / 2, kSamples, kTearPages - kSamples);
  for (u32 n = 0; n < samples && s.written.size() < batch && s.freed < kSamples; n++) {
    s.evictable.clear();
    for (u32 i = 0; i < kSamples && !s.writer.full(); i++)
      s.look_at(pool_.frame(next_random(s.random) % pool_.frame_count()));
    for (Frame *frame : s.evictable) {
      if (s.evict(frame, false, true) == State::Outcome::kToBeWritten) s.write_first(frame);
    }
  }
  s.write_oldest_compressed();
  if (s.writer.unhardened() != 0) pool_.log().kick();
  Status status = s.writer.write(nullptr);
  for (Frame *frame : s.written) {
    const FrameState state = frame->state.load(std::memory_order_relaxed);
    if (state == FrameState::kCool) s.evict(frame, false, false);
    if (state == FrameState::kFollowed) s.look_at_followed(frame);
  }
  *freed = s.freed;
  return status;
}

Status PageProvider::run(const std::atomic<u32> &stop) {
  PoolShared &shared = *pool_.shared();
  u32 idle_rounds = 0;
  bool filling = false;
  while (!stop.load(std::memory_order_acquire)) {
    u32 event = shared.provider_event.load(std::memory_order_acquire);
    u32 free = shared.free_count.load(std::memory_order_relaxed);
    filling = free < shared.low_water || (filling && free < shared.high_water);
    i64 sleep_us = 0;
    if (filling) {
      u32 freed = 0;
      const Status status = with_memory([&] { return round(&freed); });
      if (code(status) == LS_NO_SPACE || code(status) == LS_NO_MEMORY) {
        sleep_us = kLaterSleepUs;  // the pages stay dirty in memory; there may be room later
      } else {
        LS_TRY(status);
      }
      idle_rounds = freed > 0 || state_->progress ? 0 : idle_rounds + 1;
      if (idle_rounds >= kIdleRounds && sleep_us == 0) sleep_us = kIdleSleepUs;
    } else {
      sleep_us = kRestSleepUs;
    }
    if (shared.leaving.load(std::memory_order_relaxed) > 0) {
      state_->sweep();
      sleep_us = std::min(sleep_us, kSweepSleepUs);
    }
    if (sleep_us == 0) continue;
    shared.provider_sleepers.fetch_add(1, std::memory_order_seq_cst);
    // A worker took a frame, or the engine worker asked for the end, before it could see that this
    // thread sleeps: look once more.
    bool low = shared.free_count.load(std::memory_order_seq_cst) < shared.low_water;
    if ((filling || !low) && !stop.load(std::memory_order_seq_cst))
      futex_wait(&shared.provider_event, event, sleep_us);
    shared.provider_sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
  return kOk;
}

}  // namespace ls
