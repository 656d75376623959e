// host_sync_point.cpp - the file read, replaced and synced; commits that it lacks.
#include "recovery/host_sync_point.hpp"

#include <algorithm>
#include <string>

#include "base/crc32c.hpp"
#include "os/file.hpp"
#include "wal/log_reader.hpp"

namespace ls {

namespace {

constexpr u64 kMagic = 0x45544f4e54494d43;  // "CMITNOTE"
constexpr u32 kVersion = 1;

std::string point_path(const char *data_dir) { return std::string(data_dir) + "/host_sync_point"; }

u32 point_crc(HostSyncPoint note) {
  note.crc = 0;
  return crc32c(0, &note, sizeof note);
}

HostSyncPoint sealed(HostSyncPoint note) {
  note.magic = kMagic;
  note.version = kVersion;
  note.crc = point_crc(note);
  return note;
}

Status read_point(const char *data_dir, HostSyncPoint *note, bool *exists) {
  File file;
  const Status status = file.open(point_path(data_dir).c_str(), 0);
  *exists = code(status) != LS_NOT_FOUND;
  if (!*exists) return kOk;
  LS_TRY(status);
  size_t got = 0;
  LS_TRY(file.read_at(0, note, sizeof *note, &got));
  if (got != sizeof *note || note->magic != kMagic || note->version != kVersion ||
      note->crc != point_crc(*note))
    return fail_page(file.path(), UINT32_MAX, "the note of the last commits is damaged");
  return kOk;
}

}  // namespace

Status host_sync_point_replace(const char *data_dir, HostSyncPoint note) {
  note = sealed(note);
  return file_write_atomically(point_path(data_dir).c_str(),
                               {reinterpret_cast<const u8 *>(&note), sizeof note});
}

Status host_sync_point_update(const char *data_dir, HostSyncPoint note) {
  note = sealed(note);
  File file;
  LS_TRY(file.open(point_path(data_dir).c_str(), 0));
  return file.write_at(0, &note, sizeof note);
}

Status host_sync_point_remove(const char *data_dir) {
  return file_unlink(point_path(data_dir).c_str());
}

Status host_sync_point_sync(const char *data_dir) {
  File file;
  LS_TRY(file.open(point_path(data_dir).c_str(), 0));
  return file.sync_data();
}

Status commits_behind_note(const char *data_dir, u64 segment_bytes, CommitsBehind *out) {
  *out = {};
  HostSyncPoint note{};
  bool exists;
  LS_TRY(read_point(data_dir, &note, &exists));
  if (!exists) return kOk;
  LogReader log((std::string(data_dir) + "/wal").c_str(), segment_bytes, note.position, note.run);
  for (;; log.pop(), log.forget()) {
    const LogEntry *entry;
    LS_TRY(log.peek(&entry));
    if (!entry) break;
    if (entry->run != note.run) continue;  // of a recovery that did not come to its end (SYNC-3)
    const LogRecord record = entry->record();
    const bool commit = record.kind == RecordKind::kCommit;
    if ((!commit && record.kind != RecordKind::kFirstRow) || record.tn() <= note.tn_offset)
      continue;
    const u64 full_xid = record.tn() - note.tn_offset;
    out->highest_full_xid = std::max(out->highest_full_xid, full_xid);
    if (!commit) continue;
    out->commits.push_back({full_xid, out->notes.size(), static_cast<u32>(record.body.size())});
    out->notes.insert(out->notes.end(), record.body.begin(), record.body.end());
  }
  std::sort(out->commits.begin(), out->commits.end(),
            [](const auto &a, const auto &b) { return a.full_xid < b.full_xid; });
  return log.make_durable();
}

}  // namespace ls
