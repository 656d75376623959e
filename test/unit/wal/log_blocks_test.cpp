// Rounds share the blocks at their seams: what is there already stays, whichever thread writes
// behind it, and when that is torn.
#include <random>

#include "unit/wal/log_fixture.hpp"
#include "wal/log_files.hpp"
#include "wal/log_writer.hpp"

namespace ls {
namespace {

using test::TestLog;

class LogBlockTest : public testing::TestWithParam<bool> {
 protected:
  LogBlockTest() {
    file_setup(".", GetParam(), true, 256);
    EXPECT_TRUE(ok(t_.log().open_for_append(0, 0, 1)));
  }
  void expect_all(const LogImage &image) {
    ASSERT_EQ(image.entries.size(), sizes_.size());
    for (size_t i = 0; i < sizes_.size(); i++) {
      std::vector<LogOp> ops = test::ops_of(image.entries[i]);
      ASSERT_EQ(ops.size(), 1u);
      const std::vector<u8> expected = test::payload_of(i + 1, sizes_[i]);
      ASSERT_TRUE(std::equal(ops[0].operands.begin(), ops[0].operands.end(), expected.begin(),
                             expected.end()))
          << "record " << i + 1;
    }
  }
  void append_one(LogAppender &a, size_t bytes) {
    sizes_.push_back(bytes);
    test::reserve_append(a, sizes_.size(), bytes);
  }

  TestLog t_;
  std::vector<size_t> sizes_;   // payload of each record, in order
};

// WAL-5: the committer and two workers, each with buffers and descriptors of its own, and now and
// then a restart.
TEST_P(LogBlockTest, go_on_where_another_has_stopped) {
  const u32 seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  u32 in_the_middle = 0;
  while (t_.log().end() < 3 * test::kSegment) {
    {
      LogAppender a(t_.log(), 0);
      LogWriter other(t_.log().shared(), nullptr), another(t_.log().shared(), nullptr);
      for (u32 rounds = random() % 200; rounds > 0; rounds--) {
        for (u32 records = random() % 3; records > 0; records--)
          append_one(a, random() % 10 ? random() % 600 : random() % (kMaxRecordBytes - 100));
        switch (random() % 4) {
          case 0: ASSERT_TRUE(other.try_round(nullptr)); break;
          case 1: ASSERT_TRUE(another.try_round(nullptr)); break;
          default: t_.round();
        }
      }
      t_.round();   // what a worker has left to the committer
    }
    in_the_middle += t_.log().end() % kLogBlockBytes != 0;
    expect_all(t_.recover());
    ASSERT_FALSE(HasFatalFailure());
  }
  EXPECT_GT(in_the_middle, 5u);
}

TEST_P(LogBlockTest, a_torn_round_leaves_what_is_before_it_in_its_block) {
  for (u64 torn_at = 0; torn_at <= 2 * kLogBlockBytes; torn_at += 512) {
    {
      LogAppender a(t_.log(), 0);
      append_one(a, 700);
      t_.round();
      const Lsn end = t_.log().end();
      FaultRule rule;
      rule.op = FaultOp::kWrite;
      rule.path_part = "/wal/";
      rule.outcome = FaultOutcome::kFail;
      rule.error = EIO;
      rule.first_bytes = torn_at;
      fault_add(rule);
      test::reserve_append(a, 1000 + torn_at, 2 * kLogBlockBytes);
      u64 wrote;
      EXPECT_FALSE(ok(t_.log().commit_round(&wrote)));
      fault_clear();
      EXPECT_EQ(t_.log().end(), end);
    }
    LogImage image = t_.recover();
    expect_all(image);
    ASSERT_FALSE(HasFatalFailure()) << "torn after " << torn_at;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, LogBlockTest, testing::Bool(),
                         [](const auto &info) { return info.param ? "direct" : "buffered"; });

}  // namespace
}  // namespace ls
