// undo_file.cpp - pieces appended, synced, read backwards with every check.
#include "txn/undo_file.hpp"

#include <fcntl.h>

#include <cstdio>
#include <cstring>

#include "base/check.hpp"
#include "base/crc32c.hpp"
#include "os/file.hpp"
#include "wal/log_bytes.hpp"

namespace ls {

namespace {

u32 piece_crc(UndoPieceHead head, Bytes items) {
  head.crc = 0;
  return crc32c(crc32c(0, &head, sizeof head), items.data(), items.size());
}

// Of one that is appended behind `end`.
UndoPieceHead piece_head(u64 owner, const UndoEnd &end, Bytes items) {
  UndoPieceHead head{kUndoMagic, kUndoVersion, 0,       static_cast<u32>(items.size()),
                     owner,      end.bytes,    end.last};
  head.crc = piece_crc(head, items);
  return head;
}

}  // namespace

std::string undo_file_name(u64 owner) {
  char name[20];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(owner));
  return name;
}

void UndoItems::add(u8 kind, Bytes head, Bytes rest) {
  u8 size[kMaxVarintBytes];
  const u32 n = put_varint(size, head.size() + rest.size());
  bytes_.insert(bytes_.end(), size, size + n);
  bytes_.push_back(kind);
  bytes_.insert(bytes_.end(), head.begin(), head.end());
  bytes_.insert(bytes_.end(), rest.begin(), rest.end());
}

bool undo_take(Bytes *items, UndoItem *item) {
  LogUnpacker in(*items);
  const u64 bytes = in.number();
  item->kind = in.byte();
  item->bytes = in.take(bytes);
  *items = in.rest();
  return in.good();
}

UndoFile::UndoFile(std::string path, u64 owner, UndoEnd end)
    : path_(std::move(path)), owner_(owner), end_(end) {}

std::vector<u8> UndoFile::image(u64 owner, Bytes items) {
  const UndoPieceHead head = piece_head(owner, {}, items);
  std::vector<u8> bytes(sizeof head + items.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, items.data(), items.size());
  return bytes;
}

Status UndoFile::append(Bytes items) {
  LS_CHECK(items.size() <= kMaxUndoPieceBytes, "a piece of an undo file is too large");
  File file;
  LS_TRY(file.open(path_.c_str(), O_CREAT | (end_.bytes == 0 ? O_TRUNC : 0)));
  const UndoPieceHead head = piece_head(owner_, end_, items);
  LS_TRY(file.write_at(end_.bytes, &head, sizeof head));
  LS_TRY(file.write_at(end_.bytes + sizeof head, items.data(), items.size()));
  appended_ = true;
  end_ = {end_.bytes + sizeof head + items.size(), end_.bytes};
  return kOk;
}

Status UndoFile::sync() {
  if (!appended_) return kOk;
  File file;
  LS_TRY(file.open(path_.c_str(), 0));
  return file.sync_data();
}

Status UndoFile::damaged() const {
  return fail_page(path_.c_str(), UINT32_MAX,
                   "file with the undo of a transaction is damaged; "
                   "restore it from a backup of the whole cluster");
}

Status UndoFile::read(u64 at, std::vector<u8> *items, u64 *previous, u64 *next) const {
  File file;
  LS_TRY(file.open(path_.c_str(), 0));
  UndoPieceHead head;
  size_t got = 0;
  LS_TRY(file.read_at(at, &head, sizeof head, &got));
  if (got != sizeof head || head.magic != kUndoMagic) return damaged();
  if (head.version != kUndoVersion)
    return fail_page(
        path_.c_str(), UINT32_MAX,
        "file with the undo of a transaction has version %u, this engine reads version %u",
        head.version, kUndoVersion);
  const u64 end = at + sizeof head + head.bytes;
  if (head.owner != owner_ || head.at != at || head.previous > at ||
      (at > 0 && head.previous == at) || head.bytes > kMaxUndoPieceBytes || end > end_.bytes)
    return damaged();
  items->resize(head.bytes);
  LS_TRY(file.read_at(at + sizeof head, items->data(), head.bytes, &got));
  if (got != head.bytes || head.crc != piece_crc(head, *items)) return damaged();
  *previous = head.previous;
  if (next) *next = end;
  return kOk;
}

}  // namespace ls
