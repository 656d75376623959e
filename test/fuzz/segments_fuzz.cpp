// segments_fuzz.cpp - files of the log: rounds at any place of a segment, torn or whole, and the
// search for one that proves that something is missing before it.
//
// What they have is shown to people, too.
//
//   input   where the control file says that the log was on disk, 1 | for each piece: what, 1 |
//           bytes, 2 | bytes: of a round's chunks, or any
#include <unistd.h>

#include "fuzz/fuzz.hpp"
#include "fuzz/records.hpp"
#include "recovery/log_inspect.hpp"
#include "wal/log_reader.hpp"
#include "wal/log_segments.hpp"

namespace ls::fuzz {

namespace {

constexpr u64 kSegmentBytes = 8192;
constexpr u32 kSegments = 2;
constexpr size_t kMostBytes = kSegmentBytes * kSegments;

// As the parts follow one another, and behind them zeros.
Buffer make_stream(Input &input) {
  Buffer stream;
  RoundHeader header{};
  while (!input.empty() && stream.size() < kMostBytes) {
    const u8 what = input.byte();
    const Bytes part = input.take(input.number<u16>());
    if (what % 8 == 7) {
      stream.insert(stream.end(), part.begin(), part.end());
      header.lsn += part.size();
      continue;
    }
    header.run = what / 64 + 1u;
    header.complete_gsn += what % 8 * 10u;
    header.durable_lsn = what & 32 ? header.lsn : 0;
    if (what & 16) header.lsn += 32;   // of another place
    Buffer round = make_round(&header, part);
    if (what & 16) header.lsn -= 32;
    stream.insert(stream.end(), round.begin(), round.end());
  }
  stream.resize(std::min(stream.size(), kMostBytes));
  return stream;
}

void put_segments(const Buffer &stream) {
  for (u32 number = 0; number < kSegments; number++) {
    const std::string path = log_segment_path(directory(), number);
    const size_t from = number * kSegmentBytes;
    if (from >= stream.size() && number > 0) {
      unlink(path.c_str());
      continue;
    }
    Buffer segment(stream.begin() + static_cast<long>(std::min(from, stream.size())),
                   stream.begin() + static_cast<long>(std::min(from + kSegmentBytes,
                                                               stream.size())));
    segment.resize(kSegmentBytes);
    put_file(path, segment);
  }
}

void read_log(Lsn known_end) {
  LogReader log(directory().c_str(), kSegmentBytes, 0, 1);
  Gsn before = 0;
  for (;; log.pop(), log.forget()) {
    const LogEntry *entry = nullptr;
    const Status status = log.peek(&entry);
    expect_refusal_or(status);
    if (!ok(status)) return;
    if (entry == nullptr) break;
    FUZZ_CHECK(entry->gsn > before);
    before = entry->gsn;
    (void)touch(entry->record().body);
  }
  FUZZ_CHECK(log.extent().end <= kMostBytes && before <= log.extent().complete_gsn);
  const Status status = log.check_end(known_end);
  expect_refusal_or(status);
  if (ok(status)) FUZZ_CHECK(log.extent().end >= known_end);
}

// From the first round on, and from another place.
void inspect_log(Lsn from) {
  LogInspector inspector({}, directory().c_str(), kSegmentBytes, from, kMostBytes);
  for (u32 items = 0;; items++) {
    ls_log_item item;
    const Status status = inspector.next(&item);
    if (code(status) == LS_END) return;
    expect_refusal_or(status);
    if (!ok(status)) return;
    FUZZ_CHECK(items < kMostBytes && item.kind != nullptr && item.position < kMostBytes);
    if (item.operation != nullptr) (void)touch(bytes_of(std::string(item.operation)));
  }
}

}  // namespace

void write_seeds(const SeedWriter &write) {
  Output all;
  all.number<u8>(0);
  for (const SampleRound &round : sample_rounds(true)) {
    for (u8 what : {0x44, 0x64, 0x7f}) {
      all.number(what).number(static_cast<u16>(round.chunks.size())).bytes(round.chunks);
      Output one;
      one.number<u8>(8).number(what).number(static_cast<u16>(round.chunks.size()));
      const std::string name = std::to_string(what) + "_" + std::to_string(round.chunks.size());
      write(name.c_str(), one.bytes(round.chunks));
    }
  }
  write("all", all);
}

void test_one(Input &input) {
  const Lsn known_end = Lsn{input.byte()} * 8;
  put_segments(make_stream(input));
  read_log(known_end);
  inspect_log(0);
  inspect_log(known_end);
}

}  // namespace ls::fuzz
