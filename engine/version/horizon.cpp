// horizon.cpp - snapshots as published by the host, and the question whether a version is needed.
#include "version/horizon.hpp"

#include <algorithm>
#include <new>

namespace ls {

namespace {

bool fits(const HorizonShared &h, const PlainSnapshot &s) {
  return s.n_running <= h.max_running && (s.n_running == 0 || s.xmax - s.running[0] <= UINT32_MAX);
}

void store_snapshot(PublishedSnapshot &to, const PlainSnapshot &from) {
  to.xmin.store(from.xmin, std::memory_order_relaxed);
  to.xmax.store(from.xmax, std::memory_order_relaxed);
  to.n_running.store(from.n_running, std::memory_order_relaxed);
  for (u32 i = 0; i < from.n_running; i++) {
    const Tn tn = from.running[from.n_running - 1 - i];
    to.behind[i].store(static_cast<u32>(from.xmax - tn), std::memory_order_relaxed);
  }
}

// What there is no room for counts as in the future, with everything behind the first of it.
PlainSnapshot cut_to_fit(const HorizonShared &h, const PlainSnapshot &s) {
  if (fits(h, s)) return s;
  if (s.xmax - s.running[0] > UINT32_MAX) return {s.xmin, s.running[0], nullptr, 0};
  return {s.xmin, s.running[h.max_running], s.running, h.max_running};
}

bool sees(const HorizonShared &h, const PublishedSnapshot &s, Tn tn) {
  if (tn < s.xmin.load(std::memory_order_relaxed)) return true;
  const Tn xmax = s.xmax.load(std::memory_order_relaxed);
  if (tn >= xmax) return false;
  const Tn behind = xmax - tn;
  u32 lo = 0, hi = std::min(s.n_running.load(std::memory_order_relaxed), h.max_running);
  while (lo < hi) {
    const u32 mid = (lo + hi) / 2;
    const u32 at = s.behind[mid].load(std::memory_order_relaxed);
    if (at == behind) return false;
    if (at < behind) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  return true;
}

bool needed_now(const HorizonShared &h, Tn old_tn, Tn next_tn) {
  if (next_tn >= h.floor.load(std::memory_order_relaxed) || !sees(h, *h.now, next_tn)) return true;
  const u32 n = std::min(h.n_pins.load(std::memory_order_relaxed), h.max_pins);
  for (u32 i = 0; i < n; i++) {
    // Those to come see it even less.
    if (h.pins[i].xmax.load(std::memory_order_relaxed) <= old_tn) break;
    if (!sees(h, h.pins[i], next_tn) && sees(h, h.pins[i], old_tn)) return true;
  }
  return false;
}

}  // namespace

size_t horizon_bytes(u32 max_pins, u32 max_running) {
  const size_t of_one = sizeof(PublishedSnapshot) + size_t{max_running} * sizeof(std::atomic<u32>);
  return (size_t{max_pins} + 1) * of_one;
}

void horizon_init(HorizonShared &h, void *memory, u32 max_pins, u32 max_running) {
  auto *snapshots = static_cast<PublishedSnapshot *>(memory);
  auto *behind = reinterpret_cast<std::atomic<u32> *>(snapshots + max_pins + 1);
  h.max_pins = max_pins;
  h.max_running = max_running;
  for (size_t i = 0; i <= max_pins; i++) {
    new (&snapshots[i]) PublishedSnapshot{{0}, {0}, {0}, behind + i * max_running};
  }
  h.now = snapshots;
  h.pins = snapshots + 1;
}

void horizon_publish(HorizonShared &h, Tn floor, const PlainSnapshot &now, PlainSnapshot *pins,
                     u32 n_pins) {
  std::sort(pins, pins + n_pins,
            [](const PlainSnapshot &a, const PlainSnapshot &b) { return a.xmax > b.xmax; });
  u32 kept = 0;
  const u32 sequence = h.sequence.load(std::memory_order_relaxed);
  h.sequence.store(sequence + 1, std::memory_order_relaxed);
  // pairs with the acquire fence in version_needed
  std::atomic_thread_fence(std::memory_order_release);
  for (u32 i = 0; i < n_pins; i++) {
    // One that was cut would claim to see less than it does: it lowers the floor instead.
    if (kept < h.max_pins && fits(h, pins[i])) {
      store_snapshot(h.pins[kept++], pins[i]);
    } else {
      floor = std::min(floor, pins[i].xmin);
    }
  }
  h.n_pins.store(kept, std::memory_order_relaxed);
  h.floor.store(floor, std::memory_order_relaxed);
  store_snapshot(*h.now, cut_to_fit(h, now));
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
