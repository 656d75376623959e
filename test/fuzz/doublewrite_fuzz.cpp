// doublewrite_fuzz.cpp - the doublewrite buffer with right checksums, beside a relation file of
// which a page is torn: images go to their places, and nowhere else.
//
//   input   pages that the header names, 1 | paths that it names, 1 | bytes it takes, 2 more or
//           less | entries and paths | images, of which the checksums are made right
#include <unistd.h>

#include <algorithm>

#include "base/crc32c.hpp"
#include "buffer/doublewrite.hpp"
#include "buffer/page_provider.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/pages.hpp"

namespace ls::fuzz {

namespace {

constexpr const char *kRelation = "16500";

void put_relation() {
  Output file;
  const auto &pages = sample_pages();
  for (PageNo page_no = 0; page_no < 4; page_no++) {
    const PagePtr page = copy_page_of(pages[page_no].second->bytes);
    page->node()->header.page_no = page_no;
    page_seal(page->bytes);
    page->bytes[1000] ^= page_no == 2;
    file.bytes({page->bytes, kPageSize});
  }
  put_file(directory() + "/" + kRelation, file);
}

Buffer make_area(Input &input) {
  TearHeader header{kTearMagic, 0, 0, input.byte(), input.byte()};
  header.bytes = static_cast<u32>(sizeof header + header.pages * sizeof(TearEntry) +
                                  header.paths * sizeof(TearPath));
  header.bytes += static_cast<u32>(input.number<int16_t>());
  const Bytes rest = input.rest();
  Buffer area(sizeof header);
  area.insert(area.end(), rest.begin(), rest.end());
  area.resize(std::max<size_t>((area.size() + kPageSize - 1) / kPageSize * kPageSize, kPageSize));
  std::memcpy(area.data(), &header, sizeof header);
  if (header.bytes < sizeof header || header.bytes > area.size()) return area;
  // No other directory is written to.
  std::replace(area.begin() + sizeof header, area.begin() + header.bytes, u8{'/'}, u8{'_'});
  const size_t images = (header.bytes + kPageSize - 1) / kPageSize * kPageSize;
  for (u32 i = 0; images + (i + 1) * kPageSize <= area.size(); i++) {
    u8 *image = area.data() + images + i * kPageSize;
    page_seal(image);
    TearEntry entry{};
    const size_t at = sizeof header + i * sizeof entry;
    if (at + sizeof entry > header.bytes) break;
    std::memcpy(&entry, area.data() + at, sizeof entry);
    entry.checksum = reinterpret_cast<const PageHeader *>(image)->checksum;
    std::memcpy(area.data() + at, &entry, sizeof entry);
  }
  header.crc = crc32c(0, area.data(), header.bytes);
  std::memcpy(area.data(), &header, sizeof header);
  return area;
}

}  // namespace

void write_seeds(const SeedWriter &write) {
  for (u8 pages = 1; pages <= 2; pages++) {
    Output seed;
    seed.number(pages).number<u8>(1).number<int16_t>(0);
    for (u32 i = 0; i < pages; i++) seed.number(TearEntry{2 - i, 0, 0});
    TearPath path{};
    std::strcpy(path.path, kRelation);
    seed.number(path);
    seed.buffer().resize(4 + kPageSize - sizeof(TearHeader));
    for (u32 i = 0; i < pages; i++) {
      const PagePtr page = copy_page_of(sample_pages()[i].second->bytes);
      page->node()->header.page_no = 2 - i;
      seed.bytes({page->bytes, kPageSize});
    }
    write(std::to_string(pages).c_str(), seed);
  }
}

void test_one(Input &input) {
  const std::string path = directory() + "/doublewrite";
  put_relation();
  put_file(path, make_area(input));
  const Status status = doublewrite_recover(path.c_str());
  expect_refusal_or(status);
  FUZZ_CHECK(get_file(directory() + "/" + kRelation).size() >= 3 * kPageSize);
}

}  // namespace ls::fuzz
