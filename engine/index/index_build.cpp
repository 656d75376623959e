#include "index/index_build.hpp"

#include <new>

#include "index/index_log.hpp"

namespace ls {

Status IndexBuild::open(Worker &w, FileSlot &index, u32 fill_percent, IndexBuild **build) {
  if (fill_percent < 10 || fill_percent > 100) return fail(LS_INVALID, "fill factor %u is out of range", fill_percent);
  alignas(64) u8 page[kPageSize];
  const Node *leaf = reinterpret_cast<const Node *>(page);
  LS_TRY(BTree(w.ctx, index).leaf_copy({}, page));
  if (leaf->count != 0 || leaf->has_upper) return fail(LS_INVALID, "index \"%s\" is built twice", index.path);
  *build = new (std::nothrow) IndexBuild(w, index);
  return *build ? kOk : fail(LS_NO_MEMORY, "no memory for an index build");
}

void IndexBuild::close(IndexBuild *build) { delete build; }

Status IndexBuild::add(Bytes entry, Bytes payload) {
  if (entry.size() < kEntryRowIdBytes || entry.size() > kMaxEntryKeyBytes) {
    return fail(LS_TOO_LARGE, "index entry with a key of %zu bytes", entry.size());
  }
  LS_TRY(check_entry_size(entry_key(entry), payload));
  if (last_bytes_ != 0 && compare_keys(Bytes(last_, last_bytes_), entry) >= 0) {
    return fail(LS_INVALID, "index entries are not in ascending order");
  }
  const u32 need = Node::most_entry_bytes(static_cast<u32>(entry.size()), static_cast<u32>(payload.size()));
  LS_TRY(w_.log.reserve(index_record_room(need), w_.ctx.interrupt));
  ExclusiveGuard leaf;
  LS_TRY(tree_.leaf_exclusive(entry, need, leaf));
  Node *node = reinterpret_cast<Node *>(leaf.page());
  node->insert(entry, payload);
  w_.pool->mark_dirty(leaf.frame(), log_entry_insert(w_, index_, node->header.page_no, entry, payload));
  last_bytes_ = static_cast<u32>(entry.size());
  std::memcpy(last_, entry.data(), entry.size());
  return kOk;
}

Status IndexBuild::finish() {
  if (!index_.logged) return kOk;
  Log &log = w_.log.log();
  if (log.wait_hardened(log.last_gsn(), w_.ctx.interrupt)) return kOk;
  return fail(LS_INTERRUPTED, "interrupted while an index was hardened");
}

}  // namespace ls
