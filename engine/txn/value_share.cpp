// value_share.cpp - candidates looked for, compared and claimed.
#include "txn/value_share.hpp"

#include <algorithm>
#include <cstring>

#include "base/interrupt.hpp"
#include "vlog/value_hash.hpp"
#include "vlog/value_pages.hpp"

namespace ls {

namespace {

constexpr u32 kPartBytes = kIoPages * kPageSize;

// What cannot be read is not shared, and no reason to fail.
bool is_passed_on(Status status) {
  return code(status) == LS_INTERRUPTED || code(status) == LS_NO_MEMORY;
}

// One that another worker has just noted or freed is given up, or read in vain: there is no lock.
Status compare(Worker &w, FileSlot &file, PagedBytes &wanted, const ValuePlace &place,
               bool *equal) {
  *equal = false;
  const IoMemory io(w), data(w);
  LS_TRY(io.status());
  LS_TRY(data.status());
  const FurtherFile further(file);
  const ValueSource source{{further, place.writer}, place};
  for (u32 at = 0; at < wanted.bytes(); at += kPartBytes) {
    if (interrupt_pending(w.ctx.interrupt))
      return fail(LS_INTERRUPTED, "interrupted while values were compared");
    const u32 bytes = std::min(kPartBytes, wanted.bytes() - at);
    ValueRead read;
    LS_TRY(value_read(source, {at, bytes}, io.bytes(), data.bytes(), &read));
    const u8 *other;
    LS_TRY(wanted.part(at, bytes, &other));
    if (read.stale || !other || std::memcmp(data.bytes(), other, bytes) != 0) return kOk;
  }
  *equal = true;
  return kOk;
}

}  // namespace

BytesInMemory::BytesInMemory(const u8 *data, u32 bytes)
    : PagedBytes(value_hash(data, bytes), bytes), data_(data) {}

Status BytesInMemory::part(u32 offset, u32, const u8 **data) {
  *data = data_ + offset;
  return kOk;
}

BytesInPages::BytesInPages(Worker &w, const ValueSource &source)
    : PagedBytes(source.place.hash, ValueLayout(source.place.bytes).paged_bytes),
      source_(source),
      io_(w),
      data_(w) {}

Status BytesInPages::part(u32 offset, u32 bytes, const u8 **data) {
  LS_TRY(io_.status());
  LS_TRY(data_.status());
  ValueRead read;
  LS_TRY(value_read(source_, {offset, bytes}, io_.bytes(), data_.bytes(), &read));
  *data = read.stale ? nullptr : data_.bytes();
  return kOk;
}

Status share_pages(Worker &w, FileSlot &file, PagedBytes &wanted, PageNo below,
                   SharedPages *shared) {
  shared->found = false;
  Status status = find_value_candidate(w.ctx, file, wanted.hash(), &shared->candidate);
  ValuePlace &place = shared->place;
  if (!ok(status) || !load_place(shared->candidate.packed(), &place))
    return is_passed_on(status) ? status : kOk;
  const auto runs = place.runs.all();
  const bool fits = place.bytes == wanted.bytes() && place.hash == wanted.hash() &&
                    std::ranges::all_of(
                        runs, [&](const PageRun &run) { return run.end() <= below; });
  if (!fits) return kOk;
  bool equal = false;
  status = compare(w, file, wanted, place, &equal);
  if (ok(status) && equal)
    status = share_value_pages(w.ctx, file, {place.runs, place.hash}, shared->candidate,
                               &shared->found);
  return is_passed_on(status) ? status : kOk;
}

void note_candidate(Worker &w, FileSlot &file, u64 value_id, const ValuePlace &place) {
  Candidate candidate;
  pack_candidate(value_id, place, &candidate);
  note_value_candidate(w.ctx, file, place.hash, candidate);
}

}  // namespace ls
