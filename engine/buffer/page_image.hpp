// page_image.hpp - whole pages in the log, for redo on copies of the files (wal/image_horizon.hpp).
//
//   operands  kind, 1 | format, 1 | offset where the unused middle begins, 2 | the page behind its
//             header up to there | the page behind the middle
// References to children are page numbers, as in the file.
#pragma once
#include <span>

#include "base/status.hpp"
#include "buffer/pool.hpp"

namespace ls {

enum ImageOp : u8 { kPageImage = kOpImage | 1 };

// Append a record with the image of a page of a logged file that is latched exclusively, in a frame
// or about to be; returns its GSN.  Log space: LogAppender::reserve.
Gsn log_page_image(LogAppender &log, const FileSlot &file, const u8 *page);
// IMG-4: add to the record being built that the page is free.
void log_free_image(LogAppender &log, const FileSlot &file, PageNo page_no);
// Make the page of it, whatever it was.  LS_CORRUPT: it is no page.
Status page_image_redo(std::span<const u8> operands, u8 *page, PageNo page_no);

}  // namespace ls
