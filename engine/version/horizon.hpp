// horizon.hpp - which row versions some snapshot may still need.
//
// The host publishes what it knows of existing snapshots; writers ask it for the version they are about to supersede twice
// over.  Besides the horizon (below it everything superseded is garbage) it names long-lived snapshots exactly, so that one old reader
// keeps the versions that it sees and nothing else: a row that is updated a thousand times under it has two older
// versions, not a thousand.
//
// H1  now: transactions visible in it had ended when it was taken; every snapshot taken later sees them.
// H2  floor: every snapshot that existed then and is not a pin has xmin >= floor.
// H3  so version `old`, superseded by `next`, is needed only if `next` is not visible in `now`, or next >= floor, or a pin sees `old` and
//     not `next`.  A stale publication only answers "needed" more often.
#pragma once
#include <atomic>

#include "base/types.hpp"
#include "leanstore/engine.h"

namespace ls {

inline constexpr u32 kMaxPins = 16;
inline constexpr u32 kMaxPinRunning = 128;

struct PinnedSnapshot {
  std::atomic<Tn> xmin, xmax;
  std::atomic<u32> n_running;
  std::atomic<Tn> running[kMaxPinRunning];  // ascending
};

// In shared memory; one writer (the host's engine process), many readers; a sequence lock.
struct HorizonShared {
  std::atomic<u32> sequence{0};  // odd while being written; 0: nothing published, everything is needed
  std::atomic<u32> n_pins{0};
  std::atomic<Tn> floor{0};
  PinnedSnapshot now;
  PinnedSnapshot pins[kMaxPins];
};

using PlainSnapshot = ls_plain_snapshot;  // what a publication is made from

// More pins or running transactions than there is room for make the publication more conservative, never wrong.
void horizon_publish(HorizonShared &h, Tn floor, const PlainSnapshot &now, const PlainSnapshot *pins, u32 n_pins);
// May some snapshot need the version written by `old_tn` that was superseded by `next_tn`?  kEarliestTn: written by somebody whom
// all snapshots see; kLatestTn: whom none of the pins sees.
inline constexpr Tn kEarliestTn = 0, kLatestTn = ~Tn{0};
bool version_needed(const HorizonShared &h, Tn old_tn, Tn next_tn);

}  // namespace ls
