// file_settings.hpp - what file_setup set, and page writes through an open segment; private to os/.
#pragma once
#include "os/fd_cache.hpp"

namespace ls {

bool file_fsync_enabled();
// pwrite of one page, bounced when the segment is direct and the buffer is not aligned.
Status file_write_page_to(const OpenSegment &segment, const FileRef &file, PageNo page,
                          const u8 *buffer);

}  // namespace ls
