// value_fuzz.cpp - what the row of a large value says of its pages: it is refused, or the pages are
// as many as the value needs, and the same bytes come out of it when it is stored again.
//
//   input   the bytes of a place
#include "fuzz/fuzz.hpp"
#include "fuzz/pages.hpp"
#include "vlog/value_place.hpp"

namespace ls::fuzz {

void write_seeds(const SeedWriter &write) {
  const Buffer zeros(kMostPlaceBytes);
  for (u32 bytes : {5000u, 4096u * 3, 9000u, 1u << 20, 70'000'000u}) {
    const ValueLayout layout(bytes);
    ValuePlace place;
    place.bytes = bytes;
    place.runs.add({100, layout.pages() - 1});
    place.runs.add({5, 1});
    place.hash = bytes % 2 ? 0 : 99;
    place.writer = bytes % 3 ? 0 : 98;
    place.tail = Bytes(zeros).first(layout.tail_bytes);
    if (layout.note_pages == 0)
      place.notes = Bytes(zeros).first(size_t{layout.chunks} * kChunkNoteBytes);
    Buffer out(kMostPlaceBytes);
    out.resize(store_place(place, out.data()));
    write(std::to_string(bytes).c_str(), out);
  }
  // Of one page; its runs have 2^32 more.
  ValuePlace wrapped;
  wrapped.bytes = kPageSize;
  wrapped.notes = Bytes(zeros).first(kChunkNoteBytes);
  for (PageRun run : {PageRun{1, 1u << 31}, PageRun{0, 1u << 31}, PageRun{7, 1}})
    wrapped.runs.add(run);
  Buffer out(kMostPlaceBytes);
  out.resize(store_place(wrapped, out.data()));
  write("wrapped", out);
}

void test_one(Input &input) {
  const Bytes rest = input.rest();
  const Buffer own(rest.begin(), rest.end());
  ValuePlace place;
  if (!load_place(own, &place)) return;
  const ValueLayout layout(place.bytes);
  u64 pages = 0;
  for (const PageRun &run : place.runs.all()) {
    FUZZ_CHECK(run.pages > 0 && u64{run.first} + run.pages <= ~u32{0});
    pages += run.pages;
  }
  FUZZ_CHECK(pages == layout.pages());
  if (pages > 0) FUZZ_CHECK(place.runs.from(layout.pages() - 1, 9).pages == 1);
  FUZZ_CHECK(place.tail.size() == layout.tail_bytes);
  (void)touch(place.tail);
  (void)touch(place.notes);
  FUZZ_CHECK(place.writer_in(4) != 0);
  Buffer stored(kMostPlaceBytes);
  stored.resize(store_place(place, stored.data()));
  ValuePlace again;
  FUZZ_CHECK(load_place(stored, &again) && again.runs.count() == place.runs.count());
}

}  // namespace ls::fuzz
