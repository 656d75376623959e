// control_file_test.cpp - every damaged byte, every wrong length, failed writes.
#include "recovery/control_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "base/crc32c.hpp"
#include "os/fault.hpp"
#include "unit/os/temp_directory.hpp"

namespace ls::test {
namespace {

ControlFile sample() {
  ControlFile c{};
  c.clean = 1;
  c.run = 7;
  c.redo_lsn = 123456;
  c.redo_run = 6;
  c.segment_bytes = 16 << 20;
  c.gsn = 99;
  c.tn_floor = 1234;
  c.next_file_no = 5;
  c.tn_offset = 17;
  c.xid_limit = 3;
  c.log_end = 4;
  return c;
}

class ControlFileTest : public ::testing::Test {
 protected:
  ~ControlFileTest() override { fault_clear(); }
  const char *dir() const { return temp_.path().c_str(); }
  Status read(ControlFile *control) {
    bool exists = false;
    Status status = control_read(dir(), control, &exists);
    EXPECT_TRUE(exists);
    return status;
  }
  // Change the bytes of the file.
  void edit(const std::function<void(std::string &)> &change) {
    std::string path = temp_ / "control", bytes;
    {
      std::ifstream in(path, std::ios::binary);
      bytes.assign(std::istreambuf_iterator<char>(in), {});
    }
    change(bytes);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  // Change a member and make the checksum right again.
  void forge(const std::function<void(ControlFile &)> &change) {
    edit([&](std::string &bytes) {
      ControlFile c;
      std::memcpy(&c, bytes.data(), sizeof c);
      change(c);
      c.crc = 0;
      c.crc = crc32c(0, &c, sizeof c);
      std::memcpy(bytes.data(), &c, sizeof c);
    });
  }
  TempDirectory temp_;
};

TEST_F(ControlFileTest, absent_file_is_reported_as_such) {
  ControlFile c;
  bool exists = true;
  EXPECT_EQ(control_read(dir(), &c, &exists), kOk);
  EXPECT_FALSE(exists);
}

TEST_F(ControlFileTest, what_is_written_is_read) {
  ASSERT_EQ(control_write(dir(), sample()), kOk);
  ControlFile c;
  ASSERT_EQ(read(&c), kOk);
  ControlFile expected = sample();
  EXPECT_EQ(c.clean, expected.clean);
  EXPECT_EQ(c.run, expected.run);
  EXPECT_EQ(c.redo_lsn, expected.redo_lsn);
  EXPECT_EQ(c.redo_run, expected.redo_run);
  EXPECT_EQ(c.segment_bytes, expected.segment_bytes);
  EXPECT_EQ(c.gsn, expected.gsn);
  EXPECT_EQ(c.tn_floor, expected.tn_floor);
  EXPECT_EQ(c.next_file_no, expected.next_file_no);
  EXPECT_EQ(c.tn_offset, expected.tn_offset);
  EXPECT_EQ(c.xid_limit, expected.xid_limit);
  EXPECT_EQ(c.log_end, expected.log_end);
  EXPECT_EQ(c.page_size, kPageSize);
}

TEST_F(ControlFileTest, every_damaged_byte_is_noticed) {
  for (size_t i = 0; i < sizeof(ControlFile); i++) {
    ASSERT_EQ(control_write(dir(), sample()), kOk);
    edit([&](std::string &bytes) { bytes[i] = static_cast<char>(bytes[i] ^ 0x40); });
    ControlFile c;
    EXPECT_EQ(code(read(&c)), LS_CORRUPT) << "byte " << i;
  }
}

TEST_F(ControlFileTest, every_wrong_length_is_noticed) {
  for (size_t bytes :
       {size_t{0}, size_t{7}, size_t{20}, sizeof(ControlFile) - 1, sizeof(ControlFile) + 1}) {
    ASSERT_EQ(control_write(dir(), sample()), kOk);
    edit([&](std::string &b) { b.resize(bytes); });
    ControlFile c;
    EXPECT_EQ(code(read(&c)), LS_CORRUPT) << bytes << " bytes";
  }
}

TEST_F(ControlFileTest, another_version_or_page_size_is_refused_with_a_reason) {
  ASSERT_EQ(control_write(dir(), sample()), kOk);
  forge([](ControlFile &c) { c.version = kControlVersion + 1; });
  ControlFile c;
  EXPECT_EQ(code(read(&c)), LS_CORRUPT);
  EXPECT_NE(std::strstr(last_error().message, "version"), nullptr);
  ASSERT_EQ(control_write(dir(), sample()), kOk);
  forge([](ControlFile &f) { f.page_size = 8192; });
  EXPECT_EQ(code(read(&c)), LS_CORRUPT);
  EXPECT_NE(std::strstr(last_error().message, "8192"), nullptr);
}

TEST_F(ControlFileTest, an_older_one_is_read_behind_a_clean_shutdown) {
  ControlFile written = sample(), c;
  for (const u32 clean : {1u, 0u}) {
    written.clean = clean;
    ASSERT_EQ(control_write(dir(), written), kOk);
    forge([](ControlFile &f) { f.version = kOldControlVersion; });
    EXPECT_EQ(code(read(&c)), clean ? LS_OK : LS_CORRUPT) << last_error().message;
  }
  EXPECT_NE(std::strstr(last_error().message, "shut down cleanly"), nullptr);
  forge([](ControlFile &f) { f.version = kOldControlVersion - 1; });
  EXPECT_EQ(code(read(&c)), LS_CORRUPT);
}

TEST_F(ControlFileTest, failed_write_leaves_the_old_one) {
  ASSERT_EQ(control_write(dir(), sample()), kOk);
  ControlFile changed = sample();
  changed.run = 8;
  for (FaultOp op : {FaultOp::kOpen, FaultOp::kWrite, FaultOp::kRename}) {
    FaultRule rule;
    rule.op = op;
    rule.path_part = "control";
    rule.error = 28;  // ENOSPC
    rule.first_bytes = 10;
    fault_add(rule);
    EXPECT_EQ(code(control_write(dir(), changed)), LS_NO_SPACE);
    fault_clear();
    ControlFile c;
    ASSERT_EQ(read(&c), kOk);
    EXPECT_EQ(c.run, 7u);
  }
}

}  // namespace
}  // namespace ls::test
