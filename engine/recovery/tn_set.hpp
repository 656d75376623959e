// tn_set.hpp - a set of transaction numbers that are close together: a bit each, and a little for
// every 512 of them.
#pragma once
#include <bitset>
#include <unordered_map>

#include "base/types.hpp"

namespace ls {

class TnSet {
 public:
  void add(Tn tn) { pieces_[tn / kPiece].set(tn % kPiece); }
  bool has(Tn tn) const {
    const auto piece = pieces_.find(tn / kPiece);
    return piece != pieces_.end() && piece->second.test(tn % kPiece);
  }

 private:
  static constexpr u32 kPiece = 512;
  std::unordered_map<u64, std::bitset<kPiece>> pieces_;
};

}  // namespace ls
