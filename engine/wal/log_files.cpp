// log_files.cpp - blocks read and written; sync.
#include "wal/log_files.hpp"

#include "base/check.hpp"

namespace ls {

Status LogFiles::read_block(Lsn lsn, u8 *block) {
  LS_ASSERT(lsn % kLogBlockBytes == 0);
  File *file;
  LS_TRY(segments_.get(segments_.number_of(lsn), &file));
  size_t got;
  LS_TRY(file->read_at(segments_.offset_of(lsn), block, kLogBlockBytes, &got));
  if (got == kLogBlockBytes) return kOk;
  return fail(LS_CORRUPT, "log segment \"%s\" is too short", file->path());
}

Status LogFiles::write(Lsn lsn, std::span<const u8> bytes) {
  LS_ASSERT(lsn % kLogBlockBytes == 0 && bytes.size() % kLogBlockBytes == 0);
  LS_ASSERT(reinterpret_cast<u64>(bytes.data()) % kLogBlockBytes == 0);
  return segments_.write(lsn, bytes);
}

Status LogFiles::sync(Lsn from, Lsn to, u32 *files_synced) {
  *files_synced = 0;
  if (fsync_ && from < to) {
    for (u64 number = segments_.number_of(from); number < segments_.number_behind(to); number++) {
      File *file;
      LS_TRY(segments_.get(number, &file));
      LS_TRY(file->sync_data());
      ++*files_synced;
    }
  }
  segments_.close_before(segments_.number_of(to));
  return kOk;
}

}  // namespace ls
