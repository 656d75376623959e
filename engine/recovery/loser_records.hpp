// loser_records.hpp - copies of the row changes that may have to be undone: those of transactions that have no end in the log.
#pragma once
#include <memory>
#include <vector>

#include "recovery/log_analysis.hpp"

namespace ls {

struct LoserRecord {
  LogEntry entry;
  Tn tn;
};

class LoserRecords {
 public:
  void add(const LogEntry &entry, const LogRecord &record, Tn tn);
  // In the order of the log.
  const std::vector<LoserRecord> &all() const { return records_; }

 private:
  std::vector<LoserRecord> records_;
  std::vector<std::unique_ptr<u8[]>> pieces_;
  size_t left_ = 0;   // of the last piece
  u8 *free_ = nullptr;
};

}  // namespace ls
