// rows_there.cpp - the rows of a leaf as bits.
#include "txn/rows_there.hpp"

#include "txn/row_leaf.hpp"

namespace ls {

u64 begin_rows_there(const FileSlot &table, ls_rows_there *there) {
  if (!there->begun) there->gone = table.rows_gone.load(std::memory_order_acquire);
  there->begun = true;
  return there->gone;
}

Status note_rows_there(Worker &w, FileSlot &table, u64 row_id, ls_rows_there *there) {
  if (row_id >= there->end) return kOk;
  begin_rows_there(table, there);
  alignas(64) u8 page[kPageSize];
  LS_TRY(BTree(w.ctx, table).leaf_copy(RowKey(row_id), page));
  const Node &leaf = *reinterpret_cast<const Node *>(page);
  for (u16 pos = 0; pos < leaf.count; pos++) {
    u8 key[kMaxKeyBytes];
    const Bytes value = leaf.value(pos);
    if (value.size() < sizeof(RowHeader) || leaf.copy_key(pos, key) != kRowKeyBytes) continue;
    const u64 id = decode_row_key(key);
    if (id >= there->end || RowHeader::load(value.data()).has(LS_ROW_GHOST)) continue;
    there->bits[id / 64] |= u64{1} << id % 64;
  }
  return kOk;
}

}  // namespace ls
