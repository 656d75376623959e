// version_needed against a brute-force model, and under concurrent publication.
#include "version/horizon.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace ls {
namespace {

struct Snapshot {
  Tn xmin, xmax;
  std::vector<Tn> running;
  bool sees(Tn tn) const {
    if (tn >= xmax) return false;
    for (Tn r : running)
      if (r == tn) return false;
    return true;
  }
  PlainSnapshot plain() const {
    return {xmin, xmax, running.data(), static_cast<u32>(running.size())};
  }
};

Snapshot random_snapshot(std::mt19937_64 &rng, Tn lo, Tn hi) {
  Snapshot s;
  s.xmax = lo + rng() % (hi - lo) + 1;
  for (Tn tn = lo; tn < s.xmax; tn++)
    if (rng() % 4 == 0) s.running.push_back(tn);
  s.xmin = s.running.empty() ? s.xmax : s.running.front();
  return s;
}

constexpr u32 kPins = 16, kRunning = 128;

struct Published {
  std::unique_ptr<u64[]> memory =
      std::make_unique<u64[]>(horizon_bytes(kPins, kRunning) / sizeof(u64) + 1);
  HorizonShared shared;
  Published() { horizon_init(shared, memory.get(), kPins, kRunning); }
};

TEST(Horizon, nothing_published_means_everything_is_needed) {
  Published h;
  EXPECT_TRUE(version_needed(h.shared, 1, 2));
}

// HOR-2, HOR-3
TEST(Horizon, keeps_exactly_what_pins_floor_and_running_transactions_need) {
  u64 seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 rng(seed);
  for (int round = 0; round < 200; round++) {
    Published h;
    Snapshot now = random_snapshot(rng, 100, 160);
    std::vector<Snapshot> pins;
    std::vector<PlainSnapshot> plain;
    for (u64 i = rng() % (kPins + 1); i > 0; i--) pins.push_back(random_snapshot(rng, 100, 160));
    for (auto &p : pins) plain.push_back(p.plain());
    Tn floor = 100 + rng() % 80;
    horizon_publish(h.shared, floor, now.plain(), plain.data(), static_cast<u32>(plain.size()));
    for (Tn old_tn = 95; old_tn < 165; old_tn++) {
      for (Tn next = 95; next < 165; next++) {
        bool needed = next >= floor || !now.sees(next);
        for (auto &p : pins) needed = needed || (p.sees(old_tn) && !p.sees(next));
        ASSERT_EQ(version_needed(h.shared, old_tn, next), needed) << old_tn << " " << next;
      }
    }
  }
}

// HOR-1: nor does `now` see more than the host has said.
TEST(Horizon, what_does_not_fit_makes_it_more_conservative) {
  Published h;
  Snapshot now{1000, 1000, {}};
  std::vector<Snapshot> pins;
  for (u32 i = 0; i < kPins + 2; i++) pins.push_back({500 - i, 500 - i, {}});
  Snapshot wide{300, 900, {}};
  for (Tn tn = 300; tn < 300 + kRunning + 5; tn++) wide.running.push_back(tn);
  pins.push_back(wide);
  std::vector<PlainSnapshot> plain;
  for (auto &p : pins) plain.push_back(p.plain());
  horizon_publish(h.shared, 1000, now.plain(), plain.data(), static_cast<u32>(plain.size()));
  // only the wide one needs it, through the floor
  EXPECT_TRUE(version_needed(h.shared, 250, 310));
  EXPECT_FALSE(version_needed(h.shared, 250, 260));  // below everything

  // A transaction that runs for longer than 32 bits can tell counts as in the future, too.
  const Tn late = (Tn{1} << 33) + 100;
  Snapshot old{100, late, {100}};
  horizon_publish(h.shared, late + 1000, old.plain(), nullptr, 0);
  EXPECT_FALSE(version_needed(h.shared, 90, 95));
  EXPECT_TRUE(version_needed(h.shared, 90, 101));
  PlainSnapshot old_pin = old.plain();
  horizon_publish(h.shared, late, Snapshot{late, late, {}}.plain(), &old_pin, 1);
  EXPECT_TRUE(version_needed(h.shared, 90, 200));

  Snapshot crowded{100, 5000, {}};
  for (Tn tn = 100; tn < 100 + 2 * kRunning; tn += 2) crowded.running.push_back(tn);
  for (Tn tn = 1000; tn < 1010; tn++) crowded.running.push_back(tn);
  horizon_publish(h.shared, 6000, crowded.plain(), nullptr, 0);
  EXPECT_FALSE(version_needed(h.shared, 90, 101));
  EXPECT_TRUE(version_needed(h.shared, 90, 102));
  EXPECT_TRUE(version_needed(h.shared, 90, 1005));
  EXPECT_TRUE(version_needed(h.shared, 90, 4000));  // behind the first that found no room
}

TEST(Horizon, readers_never_mix_two_publications) {
  Published h;
  // Under either publication (10, 20) is needed, under a mixture it might not be.
  Snapshot pin{15, 15, {}}, low{5, 30, {20}}, high{1000, 1000, {}};
  PlainSnapshot p = pin.plain();
  horizon_publish(h.shared, 1000, high.plain(), &p, 1);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop.load()) {
      horizon_publish(h.shared, 1000, low.plain(), nullptr, 0);
      horizon_publish(h.shared, 1000, high.plain(), &p, 1);
    }
  });
  for (int i = 0; i < 200000; i++) ASSERT_TRUE(version_needed(h.shared, 10, 20));
  stop.store(true);
  writer.join();
}

}  // namespace
}  // namespace ls
