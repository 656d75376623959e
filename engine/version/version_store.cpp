// version_store.cpp - keys and entries; put, get, removal by transaction.
#include "version/version_store.hpp"

#include <utility>

#include "base/check.hpp"

namespace ls {

namespace {

constexpr u32 kOneByteSeqs = 0x80;                          // 0xxxxxxx
// 10xxxxxx xxxxxxxx, counted from kOneByteSeqs on
constexpr u32 kTwoByteSeqs = kOneByteSeqs + 0x4000;
constexpr u8 kTwoByteMark = 0x80, kFiveByteMark = 0xc0;     // 11000000 and four bytes

// Does it stand for the `number`-th entry of a run?
bool is_in_run(const VersionEntry &entry, u32 number) {
  return entry.op == VersionOp::kDelete && number < entry.run;
}

// The `number`-th of a run alone.
VersionEntry member_of(const VersionEntry &entry, u32 number) {
  LS_ASSERT(number == 0 || is_in_run(entry, number));   // VER-4
  VersionEntry member = entry;
  member.row_id = entry.row_id + number;
  return member;
}

}  // namespace

VersionKey::VersionKey(Tn tn, u32 seq) {
  const u64 tn_be = __builtin_bswap64(tn) >> 16;
  std::memcpy(bytes, &tn_be, kVersionTnBytes);
  u8 *p = bytes + kVersionTnBytes;
  if (seq < kOneByteSeqs) {
    *p++ = static_cast<u8>(seq);
  } else if (seq < kTwoByteSeqs) {
    *p++ = static_cast<u8>(kTwoByteMark | (seq - kOneByteSeqs) >> 8);
    *p++ = static_cast<u8>(seq - kOneByteSeqs);
  } else {
    *p++ = kFiveByteMark;
    const u32 seq_be = __builtin_bswap32(seq);
    std::memcpy(p, &seq_be, sizeof seq_be);
    p += sizeof seq_be;
  }
  length = static_cast<u32>(p - bytes);
}

bool decode_version_key(Bytes key, VersionLocator *at) {
  if (key.size() <= kVersionTnBytes) return false;
  u64 tn_be = 0;
  std::memcpy(&tn_be, key.data(), kVersionTnBytes);
  at->tn = __builtin_bswap64(tn_be << 16);
  const Bytes seq = key.subspan(kVersionTnBytes);
  if (seq.size() == 1 && seq[0] < kTwoByteMark) {
    at->seq = seq[0];
  } else if (seq.size() == 2 && seq[0] >= kTwoByteMark && seq[0] < kFiveByteMark) {
    at->seq = kOneByteSeqs + (u32{seq[0]} - kTwoByteMark) * 256 + seq[1];
  } else if (seq.size() == 5 && seq[0] == kFiveByteMark) {
    u32 seq_be;
    std::memcpy(&seq_be, seq.data() + 1, sizeof seq_be);
    at->seq = __builtin_bswap32(seq_be);
  } else {
    return false;
  }
  return true;
}

VersionLocator older_needed(const RowHeader &previous, Tn horizon) {
  if (!previous.has(LS_ROW_HAS_PREV) || previous.tn() < horizon) return {};
  return {previous.tn(), previous.seq};
}

bool parse_version(Bytes value, VersionEntry *entry, Bytes *payload) {
  if (value.size() < sizeof(VersionEntry)) return false;
  std::memcpy(entry, value.data(), sizeof *entry);
  *payload = value.subspan(sizeof *entry);
  return entry->payload_bytes == payload->size() && entry->op >= VersionOp::kInsert &&
         entry->op <= VersionOp::kLock && entry->run <= kVersionRun &&
         (entry->run == 0 || entry->op == VersionOp::kDelete);
}

Status VersionStore::put(VersionLocator at, const VersionEntry &entry, Bytes payload) {
  LS_ASSERT(entry.run == 0 || at.seq % kVersionRun == 0);   // VER-4
  const VersionKey key(at.tn, at.seq);
  const u32 bytes = static_cast<u32>(sizeof entry + payload.size());
  const Bytes head(reinterpret_cast<const u8 *>(&entry), sizeof entry);
  std::atomic<Frame *> &last_leaf = tree_.file().last_leaf;
  // The room is asked for only when it turns out to be missing: an entry being overwritten makes
  // room itself.
  for (u32 need = 0;; need = Node::most_entry_bytes(kMaxVersionKeyBytes, bytes)) {
    ExclusiveGuard leaf;
    LS_TRY(tree_.leaf_exclusive(key, need, leaf, last_leaf.load(std::memory_order_relaxed)));
    Node *node = reinterpret_cast<Node *>(leaf.page());
    if (!node->has_upper && last_leaf.load(std::memory_order_relaxed) != leaf.frame()) {
      last_leaf.store(leaf.frame(), std::memory_order_relaxed);
    }
    bool found;
    const u16 pos = node->lower_bound(key, &found);
    if (found) node->remove(pos);
    const bool fits = node->fits(key, bytes);
    if (fits) {
      node->insert_at(pos, key, head, payload);
      leaves_.note(at.tn, at.seq, tree_.ctx().pool->index_of(leaf.frame()));
    }
    if (found || fits) tree_.ctx().pool->mark_dirty(leaf.frame(), 0);
    if (fits) return kOk;
  }
}

Status VersionStore::get(VersionLocator at, u8 *out, const VersionEntry **entry) {
  VersionEntry *found = nullptr;
  *entry = nullptr;
  Status s = read(at, out, &found);
  const u32 number = at.seq % kVersionRun;
  if (code(s) == LS_NOT_FOUND && number != 0 && at.seq > number) {
    s = read({at.tn, at.seq - number}, out, &found);
    if (ok(s) && !is_in_run(*found, number)) return make_status(LS_NOT_FOUND);
    if (ok(s)) *found = member_of(*found, number);
  }
  *entry = found;
  return s;
}

Status VersionStore::read(VersionLocator at, u8 *out, VersionEntry **entry) {
  u32 bytes = 0;
  BTree::LeafFinger near{{guess(at), BTree::kNoVersion}};
  LS_TRY(tree_.lookup_near(VersionKey(at.tn, at.seq), &near, out, kPageSize, &bytes));
  VersionEntry *e = reinterpret_cast<VersionEntry *>(out);
  if (bytes < sizeof(VersionEntry) || e->payload_bytes != bytes - sizeof(VersionEntry)) {
    return fail(LS_CORRUPT, "version entry (%llu, %u) has %u bytes",
                static_cast<unsigned long long>(at.tn), at.seq, bytes);
  }
  *entry = e;
  return kOk;
}

Frame *VersionStore::guess(VersionLocator at) {
  u32 index;
  return leaves_.guess(at.tn, at.seq, &index) ? tree_.ctx().pool->frame(index) : nullptr;
}

const VersionEntry *VersionStore::at_hint(const LeafHint &hint, u8 *out) {
  u32 bytes = 0;
  const VersionEntry *entry = reinterpret_cast<const VersionEntry *>(out);
  if (!tree_.value_at(hint, out, kPageSize, &bytes) || bytes < sizeof *entry) return nullptr;
  return entry->payload_bytes == bytes - sizeof *entry ? entry : nullptr;
}

Status VersionStore::take_back(Tn tn, u32 from, u32 before, u8 *leaf, void *arg,
                               Status (*each)(void *arg, u32 seq, const VersionEntry &entry,
                                              Bytes payload)) {
  const VersionKey first(tn, from);
  const VersionKey bound_key(tn, before);
  u8 bound[kPageSize];
  u32 bound_bytes = bound_key.length;
  std::memcpy(bound, bound_key.bytes, bound_bytes);
  for (;;) {
    LS_TRY(tree_.leaf_copy_before(Bytes(bound, bound_bytes), false, leaf));
    const Node *node = reinterpret_cast<const Node *>(leaf);
    u32 pos = node->position_of(Bytes(bound, bound_bytes));
    u32 smallest = before;
    bool reached = false;
    while (pos > 0) {
      u8 key[kMaxKeyBytes];
      const u16 key_bytes = node->copy_key(static_cast<u16>(--pos), key);
      VersionLocator at;
      if (!decode_version_key(Bytes(key, key_bytes), &at))
        return fail(LS_CORRUPT, "version store key of %u bytes is damaged", key_bytes);
      if (at.tn != tn || at.seq < from) {
        reached = true;
        break;
      }
      VersionEntry entry;
      Bytes payload;
      if (!parse_version(node->value(static_cast<u16>(pos)), &entry, &payload)) {
        return fail(LS_CORRUPT, "version entry (%llu, %u) is damaged",
                    static_cast<unsigned long long>(tn), at.seq);
      }
      for (u32 i = entry.run; i > 1; i--)
        LS_TRY(each(arg, at.seq + i - 1, member_of(entry, i - 1), payload));
      LS_TRY(each(arg, at.seq, entry, payload));
      smallest = at.seq;
    }
    if (smallest < before) LS_TRY(remove_in_leaf(tn, smallest, before));
    before = smallest;
    const Bytes lower = node->lower_fence();
    if (reached || lower.empty() || compare_keys(first, lower) >= 0) return kOk;
    bound_bytes = static_cast<u32>(lower.size());
    std::memcpy(bound, lower.data(), bound_bytes);
  }
}

Status VersionStore::for_each(Tn tn, void *arg,
                              Status (*each)(void *arg, u32 seq, const VersionEntry &entry,
                                             Bytes payload)) {
  alignas(8) u8 leaf[kPageSize];
  u8 from[kMaxKeyBytes];
  const VersionKey first(tn, 0);
  u32 from_bytes = first.length;
  std::memcpy(from, first.bytes, from_bytes);
  for (;;) {
    LS_TRY(tree_.leaf_copy(Bytes(from, from_bytes), leaf));
    const Node *node = reinterpret_cast<const Node *>(leaf);
    bool found;
    for (u16 pos = node->lower_bound(Bytes(from, from_bytes), &found); pos < node->count; pos++) {
      u8 key[kMaxKeyBytes];
      VersionLocator at;
      VersionEntry entry;
      Bytes payload;
      if (!decode_version_key(Bytes(key, node->copy_key(pos, key)), &at))
        return fail(LS_CORRUPT, "a version store key is damaged");
      if (at.tn != tn) return kOk;
      if (!parse_version(node->value(pos), &entry, &payload)) {
        return fail(LS_CORRUPT, "version entry (%llu, %u) is damaged",
                    static_cast<unsigned long long>(tn), at.seq);
      }
      LS_TRY(each(arg, at.seq, entry, payload));
      for (u32 i = 1; i < entry.run; i++)
        LS_TRY(each(arg, at.seq + i, member_of(entry, i), payload));
    }
    if (!node->has_upper) return kOk;
    const Bytes upper = node->upper_fence();
    from_bytes = static_cast<u32>(upper.size());
    std::memcpy(from, upper.data(), from_bytes);
  }
}

// Entries [first, before) of tn: as many leaves as they lie in by now.
Status VersionStore::remove_in_leaf(Tn tn, u32 first, u32 before) {
  const VersionKey low(tn, first);
  const VersionKey high(tn, before);
  u8 next[kMaxKeyBytes];
  Bytes from = low;
  Frame *guessed = guess({tn, first});
  for (;;) {
    ExclusiveGuard leaf;
    LS_TRY(tree_.leaf_exclusive(from, 0, leaf, std::exchange(guessed, nullptr)));
    Node *node = reinterpret_cast<Node *>(leaf.page());
    bool found;
    const u16 pos = node->lower_bound(from, &found);
    u8 key[kMaxKeyBytes];
    bool changed = false;
    bool beyond = false;
    while (pos < node->count && !beyond) {
      const u16 bytes = node->copy_key(pos, key);
      beyond = compare_keys(Bytes(key, bytes), high) >= 0;
      if (beyond) break;
      node->remove(pos);
      changed = true;
    }
    if (changed) tree_.ctx().pool->mark_dirty(leaf.frame(), 0);
    if (beyond || !node->has_upper) return kOk;
    const Bytes upper = node->upper_fence();
    std::memcpy(next, upper.data(), upper.size());
    from = Bytes(next, upper.size());
    if (compare_keys(from, high) >= 0) return kOk;
  }
}

}  // namespace ls
