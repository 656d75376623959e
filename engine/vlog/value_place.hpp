// value_place.hpp - what the row of a value says of its bytes, and how they lie in the file.
//
// A value of more than LS_VALUE_IN_ROW_BYTES has pages of 4 KiB in its relation's file of values
// (a further file of the relation: the host's fork "fsm", which the host unlinks and counts).
// What does not fill a page and is small, the tail, stays in the row.
//
//   place   bytes | bytes of the tail | number of runs | for each run: first page less the end of
//           the run before, signed; pages | what follows (kHasHash, kHasWriter) | hash of the
//           bytes in pages 8 | number of the value that has written them | notes, unless they have
//           pages | tail
//   notes   for each chunk, eight pages of the value: checksum 4 | for each page 2 bytes of it
//   pages   of notes, if there are more than kMostChunksInRow chunks | of the value; behind its end
//           zeros
//
// VPLACE-1  Bytes 14 and 15 of each block of 8 KiB are zero, so the server's tools take it for one
//           that was never written, and look for no checksum of theirs.  What the value has there
//           is among the notes (of a page with an odd number these are zero).
// VPLACE-2  A chunk's checksum begins with the number of the value that has written it, and its
//           own: bytes of another value, or of another chunk, are found as well as flipped bits.
//           A value that shares the pages of another one has that number in its row.
#pragma once
#include <vector>

#include "base/status.hpp"
#include "vlog/page_runs.hpp"

namespace ls {

using Bytes = std::span<const u8>;

inline constexpr u32 kChunkPages = 8, kChunkBytes = kChunkPages * kPageSize;
inline constexpr u32 kChunkNoteBytes = 4 + 2 * kChunkPages;
inline constexpr u32 kMostChunksInRow = 16;
// A page of notes: checksum 4 | zero 12 | notes.
inline constexpr u32 kNotePageHead = 16;
inline constexpr u32 kNotesPerPage = (kPageSize - kNotePageHead) / kChunkNoteBytes;
inline constexpr u32 kHiddenAt = 14;   // VPLACE-1

// How a value of so many bytes is laid out.
struct ValueLayout {
  explicit constexpr ValueLayout(u32 bytes)
      : tail_bytes(bytes % kPageSize <= LS_VALUE_IN_ROW_BYTES ? bytes % kPageSize : 0),
        paged_bytes(bytes - tail_bytes),
        data_pages((paged_bytes + kPageSize - 1) / kPageSize),
        chunks((data_pages + kChunkPages - 1) / kChunkPages),
        note_pages(chunks > kMostChunksInRow ? (chunks + kNotesPerPage - 1) / kNotesPerPage : 0) {}
  u32 tail_bytes, paged_bytes, data_pages, chunks, note_pages;
  constexpr u32 pages() const { return note_pages + data_pages; }
  // Of a chunk: its bytes without what fills the last page.
  constexpr u32 chunk_bytes(u32 chunk) const {
    const u32 left = paged_bytes - chunk * kChunkBytes;
    return left < kChunkBytes ? left : kChunkBytes;
  }
};

inline constexpr u8 kHasHash = 1, kHasWriter = 2;

inline constexpr u32 kMostPlaceBytes =
    35 + PageRuns::kMost * 12 + kMostChunksInRow * kChunkNoteBytes + LS_VALUE_IN_ROW_BYTES;
static_assert(LS_VALUE_HEAD_BYTES + kMostPlaceBytes <= LS_MAX_ROW_BYTES);

struct ValuePlace {
  u32 bytes = 0;
  PageRuns runs;
  u64 hash = 0;     // of what the pages have; 0: the value shares them with no other one
  u64 writer = 0;   // the value that has written them; 0: this one
  Bytes notes;      // in the row; empty: they have pages
  Bytes tail;

  // The number that checksums begin with, in the row of a value.
  u64 writer_in(u64 value_id) const { return writer != 0 ? writer : value_id; }
};

// How many bytes were stored.
u32 store_place(const ValuePlace &place, u8 *out);
// False: this is none.  `place` points into `bytes`.
bool load_place(Bytes bytes, ValuePlace *place);

// VPLACE-2
u32 chunk_checksum(u64 value_id, u32 chunk, Bytes data);
// Of a page of notes, which begins with it.
u32 note_page_checksum(u64 value_id, u32 number, const u8 *page);

}  // namespace ls
