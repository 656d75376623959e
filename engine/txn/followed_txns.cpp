// followed_txns.cpp - places in the array, and rows that no snapshot sees.
#include "txn/followed_txns.hpp"

#include "base/check.hpp"

namespace ls {

FollowedTxns::FollowedTxns(TxnShared &txns) : txns_(txns) {
  for (u32 i = 0; i < txns.followed_places; i++) {
    const Tn tn = txns.followed[i].load(std::memory_order_relaxed);
    if (tn != 0) places_.emplace(tn, &txns.followed[i]);
  }
}

std::atomic<Tn> *FollowedTxns::place() {
  for (u32 i = 0; i < txns_.followed_places; i++) {
    if (txns_.followed[i].load(std::memory_order_relaxed) != 0) continue;
    if (i >= txns_.followed_used.load(std::memory_order_relaxed))
      txns_.followed_used.store(i + 1, std::memory_order_release);
    return &txns_.followed[i];
  }
  return nullptr;
}

Status FollowedTxns::begin(Tn tn) {
  LS_ASSERT(tn != 0);
  if (places_.contains(tn)) return kOk;
  std::atomic<Tn> *found = place();
  if (!found)
    return fail(LS_MANY_PREPARED, "more than %zu transactions run in the store that is followed",
                places_.size());
  found->store(tn, std::memory_order_release);   // FTXN-1
  places_.emplace(tn, found);
  if (tn > txns_.highest_tn.load(std::memory_order_relaxed))
    txns_.highest_tn.store(tn, std::memory_order_relaxed);
  return kOk;
}

Status FollowedTxns::end(Worker &w, Tn tn) {
  if (hidden_.contains(tn)) {   // no horizon passes its versions
    alignas(8) u8 leaf[kPageSize];
    const auto each = [](void *, u32, const VersionEntry &, Bytes) { return Status(kOk); };
    const Tn number = written_as(tn);
    LS_TRY(version_store(w, number).take_back(number, 0, ~u32{0}, leaf, nullptr, each));
    hidden_.erase(tn);
  }
  const auto at = places_.find(tn);
  if (at == places_.end()) return kOk;
  at->second->store(0, std::memory_order_release);
  places_.erase(at);
  return kOk;
}

void FollowedTxns::hide_rows(Node *leaf) const {
  for (u16 pos = 0; !hidden_.empty() && pos < leaf->count; pos++) {
    if (leaf->value(pos).size() < sizeof(RowHeader)) continue;
    u8 *value = leaf->value_data(pos);
    const RowHeader header = RowHeader::load(value);
    if (!hidden_.contains(header.tn())) continue;
    RowHeader::make(written_as(header.tn()), header.flags(), header.generation(), header.cid,
                    header.seq)
        .store(value);
  }
}

void FollowedTxns::clear() {
  for (const auto &[tn, place] : places_) place->store(0, std::memory_order_release);
  places_.clear();
  txns_.followed_used.store(0, std::memory_order_release);
}

}  // namespace ls
