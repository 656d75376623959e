// hybrid_latch_test.cpp - the modes against each other, between threads and processes.
#include "sync/hybrid_latch.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "os/clock.hpp"

namespace ls {
namespace {

// LATCH-2
TEST(HybridLatch, exclusive_excludes_everybody) {
  HybridLatch latch;
  u64 counter = 0;  // plain: a race is ThreadSanitizer's to find
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&] {
      for (int i = 0; i < 3000; i++) {
        latch.lock_exclusive();
        counter++;
        latch.unlock_exclusive();
      }
    });
  }
  for (std::thread &t : threads) t.join();
  EXPECT_EQ(counter, 12000u);
  u64 version;
  ASSERT_TRUE(latch.try_version(version));
  EXPECT_EQ(version, 24000u) << "two steps per exclusive hold";
}

TEST(HybridLatch, readers_see_whole_changes) {
  HybridLatch latch;
  u64 a = 0, b = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; t++) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; i++) {
        latch.lock_exclusive();
        a++;
        b++;
        latch.unlock_exclusive();
      }
    });
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; i++) {
        latch.lock_shared();
        ASSERT_EQ(a, b);
        latch.unlock_shared();
      }
    });
  }
  for (std::thread &t : threads) t.join();
  EXPECT_EQ(a, 4000u);
}

TEST(HybridLatch, shared_holders_coexist) {
  HybridLatch latch;
  latch.lock_shared();
  EXPECT_TRUE(latch.try_lock_shared());
  EXPECT_FALSE(latch.try_lock_exclusive());
  latch.unlock_shared();
  EXPECT_FALSE(latch.try_lock_exclusive());
  latch.unlock_shared();
  EXPECT_TRUE(latch.try_lock_exclusive());
  EXPECT_FALSE(latch.try_lock_shared());
  EXPECT_FALSE(latch.try_lock_exclusive());
  latch.unlock_exclusive();
  EXPECT_TRUE(latch.try_lock_shared());
  latch.unlock_shared();
}

TEST(HybridLatch, optimistic_readers_notice_a_writer) {
  HybridLatch latch;
  u64 version = latch.version_wait();
  EXPECT_TRUE(latch.validate(version));
  latch.lock_exclusive();
  EXPECT_FALSE(latch.validate(version));
  u64 during;
  EXPECT_FALSE(latch.try_version(during));
  EXPECT_TRUE(latch.is_exclusive());
  latch.unlock_exclusive();
  EXPECT_FALSE(latch.validate(version));
  EXPECT_TRUE(latch.validate(latch.version_wait()));
}

TEST(HybridLatch, shared_holders_do_not_disturb_optimistic_ones) {
  HybridLatch latch;
  u64 version = latch.version_wait();
  latch.lock_shared();
  EXPECT_TRUE(latch.validate(version));
  latch.unlock_shared();
  EXPECT_TRUE(latch.validate(version));
}

// LATCH-4
TEST(HybridLatch, release_unchanged_keeps_the_version) {
  HybridLatch latch;
  u64 version = latch.version_wait();
  latch.lock_exclusive();
  latch.unlock_exclusive_unchanged();
  EXPECT_TRUE(latch.validate(version));
  latch.lock_exclusive();
  latch.unlock_exclusive();
  EXPECT_FALSE(latch.validate(version));
}

TEST(HybridLatch, upgrade_needs_the_version_read_before) {
  HybridLatch latch;
  u64 version = latch.version_wait();
  ASSERT_TRUE(latch.try_upgrade(version));
  EXPECT_TRUE(latch.is_exclusive());
  latch.unlock_exclusive();
  EXPECT_FALSE(latch.try_upgrade(version)) << "it has changed";
  version = latch.version_wait();
  latch.lock_shared();
  EXPECT_FALSE(latch.try_upgrade(version)) << "somebody reads it";
  latch.unlock_shared();
  ASSERT_TRUE(latch.try_upgrade(version));
  latch.unlock_exclusive();
}

TEST(HybridLatch, one_of_many_upgrades_wins) {
  HybridLatch latch;
  u64 value = 0;
  std::atomic<u64> wins{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000;) {
        u64 version = latch.version_wait();
        if (!latch.try_upgrade(version)) continue;
        value++;
        latch.unlock_exclusive();
        wins.fetch_add(1, std::memory_order_relaxed);
        i++;
      }
    });
  }
  for (std::thread &t : threads) t.join();
  EXPECT_EQ(value, wins.load());
  EXPECT_EQ(latch.version_wait(), 2 * value);
}

// LATCH-6
TEST(HybridLatch, version_wait_sleeps_until_the_writer_has_gone) {
  HybridLatch latch;
  latch.lock_exclusive();
  std::atomic<bool> through{false};
  std::thread reader([&] {
    EXPECT_EQ(latch.version_wait(), 2u);
    through = true;
  });
  usleep(20'000);
  EXPECT_FALSE(through);
  latch.unlock_exclusive();
  reader.join();
  EXPECT_TRUE(through);
}

// LATCH-3, LATCH-5
TEST(HybridLatch, a_stream_of_readers_does_not_starve_a_writer) {
  HybridLatch latch;
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  // Each holds while the others come and go, so that there is hardly an instant without a reader.
  for (int t = 0; t < 3; t++) {
    readers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        latch.lock_shared();
        usleep(200);
        latch.unlock_shared();
      }
    });
  }
  for (int i = 0; i < 20; i++) {
    latch.lock_exclusive();
    latch.unlock_exclusive();
  }
  stop = true;
  for (std::thread &t : readers) t.join();
  EXPECT_EQ(latch.version_wait(), 40u);
}

TEST(HybridLatch, a_waiting_writer_holds_back_new_readers) {
  HybridLatch latch;
  latch.lock_shared();
  std::thread writer([&] {
    latch.lock_exclusive();
    latch.unlock_exclusive();
  });
  // The writer sets its bit after its spin.
  u64 deadline = now_ms() + 10'000;
  bool held_back = false;
  while (!held_back && now_ms() < deadline) {
    if (latch.try_lock_shared()) {
      latch.unlock_shared();
      usleep(100);
    } else {
      held_back = true;
    }
  }
  EXPECT_TRUE(held_back);
  latch.unlock_shared();
  writer.join();
  EXPECT_TRUE(latch.try_lock_shared());
  latch.unlock_shared();
}

TEST(HybridLatch, mixed_use_leaves_it_free) {
  HybridLatch latch;
  u64 value = 0;
  std::vector<std::thread> threads;
  for (u32 t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      u64 seen = 0;
      for (u32 i = 0; i < 1500; i++) {
        switch ((i + t) % 5) {
          case 0:
            latch.lock_exclusive();
            value++;
            latch.unlock_exclusive();
            break;
          case 1:
            if (latch.try_lock_exclusive()) {
              value++;
              latch.unlock_exclusive();
            }
            break;
          case 2:
            if (latch.try_upgrade(latch.version_wait())) latch.unlock_exclusive_unchanged();
            break;
          case 3:
            latch.lock_shared();
            ASSERT_GE(value, seen);
            seen = value;
            latch.unlock_shared();
            break;
          default:
            (void)latch.version_wait();
        }
      }
    });
  }
  for (std::thread &t : threads) t.join();
  EXPECT_EQ(latch.version_wait(), 2 * value);
  ASSERT_TRUE(latch.try_lock_exclusive());
  latch.unlock_exclusive();
}

TEST(HybridLatch, works_across_processes) {
  struct Shared {
    HybridLatch latch;
    u64 counter;
  };
  void *memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Shared *shared = new (memory) Shared{};
  auto work = [shared] {
    for (int i = 0; i < 10000; i++) {
      shared->latch.lock_exclusive();
      shared->counter++;
      shared->latch.unlock_exclusive();
    }
  };
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    work();
    _exit(0);
  }
  work();
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(shared->counter, 20000u);
  munmap(memory, sizeof(Shared));
}

#if defined(LS_DEBUG_CHECKS) && LS_DEBUG_CHECKS
TEST(HybridLatch, held_latches_are_counted_per_thread) {
  HybridLatch a, b;
  EXPECT_EQ(latches_held(), 0);
  a.lock_exclusive();
  b.lock_shared();
  EXPECT_EQ(latches_held(), 2);
  std::thread([] { EXPECT_EQ(latches_held(), 0); }).join();
  EXPECT_FALSE(b.try_lock_exclusive());
  EXPECT_FALSE(a.try_lock_shared());
  EXPECT_EQ(latches_held(), 2);
  a.unlock_exclusive_unchanged();
  b.unlock_shared();
  EXPECT_EQ(latches_held(), 0);
  ASSERT_TRUE(a.try_upgrade(a.version_wait()));
  EXPECT_EQ(latches_held(), 1);
  a.unlock_exclusive();
  EXPECT_EQ(latches_held(), 0);
}
#endif

}  // namespace
}  // namespace ls
