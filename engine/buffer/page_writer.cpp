// page_writer.cpp - a batch copied, protected, written in place and marked clean.
#include "buffer/page_writer.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>

#include "base/check.hpp"
#include "base/copy_page.hpp"
#include "base/failpoint.hpp"
#include "buffer/io_stage.hpp"
#include "buffer/page_allocator.hpp"

namespace ls {

namespace {

// Claim the right to write the page; shared latch held (FRAME-5).  False: another writer writes it
// now, or it is gone.
bool begin_write(PoolShared &pool, Frame *frame, FileNo file_no, PageNo page_no,
                 PageWriter::Added *why) {
  IoStageLock stage(pool, file_no, page_no);
  // Pairs with the release by the reader that read the page into the frame: it takes no latch.
  FrameState state = frame->state.load(std::memory_order_acquire);
  *why = PageWriter::Added::kNothing;
  // Nor does an actor take one to let go of a page in the I/O stage: since its number was read the
  // frame may have got another.
  if (!stage.is_page(frame)) return false;
  if (state == FrameState::kFree) return false;
  // Another writer, with the latch shared as well, may have made it clean meanwhile.  A change made
  // while a clean page is written would be in dirty_next alone, where oldest_dirty() does not look.
  if (frame->dirty_since.load(std::memory_order_relaxed) == 0) return false;
  if ((state == FrameState::kLoaded || state == FrameState::kFollowed) &&
      (!stage.holds(frame) || frame->superseded.load(std::memory_order_relaxed)))
    return false;
  *why = PageWriter::Added::kBusy;
  // Soon it is in a tree, with the mark that came with it (compressed_cache.hpp).
  if (state == FrameState::kLoading) return false;
  if (frame->writing.load(std::memory_order_relaxed) || stage.being_written()) return false;
  LS_ASSERT(!frame->latch.is_exclusive());                             // FRAME-5
  LS_ASSERT(frame->dirty_next.load(std::memory_order_relaxed) == 0);   // WRITE-4
  frame->writing.store(1, std::memory_order_relaxed);
  return true;
}

constexpr u32 kMemoryTries = 100;
constexpr u64 kMemoryRetryNs = 100'000'000;

// Pages are half way to their files: to write and sync them again changes nothing, so what lacks
// memory is tried again for ten seconds.
template <typename Step>
Status until_memory(Step step) noexcept {
  for (u32 tries = 1;; tries++) {
    const Status status = with_memory(step);
    if (code(status) != LS_NO_MEMORY || tries == kMemoryTries) return status;
    const timespec pause{0, kMemoryRetryNs};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace

PageWriter::PageWriter(BufferPool &pool)
    : pool_(pool),
      guard_(*pool.shared()),
      ring_(io_ring_create(kTearPages)),
      block_(allocate_pages(kTearHeaderPages + kTearPages)) {
  if (!block_) throw std::bad_alloc();
  logged_.reserve(kTearPages);
  unlogged_.reserve(kTearPages);
  writes_.reserve(kTearPages);
  files_.reserve(kTearPages);
}

PageWriter::~PageWriter() {
  for (const Entry &entry : logged_) finish(entry, false);
  for (const Entry &entry : unlogged_) finish(entry, false);
}

// Where the next page of that sort goes.
u8 *PageWriter::slot_buffer(bool logged) const {
  size_t index = logged ? logged_.size() : kTearPages - 1 - unlogged_.size();
  return block_.get() + (kTearHeaderPages + index) * kPageSize;
}

PageWriter::Added PageWriter::add(Frame *frame, Gsn up_to, Patience patience) {
  LS_ASSERT(!full());
  if (patience == Patience::kWait) {
    frame->latch.lock_shared();
  } else if (!frame->latch.try_lock_shared()) {
    return Added::kBusy;
  }
  Gsn since = frame->dirty_since.load(std::memory_order_relaxed);
  FileSlot &file = pool_.file(frame->file_slot.load(std::memory_order_relaxed));
  FileNo file_no = frame->file_no.load(std::memory_order_relaxed);
  PageNo page_no = frame->page_no.load(std::memory_order_relaxed);
  const u8 *page = pool_.page(frame);
  auto *header = reinterpret_cast<const PageHeader *>(page);
  Gsn gsn = 0;
  bool unhardened = false;
  Added result = Added::kNothing;
  if (since == 0 || since > up_to || !has_pages(file)) {
    // nothing to write
  } else if (begin_write(*pool_.shared(), frame, file_no, page_no, &result)) {
    // Only a claimed frame's page is looked at: any other may be read into by its next owner,
    // without the latch.
    LS_ASSERT(header->page_no == page_no);
    gsn = header->gsn;
    unhardened = patience == Patience::kTry && gsn > pool_.log().hardened();
    result = unhardened ? Added::kBusy : Added::kYes;
    if (!unhardened) {
      u8 *copy = slot_buffer(file.logged);
      copy_page(copy, page);
      if (header->kind != PageKind::kLeaf) store_references(copy);
    }
  }
  frame->latch.unlock_shared();
  if (unhardened) {
    unhardened_ = std::max(unhardened_, gsn);
    finish({frame, &file, file_no, page_no, gsn, false}, false);
  }
  if (result == Added::kYes) {
    page_seal(slot_buffer(file.logged));
    (file.logged ? logged_ : unlogged_).push_back({frame, &file, file_no, page_no, gsn, false});
  }
  return result;
}

PageWriter::Added PageWriter::add(const CompressedPage &page, Gsn up_to) {
  LS_ASSERT(!full());
  FileSlot &file = pool_.file(page.file_slot);
  const bool logged = file.logged;
  u8 *copy = slot_buffer(logged);
  const Decompressed begun = begin_compressed_write(*pool_.shared(), page, up_to, copy);
  if (begun != Decompressed::kYes)
    return begun == Decompressed::kBusy ? Added::kBusy : Added::kNothing;
  const Entry entry{
      nullptr, &file, page.file_no, page.page_no, reinterpret_cast<const PageHeader *>(copy)->gsn,
      false};
  if (entry.gsn > pool_.log().hardened()) {
    unhardened_ = std::max(unhardened_, entry.gsn);
    finish(entry, false);
    return Added::kBusy;
  }
  page_seal(copy);
  (logged ? logged_ : unlogged_).push_back(entry);
  return Added::kYes;
}

// WRITE-2.
Status PageWriter::harden(Gsn gsn, const volatile int *interrupt) {
  if (gsn <= pool_.log().hardened() || pool_.log().wait_hardened(gsn, interrupt)) return kOk;
  if (pool_.log().failed()) return fail(LS_IO_ERROR, "pages cannot be written: the log has failed");
  return fail(LS_INTERRUPTED, "interrupted while waiting for the log");
}

// Not before the log was waited for: a backend that forgets a file waits for the pins, and the log
// may be waiting for that backend.
void PageWriter::pin_files() {
  for (Entry &entry : logged_) entry.pinned = pin_file(*entry.file, entry.file_no);
  for (Entry &entry : unlogged_) entry.pinned = pin_file(*entry.file, entry.file_no);
}

// Redo makes pages behind the end of a file (PLACE-4).
Status PageWriter::make_room() {
  for (const Entry &entry : logged_) {
    const u32 pages = whole_blocks(entry.page_no + 1);
    if (entry.pinned && pages > entry.file->pages_allocated.load(std::memory_order_relaxed))
      LS_TRY(grow_file(*entry.file, pages));
  }
  return kOk;
}

Status PageWriter::put_in_place(const volatile int *interrupt) {
  LS_TRY(make_room());
  writes_.clear();
  u8 *buffers = block_.get() + kTearHeaderPages * kPageSize;
  // The doublewrite buffer wants the images close together: close the gaps of what was forgotten.
  u32 kept = 0;
  for (u32 i = 0; i < logged_.size(); i++) {
    if (!logged_[i].pinned) continue;
    LS_ASSERT(logged_[i].gsn <= pool_.log().hardened());   // WRITE-2
    if (kept != i)
      copy_page(buffers + size_t{kept} * kPageSize, buffers + size_t{i} * kPageSize);
    writes_.push_back(
        {logged_[i].file->ref(), logged_[i].page_no, buffers + size_t{kept++} * kPageSize});
  }
  // Before the first of them: ReadAhead.
  for (const std::vector<Entry> *entries : {&logged_, &unlogged_}) {
    for (const Entry &entry : *entries)
      entry.file->page_writes.fetch_add(1, std::memory_order_seq_cst);
  }
  const bool guarded = kept > 0 && guard_.enabled();
  if (guarded) LS_TRY(guard_.begin(block_.get(), writes_, interrupt));
  for (u32 i = 0; i < unlogged_.size(); i++) {
    if (!unlogged_[i].pinned) continue;
    writes_.push_back({unlogged_[i].file->ref(), unlogged_[i].page_no,
                       buffers + size_t{kTearPages - 1 - i} * kPageSize});
  }
  const Status status = write_and_sync(kept);
  if (guarded && !pool_.shared()->failure.noted(nullptr)) guard_.end();   // DBLW-4
  return status;
}

// Pages are being changed in their files: it succeeds, or all is as it was, or the store has
// failed.  To open a descriptor that has left the cache is all that needs memory here.
Status PageWriter::write_and_sync(u32 logged) noexcept {
  LS_ASSERT(logged <= writes_.size());
  const Status status =
      writes_.empty() ? kOk : until_memory([&] { return io_write_pages(ring_.get(), writes_); });
  pool_.shared()->writes.fetch_add(writes_.size(), std::memory_order_relaxed);
  const ls_error error = last_error();
  if (ok(status) || left_whole(logged)) {
    LS_FAILPOINT(buffer_before_sync);
    if (const Status synced = until_memory([&] { return sync_files(); }); !ok(synced)) {
      pool_.shared()->failure.note(synced);
      return fail_as(LS_IO_ERROR);
    }
    if (!ok(status)) set_last_error(error);
    return status;
  }
  set_last_error(error);
  pool_.shared()->failure.note(status);
  return fail_as(LS_IO_ERROR);
}

// After a failure: was it space only, and has each file a whole page, the old or the new one, in
// every place?  One that was never written is made anew by redo; of a file that is not logged a
// crash leaves nothing anyway.
bool PageWriter::left_whole(u32 logged) {
  for (const PageWrite &write : writes_) {
    if (!ok(write.status) && code(write.status) != LS_NO_SPACE) return false;
  }
  alignas(kPageSize) u8 page[kPageSize];
  for (const PageWrite &write : std::span(writes_).first(logged)) {
    const Status status =
        until_memory([&] { return file_read_page(write.file, write.page, page); });
    if (code(status) == LS_END) continue;
    if (!ok(status) || page_fault(page, write.page, kLogEndUnknown)) return false;
  }
  return true;
}

// Logged files only: what they have lost the log may not have any more.
Status PageWriter::sync_files() {
  files_.clear();
  for (const Entry &entry : logged_) {
    if (entry.pinned) files_.push_back(&entry);
  }
  auto by_file = [](const Entry *a, const Entry *b) { return a->file_no < b->file_no; };
  auto same_file = [](const Entry *a, const Entry *b) { return a->file_no == b->file_no; };
  std::sort(files_.begin(), files_.end(), by_file);
  files_.erase(std::unique(files_.begin(), files_.end(), same_file), files_.end());
  for (const Entry *entry : files_) LS_TRY(file_sync(entry->file->ref()));
  return kOk;
}

Status PageWriter::write(const volatile int *interrupt) {
  unhardened_ = 0;
  if (empty()) return kOk;
  LS_ASSERT(latches_held() == 0);   // WRITE-1
  Gsn newest = 0;
  for (const Entry &entry : logged_) newest = std::max(newest, entry.gsn);
  Status status = harden(newest, interrupt);
  if (ok(status) && pool_.shared()->failure.noted(nullptr)) {
    status = fail(LS_IO_ERROR, "pages cannot be written: an earlier write has failed");
  }
  if (ok(status)) {
    pin_files();
    // the pins and claims are given back below
    status = with_memory([&] { return put_in_place(interrupt); });
  }
  ls_error error{};
  if (!ok(status)) error = last_error();
  for (std::vector<Entry> *entries : {&logged_, &unlogged_}) {
    for (const Entry &entry : *entries) {
      if (entry.pinned) unpin_file(*entry.file);
      finish(entry, ok(status) && entry.pinned);
    }
    entries->clear();
  }
  if (!ok(status)) set_last_error(error);
  return status;
}

// The copy's way has ended.
void PageWriter::finish(const Entry &entry, bool success) {
  if (entry.frame) return finish_frame(entry, success);
  end_compressed_write(*pool_.shared(), entry.file_no, entry.page_no, success);
}

void PageWriter::finish_frame(const Entry &entry, bool success) {
  Frame *frame = entry.frame;
  bool free = false;
  frame->latch.lock_shared();  // no worker is in mark_dirty
  {
    IoStageLock stage(*pool_.shared(), entry.file_no, entry.page_no);
    LS_ASSERT(stage.is_page(frame) && frame->writing.load(std::memory_order_relaxed));   // FRAME-5
    LS_ASSERT(frame->dirty_since.load(std::memory_order_relaxed) != 0);                  // WRITE-4
    Gsn next = frame->dirty_next.load(std::memory_order_relaxed);
    if (success) frame->dirty_since.store(next, std::memory_order_release);  // WRITE-4
    frame->dirty_next.store(0, std::memory_order_relaxed);
    frame->writing.store(0, std::memory_order_relaxed);
    // A freed page has served its time when its last image is written or not needed.
    if (frame->state.load(std::memory_order_relaxed) == FrameState::kLoaded &&
        (frame->superseded.load(std::memory_order_relaxed) ||
         frame->dirty_since.load(std::memory_order_relaxed) == 0)) {
      stage.remove(frame);
      free = true;
    }
  }
  frame->latch.unlock_shared();
  if (free) release_frame(*pool_.shared(), frame);
}

}  // namespace ls
