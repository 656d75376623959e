#include "version/horizon.hpp"

#include <algorithm>

namespace ls {

namespace {

void store_snapshot(PinnedSnapshot &to, const PlainSnapshot &from) {
  u32 n = std::min(from.n_running, kMaxPinRunning);
  to.xmin.store(from.xmin, std::memory_order_relaxed);
  // Transactions that found no room are treated as in the future, with everything behind the first of them.
  to.xmax.store(n < from.n_running ? from.running[n] : from.xmax, std::memory_order_relaxed);
  to.n_running.store(n, std::memory_order_relaxed);
  for (u32 i = 0; i < n; i++) to.running[i].store(from.running[i], std::memory_order_relaxed);
}

bool sees(const PinnedSnapshot &s, Tn tn) {
  if (tn < s.xmin.load(std::memory_order_relaxed)) return true;
  if (tn >= s.xmax.load(std::memory_order_relaxed)) return false;
  u32 lo = 0, hi = std::min(s.n_running.load(std::memory_order_relaxed), kMaxPinRunning);
  while (lo < hi) {
    u32 mid = (lo + hi) / 2;
    Tn at = s.running[mid].load(std::memory_order_relaxed);
    if (at == tn) return false;
    if (at < tn) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  return true;
}

bool needed_now(const HorizonShared &h, Tn old_tn, Tn next_tn) {
  if (next_tn >= h.floor.load(std::memory_order_relaxed) || !sees(h.now, next_tn)) return true;
  u32 n = std::min(h.n_pins.load(std::memory_order_relaxed), kMaxPins);
  for (u32 i = 0; i < n; i++) {
    if (!sees(h.pins[i], next_tn) && sees(h.pins[i], old_tn)) return true;
  }
  return false;
}

}  // namespace

void horizon_publish(HorizonShared &h, Tn floor, const PlainSnapshot &now, const PlainSnapshot *pins, u32 n_pins) {
  // A pin whose running list does not fit would claim to see less than it does: it lowers the floor instead.
  u32 kept = 0;
  u32 sequence = h.sequence.load(std::memory_order_relaxed);
  h.sequence.store(sequence + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // pairs with the acquire fence in version_needed
  for (u32 i = 0; i < n_pins; i++) {
    if (kept < kMaxPins && pins[i].n_running <= kMaxPinRunning) {
      store_snapshot(h.pins[kept++], pins[i]);
    } else {
      floor = std::min(floor, pins[i].xmin);
    }
  }
  h.n_pins.store(kept, std::memory_order_relaxed);
  h.floor.store(floor, std::memory_order_relaxed);
  store_snapshot(h.now, now);
  h.sequence.store(sequence + 2, std::memory_order_release);
}

bool version_needed(const HorizonShared &h, Tn old_tn, Tn next_tn) {
  u32 before = h.sequence.load(std::memory_order_acquire);
  if (before == 0 || (before & 1)) return true;
  bool needed = needed_now(h, old_tn, next_tn);
  std::atomic_thread_fence(std::memory_order_acquire);
  // Overtaken by a publication: "needed" is always a safe answer.
  return h.sequence.load(std::memory_order_relaxed) != before || needed;
}

}  // namespace ls
