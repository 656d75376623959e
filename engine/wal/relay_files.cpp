// relay_files.cpp - which descriptors are kept; sync.
#include "wal/relay_files.hpp"

namespace ls {

// Files before are not written again.
Status RelayFiles::open(Lsn from, Lsn to) {
  segments_.close_before(segments_.number_of(from));
  return segments_.open(from, to);
}

Status RelayFiles::sync(Lsn from, Lsn to) {
  for (u64 number = segments_.number_of(from); number < segments_.number_behind(to); number++) {
    File *file;
    const Status status = segments_.get(number, &file);
    if (code(status) == LS_NOT_FOUND) continue;
    LS_TRY(status);
    LS_TRY(file->sync_data());
  }
  segments_.close_all();
  return kOk;
}

}  // namespace ls
