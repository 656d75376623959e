// row_leaf.cpp - opening the leaf of a row, inserting and setting values there.
#include "txn/row_leaf.hpp"

namespace ls {

bool split_row(Bytes value, RowParts *parts) {
  if (value.size() < sizeof(RowHeader)) return false;
  parts->header = RowHeader::load(value.data());
  parts->payload = value.subspan(sizeof(RowHeader));
  parts->moved_to = 0;
  if (!parts->header.has(LS_ROW_MOVED)) return true;
  if (parts->payload.size() < kMovedBytes) return false;
  std::memcpy(&parts->moved_to, parts->payload.data() + parts->payload.size() - kMovedBytes,
              kMovedBytes);
  parts->payload = parts->payload.first(parts->payload.size() - kMovedBytes);
  return true;
}

const char *row_fault(Bytes value, RowParts *parts) {
  constexpr u8 kAllFlags = LS_ROW_GHOST | LS_ROW_MOVED | LS_ROW_KEYS_CHANGED |
                           LS_ROW_SPECULATIVE | LS_ROW_HAS_PREV | LS_ROW_LOCKED | LS_ROW_COPIED;
  if (!split_row(value, parts)) return "a row's length does not fit its header";
  const RowHeader &header = parts->header;
  if (header.flags() & ~kAllFlags) return "a row has unknown flags";
  if (header.has(LS_ROW_MOVED) && (!header.has(LS_ROW_GHOST) || parts->moved_to > LS_MAX_ROW_ID))
    return "a row's forward pointer is damaged";
  if (parts->payload.size() > LS_MAX_ROW_BYTES) return "a row is longer than one can be";
  return nullptr;
}

Status fail_row(const FileSlot &file, u64 row_id, const char *what) {
  return fail_page(file.path, kInvalidPageNo, "row %llu: %s",
                   static_cast<unsigned long long>(row_id), what);
}

Status RowLeaf::open(Worker &w, FileSlot &file, u64 row_id, u32 need) {
  pool_ = w.pool;
  log_ = w.ctx.log;
  blocks_ = &w.txns->row_blocks;
  file_no_ = file.file_no.load(std::memory_order_relaxed);
  kind_ = file.kind;
  first_ = last_ = row_id;
  BTree tree(w.ctx, file);
  const RowKey key(row_id);
  BTree::LeafFinger *near = w.last_leaves.of(file, row_id);
  LS_TRY(tree.leaf_near(key, need, near, guard_, &found_));
  pos_ = near->pos;
  if (found_ && value().size() < sizeof(RowHeader)) {
    const PageNo page = page_no();
    close();
    return fail_page(file.path, page, "row %llu is shorter than its header",
                     static_cast<unsigned long long>(row_id));
  }
  return kOk;
}

bool RowLeaf::insert(Bytes key, const RowHeader &header, Bytes payload) {
  LS_ASSERT(!found_);
  const u32 bytes = static_cast<u32>(sizeof header + payload.size());
  if (!node()->fits(key, bytes)) return false;
  node()->insert_at(pos_, key, Bytes(reinterpret_cast<const u8 *>(&header), sizeof header),
                    payload);
  found_ = true;
  return true;
}

u32 RowLeaf::insert_many(u64 row_id, const RowHeader &header, std::span<const ls_bytes> rows) {
  LS_ASSERT(!found_);
  const u32 n = insert_rows(node(), row_id, header, rows);
  if (n > 0) last_ = row_id + n - 1;
  return n;
}

bool RowLeaf::set(const RowHeader &header, Bytes payload, Bytes tail) {
  LS_ASSERT(found_);
  return set_row(node(), pos_, header, payload, tail);
}

void merge_small_leaf(Worker &w, FileSlot &file, u64 row_id) {
  [[maybe_unused]] const Status ignored = BTree(w.ctx, file).try_merge(RowKey(row_id));
}

u32 insert_rows(Node *node, u64 row_id, const RowHeader &header, std::span<const ls_bytes> rows) {
  const Bytes head(reinterpret_cast<const u8 *>(&header), sizeof header);
  bool found;
  bool behind_all = node->lower_bound(RowKey(row_id), &found) == node->count;
  u32 n = 0;
  for (const ls_bytes &row : rows) {
    const RowKey key(row_id + n);
    const Bytes payload(row.data, row.len);
    if (!node->covers(key) || !node->fits(key, static_cast<u32>(head.size() + payload.size())))
      break;
    if (behind_all) {
      node->append_compacting(key, head, payload);
    } else {
      const u16 pos = node->lower_bound(key, &found);
      if (found) break;
      node->insert_at(pos, key, head, payload);
    }
    n++;
  }
  if (behind_all && n > 0) node->rebuild_hints();
  return n;
}

bool set_row(Node *node, u16 pos, const RowHeader &header, Bytes payload, Bytes tail) {
  const u32 bytes = static_cast<u32>(sizeof header + payload.size() + tail.size());
  if (!node->resize_value(pos, bytes)) return false;
  u8 *out = node->value_data(pos);
  header.store(out);
  out += sizeof header;
  if (!payload.empty()) std::memcpy(out, payload.data(), payload.size());
  if (!tail.empty()) std::memcpy(out + payload.size(), tail.data(), tail.size());
  return true;
}

}  // namespace ls
