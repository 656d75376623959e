// relay_files.cpp - which descriptors are kept; sync.
#include "wal/relay_files.hpp"

#include <cstring>

#include "base/check.hpp"

namespace ls {

// Files before are not written again.
Status RelayFiles::open(Lsn from, Lsn to) {
  segments_.close_before(segments_.number_of(from));
  return segments_.open(from, to);
}

Status RelayFiles::write_out(RelayBuffer &buffer) {
  LS_TRY(write(buffer.from, {buffer.bytes, buffer.used}));
  buffer.used = 0;
  return kOk;
}

Status RelayFiles::add(RelayBuffer &buffer, Lsn lsn, std::span<const u8> round) {
  LS_ASSERT(buffer.used == 0 || buffer.from + buffer.used == lsn);   // RELAY-3
  if (buffer.used + round.size() > kRelayBufferBytes) LS_TRY(write_out(buffer));
  if (round.size() > kRelayBufferBytes) return write(lsn, round);
  if (buffer.used == 0) buffer.from = lsn;
  std::memcpy(buffer.bytes + buffer.used, round.data(), round.size());
  buffer.used += static_cast<u32>(round.size());
  return kOk;
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
