// row_undo.cpp - one change undone in its leaf; its bytes for an undo file.
#include "txn/row_undo.hpp"

#include "base/check.hpp"
#include "btree/leaf_reads.hpp"
#include "txn/row_conflict.hpp"
#include "txn/row_read.hpp"

namespace ls {

namespace {

constexpr u32 kRemoveBatch = 160;  // more than a leaf holds rows of no payload: one record per leaf

bool carries(const RowHeader &header, const UndoTarget &target) {
  return (header.tn() & ~kHiddenTn) == target.tn && header.seq == target.seq;
}

// What others did to the row's lock bits since must survive; the generation changes like with every
// change of them.
RowHeader restored_header(Worker &w, const UndoTarget &target, const RowHeader &now,
                          const RowHeader &previous) {
  const u8 locked = static_cast<u8>((now.flags() | previous.flags()) & LS_ROW_LOCKED);
  const u8 flags = static_cast<u8>((previous.flags() & ~LS_ROW_LOCKED) | locked);
  count_generation(w, target.file, target.row_id);
  return RowHeader::make(previous.tn(), flags, static_cast<u8>(now.generation() + 1), previous.cid,
                         previous.seq);
}

Status fail_missing(const UndoTarget &target) {
  return fail_row(target.file, target.row_id, "its undo does not fit the row");
}

// Under the latch, the row carries (tn, seq).  *room: what the leaf lacks for it; 0: done.
Status put_back_in_leaf(Worker &w, const UndoTarget &target, const RowHeader &previous,
                        const PayloadBefore &before, RowLeaf &leaf, u32 *room) {
  u8 old[kPageSize];
  u8 built[kPageSize];
  RowParts now;
  const Bytes current = leaf.payload();
  const u32 current_bytes = static_cast<u32>(current.size());
  if (current_bytes > 0) std::memcpy(old, current.data(), current_bytes);
  if (!split_row(leaf.value(), &now)) return fail_missing(target);
  Bytes payload = before.bytes;
  if (!before.whole) {
    u32 bytes = 0;
    if (!apply_patch(Bytes(old, now.payload.size()), before.patch, built, &bytes))
      return fail_missing(target);
    payload = Bytes(built, bytes);
  }
  const RowHeader restored = restored_header(w, target, now.header, previous);
  const bool fits = leaf.set(restored, payload);
  *room = fits ? 0 : growth(current_bytes, static_cast<u32>(payload.size()));
  LS_ASSERT(fits || *room != 0);
  if (*room != 0) return kOk;
  const RowRecord record{w, target.file, leaf.page_no(), target.row_id};
  leaf.changed(log_restore(record, restored, make_patch(Bytes(old, current_bytes), payload)));
  return kOk;
}

class Undoing {
 public:
  explicit Undoing(Ctx &ctx) : ctx_(ctx) {
    LS_ASSERT(!ctx.undoing);
    ctx_.undoing = true;
  }
  ~Undoing() { ctx_.undoing = false; }
  Undoing(const Undoing &) = delete;
  Undoing &operator=(const Undoing &) = delete;

 private:
  Ctx &ctx_;
};

}  // namespace

Status put_back(Worker &w, const UndoTarget &target, const RowHeader &previous,
                const PayloadBefore &before) {
  const Undoing undoing(w.ctx);
  u32 room = 0;
  do {
    LS_TRY(w.log.reserve(row_record_room(LS_MAX_ROW_BYTES), w.ctx.interrupt));
    RowLeaf leaf;
    LS_TRY(leaf.open(w, target.file, target.row_id, room));
    if (!leaf.found() || !carries(leaf.header(), target)) return kOk;
    LS_TRY(put_back_in_leaf(w, target, previous, before, leaf, &room));
  } while (room != 0);
  return kOk;
}

Status remove_inserted(Worker &w, const UndoTarget &target, u64 count, LeafReads *reads) {
  const u64 end = target.row_id + count;
  u64 row_id = target.row_id;
  while (row_id < end) {
    LS_TRY(w.log.reserve(row_record_room(kRemoveBatch * kMostRowIdBytes), w.ctx.interrupt));
    RowLeaf leaf;
    const u64 pages_read = w.ctx.pages.read;
    LS_TRY(leaf.open(w, target.file, row_id, 0));
    const bool was_read = w.ctx.pages.read != pages_read;
    Node *node = leaf.node();
    u64 removed[kRemoveBatch];
    u32 n = 0;
    u16 pos = leaf.position();
    u64 next = end;
    while (pos < node->count && n < kRemoveBatch) {
      u8 key[kMaxKeyBytes];
      if (node->copy_key(pos, key) != kRowKeyBytes) return fail_missing(target);
      const u64 id = decode_row_key(key);
      if (id >= end) break;
      const Bytes value = node->value(pos);
      if (value.size() >= sizeof(RowHeader) && carries(RowHeader::load(value.data()), target)) {
        node->remove(pos);
        removed[n++] = id;
      } else {
        pos++;
      }
      next = id + 1;
    }
    const bool leaf_done = pos >= node->count && n < kRemoveBatch;
    bool last = !leaf_done && n < kRemoveBatch;
    u8 fence[kRowKeyBytes] = {};
    if (leaf_done) {
      last = !node->has_upper;
      const Bytes upper = node->upper_fence();
      if (!upper.empty())
        std::memcpy(fence, upper.data(), upper.size() < kRowKeyBytes ? upper.size() : kRowKeyBytes);
      next = decode_row_key(fence);
    }
    if (n > 0) target.file.rows_gone.fetch_add(n, std::memory_order_relaxed);
    if (n > 0)
      leaf.changed(
          log_remove_many(w, target.file, leaf.page_no(), std::span<const u64>(removed, n)));
    const bool small = n > 0 && leaf.is_small();
    leaf.close();
    if (small) merge_small_leaf(w, target.file, row_id);
    if (last || next >= end) return kOk;
    row_id = next;
    if (was_read && reads) {
      const RowKey from(row_id), to(end - 1);
      const BTree::KeyRange rest{from, to};
      BTree(w.ctx, target.file).bring_in(*reads, {&rest, 1});
    }
  }
  return kOk;
}

Status ghost_one(Worker &w, const UndoTarget &target, u64 row_id, PageNo *page_no) {
  *page_no = kInvalidPageNo;
  LS_TRY(w.log.reserve(row_record_room(0), w.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(w, target.file, row_id, 0));
  if (!leaf.found() || !carries(leaf.header(), target)) return kOk;
  *page_no = leaf.page_no();
  const RowHeader now = leaf.header();
  if (now.has(LS_ROW_GHOST)) return kOk;
  const u8 flags = static_cast<u8>(now.flags() | LS_ROW_GHOST);
  const RowHeader ghost = RowHeader::make(now.tn(), flags, now.generation(), now.cid, now.seq);
  leaf.set_header(ghost);
  leaf.changed(log_restore({w, target.file, leaf.page_no(), row_id}, ghost, Patch{}));
  return kOk;
}

bool RowUndo::extend(const RowUndo &later) {
  if (code != kRowInsert || later.code != kRowInsert || file != later.file || seq != later.seq ||
      row_id + count != later.row_id)
    return false;
  count += later.count;
  return true;
}

Status row_undo_of(const LogOp &op, RowUndo *out) {
  ChangeOperands c;
  LeafRows rows;
  if (!parse_change(op.code, op.operands, &c) ||
      (op.code == kRowInsertMany && !parse_rows(c.new_bytes, &rows)))
    return fail(LS_CORRUPT, "log record of a row (operation %x) can not be undone", op.code);
  const bool insert = op.code == kRowInsert || op.code == kRowInsertMany;
  *out = {
      .code = insert ? u8{kRowInsert} : op.code, .file = op.file, .row_id = c.row_id, .seq = c.seq};
  if (op.code == kRowInsertMany) out->count = rows.count;
  if (insert) return kOk;
  out->flags = c.prev_flags;
  out->previous_seq = c.prev_seq;
  if (op.code == kRowUpdate)
    out->patch = Patch{c.offset, static_cast<u16>(c.new_bytes.size()), c.old_bytes};
  return kOk;
}

LogPacker pack_row_undo(const RowUndo &undo) {
  LS_ASSERT(undo.code == kRowInsert || undo.code == kRowUpdate || undo.code == kRowDelete);
  LogPacker p;
  p.byte(undo.code).number(undo.file).number(undo.row_id).number(undo.seq);
  if (undo.code == kRowInsert) {
    p.number(undo.count);
    return p;
  }
  p.byte(undo.flags).number(undo.previous_seq);
  if (undo.code == kRowUpdate) p.number(undo.patch.offset).number(undo.patch.cut);
  return p;
}

bool parse_row_undo(Bytes item, RowUndo *out) {
  LogUnpacker in(item);
  *out = {};
  out->code = in.byte();
  out->file = static_cast<FileNo>(in.number(~FileNo{0}));
  out->row_id = in.number();
  out->seq = static_cast<u32>(in.number(~u32{0}));
  if (out->code == kRowInsert) {
    out->count = in.number();
    return in.done();
  }
  if (out->code != kRowUpdate && out->code != kRowDelete) return false;
  out->flags = in.byte();
  out->previous_seq = static_cast<u32>(in.number(~u32{0}));
  if (out->code == kRowDelete) return in.done();
  out->patch.offset = static_cast<u16>(in.number(kPageSize));
  out->patch.cut = static_cast<u16>(in.number(kPageSize));
  out->patch.fresh = in.rest();
  return in.good() && out->patch.fresh.size() <= kPageSize;
}

// The header that the row had, if the version store has it: older snapshots need the rest of it.
static Status kept_previous(Worker &w, const UndoTarget &target, RowHeader *previous) {
  for (const Tn tn : {target.tn, target.tn | kHiddenTn}) {   // FTXN-2
    alignas(8) u8 bytes[kPageSize];
    const VersionEntry *entry = nullptr;
    const Status status = version_store(w, tn).get({tn, target.seq}, bytes, &entry);
    if (code(status) == LS_NOT_FOUND) continue;
    LS_TRY(status);
    *previous = entry->previous;
    return kOk;
  }
  return kOk;
}

Status row_undo(Worker &w, FileSlot &file, const RowUndo &undo, Tn tn, LeafReads &reads) {
  const UndoTarget target{file, undo.row_id, tn, undo.seq};
  if (undo.code == kRowInsert) return remove_inserted(w, target, undo.count, &reads);
  LS_ASSERT(undo.code == kRowUpdate || undo.code == kRowDelete);
  RowHeader previous =
      RowHeader::make(undo.previous_seq != 0 ? tn : 0, undo.flags, 0, 0, undo.previous_seq);
  if (w.txns->keeps_versions) LS_TRY(kept_previous(w, target, &previous));
  PayloadBefore before;
  before.patch = undo.patch;
  return put_back(w, target, previous, before);
}

}  // namespace ls
