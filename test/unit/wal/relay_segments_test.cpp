// Segments of the relay log: space without a write.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "os/fault.hpp"
#include "unit/os/temp_directory.hpp"
#include "wal/log_segments.hpp"

namespace ls::test {
namespace {

constexpr u64 kBytes = 1 << 20;

class RelaySegmentsTest : public testing::Test {
 protected:
  ~RelaySegmentsTest() override { fault_clear(); }

  static void fail_all(FaultOp op, int error) {
    fault_add({.op = op, .path_part = "", .every = true, .error = error});
  }
  std::string path(u64 number) const { return log_segment_path(directory_.path(), number); }
  void expect_zeros(u64 number) const {
    std::ifstream in(path(number), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(bytes.size(), kBytes);
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; }));
  }

  TempDirectory directory_;
  std::atomic<Lsn> ready_{0};
  LogSegments segments_{directory_.path().c_str(), kBytes, true, &ready_,
                        LogSegments::Fill::kAllocated};
};

TEST_F(RelaySegmentsTest, have_their_space_and_are_not_written) {
  fail_all(FaultOp::kWrite, EIO);
  ASSERT_TRUE(ok(segments_.open(0)));
  ASSERT_TRUE(ok(segments_.make_spare(0)));
  EXPECT_EQ(ready_, 2 * kBytes);
  for (u64 number : {0, 1}) {
    struct stat st;
    ASSERT_EQ(stat(path(number).c_str(), &st), 0);
    EXPECT_GE(static_cast<u64>(st.st_blocks) * 512, kBytes);
    expect_zeros(number);
  }
}

// What a crash has left is made whole, and what is in it stays.
TEST_F(RelaySegmentsTest, that_are_short_are_extended) {
  std::ofstream(path(0)) << std::string(1000, 'x');
  ASSERT_TRUE(ok(segments_.open(0)));
  std::ifstream in(path(0), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(bytes, std::string(1000, 'x') + std::string(kBytes - 1000, '\0'));
}

TEST_F(RelaySegmentsTest, are_written_where_the_file_system_cannot_allocate) {
  fail_all(FaultOp::kExtend, EOPNOTSUPP);
  ASSERT_TRUE(ok(segments_.open(0)));
  expect_zeros(0);
}

TEST_F(RelaySegmentsTest, on_a_full_disk_leave_nothing) {
  ASSERT_TRUE(ok(segments_.open(0)));
  fail_all(FaultOp::kExtend, ENOSPC);
  EXPECT_EQ(code(segments_.make_spare(0)), LS_NO_SPACE);
  EXPECT_FALSE(segments_.has_spare(0));
  std::vector<std::string> names;
  ASSERT_TRUE(ok(directory_names(directory_.path().c_str(), &names)));
  EXPECT_EQ(names.size(), 1u);
  fault_clear();
  EXPECT_TRUE(ok(segments_.make_spare(0)));
  EXPECT_TRUE(segments_.has_spare(0));
}

}  // namespace
}  // namespace ls::test
