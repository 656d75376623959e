#include "txn/row_purge.hpp"

#include <algorithm>

namespace ls {

namespace {

constexpr u32 kMostRows = kPageSize / (sizeof(Slot) + sizeof(RowHeader));

// A fence as the first row id at or behind it: absent bytes of a truncated key count as zero.
u64 fence_row(Bytes fence) {
  u8 key[kRowKeyBytes] = {};
  if (!fence.empty()) std::memcpy(key, fence.data(), std::min<size_t>(fence.size(), kRowKeyBytes));
  return decode_row_key(key);
}

bool dead(Bytes value, Tn horizon) {
  if (value.size() < sizeof(RowHeader)) return false;
  const RowHeader header = RowHeader::load(value.data());
  return header.has(LS_ROW_GHOST) && header.tn() < horizon;
}

}  // namespace

Status purge_leaf(Worker &w, FileSlot &file, u64 row_id, Tn horizon, PurgeResult *result) {
  *result = PurgeResult{};
  LS_TRY(w.log.reserve(row_record_room(kMostRows * kRowIdBytes), w.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(w, file, row_id, 0));
  Node *node = leaf.node();
  result->first_row = fence_row(node->lower_fence());
  result->end_row = node->has_upper ? fence_row(node->upper_fence()) : LS_MAX_ROW_ID + 1;
  u64 removed[kMostRows];
  for (u16 pos = 0; pos < node->count;) {
    u8 key[kMaxKeyBytes];
    if (!dead(node->value(pos), horizon) || node->copy_key(pos, key) != kRowKeyBytes) {
      pos++;
      continue;
    }
    removed[result->removed++] = decode_row_key(key);
    node->remove(pos);
  }
  if (result->removed == 0) return kOk;
  leaf.changed(log_remove_many(w, file, leaf.page_no(), std::span<const u64>(removed, result->removed)));
  const bool small = leaf.is_small();
  leaf.close();
  file.rows_gone.fetch_add(result->removed, std::memory_order_relaxed);
  w.txns->ghosts_removed.fetch_add(result->removed, std::memory_order_relaxed);
  if (small) merge_small_leaf(w, file, row_id);
  return kOk;
}

}  // namespace ls
