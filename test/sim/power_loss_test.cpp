// Power loss: the store runs on a disk that forgets what was not synced (power_loss.hpp), and is
// recovered from what is left; also when the power fails during recovery.
#include "sim/power_loss.hpp"

#include <fstream>

#include "unit/recovery/crash_fixture.hpp"

namespace ls::test {
namespace {

class PowerLossTest : public CrashTest {
 protected:
  static LifePlan power_plan(CrashHarness &harness, PowerLossDisk &disk, std::mt19937_64 &random) {
    LifePlan plan = plan_for(harness, random);
    plan.config.fsync = true;
    plan.before_recovery = [&disk] { disk.watch(); };
    return plan;
  }
};

TEST_F(PowerLossTest, acknowledged_commits_survive_lost_and_torn_writes) {
  for (u64 seed : seeds()) {
    run(seed, [](CrashHarness &harness, std::mt19937_64 &random) {
      PowerLossDisk disk(harness.root());
      u64 undone = 0;
      for (int life = 0; life < 8; life++) {
        LifePlan plan = power_plan(harness, disk, random);
        bool short_life = random() % 3 == 0;
        if (short_life) plan.kill_after_us = static_cast<u32>(random() % 40'000);
        ASSERT_EQ(harness.live(plan), "")
            << "life " << life << (short_life ? ", killed early" : "");
        if (random() % 4) undone += disk.cut_power(random);
      }
      LifePlan plan = power_plan(harness, disk, random);
      plan.end = LifePlan::End::kShutdown;
      ASSERT_EQ(harness.live(plan), "");
      disk.cut_power(random);
      plan = power_plan(harness, disk, random);
      plan.end = LifePlan::End::kShutdown;
      ASSERT_EQ(harness.live(plan), "") << "power was lost after a clean shutdown";
      EXPECT_EQ(harness.operations_redone(), 0u);
      EXPECT_GT(undone, 0u);
    });
    if (HasFatalFailure()) return;
  }
}

// The simulator itself: what is synced stays, what is not may go, in parts.
TEST_F(PowerLossTest, disk_keeps_what_was_synced_and_forgets_the_rest) {
  std::mt19937_64 random(7);
  std::set<std::string> outcomes;
  for (int round = 0; round < 40; round++) {
    TempDirectory temp;
    PowerLossDisk disk(temp.path());
    ASSERT_TRUE(in_child([&] {
      file_setup(temp.path().c_str(), false, true, 64);  // another test may have turned syncing off
      disk.watch();
      File file;
      EXPECT_EQ(file.open((temp / "data").c_str(), O_CREAT), kOk);
      EXPECT_EQ(directory_sync(temp.path().c_str()), kOk);
      EXPECT_EQ(file.write_at(0, std::string(1024, 'a').data(), 1024), kOk);
      EXPECT_EQ(file.sync_data(), kOk);
      EXPECT_EQ(file.write_at(0, std::string(1024, 'b').data(), 1024), kOk);
      EXPECT_EQ(file.write_at(0, std::string(1024, 'c').data(), 1024), kOk);
      EXPECT_EQ(file_rename((temp / "data").c_str(), (temp / "renamed").c_str()), kOk);
    }));
    disk.cut_power(random);
    std::string name = std::filesystem::exists(temp / "data") ? "data" : "renamed";
    std::ifstream in(temp / name, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(in), {});
    ASSERT_EQ(bytes.size(), 1024u);
    for (size_t i = 0; i < bytes.size(); i++)
      ASSERT_EQ(bytes[i], bytes[i / 512 * 512]) << "sectors are whole";
    outcomes.insert(name + bytes[0] + bytes[512]);
  }
  EXPECT_GE(outcomes.size(), 10u) << "of 2 names and 9 contents";
  EXPECT_TRUE(outcomes.contains("dataaa") || outcomes.contains("renamedaa"));
  EXPECT_TRUE(outcomes.contains("datacc") || outcomes.contains("renamedcc"));
}

}  // namespace
}  // namespace ls::test
