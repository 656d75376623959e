// index_batch.cpp - the entries that come next in the copied leaf, taken together: their keys, and
// whether all snapshots see their rows.
#include "btree/node_entries.hpp"
#include "index/index_scan.hpp"

namespace ls {

namespace {

// The keys of entries that come one after the other, row ids left out: equal ones once.
class BatchKeys {
 public:
  // All begin with these bytes, and so many more may be read there.
  static constexpr u32 kReadable = 16;
  BatchKeys(ls_index_batch *batch, const u8 *prefix, u32 prefix_bytes)
      : batch_(batch), prefix_(prefix), prefix_bytes_(prefix_bytes) {
    for (u32 i = prefix_bytes - std::min<u32>(prefix_bytes, 8); i < prefix_bytes; i++)
      tail_ = tail_ << 8 | prefix[i];
  }

  bool has_room() const { return used_ + kMaxKeyBytes <= sizeof batch_->keys; }

  // Behind the prefix: up to eight bytes, as a number.  Nothing is read that was just written.
  bool add_number(u64 number, u32 bytes, ls_batch_entry *entry) {
    if (prefix_bytes_ + bytes < kEntryRowIdBytes || bytes > sizeof number) return false;
    const u64 last_eight = bytes == sizeof number ? number : tail_ << (8 * bytes) | number;
    const u64 of_key = bytes > kEntryRowIdBytes ? number >> kRowIdBits : 0;
    entry->entry.row_id = last_eight & ((u64{1} << kRowIdBits) - 1);
    entry->same_key = bytes == last_bytes_ && of_key == last_of_key_;
    if (!entry->same_key) {
      u8 *to = place();
      const u64 be = __builtin_bswap64(dense_word(number, bytes));
      std::memcpy(to + prefix_bytes_, &be, sizeof be);
      keep(Bytes(to, prefix_bytes_ + bytes - kEntryRowIdBytes));
    }
    last_bytes_ = bytes;
    last_of_key_ = of_key;
    entry->entry.key = {key_.data(), static_cast<u32>(key_.size())};
    return true;
  }

  // Of any length: a place for it, with the prefix; and what is there now.
  u8 *place() {
    u8 *to = batch_->keys + used_;
    if (prefix_bytes_ <= kReadable) {
      std::memcpy(to, prefix_, kReadable);
    } else {
      std::memcpy(to, prefix_, prefix_bytes_);
    }
    return to;
  }
  bool add_placed(Bytes whole, ls_batch_entry *entry) {
    if (whole.size() < kEntryRowIdBytes) return false;
    const Bytes key = entry_key(whole);
    entry->entry.row_id = entry_row_id(whole);
    entry->same_key = used_ != 0 && is_same(key_, key);
    if (!entry->same_key) keep(key);
    last_bytes_ = kNone;
    entry->entry.key = {key_.data(), static_cast<u32>(key_.size())};
    return true;
  }

 private:
  static constexpr u32 kNone = ~u32{0}, kRowIdBits = 8 * kEntryRowIdBytes;

  // Keys that differ mostly do so at the end.
  static bool is_same(Bytes a, Bytes b) {
    return a.size() == b.size() &&
           (a.empty() || (a.back() == b.back() && std::memcmp(a.data(), b.data(), a.size()) == 0));
  }
  // The row id behind it gives way to the next key.
  void keep(Bytes key) {
    key_ = key;
    used_ += static_cast<u32>(key.size());
  }

  ls_index_batch *batch_;
  const u8 *prefix_;
  const u32 prefix_bytes_;
  u64 tail_ = 0;              // the prefix' last eight bytes, at most
  u32 used_ = 0;
  Bytes key_;                 // of the entry before, and if it was a number:
  u32 last_bytes_ = kNone;
  u64 last_of_key_ = 0;
};

}  // namespace

Status IndexScan::take(ls_index_batch *batch) {
  bool ended = false;
  batch->count = 0;
  LS_TRY(advance(&ended));
  if (ended) return make_status(LS_END);
  if (!copy_batch(batch)) return fail_short();
  judge(batch);
  pos_ += direction() * static_cast<i32>(batch->count - 1);
  return kOk;
}

void IndexScan::give_back(u32 n) {
  pos_ -= direction() * static_cast<i32>(n);
  LS_ASSERT(place_ == Place::kLeaf && pos_ >= begin_ && pos_ < end_);
}

// False: one is too short.
bool IndexScan::copy_batch(ls_index_batch *batch) const {
  const u32 left = static_cast<u32>(backward_ ? pos_ - begin_ + 1 : end_ - pos_);
  const u32 n = std::min<u32>(left, LS_BATCH_ENTRIES);
  const u32 shared = static_cast<u32>(node()->prefix().size());
  static_assert(kMaxKeyBytes <= sizeof batch->keys && BatchKeys::kReadable <= sizeof key_);
  return with_entries(*node(), [&](const auto &entries) {
    BatchKeys keys(batch, key_, shared);
    u32 pos = static_cast<u32>(pos_);
    for (u32 i = 0; i < n && keys.has_room(); i++, pos += static_cast<u32>(direction())) {
      ls_batch_entry *out = &batch->entries[i];
      u64 number;
      if (!rest_number(*node(), entries, pos, &number) ||
          !keys.add_number(number, entries.key_bytes(pos), out)) {
        u8 *to = keys.place();
        const Bytes whole(to, copy_key_at(*node(), entries, shared, pos, to));
        if (!keys.add_placed(whole, out)) return false;
      }
      const Bytes payload = value_at(*node(), entries, pos);
      out->entry.payload = {payload.data(), static_cast<u32>(payload.size())};
      batch->count = i + 1;
    }
    return true;
  });
}

// Facts first, then what they are worth (BLK-5): whether VACUUM has vouched for others since the
// leaf was copied, and whether the index is marked.
void IndexScan::judge(ls_index_batch *batch) const {
  constexpr u32 kVouched = block_facts({BlockFact::kVouched}),
                kFull = block_facts({BlockFact::kFull});
  const RowBlocks &blocks = w_.txns->row_blocks;
  const FileNo table = index_.table_no.load(std::memory_order_acquire);
  u8 facts[LS_BATCH_ENTRIES];
  RowBlocks::SeenCell seen;
  for (u32 i = 0; i < batch->count; i++) {
    const u64 row_id = batch->entries[i].entry.row_id;
    facts[i] = static_cast<u8>(blocks.facts(table, LS_REL_TABLE, row_id, &seen));
  }
  const u32 worth = (blocks.vouches(table) == vouches_ ? kVouched : 0) |
                    (index_.stale_entries.load(std::memory_order_acquire) ? 0 : kFull);
  for (u32 i = 0; i < batch->count; i++) batch->entries[i].visible = (facts[i] & worth) != 0;
}

}  // namespace ls
