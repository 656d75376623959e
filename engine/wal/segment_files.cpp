// segment_files.cpp - descriptors, and bytes that go on in the next segment.
#include "wal/segment_files.hpp"

#include <algorithm>

#include "wal/log_segments.hpp"

namespace ls {

Status SegmentFiles::get(u64 number, File **out) {
  File &file = files_[number];
  if (!file.is_open()) {
    const std::string path = log_segment_path(dir_, number);
    LS_TRY(direct_ ? file.open_direct(path.c_str()) : file.open(path.c_str(), 0));
  }
  *out = &file;
  return kOk;
}

Status SegmentFiles::open(Lsn from, Lsn to) {
  File *file;
  for (u64 number = number_of(from); number < number_behind(to); number++)
    LS_TRY(get(number, &file));
  return kOk;
}

Status SegmentFiles::write(Lsn lsn, std::span<const u8> bytes) {
  while (!bytes.empty()) {
    const u64 offset = offset_of(lsn);
    const size_t n = static_cast<size_t>(std::min<u64>(bytes.size(), segment_bytes_ - offset));
    File *file;
    LS_TRY(get(number_of(lsn), &file));
    LS_TRY(file->write_at(offset, bytes.data(), n));
    lsn += n;
    bytes = bytes.subspan(n);
  }
  return kOk;
}

}  // namespace ls
