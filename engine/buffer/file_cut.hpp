// file_cut.hpp - free pages at the end of a file go back to the file system.
//
// Two steps.  The meta page forgets them: its page count goes down to the last page in use, and
// they leave the list of free pages.  That is one record (RecordKind::kCut).  Then the file is made
// shorter.
//
//   CUT-1  Not before the record is hardened: a recovery that does not know of the cut needs the
//          pages.
//   CUT-2  No page of the file is taken from its end between the two steps: a worker that needs
//          more room than the meta page has waits for FileSlot::mutex, and where one has reserved
//          pages before the file is left as it is.
//   CUT-3  Nor is one written there: last images of the pages (frame.hpp, FRAME-4) are dropped, and
//          writes of them that are under way awaited.  No others are in memory: a free page is in
//          no tree.
//   CUT-4  So recovery may find the pages, find others, or none: it redoes nothing that was logged
//          for them before the cut (log_analysis.hpp, ANA-5).  What is logged behind it begins with
//          all of the page, as of any page taken.
//   CUT-5  A file may be longer than its page count says: when the second step fails, or a crash
//          comes before it, a later cut makes up for it.
#pragma once
#include "buffer/pool.hpp"

namespace ls {

struct FileLength {
  u32 before = 0;   // pages
  u32 after = 0;
};

// What a cut would make of the file.
Status file_look_for_cut(Ctx &ctx, FileSlot &file, FileLength *length);
// Best effort: the file stays as it is where others take pages, or where so many pages are free
// before the last one in use that the meta page could not list them.  No latch held.  Reads the
// trunks, and a bit of memory for each page.
Status file_cut_off(Ctx &ctx, FileSlot &file, FileLength *length);

}  // namespace ls
