// log_reader.hpp - reads the log back for recovery.  Trusts no byte: every length is checked
// against the round, a round that does not verify is the end of the log.
#pragma once
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "wal/log.hpp"
#include "wal/log_flushes.hpp"

namespace ls {

// One record; there are very many, so it is taken apart when it is looked at.
struct LogEntry {
  Gsn gsn;
  const u8 *data;      // in memory of the LogReader; sound, as log_round_records has found
  Lsn lsn;             // of its round
  u32 slot;
  u32 run;             // of its round
  LogRecord record() const;
};

// What is known of the readable log when its end has been reached.
struct LogExtent {
  Gsn complete_gsn = 0;            // of the last whole round (0: no round)
  Gsn max_gsn = 0;                 // largest seen, cut ones included
  Lsn begin = 0;                   // where reading began
  Lsn end = 0;                     // where appending continues
  u64 run = 0;                     // of the last round
  u64 records = 0;                 // handed out
};

// The readable log from a place on, record by record in the total order.  Cut per run: of the
// records of a run only those at or below the complete_gsn of that run's last whole round.  (A
// crash cut the others; the next run's recovery has undone what depended on them and goes on
// counting behind them, so its larger complete_gsn must not bring them back.)
//
// Every record at or below a round's complete_gsn lies in that round or an earlier one (README.md,
// WAL-1), so what is kept in memory are the records behind the last complete_gsn, those that are
// being handed out, and what was since the last forget().
class LogReader {
 public:
  // A round of a run before first_run is left over from a tail that was cut, and ends the log.
  // `to`: nothing behind is read, for a log that is being written.
  LogReader(const char *dir, u64 segment_bytes, Lsn from, u64 first_run, Lsn to = ~Lsn{0});
  // Null: there are no more.  A torn tail is not an error.  What is pointed to stays until pop().
  Status peek(const LogEntry **entry);
  void pop();
  // The bytes of records that have been popped are not looked at any more.
  void forget();
  // When peek() has found the end.
  const LogExtent &extent() const { return extent_; }
  // When that was `to`: the round that follows, from elsewhere.  LS_CORRUPT: it is not the one.
  Status add_round(std::span<const u8> round);

  // Then: a log that ends before known_end is damaged, and so is one with a later round that could
  // not have been written before what is missing now was on disk: LS_CORRUPT.
  Status check_end(Lsn known_end);
  const std::string &directory() const { return stream_.directory(); }
  // What was read becomes durable: it may so far be only in the page cache, and recovery builds on
  // it.
  Status make_durable() { return stream_.sync(extent_.begin, extent_.end); }

 private:
  struct Piece {
    std::vector<u8> bytes;
    size_t used = 0;
    size_t left = 0;   // records in it that were not popped
  };
  struct Record {
    LogEntry entry;
    u64 piece;
  };
  u64 least_run() const { return have_round_ ? extent_.run : first_run_; }
  Status read_round();
  Status take_round(const RoundHeader &header, const u8 *round);
  Status hand_out(Gsn complete);
  void cut_run();
  Status damaged(const char *what) const;
  u8 *allocate(size_t bytes);
  Piece &piece(u64 number) { return pieces_[number - first_piece_]; }

  LogStream stream_;
  const u64 first_run_;
  const Lsn to_;
  LogExtent extent_;
  Lsn position_;
  bool have_round_ = false, ended_ = false;
  std::vector<Record> waiting_;   // behind complete_gsn
  std::vector<Record> ready_;     // in order; from next_ on to be handed out
  size_t next_ = 0;
  Gsn last_gsn_ = 0;              // handed out last
  std::deque<Piece> pieces_;
  u64 first_piece_ = 0;           // number of pieces_.front()
};

// LS_CORRUPT, naming it, when the log's first segment is not there.
Status log_begins(const char *dir, u64 segment_bytes, Lsn from);

}  // namespace ls
