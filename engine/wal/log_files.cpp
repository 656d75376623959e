// log_files.cpp - descriptors opened as needed; blocks read and written; sync.
#include "wal/log_files.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "wal/log_segments.hpp"

namespace ls {

Status LogFiles::get(u64 number, File **out) {
  File &file = files_[number];
  if (!file.is_open()) LS_TRY(file.open_direct(log_segment_path(dir_, number).c_str()));
  *out = &file;
  return kOk;
}

Status LogFiles::open(Lsn from, Lsn to) {
  File *file;
  for (u64 number = from / segment_bytes_; number * segment_bytes_ < to; number++)
    LS_TRY(get(number, &file));
  return kOk;
}

Status LogFiles::read_block(Lsn lsn, u8 *block) {
  LS_ASSERT(lsn % kLogBlockBytes == 0);
  File *file;
  LS_TRY(get(lsn / segment_bytes_, &file));
  size_t got;
  LS_TRY(file->read_at(lsn % segment_bytes_, block, kLogBlockBytes, &got));
  if (got == kLogBlockBytes) return kOk;
  return fail(LS_CORRUPT, "log segment \"%s\" is too short", file->path());
}

Status LogFiles::write(Lsn lsn, std::span<const u8> bytes) {
  LS_ASSERT(lsn % kLogBlockBytes == 0 && bytes.size() % kLogBlockBytes == 0);
  LS_ASSERT(reinterpret_cast<u64>(bytes.data()) % kLogBlockBytes == 0);
  while (!bytes.empty()) {
    const u64 offset = lsn % segment_bytes_;
    const size_t n = static_cast<size_t>(std::min<u64>(bytes.size(), segment_bytes_ - offset));
    File *file;
    LS_TRY(get(lsn / segment_bytes_, &file));
    LS_TRY(file->write_at(offset, bytes.data(), n));
    lsn += n;
    bytes = bytes.subspan(n);
  }
  return kOk;
}

Status LogFiles::sync(Lsn from, Lsn to, u32 *files_synced) {
  *files_synced = 0;
  const u64 last = to / segment_bytes_;
  for (u64 number = from / segment_bytes_; fsync_ && from < to && number * segment_bytes_ < to;
       number++) {
    File *file;
    LS_TRY(get(number, &file));
    LS_TRY(file->sync_data());
    ++*files_synced;
  }
  // Files before that will not be written again; the same name never comes back.
  files_.erase(files_.begin(), files_.lower_bound(last));
  return kOk;
}

}  // namespace ls
