// A waiter of an io_uring is not disturbed by its own nudges.
#include "os/io_wait.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace ls {
namespace {

class IoWait : public ::testing::Test {
 protected:
  void SetUp() override {
    if (io_uring_queue_init(8, &ring_, 0) != 0) GTEST_SKIP() << "no io_uring";
    open_ = true;
    ASSERT_EQ(pipe(ends_), 0);
  }
  void TearDown() override {
    if (open_) io_uring_queue_exit(&ring_);
    for (int end : ends_) {
      if (end >= 0) close(end);
    }
  }
  void begin_read(u64 data) {
    io_uring_sqe *sqe = io_uring_get_sqe(&ring_);
    io_uring_prep_read(sqe, ends_[0], &byte_[data], 1, 0);
    io_uring_sqe_set_data64(sqe, data);
    ASSERT_EQ(io_uring_submit(&ring_), 1);
  }
  void write_later(std::chrono::milliseconds after, size_t bytes) {
    writer_ = std::thread([=, this] {
      std::this_thread::sleep_for(after);
      EXPECT_EQ(write(ends_[1], "ab", bytes), static_cast<ssize_t>(bytes));
    });
  }
  u64 taken() const { return *ring_.cq.khead; }

  io_uring ring_;
  bool open_ = false;
  int ends_[2] = {-1, -1};
  char byte_[2] = {};
  std::thread writer_;
};

// The write comes after several slices.
TEST_F(IoWait, a_long_wait_is_nudged_and_ends_with_the_request) {
  begin_read(1);
  write_later(std::chrono::milliseconds(900), 1);
  io_uring_cqe *cqe = io_wait(ring_, 1);
  writer_.join();
  ASSERT_EQ(io_uring_cqe_get_data64(cqe), 1u);
  EXPECT_EQ(cqe->res, 1);
  EXPECT_EQ(byte_[1], 'a');
  EXPECT_GT(taken(), 0u) << "nudges have ended before";
  io_uring_cqe_seen(&ring_, cqe);
  EXPECT_EQ(io_peek(ring_), nullptr);
}

// More are expected than end at first: what has ended is not held back until all have.
TEST_F(IoWait, gives_the_first_while_the_second_is_under_way) {
  begin_read(0);
  begin_read(1);
  write_later(std::chrono::milliseconds(1), 1);
  io_uring_cqe *cqe = io_wait(ring_, 2);
  writer_.join();
  EXPECT_EQ(cqe->res, 1);
  io_uring_cqe_seen(&ring_, cqe);
  write_later(std::chrono::milliseconds(1), 1);
  cqe = io_wait(ring_, 1);
  writer_.join();
  EXPECT_EQ(cqe->res, 1);
  io_uring_cqe_seen(&ring_, cqe);
  EXPECT_EQ(io_peek(ring_), nullptr);
}

}  // namespace
}  // namespace ls
