// value_pages_fuzz.cpp - pages of large values, and a row that leads to them: a value, or a part of
// it, is read, or what is there does not fit.
//
//   input   offset, 4 | bytes, 2: of the part | bytes of the place, 2 | the place | the file
//           The checksums of pages with notes are made right.
#include <unistd.h>

#include "fuzz/fuzz.hpp"
#include "fuzz/pages.hpp"
#include "vlog/value_file.hpp"

namespace ls::fuzz {

namespace {

constexpr u64 kValueId = 77;
constexpr u32 kMostReadBytes = 4 << 20;

FileRef relation() {
  static const std::string path = directory() + "/values";
  return {FileNo{6}, path.c_str()};
}
std::string file_path() { return std::string(relation().path) + "_fsm"; }

void seal(const ValuePlace &place, Buffer *file) {
  const ValueLayout layout(place.bytes);
  for (u32 i = 0; i < layout.note_pages; i++) {
    const u64 at = u64{place.runs.from(i, 1).first} * kPageSize;
    if (at + kPageSize > file->size()) continue;
    const u32 checksum = note_page_checksum(kValueId, i, file->data() + at);
    std::memcpy(file->data() + at, &checksum, sizeof checksum);
  }
}

// A value of so many bytes in a file from page 4 on, its chunks with right checksums.
void write_sample(u32 bytes, const SeedWriter &write) {
  const ValueLayout layout(bytes);
  const u32 first = 4;
  ValuePlace place;
  place.bytes = bytes;
  place.runs.add({first, layout.pages()});
  Buffer notes(size_t{layout.chunks} * kChunkNoteBytes), zeros(kChunkBytes);
  for (u32 chunk = 0; chunk < layout.chunks; chunk++) {
    const u32 checksum =
        chunk_checksum(kValueId, chunk, Bytes(zeros).first(layout.chunk_bytes(chunk)));
    std::memcpy(notes.data() + chunk * kChunkNoteBytes, &checksum, sizeof checksum);
  }
  Buffer file((first + layout.note_pages + 1) * kPageSize);
  if (layout.note_pages == 0) {
    place.notes = notes;
  } else {
    std::memcpy(file.data() + first * kPageSize + kNotePageHead, notes.data(), notes.size());
  }
  place.tail = Bytes(zeros).first(layout.tail_bytes);
  Buffer row(kMostPlaceBytes);
  row.resize(store_place(place, row.data()));
  Output seed;
  seed.number<u32>(bytes / 3).number<u16>(5000).number(static_cast<u16>(row.size())).bytes(row);
  write(std::to_string(bytes).c_str(), seed.bytes(file));
}

}  // namespace

void write_seeds(const SeedWriter &write) {
  for (u32 bytes : {5000u, 3 * kPageSize, 2 * kChunkBytes + 700, 20 * kChunkBytes + 9})
    write_sample(bytes, write);
}

void test_one(Input &input) {
  const u32 offset = input.number<u32>(), wanted = input.number<u16>();
  const u16 place_bytes = input.number<u16>();
  const Bytes row = input.take(place_bytes);
  const Buffer own(row.begin(), row.end());
  ValuePlace place;
  if (!load_place(own, &place)) return;
  const Bytes rest = input.rest();
  Buffer pages(rest.begin(), rest.end());
  seal(place, &pages);
  put_file(file_path(), pages);
  // Behind what the input has, zeros.
  FUZZ_CHECK(truncate(file_path().c_str(), kMostReadBytes) == 0);

  const FurtherFile further(relation());
  const ValueSource source{{further, kValueId}, place};
  if (place.bytes == 0) return;
  ValueSlice slice{offset % place.bytes, 0};
  slice.bytes = std::min({place.bytes - slice.offset, 1 + wanted * 16u, kMostReadBytes});
  Buffer io(kIoPages * kPageSize), out(slice.bytes);
  ValueRead read{};
  expect_refusal_or(value_read(source, slice, io.data(), out.data(), &read));
  (void)touch(out);
}

}  // namespace ls::fuzz
