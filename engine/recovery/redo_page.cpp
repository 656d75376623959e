// redo_page.cpp - a record meets its page: older, newer, or not the one it knew.
#include "recovery/redo_page.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "btree/tree.hpp"
#include "btree/tree_redo.hpp"
#include "buffer/change_buffer.hpp"
#include "buffer/page_allocator.hpp"
#include "buffer/page_guard.hpp"
#include "buffer/page_image.hpp"
#include "index/index_log.hpp"
#include "txn/row_log.hpp"

namespace ls {

namespace {

Status redo(const PageOperation &op, u8 *page, PageNo page_no) {
  const PageKind kind = reinterpret_cast<const PageHeader *>(page)->kind;
  switch (op_family(op.code)) {
    case kOpSpace:
    case kOpTree:
      return BTree::redo(op.code, op.operands, page, page_no);
    case kOpRow:
      if (kind != (op.code == kRowIdHigh ? PageKind::kMeta : PageKind::kLeaf))
        return fail(LS_CORRUPT, "the page is of another kind");
      return row_redo(op.code, op.operands, page, op.tn);
    case kOpImage:
      return page_image_redo(op.operands, page, page_no);
    case kOpIndex:
      if (kind != (op.code == kIndexStale ? PageKind::kMeta : PageKind::kLeaf))
        return fail(LS_CORRUPT, "the page is of another kind");
      return index_redo(op.code, op.operands, page);
    default:
      return fail(LS_CORRUPT, "unknown operation");
  }
}

bool key_of(const PageOperation &op, u8 *room, Bytes *key) {
  Bytes value;
  if (is_blind(op.code) || op.code == kIndexInsert) return unpack_change(op.operands, key, &value);
  if (op_family(op.code) != kOpRow || op.code == kRowIdHigh) return false;
  LogUnpacker in(op.operands);
  const u64 first = in.number();
  encode_row_key(op.code == kRowRemove ? unzigzag(first) : first, room);
  *key = Bytes(room, kRowKeyBytes);
  return in.good();
}

PageOperation operation_of(const RedoOp &op) {
  return {op.code, Bytes(op.operands, op.bytes), op.tn};
}

Status fail_op(const FileSlot &file, PageNo page_no, const RedoOp &op) {
  const ls_error cause = last_error();
  return fail_page(file.path, page_no, "log record at position %llu, GSN %llu: %.200s",
                   static_cast<unsigned long long>(op.lsn), static_cast<unsigned long long>(op.gsn),
                   cause.message);
}

// Of a page that was not in use.
bool makes_page(u8 code) { return code == kTreeImage || code == kTreeFormat || makes_trunk(code); }

}  // namespace

bool is_whole_page(u8 code) { return code == kPageImage || makes_page(code); }

Status redo_op(const RedoOp &op, const FileSlot &file, u8 *page, PageNo page_no) {
  const Status status = redo(operation_of(op), page, page_no);
  return code(status) == LS_CORRUPT ? fail_op(file, page_no, op) : status;
}

namespace {

// The last operation that has all of the page, or the end.
size_t last_whole(std::span<const RedoOp> ops) {
  for (size_t i = ops.size(); i-- > 0;) {
    if (is_whole_page(ops[i].code)) return i;
  }
  return ops.size();
}

}  // namespace

Status redo_page(BufferPool &pool, const RecoveryPages::Page &page, bool started_empty,
                 std::span<const RedoOp> ops, RedoStats *stats, bool *truncated) {
  ExclusiveGuard guard = ExclusiveGuard::lock(pool, page.frame);
  u8 *bytes = pool.page(page.frame);
  const Gsn &page_gsn = reinterpret_cast<const PageHeader *>(bytes)->gsn;
  // REDO-2: what the log builds on is gone with the file's pages.
  *truncated = started_empty && page_gsn == 0 && !makes_page(ops[0].code);
  if (*truncated) return kOk;
  const size_t whole = last_whole(ops), begin = whole < ops.size() ? whole : 0;   // REDO-5
  stats->ops_skipped += begin;
  for (size_t i = begin; i < ops.size();) {
    const Gsn gsn = ops[i].gsn;
    const bool older = page_gsn < gsn;   // REDO-1
    for (; i < ops.size() && ops[i].gsn == gsn; i++) {
      if (!older) {
        stats->ops_skipped++;
        continue;
      }
      LS_TRY(redo_op(ops[i], *page.file, bytes, page.page_no));
      stats->ops_applied++;
    }
    if (older) pool.mark_dirty(page.frame, gsn);
  }
  return kOk;
}

bool have_whole_page(std::span<const RedoOp> ops) { return last_whole(ops) < ops.size(); }

void begin_anew(BufferPool &pool, RecoveryPages::Page *page) {
  const ExclusiveGuard guard = ExclusiveGuard::lock(pool, page->frame);
  LS_ASSERT(page->frame->dirty_since.load(std::memory_order_relaxed) == 0);
  std::memset(pool.page(page->frame), 0, kPageSize);
  page->damaged = false;
  if (page->page_no == kMetaPageNo) page->file->meta_torn.store(false, std::memory_order_relaxed);
  ChangeBufferLock(*pool.shared(), *page->file, page->page_no).remove_all();
}

bool must_wait(BufferPool &pool, const RecoveryPages::Page &page) {
  return page.damaged || has_buffered_changes(*pool.shared(), *page.file, page.page_no);
}

Status read_damaged(Ctx &ctx, const RecoveryPages::Page &page) {
  bool absent;
  const Status status =
      read_or_zero(*ctx.pool, ctx, *page.file, page.page_no, page.frame, &absent);
  if (code(status) == LS_CORRUPT) return kOk;
  LS_TRY(status);
  return fail_page(page.file->path, page.page_no, "the page was damaged a moment ago");
}

bool are_blind(std::span<const RedoOp> ops) {
  return std::all_of(ops.begin(), ops.end(), [](const RedoOp &op) { return is_blind(op.code); });
}

namespace {

// Of entries alone: what the page's parent knows of it stays.
bool can_wait(u8 code) {
  switch (code) {
    case kTreeInsert:
    case kTreeOverwrite:
    case kRowInsert:
    case kRowInsertMany:
    case kRowInsertCopied:
    case kRowUpdate:
    case kRowDelete:
    case kRowRemove:
    case kRowRestore:
    case kIndexInsert:
    case kIndexRemove:
    case kIndexRemoveDated:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool can_wait(std::span<const RedoOp> ops) {
  u8 room[kRowKeyBytes];
  Bytes key;
  // By which its leaf is found later.
  if (!key_of(operation_of(ops[0]), room, &key)) return false;
  return std::all_of(ops.begin(), ops.end(), [](const RedoOp &op) { return can_wait(op.code); });
}

bool let_wait(BufferPool &pool, const RecoveryPages::Page &page, std::span<const RedoOp> ops) {
  ChangeBufferLock waiting(*pool.shared(), *page.file, page.page_no);
  BufferedChange *made = nullptr, **end = &made;
  bool room = true;
  for (const RedoOp &op : ops) {
    BufferedChange *change = waiting.make(op.code, op.bytes, op.tn);
    room = change != nullptr;
    if (!room) break;
    std::memcpy(change->operands, op.operands, op.bytes);
    change->gsn = op.gsn;
    *end = change;
    end = &change->next;
  }
  while (made) {
    BufferedChange *change = std::exchange(made, made->next);
    change->next = nullptr;
    if (room) waiting.add(change, change->gsn);
    else waiting.give_back(change);
  }
  return room;
}

TreeOps redo_tree_ops() {
  TreeOps ops = BTree::ops();
  ops.redo = redo;
  ops.key_of = key_of;
  return ops;
}

}  // namespace ls
