// row_purge.cpp - ghosts below the horizon, and those that no snapshot sees, out of a leaf; the
// versions of these.
#include "txn/row_purge.hpp"

#include <algorithm>
#include <optional>

#include "base/check.hpp"
#include "txn/row_gone.hpp"
#include "txn/vanished_values.hpp"

namespace ls {

namespace {

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

void note_range(const Node &leaf, PurgeResult *result) {
  result->first_row = fence_row(leaf.lower_fence());
  result->end_row = rows_end(leaf);
}

// Says that these rows have been removed from the leaf, and lets go of it.
void close_purged(Worker &w, FileSlot &file, RowLeaf &leaf, std::span<const u64> removed) {
  LS_ASSERT(!removed.empty());
  leaf.purged(log_remove_many(w, file, leaf.page_no(), removed));
  const bool small = leaf.is_small();
  file.rows_gone.fetch_add(removed.size(), std::memory_order_relaxed);  // GONE-5
  leaf.close();
  w.txns->ghosts_removed.fetch_add(removed.size(), std::memory_order_relaxed);
  if (small) merge_small_leaf(w, file, removed[0]);
}

struct UnseenGhost {
  u64 row_id;
  VersionLocator at;
};

// *all: how many ghosts there are.
Status find_unseen(Worker &w, const Node &copy, UnseenGhost *ghosts, u32 *n, u32 *all) {
  *n = *all = 0;
  for (u16 pos = 0; pos < copy.count; pos++) {
    const Bytes value = copy.value(pos);
    u8 key[kMaxKeyBytes];
    if (value.size() < sizeof(RowHeader) || copy.copy_key(pos, key) != kRowKeyBytes) continue;
    const RowHeader header = RowHeader::load(value.data());
    *all += header.has(LS_ROW_GHOST);
    if (!header.has(LS_ROW_GHOST) || header.has(LS_ROW_MOVED)) continue;
    bool final;
    LS_TRY(deletion_final(w, header, &final));
    if (final) ghosts[(*n)++] = {decode_row_key(key), {header.tn(), header.seq}};
  }
  return kOk;
}

// The row is gone, so no reader comes to these entries any more, but for that of a run, to which
// other rows lead.
Status drop_versions(Worker &w, VersionLocator at) {
  alignas(8) u8 bytes[kPageSize];
  while (at) {
    VersionStore store = version_store(w, at.tn);
    const VersionEntry *entry = nullptr;
    const Status s = store.get(at, bytes, &entry);
    if (code(s) == LS_NOT_FOUND) return kOk;
    LS_TRY(s);
    if (entry->run != 0) return kOk;
    LS_TRY(store.remove(at));
    w.txns->versions_removed.fetch_add(1, std::memory_order_relaxed);
    at = entry->older();
  }
  return kOk;
}

}  // namespace

u64 rows_end(const Node &leaf) {
  return leaf.has_upper ? fence_row(leaf.upper_fence()) : LS_MAX_ROW_ID + 1;
}

Status purge_leaf(Worker &w, FileSlot &file, u64 row_id, Tn horizon, PurgeResult *result) {
  LS_ASSERT(horizon <= txn_horizon(*w.txns));  // GONE-2
  *result = PurgeResult{};
  LS_TRY(w.log.reserve(row_record_room(kMaxLeafRows * kMostRowIdBytes), w.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(w, file, row_id, 0));
  Node *node = leaf.node();
  note_range(*node, result);
  std::optional<VanishedValues> values;
  if (file.kind == LS_REL_VALUES) values.emplace(w, file, *node);
  u64 removed[kMaxLeafRows];
  for (u16 pos = 0; pos < node->count;) {
    u8 key[kMaxKeyBytes];
    if (!dead(node->value(pos), horizon) || node->copy_key(pos, key) != kRowKeyBytes) {
      pos++;
      continue;
    }
    removed[result->removed++] = decode_row_key(key);
    if (values) values->add(removed[result->removed - 1]);
    node->remove(pos);
  }
  if (result->removed > 0)
    close_purged(w, file, leaf, std::span<const u64>(removed, result->removed));
  leaf.close();
  if (values) values->free_pages();
  return kOk;
}

Status purge_unseen(Worker &w, FileSlot &file, u64 row_id, PurgeResult *result) {
  *result = {.first_row = row_id, .end_row = row_id + 1, .ghosts_left = true};
  if (file.kind == LS_REL_VALUES) return kOk;  // GONE-4
  alignas(64) u8 page[kPageSize];
  const Node &copy = *reinterpret_cast<const Node *>(page);
  LS_TRY(BTree(w.ctx, file).leaf_copy(RowKey(row_id), page));
  note_range(copy, result);
  UnseenGhost ghosts[kMaxLeafRows];
  u32 n, all;
  LS_TRY(find_unseen(w, copy, ghosts, &n, &all));
  result->ghosts_left = all > 0;
  if (n == 0) return kOk;

  LS_TRY(w.log.reserve(row_record_room(kMaxLeafRows * kMostRowIdBytes), w.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(w, file, ghosts[0].row_id, 0));
  u64 removed[kMaxLeafRows];
  VersionLocator versions[kMaxLeafRows];
  for (u32 i = 0; i < n; i++) {
    // Split since: what has gone to another leaf is met there.
    if (!leaf.node()->covers(RowKey(ghosts[i].row_id))) break;
    bool found;
    const u16 pos = leaf.node()->lower_bound(RowKey(ghosts[i].row_id), &found);
    if (!found) continue;
    const Bytes value = leaf.node()->value(pos);
    if (value.size() < sizeof(RowHeader)) continue;
    const RowHeader now = RowHeader::load(value.data());
    if (now.tn() != ghosts[i].at.tn || now.seq != ghosts[i].at.seq) continue;
    leaf.node()->remove(pos);
    removed[result->removed] = ghosts[i].row_id;
    versions[result->removed++] = ghosts[i].at;
  }
  if (result->removed == 0) return kOk;
  result->ghosts_left = all > result->removed;
  close_purged(w, file, leaf, std::span<const u64>(removed, result->removed));
  for (u32 i = 0; i < result->removed; i++) LS_TRY(drop_versions(w, versions[i]));
  return kOk;
}

}  // namespace ls
