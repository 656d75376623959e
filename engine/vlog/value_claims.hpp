// value_claims.hpp - values with the same bytes name the same pages: how many there are, and where
// pages with certain bytes are to be found.  In the tree of vlog/value_tree.hpp.
//
// Each row that names pages has a claim on them, and so has a worker that is about to insert such a
// row.  Pages are free when no claim is left.  The usual value is alone with its pages and has no
// entry: an entry counts the claims above the first one.
//
//   VCLAIM-1  A worker gets a claim by taking free pages, or as another one beside a claim that
//             there is (share_value_pages), and lets go of it when its row has left its leaf, or
//             names other pages and the record of that is hardened.  So what each row names is
//             whole, whichever worker wrote it, and whether or not that has committed.
//   VCLAIM-2  All rows that name a page name the same runs, and the first page of these stands for
//             all of them.  Only values with a hash in their row are found by others, so only these
//             share.
//   VCLAIM-3  A candidate is noted when its pages are written, and it goes before its pages are
//             free, with the last claim.  So what share_value_pages() finds noted has a claim.
//   VCLAIM-4  Of old pages (VPAGES-2) the rows are counted one by one, the first one silently, for
//             the set of pages that are in use has it.  Until all are counted, no row shares old
//             pages, and those of a row that vanishes are not free: rows behind may name them.
//             They count one claim less, and what has none in the end is free then.
#pragma once
#include "vlog/page_runs.hpp"
#include "vlog/value_place.hpp"
#include "vlog/value_tree.hpp"

namespace ls {

// What a row names.
struct ValueClaim {
  const PageRuns &runs;
  u64 hash;   // 0: no other row does
};

// Where pages with certain bytes are: a place that has just these pages, in bytes.
struct Candidate {
  u8 bytes[kMostPlaceBytes];
  u32 length = 0;
  Bytes packed() const { return Bytes(bytes, length); }
};
// value_id: the place is in the row of this value.
void pack_candidate(u64 value_id, const ValuePlace &place, Candidate *candidate);

// Under ValueSpace::mutex of the file, but find_candidate().
class ValueClaims {
 public:
  // file: ValueSpace::number.
  ValueClaims(Ctx &ctx, u64 file) : tree_(value_tree(ctx)), file_(file) {}

  // *more: claims above the first one.
  Status count(const PageRuns &runs, i32 *more);
  Status set(const PageRuns &runs, i32 more);
  // The next entry behind a page; LS_NOT_FOUND.
  Status next(PageNo behind, PageRuns *runs, i32 *more);

  // LS_NOT_FOUND
  Status find_candidate(u64 hash, Candidate *candidate);
  Status note_candidate(u64 hash, const Candidate &candidate);
  // The next one from a hash on; LS_NOT_FOUND.
  Status next_candidate(u64 from, u64 *hash, Candidate *candidate);
  // If it says these pages.
  Status forget_candidate(const ValueClaim &claim);

 private:
  ValueKey key(char kind, PageNo page) const { return ValueKey(file_, kind).page(page); }
  Status read(Bytes key, PageRuns *runs, i32 *more);

  BTree tree_;
  const u64 file_;
};

}  // namespace ls
