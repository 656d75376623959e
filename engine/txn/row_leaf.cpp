#include "txn/row_leaf.hpp"

namespace ls {

bool split_row(Bytes value, RowParts *parts) {
  if (value.size() < sizeof(RowHeader)) return false;
  parts->header = RowHeader::load(value.data());
  parts->payload = value.subspan(sizeof(RowHeader));
  parts->moved_to = 0;
  if (!parts->header.has(LS_ROW_MOVED)) return true;
  if (parts->payload.size() < kMovedBytes) return false;
  std::memcpy(&parts->moved_to, parts->payload.data() + parts->payload.size() - kMovedBytes, kMovedBytes);
  parts->payload = parts->payload.first(parts->payload.size() - kMovedBytes);
  return true;
}

Status fail_row(const FileSlot &file, u64 row_id, const char *what) {
  return fail_page(file.path, kInvalidPageNo, "row %llu: %s", static_cast<unsigned long long>(row_id), what);
}

Status RowLeaf::open(Worker &w, FileSlot &file, u64 row_id, u32 need) {
  pool_ = w.pool;
  BTree tree(w.ctx, file);
  const RowKey key(row_id);
  LS_TRY(tree.leaf_exclusive(key, need, guard_));
  pos_ = node()->lower_bound(key, &found_);
  if (found_ && value().size() < sizeof(RowHeader)) {
    const PageNo page = page_no();
    close();
    return fail_page(file.path, page, "row %llu is shorter than its header", static_cast<unsigned long long>(row_id));
  }
  return kOk;
}

bool RowLeaf::move_to_absent(u64 row_id, u32 value_bytes) {
  const RowKey key(row_id);
  if (!node()->covers(key) || !node()->fits(key, value_bytes)) return false;
  pos_ = node()->lower_bound(key, &found_);
  return !found_;
}

bool RowLeaf::insert(Bytes key, const RowHeader &header, Bytes payload) {
  const u32 bytes = static_cast<u32>(sizeof header + payload.size());
  if (!node()->fits(key, bytes)) return false;
  pos_ = node()->insert(key, Bytes(reinterpret_cast<const u8 *>(&header), sizeof header), payload);
  found_ = true;
  return true;
}

bool RowLeaf::set(const RowHeader &header, Bytes payload, Bytes tail) {
  return set_row(node(), pos_, header, payload, tail);
}

void merge_small_leaf(Worker &w, FileSlot &file, u64 row_id) {
  [[maybe_unused]] const Status ignored = BTree(w.ctx, file).try_merge(RowKey(row_id));
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
