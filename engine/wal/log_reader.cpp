// Reading the log back.  What ends the log: a header that is not a round of this position, a checksum that does not match,
// a round of an earlier run than the one before it (left over behind a torn round of that run).  What is an error: a
// round whose checksum matches but whose contents do not make sense, a segment missing between others, a failed read.
#include "wal/log_reader.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "base/crc32c.hpp"
#include "os/file.hpp"
#include "wal/log_segments.hpp"

namespace ls {

namespace {

constexpr size_t kWindowBytes = 128 << 10;
// Pieces of storage grow from the first size to the second: most logs are short, some are very long.
constexpr size_t kFirstStorageBytes = 64 << 10;
constexpr size_t kMaxStorageBytes = 8 << 20;
// Larger ones are not written: a chunk has at most the bytes of a log buffer, see Log::create.
constexpr u32 kMaxRoundBytes = 64 << 20;

// Random access to the stream, buffered.
class Stream {
 public:
  Stream(const char *dir, u64 segment_bytes) : dir_(dir), segment_bytes_(segment_bytes), window_(kWindowBytes) {}

  // Copy [lsn, lsn + bytes); *whole is false when the stream ends before.
  Status read(Lsn lsn, u8 *to, size_t bytes, bool *whole) {
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

  // What was read becomes durable: it may so far be only in the page cache, and recovery builds on it.
  Status sync(Lsn from, Lsn end) {
    for (u64 number = from / segment_bytes_; number <= end / segment_bytes_; number++) {
      File file;
      Status status = file.open(log_segment_path(dir_, number).c_str(), 0);
      if (code(status) == LS_NOT_FOUND) continue;
      LS_TRY(status);
      LS_TRY(file.sync_data());
    }
    return kOk;
  }

 private:
  Status fill(Lsn lsn) {
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
  Status missing(u64 number) {
    std::set<u64> present;
    LS_TRY(log_segments_present(dir_, present));
    if (present.empty() || *present.rbegin() < number) return kOk;
    return fail(LS_CORRUPT, "log segment \"%s\" is missing", log_segment_path(dir_, number).c_str());
  }

  const std::string dir_;
  const u64 segment_bytes_;
  File file_;
  u64 number_ = 0;
  std::vector<u8> window_;
  Lsn window_lsn_ = 0;
  size_t window_bytes_ = 0;
};

class Reader {
 public:
  Reader(const char *dir, u64 segment_bytes, u64 first_run, LogImage &out)
      : stream_(dir, segment_bytes), first_run_(first_run), out_(out) {}

  Status read_all(Lsn from) {
    position_ = from;
    for (bool more = true; more;) LS_TRY(read_round(&more));
    cut_run();
    out_.end = position_;
    LS_TRY(stream_.sync(from, position_));
    return sort();
  }

 private:
  // *more is false at the end of the log.
  Status read_round(bool *more) {
    RoundHeader header;
    LS_TRY(stream_.read(position_, reinterpret_cast<u8 *>(&header), sizeof header, more));
    if (!*more) return kOk;
    *more = header.magic == kLogMagic && header.lsn == position_ && header.bytes >= sizeof header &&
            header.bytes <= kMaxRoundBytes;
    if (!*more) return kOk;
    u8 *round = allocate(header.bytes);
    LS_TRY(stream_.read(position_, round, header.bytes, more));
    *more = *more && checksum_matches(round, header);
    if (!*more) {
      give_back(header.bytes);
      return kOk;
    }
    if (header.run < (have_round_ ? out_.run : first_run_)) {
      give_back(header.bytes);
      *more = false;
      return kOk;
    }
    return take_round(header, round);
  }

  static bool checksum_matches(u8 *round, const RoundHeader &header) {
    RoundHeader zeroed = header;
    zeroed.crc = 0;
    std::memcpy(round, &zeroed, sizeof zeroed);
    return crc32c(0, round, header.bytes) == header.crc;
  }

  Status take_round(const RoundHeader &header, const u8 *round) {
    if (header.version != kLogVersion) return damaged("was written by another version");
    if (have_round_ && header.complete_gsn < out_.complete_gsn) return damaged("goes back in the total order");
    if (have_round_ && header.run != out_.run) cut_run();
    const u8 *at = round + sizeof header;
    u64 left = header.bytes - sizeof header;
    for (u32 i = 0; i < header.chunks; i++) {
      ChunkHeader chunk;
      if (left < sizeof chunk) return damaged("has a chunk beyond its end");
      std::memcpy(&chunk, at, sizeof chunk);
      at += sizeof chunk;
      left -= sizeof chunk;
      if (chunk.bytes > left) return damaged("has a chunk beyond its end");
      LS_TRY(take_records(chunk, header.run, at));
      at += chunk.bytes;
      left -= chunk.bytes;
    }
    if (left != 0) return damaged("has bytes behind its last chunk");
    have_round_ = true;
    out_.complete_gsn = header.complete_gsn;
    out_.run = header.run;
    position_ += header.bytes;
    return kOk;
  }

  Status take_records(const ChunkHeader &chunk, u64 run, const u8 *at) {
    for (u32 left = chunk.bytes; left > 0;) {
      RecordHeader record;
      if (left < sizeof record) return damaged("has a record beyond its chunk");
      std::memcpy(&record, at, sizeof record);
      if (record.bytes < sizeof record || record.bytes > left) return damaged("has a record beyond its chunk");
      if (record.gsn == 0) return damaged("has a record without a place in the total order");
      out_.entries.push_back({record.gsn, chunk.slot, record.bytes, at, position_, run});
      out_.max_gsn = std::max(out_.max_gsn, record.gsn);
      at += record.bytes;
      left -= record.bytes;
    }
    return kOk;
  }

  Status damaged(const char *what) {
    return fail(LS_CORRUPT, "log round at %llu %s", static_cast<unsigned long long>(position_), what);
  }

  // The run whose rounds were read so far has ended: what its last round did not cover was never acknowledged, and its
  // recovery has dropped it.  Later runs complete higher GSNs, which must not bring it back.
  void cut_run() {
    std::erase_if(out_.entries, [&, i = size_t{0}](const LogEntry &entry) mutable {
      return i++ >= run_begin_ && entry.gsn > out_.complete_gsn;
    });
    run_begin_ = out_.entries.size();
  }

  Status sort() {
    std::sort(out_.entries.begin(), out_.entries.end(),
              [](const LogEntry &a, const LogEntry &b) { return a.gsn < b.gsn; });
    for (size_t i = 1; i < out_.entries.size(); i++) {
      if (out_.entries[i].gsn != out_.entries[i - 1].gsn) continue;
      return fail(LS_CORRUPT, "the log holds two records at place %llu of the total order",
                  static_cast<unsigned long long>(out_.entries[i].gsn));
    }
    return kOk;
  }

  // Rounds lie one behind the other in large pieces of memory that never move.
  u8 *allocate(size_t bytes) {
    if (out_.storage.empty() || out_.storage.back().size() - used_ < bytes) {
      size_t next = out_.storage.empty() ? kFirstStorageBytes : std::min(2 * out_.storage.back().size(), kMaxStorageBytes);
      out_.storage.emplace_back(std::max(bytes, next));
      used_ = 0;
    }
    u8 *at = out_.storage.back().data() + used_;
    used_ += bytes;
    return at;
  }
  void give_back(size_t bytes) { used_ -= bytes; }

  Stream stream_;
  const u64 first_run_;
  LogImage &out_;
  Lsn position_ = 0;
  bool have_round_ = false;
  size_t run_begin_ = 0;  // entries from here on are of the present run
  size_t used_ = 0;       // of the last piece of storage
};

}  // namespace

Status read_log(const char *dir, u64 segment_bytes, Lsn from, u64 first_run, LogImage &out) {
  out = LogImage{};
  File first;
  Status status = first.open(log_segment_path(dir, from / segment_bytes).c_str(), 0);
  if (code(status) == LS_NOT_FOUND) {
    return fail(LS_CORRUPT, "log segment \"%s\" is missing", log_segment_path(dir, from / segment_bytes).c_str());
  }
  LS_TRY(status);
  return Reader(dir, segment_bytes, first_run, out).read_all(from);
}

}  // namespace ls
