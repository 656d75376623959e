// space_cut.hpp - free pages at the end of a file go back to the file system.
//
// Two steps.  The meta page forgets them: its page count goes down to the last page in use, and they leave the
// list of free pages.  That is one record (RecordKind::kCut).  Then the file is made shorter.
//
//   C1  Not before the record is hardened: a recovery that does not know of the cut needs the pages.
//   C2  No page of the file is taken from its end between the two steps: whoever needs more room than the meta page
//       has waits for FileSlot::mutex, and who has reserved pages before is a reason to leave the file as it is.
//   C3  Nor is one written there: last images of the pages (frame.hpp, F4) are dropped, and writes of them that are
//       under way awaited.  No others are in memory: a free page is in no tree.
//   C4  So recovery may find the pages, find others, or none: it redoes nothing that was logged for them before the
//       cut (log_analysis.hpp, A5).  What is logged behind it begins with all of the page, as of any page taken.
//   C5  A file may be longer than its page count says: when the second step fails, or a crash comes before it, a later
//       cut makes up for it.
#pragma once
#include "buffer/pool.hpp"

namespace ls {

struct FileLength {
  u32 before = 0;   // pages
  u32 after = 0;
};

// What a cut would make of the file.
Status space_look_for_cut(Ctx &ctx, FileSlot &file, FileLength *length);
// Best effort: the file stays as it is where others take pages, or where so many pages are free before the last one in use
// that the meta page could not list them.  No latch held.  Reads the trunks, and a bit of memory for each page.
Status space_cut_off(Ctx &ctx, FileSlot &file, FileLength *length);

}  // namespace ls
