// relay_replay.cpp - rounds put in their places, and what is behind them cut off.
#include "recovery/relay_replay.hpp"

#include <algorithm>
#include <set>

#include "base/check.hpp"
#include "wal/log_record.hpp"

namespace ls {

namespace {

constexpr size_t kGatheredBytes = 256 << 10;

}  // namespace

RelayReplay::RelayReplay(const char *data_dir, u64 segment_bytes, bool fsync, bool restoring)
    : data_dir_(data_dir),
      dir_(data_dir_ + "/wal"),
      segment_bytes_(segment_bytes),
      fsync_(fsync),
      restoring_(restoring),
      segments_(dir_.c_str(), segment_bytes, fsync, &ready_until_,
                LogSegments::Fill::kAllocated),
      present_(dir_.c_str(), segment_bytes, false),
      files_(dir_.c_str(), segment_bytes) {}

// Without a control file, and with one of a store that has its own log, nothing is needed; but of a
// copy the control file comes later.  A store that was shut down needs what another one has logged
// that has gone on from there.
Status RelayReplay::begin() {
  if (begun_) return kOk;
  ControlFile control{};
  bool exists = false;
  if (!restoring_) LS_TRY(control_read(data_dir_.c_str(), &control, &exists));
  wanted_ = restoring_ || (exists && control.host_log);
  clean_ = exists && control.clean;
  needed_from_ = control.redo_lsn;
  if (exists && wanted_) LS_TRY(control_check_segments(control, segment_bytes_, LS_INVALID));
  begun_ = true;
  return kOk;
}

Status RelayReplay::add(Lsn lsn, std::span<const u8> round) {
  LS_TRY(begin());
  if (!wanted_) return kOk;
  RoundHeader header;
  if (round.size() < kRoundHeaderBytes || !load_round_header(round.data(), lsn, &header) ||
      header.bytes != round.size() || !is_whole(header, round.data()))
    return fail(LS_CORRUPT, "the host's log has no round of the log at position %llu",
                static_cast<unsigned long long>(lsn));
  if (seen_ != 0 && lsn != seen_)
    return fail(LS_NOT_FOUND, "the host's log has position %llu of the log behind %llu",
                static_cast<unsigned long long>(lsn), static_cast<unsigned long long>(seen_));
  seen_ = lsn + round.size();
  if (seen_ <= needed_from_) return kOk;
  return put(lsn, round);
}

// There is something to be recovered now.
Status RelayReplay::go_on() {
  ControlFile control{};
  bool exists;
  LS_TRY(control_read(data_dir_.c_str(), &control, &exists));
  LS_ASSERT(exists && control.clean);
  control.clean = false;
  clean_ = false;
  return control_write(data_dir_.c_str(), control);
}

// In its place; in front of what was put before, or behind it.
Status RelayReplay::put(Lsn lsn, std::span<const u8> bytes) {
  const Lsn end = lsn + bytes.size();
  if (clean_) LS_TRY(go_on());
  if (first_ == end_) {
    LS_TRY(segments_.open(lsn));
    first_ = synced_ = lsn;
    end_ = lsn;
  }
  if (gathered_at_ + gathered_.size() != lsn) LS_TRY(write_out());
  if (gathered_.empty()) gathered_at_ = lsn;
  gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
  synced_ = std::min(synced_, lsn);
  first_ = std::min(first_, lsn);
  end_ = std::max(end_, end);
  return gathers_ && gathered_.size() < kGatheredBytes ? kOk : write_out();
}

// What a crash has left in its place, as a rule all of it, is not written once more.
Status RelayReplay::write_out() {
  if (gathered_.empty()) return kOk;
  const Lsn end = gathered_at_ + gathered_.size();
  LS_TRY(segments_.ensure(gathered_at_, end));
  bool there = false;
  if (gathers_) LS_TRY(is_there(gathered_at_, gathered_, &there));
  if (!there) {
    LS_TRY(files_.open(gathered_at_, end));
    LS_TRY(files_.write(gathered_at_, gathered_));
  }
  gathered_.clear();
  return kOk;
}

Status RelayReplay::is_there(Lsn lsn, std::span<const u8> bytes, bool *there) {
  before_.resize(bytes.size());
  size_t done = 0;
  while (done < bytes.size()) {
    const u64 offset = present_.offset_of(lsn + done);
    const size_t n = std::min<size_t>(bytes.size() - done, segment_bytes_ - offset);
    File *file;
    size_t got;
    LS_TRY(present_.get(present_.number_of(lsn + done), &file));
    LS_TRY(file->read_at(offset, before_.data() + done, n, &got));
    if (got < n) break;
    done += n;
  }
  present_.close_before(present_.number_of(lsn + done));
  *there = done == bytes.size() && std::equal(bytes.begin(), bytes.end(), before_.begin());
  return kOk;
}

// RESTORE-2
Status RelayReplay::restore(const RestoreState &state) {
  LS_TRY(begin());
  if (!restoring_) {
    if (seen_ == 0 && wanted_) seen_ = state.log_end;   // RESTORE-2
    return kOk;
  }
  LS_TRY(control_check_segments(state.control, segment_bytes_, LS_INVALID));
  const bool follows = seen_ == 0 || (first_ <= state.log_end && state.log_end <= seen_);
  if (!follows)
    return fail(LS_CORRUPT, "the host's log has position %llu to %llu of the log, the state %llu",
                static_cast<unsigned long long>(first_), static_cast<unsigned long long>(seen_),
                static_cast<unsigned long long>(state.log_end));
  if (!state.log.empty() || first_ == end_) LS_TRY(put(state.control.redo_lsn, state.log));
  if (seen_ == 0) seen_ = state.log_end;
  LS_TRY(sync());
  LS_TRY(restore_state_write(data_dir_.c_str(), state));
  needed_from_ = state.control.redo_lsn;
  restoring_ = false;
  return kOk;
}

Status RelayReplay::sync() {
  LS_TRY(write_out());
  if (!fsync_ || synced_ == end_) return kOk;
  LS_TRY(files_.sync(synced_, end_));
  synced_ = end_;
  return directory_sync(dir_.c_str());
}

// A short segment is filled with zeros when the log goes on there (LogSegments::open).
Status RelayReplay::cut(Lsn end) {
  std::set<u64> present;
  LS_TRY(log_segments_present(dir_, present));
  const u64 last = end / segment_bytes_;
  for (auto number = present.rbegin(); number != present.rend() && *number > last; ++number)
    LS_TRY(file_unlink(log_segment_path(dir_, *number).c_str()));
  if (!present.contains(last)) return kOk;
  File file;
  LS_TRY(file.open(log_segment_path(dir_, last).c_str(), 0));
  LS_TRY(file.truncate(end % segment_bytes_));
  return fsync_ ? file.sync_data() : kOk;
}

// A place from which recovery reads was durable in the host's log when the control file named it.
Status RelayReplay::finish() {
  LS_TRY(begin());
  if (seen_ == 0 || !wanted_ || restoring_) return kOk;
  if (seen_ < needed_from_)
    return fail(LS_CORRUPT, "the host's log ends at position %llu of the log, before %llu",
                static_cast<unsigned long long>(seen_),
                static_cast<unsigned long long>(needed_from_));
  LS_TRY(write_out());
  present_.close_all();
  LS_TRY(cut(seen_));
  return sync();
}

}  // namespace ls
