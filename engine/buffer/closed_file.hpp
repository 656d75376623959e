// closed_file.hpp - what is kept of a relation file that was closed so that others can be opened
// (btree/closed_files.hpp).
#pragma once
#include <cstring>

#include "buffer/file_table.hpp"
#include "wal/log_record.hpp"

namespace ls {

struct ClosedFile {
  FileRecord record{};          // its number, for as long as the store runs; key, kind
  u64 rows_gone = 0, rows_gone_swept = 0;   // as in its FileSlot, as are the next ones
  FileNo table_no = 0;
  u32 table_slot = 0;
  u32 zero = 0;
  char path[sizeof(FileSlot::path)] = {};   // the last one: stored without the bytes behind its end
};
static_assert(sizeof(ClosedFile) == sizeof(FileRecord) + 32 + sizeof(FileSlot::path));

}  // namespace ls
