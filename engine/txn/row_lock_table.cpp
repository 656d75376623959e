// row_lock_table.cpp - entries put, looked for, copied to a successor, removed, swept.
#include "txn/row_lock_table.hpp"

#include "base/check.hpp"
#include "btree/entries.hpp"

namespace ls {

namespace {

constexpr u32 kLockKeyBytes = 24;
constexpr u32 kRowPartBytes = 16;    // file number and row id
// stale entries removed per visit; the rest goes at the next one
constexpr u32 kStaleBatch = 32;

struct LockKey {
  u8 bytes[kLockKeyBytes];
  LockKey(FileNo file_no, u64 row_id, Tn tn) {
    const u64 file_be = __builtin_bswap64(file_no);
    const u64 row_be = __builtin_bswap64(row_id);
    const u64 tn_be = __builtin_bswap64(tn);
    std::memcpy(bytes, &file_be, 8);
    std::memcpy(bytes + 8, &row_be, 8);
    std::memcpy(bytes + kRowPartBytes, &tn_be, 8);
  }
  operator Bytes() const { return Bytes(bytes, kLockKeyBytes); }
};

Tn key_tn(const u8 *key) {
  u64 be;
  std::memcpy(&be, key + kRowPartBytes, 8);
  return __builtin_bswap64(be);
}

FileNo key_file(const u8 *key) {
  u64 be;
  std::memcpy(&be, key, 8);
  return __builtin_bswap64(be);
}

u64 key_row(const u8 *key) {
  u64 be;
  std::memcpy(&be, key + 8, 8);
  return __builtin_bswap64(be);
}

void weigh(LockView *view, Tn tn, Tn own_tn, const LockValue &value, ls_lock_mode wanted) {
  view->any_live = true;
  if (tn == own_tn) {
    view->own = true;
    view->own_value = value;
  } else if (lock_modes_conflict(static_cast<ls_lock_mode>(value.mode), wanted)) {
    if (value.state == LockState::kTentative) {
      view->unsettled = true;
    } else {
      view->conflict_tn = tn;
      view->conflict_seq = value.seq;
    }
  }
}

}  // namespace

bool lock_modes_conflict(ls_lock_mode a, ls_lock_mode b) {
  // Bit m of row k: held k conflicts with wanted m.
  static constexpr u8 kConflicts[4] = {
      1u << LS_LOCK_UPDATE,                                                       // KEY SHARE
      1u << LS_LOCK_NO_KEY_UPDATE | 1u << LS_LOCK_UPDATE,                         // SHARE
      1u << LS_LOCK_SHARE | 1u << LS_LOCK_NO_KEY_UPDATE | 1u << LS_LOCK_UPDATE,   // NO KEY UPDATE
      0xf,                                                                        // UPDATE
  };
  return kConflicts[a & 3] >> (b & 3) & 1;
}

RowLockTable::RowLockTable(Worker &w) : w_(w), tree_(w.ctx, w.pool->file(w.txns->lock_file)) {}

// What one look at a row's leaf finds.
struct RowLockTable::RowEntries {
  static constexpr u32 kMost = 8;
  struct Entry {
    Tn tn;
    LockValue value;
  };
  Entry entries[kMost];
  u32 count;
  bool whole;   // there are no others; if there may be, or one is damaged, a walk has to tell
};

Status RowLockTable::read_row(FileNo file_no, u64 row_id, RowEntries *entries) {
  const LockKey first(file_no, row_id, 0);
  const LockKey beyond(file_no, row_id, ~Tn{0});
  return tree_.read_leaf_near(first, &w_.lock_place.leaf, [&](const Node &node) {
    entries->count = 0;
    entries->whole = false;
    bool found;
    u16 pos = node.lower_bound(first, &found);
    w_.lock_place.pos = pos;
    for (; pos < node.count; pos++) {
      u8 key[kMaxKeyBytes];
      if (node.copy_key(pos, key) != kLockKeyBytes ||
          std::memcmp(key, first.bytes, kRowPartBytes) != 0)
        break;
      const Bytes bytes = node.value(pos);
      if (entries->count == RowEntries::kMost || bytes.size() != sizeof(LockValue)) return;
      RowEntries::Entry &entry = entries->entries[entries->count++];
      entry.tn = key_tn(key);
      std::memcpy(&entry.value, bytes.data(), sizeof entry.value);
    }
    entries->whole =
        pos < node.count || !node.has_upper || compare_keys(node.upper_fence(), beyond) >= 0;
  });
}

// visit(tn, value) for each entry of the row; it may change the table: what it is given are copies.
template <typename Visit>
Status RowLockTable::for_each(FileNo file_no, u64 row_id, const Visit &visit) {
  RowEntries seen;
  LS_TRY(read_row(file_no, row_id, &seen));
  if (!seen.whole) {
    return for_each_of_rows(file_no, row_id, row_id, [&](u64, Tn tn, const LockValue &value) {
      return visit(tn, value);
    });
  }
  for (u32 i = 0; i < seen.count; i++) LS_TRY(visit(seen.entries[i].tn, seen.entries[i].value));
  return kOk;
}

// visit(row id, tn, value) for each entry of rows first to last, leaf by leaf.  A leaf with room
// for keys beyond the last row's is the last, also when its entries have gone: else a look-up would
// walk through all that transactions have rolled back.
template <typename Visit>
Status RowLockTable::for_each_of_rows(FileNo file_no, u64 first_row, u64 last_row,
                                      const Visit &visit) {
  const LockKey first(file_no, first_row, 0);
  const LockKey beyond(file_no, last_row, ~Tn{0});
  alignas(8) u8 leaf[kPageSize];
  u8 from[kMaxKeyBytes];
  u32 from_bytes = kLockKeyBytes;
  std::memcpy(from, first.bytes, kLockKeyBytes);
  for (bool more = true; more;) {
    LS_TRY(tree_.leaf_copy(Bytes(from, from_bytes), leaf));
    const Node *node = reinterpret_cast<const Node *>(leaf);
    bool found;
    u16 pos = node->lower_bound(Bytes(from, from_bytes), &found);
    for (; pos < node->count; pos++) {
      u8 key[kMaxKeyBytes];
      const u32 key_bytes = node->copy_key(pos, key);
      if (compare_keys({key, key_bytes}, beyond) > 0) break;
      LockValue value;
      const Bytes bytes = node->value(pos);
      if (key_bytes != kLockKeyBytes || bytes.size() != sizeof value)
        return fail(LS_CORRUPT, "row lock entry has %zu bytes", bytes.size());
      std::memcpy(&value, bytes.data(), sizeof value);
      LS_TRY(visit(key_row(key), key_tn(key), value));
    }
    const Bytes upper = node->upper_fence();
    more = pos == node->count && node->has_upper && compare_keys(upper, beyond) < 0;
    if (more) {
      from_bytes = static_cast<u32>(upper.size());
      std::memcpy(from, upper.data(), from_bytes);
    }
  }
  return kOk;
}

Status RowLockTable::look(FileNo file_no, u64 row_id, ls_lock_mode wanted, LockView *view) {
  *view = LockView{};
  Tn stale[kStaleBatch];
  u32 n_stale = 0;
  LS_TRY(for_each(file_no, row_id, [&](Tn tn, const LockValue &value) {
    if (tn == w_.tn || tn_is_active(*w_.txns, tn)) {
      weigh(view, tn, w_.tn, value, wanted);
    } else if (n_stale < kStaleBatch) {
      stale[n_stale++] = tn;
    }
    return kOk;
  }));
  for (u32 i = 0; i < n_stale; i++) LS_TRY(remove(file_no, row_id, stale[i]));
  return kOk;
}

Status RowLockTable::copy_to_successor(FileNo file_no, u64 row_id, u64 successor, u32 *copied,
                                       bool *unsettled) {
  *copied = 0;
  *unsettled = false;
  return for_each(file_no, row_id, [&](Tn tn, const LockValue &value) {
    if (tn == w_.tn || !tn_is_active(*w_.txns, tn)) return kOk;
    if (value.state != LockState::kGranted) {
      *unsettled = true;
      return kOk;
    }
    (*copied)++;
    return put(file_no, successor, tn, value);
  });
}

Status RowLockTable::own_in_block(FileNo file_no, u64 first, u32 seq, u64 *rows, u32 *n) {
  *n = 0;
  const u64 last = first + kLockBlockRows - 1;
  return for_each_of_rows(file_no, first, last, [&](u64 row_id, Tn tn, const LockValue &value) {
    if (tn != w_.tn || value.seq != seq) return kOk;
    LS_ASSERT(row_id >= first && row_id <= last && *n <= row_id - first);   // RLOCK-5
    rows[(*n)++] = row_id;
    return kOk;
  });
}

Status RowLockTable::put(FileNo file_no, u64 row_id, Tn tn, const LockValue &value) {
  LS_ASSERT(tn == w_.tn || value.state == LockState::kGranted);  // RLOCK-3
  const Bytes bytes(reinterpret_cast<const u8 *>(&value), sizeof value);
  return put_entry(tree_, LockKey(file_no, row_id, tn), bytes, &w_.lock_place);
}

Status RowLockTable::get(FileNo file_no, u64 row_id, Tn tn, LockValue *value, bool *found) {
  alignas(8) u8 out[64];
  u32 bytes = 0;
  const Status s = tree_.lookup_near(LockKey(file_no, row_id, tn), &w_.lock_place, out,
                                     sizeof out, &bytes);
  *found = ok(s);
  if (code(s) == LS_NOT_FOUND) return kOk;
  LS_TRY(s);
  if (bytes != sizeof *value) return fail(LS_CORRUPT, "row lock entry has %u bytes", bytes);
  std::memcpy(value, out, sizeof *value);
  return kOk;
}

Status RowLockTable::remove(FileNo file_no, u64 row_id, Tn tn) {
  LS_ASSERT(tn == w_.tn || !tn_is_active(*w_.txns, tn));  // RLOCK-3
  return remove_entry(tree_, LockKey(file_no, row_id, tn), &w_.lock_place);
}

Status RowLockTable::locks_of(Tn tn, void *arg,
                              Status (*each)(void *arg, FileNo file_no, u64 row_id,
                                             const LockValue &value)) {
  alignas(8) u8 leaf[kPageSize];
  u8 from[kMaxKeyBytes];
  u32 from_bytes = 0;
  for (bool more = true; more;) {
    LS_TRY(tree_.leaf_copy(Bytes(from, from_bytes), leaf));
    const Node *node = reinterpret_cast<const Node *>(leaf);
    for (u16 pos = 0; pos < node->count; pos++) {
      u8 key[kMaxKeyBytes];
      LockValue value;
      const Bytes bytes = node->value(pos);
      if (node->copy_key(pos, key) != kLockKeyBytes || bytes.size() != sizeof value)
        return fail(LS_CORRUPT, "a row lock entry is damaged");
      if (key_tn(key) != tn) continue;
      std::memcpy(&value, bytes.data(), sizeof value);
      LS_TRY(each(arg, key_file(key), key_row(key), value));
    }
    more = node->has_upper;
    if (more) {
      const Bytes upper = node->upper_fence();
      from_bytes = static_cast<u32>(upper.size());
      std::memcpy(from, upper.data(), from_bytes);
    }
  }
  return kOk;
}

Status RowLockTable::sweep(LockSweep *sweep, u32 max_leaves, u64 *removed) {
  if (!sweep->running) {
    const u64 locks = w_.txns->row_locks.load(std::memory_order_relaxed);
    if (locks == sweep->locks_seen) return kOk;
    *sweep = LockSweep{};
    sweep->locks_seen = locks;
    sweep->running = true;
  }
  LS_ASSERT(sweep->key_bytes <= sizeof sweep->key);
  for (u32 i = 0; i < max_leaves && sweep->running; i++) LS_TRY(sweep_leaf(sweep, removed));
  return kOk;
}

// One leaf: looks at a copy first, so that a table of live locks is not latched for nothing.
Status RowLockTable::sweep_leaf(LockSweep *sweep, u64 *removed) {
  alignas(8) u8 copy[kPageSize];
  const Bytes here(sweep->key, sweep->key_bytes);
  LS_TRY(tree_.leaf_copy(here, copy));
  const Node *seen = reinterpret_cast<const Node *>(copy);
  u32 stale = 0;
  for (u16 pos = 0; pos < seen->count; pos++) stale += is_stale(seen, pos);
  // A lock that outlives this sweep is looked for again by the next one.
  if (stale < seen->count) sweep->locks_seen = ~u64{0};
  if (stale > 0) {
    ExclusiveGuard leaf;
    LS_TRY(tree_.leaf_exclusive(here, 0, leaf));
    Node *node = reinterpret_cast<Node *>(leaf.page());
    for (u16 pos = 0; pos < node->count;) {
      if (!is_stale(node, pos)) {
        pos++;
        continue;
      }
      node->remove(pos);
      (*removed)++;
    }
    w_.pool->mark_dirty(leaf.frame(), 0);
  }
  // One that has emptied earlier had neighbours that were not in memory.
  if (stale == seen->count) LS_TRY(tree_.try_merge(here));
  const Bytes upper = seen->upper_fence();
  sweep->running = seen->has_upper && upper.size() <= sizeof sweep->key;
  if (sweep->running) {
    std::memcpy(sweep->key, upper.data(), upper.size());
    sweep->key_bytes = static_cast<u32>(upper.size());
  }
  return kOk;
}

bool RowLockTable::is_stale(const Node *node, u16 pos) const {
  u8 key[kMaxKeyBytes];
  return node->copy_key(pos, key) != kLockKeyBytes || !tn_is_active(*w_.txns, key_tn(key));
}

}  // namespace ls
