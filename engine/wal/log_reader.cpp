// Reading the log back.  What ends the log: a header that is not a round of this position, a
// checksum that does not match, a round of an earlier run than the one before it (left over behind
// a torn round of that run).  What is an error: a round with a right checksum and contents that do
// not make sense, a segment missing between others, a failed read; and an end that cannot be one,
// because a later round or the control file shows that the log was on disk farther than that.
#include "wal/log_reader.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "os/file.hpp"
#include "wal/log_bounds.hpp"
#include "wal/log_segments.hpp"

namespace ls {

namespace {

// Pieces of storage grow from the first size to the second: most logs are short, some are very
// long.
constexpr size_t kFirstPieceBytes = 64 << 10;
constexpr size_t kMostPieceBytes = 4 << 20;

}  // namespace

LogReader::LogReader(const char *dir, u64 segment_bytes, Lsn from, u64 first_run, Lsn to)
    : stream_(dir, segment_bytes), first_run_(first_run), to_(to), position_(from) {
  extent_.begin = extent_.end = from;
}

Status LogReader::peek(const LogEntry **entry) {
  *entry = nullptr;
  while (next_ == ready_.size()) {
    if (ended_) return kOk;
    LS_TRY(read_round());
  }
  *entry = &ready_[next_].entry;
  return kOk;
}

void LogReader::pop() {
  LS_ASSERT(next_ < ready_.size());
  Piece &in = piece(ready_[next_++].piece);
  LS_ASSERT(in.left > 0);
  in.left--;
  extent_.records++;
}

// The last piece has room for the next round.
void LogReader::forget() {
  for (; pieces_.size() > 1 && pieces_.front().left == 0; first_piece_++) pieces_.pop_front();
}

Status LogReader::read_round() {
  RoundHeader header;
  bool more = position_ < to_;
  if (more) LS_TRY(log_round_header(stream_, position_, &header, &more));
  if (more) {
    u8 *round = allocate(header.bytes);
    LS_TRY(log_round_load(stream_, header, round, &more));
    more = more && header.run >= least_run();
    if (more) return take_round(header, round);
    pieces_.back().used -= header.bytes;
  }
  if (position_ < to_) cut_run();   // else it goes on (add_round)
  ended_ = true;
  extent_.end = position_;
  return kOk;
}

Status LogReader::add_round(std::span<const u8> round) {
  LS_CHECK(ended_ && next_ == ready_.size(), "a round is added to a log that was not read");
  RoundHeader header;
  const bool good = position_ >= to_ && round.size() >= kRoundHeaderBytes &&
                    load_round_header(round.data(), position_, &header) &&
                    header.bytes == round.size() && is_whole(header, round.data()) &&
                    header.run >= least_run();
  if (!good) return damaged("is not the one that follows");
  u8 *copy = allocate(round.size());
  std::memcpy(copy, round.data(), round.size());
  LS_TRY(take_round(header, copy));
  extent_.end = position_;
  return kOk;
}

Status LogReader::take_round(const RoundHeader &header, const u8 *round) {
  if (header.run > kMaxRun || header.complete_gsn > kMaxPosition) return damaged("counts too far");
  if (have_round_ && header.complete_gsn < extent_.complete_gsn)
    return damaged("goes back in the total order");
  if (have_round_ && header.run != extent_.run) cut_run();
  Piece &in = pieces_.back();
  const u64 number = first_piece_ + pieces_.size() - 1;
  LS_TRY(log_round_records(header, round, [&](u32 slot, const LogRecord &record, const u8 *bytes) {
    waiting_.push_back(
        {{record.gsn, bytes, position_, slot, static_cast<u32>(header.run)}, number});
    extent_.max_gsn = std::max(extent_.max_gsn, record.gsn);
    in.left++;
  }));
  LS_TRY(hand_out(header.complete_gsn));
  have_round_ = true;
  extent_.complete_gsn = header.complete_gsn;
  extent_.run = header.run;
  position_ += header.bytes;
  return kOk;
}

// What is complete, behind what was before.
Status LogReader::hand_out(Gsn complete) {
  LS_ASSERT(next_ == ready_.size());
  ready_.clear();
  next_ = 0;
  if (have_round_ && complete == extent_.complete_gsn) return kOk;
  const auto complete_end =
      std::partition(waiting_.begin(), waiting_.end(),
                     [&](const Record &record) { return record.entry.gsn <= complete; });
  ready_.assign(waiting_.begin(), complete_end);
  waiting_.erase(waiting_.begin(), complete_end);
  std::sort(ready_.begin(), ready_.end(),
            [](const Record &a, const Record &b) { return a.entry.gsn < b.entry.gsn; });
  for (const Record &record : ready_) {
    if (record.entry.gsn == last_gsn_)
      return fail(LS_CORRUPT, "the log holds two records at place %llu of the total order",
                  static_cast<unsigned long long>(last_gsn_));
    if (record.entry.gsn < last_gsn_)
      return damaged("has a record that was to be in an earlier one");
    last_gsn_ = record.entry.gsn;
  }
  return kOk;
}

// The run of the rounds read so far has ended: what its last round did not cover was never
// acknowledged, and its recovery has dropped it.  Later runs complete higher GSNs, which must not
// bring it back.
void LogReader::cut_run() {
  for (const Record &record : waiting_) {
    LS_ASSERT(record.piece >= first_piece_ && record.piece - first_piece_ < pieces_.size());
    piece(record.piece).left--;
  }
  waiting_.clear();
}

Status LogReader::damaged(const char *what) const {
  return fail(LS_CORRUPT, "log round at %llu %s", static_cast<unsigned long long>(position_), what);
}

// What a crash leaves at the end is a round that was never acknowledged.  Anything else is damage,
// and to go on would lose commits silently.
Status LogReader::check_end(Lsn known_end) {
  LS_CHECK(ended_, "the end of the log is looked at before it has been reached");
  Lsn proof = 0;
  if (position_ >= known_end) LS_TRY(log_find_proof(stream_, position_, least_run(), &proof));
  if (position_ >= known_end && proof == 0) return kOk;
  return fail_page(
      stream_.path_at(position_).c_str(), UINT32_MAX,
      "the log is damaged at position %llu: %s at %llu shows that it was on disk there, and "
      "commits behind it would be lost",
      static_cast<unsigned long long>(position_), proof ? "a later round" : "the last checkpoint",
      static_cast<unsigned long long>(proof ? proof : known_end));
}

// Rounds lie one behind the other in pieces of memory that never move.
u8 *LogReader::allocate(size_t bytes) {
  if (pieces_.empty() || pieces_.back().bytes.size() - pieces_.back().used < bytes) {
    const size_t next = pieces_.empty()
                            ? kFirstPieceBytes
                            : std::min(2 * pieces_.back().bytes.size(), kMostPieceBytes);
    pieces_.emplace_back();
    pieces_.back().bytes.resize(std::max(bytes, next));
  }
  Piece &last = pieces_.back();
  u8 *at = last.bytes.data() + last.used;
  last.used += bytes;
  return at;
}

LogRecord LogEntry::record() const {
  LogBytes bytes(data, kMaxRecordBytes);
  LogRecord record;
  LS_CHECK(load_record(&bytes, 0, &record) == nullptr, "a log record has changed in memory");
  record.gsn = gsn;
  return record;
}

Status log_begins(const char *dir, u64 segment_bytes, Lsn from) {
  File first;
  const std::string path = log_segment_path(dir, from / segment_bytes);
  const Status status = first.open(path.c_str(), 0);
  if (code(status) == LS_NOT_FOUND)
    return fail(LS_CORRUPT, "log segment \"%s\" is missing", path.c_str());
  return status;
}

}  // namespace ls
