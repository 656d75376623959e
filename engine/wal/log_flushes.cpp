// log_flushes.cpp - the stream of the log's bytes over its files, and one round of it: torn,
// damaged or whole.
#include "wal/log_flushes.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/check.hpp"
#include "wal/log_bounds.hpp"
#include "wal/log_segments.hpp"

namespace ls {

namespace {

constexpr size_t kWindowBytes = 128 << 10;

Status damaged(const RoundHeader &header, const char *what) {
  return fail(LS_CORRUPT, "log round at %llu %s", static_cast<unsigned long long>(header.lsn),
              what);
}

}  // namespace

// ---- the stream

LogStream::LogStream(const char *dir, u64 segment_bytes)
    : dir_(dir), segment_bytes_(segment_bytes), window_(kWindowBytes) {}

Status LogStream::read(Lsn lsn, u8 *to, size_t bytes, bool *whole) {
  *whole = true;
  while (bytes > 0) {
    if (lsn < window_lsn_ || lsn >= window_lsn_ + window_bytes_) {
      LS_TRY(fill(lsn));
      if (window_bytes_ == 0) {
        *whole = false;
        return kOk;
      }
    }
    size_t offset = static_cast<size_t>(lsn - window_lsn_);
    size_t n = std::min(bytes, window_bytes_ - offset);
    std::memcpy(to, window_.data() + offset, n);
    lsn += n;
    to += n;
    bytes -= n;
  }
  return kOk;
}

Status LogStream::sync(Lsn from, Lsn end) {
  for (u64 number = from / segment_bytes_; number <= end / segment_bytes_; number++) {
    File file;
    Status status = file.open(log_segment_path(dir_, number).c_str(), 0);
    if (code(status) == LS_NOT_FOUND) continue;
    LS_TRY(status);
    LS_TRY(file.sync_data());
  }
  return kOk;
}

Status LogStream::end_of_segments(Lsn lsn, Lsn *end) const {
  std::set<u64> present;
  LS_TRY(log_segments_present(dir_, present));
  u64 number = lsn / segment_bytes_;
  while (present.contains(number)) number++;
  *end = number * segment_bytes_;
  return kOk;
}

std::string LogStream::path_at(Lsn lsn) const {
  return log_segment_path(dir_, lsn / segment_bytes_);
}

Status LogStream::fill(Lsn lsn) {
  window_lsn_ = lsn;
  window_bytes_ = 0;
  u64 number = lsn / segment_bytes_;
  if (!file_.is_open() || number != number_) {
    Status status = file_.open(log_segment_path(dir_, number).c_str(), 0);
    if (code(status) == LS_NOT_FOUND) return missing(number);
    LS_TRY(status);
    number_ = number;
  }
  u64 offset = lsn % segment_bytes_;
  size_t want = static_cast<size_t>(std::min<u64>(kWindowBytes, segment_bytes_ - offset));
  return file_.read_at(offset, window_.data(), want, &window_bytes_);
}

// Segments are made in order, so behind the last there is none.
Status LogStream::missing(u64 number) {
  std::set<u64> present;
  LS_TRY(log_segments_present(dir_, present));
  if (present.empty() || *present.rbegin() < number) return kOk;
  return fail(LS_CORRUPT, "log segment \"%s\" is missing", log_segment_path(dir_, number).c_str());
}

// ---- one round

Status log_round_header(LogStream &stream, Lsn lsn, RoundHeader *header, bool *plausible) {
  u8 bytes[kRoundHeaderBytes];
  LS_TRY(stream.read(lsn, bytes, sizeof bytes, plausible));
  *plausible = *plausible && load_round_header(bytes, lsn, header);
  return kOk;
}

Status log_round_load(LogStream &stream, const RoundHeader &header, u8 *to, bool *whole) {
  LS_TRY(stream.read(header.lsn, to, header.bytes, whole));
  *whole = *whole && is_whole(header, to);
  return kOk;
}

Status log_round_records(const RoundHeader &header, const u8 *round, const LogRecordEach &each) {
  LS_ASSERT(header.bytes >= kRoundHeaderBytes && header.bytes <= kMaxRoundBytes);
  LogBytes left(round + kRoundHeaderBytes, header.bytes - kRoundHeaderBytes);
  while (!left.empty()) {
    ChunkHeader chunk;
    LogBytes records;
    if (const char *wrong = load_chunk(&left, header.complete_gsn, &chunk, &records))
      return damaged(header, wrong);
    for (Gsn before = chunk.before; !records.empty();) {
      const u8 *at = records.data();
      LogRecord record;
      if (const char *wrong = load_record(&records, before, &record)) return damaged(header, wrong);
      if (record.gsn == 0 || record.gsn > kMaxPosition)
        return damaged(header, "has a record without a place in the total order");
      each(chunk.slot, record, at);
      before = record.gsn;
    }
  }
  return kOk;
}

// ---- torn or damaged?

Status log_find_proof(LogStream &stream, Lsn lsn, u64 run, Lsn *position) {
  *position = 0;
  Lsn end;
  LS_TRY(stream.end_of_segments(lsn, &end));
  std::vector<u8> window(kWindowBytes), round;
  for (Lsn at = lsn + 1; at + kRoundHeaderBytes <= end;) {
    size_t bytes = static_cast<size_t>(std::min<u64>(window.size(), end - at));
    bool whole;
    LS_TRY(stream.read(at, window.data(), bytes, &whole));
    if (!whole) return kOk;  // the last segment is short
    for (size_t i = 0; i + sizeof kLogMagic <= bytes; i++) {
      const void *found = memmem(window.data() + i, bytes - i, &kLogMagic, sizeof kLogMagic);
      if (!found) break;
      i = static_cast<size_t>(static_cast<const u8 *>(found) - window.data());
      RoundHeader header;
      bool good;
      LS_TRY(log_round_header(stream, at + i, &header, &good));
      if (!good || header.durable_lsn <= lsn || header.run < run) continue;
      round.resize(header.bytes);
      LS_TRY(log_round_load(stream, header, round.data(), &good));
      if (!good) continue;
      *position = at + i;
      return kOk;
    }
    if (at + bytes == end) return kOk;
    at += bytes - (sizeof kLogMagic - 1);  // a magic number may lie across the seam
  }
  return kOk;
}

}  // namespace ls
