// redo_page.cpp - a record meets its page: older, newer, or not the one it knew.
#include "recovery/redo_page.hpp"

#include <cstring>

#include "btree/tree.hpp"
#include "btree/tree_redo.hpp"
#include "buffer/change_buffer.hpp"
#include "buffer/page_guard.hpp"
#include "index/index_log.hpp"
#include "txn/row_log.hpp"

namespace ls {

namespace {

Status apply(const RedoOp &op, u8 *page, PageNo page_no) {
  const Bytes operands(op.operands, op.bytes);
  const PageKind kind = reinterpret_cast<const PageHeader *>(page)->kind;
  switch (op_family(op.code)) {
    case kOpSpace:
    case kOpTree:
      return BTree::redo(op.code, operands, page, page_no);
    case kOpRow:
      if (kind != (op.code == kRowIdHigh ? PageKind::kMeta : PageKind::kLeaf))
        return fail(LS_CORRUPT, "the page is of another kind");
      return row_redo(op.code, operands, page, op.tn);
    case kOpIndex:
      if (kind != (op.code == kIndexStale ? PageKind::kMeta : PageKind::kLeaf))
        return fail(LS_CORRUPT, "the page is of another kind");
      return index_redo(op.code, operands, page);
    default:
      return fail(LS_CORRUPT, "unknown operation");
  }
}

Status fail_op(const FileSlot &file, PageNo page_no, const RedoOp &op) {
  const ls_error cause = last_error();
  return fail_page(file.path, page_no, "log record at position %llu, GSN %llu: %.200s",
                   static_cast<unsigned long long>(op.lsn), static_cast<unsigned long long>(op.gsn),
                   cause.message);
}

}  // namespace

Status redo_page(BufferPool &pool, const RecoveryPages::Page &page, bool started_empty,
                 std::span<const RedoOp> ops, RedoStats *stats, bool *truncated) {
  ExclusiveGuard guard = ExclusiveGuard::lock(pool, page.frame);
  u8 *bytes = pool.page(page.frame);
  const Gsn &page_gsn = reinterpret_cast<const PageHeader *>(bytes)->gsn;
  *truncated = false;
  for (size_t i = 0; i < ops.size();) {
    const Gsn gsn = ops[i].gsn;
    const size_t record = i;
    const bool older = page_gsn < gsn;   // REDO-1
    for (; i < ops.size() && ops[i].gsn == gsn; i++) {
      if (!older) {
        stats->ops_skipped++;
        continue;
      }
      const Status status = apply(ops[i], bytes, page.page_no);
      if (code(status) == LS_CORRUPT) {
        // REDO-2: what the log builds on is gone with the file's pages.
        *truncated = started_empty && page_gsn == 0 && i == record;
        return *truncated ? kOk : fail_op(*page.file, page.page_no, ops[i]);
      }
      LS_TRY(status);
      stats->ops_applied++;
    }
    if (older) pool.mark_dirty(page.frame, gsn);
  }
  return kOk;
}

bool must_wait(BufferPool &pool, const RecoveryPages::Page &page) {
  return page.damaged || has_buffered_changes(*pool.shared(), *page.file, page.page_no);
}

Status let_wait(Ctx &ctx, const RecoveryPages::Page &page, std::span<const RedoOp> ops) {
  PoolShared &shared = *ctx.pool->shared();
  for (const RedoOp &op : ops) {
    if (op.code != kTreeInsert && op.code != kTreeOverwrite) {
      bool absent;
      // says what is wrong
      LS_TRY(read_or_zero(*ctx.pool, ctx, *page.file, page.page_no, page.frame, &absent));
      return fail_page(page.file->path, page.page_no, "the page was damaged a moment ago");
    }
    ChangeBufferLock waiting(shared, *page.file, page.page_no);
    BufferedChange *change = waiting.make(op.code, op.bytes);
    if (!change)
      return fail(LS_NO_FRAMES, "the buffer pool is too small for what waits for damaged pages");
    std::memcpy(change->operands, op.operands, op.bytes);
    waiting.add(change, op.gsn);
  }
  return kOk;
}

}  // namespace ls
