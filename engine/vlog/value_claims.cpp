// value_claims.cpp - entries of counts and of candidates.
#include "vlog/value_claims.hpp"

#include <cstring>

#include "wal/log_bytes.hpp"

namespace ls {

namespace {

Status fail_damaged() { return fail(LS_CORRUPT, "an entry of shared pages is damaged"); }

// claims 4 | runs, as they are
constexpr u32 kMostCountBytes = sizeof(i32) + PageRuns::kMost * sizeof(PageRun);
static_assert(sizeof(PageRun) == 8);

}  // namespace

void pack_candidate(u64 value_id, const ValuePlace &place, Candidate *candidate) {
  ValuePlace paged;
  paged.bytes = ValueLayout(place.bytes).paged_bytes;
  paged.runs = place.runs;
  paged.hash = place.hash;
  paged.writer = place.writer_in(value_id);
  paged.notes = place.notes;
  candidate->length = store_place(paged, candidate->bytes);
}

Status ValueClaims::read(Bytes key, PageRuns *runs, i32 *more) {
  alignas(8) u8 out[kMostCountBytes];
  u32 bytes = 0;
  LS_TRY(tree_.lookup(key, out, sizeof out, &bytes));
  if (bytes <= sizeof *more || bytes > sizeof out || (bytes - sizeof *more) % sizeof(PageRun) != 0)
    return fail_damaged();
  std::memcpy(more, out, sizeof *more);
  *runs = {};
  for (u32 at = sizeof *more; at < bytes; at += sizeof(PageRun)) {
    PageRun run;
    std::memcpy(&run, out + at, sizeof run);
    runs->add(run);
  }
  return kOk;
}

Status ValueClaims::count(const PageRuns &runs, i32 *more) {
  PageRuns noted;
  const Status status = read(key('c', runs[0].first), &noted, more);
  if (code(status) != LS_NOT_FOUND) return status;
  *more = 0;
  return kOk;
}

Status ValueClaims::set(const PageRuns &runs, i32 more) {
  const ValueKey first = key('c', runs[0].first);
  if (more == 0) return remove_entry(tree_, first);
  u8 bytes[kMostCountBytes];
  std::memcpy(bytes, &more, sizeof more);
  u32 length = sizeof more;
  for (const PageRun &run : runs.all()) {
    std::memcpy(bytes + length, &run, sizeof run);
    length += sizeof run;
  }
  return put_entry(tree_, first, Bytes(bytes, length));
}

Status ValueClaims::next(PageNo behind, PageRuns *runs, i32 *more) {
  FoundEntry found;
  LS_TRY(first_entry(tree_, key('c', behind), ValueKey::kPrefixBytes, &found));
  return read(Bytes(found.key, found.key_bytes), runs, more);
}

Status ValueClaims::find_candidate(u64 hash, Candidate *candidate) {
  alignas(8) u8 out[sizeof candidate->bytes];
  LS_TRY(tree_.lookup(ValueKey(file_, 'h').hash(hash), out, sizeof out, &candidate->length));
  if (candidate->length > sizeof out) return fail_damaged();
  std::memcpy(candidate->bytes, out, candidate->length);
  return kOk;
}

Status ValueClaims::next_candidate(u64 from, u64 *hash, Candidate *candidate) {
  FoundEntry found;
  LS_TRY(first_entry(tree_, ValueKey(file_, 'h').hash(from), ValueKey::kPrefixBytes, &found));
  if (found.key_bytes != ValueKey::kPrefixBytes + sizeof *hash) return fail_damaged();
  std::memcpy(hash, found.key + ValueKey::kPrefixBytes, sizeof *hash);
  *hash = __builtin_bswap64(*hash);
  return find_candidate(*hash, candidate);
}

Status ValueClaims::note_candidate(u64 hash, const Candidate &candidate) {
  return put_entry(tree_, ValueKey(file_, 'h').hash(hash), candidate.packed());
}

Status ValueClaims::forget_candidate(const ValueClaim &claim) {
  const ValueKey key = ValueKey(file_, 'h').hash(claim.hash);
  ExclusiveGuard leaf;
  LS_TRY(tree_.leaf_exclusive(key, 0, leaf));
  Node *node = reinterpret_cast<Node *>(leaf.page());
  bool found;
  const u16 pos = node->lower_bound(key, &found);
  if (!found) return kOk;
  ValuePlace place;
  if (!load_place(node->value(pos), &place)) return fail_damaged();
  if (place.runs[0].first != claim.runs[0].first) return kOk;
  node->remove(pos);
  const bool emptied = node->count == 0;
  tree_.ctx().pool->mark_dirty(leaf.frame(), 0);
  leaf.reset();
  return emptied ? tree_.try_merge(key) : kOk;
}

}  // namespace ls
