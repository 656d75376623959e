// read_ahead.cpp - which leaves are asked for, and the copies that came.
#include "btree/read_ahead.hpp"

#include <algorithm>
#include <cstring>

#include "base/aligned_memory.hpp"
#include "base/check.hpp"
#include "base/copy_page.hpp"
#include "buffer/followed_pages.hpp"
#include "os/page_reads.hpp"

namespace ls {

namespace {

// Leaves that were not in memory, one after the other read alone, before the next ones are read
// ahead.
constexpr u32 kPatience = 2;
constexpr u32 kFirstDepth = 8;

}  // namespace

struct ReadAhead::Reads {
  enum class State : u8 { kFree, kReading, kRead, kFailed };
  struct Entry {
    PageNo page = 0;
    Parent parent{};
    State state = State::kFree;
    bool compressed = false;   // copied, not read
  };

  Reads() : ring(kMost) {}
  Entry *find(PageNo page) {
    for (Entry &e : entries) {
      if (e.page == page && e.state != State::kFree) return &e;
    }
    return nullptr;
  }
  u8 *buffer(const Entry &e) const {
    return pages.get() + static_cast<size_t>(&e - entries) * kPageSize;
  }
  void collect(bool wait) {
    for (PageReads::Ended ended; ring.next(wait, &ended); wait = false) {
      LS_ASSERT(ended.tag < kMost && entries[ended.tag].state == State::kReading);
      entries[ended.tag].state = ended.whole ? State::kRead : State::kFailed;
    }
  }

  Entry entries[kMost];
  AlignedPages pages = allocate_pages(kMost);
  PageReads ring;   // behind what it reads into
};

ReadAhead::ReadAhead(Ctx &ctx, FileSlot &file) : ctx_(ctx), file_(file), depth_(kFirstDepth) {}

ReadAhead::~ReadAhead() = default;

bool ReadAhead::wanted() {
  if (is_followed(*ctx_.pool->shared(), file_)) return false;   // the file may not have the newest
  if (missed_ == kPatience) return true;
  missed_++;
  return false;
}

u32 ReadAhead::to_ask(PageNo now) {
  if (reads_ && asked_ > 0 && reads_->find(now)) {
    asked_--;
    return 0;
  }
  return depth_;
}

void ReadAhead::ask(std::span<const PageNo> pages, const Parent &parent) {
  LS_ASSERT(!pages.empty() && pages.size() <= kMost);
  LS_ASSERT(parent.version % 2 == 0);   // AHEAD-1
  if (!reads_) reads_ = std::make_unique<Reads>();
  if (!reads_->pages || !reads_->ring.possible()) return;
  reads_->collect(false);
  // What the scan has passed without using it, and what has changed since, makes room.
  for (Reads::Entry &e : reads_->entries) {
    if (e.state != Reads::State::kRead && e.state != Reads::State::kFailed) continue;
    const bool known = e.parent.writes == parent.writes || e.parent.is(parent);
    if (!known || std::find(pages.begin(), pages.end(), e.page) == pages.end())
      e.state = Reads::State::kFree;
  }
  u32 began = 0, place = 0;
  for (const PageNo page : pages) {
    if (reads_->find(page)) continue;
    while (place < kMost && reads_->entries[place].state != Reads::State::kFree) place++;
    if (place == kMost) break;
    Reads::Entry &e = reads_->entries[place];
    const ReadPast found = ctx_.pool->read_past(file_, page, reads_->buffer(e));
    // Between the two it may have gone from the I/O stage, changed, into the tree (AHEAD-1).
    if (found == ReadPast::kFile && !parent.frame->latch.validate(parent.version)) break;
    if (found == ReadPast::kCopied) {
      e = {page, parent, Reads::State::kRead, true};
    } else if (found == ReadPast::kFile) {
      reads_->ring.add(page, reads_->buffer(e), place);
      e = {page, parent, Reads::State::kReading, false};
      began++;
    } else if (page == pages.front()) {
      return;   // what is wanted now comes the ordinary way
    }
  }
  if (began > 0) {
    reads_->ring.submit(file_.ref());
    ctx_.pool->count_read_ahead(began);
  }
  // The next ones are asked for when half of these have been used.
  asked_ = static_cast<u32>(pages.size()) / 2;
  depth_ = std::min(2 * depth_, kMost);
}

bool ReadAhead::take(PageNo page, const Parent &parent, u8 *out) {
  Reads::Entry *e = reads_ ? reads_->find(page) : nullptr;
  if (!e) return false;
  if (e->state == Reads::State::kReading) {
    WaitReport report(&ctx_.waits, LS_WAIT_PAGE_READ);
    while (e->state == Reads::State::kReading) reads_->collect(true);
  }
  const u8 *read = reads_->buffer(*e);
  const Gsn log_end = ctx_.pool->log().last_gsn();
  bool good = e->state == Reads::State::kRead &&
              (e->compressed || read_fault(read, page, log_end) == nullptr);
  if (good) copy_page(out, read);
  // After the copy.  A slot that another file has got was emptied before: its pages' parents were.
  const bool unwritten = e->parent.writes == file_.page_writes.load(std::memory_order_acquire);
  good =
      good && (unwritten || (e->parent.is(parent) && parent.frame->latch.validate(parent.version)));
  e->state = Reads::State::kFree;
  if (good && !e->compressed) ctx_.pages.read++;
  return good;
}

}  // namespace ls
