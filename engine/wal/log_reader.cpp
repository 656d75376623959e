// Reading the log back.  What ends the log: a header that is not a round of this position, a checksum that does not match,
// a round of an earlier run than the one before it (left over behind a torn round of that run).  What is an error: a
// round whose checksum matches but whose contents do not make sense, a segment missing between others, a failed read; and an
// end that cannot be one, because a later round or the control file shows that the log was on disk farther than that.
#include "wal/log_reader.hpp"

#include <algorithm>
#include <optional>

#include "base/check.hpp"
#include "os/file.hpp"
#include "wal/log_rounds.hpp"
#include "wal/log_segments.hpp"

namespace ls {

namespace {

// Pieces of storage grow from the first size to the second: most logs are short, some are very long.
constexpr size_t kFirstStorageBytes = 64 << 10;
constexpr size_t kMaxStorageBytes = 8 << 20;
class Reader {
 public:
  Reader(const char *dir, u64 segment_bytes, u64 first_run, LogImage &out)
      : stream_(dir, segment_bytes), first_run_(first_run), out_(out) {}

  // known_end: see read_log; none: damage at the end is an end.
  Status read_all(Lsn from, std::optional<Lsn> known_end) {
    position_ = out_.begin = from;
    for (bool more = true; more;) LS_TRY(read_round(&more));
    if (known_end) LS_TRY(check_end(*known_end));
    cut_run();
    out_.end = position_;
    LS_TRY(stream_.sync(from, position_));
    return check_order();
  }

 private:
  u64 least_run() const { return have_round_ ? out_.run : first_run_; }

  // *more is false at the end of the log.
  Status read_round(bool *more) {
    RoundHeader header;
    LS_TRY(log_round_header(stream_, position_, &header, more));
    if (!*more) return kOk;
    u8 *round = allocate(header.bytes);
    LS_TRY(log_round_load(stream_, header, round, more));
    *more = *more && header.run >= least_run();
    if (*more) return take_round(header, round);
    give_back(header.bytes);
    return kOk;
  }

  Status take_round(const RoundHeader &header, const u8 *round) {
    if (have_round_ && header.complete_gsn < out_.complete_gsn) return damaged("goes back in the total order");
    if (have_round_ && header.run != out_.run) cut_run();
    const size_t before = out_.entries.size();
    LS_TRY(log_round_records(header, round, [&](u32 slot, const LogRecord &record, const u8 *bytes) {
      out_.entries.push_back({record.gsn, bytes, position_, slot, static_cast<u32>(header.run)});
      out_.max_gsn = std::max(out_.max_gsn, record.gsn);
    }));
    sort_in(before);
    have_round_ = true;
    out_.complete_gsn = header.complete_gsn;
    out_.run = header.run;
    position_ += header.bytes;
    return kOk;
  }

  Status damaged(const char *what) {
    return fail(LS_CORRUPT, "log round at %llu %s", static_cast<unsigned long long>(position_), what);
  }

  // What a crash leaves at the end is a round that was never acknowledged.  Anything else is damage, and to go on would lose
  // commits silently.
  Status check_end(Lsn known_end) {
    Lsn proof = 0;
    if (position_ >= known_end) {
      LS_TRY(log_find_proof(stream_, position_, least_run(), &proof));
      if (proof == 0) return kOk;
    }
    return fail_page(stream_.path_at(position_).c_str(), UINT32_MAX,
                     "the log is damaged at position %llu: %s at %llu shows that it was on disk there, and commits behind it "
                     "would be lost",
                     static_cast<unsigned long long>(position_), proof ? "a later round" : "the last checkpoint",
                     static_cast<unsigned long long>(proof ? proof : known_end));
  }

  // The run whose rounds were read so far has ended: what its last round did not cover was never acknowledged, and its
  // recovery has dropped it.  Later runs complete higher GSNs, which must not bring it back.
  void cut_run() {
    std::erase_if(out_.entries, [&, i = size_t{0}](const LogEntry &entry) mutable {
      return i++ >= run_begin_ && entry.gsn > out_.complete_gsn;
    });
    run_begin_ = out_.entries.size();
  }

  // A round's records, slot by slot, go among those of the rounds before: only the last of these may come behind some of them.
  void sort_in(size_t first) {
    auto less = [](const LogEntry &a, const LogEntry &b) { return a.gsn < b.gsn; };
    const auto begin = out_.entries.begin(), middle = begin + static_cast<ptrdiff_t>(first), end = out_.entries.end();
    std::sort(middle, end, less);
    if (middle == end || middle == begin || !less(*middle, *(middle - 1))) return;
    std::inplace_merge(std::upper_bound(begin, middle, *middle, less), middle, end, less);
  }

  Status check_order() const {
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

  LogStream stream_;
  const u64 first_run_;
  LogImage &out_;
  Lsn position_ = 0;
  bool have_round_ = false;
  size_t run_begin_ = 0;  // entries from here on are of the present run
  size_t used_ = 0;       // of the last piece of storage
};

}  // namespace

LogRecord LogEntry::record() const {
  LogBytes bytes(data, kMaxRecordBytes);
  LogRecord record;
  LS_CHECK(load_record(&bytes, 0, &record) == nullptr, "a log record has changed in memory");
  record.gsn = gsn;
  return record;
}

Status read_log(const char *dir, u64 segment_bytes, Lsn from, u64 first_run, LogImage &out, Lsn known_end) {
  out = LogImage{};
  File first;
  Status status = first.open(log_segment_path(dir, from / segment_bytes).c_str(), 0);
  if (code(status) == LS_NOT_FOUND) {
    return fail(LS_CORRUPT, "log segment \"%s\" is missing", log_segment_path(dir, from / segment_bytes).c_str());
  }
  LS_TRY(status);
  return Reader(dir, segment_bytes, first_run, out).read_all(from, known_end);
}

Status read_log_tail(const char *dir, u64 segment_bytes, Lsn from, u64 first_run, LogImage &out) {
  out = LogImage{};
  return Reader(dir, segment_bytes, first_run, out).read_all(from, std::nullopt);
}

}  // namespace ls
