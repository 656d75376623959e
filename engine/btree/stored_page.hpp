// stored_page.hpp - pages that come from a file, or from where they lay compressed: what is in them
// is looked at before it is used.
//
// A checksum tells that a page is as it was written.  Bytes that had been damaged in memory before
// are under a right one; so nothing that later decides about an address, a length or a loop is
// taken from a page that has not been looked at here (docs/decisions/0033).
//
// STORED-1  stored_page_fault() found nothing wrong with a page in a frame when it came; since then
//           only code that keeps NODE-1 to NODE-5 has changed it.
// STORED-2  A page in a tree has the kind, the level and the fences that its parent says
//           (child_fault).
#pragma once
#include "buffer/page.hpp"
#include "buffer/swip.hpp"

namespace ls {

// What is wrong with the contents of a page with a good header; null: nothing.  page_count: of its
// file, read after the page; kInvalidPageNo: not known.
const char *stored_page_fault(const u8 *page, PageNo page_count);
// Is `child`, without a fault of its own, what `location`, a swip in the page `parent`, refers to?
// Null: it is.
const char *child_fault(const u8 *parent, const Swip *location, const u8 *child);

}  // namespace ls
