// recovery_pages.cpp - room for pages of redo, and reads that go on beside it.
#include "buffer/recovery_pages.hpp"

#include <cstring>
#include <numeric>

#include "base/check.hpp"
#include "buffer/followed_pages.hpp"
#include "buffer/io_stage.hpp"
#include "buffer/page_guard.hpp"

namespace ls {

bool RecoveryPages::room() const {
  return pool_.shared()->free_count.load(std::memory_order_relaxed) > pool_.shared()->low_water;
}

bool RecoveryPages::name(FileSlot &file, PageNo page_no, u32 *index) {
  const u64 place = Page::place_of(file, page_no);
  if (auto found = index_.find(place); found != index_.end()) {
    *index = found->second;
    return true;
  }
  PoolShared &shared = *pool_.shared();
  const bool meta = page_no == kMetaPageNo;   // read when the file was opened
  Frame *frame = file.meta.load(std::memory_order_relaxed);
  if (!meta) {
    if (!room()) return false;
    frame = free_list_pop(shared);
    LS_CHECK(frame && claim_frame(shared, file, frame, page_no),
             "another actor uses the pool during recovery");
  }
  LS_ASSERT(frame != shared.empty_meta());
  *index = count();
  const bool torn = meta && file.meta_torn.load(std::memory_order_relaxed);
  pages_.push_back({&file, page_no, frame, meta, torn});
  index_.emplace(place, *index);
  return true;
}

void RecoveryPages::begin_empty(u32 index) {
  Page &page = pages_[index];
  LS_ASSERT(!page.read && !is_meta(page));
  std::memset(pool_.page(page.frame), 0, kPageSize);
  page.read = true;
}

Status RecoveryPages::make_room(Ctx &ctx) {
  LS_TRY(pool_.flush_frames(ctx));
  for (const Page &page : pages_) {
    if (is_meta(page)) continue;
    LS_CHECK(!has_pages(*page.file) || page.frame->dirty_since.load(std::memory_order_relaxed) == 0,
             "a redone page would be lost");
    release_frame(*pool_.shared(), page.frame);
  }
  pages_.clear();
  index_.clear();
  return kOk;
}

void RecoveryPages::finish() {
  for (const Page &page : pages_) {
    if (is_meta(page)) continue;
    if (page.frame->dirty_since.load(std::memory_order_relaxed) == 0 ||
        !file_is(*page.file, FileState::kActive)) {
      release_frame(*pool_.shared(), page.frame);
      continue;
    }
    LS_ASSERT(page.read && !page.damaged);
    IoStageLock stage(*pool_.shared(), page.file->file_no.load(std::memory_order_relaxed),
                      page.page_no);
    const bool followed = is_followed(*pool_.shared(), *page.file);
    page.frame->state.store(followed ? FrameState::kFollowed : FrameState::kLoaded,
                            std::memory_order_release);
    stage.insert(page.frame);
  }
  pages_.clear();
  index_.clear();
  settle_files();
}

void RecoveryPages::settle_files() {
  for (u32 i = 0; i < pool_.shared()->max_files; i++) {
    FileSlot &slot = pool_.file(i);
    if (!file_is(slot, FileState::kActive)) continue;
    Frame *frame = slot.meta.load(std::memory_order_relaxed);
    auto *meta = reinterpret_cast<const MetaPage *>(pool_.page(frame));
    if (meta->magic == kMetaMagic) {
      take_meta(slot, *meta);
    } else {
      const ls_rel_key key = slot.key;
      pool_.forget_file(key);
    }
  }
}

RecoveryReads::RecoveryReads(RecoveryPages &pages, Ctx &ctx)
    : pages_(pages), ctx_(ctx), ring_(kMost), asked_(kMost), free_tags_(kMost) {
  std::iota(free_tags_.begin(), free_tags_.end(), 0u);
}

void RecoveryReads::ask(std::span<const u32> pages) {
  LS_ASSERT(room() && pages.size() <= kBatch);
  FileSlot *file = nullptr;
  const size_t before = free_tags_.size();
  for (u32 index : pages) {
    const RecoveryPages::Page &page = pages_.page(index);
    if (page.read) {
      here_.push_back(index);
    } else if (!ring_.possible()) {
      alone_.push_back(index);
    } else {
      if (file && file != page.file) ring_.submit(file->ref());
      file = page.file;
      const u32 tag = free_tags_.back();
      free_tags_.pop_back();
      asked_[tag] = index;
      ring_.add(page.page_no, pages_.pool().page(page.frame), tag);
    }
  }
  if (!file) return;
  ring_.submit(file->ref());
  pages_.pool().count_read_ahead(static_cast<u32>(before - free_tags_.size()));
}

Status RecoveryReads::next(u32 *page, bool *none) {
  *none = false;
  if (here_.empty() && alone_.empty()) {
    PageReads::Ended ended;
    if (!ring_.next(true, &ended)) {
      *none = true;
      return kOk;
    }
    LS_ASSERT(ended.tag < kMost && free_tags_.size() < kMost);
    free_tags_.push_back(ended.tag);
    const u32 index = asked_[ended.tag];
    const RecoveryPages::Page &read = pages_.page(index);
    const Gsn log_end = pages_.pool().log().last_gsn();
    const u8 *bytes = pages_.pool().page(read.frame);
    const bool good = ended.whole && !read_fault(bytes, read.page_no, log_end);
    // What is not there, or damaged, is read again the ordinary way, which has the words for it.
    (good ? here_ : alone_).push_back(index);
    if (good) ctx_.pages.read++;
  }
  const bool alone = here_.empty();
  std::vector<u32> &from = alone ? alone_ : here_;
  *page = from.back();
  from.pop_back();
  RecoveryPages::Page &found = pages_.page(*page);
  bool absent;
  if (alone) {
    const Status status =
        read_or_zero(pages_.pool(), ctx_, *found.file, found.page_no, found.frame, &absent);
    found.damaged = code(status) == LS_CORRUPT;
    if (!found.damaged) LS_TRY(status);
  }
  found.frame->state.store(FrameState::kHot, std::memory_order_release);
  found.read = true;
  return kOk;
}

}  // namespace ls
