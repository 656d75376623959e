// value_file.hpp - the bytes of values in their relation's further file.
//
// VFILE-1  Pages of a value are written once, before its row is inserted or changed to name them,
//          and never again while a row that a crash could leave behind does.
// VFILE-2  A reader has no lock: it reads where the row says, and pages that have gone to another
//          value meanwhile do not fit their checksum (VPLACE-2).  Then it looks at the row again.
#pragma once
#include "buffer/further_file.hpp"
#include "vlog/value_place.hpp"
#include "vlog/value_sink.hpp"

namespace ls {

struct ValueName {
  const FurtherFile &file;
  u64 value_id;
};

// Memory for I/O, kIoPages pages; the flag that ends a long write with LS_INTERRUPTED, or null; and
// the file that is written to.
struct ValueIo {
  u8 *bytes;
  const volatile int *interrupt;
  ValueSink *sink;
};
inline constexpr u32 kIoPages = 64;
static_assert(kIoPages % kChunkPages == 0 && kIoPages > kChunkPages);

// Memory for the notes of a value of so many bytes.
class ValueNotes {
 public:
  explicit ValueNotes(u32 value_bytes);
  ValueNotes(const ValueNotes &) = delete;
  ValueNotes &operator=(const ValueNotes &) = delete;
  u8 *bytes() { return notes_; }
  Bytes in_row() const { return Bytes(notes_, in_row_); }

 private:
  u8 small_[kMostChunksInRow * kChunkNoteBytes];
  std::vector<u8> large_;
  u8 *notes_;
  size_t in_row_;
};

// Write a value's pages.  place: bytes and runs are set; notes and tail are filled in.
Status value_write(const ValueName &name, const u8 *data, const ValueIo &io, ValueNotes &notes,
                   ValuePlace *place);

// The same with the bytes of the same value from another place, in the same file or not.  *stale:
// what is there does not fit.
struct MoveMemory {
  ValueIo io;
  u8 *data;   // kIoPages pages
};
struct ValueSource {
  ValueName name;
  const ValuePlace &place;
};
struct ValueTarget {
  ValueName name;
  ValuePlace *place;
};
Status value_copy(const ValueSource &from, const MoveMemory &memory, ValueNotes &notes,
                  const ValueTarget &to, bool *stale);

struct ValueSlice {
  u32 offset, bytes;
};
struct ValueRead {
  bool stale;    // what is there does not fit (VFILE-2)
  PageNo page;   // looked at last
};
Status value_read(const ValueSource &from, const ValueSlice &slice, u8 *io, u8 *out,
                  ValueRead *read);

}  // namespace ls
