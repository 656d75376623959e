// horizon.hpp - which row versions some snapshot may still need.
//
// The host publishes what it knows of existing snapshots; writers ask it for the version they are
// about to supersede twice over.  Besides the horizon (below it everything superseded is garbage)
// it names long-lived snapshots exactly, so that one old reader keeps the versions that it sees and
// nothing else: a row that is updated a thousand times under it has two older versions, not a
// thousand.
//
// HOR-1  now: transactions visible in it had ended when it was taken; every snapshot taken later
//        sees them.
// HOR-2  floor: every snapshot that existed then and is not a pin has xmin >= floor.
// HOR-3  so version `old`, superseded by `next`, is needed only if `next` is not visible in `now`,
//        or next >= floor, or a pin sees `old` and not `next`.  A stale publication only answers
//        "needed" more often.
#pragma once
#include <atomic>

#include "base/types.hpp"
#include "leanstore/engine.h"

namespace ls {

struct PublishedSnapshot {
  std::atomic<Tn> xmin, xmax;
  std::atomic<u32> n_running;
  std::atomic<u32> *behind;  // xmax - each that was running, ascending
};

// In shared memory; one writer (the host's engine process), many readers; a sequence lock.
struct HorizonShared {
  // odd while being written; 0: nothing published, everything is needed
  std::atomic<u32> sequence{0};
  std::atomic<u32> n_pins{0};
  std::atomic<Tn> floor{0};
  u32 max_pins = 0;              // as many as there are host slots,
  u32 max_running = 0;           // each with as many as can run at a time
  PublishedSnapshot *now = nullptr;
  PublishedSnapshot *pins = nullptr;  // xmax descends
};

// Memory behind a HorizonShared, and its use; zeroed before.
size_t horizon_bytes(u32 max_pins, u32 max_running);
void horizon_init(HorizonShared &h, void *memory, u32 max_pins, u32 max_running);

using PlainSnapshot = ls_plain_snapshot;  // what a publication is made from

// Puts the pins into order.  What would not fit makes the publication more conservative, never
// wrong.
void horizon_publish(HorizonShared &h, Tn floor, const PlainSnapshot &now, PlainSnapshot *pins,
                     u32 n_pins);
// May some snapshot need the version written by `old_tn` that was superseded by `next_tn`?
// kEarliestTn: written by a transaction that all snapshots see; kLatestTn: by one that none of the
// pins sees.
inline constexpr Tn kEarliestTn = 0, kLatestTn = ~Tn{0};
bool version_needed(const HorizonShared &h, Tn old_tn, Tn next_tn);

}  // namespace ls
