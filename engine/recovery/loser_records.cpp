#include "recovery/loser_records.hpp"

#include <algorithm>
#include <cstring>

namespace ls {

namespace {

constexpr size_t kPieceBytes = 1 << 20;
static_assert(kPieceBytes >= kMaxRecordBytes);

}  // namespace

void LoserRecords::add(const LogEntry &entry, const LogRecord &record, Tn tn) {
  if (left_ < record.bytes) {
    pieces_.push_back(std::make_unique<u8[]>(kPieceBytes));
    free_ = pieces_.back().get();
    left_ = kPieceBytes;
  }
  std::memcpy(free_, entry.data, record.bytes);
  records_.push_back({entry, tn});
  records_.back().entry.data = free_;
  free_ += record.bytes;
  left_ -= record.bytes;
}

}  // namespace ls
