// relay_files.cpp - descriptors opened as needed; bytes written; sync.
#include "wal/relay_files.hpp"

#include <algorithm>

#include "wal/log_segments.hpp"

namespace ls {

Status RelayFiles::get(u64 number, File **out) {
  File &file = files_[number];
  if (!file.is_open()) LS_TRY(file.open(log_segment_path(dir_, number).c_str(), 0));
  *out = &file;
  return kOk;
}

Status RelayFiles::open(Lsn from, Lsn to) {
  // Files before that will not be written again; the same name never comes back.
  files_.erase(files_.begin(), files_.lower_bound(from / segment_bytes_));
  File *file;
  for (u64 number = from / segment_bytes_; number * segment_bytes_ < to; number++)
    LS_TRY(get(number, &file));
  return kOk;
}

Status RelayFiles::write(Lsn lsn, std::span<const u8> bytes) {
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

Status RelayFiles::sync(Lsn from, Lsn to) {
  for (u64 number = from / segment_bytes_; number * segment_bytes_ < to; number++) {
    File *file;
    const Status status = get(number, &file);
    if (code(status) == LS_NOT_FOUND) continue;
    LS_TRY(status);
    LS_TRY(file->sync_data());
  }
  files_.clear();
  return kOk;
}

}  // namespace ls
