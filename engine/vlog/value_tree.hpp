// value_tree.hpp - what is known of the pages of values, in a tree like the version store: unlogged
// and not recovered, for it follows from the rows.
//
//   file 'c' first page   ->  claims and runs       vlog/value_claims.hpp
//   file 'f' first page   ->  pages                 vlog/free_runs.hpp
//   file 'h' hash         ->  place                 vlog/value_claims.hpp
//   file 'l' end          ->  pages                 vlog/free_runs.hpp
//   file 's' class first  ->  pages                 vlog/free_runs.hpp
// Numbers are big endian.  The file is ValueSpace::number, another one at each opening: what was
// noted before is not found again, and removed by the keeper (sweep_value_tree).  All entries of a
// file under its ValueSpace::mutex; candidates ('h') are looked for without.
#pragma once
#include "btree/entries.hpp"
#include "buffer/pool.hpp"

namespace ls {

BTree value_tree(Ctx &ctx);

class ValueKey {
 public:
  static constexpr u32 kPrefixBytes = 8 + 1;   // file and kind

  ValueKey(u64 file, char kind) {
    put(__builtin_bswap64(file));
    put(kind);
  }
  ValueKey &page(PageNo page) { return put(__builtin_bswap32(page)); }
  ValueKey &size_class(u32 size_class) { return put(static_cast<u8>(size_class)); }
  ValueKey &hash(u64 hash) { return put(__builtin_bswap64(hash)); }
  operator Bytes() const { return Bytes(bytes_, length_); }

 private:
  template <typename Number>
  ValueKey &put(Number number) {
    static_assert(sizeof number <= 8);
    __builtin_memcpy(bytes_ + length_, &number, sizeof number);
    length_ += sizeof number;
    return *this;
  }

  u8 bytes_[kPrefixBytes + 8];
  u32 length_ = 0;
};

// Removes what is left of files that are not open any more, some leaves of it.  *cursor: where it
// goes on, 0 at first and when all has been looked at.
Status sweep_value_tree(Ctx &ctx, u64 *cursor);

}  // namespace ls
