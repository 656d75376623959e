// value_pace.cpp - see value_pace.hpp.
#include "txn/value_pace.hpp"

#include <algorithm>

namespace ls {

namespace {

// Settings are looked at, and what others have written, so often.
constexpr i64 kSliceUs = 100'000;
// Writers of less in so much time do not count.  Syncs let them pause for longer than a slice.
constexpr i64 kIdleUs = 1'000'000;
constexpr u64 kIdleBytes = 640 << 10;
constexpr u64 kMostPages = 4096;

}  // namespace

ValuePace::ValuePace(ValueKeeper &keeper, const FileSlot &file)
    : keeper_(keeper), file_(file), written_(written()), second_from_(written_) {}

u64 ValuePace::written() const {
  return keeper_.w.log.log().stats().bytes +
         file_.values.written_pages.load(std::memory_order_relaxed) * kPageSize;
}

u32 ValuePace::pages_at_a_time() const {
  const u64 pages = keeper_.keeping.bytes_per_second() / 4 / kPageSize;
  return static_cast<u32>(std::clamp<u64>(pages, 1, kMostPages));
}

void ValuePace::note_slept(i64 us) {
  second_us_ += us;
  if (second_us_ < kIdleUs) return;
  const u64 now = written();
  idle_ = now - second_from_ < kIdleBytes;
  second_from_ = now;
  second_us_ = 0;
}

Status ValuePace::after(u64 bytes, bool *goes_on) {
  *goes_on = false;
  for (i64 slept_us = 0;;) {
    const u64 rate = keeper_.keeping.bytes_per_second();
    if (rate == 0) return kOk;
    const i64 left_us = static_cast<i64>(bytes * 1'000'000 / rate) - slept_us;
    const u64 share = keeper_.keeping.write_percent();
    const bool in_share = bytes * (100 - share) <= (written() - written_) * share;
    if (left_us <= 0 && (idle_ || in_share)) break;
    const i64 slice_us = left_us > 0 ? std::min(left_us, kSliceUs) : kSliceUs;
    if (!keeper_.sleep(slice_us)) return kOk;
    slept_us += slice_us;
    note_slept(slice_us);
    LS_TRY(count_others(keeper_));
  }
  written_ = written();
  *goes_on = true;
  return kOk;
}

}  // namespace ls
