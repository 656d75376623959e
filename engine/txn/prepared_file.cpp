// prepared_file.cpp - the file's items: packed by the writer, checked by the reader.
#include "txn/prepared_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "os/file.hpp"
#include "wal/host_post.hpp"

namespace ls {

namespace {

constexpr size_t kPieceBytes = 1 << 20;
constexpr size_t kEndBytes = 2;   // of the last item
constexpr u32 kLogPieceBytes = 8 << 10;

template <typename T>
bool take_from(Bytes *from, T *out) {
  if (from->size() < sizeof *out) return false;
  std::memcpy(out, from->data(), sizeof *out);
  *from = from->subspan(sizeof *out);
  return true;
}

std::string path_of(const char *directory, u64 full_xid) {
  return std::string(directory) + "/" + undo_file_name(full_xid);
}

PreparedItem kind_of(const UndoItem &item) { return static_cast<PreparedItem>(item.kind); }

Status post_piece(Log &log, const ls_prepared_bytes &piece, const volatile int *interrupt) {
  const auto insert = [&](const ls_host_log &host) { host.insert_prepared(&piece); };
  return post_to_host(log, std::ref(insert), interrupt);
}

void log_piece(LogAppender &log, Tn tn, u64 full_xid, u64 place, Bytes piece) {
  log.start(RecordKind::kTwoPhaseUndo);
  log.number(tn);
  log.number(full_xid);
  log.number(place);
  log.raw(piece);
  log.finish();
}

}  // namespace

PreparedFileWriter::PreparedFileWriter(const char *directory, u64 full_xid)
    : directory_(directory),
      path_(path_of(directory, full_xid)),
      full_xid_(full_xid),
      file_(path_ + ".new", full_xid) {}

// Given up: what was written takes no space any more, if that can be had.
PreparedFileWriter::~PreparedFileWriter() {
  if (finished_) return;
  const ls_error cause = last_error();
  [[maybe_unused]] const Status ignored =
      with_memory([&] { return file_unlink(file_.path().c_str()); });
  set_last_error(cause);
}

Status PreparedFileWriter::tn(Tn tn) { return item(PreparedItem::kTn, bytes_of(tn)); }

Status PreparedFileWriter::file(const FileRecord &record, const char *path) {
  return item(PreparedItem::kFile, bytes_of(record),
              Bytes(reinterpret_cast<const u8 *>(path), record.path_bytes));
}

Status PreparedFileWriter::change(const PreparedChange &change, Bytes payload) {
  LS_ASSERT(change.op != VersionOp::kLock && change.payload_bytes == payload.size());
  return item(PreparedItem::kChange, bytes_of(change), payload);
}

Status PreparedFileWriter::lock(const PreparedLock &lock) {
  return item(PreparedItem::kLock, bytes_of(lock));
}

Status PreparedFileWriter::ending(const ls_ending_file &file) {
  const ls_rel_key &key = file.key;
  const PreparedEnding ending{key.tablespace, key.database,   key.relation,
                              key.owner,      file.at_commit, 0};
  return item(PreparedItem::kEnding, bytes_of(ending));
}

Status PreparedFileWriter::copy(const UndoItem &item) {
  LS_ASSERT(kind_of(item) != PreparedItem::kEnd);
  return this->item(kind_of(item), item.bytes);
}

Status PreparedFileWriter::finish() {
  LS_TRY(item(PreparedItem::kEnd, {}));
  LS_TRY(drain());
  LS_TRY(file_.sync());
  LS_TRY(file_rename(file_.path().c_str(), path_.c_str()));
  finished_ = true;
  return directory_sync(directory_.c_str());
}

Status PreparedFileWriter::finish(std::vector<u8> *image) {
  image->clear();
  const size_t bytes = sizeof(UndoPieceHead) + items_.bytes().size() + kEndBytes;
  if (file_.end().bytes > 0 || bytes > kMostLoggedUndo) return finish();
  LS_TRY(item(PreparedItem::kEnd, {}));
  *image = UndoFile::image(full_xid_, items_.bytes());
  LS_ASSERT(image->size() <= kMostLoggedUndo);   // PFILE-2
  finished_ = true;
  return kOk;
}

Status PreparedFileWriter::item(PreparedItem kind, Bytes head, Bytes rest) {
  LS_ASSERT(!finished_);
  items_.add(static_cast<u8>(kind), head, rest);
  return items_.bytes().size() >= kPieceBytes ? drain() : kOk;
}

Status PreparedFileWriter::drain() {
  if (items_.bytes().empty()) return kOk;
  LS_TRY(file_.append(items_.bytes()));
  items_.clear();
  return kOk;
}

Status prepared_image_log(LogAppender &log, Tn tn, u64 full_xid, Bytes image,
                          const volatile int *interrupt) {
  if (log.log().has_host_log()) {
    return post_piece(log.log(), {full_xid, 0, image.data(), image.size(), true}, interrupt);
  }
  for (size_t at = 0; at < image.size();) {
    const size_t n = std::min<size_t>(kLogPieceBytes, image.size() - at);
    const u64 place = 2 * at + (at + n == image.size() ? 1 : 0);
    LS_TRY(log.reserve(kMaxRecordHeadBytes + 3 * kMaxVarintBytes + kLogPieceBytes, interrupt));
    log_piece(log, tn, full_xid, place, image.subspan(at, n));
    at += n;
  }
  return kOk;
}

Status prepared_image_write(const char *directory, u64 full_xid, Bytes image) {
  return file_write_atomically(path_of(directory, full_xid).c_str(), image);
}

Status prepared_file_post(Log &log, const char *directory, u64 full_xid,
                          const volatile int *interrupt) {
  if (!log.has_host_log()) return kOk;
  File file;
  LS_TRY(file.open(path_of(directory, full_xid).c_str(), 0));
  u64 size = 0;
  LS_TRY(file.size(&size));
  std::vector<u8> piece(std::min<u64>(size, kPieceBytes));
  for (u64 at = 0; at < size; at += piece.size()) {
    size_t got = 0;
    LS_TRY(file.read_at(at, piece.data(), std::min<u64>(piece.size(), size - at), &got));
    LS_TRY(post_piece(log, {full_xid, at, piece.data(), got, at + got == size}, interrupt));
  }
  return kOk;
}

Status prepared_file_replay(const char *directory, u64 full_xid, u64 at, Bytes bytes, bool last) {
  const std::string path = path_of(directory, full_xid), beside = path + ".replay";
  File file;
  const Status opened = file.open(beside.c_str(), at == 0 ? O_CREAT | O_TRUNC : 0);
  const bool absent = code(opened) == LS_NOT_FOUND || last_error().sys_errno == ENOENT;
  if (at != 0 && !ok(opened) && absent) return kOk;
  LS_TRY(opened);
  LS_TRY(file.write_at(at, bytes.data(), bytes.size()));
  LS_TRY(file.sync_data());
  if (!last) return kOk;
  LS_TRY(file_rename(beside.c_str(), path.c_str()));
  return directory_sync(directory);
}

bool PreparedFile::is_own(Tn tn) const {
  return std::find(tns.begin(), tns.end(), tn) != tns.end();
}

Status PreparedFile::read(const char *directory, u64 full_xid_) {
  full_xid = full_xid_;
  const std::string path = path_of(directory, full_xid);
  u64 size = 0;
  {
    File file;
    if (Status s = file.open(path.c_str(), 0); !ok(s)) {
      if (code(s) != LS_NOT_FOUND && last_error().sys_errno != ENOENT) return s;
      return fail(LS_NOT_FOUND, "prepared transaction %llu has no file",
                  static_cast<unsigned long long>(full_xid));
    }
    LS_TRY(file.size(&size));
  }
  file_.emplace(path, full_xid, UndoEnd{size, 0});
  bool ended = false;
  LS_TRY(file_->forward([&](const UndoItem &item) { return take(item, &ended); }));
  return ended && !tns.empty() ? kOk : file_->damaged();
}

// The first time: everything is looked at.
Status PreparedFile::take(const UndoItem &item, bool *ended) {
  Bytes bytes = item.bytes;
  if (*ended) return file_->damaged();
  switch (kind_of(item)) {
    case PreparedItem::kTn: {
      Tn tn;
      if (!take_from(&bytes, &tn)) return file_->damaged();
      tns.push_back(tn);
      return kOk;
    }
    case PreparedItem::kFile: {
      Relation relation;
      if (!take_from(&bytes, &relation.record) || bytes.size() != relation.record.path_bytes)
        return file_->damaged();
      relation.path.assign(reinterpret_cast<const char *>(bytes.data()), bytes.size());
      relations.push_back(std::move(relation));
      return kOk;
    }
    case PreparedItem::kChange: {
      Change change;
      return take_change(item, &change);
    }
    case PreparedItem::kLock: {
      PreparedLock lock;
      return take_lock(item, &lock);
    }
    case PreparedItem::kEnding: {
      PreparedEnding file;
      if (!take_from(&bytes, &file) || file.at_commit > 1) return file_->damaged();
      ending.push_back({{file.tablespace, file.database, file.relation, file.owner},
                        file.at_commit != 0});
      return kOk;
    }
    case PreparedItem::kEnd:
      *ended = true;
      return kOk;
  }
  return file_->damaged();
}

Status PreparedFile::take_change(const UndoItem &item, Change *out) const {
  out->payload = item.bytes;
  const bool good = take_from(&out->payload, &out->head) &&
                    out->payload.size() == out->head.payload_bytes &&
                    out->head.op >= VersionOp::kInsert && out->head.op <= VersionOp::kDelete;
  return good ? kOk : file_->damaged();
}

Status PreparedFile::take_lock(const UndoItem &item, PreparedLock *out) const {
  Bytes bytes = item.bytes;
  return take_from(&bytes, out) && out->mode <= LS_LOCK_UPDATE ? kOk : file_->damaged();
}

Status PreparedFile::changes(const std::function<Status(const Change &)> &each) {
  LS_ASSERT(file_.has_value());
  return file_->forward([&](const UndoItem &item) -> Status {
    if (kind_of(item) != PreparedItem::kChange) return kOk;
    Change change;
    LS_TRY(take_change(item, &change));
    return each(change);
  });
}

Status PreparedFile::changes_backward(const std::function<Status(const Change &)> &each) {
  LS_ASSERT(file_.has_value());
  return file_->backward([&](const UndoItem &item) -> Status {
    if (kind_of(item) != PreparedItem::kChange) return kOk;
    Change change;
    LS_TRY(take_change(item, &change));
    return each(change);
  });
}

Status PreparedFile::locks(const std::function<Status(const PreparedLock &)> &each) {
  LS_ASSERT(file_.has_value());
  return file_->forward([&](const UndoItem &item) -> Status {
    if (kind_of(item) != PreparedItem::kLock) return kOk;
    PreparedLock lock;
    LS_TRY(take_lock(item, &lock));
    return each(lock);
  });
}

Status prepared_file_remove(const char *directory, u64 full_xid) {
  return file_unlink(path_of(directory, full_xid).c_str());
}

Status prepared_files_clean(const char *directory, const std::vector<u64> &keep) {
  std::vector<std::string> names;
  LS_TRY(directory_names(directory, &names));
  for (const std::string &name : names) {
    const bool needed =
        std::any_of(keep.begin(), keep.end(), [&](u64 xid) { return undo_file_name(xid) == name; });
    if (!needed) LS_TRY(file_unlink((std::string(directory) + "/" + name).c_str()));
  }
  return kOk;
}

}  // namespace ls
