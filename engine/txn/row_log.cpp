// row_log.cpp - log records of row changes: operands packed, checked, redone.
#include "txn/row_log.hpp"

#include "base/check.hpp"
#include "txn/row_ids.hpp"

namespace ls {

namespace {

// Which of a change's header fields are there.
enum HeaderBits : u8 { kHasFlags = 1, kHasPreviousFlags = 2, kHasPreviousSeq = 4 };

u8 stored_flags(const RowHeader &header) {
  return header.flags() & static_cast<u8>(~kVolatileFlags);
}

Gsn append(Worker &w, const FileSlot &file, PageNo page, RecordKind kind, u8 code, Bytes a,
           Bytes b = {}, Bytes c = {}) {
  if (!file.logged) return 0;
  LS_ASSERT(kind == RecordKind::kSystem || (w.tn != 0 && w.has_log));
  const bool first = kind == RecordKind::kRow && !w.named;
  w.log.start(first ? RecordKind::kFirstRow : kind);
  if (first) w.log.number(w.tn);
  w.named |= first;
  w.log.op(file.file_no.load(std::memory_order_relaxed), page, code, a, b, c);
  const Gsn gsn = w.log.finish();
  LS_ASSERT(kind == RecordKind::kSystem ||
            gsn >= w.txns->active[w.slot].first_gsn.load(std::memory_order_relaxed));
  return gsn;
}

u32 previous_seq(const Worker &w, const RowHeader &previous) {
  return previous.tn() == w.tn ? previous.seq : 0;
}

LogPacker &pack_headers(LogPacker &p, const Worker &w, const RowHeader &previous,
                        const RowHeader &now) {
  const u8 flags = stored_flags(now), previous_flags = stored_flags(previous);
  const u32 seq = previous_seq(w, previous);
  p.byte(static_cast<u8>((flags ? kHasFlags : 0) | (previous_flags ? kHasPreviousFlags : 0) |
                         (seq ? kHasPreviousSeq : 0)));
  if (flags) p.byte(flags);
  if (previous_flags) p.byte(previous_flags);
  if (seq) p.number(seq);
  return p;
}

bool unpack_headers(LogUnpacker &in, ChangeOperands *out) {
  const u8 bits = in.byte();
  if (bits & kHasFlags) out->flags = in.byte();
  if (bits & kHasPreviousFlags) out->prev_flags = in.byte();
  if (bits & kHasPreviousSeq) out->prev_seq = static_cast<u32>(in.number(~u32{0}));
  return bits < 2 * kHasPreviousSeq && !((out->flags | out->prev_flags) & kVolatileFlags);
}

u16 small(LogUnpacker &in) { return static_cast<u16>(in.number(kPageSize)); }

Status bad(u8 code, const char *what) {
  return fail(LS_CORRUPT, "log record of a row (operation %x): %s", code, what);
}

struct RowAt {
  u16 pos;
  RowParts parts;
};

Status find(Node *node, u8 code, u64 row_id, RowAt *at) {
  if (!node->covers(RowKey(row_id))) return bad(code, "the row does not belong on the page");
  bool found;
  at->pos = node->lower_bound(RowKey(row_id), &found);
  if (!found) return bad(code, "the page has no such row");
  if (!split_row(node->value(at->pos), &at->parts))
    return bad(code, "the row on the page is damaged");
  return kOk;
}

Status redo_insert(Node *node, u8 code, u64 row_id, const RowHeader &header, Bytes payload) {
  const RowKey key(row_id);
  if (!node->covers(key)) return bad(code, "the row does not belong on the page");
  bool found;
  const u16 pos = node->lower_bound(key, &found);
  if (found) return bad(code, "the page has the row already");
  if (!node->fits(key, static_cast<u32>(sizeof header + payload.size())))
    return bad(code, "no room on the page");
  node->insert_at(pos, key, Bytes(reinterpret_cast<const u8 *>(&header), sizeof header), payload);
  return kOk;
}

Status redo_insert_many(Node *node, u8 code, u64 row_id, const RowHeader &header, Bytes bytes) {
  LeafRows rows;
  if (!parse_rows(bytes, &rows)) return bad(code, "the rows are damaged");
  if (!node->covers(RowKey(row_id))) return bad(code, "the rows do not belong on the page");
  bool found;
  node->lower_bound(RowKey(row_id), &found);
  if (found) return bad(code, "the page has the row already");
  if (insert_rows(node, row_id, header, {rows.rows, rows.count}) != rows.count)
    return bad(code, "the rows do not go on the page");
  return kOk;
}

Status redo_patch(Node *node, u8 code, u64 row_id, const RowHeader &header, const Patch &patch,
                  bool whole_value) {
  RowAt at;
  LS_TRY(find(node, code, row_id, &at));
  const Bytes old = whole_value ? node->value(at.pos).subspan(sizeof(RowHeader)) : at.parts.payload;
  u8 payload[kPageSize];
  u32 bytes = 0;
  if (!apply_patch(old, patch, payload, &bytes))
    return bad(code, "the change does not fit the row");
  if (!set_row(node, at.pos, header, Bytes(payload, bytes)))
    return bad(code, "no room on the page");
  return kOk;
}

Status redo_change(u8 code, Bytes operands, Node *node, Tn tn) {
  ChangeOperands c;
  if (!parse_change(code, operands, &c)) return bad(code, "too short");
  const RowHeader header = RowHeader::make(tn, c.flags, 0, 0, c.seq);
  if (code == kRowInsert) return redo_insert(node, code, c.row_id, header, c.new_bytes);
  if (code == kRowInsertMany) return redo_insert_many(node, code, c.row_id, header, c.new_bytes);
  if (code == kRowUpdate) {
    const Patch patch{c.offset, static_cast<u16>(c.old_bytes.size()), c.new_bytes};
    return redo_patch(node, code, c.row_id, header, patch, false);
  }
  RowAt at;
  LS_TRY(find(node, code, c.row_id, &at));
  u8 payload[kPageSize];
  if (!at.parts.payload.empty())
    std::memcpy(payload, at.parts.payload.data(), at.parts.payload.size());
  Bytes tail;
  if (c.flags & LS_ROW_MOVED) tail = Bytes(reinterpret_cast<const u8 *>(&c.moved_to), kMovedBytes);
  if (!set_row(node, at.pos, header, Bytes(payload, at.parts.payload.size()), tail))
    return bad(code, "no room on the page");
  return kOk;
}

Status redo_remove(u8 code, Bytes operands, Node *node) {
  LogUnpacker in(operands);
  for (u64 row_id = 0; in.left() > 0;) {
    row_id += unzigzag(in.number());
    if (!in.good()) return bad(code, "too short");
    RowAt at;
    LS_TRY(find(node, code, row_id, &at));
    node->remove(at.pos);
  }
  return kOk;
}

}  // namespace

Patch make_patch(Bytes old_payload, Bytes new_payload) {
  LS_ASSERT(old_payload.size() <= kPageSize && new_payload.size() <= kPageSize);
  const size_t shorter =
      old_payload.size() < new_payload.size() ? old_payload.size() : new_payload.size();
  size_t head = 0;
  while (head < shorter && old_payload[head] == new_payload[head]) head++;
  size_t tail = 0;
  while (tail < shorter - head &&
         old_payload[old_payload.size() - 1 - tail] == new_payload[new_payload.size() - 1 - tail]) {
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
  LogPacker p;
  p.number(r.row_id).number(seq);
  return append(r.w, r.file, r.page, RecordKind::kRow, kRowInsert, p, payload);
}

Gsn log_insert_many(const RowRecord &r, u32 seq, std::span<const ls_bytes> rows) {
  if (!r.file.logged) return 0;
  LogPacker p;
  p.number(r.row_id).number(seq);
  u8 bytes[kPageSize];
  u32 used = 0;
  for (const ls_bytes &row : rows) {
    LS_ASSERT(used + kMaxVarintBytes + row.len <= sizeof bytes);
    used += put_varint(bytes + used, row.len);
    if (row.len != 0) std::memcpy(bytes + used, row.data, row.len);
    used += row.len;
  }
  return append(r.w, r.file, r.page, RecordKind::kRow, kRowInsertMany, p, Bytes(bytes, used));
}

Gsn log_update(const RowRecord &r, const RowHeader &previous, const RowHeader &now,
               Bytes old_payload, Bytes new_payload) {
  if (!r.file.logged) return 0;
  LS_ASSERT(now.tn() == r.w.tn && !now.has(LS_ROW_GHOST));
  const Patch patch = make_patch(old_payload, new_payload);
  LogPacker p;
  p.number(r.row_id).number(now.seq);
  pack_headers(p, r.w, previous, now).number(patch.offset).number(patch.cut);
  return append(r.w, r.file, r.page, RecordKind::kRow, kRowUpdate, p,
                old_payload.subspan(patch.offset, patch.cut), patch.fresh);
}

Gsn log_delete(const RowRecord &r, const RowHeader &previous, const RowHeader &now, u64 moved_to) {
  LS_ASSERT(now.tn() == r.w.tn && now.has(LS_ROW_GHOST));
  LS_ASSERT(now.has(LS_ROW_MOVED) == (moved_to != 0));
  LogPacker p;
  p.number(r.row_id).number(now.seq);
  pack_headers(p, r.w, previous, now).number(moved_to);
  return append(r.w, r.file, r.page, RecordKind::kRow, kRowDelete, p);
}

Gsn log_remove(const RowRecord &r) {
  return log_remove_many(r.w, r.file, r.page, std::span<const u64>(&r.row_id, 1));
}

Gsn log_remove_many(Worker &w, const FileSlot &file, PageNo page, std::span<const u64> row_ids) {
  u8 operands[kPageSize];
  u32 used = 0;
  u64 before = 0;
  for (const u64 row_id : row_ids) {
    LS_ASSERT(used + kMaxVarintBytes <= sizeof operands);
    used += put_varint(operands + used, zigzag(row_id - before));
    before = row_id;
  }
  return append(w, file, page, RecordKind::kSystem, kRowRemove, Bytes(operands, used));
}

Gsn log_restore(const RowRecord &r, const RowHeader &restored, const Patch &patch) {
  LogPacker p;
  p.number(r.row_id)
      .number(restored.tn())
      .number(restored.seq)
      .byte(stored_flags(restored))
      .number(patch.offset)
      .number(patch.cut);
  return append(r.w, r.file, r.page, RecordKind::kSystem, kRowRestore, p, patch.fresh);
}

Gsn log_insert_copied(const RowRecord &r, Tn writer, Bytes payload) {
  LogPacker p;
  p.number(r.row_id).number(writer);
  return append(r.w, r.file, r.page, RecordKind::kSystem, kRowInsertCopied, p, payload);
}

Gsn log_row_id_high(Worker &w, const FileSlot &file, u64 row_id_high) {
  LogPacker p;
  p.number(row_id_high);
  return append(w, file, kMetaPageNo, RecordKind::kSystem, kRowIdHigh, p);
}

bool parse_change(u8 code, Bytes operands, ChangeOperands *out) {
  LogUnpacker in(operands);
  out->row_id = in.number();
  out->seq = static_cast<u32>(in.number(~u32{0}));
  if (code == kRowInsert || code == kRowInsertMany) {
    out->new_bytes = in.rest();
    return in.good();
  }
  if (!unpack_headers(in, out)) return false;
  if (code == kRowDelete) {
    out->moved_to = in.number();
    return in.done();
  }
  if (code != kRowUpdate) return false;
  out->offset = small(in);
  out->old_bytes = in.take(in.number());
  out->new_bytes = in.rest();
  return in.good() && out->old_bytes.size() <= kPageSize;
}

bool parse_rows(Bytes bytes, LeafRows *out) {
  LogUnpacker in(bytes);
  out->count = 0;
  while (in.left() > 0) {
    const Bytes payload = in.take(in.number());
    if (!in.good() || out->count == kMaxLeafRows) return false;
    out->rows[out->count++] = {payload.data(), static_cast<u32>(payload.size())};
  }
  return out->count > 0;
}

Status row_redo(u8 code, Bytes operands, u8 *page, Tn tn) {
  Node *node = reinterpret_cast<Node *>(page);
  LogUnpacker in(operands);
  switch (code) {
    case kRowInsert:
    case kRowInsertMany:
    case kRowUpdate:
    case kRowDelete:
      return redo_change(code, operands, node, tn);
    case kRowRemove:
      return redo_remove(code, operands, node);
    case kRowRestore: {
      const u64 row_id = in.number();
      const Tn restored_tn = in.number(kMaxTn);
      const u32 seq = static_cast<u32>(in.number(~u32{0}));
      const u8 flags = in.byte();
      Patch patch;
      patch.offset = small(in);
      patch.cut = small(in);
      patch.fresh = in.rest();
      if (!in.good() || flags & kVolatileFlags)
        return bad(code, "too short, or with flags that are not logged");
      return redo_patch(node, code, row_id, RowHeader::make(restored_tn, flags, 0, 0, seq), patch,
                        true);
    }
    case kRowInsertCopied: {
      const u64 row_id = in.number();
      const Tn writer = in.number(kMaxTn);
      if (!in.good()) return bad(code, "too short");
      return redo_insert(node, code, row_id, RowHeader::make(writer, 0, 0, 0, 0), in.rest());
    }
    case kRowIdHigh: {
      const u64 row_id_high = in.number();
      MetaPage &meta = *reinterpret_cast<MetaPage *>(page);
      if (!in.done() || (row_id_high & ~kRowIdExact) > most_row_id_high(meta.kind))
        return bad(code, "no row id");
      meta.row_id_high = row_id_high;
      return kOk;
    }
    default:
      return bad(code, "unknown");
  }
}

}  // namespace ls
