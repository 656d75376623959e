// crash_fixture.hpp - seeds, random plans, and the last life that every crash test ends with.
#pragma once
#include "unit/recovery/crash_parent.hpp"

namespace ls::test {

inline u64 environment(const char *name, u64 otherwise) {
  const char *value = std::getenv(name);
  return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

// The seeds a test runs: others every time, each printed before it runs.
inline std::vector<u64> seeds() {
  if (u64 one = environment("LS_CRASH_SEED", 0)) return {one};
  u64 first = static_cast<u64>(std::chrono::system_clock::now().time_since_epoch().count()) / 1000 %
              1'000'000;
  std::vector<u64> all;
  for (u64 i = 1; i <= environment("LS_CRASH_SEEDS", 1); i++) all.push_back(first + i);
  return all;
}

// Small everything, so that each mechanism is at work all the time.
inline ls_config crash_config(const std::string &root, std::mt19937_64 &random) {
  ls_config c = small_config(root);
  c.buffer_pool_bytes = (96 + random() % 200) * 4096;
  c.compressed_cache_percent = random() % 4 == 0 ? 0 : 25;
  c.max_log_bytes = (1 + random() % 4) << 20;
  c.version_trees = 1u << random() % 3;
  c.page_providers = 1 + random() % 2;
  c.fsync = random() % 4 == 0;
  c.page_images |= random() % 2 == 0;
  return c;
}

// What the host's id counter says at the next start: all ids, or only those that its own log knows
// of.
inline u64 next_xid(const Knowledge &known, std::mt19937_64 &random) {
  u64 low = known.max_committed_xid + 1;
  switch (random() % 3) {
    case 0: return known.next_xid;
    case 1: return low;
    default: return low + random() % (known.next_xid - low + 1);
  }
}

class CrashTest : public ::testing::Test {
 protected:
  void run(u64 seed, const std::function<void(CrashHarness &, std::mt19937_64 &)> &body) {
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    std::mt19937_64 random(seed);
    TempDirectory temp;
    CrashHarness harness(temp.path());
    body(harness, random);
  }

  static LifePlan plan_for(CrashHarness &harness, std::mt19937_64 &random) {
    LifePlan plan;
    plan.config = crash_config(harness.root(), random);
    plan.seed = random();
    plan.workers = 1 + random() % 4;
    plan.work_ms = 20 + random() % 120;
    plan.checkpoint_every_ms = random() % 2 ? 1 + random() % 30 : 0;
    plan.next_xid = next_xid(harness.known(), random);
    return plan;
  }

  // Everything in order, in the end.
  static void last_life(CrashHarness &harness, std::mt19937_64 &random) {
    LifePlan plan = plan_for(harness, random);
    plan.end = LifePlan::End::kShutdown;
    ASSERT_EQ(harness.live(plan), "");
    plan = plan_for(harness, random);
    plan.end = LifePlan::End::kShutdown;
    ASSERT_EQ(harness.live(plan), "") << "after a clean shutdown";
    ASSERT_TRUE(harness.recovered());
    EXPECT_EQ(harness.operations_redone(), 0u) << "a clean restart replays nothing";
  }
};

}  // namespace ls::test
