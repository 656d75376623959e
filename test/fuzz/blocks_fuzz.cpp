// blocks_fuzz.cpp - the file `row_blocks`: what is said to be known of rows.
//
//   input   the files and cells behind the header, of which the first byte says how many are files
#include "base/crc32c.hpp"
#include "base/types.hpp"
#include "fuzz/fuzz.hpp"
#include "recovery/kept_file.hpp"

namespace ls::fuzz {

namespace {

constexpr StoreId kStore{3, 4};
constexpr u64 kRun = 5, kFrames = 1;

const std::string &path() {
  static const std::string kept = directory() + "/row_blocks";
  return kept;
}

Buffer sample() {
  KeptWriter writer(path().c_str());
  FUZZ_CHECK(ok(writer.open(kStore, kRun)));
  ClosedFile file;
  file.record.file = 9;
  file.record.tablespace = 1663;
  file.record.owner = -1;
  file.record.kind = LS_REL_TABLE;
  std::snprintf(file.path, sizeof file.path, "base/5/16384");
  file.record.path_bytes = static_cast<u16>(std::strlen(file.path));
  RowBlocks::Known cell{.file_no = 9, .cell_no = 1, .facts = {6, 2, 4, 8}, .rows = {256, 3}};
  FUZZ_CHECK(ok(writer.add(file)) && ok(writer.add(cell)));
  cell.cell_no++;
  FUZZ_CHECK(ok(writer.add(cell)) && ok(writer.finish()));
  return get_file(path());
}

// Their places in memory, as a start has it.
RowBlocks &blocks() {
  static RowBlocks made;
  static void *memory = [] {
    const size_t bytes = RowBlocks::bytes_for(kFrames);
    void *zeros = std::aligned_alloc(kCacheLine, bytes);
    std::memset(zeros, 0, bytes);
    made.init(zeros, kFrames);
    return zeros;
  }();
  (void)memory;
  return made;
}

void put_kept(Bytes body, u8 files) {
  KeptHeader header;
  static const Buffer head = sample();
  std::memcpy(&header, head.data(), sizeof header);
  header.files = std::min<u64>(files, body.size() / sizeof(ClosedFile));
  const size_t cells = body.size() - header.files * sizeof(ClosedFile);
  header.cells = cells / sizeof(RowBlocks::Known);
  if (files < 128) body = body.first(body.size() - cells % sizeof(RowBlocks::Known));
  constexpr size_t kFrom = offsetof(KeptHeader, crc) + sizeof header.crc;
  header.crc = crc32c(crc32c(0, body.data(), body.size()), bytes_of(header).data() + kFrom,
                      sizeof header - kFrom);
  Output file;
  put_file(path(), file.bytes(bytes_of(header)).bytes(body));
}

}  // namespace

void write_seeds(const SeedWriter &write) {
  const Buffer file = sample();
  Output seed;
  write("sample", seed.number<u8>(1).bytes(Bytes(file).subspan(sizeof(KeptHeader))));
}

void test_one(Input &input) {
  const u8 files = input.byte();
  put_kept(input.rest(), files);
  KeptReader reader;
  const Status status = reader.open(path().c_str(), kStore, kRun);
  if (code(status) == LS_NOT_FOUND) return;
  FUZZ_CHECK(ok(status));
  FUZZ_CHECK(ok(reader.each_file([](const ClosedFile &file) {
    FUZZ_CHECK(file.record.path_bytes < sizeof file.path && file.record.file != 0);
    return kOk;
  })));
  FUZZ_CHECK(ok(reader.each_cell([](const RowBlocks::Known &cell) {
    blocks().put(cell);
    OwnCell own(blocks(), cell.file_no, cell.cell_no);
    FUZZ_CHECK(own.get() != nullptr);
    for (u32 block = 0; block < RowCell::kBlocks; block++) {
      FUZZ_CHECK(!own.get()->has(block, BlockFact::kPending));
      FUZZ_CHECK(own.get()->rows[block] <= 256);
    }
    return kOk;
  })));
}

}  // namespace ls::fuzz
