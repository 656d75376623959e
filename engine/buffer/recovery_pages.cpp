#include "buffer/recovery_pages.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "buffer/io_stage.hpp"
#include "buffer/page_guard.hpp"
#include "buffer/page_writer.hpp"

namespace ls {

bool RecoveryPages::room() const {
  return pool_.shared()->free_count.load(std::memory_order_relaxed) > pool_.shared()->low_water;
}

bool RecoveryPages::name(FileSlot &file, PageNo page_no, u32 *index) {
  const u64 key = u64{file.index} << 32 | page_no;
  if (auto found = index_.find(key); found != index_.end()) {
    *index = found->second;
    return true;
  }
  PoolShared &shared = *pool_.shared();
  Frame *frame = page_no == kMetaPageNo ? file.meta.load(std::memory_order_relaxed) : nullptr;
  const bool meta = frame != nullptr;
  if (!meta) {
    if (!room()) return false;
    frame = free_list_pop(shared);
    LS_CHECK(frame && claim_frame(shared, file, frame, page_no), "somebody else uses the pool during recovery");
  }
  *index = count();
  pages_.push_back({&file, page_no, frame, meta});
  index_.emplace(key, *index);
  return true;
}

Status RecoveryPages::write_dirty(const volatile int *interrupt) {
  std::vector<const Page *> dirty;
  for (const Page &page : pages_) {
    if (page.frame->dirty_since.load(std::memory_order_relaxed)) dirty.push_back(&page);
  }
  std::sort(dirty.begin(), dirty.end(), [](const Page *a, const Page *b) {
    return a->file != b->file ? a->file->index < b->file->index : a->page_no < b->page_no;
  });
  PageWriter writer(pool_);
  for (const Page *page : dirty) {
    // Nothing is added for a file that was forgotten meanwhile.
    LS_CHECK(writer.add(page->frame, ~Gsn{0}, PageWriter::Patience::kWait) != PageWriter::Added::kBusy,
             "somebody else writes pages during recovery");
    if (writer.full()) LS_TRY(writer.write(interrupt));
  }
  return writer.write(interrupt);
}

Status RecoveryPages::make_room(const volatile int *interrupt) {
  LS_TRY(write_dirty(interrupt));
  for (const Page &page : pages_) {
    if (!is_meta(page)) release_frame(*pool_.shared(), page.frame);
  }
  pages_.clear();
  index_.clear();
  return kOk;
}

void RecoveryPages::finish() {
  for (const Page &page : pages_) {
    if (is_meta(page)) continue;
    if (page.frame->dirty_since.load(std::memory_order_relaxed) == 0 || !file_is(*page.file, FileState::kActive)) {
      release_frame(*pool_.shared(), page.frame);
      continue;
    }
    IoStageLock stage(*pool_.shared(), page.file->file_no.load(std::memory_order_relaxed), page.page_no);
    page.frame->state.store(FrameState::kLoaded, std::memory_order_release);
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
      take_row_ids(slot, *meta);
    } else {
      const ls_rel_key key = slot.key;
      pool_.forget_file(key);
    }
  }
}

void RecoveryReads::ask(std::span<const u32> pages) {
  LS_ASSERT(room() && pages.size() <= kBatch);
  FileSlot *file = nullptr;
  const u32 before = on_their_way_;
  for (u32 index : pages) {
    const RecoveryPages::Page &page = pages_.page(index);
    if (page.read) {
      here_.push_back(index);
    } else if (!ring_.possible()) {
      alone_.push_back(index);
    } else {
      if (file && file != page.file) ring_.submit(file->ref());
      file = page.file;
      u32 tag = tags_used_;
      if (free_tags_.empty()) {
        tags_used_++;
      } else {
        tag = free_tags_.back();
        free_tags_.pop_back();
      }
      asked_[tag] = index;
      on_their_way_++;
      ring_.add(page.page_no, pages_.pool().page(page.frame), tag);
    }
  }
  if (file) ring_.submit(file->ref());
  if (on_their_way_ > before) pages_.pool().count_read_ahead(on_their_way_ - before);
}

Status RecoveryReads::next(u32 *page, bool *none) {
  *none = false;
  if (here_.empty() && alone_.empty()) {
    PageReads::Ended ended;
    if (!ring_.next(true, &ended)) {
      *none = true;
      return kOk;
    }
    on_their_way_--;
    free_tags_.push_back(ended.tag);
    const u32 index = asked_[ended.tag];
    const RecoveryPages::Page &read = pages_.page(index);
    const bool good = ended.whole && !page_fault(pages_.pool().page(read.frame), read.page_no);
    // What is not there, or damaged, is read again the ordinary way, which has the words for it.
    (good ? here_ : alone_).push_back(index);
    if (good) ctx_.pages.read++;
  }
  std::vector<u32> &from = here_.empty() ? alone_ : here_;
  *page = from.back();
  from.pop_back();
  RecoveryPages::Page &found = pages_.page(*page);
  bool absent;
  if (&from == &alone_) LS_TRY(read_or_zero(pages_.pool(), ctx_, *found.file, found.page_no, found.frame, &absent));
  if (!found.read) found.frame->state.store(FrameState::kHot, std::memory_order_release);
  found.read = true;
  return kOk;
}

}  // namespace ls
