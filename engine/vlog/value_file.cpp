// value_file.cpp - values to pages and back, chunk by chunk.
#include "vlog/value_file.hpp"

#include <algorithm>
#include <cstring>

#include "base/interrupt.hpp"

namespace ls {

namespace {

u64 offset_of(PageNo page) { return u64{page} * kPageSize; }

bool hides(PageNo page) { return page % 2 == 0; }   // VPLACE-1

// ---- writing

class ValueWriter {
 public:
  // notes: of all chunks, with their checksums.
  ValueWriter(const ValueName &name, const ValuePlace &place, const ValueIo &io, u8 *notes)
      : name_(name),
        place_(place),
        io_(io.bytes),
        interrupt_(io.interrupt),
        sink_(*io.sink),
        notes_(notes),
        layout_(place.bytes) {}

  // Pages of the value; data: its bytes from the first of them on.
  Status write(u32 first, u32 pages, const u8 *data) {
    for (u32 i = 0; i < pages;) {
      if (interrupt_pending(interrupt_))
        return fail(LS_INTERRUPTED, "interrupted while a value was written");
      const PageRun run =
          place_.runs.from(layout_.note_pages + first + i, std::min(kIoPages, pages - i));
      for (u32 j = 0; j < run.pages; j++) {
        fill(first + i + j, run.first + j, data + size_t{i + j} * kPageSize, io_ + j * kPageSize);
      }
      LS_TRY(sink_.write(run, io_, std::min(run.pages * kPageSize, layout_.paged_bytes -
                                                                       (first + i) * kPageSize)));
      i += run.pages;
    }
    return kOk;
  }

  Status write_note_pages() {
    for (u32 i = 0; i < layout_.note_pages; i++) {
      const u32 first = i * kNotesPerPage, n = std::min(kNotesPerPage, layout_.chunks - first);
      std::memset(io_, 0, kPageSize);
      std::memcpy(io_ + kNotePageHead, notes_ + size_t{first} * kChunkNoteBytes,
                  size_t{n} * kChunkNoteBytes);
      const u32 checksum = note_page_checksum(name_.value_id, i, io_);
      std::memcpy(io_, &checksum, sizeof checksum);
      LS_TRY(sink_.write(place_.runs.from(i, 1), io_, kNotePageHead + n * kChunkNoteBytes));
    }
    return kOk;
  }

 private:
  void fill(u32 i, PageNo page, const u8 *data, u8 *out) const {
    const size_t n = std::min<size_t>(kPageSize, layout_.paged_bytes - size_t{i} * kPageSize);
    std::memcpy(out, data, n);
    std::memset(out + n, 0, kPageSize - n);
    u8 *note = notes_ + size_t{i / kChunkPages} * kChunkNoteBytes + 4 + 2 * (i % kChunkPages);
    std::memset(note, 0, 2);
    if (!hides(page)) return;
    std::memcpy(note, out + kHiddenAt, 2);
    std::memset(out + kHiddenAt, 0, 2);
  }

  const ValueName &name_;
  const ValuePlace &place_;
  u8 *io_;
  const volatile int *interrupt_;
  ValueSink &sink_;
  u8 *notes_;
  const ValueLayout layout_;
};

void note_checksums(const ValueName &name, const ValueLayout &layout, const u8 *data, u8 *notes) {
  for (u32 chunk = 0; chunk < layout.chunks; chunk++) {
    const Bytes bytes(data + size_t{chunk} * kChunkBytes, layout.chunk_bytes(chunk));
    const u32 checksum = chunk_checksum(name.value_id, chunk, bytes);
    std::memcpy(notes + size_t{chunk} * kChunkNoteBytes, &checksum, sizeof checksum);
  }
}

// ---- reading

class ValueReader {
 public:
  ValueReader(const ValueName &name, const ValuePlace &place, u8 *io)
      : name_(name), place_(place), io_(io), layout_(place.bytes) {}

  PageNo page() const { return page_; }

  // Whole chunks, as many as lie in [from, end) bytes: to `out`, which is `from` of the value.
  Status read_chunks(u32 from, u32 end, u8 *out, bool *good) {
    const u32 first = from / kChunkBytes;
    for (u32 page = first * kChunkPages; page * u64{kPageSize} < end;) {
      const u64 offset = u64{page} * kPageSize;
      const u32 wanted = static_cast<u32>((end - offset + kPageSize - 1) / kPageSize);
      const PageRun run = place_.runs.from(layout_.note_pages + page, wanted);
      const size_t bytes = std::min<u64>(u64{run.pages} * kPageSize, end - offset);
      LS_TRY(read(run.first, out + (offset - from), bytes, good));
      if (!*good) return kOk;
      page += run.pages;
    }
    for (u32 chunk = first; chunk * u64{kChunkBytes} < end; chunk++) {
      LS_TRY(check(chunk, out + (u64{chunk} * kChunkBytes - from), good));
      if (!*good) return kOk;
    }
    return kOk;
  }

  // The notes of all chunks.
  Status copy_notes(u8 *notes, bool *good) {
    for (u32 chunk = 0; chunk < layout_.chunks; chunk++) {
      const u8 *note;
      LS_TRY(note_of(chunk, &note, good));
      if (!*good) return kOk;
      std::memcpy(notes + size_t{chunk} * kChunkNoteBytes, note, kChunkNoteBytes);
    }
    return kOk;
  }

  // A part of one chunk.
  Status read_part(u32 from, u32 end, u8 *out, bool *good) {
    const u32 begin = from / kChunkBytes * kChunkBytes;
    const u32 chunk_end = begin + layout_.chunk_bytes(from / kChunkBytes);
    LS_TRY(read_chunks(begin, chunk_end, io_, good));
    if (*good) std::memcpy(out, io_ + (from - begin), end - from);
    return kOk;
  }

 private:
  Status read(PageNo page, u8 *out, size_t bytes, bool *good) {
    size_t got = 0;
    page_ = page;
    const Status status =
        file_read_range(name_.file.ref(), offset_of(page), out, bytes, &got);
    *good = ok(status) && got == bytes;
    return code(status) == LS_NOT_FOUND ? kOk : status;
  }

  // The note of a chunk, from the row or from its page.
  Status note_of(u32 chunk, const u8 **note, bool *good) {
    *good = true;
    if (layout_.note_pages == 0) {
      *note = place_.notes.data() + size_t{chunk} * kChunkNoteBytes;
      return kOk;
    }
    const u32 number = chunk / kNotesPerPage;
    u8 *page = io_ + kChunkBytes;   // behind what read_part() reads
    if (number != note_page_) {
      note_page_ = ~u32{0};
      LS_TRY(read(place_.runs.from(number, 1).first, page, kPageSize, good));
      u32 checksum;
      std::memcpy(&checksum, page, sizeof checksum);
      *good = *good && checksum == note_page_checksum(name_.value_id, number, page);
      if (!*good) return kOk;
      note_page_ = number;
    }
    *note = page + kNotePageHead + size_t{chunk % kNotesPerPage} * kChunkNoteBytes;
    return kOk;
  }

  // Gives the chunk back what is among the notes.
  Status check(u32 chunk, u8 *data, bool *good) {
    const u8 *note;
    LS_TRY(note_of(chunk, &note, good));
    if (!*good) return kOk;
    const u32 bytes = layout_.chunk_bytes(chunk);
    for (u32 i = 0; i * kPageSize < bytes; i++) {
      const u32 n = std::min(kPageSize, bytes - i * kPageSize);
      page_ = place_.runs.from(layout_.note_pages + chunk * kChunkPages + i, 1).first;
      if (!hides(page_) || n <= kHiddenAt) continue;
      std::memcpy(data + i * kPageSize + kHiddenAt, note + 4 + 2 * i, std::min(n - kHiddenAt, 2u));
    }
    u32 checksum;
    std::memcpy(&checksum, note, sizeof checksum);
    *good = checksum == chunk_checksum(name_.value_id, chunk, Bytes(data, bytes));
    return kOk;
  }

  const ValueName &name_;
  const ValuePlace &place_;
  u8 *io_;
  const ValueLayout layout_;
  u32 note_page_ = ~u32{0};   // that is in io_
  PageNo page_ = 0;           // looked at last
};

}  // namespace

ValueNotes::ValueNotes(u32 value_bytes) {
  const ValueLayout layout(value_bytes);
  const size_t bytes = size_t{layout.chunks} * kChunkNoteBytes;
  if (layout.note_pages > 0) large_.resize(bytes);
  notes_ = layout.note_pages > 0 ? large_.data() : small_;
  in_row_ = layout.note_pages > 0 ? 0 : bytes;
}

Status value_write(const ValueName &name, const u8 *data, const ValueIo &io, ValueNotes &notes,
                   ValuePlace *place) {
  const ValueLayout layout(place->bytes);
  LS_ASSERT(layout.pages() == place->runs.pages());
  note_checksums(name, layout, data, notes.bytes());
  ValueWriter writer(name, *place, io, notes.bytes());
  LS_TRY(writer.write(0, layout.data_pages, data));
  LS_TRY(writer.write_note_pages());
  place->notes = notes.in_row();
  place->tail = Bytes(data + layout.paged_bytes, layout.tail_bytes);
  return kOk;
}

Status value_copy(const ValueSource &from, const MoveMemory &memory, ValueNotes &notes,
                  const ValueTarget &to, bool *stale) {
  const ValueLayout layout(from.place.bytes);
  LS_ASSERT(layout.pages() == to.place->runs.pages());
  ValueWriter writer(to.name, *to.place, memory.io, notes.bytes());
  bool good = true;
  LS_TRY(ValueReader(from.name, from.place, memory.io.bytes).copy_notes(notes.bytes(), &good));
  for (u32 page = 0; good && page < layout.data_pages; page += kIoPages) {
    const u32 pages = std::min(kIoPages, layout.data_pages - page);
    const u32 begin = page * kPageSize;
    const u32 end = std::min(begin + pages * kPageSize, layout.paged_bytes);
    // Of its own: the writer uses the memory, too.
    ValueReader reader(from.name, from.place, memory.io.bytes);
    LS_TRY(reader.read_chunks(begin, end, memory.data, &good));
    if (good) LS_TRY(writer.write(page, pages, memory.data));
  }
  *stale = !good;
  if (good) LS_TRY(writer.write_note_pages());
  to.place->notes = notes.in_row();
  to.place->tail = from.place.tail;
  return kOk;
}

Status value_read(const ValueSource &from, const ValueSlice &slice, u8 *io, u8 *out,
                  ValueRead *read) {
  const ValueLayout layout(from.place.bytes);
  ValueReader reader(from.name, from.place, io);
  const u32 end = slice.offset + slice.bytes, paged_end = std::min(end, layout.paged_bytes);
  bool good = true;
  for (u32 at = slice.offset; good && at < paged_end;) {
    const u32 chunk = at / kChunkBytes, chunk_begin = chunk * kChunkBytes;
    const u32 chunk_end = chunk_begin + layout.chunk_bytes(chunk);
    u32 to = std::min(paged_end, chunk_end);
    if (at == chunk_begin && to == chunk_end) {
      // All whole ones that follow.
      to = paged_end == layout.paged_bytes ? paged_end : paged_end / kChunkBytes * kChunkBytes;
      LS_TRY(reader.read_chunks(at, to, out + (at - slice.offset), &good));
    } else {
      LS_TRY(reader.read_part(at, to, out + (at - slice.offset), &good));
    }
    at = to;
  }
  *read = {!good, reader.page()};
  if (good && end > layout.paged_bytes) {
    const u32 begin = std::max(slice.offset, layout.paged_bytes);
    std::memcpy(out + (begin - slice.offset), from.place.tail.data() + (begin - layout.paged_bytes),
                end - begin);
  }
  return kOk;
}

}  // namespace ls
