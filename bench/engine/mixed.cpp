// mixed.cpp - look-ups, changes and scans on a filled store.
#include <algorithm>

#include "crew.hpp"
#include "workload.hpp"

namespace ls::bench {

namespace {

constexpr u32 kFixedScan = 100;

// One thread's part of a run.
class Player {
 public:
  Player(Filled &filled, const Mix &mix, const Zipf &zipf, u32 thread)
      : filled_(filled),
        mix_(mix),
        zipf_(zipf),
        session_(filled.store->session(thread)),
        random_(0x9e3779b97f4a7c15 * (thread + 1)) {}

  void play() {
    u32 choice = next_random(random_) % 100;
    if (choice < mix_.lookups) return look_up(existing());
    choice -= mix_.lookups;
    if (choice < mix_.updates) return update(existing());
    choice -= mix_.updates;
    if (choice < mix_.inserts) return insert();
    choice -= mix_.inserts;
    if (choice < mix_.scans) return scan(existing());
    const u64 i = existing();
    look_up(i);
    update(i);
  }

 private:
  u64 existing() {
    switch (mix_.draw) {
      case Draw::kUniform: return uniform(random_, filled_.keys->count());
      case Draw::kZipf: return scramble(zipf_.draw(random_), filled_.keys->count());
      case Draw::kLatest: break;
    }
    const u64 next = filled_.next_key.load(std::memory_order_relaxed);
    return next - 1 - std::min(next - 1, zipf_.draw(random_));
  }
  void look_up(u64 i) {
    const bool found = session_->lookup(filled_.keys->key(i, buffer_), &value_);
    // Of the latest some are being inserted by others.
    if (!found && mix_.draw != Draw::kLatest) give_up(mix_.name, "a key is not found");
  }
  void update(u64 i) {
    for (u32 at = 0; at < kValueBytes; at += 4) {
      const u32 fresh = next_random(random_);
      __builtin_memcpy(value_.bytes + at, &fresh, sizeof fresh);
    }
    session_->update(filled_.keys->key(i, buffer_), value_);
  }
  void insert() {
    const u64 i = filled_.next_key.fetch_add(1);
    if (i >= filled_.keys->most())
      give_up(mix_.name, "no more keys to insert: a larger GROWTH is needed");
    session_->insert(filled_.keys->key(i, buffer_), value_);
  }
  void scan(u64 i) {
    const u32 count =
        mix_.scan_length == 0 ? kFixedScan : 1 + next_random(random_) % mix_.scan_length;
    session_->scan(filled_.keys->key(i, buffer_), count, &sum_);
  }

  Filled &filled_;
  const Mix &mix_;
  const Zipf &zipf_;
  std::unique_ptr<Session> session_;
  u64 random_, sum_ = 0;
  u8 buffer_[8];
  Value value_{};
};

}  // namespace

double measure_mix(Filled &filled, const Mix &mix, const Zipf &zipf, u32 threads, u64 duration_us) {
  std::atomic<u64> done{0};
  const u64 us = run_crew(threads, duration_us,
                          [&](u32 thread, const std::atomic<bool> &stop, const auto &begin) {
                            Player player(filled, mix, zipf, thread);
                            u64 mine = 0;
                            begin();
                            while (!stop.load(std::memory_order_relaxed)) {
                              player.play();
                              mine++;
                            }
                            done += mine;
                          });
  return static_cast<double>(done.load()) / static_cast<double>(us);
}

void warm(Filled &filled, u32 threads) {
  const u64 n = filled.keys->count();
  run_crew(threads, 0, [&](u32 thread, const std::atomic<bool> &, const auto &begin) {
    std::unique_ptr<Session> session = filled.store->session(thread);
    u8 buffer[8];
    Value value;
    begin();
    for (u64 i = n * thread / threads, end = n * (thread + 1) / threads; i < end; i++)
      if (!session->lookup(filled.keys->key(i, buffer), &value))
        give_up("warming", "a key is not found");
  });
}

}  // namespace ls::bench
