// From a transaction number back to its id, over starts and failures of starts.
#include "txn/tn_eras.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "os/file.hpp"
#include "unit/os/temp_directory.hpp"

namespace ls {
namespace {

// ERA-1
TEST(TnEras, each_number_has_the_offset_of_its_start) {
  TnEras eras;
  EXPECT_EQ(eras.full_xid(700), 0u) << "nothing is known yet";
  EXPECT_TRUE(eras.add(700, 0));
  EXPECT_FALSE(eras.add(900, 0)) << "a start that changes nothing";
  EXPECT_TRUE(eras.add(1000, 300));
  EXPECT_EQ(eras.count(), 2u);
  EXPECT_EQ(eras.full_xid(700), 700u);
  EXPECT_EQ(eras.full_xid(999), 999u);
  EXPECT_EQ(eras.full_xid(1000), 700u);
  EXPECT_EQ(eras.full_xid(5000), 4700u);
  EXPECT_EQ(eras.full_xid(699), 0u);
}

// ERA-2
TEST(TnEras, what_a_failed_start_has_added_is_taken_back) {
  TnEras eras;
  eras.add(700, 0);
  eras.add(1000, 300);
  EXPECT_TRUE(eras.add(950, 200));
  EXPECT_EQ(eras.count(), 2u);
  EXPECT_EQ(eras.full_xid(949), 949u);
  EXPECT_EQ(eras.full_xid(1000), 800u);
  EXPECT_TRUE(eras.add(900, 0)) << "as before both";
  EXPECT_EQ(eras.count(), 1u);
}

// ERA-3
TEST(TnEras, the_oldest_are_forgotten) {
  TnEras eras;
  for (u64 i = 0; i < kMaxTnEras + 10; i++) EXPECT_TRUE(eras.add(1000 * (i + 1), i));
  EXPECT_EQ(eras.count(), kMaxTnEras);
  EXPECT_EQ(eras.full_xid(10'500), 0u);
  EXPECT_EQ(eras.full_xid(11'500), 11'490u);
  EXPECT_EQ(eras.full_xid(1000 * (kMaxTnEras + 10) + 7),
            1000 * (kMaxTnEras + 10) + 7 - (kMaxTnEras + 9));
}

TEST(TnEras, file_is_read_back_or_refused) {
  test::TempDirectory directory;
  TnEras written, read;
  bool exists;
  ASSERT_TRUE(ok(read.read(directory.path().c_str(), &exists)));
  EXPECT_FALSE(exists);
  for (u64 i = 0; i < kMaxTnEras; i++) written.add(1000 * (i + 1), i);
  ASSERT_TRUE(ok(written.write(directory.path().c_str())));
  ASSERT_TRUE(ok(read.read(directory.path().c_str(), &exists)));
  EXPECT_TRUE(exists);
  EXPECT_EQ(read.count(), written.count());
  for (Tn tn = 0; tn < 1'100'000; tn += 333) ASSERT_EQ(read.full_xid(tn), written.full_xid(tn));

  const std::string path = directory / "tn_eras";
  for (const u64 at : {u64{0}, u64{9}, u64{16}, u64{24}, u64{5000}}) {
    File file;
    ASSERT_TRUE(ok(written.write(directory.path().c_str())));
    ASSERT_TRUE(ok(file.open(path.c_str(), 0)));
    const u8 byte = 0xa5;
    ASSERT_TRUE(ok(file.write_at(at, &byte, 1)));
    EXPECT_EQ(code(read.read(directory.path().c_str(), &exists)), LS_CORRUPT) << at;
  }
}

// ERA-5: while eras come, and the oldest ones go.
TEST(TnEras, are_asked_beside_an_actor_that_adds_some) {
  constexpr u64 kStep = 1000, kLast = kMaxTnEras + 200;
  TnEras eras;
  eras.add(0, 0);
  std::atomic<u64> added{0};
  std::thread reader([&] {
    for (u64 n = 0; n < kLast;) {
      n = added.load(std::memory_order_acquire);
      EXPECT_EQ(eras.full_xid(n * kStep + 7), n * kStep + 7 - n);
      const u64 oldest = eras.full_xid(7);
      EXPECT_TRUE(oldest == 7 || oldest == 0) << oldest;
    }
  });
  for (u64 n = 1; n <= kLast; n++) {
    ASSERT_TRUE(eras.add(n * kStep, n));
    added.store(n, std::memory_order_release);
    if (n % 16 == 0) std::this_thread::yield();
  }
  reader.join();
  EXPECT_EQ(eras.count(), kMaxTnEras);
}

}  // namespace
}  // namespace ls
