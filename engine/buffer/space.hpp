// space.hpp - which page numbers of a file are free.  Works on the MetaPage under its exclusive latch; never does I/O
// there: SpaceReservation prepares before latches are taken.
//
// Free numbers are in the meta page's list; when that is full the page that is being freed becomes a trunk, which takes a
// part of the list over.  prepare() brings a trunk's numbers back when the list runs low.
#pragma once
#include <atomic>
#include <span>

#include "buffer/page_guard.hpp"

namespace ls {

// Log bytes that one space_take or space_put may add to the record being built, headers included.
inline constexpr u32 kSpaceRecordBytes = 1152;

// A file has so many pages at most: 15 TiB, far from where the numbers end.  Undo, which must not
// be refused, may go on into the rest (Ctx::undoing).  Tests set less.
inline constexpr PageNo kMostPages = 0xf000'0000;
inline constexpr PageNo kPagesForUndo = 0x0ff0'0000;
inline std::atomic<PageNo> most_pages{kMostPages};

// Pages that are about to be taken: there are numbers for them, and room on disk, until it goes.
class SpaceReservation {
 public:
  SpaceReservation() = default;
  ~SpaceReservation();
  SpaceReservation(const SpaceReservation &) = delete;
  SpaceReservation &operator=(const SpaceReservation &) = delete;
  // Once.  The list of free pages is not empty afterwards when there are any.  No latch held, no
  // record being built.  LS_NO_SPACE, LS_NO_PAGES.
  Status prepare(Ctx &ctx, FileSlot &file, u32 count);

 private:
  FileSlot *file_ = nullptr;
  u32 count_ = 0;
};

// Take a page number; meta is latched exclusively.  Appends the redo operation to the record being built (logged files).
PageNo space_take(Ctx &ctx, FileSlot &file, ExclusiveGuard &meta);
// Give one back, changing meta (and, when it becomes a trunk, the page).  `page` stays latched.  The caller finishes the record,
// calls mark_dirty on meta and then, returned true: the page became a trunk: mark_dirty it, too, and release it; false:
// BufferPool::free_frame(page.detach()).
bool space_put(Ctx &ctx, FileSlot &file, ExclusiveGuard &meta, ExclusiveGuard &page);

// What is left of a file whose last pages, all of them free, are taken off (space_cut.hpp).
struct SpaceCut {
  PageNo page_count;
  PageNo trunk;       // the first one, 0: none
  u32 free_total;
};
// Logged like the others, as the one operation of a kCut record.  The caller swizzles the trunk.
void space_cut(Ctx &ctx, FileSlot &file, ExclusiveGuard &meta, const SpaceCut &cut,
               std::span<const PageNo> free_pages);
// A trunk, latched exclusively, whose numbers are elsewhere since the record `gsn`: its page is free.
void space_free_trunk(Ctx &ctx, ExclusiveGuard &trunk, Gsn gsn);
inline constexpr u32 kMaxFreeList = sizeof(MetaPage::free_pages) / sizeof(PageNo);
inline constexpr u32 kMostInTrunk = 256;   // numbers that a trunk takes over: the record stays small
inline constexpr u32 kCutRecordBytes = sizeof(SpaceCut) + sizeof(MetaPage::free_pages) + 32;
// Is it a cut, and to how many pages?
bool space_is_cut(u8 code, std::span<const u8> operands, PageNo *pages);

// Redo one kOpSpace operation on its page (meta or trunk).  LS_CORRUPT when it does not fit the page.
Status space_redo(u8 code, std::span<const u8> operands, u8 *page, PageNo page_no);

}  // namespace ls
