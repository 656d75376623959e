// restore_state.cpp - the state as bytes, and back into files.
#include "recovery/restore_state.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/crc32c.hpp"
#include "os/file.hpp"
#include "recovery/undo_list.hpp"
#include "wal/log_flushes.hpp"
#include "wal/log_segments.hpp"

namespace ls {

namespace {

constexpr u64 kMagic = 0x4554415453534c4c;  // "LLSSTATE"
constexpr u32 kVersion = 1;
constexpr const char *kErasName = "/tn_eras";

struct StateHead {
  u64 magic;
  u32 version;
  u32 crc;   // crc32c of all, with this field zero
  ControlFile control;
  Lsn log_end;
  u32 list_bytes, eras_bytes, log_bytes;   // behind each other
  u32 zero;
};
static_assert(sizeof(StateHead) == 184);

u32 crc_of(StateHead head, LogBytes behind) {
  head.crc = 0;
  return crc32c(crc32c(0, &head, sizeof head), behind.data(), behind.size());
}

std::string list_path(const std::string &data_dir, Gsn gsn) {
  return data_dir + "/undo/" + undo_list_name(gsn);
}

Status read_whole(const std::string &path, std::vector<u8> *bytes) {
  File file;
  LS_TRY(file.open(path.c_str(), 0));
  u64 size = 0;
  size_t got = 0;
  LS_TRY(file.size(&size));
  bytes->resize(size);
  LS_TRY(file.read_at(0, bytes->data(), size, &got));
  if (got == size) return kOk;
  return fail_page(path.c_str(), UINT32_MAX, "the file became shorter while it was read");
}

Status read_log(const std::string &data_dir, u64 segment_bytes, Lsn from, Lsn to,
                std::vector<u8> *bytes) {
  if (from >= to) return kOk;
  LogStream stream((data_dir + "/wal").c_str(), segment_bytes);
  bytes->resize(to - from);
  bool whole = false;
  LS_TRY(stream.read(from, bytes->data(), bytes->size(), &whole));
  if (whole) return kOk;
  return fail(LS_CORRUPT, "the log ends before position %llu", static_cast<unsigned long long>(to));
}

Status remove_all(const std::string &directory, const char *prefix) {
  std::vector<std::string> names;
  const Status status = directory_names(directory.c_str(), &names);
  if (!ok(status) && last_error().sys_errno == ENOENT) return kOk;
  LS_TRY(status);
  for (const std::string &name : names) {
    if (name.starts_with(prefix)) LS_TRY(file_unlink((directory + "/" + name).c_str()));
  }
  return directory_sync(directory.c_str());
}

}  // namespace

Status restore_state_pack(const char *data_dir, const ControlFile &control, Lsn log_end,
                          std::vector<u8> *state) {
  std::vector<u8> list, eras, log;
  if (control.undo_gsn != 0) LS_TRY(read_whole(list_path(data_dir, control.undo_gsn), &list));
  LS_TRY(read_whole(std::string(data_dir) + kErasName, &eras));
  LS_TRY(read_log(data_dir, control.segment_bytes, control.redo_lsn, log_end, &log));
  StateHead head{kMagic, kVersion, 0, control, log_end, static_cast<u32>(list.size()),
                 static_cast<u32>(eras.size()), static_cast<u32>(log.size()), 0};
  state->assign(sizeof head, 0);
  for (const std::vector<u8> *part : {&list, &eras, &log})
    state->insert(state->end(), part->begin(), part->end());
  head.crc = crc_of(head, LogBytes(*state).subspan(sizeof head));
  std::memcpy(state->data(), &head, sizeof head);
  return kOk;
}

Status restore_state_unpack(LogBytes state, RestoreState *out) {
  StateHead head{};
  if (state.size() >= sizeof head) std::memcpy(&head, state.data(), sizeof head);
  if (head.magic == kMagic && head.version != kVersion)
    return fail(LS_CORRUPT, "the state to restore has version %u, this engine reads version %u",
                head.version, kVersion);
  LogBytes left = state.subspan(std::min(state.size(), sizeof head));
  const u64 expected = u64{head.list_bytes} + head.eras_bytes + head.log_bytes;
  const u64 log_bytes =
      head.control.redo_lsn < head.log_end ? head.log_end - head.control.redo_lsn : 0;
  if (head.magic != kMagic || left.size() != expected || head.log_bytes != log_bytes ||
      head.crc != crc_of(head, left) || (head.list_bytes != 0) != (head.control.undo_gsn != 0))
    return fail(LS_CORRUPT, "the state to restore is damaged");
  out->control = head.control;
  out->log_end = head.log_end;
  const auto take = [&left](u32 bytes, std::vector<u8> *part) {
    part->assign(left.begin(), left.begin() + bytes);
    left = left.subspan(bytes);
  };
  take(head.list_bytes, &out->list);
  take(head.eras_bytes, &out->eras);
  take(head.log_bytes, &out->log);
  return kOk;
}

Status restore_forget(const char *data_dir) {
  const std::string directory = data_dir;
  for (const char *name : {"/control", "/doublewrite", "/host_sync_point", kErasName})
    LS_TRY(file_unlink((directory + name).c_str()));
  LS_TRY(remove_all(directory + "/wal", ""));
  LS_TRY(remove_all(directory + "/undo", "list."));
  return directory_sync(data_dir);
}

Status restore_state_write(const char *data_dir, const RestoreState &state) {
  const std::string directory = data_dir;
  if (!state.list.empty())
    LS_TRY(file_write_atomically(list_path(directory, state.control.undo_gsn).c_str(), state.list));
  LS_TRY(file_write_atomically((directory + kErasName).c_str(), state.eras));
  return control_write(data_dir, state.control);
}

}  // namespace ls
