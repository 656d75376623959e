// index_log.cpp - log records of index entries: operands packed, checked, redone.
#include "index/index_log.hpp"

#include "buffer/page.hpp"
#include "index/index_entry.hpp"

namespace ls {

namespace {

Bytes operand(const u16 &value) {
  return Bytes(reinterpret_cast<const u8 *>(&value), sizeof value);
}

Gsn append(Worker &w, const FileSlot &file, PageNo page, u8 code, Bytes a, Bytes b, Bytes c = {}) {
  if (!file.logged) return 0;
  w.log.start(RecordKind::kSystem);
  w.log.op(file.file_no.load(std::memory_order_relaxed), page, code, a, b, c);
  return w.log.finish();
}

Status bad(u8 code, const char *what) {
  return fail(LS_CORRUPT, "log record of an index (operation %x): %s", code, what);
}

u16 load_u16(Bytes bytes, size_t at) {
  u16 value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

Status redo_insert(Node *node, u8 code, Bytes operands) {
  LogUnpacker in(operands);
  const Bytes entry = in.take(in.number(kMaxEntryKeyBytes));
  const Bytes payload = in.rest();
  if (!in.good() || entry.size() < kEntryRowIdBytes) return bad(code, "bad key");
  if (!node->covers(entry)) return bad(code, "the entry does not belong on the page");
  bool found;
  const u16 pos = node->lower_bound(entry, &found);
  if (found) return bad(code, "the page has the entry already");
  if (!node->fits(entry, static_cast<u32>(payload.size()))) return bad(code, "no room on the page");
  node->insert_at(pos, entry, payload);
  return kOk;
}

Status redo_remove(Node *node, u8 code, Bytes operands) {
  if (operands.size() < sizeof(u16)) return bad(code, "too short");
  if (load_u16(operands, 0) != node->count || operands.size() % sizeof(u16) != 0)
    return bad(code, "the page has other entries");
  u16 positions[kMaxEntries];
  u32 n = 0;
  for (size_t at = sizeof(u16); at < operands.size(); at += sizeof(u16), n++) {
    const u16 pos = load_u16(operands, at);
    if (pos >= node->count || (n > 0 && pos <= positions[n - 1]))
      return bad(code, "positions out of order");
    positions[n] = pos;
  }
  remove_entries(node, std::span<const u16>(positions, n));
  return kOk;
}

Status redo_remove_dated(Node *node, u8 code, Bytes operands) {
  LogUnpacker in(operands);
  in.number(kMaxTn);
  return in.good() ? redo_remove(node, code, in.rest()) : bad(code, "bad transaction number");
}

}  // namespace

Gsn log_entry_insert(Worker &w, const FileSlot &file, PageNo page, Bytes entry, Bytes payload) {
  LogPacker p;
  p.number(entry.size());
  return append(w, file, page, kIndexInsert, p, entry, payload);
}

Gsn log_entries_remove(Worker &w, const FileSlot &file, const Node &leaf,
                       const EntryRemoval &removal) {
  LogPacker p;
  p.number(removal.newest);
  const Bytes list(reinterpret_cast<const u8 *>(removal.positions.data()),
                   removal.positions.size_bytes());
  return append(w, file, leaf.header.page_no, kIndexRemoveDated, p, operand(leaf.count), list);
}

Gsn log_stale_entries(Worker &w, const FileSlot &file) {
  return append(w, file, kMetaPageNo, kIndexStale, {}, {});
}

void remove_entries(Node *leaf, std::span<const u16> positions) {
  for (size_t i = positions.size(); i-- > 0;) leaf->remove(positions[i]);
}

Status index_redo(u8 code, Bytes operands, u8 *page) {
  Node *node = reinterpret_cast<Node *>(page);
  switch (code) {
    case kIndexInsert: return redo_insert(node, code, operands);
    case kIndexRemove: return redo_remove(node, code, operands);
    case kIndexRemoveDated: return redo_remove_dated(node, code, operands);
    case kIndexStale:
      reinterpret_cast<MetaPage *>(page)->stale_entries = 1;
      return kOk;
    default: return bad(code, "unknown");
  }
}

bool index_removal_newest(u8 code, Bytes operands, Tn *newest) {
  *newest = kMaxTn;
  if (code != kIndexRemoveDated) return code == kIndexRemove;
  LogUnpacker in(operands);
  *newest = in.number(kMaxTn);
  return in.good();
}

}  // namespace ls
