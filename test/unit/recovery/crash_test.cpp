// Crashes of a working store: killed at any instruction, in the middle of a system call, in the
// middle of recovery, again and again.  LS_CRASH_SEED=n runs one seed, LS_CRASH_SEEDS=n so many;
// LS_CRASH_STEP=1 leaves no call out.
#include "os/fault.hpp"
#include "unit/recovery/crash_fixture.hpp"

namespace ls::test {
namespace {

TEST_F(CrashTest, killed_at_any_instruction) {
  for (u64 seed : seeds()) {
    run(seed, [](CrashHarness &harness, std::mt19937_64 &random) {
      for (int life = 0; life < 5; life++) {
        ASSERT_EQ(harness.live(plan_for(harness, random)), "") << "life " << life;
        ASSERT_TRUE(harness.recovered());
      }
      last_life(harness, random);
      EXPECT_GT(harness.known().acknowledged.size(), 0u);
    });
    if (HasFatalFailure()) return;
  }
}

// Most lives end in recovery: in the middle of redo, of undo, of the checkpoint at its end.
TEST_F(CrashTest, killed_during_recovery_again_and_again) {
  for (u64 seed : seeds()) {
    run(seed, [](CrashHarness &harness, std::mt19937_64 &random) {
      u32 in_recovery = 0;
      for (int round = 0; round < 3; round++) {
        ASSERT_EQ(harness.live(plan_for(harness, random)), "") << "round " << round;
        for (int attempt = 0; attempt < 5; attempt++) {
          LifePlan plan = plan_for(harness, random);
          plan.kill_after_us = static_cast<u32>(random() % 40'000);
          ASSERT_EQ(harness.live(plan), "") << "round " << round << " attempt " << attempt;
          in_recovery += !harness.recovered();
        }
      }
      last_life(harness, random);
      EXPECT_GT(in_recovery, 0u);
    });
    if (HasFatalFailure()) return;
  }
}

// Dies inside a chosen system call: of a write only a part reaches the file.
struct DeadlyCall {
  FaultOp op;
  const char *path_part;
  u64 within;       // the n-th call, n random up to this
};
constexpr DeadlyCall kDeadlyCalls[] = {
    {FaultOp::kWrite, "/wal/", 200},      {FaultOp::kWrite, "base/5", 200},
    {FaultOp::kWrite, "doublewrite", 30}, {FaultOp::kWrite, "control", 8},
    {FaultOp::kRename, "control", 8},     {FaultOp::kRename, "/wal/", 3},
    {FaultOp::kUnlink, "/wal/", 3},       {FaultOp::kSync, "base/5", 30},
    {FaultOp::kExtend, "base/5", 20},     {FaultOp::kSync, "/wal/", 100},
    {FaultOp::kWrite, "", 600},           {FaultOp::kOpen, "", 60},
};

void arm(const DeadlyCall &call, u64 nth, u64 first_bytes) {
  FaultRule rule;
  rule.op = call.op;
  rule.path_part = call.path_part;
  rule.nth = nth;
  rule.outcome = FaultOutcome::kCrash;
  rule.first_bytes = first_bytes;
  rule.on_crash = [] {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  };
  fault_add(rule);
}

TEST_F(CrashTest, dies_in_the_middle_of_a_system_call) {
  for (u64 seed : seeds()) {
    run(seed, [](CrashHarness &harness, std::mt19937_64 &random) {
      ASSERT_EQ(harness.live(plan_for(harness, random)), "") << "first life";
      for (int life = 0; life < 8; life++) {
        LifePlan plan = plan_for(harness, random);
        plan.config.fsync = true;
        const DeadlyCall &call = kDeadlyCalls[random() % std::size(kDeadlyCalls)];
        u64 nth = 1 + random() % call.within, first_bytes = random() % 4096;
        auto deadly = [call, nth, first_bytes] { arm(call, nth, first_bytes); };
        bool in_recovery = random() % 2;
        (in_recovery ? plan.before_recovery : plan.before_work) = deadly;
        ASSERT_EQ(harness.live(plan), "")
            << "life " << life << ": operation " << static_cast<int>(call.op) << " on \""
            << call.path_part << "\", call " << nth << (in_recovery ? " of recovery" : "") << ", "
            << first_bytes << " bytes written";
      }
      last_life(harness, random);
    });
    if (HasFatalFailure()) return;
  }
}

// ---- every crash point of a recovery, one after the other

class Snapshot {
 public:
  explicit Snapshot(const CrashHarness &harness) : root_(harness.root()), saved_(harness) {
    std::filesystem::copy(root_, copy_.path(), kRecursive);
  }
  // The store and what is known of it, as they were.
  CrashHarness restore() const {
    for (auto &entry : std::filesystem::directory_iterator(root_))
      std::filesystem::remove_all(entry.path());
    std::filesystem::copy(copy_.path(), root_, kRecursive);
    return saved_;
  }

 private:
  static constexpr auto kRecursive =
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing;
  std::string root_;
  CrashHarness saved_;
  TempDirectory copy_;
};

// Crash at the first call of recovery, and at others in steps; recover again; look.  Ends when
// recovery makes fewer calls.
void crash_at_each_call(const Snapshot &snapshot, const LifePlan &base, const DeadlyCall &call,
                        u64 step, u64 seed) {
  std::mt19937_64 random(seed);
  bool reached = true;
  u64 crashes = 0;
  for (u64 nth = 1; reached; nth += nth == 1 ? 1 + random() % step : step) {
    CrashHarness harness = snapshot.restore();
    LifePlan plan = base;
    plan.work_ms = 0;
    plan.workers = 0;
    u64 first_bytes = random() % 4096;
    plan.before_recovery = [call, nth, first_bytes] { arm(call, nth, first_bytes); };
    ASSERT_EQ(harness.live(plan), "") << "call " << nth;
    reached = !harness.recovered();
    crashes += reached;
    plan.before_recovery = nullptr;
    ASSERT_EQ(harness.live(plan), "")
        << "after a crash in call " << nth << ", " << first_bytes << " bytes written";
    ASSERT_TRUE(harness.recovered());
  }
  EXPECT_GT(crashes, 0u);
}

constexpr DeadlyCall kAnyWrite{FaultOp::kWrite, "", 0}, kAnySync{FaultOp::kSync, "", 0},
    kAnyOpen{FaultOp::kOpen, "", 0};

// REDO-3
TEST_F(CrashTest, recovery_survives_a_crash_at_each_of_its_calls) {
  for (u64 seed : seeds()) {
    run(seed, [&](CrashHarness &harness, std::mt19937_64 &random) {
      LifePlan plan = plan_for(harness, random);
      plan.workers = 4;
      plan.config.fsync = true;
      ASSERT_EQ(harness.live(plan), "");
      plan.next_xid = next_xid(harness.known(), random);
      Snapshot snapshot(harness);
      for (const DeadlyCall &call : {kAnyWrite, kAnySync}) {
        crash_at_each_call(snapshot, plan, call, environment("LS_CRASH_STEP", 9), seed);
        if (HasFatalFailure()) return;
      }
    });
    if (HasFatalFailure()) return;
  }
}

TEST_F(CrashTest, first_start_survives_a_crash_at_each_of_its_calls) {
  run(1, [&](CrashHarness &harness, std::mt19937_64 &random) {
    LifePlan plan = plan_for(harness, random);
    plan.config.fsync = true;
    Snapshot snapshot(harness);
    for (const DeadlyCall &call : {kAnyWrite, kAnyOpen}) {
      crash_at_each_call(snapshot, plan, call, environment("LS_CRASH_STEP", 3), 1);
      if (HasFatalFailure()) return;
    }
  });
}

}  // namespace
}  // namespace ls::test
