// undo_fuzz.cpp - files of undo with right checksums: that of a long transaction, that of a
// prepared one, and the list of long ones.
//
//   input   which file, 1 | that file, of which checksum, owner and places are made right
#include "base/crc32c.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/records.hpp"
#include "recovery/undo_list.hpp"
#include "txn/prepared_file.hpp"
#include "txn/row_undo.hpp"

namespace ls::fuzz {

namespace {

constexpr u64 kOwner = 77;
constexpr Gsn kListGsn = 500;
enum File : u8 { kUndo, kPrepared, kList };

std::string path_of(const std::string &name) { return directory() + "/" + name; }
std::string owner_path() { return path_of(undo_file_name(kOwner)); }

// What its writer would have stored: else nothing behind is read.
void seal_pieces(Buffer *file) {
  u64 before = 0;
  for (size_t at = 0; at + sizeof(UndoPieceHead) <= file->size();) {
    UndoPieceHead head;
    std::memcpy(&head, file->data() + at, sizeof head);
    const size_t left = file->size() - at - sizeof head;
    head.magic = kUndoMagic;
    head.version = kUndoVersion;
    head.owner = kOwner;
    if (head.bytes > left) head.bytes = static_cast<u32>(left);
    head.at = at;
    // Now and then as it was.
    if (head.previous % 16 != 15) head.previous = before;
    head.crc = 0;
    const u32 crc = crc32c(0, &head, sizeof head);
    head.crc = crc32c(crc, file->data() + at + sizeof head, head.bytes);
    std::memcpy(file->data() + at, &head, sizeof head);
    before = at;
    at += sizeof head + head.bytes;
  }
}

void seal_list(Buffer *file) {
  constexpr size_t kCrc = 8, kFrom = kCrc + sizeof(u32), kGsn = 16;
  if (file->size() < kGsn + sizeof kListGsn) return;
  std::memcpy(file->data() + kGsn, &kListGsn, sizeof kListGsn);
  const u32 crc = crc32c(0, file->data() + kFrom, file->size() - kFrom);
  std::memcpy(file->data() + kCrc, &crc, sizeof crc);
}

void read_undo(u64 bytes) {
  const auto each = [](const UndoItem &item) {
    RowUndo undo;
    if (parse_row_undo(item.bytes, &undo)) (void)touch(undo.patch.fresh);
    return kOk;
  };
  UndoFile file(owner_path(), kOwner, {bytes, 0});
  const Status forward = file.forward(each);
  expect_refusal_or(forward);
  if (!ok(forward)) return;
  const Status backward = file.backward(each);
  expect_refusal_or(backward);
}

void read_prepared() {
  PreparedFile file;
  const Status status = file.read(directory().c_str(), kOwner);
  expect_refusal_or(status);
  if (!ok(status)) return;
  const auto change = [](const PreparedFile::Change &c) {
    FUZZ_CHECK(c.payload.size() == c.head.payload_bytes);
    (void)touch(c.payload);
    return kOk;
  };
  FUZZ_CHECK(ok(file.changes(change)));
  expect_refusal_or(file.changes_backward(change));
  FUZZ_CHECK(ok(file.locks([](const PreparedLock &lock) {
    FUZZ_CHECK(lock.mode <= LS_LOCK_UPDATE);
    return kOk;
  })));
}

void read_list() {
  LogAnalysis analysis;
  UndoList list;
  const Status status = undo_list_read(directory().c_str(), kListGsn, &list);
  expect_refusal_or(status);
  if (!ok(status)) return;
  analyse_list(list, &analysis);
  // What was read is written as it was: nothing is lost between reader and writer.
  FUZZ_CHECK(ok(undo_list_write(directory().c_str(), list)));
  UndoList again;
  FUZZ_CHECK(ok(undo_list_read(directory().c_str(), kListGsn, &again)));
  FUZZ_CHECK(again.txns.size() == list.txns.size() && again.files.size() == list.files.size());
}

Buffer undo_seed() {
  UndoFile file(owner_path(), kOwner);
  UndoItems items;
  for (const RowUndo &undo : {RowUndo{.code = kRowInsert, .file = 17, .row_id = 5, .count = 40},
                              RowUndo{.code = kRowDelete, .file = 17, .row_id = 6, .seq = 2},
                              RowUndo{.code = kRowUpdate, .file = 18, .row_id = 7, .seq = 3}}) {
    const std::string patch = "bytes before";
    items.add(kUndoRow, pack_row_undo(undo), undo.code == kRowUpdate ? bytes_of(patch) : Bytes{});
    FUZZ_CHECK(ok(file.append(items.bytes())));
  }
  return get_file(owner_path());
}

Buffer prepared_seed() {
  const std::string path = "base/5/16500", payload = "the row before";
  PreparedFileWriter writer(directory().c_str(), kOwner);
  FileRecord record{17, 1663, 5, 16500, -1, LS_REL_TABLE, 1, static_cast<u16>(path.size()), 0};
  PreparedChange insert{}, update{};
  insert.seq = 1;
  insert.op = VersionOp::kInsert;
  insert.count = 3;
  insert.file = update.file = 17;
  update.seq = 2;
  update.op = VersionOp::kUpdate;
  update.payload_bytes = static_cast<u32>(payload.size());
  FUZZ_CHECK(ok(writer.tn(90)) && ok(writer.file(record, path.c_str())));
  FUZZ_CHECK(ok(writer.change(insert, {})) && ok(writer.change(update, bytes_of(payload))));
  FUZZ_CHECK(ok(writer.lock({7, 17, LS_LOCK_UPDATE, 0})));
  FUZZ_CHECK(ok(writer.ending({{1663, 5, 16500, -1}, 1})));
  FUZZ_CHECK(ok(writer.finish()));
  return get_file(owner_path());
}

Buffer list_seed() {
  UndoList list;
  list.gsn = kListGsn;
  for (Tn tn = 90; tn < 93; tn++) {
    LongTransaction &t = list.txns[tn];
    t.txn.tn = tn;
    t.txn.fate = tn == 92 ? TxnFate::kTwoPhase : TxnFate::kRunning;
    t.txn.full_xid = tn == 92 ? 14 : 0;
    t.place = {static_cast<u32>(tn), 1};
    t.undo = {400, 40};
    t.files = {17, 18};
  }
  LoggedFile file;
  file.path = "base/5/16500";
  file.record = {17, 1663, 5, 16500, -1, LS_REL_TABLE, 1, static_cast<u16>(file.path.size()), 0};
  list.files[17] = file;
  FUZZ_CHECK(ok(undo_list_write(directory().c_str(), list)));
  return get_file(path_of(undo_list_name(kListGsn)));
}

}  // namespace

void write_seeds(const SeedWriter &write) {
  write("undo", Output().number(kUndo).bytes(undo_seed()));
  write("prepared", Output().number(kPrepared).bytes(prepared_seed()));
  write("list", Output().number(kList).bytes(list_seed()));
}

void test_one(Input &input) {
  const u8 which = input.byte() % 3;
  const Bytes rest = input.rest();
  Buffer file(rest.begin(), rest.end());
  which == kList ? seal_list(&file) : seal_pieces(&file);
  put_file(which == kList ? path_of(undo_list_name(kListGsn)) : owner_path(), file);
  switch (which) {
    case kUndo: read_undo(file.size()); break;
    case kPrepared: read_prepared(); break;
    default: read_list(); break;
  }
}

}  // namespace ls::fuzz
