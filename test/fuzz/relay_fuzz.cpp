// relay_fuzz.cpp - what the host replays of its log: rounds at any position, states to restore,
// pieces of files of prepared transactions.  Rounds that were taken are read back.
//
//   input   flags, 1 | redo position of the control file, 2 | for each step: what, 1 |
//           position, 2 | bytes, 2 | bytes: chunks of a round, a state's log, or a piece
#include <filesystem>

#include "fuzz/fuzz.hpp"
#include "fuzz/records.hpp"
#include "recovery/relay_replay.hpp"
#include "txn/prepared_file.hpp"
#include "wal/log_reader.hpp"

namespace ls::fuzz {

namespace {

constexpr u64 kSegmentBytes = 16384;
constexpr u32 kMostSteps = 12;
enum Flag : u8 { kRestoring = 1, kHostLog = 2, kClean = 4, kGathers = 8, kFar = 16 };

std::string data_dir() { return directory() + "/store"; }
std::string prepared_dir() { return data_dir() + "/prepared"; }

ControlFile make_store(u8 flags, u16 redo) {
  std::filesystem::remove_all(data_dir());
  for (const char *name : {"/wal", "/prepared", "/undo"})
    std::filesystem::create_directories(data_dir() + name);
  ControlFile control{};
  control.run = control.redo_run = 1;
  control.redo_lsn = (flags & kFar ? (u64{1} << 62) - kSegmentBytes : 0) + redo;
  control.segment_bytes = kSegmentBytes;
  control.host_log = flags & kHostLog ? 1 : 0;
  control.clean = flags & kClean ? 1 : 0;
  FUZZ_CHECK(ok(control_write(data_dir().c_str(), control)));
  return control;
}

Status restore(RelayReplay *replay, ControlFile control, Bytes log, bool with_list) {
  RestoreState state;
  state.control = control;
  state.log.assign(log.begin(), log.end());
  state.log_end = control.redo_lsn + log.size();
  if (with_list) state.list = state.log;
  return replay->restore(state);
}

class Replay {
 public:
  Replay(u8 flags, u16 redo)
      : control_(make_store(flags, redo)),
        replay_(data_dir().c_str(), kSegmentBytes, false, flags & kRestoring) {
    header_.lsn = control_.redo_lsn;
    header_.run = 1;
    if (flags & kGathers) replay_.gather();
  }
  // False: it has failed, and the host gives up.
  bool step(Input &input) {
    const u8 what = input.byte();
    const u16 position = input.number<u16>();
    const Status status = do_step(what, position, input.take(input.number<u16>()));
    expect_refusal_or(status);
    return ok(status);
  }
  void finish() {
    const Status status = replay_.finish();
    expect_refusal_or(status);
    if (ok(status)) read_back();
  }

 private:
  Status do_step(u8 what, u16 position, Bytes bytes) {
    switch (what % 8) {
      case 0: return replay_.sync();
      case 1: return restore(&replay_, control_, bytes, what & 8);
      case 2:
        return prepared_file_replay(prepared_dir().c_str(), 9, position, bytes, what & 8);
      case 3: header_.lsn += position; [[fallthrough]];
      default:
        header_.complete_gsn += what / 8;
        return replay_.add(header_.lsn, make_round(&header_, bytes));
    }
  }
  void read_back() {
    LogReader log((data_dir() + "/wal").c_str(), kSegmentBytes, control_.redo_lsn, 1);
    for (const LogEntry *entry;; log.pop()) {
      const Status status = log.peek(&entry);
      expect_refusal_or(status);
      if (!ok(status) || entry == nullptr) break;
    }
    PreparedFile prepared;
    const Status status = prepared.read(prepared_dir().c_str(), 9);
    expect_refusal_or(status);
  }

  const ControlFile control_;
  RelayReplay replay_;
  RoundHeader header_{};
};

}  // namespace

void write_seeds(const SeedWriter &write) {
  for (u8 flags : {2, 3, 6, 10, 14, 11, 18}) {
    Output seed;
    seed.number(flags).number<u16>(4096);
    for (const SampleRound &round : sample_rounds(true)) {
      seed.number<u8>(4 + 8 * 20).number<u16>(0).number(static_cast<u16>(round.chunks.size()));
      seed.bytes(round.chunks).number<u8>(0).number<u16>(0).number<u16>(0);
    }
    seed.number<u8>(1).number<u16>(0).number<u16>(0);
    seed.number<u8>(2 + 8).number<u16>(0).number<u16>(4).bytes(bytes_of(u32{7}));
    write(std::to_string(flags).c_str(), seed);
  }
}

void test_one(Input &input) {
  const u8 flags = input.byte();
  Replay replay(flags, input.number<u16>());
  for (u32 n = 0; n < kMostSteps && !input.empty(); n++) {
    if (!replay.step(input)) return;
  }
  replay.finish();
}

}  // namespace ls::fuzz
