// value_place.cpp - a value's place, packed and taken apart; nothing read is trusted.
#include "vlog/value_place.hpp"

#include <cstring>

#include "base/crc32c.hpp"
#include "wal/log_bytes.hpp"

namespace ls {

u32 store_place(const ValuePlace &place, u8 *out) {
  u8 *at = out;
  at += put_varint(at, place.bytes);
  at += put_varint(at, place.tail.size());
  at += put_varint(at, place.runs.count());
  PageNo before = 0;
  for (const PageRun &run : place.runs.all()) {
    at += put_varint(at, zigzag(u64{run.first} - u64{before}));
    at += put_varint(at, run.pages);
    before = run.end();
  }
  *at++ = static_cast<u8>((place.hash != 0 ? kHasHash : 0) | (place.writer != 0 ? kHasWriter : 0));
  if (place.hash != 0) {
    std::memcpy(at, &place.hash, sizeof place.hash);
    at += sizeof place.hash;
  }
  if (place.writer != 0) at += put_varint(at, place.writer);
  for (const Bytes part : {place.notes, place.tail}) {
    if (!part.empty()) std::memcpy(at, part.data(), part.size());
    at += part.size();
  }
  LS_ASSERT(at - out <= kMostPlaceBytes);
  return static_cast<u32>(at - out);
}

bool load_place(Bytes bytes, ValuePlace *place) {
  LogUnpacker in(bytes);
  *place = {};
  // ValueLayout would come round behind it.
  place->bytes = static_cast<u32>(in.number(LS_MAX_VALUE_BYTES));
  const u32 tail_bytes = static_cast<u32>(in.number(LS_VALUE_IN_ROW_BYTES));
  // One more may come of them: a run is divided where old pages end (vanished_values.cpp).
  const u32 runs = static_cast<u32>(in.number(PageRuns::kMost - 1));
  u64 before = 0, all_pages = 0;
  for (u32 i = 0; i < runs && in.good(); i++) {
    const u64 first = before + unzigzag(in.number());
    const u64 pages = in.number(~u32{0});
    if (first > ~u32{0} || pages == 0 || first + pages > ~u32{0}) return false;
    place->runs.add({static_cast<PageNo>(first), static_cast<u32>(pages)});
    before = first + pages;
    all_pages += pages;
  }
  const u8 has = in.byte();
  if ((has & ~(kHasHash | kHasWriter)) != 0) return false;
  if ((has & kHasHash) != 0) {
    const Bytes hash = in.take(sizeof place->hash);
    if (in.good()) std::memcpy(&place->hash, hash.data(), hash.size());
    if (place->hash == 0) return false;
  }
  if ((has & kHasWriter) != 0) {
    place->writer = in.number();
    if (place->writer == 0) return false;
  }
  const ValueLayout layout(place->bytes);
  if (!in.good() || layout.tail_bytes != tail_bytes || layout.pages() != all_pages ||
      place->runs.count() != runs)
    return false;
  if (layout.note_pages == 0) place->notes = in.take(u64{layout.chunks} * kChunkNoteBytes);
  place->tail = in.take(tail_bytes);
  return in.done();
}

u32 chunk_checksum(u64 value_id, u32 chunk, Bytes data) {
  const u64 name[] = {value_id, chunk};
  return crc32c(crc32c(0, name, sizeof name), data.data(), data.size());
}

u32 note_page_checksum(u64 value_id, u32 number, const u8 *page) {
  const u64 name[] = {~value_id, number};
  return crc32c(crc32c(0, name, sizeof name), page + kNotePageHead, kPageSize - kNotePageHead);
}

}  // namespace ls
