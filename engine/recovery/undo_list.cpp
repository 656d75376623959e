// undo_list.cpp - the list's bytes, written and read with every check; removal of files that it
// does not name.
#include "recovery/undo_list.hpp"

#include <cerrno>
#include <cstring>

#include "base/crc32c.hpp"
#include "os/file.hpp"
#include "wal/log_bytes.hpp"

namespace ls {

namespace {

struct UndoListHead {
  u32 magic;
  u32 version;
  u32 crc;    // of all behind this field
  u32 zero;
  u64 gsn;
};
static_assert(sizeof(UndoListHead) == 24);
constexpr u32 kUndoListMagic = 0x54534c55;  // "ULST"
constexpr size_t kCrcFrom = offsetof(UndoListHead, zero);

std::string path_of(const char *directory, Gsn gsn) {
  return std::string(directory) + "/" + undo_list_name(gsn);
}

u32 list_crc(Bytes bytes) { return crc32c(0, bytes.data() + kCrcFrom, bytes.size() - kCrcFrom); }

void put(std::vector<u8> *out, Bytes bytes) { out->insert(out->end(), bytes.begin(), bytes.end()); }

Bytes bytes_of(const FileRecord &record) {
  return {reinterpret_cast<const u8 *>(&record), sizeof record};
}

bool take_transaction(LogUnpacker &in, UndoList *out) {
  LongTransaction t;
  t.txn.tn = in.number(kMaxTn);
  t.txn.fate = static_cast<TxnFate>(in.byte());
  t.txn.full_xid = in.number();
  t.txn.in_files_to = out->gsn;
  t.place.first = static_cast<u32>(in.number(~u32{0}));
  t.place.second = static_cast<u32>(in.number(~u32{0}));
  t.first_gsn = in.number();
  t.undo.bytes = in.number();
  t.undo.last = in.number();
  for (u64 n = in.number(); n > 0 && in.good(); n--)
    t.files.insert(static_cast<FileNo>(in.number(~FileNo{0})));
  if (!in.good() || t.txn.tn == 0 || t.txn.fate > TxnFate::kTwoPhase || t.undo.last > t.undo.bytes)
    return false;
  return out->txns.emplace(t.txn.tn, std::move(t)).second;
}

bool take_file(LogUnpacker &in, UndoList *out) {
  LoggedFile file;
  const Bytes record = in.take(sizeof file.record);
  if (!in.good()) return false;
  std::memcpy(&file.record, record.data(), sizeof file.record);
  const Bytes path = in.take(file.record.path_bytes);
  file.path.assign(path.begin(), path.end());
  return in.good() && out->files.emplace(file.record.file, std::move(file)).second;
}

bool parse(Bytes bytes, UndoList *out) {
  LogUnpacker in(bytes.subspan(sizeof(UndoListHead)));
  for (u64 n = in.number(); n > 0; n--) {
    if (!take_transaction(in, out)) return false;
  }
  for (u64 n = in.number(); n > 0; n--) {
    if (!take_file(in, out)) return false;
  }
  return in.done();
}

}  // namespace

void analyse_list(const UndoList &list, LogAnalysis *out) {
  for (const auto &[tn, t] : list.txns) {
    out->txns[tn] = t.txn;
    out->listed[t.place] = {tn, t.first_gsn};
    if (t.txn.fate == TxnFate::kTwoPhase) out->two_phase[t.txn.full_xid] = tn;
  }
  for (const auto &[file_no, file] : list.files) out->files[file_no] = file;
}

std::string undo_list_name(Gsn gsn) { return "list." + undo_file_name(gsn); }

Status undo_list_read(const char *directory, Gsn gsn, UndoList *out) {
  const std::string path = path_of(directory, gsn);
  File file;
  if (Status s = file.open(path.c_str(), 0); !ok(s)) {
    if (code(s) != LS_NOT_FOUND && last_error().sys_errno != ENOENT) return s;
    return fail_page(
        path.c_str(), UINT32_MAX,
        "the list of long transactions is missing; restore it from a backup of the whole cluster");
  }
  u64 size = 0;
  size_t got = 0;
  LS_TRY(file.size(&size));
  std::vector<u8> bytes(size);
  LS_TRY(file.read_at(0, bytes.data(), size, &got));
  UndoListHead head{};
  if (got == size && size >= sizeof head) std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic == kUndoListMagic && head.version != kUndoVersion)
    return fail_page(path.c_str(), UINT32_MAX,
                     "the list of long transactions has version %u, this engine reads version %u",
                     head.version, kUndoVersion);
  out->gsn = gsn;
  if (head.magic != kUndoListMagic || head.gsn != gsn || head.crc != list_crc(bytes) ||
      !parse(bytes, out))
    return fail_page(
        path.c_str(), UINT32_MAX,
        "the list of long transactions is damaged; restore it from a backup of the whole cluster");
  return kOk;
}

Status undo_list_write(const char *directory, const UndoList &list) {
  std::vector<u8> bytes(sizeof(UndoListHead));
  put(&bytes, LogPacker().number(list.txns.size()));
  for (const auto &[tn, t] : list.txns) {
    LogPacker p;
    p.number(tn)
        .byte(static_cast<u8>(t.txn.fate))
        .number(t.txn.full_xid)
        .number(t.place.first)
        .number(t.place.second);
    p.number(t.first_gsn).number(t.undo.bytes).number(t.undo.last).number(t.files.size());
    put(&bytes, p);
    for (const FileNo file : t.files) put(&bytes, LogPacker().number(file));
  }
  put(&bytes, LogPacker().number(list.files.size()));
  for (const auto &[file_no, file] : list.files) {
    put(&bytes, bytes_of(file.record));
    put(&bytes, Bytes(reinterpret_cast<const u8 *>(file.path.data()), file.path.size()));
  }
  UndoListHead head{kUndoListMagic, kUndoVersion, 0, 0, list.gsn};
  std::memcpy(bytes.data(), &head, sizeof head);
  head.crc = list_crc(bytes);
  std::memcpy(bytes.data(), &head, sizeof head);
  return file_write_atomically(path_of(directory, list.gsn).c_str(), bytes);
}

Status undo_files_clean(const char *directory, const UndoList &list) {
  std::vector<std::string> names;
  LS_TRY(directory_names(directory, &names));
  std::set<std::string> needed;
  if (!list.empty()) needed.insert(undo_list_name(list.gsn));
  for (const auto &[tn, t] : list.txns) needed.insert(undo_file_name(tn));
  for (const std::string &name : names) {
    if (!needed.contains(name)) LS_TRY(file_unlink((std::string(directory) + "/" + name).c_str()));
  }
  return kOk;
}

Status analyse_listed(const char *directory, Gsn gsn, LogAnalysis *out) {
  if (gsn == 0) return kOk;
  UndoList list;
  LS_TRY(undo_list_read(directory, gsn, &list));
  analyse_list(list, out);
  return kOk;
}

}  // namespace ls
