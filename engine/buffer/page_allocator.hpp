// page_allocator.hpp - page allocator: which page numbers of a file are free.  Works on the
// MetaPage under its exclusive latch; never does I/O there: PageReservation prepares before latches
// are taken.
//
// Free numbers are in the meta page's list; when that is full the page that is being freed becomes
// a trunk, which takes a part of the list over.  prepare() brings a trunk's numbers back when the
// list runs low.
#pragma once
#include <atomic>
#include <span>

#include "buffer/page_guard.hpp"

namespace ls {

// Log bytes that allocate_page or free_page may add to the record being built, headers included.
inline constexpr u32 kAllocatorRecordBytes = 1152;

// A file has so many pages at most: 15 TiB, far from where the numbers end.  Undo, which must not
// be refused, may go on into the rest (Ctx::undoing).  Tests set less.
inline constexpr PageNo kMostPages = 0xf000'0000;
inline constexpr PageNo kPagesForUndo = 0x0ff0'0000;
inline std::atomic<PageNo> most_pages{kMostPages};

// In blocks of the host, of 8 KiB (PLACE-4 in wal/changed_places.hpp).
inline constexpr u32 whole_blocks(u32 pages) { return (pages + 1) / 2 * 2; }
// Room on disk for so many pages, and some more.  The file is pinned, nothing is cut off it.
Status grow_file(FileSlot &file, u32 pages);

// Pages that are about to be taken: there are numbers for them, and room on disk, until it goes.
class PageReservation {
 public:
  PageReservation() = default;
  ~PageReservation();
  PageReservation(const PageReservation &) = delete;
  PageReservation &operator=(const PageReservation &) = delete;
  // Once.  The list of free pages is not empty afterwards when there are any.  No latch held, no
  // record being built.  LS_NO_SPACE, LS_NO_PAGES.
  Status prepare(Ctx &ctx, FileSlot &file, u32 count);

 private:
  FileSlot *file_ = nullptr;
  u32 count_ = 0;
};

// Take a page number; meta is latched exclusively.  Appends the redo operation to the record being
// built (logged files).
PageNo allocate_page(Ctx &ctx, FileSlot &file, ExclusiveGuard &meta);
// Give one back, changing meta (and, when it becomes a trunk, the page).  `page` stays latched.
// The caller finishes the record, calls mark_dirty on meta and then, returned true: the page became
// a trunk: mark_dirty it, too, and release it; false: BufferPool::free_frame(page.detach()).
bool free_page(Ctx &ctx, FileSlot &file, ExclusiveGuard &meta, ExclusiveGuard &page);

// What is left of a file when its last pages, all of them free, are taken off (file_cut.hpp).
struct FileCut {
  PageNo page_count;
  PageNo trunk;       // the first one, 0: none
  u32 free_total;
};
// Logged like the others, as the one operation of a kCut record.  The caller swizzles the trunk.
void cut_file(Ctx &ctx, FileSlot &file, ExclusiveGuard &meta, const FileCut &cut,
              std::span<const PageNo> free_pages);
// The page of a trunk is free: its numbers are elsewhere since the record `gsn`.  Latched
// exclusively.
void free_trunk_page(Ctx &ctx, ExclusiveGuard &trunk, Gsn gsn);
inline constexpr u32 kMaxFreeList = sizeof(MetaPage::free_pages) / sizeof(PageNo);
// numbers that a trunk takes over: the record stays small
inline constexpr u32 kMostInTrunk = 256;
inline constexpr u32 kCutRecordBytes = sizeof(FileCut) + sizeof(MetaPage::free_pages) + 32;
// Is it a cut, and to how many pages?
bool is_file_cut(u8 code, std::span<const u8> operands, PageNo *pages);

// Is it said of the meta page that a page is free?  Its own contents have no record then.
bool gives_back(u8 code, std::span<const u8> operands, PageNo *page);
// Does it make a trunk of a page, whatever that was?
bool makes_trunk(u8 code);
// Redo one kOpSpace operation on its page (meta or trunk).  LS_CORRUPT when it does not fit the
// page.
Status page_allocator_redo(u8 code, std::span<const u8> operands, u8 *page, PageNo page_no);

}  // namespace ls
