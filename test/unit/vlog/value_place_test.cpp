// The row of a value: how many pages, its bytes and back, and bytes that are none.
#include "vlog/value_place.hpp"

#include <gtest/gtest.h>

#include <random>

namespace ls {
namespace {

// Runs that never touch, as many as make so many pages.
PageRuns random_runs(u32 pages, std::mt19937_64 &random) {
  PageRuns runs;
  PageNo next = static_cast<PageNo>(random() % 1000);
  while (runs.pages() < pages) {
    const u32 left = pages - runs.pages();
    const u32 n = runs.count() == 15 ? left : static_cast<u32>(1 + random() % left);
    const bool back = next > 4'000'000'000u;
    runs.add({back ? next / 2 : next, n});
    next = runs[runs.count() - 1].end() + 1 + static_cast<PageNo>(random() % 100'000'000);
  }
  return runs;
}

TEST(ValuePlaceTest, layout_of_each_size) {
  for (u32 bytes = LS_VALUE_IN_ROW_BYTES + 1; bytes < 700'000; bytes += 1 + bytes / 97) {
    const ValueLayout layout(bytes);
    EXPECT_LE(layout.tail_bytes, LS_VALUE_IN_ROW_BYTES) << bytes;
    EXPECT_EQ(layout.paged_bytes + layout.tail_bytes, bytes);
    EXPECT_LT(layout.data_pages * kPageSize - layout.paged_bytes,
              kPageSize - LS_VALUE_IN_ROW_BYTES)
        << bytes << ": less than what the row could have had is left empty";
    u32 all = 0;
    for (u32 chunk = 0; chunk < layout.chunks; chunk++) all += layout.chunk_bytes(chunk);
    EXPECT_EQ(all, layout.paged_bytes);
    EXPECT_EQ(layout.note_pages > 0, layout.chunks > kMostChunksInRow);
    EXPECT_GE(layout.note_pages * kNotesPerPage + kMostChunksInRow, layout.chunks);
  }
  EXPECT_EQ(ValueLayout(4096).pages(), 1u);
  EXPECT_EQ(ValueLayout(4096 + LS_VALUE_IN_ROW_BYTES).pages(), 1u);
  EXPECT_EQ(ValueLayout(4096 + LS_VALUE_IN_ROW_BYTES + 1).pages(), 2u);
  EXPECT_EQ(ValueLayout(LS_MAX_VALUE_BYTES).data_pages, LS_MAX_VALUE_BYTES / kPageSize);
}

struct Packed {
  ValuePlace place;
  std::vector<u8> notes, tail, bytes;
};

Packed random_place(std::mt19937_64 &random) {
  Packed p;
  p.place.bytes = static_cast<u32>(LS_VALUE_IN_ROW_BYTES + 1 +
                                   random() % (random() % 4 == 0 ? 40'000'000 : 300'000));
  const ValueLayout layout(p.place.bytes);
  p.place.runs = random_runs(layout.pages(), random);
  p.place.hash = random() % 2 == 0 ? 0 : random() | 1;
  p.place.writer = random() % 2 == 0 ? 0 : 1 + random() % (u64{1} << random() % 33);
  p.notes.resize(layout.note_pages == 0 ? size_t{layout.chunks} * kChunkNoteBytes : 0);
  p.tail.resize(layout.tail_bytes);
  for (u8 &byte : p.notes) byte = static_cast<u8>(random());
  for (u8 &byte : p.tail) byte = static_cast<u8>(random());
  p.place.notes = p.notes;
  p.place.tail = p.tail;
  p.bytes.resize(kMostPlaceBytes);
  p.bytes.resize(store_place(p.place, p.bytes.data()));
  return p;
}

TEST(ValuePlaceTest, what_was_stored_is_read_back) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; i++) {
    const Packed p = random_place(random);
    ValuePlace back;
    ASSERT_TRUE(load_place(p.bytes, &back));
    EXPECT_EQ(back.bytes, p.place.bytes);
    EXPECT_EQ(back.hash, p.place.hash);
    EXPECT_EQ(back.writer, p.place.writer);
    ASSERT_EQ(back.runs.count(), p.place.runs.count());
    for (u32 run = 0; run < back.runs.count(); run++) {
      EXPECT_EQ(back.runs[run].first, p.place.runs[run].first);
      EXPECT_EQ(back.runs[run].pages, p.place.runs[run].pages);
    }
    EXPECT_TRUE(std::equal(back.notes.begin(), back.notes.end(), p.notes.begin(), p.notes.end()));
    EXPECT_TRUE(std::equal(back.tail.begin(), back.tail.end(), p.tail.begin(), p.tail.end()));
    for (u32 page = 0; page < back.runs.pages(); page += 1 + back.runs.pages() / 7)
      EXPECT_GT(back.runs.from(page, 5).pages, 0u);
  }
}

TEST(ValuePlaceTest, damaged_bytes_are_refused_or_make_sense) {
  std::mt19937_64 random(2);
  u32 refused = 0;
  for (int i = 0; i < 20'000; i++) {
    Packed p = random_place(random);
    switch (random() % 3) {
      case 0: p.bytes.resize(random() % p.bytes.size()); break;
      case 1:
        p.bytes[random() % std::min<size_t>(p.bytes.size(), 40)] ^= u8(1u << random() % 8);
        break;
      default:
        for (u8 &byte : p.bytes) byte = static_cast<u8>(random());
    }
    ValuePlace back;
    if (!load_place(p.bytes, &back)) {
      refused++;
      continue;
    }
    EXPECT_EQ(back.runs.pages(), ValueLayout(back.bytes).pages());
    EXPECT_EQ(back.tail.size(), ValueLayout(back.bytes).tail_bytes);
  }
  EXPECT_GT(refused, 10'000u);
}

// Its pages would be freed with it.
TEST(ValuePlaceTest, runs_with_2_to_the_32_pages_too_many_are_refused) {
  const std::vector<u8> notes(kChunkNoteBytes);
  ValuePlace place;
  place.bytes = kPageSize;
  place.notes = notes;
  for (const PageRun run : {PageRun{1, 1u << 31}, PageRun{0, 1u << 31}, PageRun{7, 1}})
    place.runs.add(run);
  ASSERT_EQ(place.runs.pages(), ValueLayout(kPageSize).pages());
  std::vector<u8> bytes(kMostPlaceBytes);
  bytes.resize(store_place(place, bytes.data()));
  ValuePlace back;
  EXPECT_FALSE(load_place(bytes, &back));
}

TEST(ValuePlaceTest, a_value_that_is_too_large_for_numbers_of_pages_is_refused) {
  ValuePlace place, back;
  for (const u32 value_bytes : {0u - 120, LS_MAX_VALUE_BYTES + 1}) {
    place.bytes = value_bytes;
    place.runs = {};
    if (const u32 pages = ValueLayout(value_bytes).pages()) place.runs.add({1, pages});
    const std::vector<u8> zeros(ValueLayout(value_bytes).tail_bytes);
    place.tail = zeros;
    std::vector<u8> bytes(kMostPlaceBytes);
    bytes.resize(store_place(place, bytes.data()));
    EXPECT_FALSE(load_place(bytes, &back)) << value_bytes;
  }
}

}  // namespace
}  // namespace ls
