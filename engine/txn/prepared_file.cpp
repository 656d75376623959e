#include "txn/prepared_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/crc32c.hpp"

namespace ls {

namespace {

constexpr size_t kBufferBytes = 1 << 20;

template <typename T>
Bytes bytes_of(const T &value) {
  return Bytes(reinterpret_cast<const u8 *>(&value), sizeof value);
}

std::string name_of(u64 full_xid) {
  char name[20];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(full_xid));
  return name;
}

std::string path_of(const char *directory, u64 full_xid) { return std::string(directory) + "/" + name_of(full_xid); }

// Takes the items apart, trusting no length.
class Parser {
 public:
  Parser(const std::string &path, PreparedFile *out) : path_(path), out_(*out), rest_(out->bytes) {}

  Status run(u64 full_xid) {
    PreparedFileHead head;
    if (!take(&head) || head.magic != kPreparedMagic || head.full_xid != full_xid) return damaged();
    if (head.version != kPreparedVersion)
      return fail_page(path_.c_str(), UINT32_MAX, "file of a prepared transaction has version %u, this engine reads version %u",
                       head.version, kPreparedVersion);
    out_.full_xid = full_xid;
    for (;;) {
      const u32 crc = crc32c(0, out_.bytes.data(), out_.bytes.size() - rest_.size());
      ItemHead item;
      if (!take(&item) || rest_.size() < item.bytes) return damaged();
      item_ = rest_.first(item.bytes);
      rest_ = rest_.subspan(item.bytes);
      if (item.kind == PreparedItem::kEnd) {
        u32 expected;
        return take_item(&expected) && expected == crc && rest_.empty() && !out_.tns.empty() ? kOk : damaged();
      }
      if (!parse(item.kind)) return damaged();
    }
  }

 private:
  Status damaged() const {
    return fail_page(path_.c_str(), UINT32_MAX,
                     "file of a prepared transaction is damaged; restore it from a backup of the whole cluster");
  }

  template <typename T>
  static bool take_from(Bytes &from, T *out) {
    if (from.size() < sizeof *out) return false;
    std::memcpy(out, from.data(), sizeof *out);
    from = from.subspan(sizeof *out);
    return true;
  }
  template <typename T>
  bool take(T *out) { return take_from(rest_, out); }
  template <typename T>
  bool take_item(T *out) { return take_from(item_, out); }

  bool parse(PreparedItem kind) {
    switch (kind) {
      case PreparedItem::kTn: {
        Tn tn;
        if (!take_item(&tn)) return false;
        out_.tns.push_back(tn);
        return true;
      }
      case PreparedItem::kFile: {
        PreparedFile::Relation relation;
        if (!take_item(&relation.record) || item_.size() != relation.record.path_bytes) return false;
        relation.path.assign(reinterpret_cast<const char *>(item_.data()), item_.size());
        out_.relations.push_back(std::move(relation));
        return true;
      }
      case PreparedItem::kChange: {
        PreparedFile::Change change;
        if (!take_item(&change.head) || item_.size() != change.head.payload_bytes) return false;
        if (change.head.op < VersionOp::kInsert || change.head.op > VersionOp::kDelete) return false;
        change.payload = item_;
        out_.changes.push_back(change);
        return true;
      }
      case PreparedItem::kLock: {
        PreparedLock lock;
        if (!take_item(&lock) || lock.mode > LS_LOCK_UPDATE) return false;
        out_.locks.push_back(lock);
        return true;
      }
      case PreparedItem::kEnd:
        break;
    }
    return false;
  }

  const std::string &path_;
  PreparedFile &out_;
  Bytes rest_, item_;
};

}  // namespace

// Given up: what was written takes no space any more, if that can be had.
PreparedFileWriter::~PreparedFileWriter() {
  if (!file_.is_open()) return;
  const ls_error cause = last_error();
  [[maybe_unused]] const Status ignored = file_unlink((path_ + ".new").c_str());
  set_last_error(cause);
}

Status PreparedFileWriter::open(const char *directory, u64 full_xid) {
  directory_ = directory;
  path_ = path_of(directory, full_xid);
  LS_TRY(file_.open((path_ + ".new").c_str(), O_CREAT | O_TRUNC));
  return put(bytes_of(PreparedFileHead{kPreparedMagic, kPreparedVersion, 0, full_xid}));
}

Status PreparedFileWriter::tn(Tn tn) { return item(PreparedItem::kTn, bytes_of(tn)); }

Status PreparedFileWriter::file(const FileRecord &record, const char *path) {
  return item(PreparedItem::kFile, bytes_of(record), Bytes(reinterpret_cast<const u8 *>(path), record.path_bytes));
}

Status PreparedFileWriter::change(const PreparedChange &change, Bytes payload) {
  return item(PreparedItem::kChange, bytes_of(change), payload);
}

Status PreparedFileWriter::lock(const PreparedLock &lock) { return item(PreparedItem::kLock, bytes_of(lock)); }

Status PreparedFileWriter::finish() {
  const u32 crc = crc_;
  LS_TRY(item(PreparedItem::kEnd, bytes_of(crc)));
  LS_TRY(drain());
  LS_TRY(file_.sync_data());
  file_.close();
  LS_TRY(file_rename((path_ + ".new").c_str(), path_.c_str()));
  return directory_sync(directory_.c_str());
}

Status PreparedFileWriter::item(PreparedItem kind, Bytes head, Bytes rest) {
  LS_TRY(put(bytes_of(ItemHead{kind, static_cast<u32>(head.size() + rest.size())})));
  LS_TRY(put(head));
  return put(rest);
}

Status PreparedFileWriter::put(Bytes bytes) {
  if (bytes.empty()) return kOk;
  if (buffer_.size() + bytes.size() > kBufferBytes) LS_TRY(drain());
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  crc_ = crc32c(crc_, bytes.data(), bytes.size());
  return kOk;
}

Status PreparedFileWriter::drain() {
  LS_TRY(file_.write_at(written_, buffer_.data(), buffer_.size()));
  written_ += buffer_.size();
  buffer_.clear();
  return kOk;
}

bool PreparedFile::is_own(Tn tn) const { return std::find(tns.begin(), tns.end(), tn) != tns.end(); }

Status prepared_file_read(const char *directory, u64 full_xid, PreparedFile *out) {
  const std::string path = path_of(directory, full_xid);
  File file;
  if (Status s = file.open(path.c_str(), 0); !ok(s)) {
    if (code(s) != LS_NOT_FOUND && last_error().sys_errno != ENOENT) return s;
    return fail(LS_NOT_FOUND, "prepared transaction %llu has no file", static_cast<unsigned long long>(full_xid));
  }
  u64 size = 0;
  LS_TRY(file.size(&size));
  out->bytes.resize(size);
  size_t got = 0;
  LS_TRY(file.read_at(0, out->bytes.data(), size, &got));
  out->bytes.resize(got);
  return Parser(path, out).run(full_xid);
}

Status prepared_file_remove(const char *directory, u64 full_xid) { return file_unlink(path_of(directory, full_xid).c_str()); }

Status prepared_files_clean(const char *directory, const std::vector<u64> &keep) {
  std::vector<std::string> names;
  LS_TRY(directory_list(directory, [](void *arg, const char *name) {
    static_cast<std::vector<std::string> *>(arg)->emplace_back(name);
    return true;
  }, &names));
  for (const std::string &name : names) {
    const bool needed = std::any_of(keep.begin(), keep.end(), [&](u64 xid) { return name_of(xid) == name; });
    if (!needed) LS_TRY(file_unlink((std::string(directory) + "/" + name).c_str()));
  }
  return kOk;
}

}  // namespace ls
