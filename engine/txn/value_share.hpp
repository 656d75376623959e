// value_share.hpp - pages that have certain bytes already, for another value with these.
//
// A hash finds a candidate.  Its bytes are read and compared without a lock, and the claim on its
// pages is given only if the candidate is still what it was when it was looked for (VCLAIM-3).
#pragma once
#include "txn/io_memory.hpp"
#include "txn/worker.hpp"
#include "vlog/value_claims.hpp"
#include "vlog/value_file.hpp"

namespace ls {

// The bytes of a value that are to lie in pages.
class PagedBytes {
 public:
  PagedBytes(u64 hash, u32 bytes) : hash_(hash), bytes_(bytes) {}
  virtual ~PagedBytes() = default;
  u64 hash() const { return hash_; }
  u32 bytes() const { return bytes_; }
  // From `offset`, which begins a chunk, as many as memory for I/O has, or up to their end.  Null:
  // they are not to be had.  Valid until the next call.
  virtual Status part(u32 offset, u32 bytes, const u8 **data) = 0;

 private:
  const u64 hash_;
  const u32 bytes_;
};

class BytesInMemory final : public PagedBytes {
 public:
  BytesInMemory(const u8 *data, u32 bytes);
  Status part(u32 offset, u32 bytes, const u8 **data) override;

 private:
  const u8 *data_;
};

class BytesInPages final : public PagedBytes {
 public:
  // Of a place with a hash.
  BytesInPages(Worker &w, const ValueSource &source);
  Status part(u32 offset, u32 bytes, const u8 **data) override;

 private:
  const ValueSource &source_;
  const IoMemory io_, data_;
};

// Pages with these bytes, all before page `below`; place: runs, hash, writer and notes are set.
struct SharedPages {
  bool found = false;
  Candidate candidate;
  ValuePlace place;   // points into it
};
// found: the caller has a claim on them (free_value_pages).  LS_INTERRUPTED, LS_NO_MEMORY.
Status share_pages(Worker &w, FileSlot &file, PagedBytes &wanted, PageNo below,
                   SharedPages *shared);

// Of written pages, on which the worker has a claim.
void note_candidate(Worker &w, FileSlot &file, u64 value_id, const ValuePlace &place);

// While it lives the claims on pages of a file may be others than its rows say
// (leanstore_check).
class ClaimsChange {
 public:
  explicit ClaimsChange(FileSlot &file) : space_(file.values) {
    space_.changes_begun.fetch_add(1, std::memory_order_seq_cst);
  }
  ~ClaimsChange() { space_.changes_ended.fetch_add(1, std::memory_order_seq_cst); }
  ClaimsChange(const ClaimsChange &) = delete;
  ClaimsChange &operator=(const ClaimsChange &) = delete;

 private:
  ValueSpace &space_;
};

}  // namespace ls
