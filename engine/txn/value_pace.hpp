// value_pace.hpp - how long the keeper rests after it has moved values, so that writers have the
// device.
#pragma once
#include "txn/value_keeper.hpp"

namespace ls {

// Of one pass over a file.
class ValuePace {
 public:
  ValuePace(ValueKeeper &keeper, const FileSlot &file);
  // How many pages to move before after() is called: a quarter of a second's.
  u32 pages_at_a_time() const;
  // Sleeps for as long as moving so many bytes may take; and, while others write to the log or to
  // this file of values, until that is no more than its share of what is written.  Other files are
  // counted meanwhile.  *goes_on false: nothing is to be moved any more.
  Status after(u64 bytes, bool *goes_on);

 private:
  u64 written() const;   // by others, ever
  void note_slept(i64 us);

  ValueKeeper &keeper_;
  const FileSlot &file_;
  u64 written_;          // when after() last ended
  // What others wrote in the last second of sleep that is over, and the one that has begun.
  bool idle_ = false;
  i64 second_us_ = 0;
  u64 second_from_;
};

}  // namespace ls
