#include "txn/row_log.hpp"

#include "base/check.hpp"

namespace ls {

namespace {

// Packs integers of any width, little endian.
class Packer {
 public:
  Packer &put(u64 value, u32 bytes) {
    LS_ASSERT(used_ + bytes <= sizeof buffer_);
    std::memcpy(buffer_ + used_, &value, bytes);
    used_ += bytes;
    return *this;
  }
  operator Bytes() const { return Bytes(buffer_, used_); }

 private:
  u8 buffer_[40];
  u32 used_ = 0;
};

class Unpacker {
 public:
  explicit Unpacker(Bytes bytes) : rest_(bytes) {}
  u64 get(u32 bytes) {
    u64 value = 0;
    if (rest_.size() < bytes) {
      good_ = false;
      return 0;
    }
    std::memcpy(&value, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
    return value;
  }
  Bytes take(u32 bytes) {
    if (rest_.size() < bytes) {
      good_ = false;
      return {};
    }
    const Bytes taken = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return taken;
  }
  Bytes rest() const { return rest_; }
  bool good() const { return good_; }

 private:
  Bytes rest_;
  bool good_ = true;
};

Gsn append(Worker &w, const FileSlot &file, PageNo page, RecordKind kind, u16 code, Bytes a, Bytes b = {}, Bytes c = {}) {
  if (!file.logged) return 0;
  w.log.start(kind);
  w.log.op(file.file_no.load(std::memory_order_relaxed), page, code, a, b, c);
  return w.log.finish();
}

u32 previous_seq(const Worker &w, const RowHeader &previous) { return previous.tn() == w.tn ? previous.seq : 0; }

Status bad(u16 code, const char *what) { return fail(LS_CORRUPT, "log record of a row (operation %x): %s", code, what); }

struct RowAt {
  u16 pos;
  RowParts parts;
};

Status find(Node *node, u16 code, u64 row_id, RowAt *at) {
  bool found;
  at->pos = node->lower_bound(RowKey(row_id), &found);
  if (!found) return bad(code, "the page has no such row");
  if (!split_row(node->value(at->pos), &at->parts)) return bad(code, "the row on the page is damaged");
  return kOk;
}

Status redo_insert(Node *node, u16 code, u64 row_id, const RowHeader &header, Bytes payload) {
  const RowKey key(row_id);
  bool found;
  node->lower_bound(key, &found);
  if (found) return bad(code, "the page has the row already");
  if (!node->fits(key, static_cast<u32>(sizeof header + payload.size()))) return bad(code, "no room on the page");
  node->insert(key, Bytes(reinterpret_cast<const u8 *>(&header), sizeof header), payload);
  return kOk;
}

Status redo_patch(Node *node, u16 code, u64 row_id, const RowHeader &header, const Patch &patch, bool whole_value) {
  RowAt at;
  LS_TRY(find(node, code, row_id, &at));
  const Bytes old = whole_value ? node->value(at.pos).subspan(sizeof(RowHeader)) : at.parts.payload;
  u8 payload[kPageSize];
  u32 bytes = 0;
  if (!apply_patch(old, patch, payload, &bytes)) return bad(code, "the change does not fit the row");
  if (!set_row(node, at.pos, header, Bytes(payload, bytes))) return bad(code, "no room on the page");
  return kOk;
}

Status redo_change(u16 code, Bytes operands, Node *node, Tn tn) {
  ChangeOperands c;
  if (!parse_change(code, operands, &c)) return bad(code, "too short");
  const u8 flags = static_cast<u8>(c.flags & ~kVolatileFlags);
  const RowHeader header = RowHeader::make(tn, flags, 0, 0, c.seq);
  if (code == kRowInsert) return redo_insert(node, code, c.row_id, header, c.new_bytes);
  if (code == kRowUpdate) {
    const Patch patch{c.offset, static_cast<u16>(c.old_bytes.size()), c.new_bytes};
    return redo_patch(node, code, c.row_id, header, patch, false);
  }
  RowAt at;
  LS_TRY(find(node, code, c.row_id, &at));
  u8 payload[kPageSize];
  if (!at.parts.payload.empty()) std::memcpy(payload, at.parts.payload.data(), at.parts.payload.size());
  Bytes tail;
  if (flags & LS_ROW_MOVED) tail = Bytes(reinterpret_cast<const u8 *>(&c.moved_to), kMovedBytes);
  if (!set_row(node, at.pos, header, Bytes(payload, at.parts.payload.size()), tail)) return bad(code, "no room on the page");
  return kOk;
}

Status redo_remove(u16 code, Bytes operands, Node *node) {
  Unpacker in(operands);
  while (!in.rest().empty()) {
    const u64 row_id = in.get(kRowIdBytes);
    if (!in.good()) return bad(code, "too short");
    bool found;
    const u16 pos = node->lower_bound(RowKey(row_id), &found);
    if (!found) return bad(code, "the page has no such row");
    node->remove(pos);
  }
  return kOk;
}

}  // namespace

Patch make_patch(Bytes old_payload, Bytes new_payload) {
  const size_t shorter = old_payload.size() < new_payload.size() ? old_payload.size() : new_payload.size();
  size_t head = 0;
  while (head < shorter && old_payload[head] == new_payload[head]) head++;
  size_t tail = 0;
  while (tail < shorter - head && old_payload[old_payload.size() - 1 - tail] == new_payload[new_payload.size() - 1 - tail]) {
    tail++;
  }
  return {static_cast<u16>(head), static_cast<u16>(old_payload.size() - head - tail),
          new_payload.subspan(head, new_payload.size() - head - tail)};
}

bool apply_patch(Bytes payload, const Patch &patch, u8 *out, u32 *bytes) {
  if (u32{patch.offset} + patch.cut > payload.size()) return false;
  const Bytes head = payload.first(patch.offset);
  const Bytes tail = payload.subspan(patch.offset + patch.cut);
  if (head.size() + patch.fresh.size() + tail.size() > kPageSize) return false;
  u32 used = 0;
  for (const Bytes part : {head, patch.fresh, tail}) {
    if (!part.empty()) std::memcpy(out + used, part.data(), part.size());
    used += static_cast<u32>(part.size());
  }
  *bytes = used;
  return true;
}

Gsn log_insert(const RowRecord &r, u32 seq, Bytes payload) {
  Packer p;
  p.put(r.row_id, kRowIdBytes).put(seq, 4);
  return append(r.w, r.file, r.page, RecordKind::kRow, kRowInsert, p, payload);
}

Gsn log_update(const RowRecord &r, const RowHeader &previous, const RowHeader &now, Bytes old_payload, Bytes new_payload) {
  if (!r.file.logged) return 0;
  const Patch patch = make_patch(old_payload, new_payload);
  Packer p;
  p.put(r.row_id, kRowIdBytes).put(now.seq, 4).put(previous_seq(r.w, previous), 4).put(previous.flags(), 1);
  p.put(now.flags(), 1).put(patch.offset, 2).put(patch.cut, 2).put(patch.fresh.size(), 2);
  return append(r.w, r.file, r.page, RecordKind::kRow, kRowUpdate, p, old_payload.subspan(patch.offset, patch.cut),
                patch.fresh);
}

Gsn log_delete(const RowRecord &r, const RowHeader &previous, const RowHeader &now, u64 moved_to) {
  Packer p;
  p.put(r.row_id, kRowIdBytes).put(now.seq, 4).put(previous_seq(r.w, previous), 4).put(previous.flags(), 1);
  p.put(now.flags(), 1).put(moved_to, kRowIdBytes);
  return append(r.w, r.file, r.page, RecordKind::kRow, kRowDelete, p);
}

Gsn log_remove(const RowRecord &r) {
  Packer p;
  p.put(r.row_id, kRowIdBytes);
  return append(r.w, r.file, r.page, RecordKind::kSystem, kRowRemove, p);
}

Gsn log_remove_many(Worker &w, const FileSlot &file, PageNo page, std::span<const u64> row_ids) {
  u8 operands[kPageSize];
  u32 used = 0;
  for (const u64 row_id : row_ids) {
    std::memcpy(operands + used, &row_id, kRowIdBytes);
    used += kRowIdBytes;
  }
  return append(w, file, page, RecordKind::kSystem, kRowRemove, Bytes(operands, used));
}

Gsn log_restore(const RowRecord &r, const RowHeader &restored, const Patch &patch) {
  Packer p;
  p.put(r.row_id, kRowIdBytes).put(restored.tn(), kLogTnBytes).put(restored.seq, 4).put(restored.flags(), 1);
  p.put(patch.offset, 2).put(patch.cut, 2);
  return append(r.w, r.file, r.page, RecordKind::kSystem, kRowRestore, p, patch.fresh);
}

Gsn log_insert_raw(const RowRecord &r, Tn writer, Bytes payload) {
  Packer p;
  p.put(r.row_id, kRowIdBytes).put(writer, kLogTnBytes);
  return append(r.w, r.file, r.page, RecordKind::kSystem, kRowInsertRaw, p, payload);
}

Gsn log_row_id_high(Worker &w, const FileSlot &file, u64 row_id_high) {
  Packer p;
  p.put(row_id_high, 8);
  return append(w, file, kMetaPageNo, RecordKind::kSystem, kRowIdHigh, p);
}

bool parse_change(u16 code, Bytes operands, ChangeOperands *out) {
  Unpacker in(operands);
  out->row_id = in.get(kRowIdBytes);
  out->seq = static_cast<u32>(in.get(4));
  if (code == kRowInsert) {
    out->new_bytes = in.rest();
    return in.good();
  }
  out->prev_seq = static_cast<u32>(in.get(4));
  out->prev_flags = static_cast<u8>(in.get(1));
  out->flags = static_cast<u8>(in.get(1));
  if (code == kRowDelete) {
    out->moved_to = in.get(kRowIdBytes);
    return in.good() && in.rest().empty();
  }
  if (code != kRowUpdate) return false;
  out->offset = static_cast<u16>(in.get(2));
  const u32 old_bytes = static_cast<u32>(in.get(2));
  const u32 new_bytes = static_cast<u32>(in.get(2));
  out->old_bytes = in.take(old_bytes);
  out->new_bytes = in.take(new_bytes);
  return in.good() && in.rest().empty();
}

Status row_redo(u16 code, Bytes operands, u8 *page, Tn tn) {
  Node *node = reinterpret_cast<Node *>(page);
  Unpacker in(operands);
  switch (code) {
    case kRowInsert:
    case kRowUpdate:
    case kRowDelete:
      return redo_change(code, operands, node, tn);
    case kRowRemove:
      return redo_remove(code, operands, node);
    case kRowRestore: {
      const u64 row_id = in.get(kRowIdBytes);
      const Tn restored_tn = in.get(kLogTnBytes);
      const u32 seq = static_cast<u32>(in.get(4));
      const u8 flags = static_cast<u8>(in.get(1) & ~u64{kVolatileFlags});
      Patch patch;
      patch.offset = static_cast<u16>(in.get(2));
      patch.cut = static_cast<u16>(in.get(2));
      patch.fresh = in.rest();
      if (!in.good()) return bad(code, "too short");
      return redo_patch(node, code, row_id, RowHeader::make(restored_tn, flags, 0, 0, seq), patch, true);
    }
    case kRowInsertRaw: {
      const u64 row_id = in.get(kRowIdBytes);
      const Tn writer = in.get(kLogTnBytes);
      if (!in.good()) return bad(code, "too short");
      return redo_insert(node, code, row_id, RowHeader::make(writer, 0, 0, 0, 0), in.rest());
    }
    case kRowIdHigh: {
      const u64 row_id_high = in.get(8);
      if (!in.good()) return bad(code, "too short");
      reinterpret_cast<MetaPage *>(page)->row_id_high = row_id_high;
      return kOk;
    }
    default:
      return bad(code, "unknown");
  }
}

}  // namespace ls
