#include "version/version_store.hpp"

#include <algorithm>

namespace ls {

VersionKey::VersionKey(Tn tn, u32 seq) {
  const u64 tn_be = __builtin_bswap64(tn);
  const u32 seq_be = __builtin_bswap32(seq);
  std::memcpy(bytes, &tn_be, 8);
  std::memcpy(bytes + 8, &seq_be, 4);
}

VersionLocator decode_version_key(Bytes key) {
  u64 tn_be = 0;
  u32 seq_be = 0;
  std::memcpy(&tn_be, key.data(), 8);
  std::memcpy(&seq_be, key.data() + 8, 4);
  return {__builtin_bswap64(tn_be), __builtin_bswap32(seq_be)};
}

VersionLocator older_needed(const RowHeader &previous, Tn horizon) {
  if (!previous.has(LS_ROW_HAS_PREV) || previous.tn() < horizon) return {};
  return {previous.tn(), previous.seq};
}

bool parse_version(Bytes value, VersionEntry *entry, Bytes *payload) {
  if (value.size() < sizeof(VersionEntry)) return false;
  std::memcpy(entry, value.data(), sizeof *entry);
  *payload = value.subspan(sizeof *entry);
  return entry->payload_bytes == payload->size() && entry->op >= VersionOp::kInsert && entry->op <= VersionOp::kLock;
}

Status VersionStore::put(VersionLocator at, const VersionEntry &entry, Bytes payload) {
  const VersionKey key(at.tn, at.seq);
  const u32 bytes = static_cast<u32>(sizeof entry + payload.size());
  const Bytes head(reinterpret_cast<const u8 *>(&entry), sizeof entry);
  // The room is asked for only when it turns out to be missing: an entry being overwritten makes room itself.
  for (u32 need = 0;; need = Node::most_entry_bytes(kVersionKeyBytes, bytes)) {
    ExclusiveGuard leaf;
    LS_TRY(tree_.leaf_exclusive(key, need, leaf));
    Node *node = reinterpret_cast<Node *>(leaf.page());
    bool found;
    const u16 pos = node->lower_bound(key, &found);
    if (found) node->remove(pos);
    const bool fits = node->fits(key, bytes);
    if (fits) node->insert(key, head, payload);
    if (found || fits) tree_.ctx().pool->mark_dirty(leaf.frame(), 0);
    if (fits) return kOk;
  }
}

Status VersionStore::get(VersionLocator at, u8 *out, const VersionEntry **entry) {
  u32 bytes = 0;
  LS_TRY(tree_.lookup(VersionKey(at.tn, at.seq), out, kPageSize, &bytes));
  const VersionEntry *e = reinterpret_cast<const VersionEntry *>(out);
  if (bytes < sizeof(VersionEntry) || e->payload_bytes != bytes - sizeof(VersionEntry)) {
    return fail(LS_CORRUPT, "version entry (%llu, %u) has %u bytes", static_cast<unsigned long long>(at.tn), at.seq,
                bytes);
  }
  *entry = e;
  return kOk;
}

Status VersionStore::take_back(Tn tn, u32 from, u32 before, u8 *leaf, void *arg,
                               Status (*each)(void *arg, u32 seq, const VersionEntry &entry, Bytes payload)) {
  const VersionKey first(tn, from);
  VersionKey bound_key(tn, before);
  u8 bound[kPageSize];
  u32 bound_bytes = kVersionKeyBytes;
  std::memcpy(bound, bound_key.bytes, kVersionKeyBytes);
  for (;;) {
    LS_TRY(tree_.leaf_copy_before(Bytes(bound, bound_bytes), false, leaf));
    const Node *node = reinterpret_cast<const Node *>(leaf);
    bool found;
    const Bytes upper = node->upper_fence();
    const Bytes end(bound, bound_bytes);
    const bool end_in_leaf = !node->has_upper || std::lexicographical_compare(end.begin(), end.end(), upper.begin(), upper.end());
    u32 pos = end_in_leaf ? node->lower_bound(end, &found) : node->count;
    u32 smallest = before;
    bool reached = false;
    while (pos > 0) {
      u8 key[kMaxKeyBytes];
      const u16 key_bytes = node->copy_key(static_cast<u16>(--pos), key);
      if (key_bytes != kVersionKeyBytes) return fail(LS_CORRUPT, "version store key has %u bytes", key_bytes);
      const VersionLocator at = decode_version_key(Bytes(key, key_bytes));
      if (at.tn != tn || at.seq < from) {
        reached = true;
        break;
      }
      VersionEntry entry;
      Bytes payload;
      if (!parse_version(node->value(static_cast<u16>(pos)), &entry, &payload)) {
        return fail(LS_CORRUPT, "version entry (%llu, %u) is damaged", static_cast<unsigned long long>(tn), at.seq);
      }
      LS_TRY(each(arg, at.seq, entry, payload));
      smallest = at.seq;
    }
    if (smallest < before) LS_TRY(remove_in_leaf(tn, smallest, before));
    before = smallest;
    const Bytes lower = node->lower_fence();
    if (reached || lower.empty() ||
        !std::lexicographical_compare(first.bytes, first.bytes + kVersionKeyBytes, lower.begin(), lower.end())) {
      return kOk;
    }
    bound_bytes = static_cast<u32>(lower.size());
    std::memcpy(bound, lower.data(), bound_bytes);
  }
}

// Entries [first, before) of tn: as many leaves as they lie in by now.
Status VersionStore::remove_in_leaf(Tn tn, u32 first, u32 before) {
  const VersionKey low(tn, first);
  const VersionKey high(tn, before);
  u8 next[kMaxKeyBytes];
  Bytes from = low;
  for (;;) {
    ExclusiveGuard leaf;
    LS_TRY(tree_.leaf_exclusive(from, 0, leaf));
    Node *node = reinterpret_cast<Node *>(leaf.page());
    bool found;
    const u16 pos = node->lower_bound(from, &found);
    u8 key[kMaxKeyBytes];
    bool changed = false;
    bool beyond = false;
    while (pos < node->count && !beyond) {
      const u16 bytes = node->copy_key(pos, key);
      beyond = bytes != kVersionKeyBytes || std::memcmp(key, high.bytes, kVersionKeyBytes) >= 0;
      if (beyond) break;
      node->remove(pos);
      changed = true;
    }
    if (changed) tree_.ctx().pool->mark_dirty(leaf.frame(), 0);
    if (beyond || !node->has_upper) return kOk;
    const Bytes upper = node->upper_fence();
    std::memcpy(next, upper.data(), upper.size());
    from = Bytes(next, upper.size());
    if (!std::lexicographical_compare(from.begin(), from.end(), high.bytes, high.bytes + kVersionKeyBytes)) return kOk;
  }
}

}  // namespace ls
