// futex_test.cpp - waits, signals, the mutex between threads and processes, the host watch,
// threads.
#include "os/futex.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <thread>
#include <vector>

#include "os/clock.hpp"
#include "os/host_watch.hpp"
#include "os/thread.hpp"

namespace ls {
namespace {

TEST(Futex, wait_returns_at_once_when_the_word_differs) {
  std::atomic<u32> word{1};
  EXPECT_TRUE(futex_wait(&word, 0, -1));
}

TEST(Futex, wait_ends_with_its_timeout) {
  std::atomic<u32> word{0};
  u64 before = now_us();
  EXPECT_FALSE(futex_wait(&word, 0, 20'000));
  EXPECT_GE(now_us() - before, 20'000u);
}

TEST(Futex, wake_ends_the_wait) {
  std::atomic<u32> word{0};
  std::atomic<bool> woke{false};
  std::thread sleeper([&] {
    while (word.load(std::memory_order_acquire) == 0) futex_wait(&word, 0, -1);
    woke = true;
  });
  word.store(1, std::memory_order_release);
  futex_wake_all(&word);
  sleeper.join();
  EXPECT_TRUE(woke);
  EXPECT_EQ(futex_wake(&word, 1), 0);
}

void do_nothing(int) {}

// How often the handler may run before the wait has begun is unknown, so signals are sent until the
// result is there.
template <class Wait>
bool result_under_signals(Wait wait) {
  struct sigaction action {}, before {};
  action.sa_handler = do_nothing;  // no SA_RESTART
  sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> done{false};
  bool result = false;
  std::thread sleeper([&] {
    result = wait();
    done = true;
  });
  while (!done) {
    pthread_kill(sleeper.native_handle(), SIGUSR1);
    usleep(2000);
  }
  sleeper.join();
  sigaction(SIGUSR1, &before, nullptr);
  return result;
}

TEST(Futex, signals_do_not_end_a_plain_wait_nor_stretch_its_timeout) {
  std::atomic<u32> word{0};
  u64 before = now_us();
  EXPECT_FALSE(result_under_signals([&] { return futex_wait(&word, 0, 50'000); }));
  EXPECT_GE(now_us() - before, 50'000u);
}

TEST(Futex, signals_end_an_interruptible_wait) {
  std::atomic<u32> word{0};
  EXPECT_TRUE(result_under_signals([&] { return futex_wait_interruptible(&word, 0, 60'000'000); }));
}

using Mutex = FutexMutex<LockRank::kInnermost>;

TEST(FutexMutex, excludes_threads) {
  Mutex mutex;
  u64 counter = 0;  // plain: a race is ThreadSanitizer's to find
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; i++) {
        std::lock_guard lock(mutex);
        counter++;
      }
    });
  }
  for (std::thread &t : threads) t.join();
  EXPECT_EQ(counter, 20000u);
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
}

TEST(FutexMutex, wakes_who_sleeps) {
  std::atomic<u32> word{0};
  futex_lock(word);
  std::thread waiter([&] {
    futex_lock(word);
    futex_unlock(word);
  });
  while (word.load() != 2) usleep(100);  // "held and contended": the waiter sleeps or is about to
  futex_unlock(word);
  waiter.join();
  EXPECT_EQ(word.load(), 0u);
}

TEST(FutexMutex, works_across_processes) {
  struct Shared {
    Mutex mutex;
    u64 counter;
  };
  void *memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Shared *shared = static_cast<Shared *>(memory);
  auto work = [shared] {
    for (int i = 0; i < 20000; i++) {
      std::lock_guard guard(shared->mutex);
      shared->counter++;
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
  EXPECT_EQ(shared->counter, 40000u);
  munmap(memory, sizeof(Shared));
}

// What a process that waits asks, and that it may end then.
TEST(HostWatch, ends_a_wait_that_nothing_else_would) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    static int asked = 0;
    set_host_watch([] {
      if (++asked == 2) _exit(7);
    });
    std::atomic<u32> word{0};
    futex_wait(&word, 0, -1);
    _exit(1);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

TEST(Thread, is_named_and_blocks_all_signals) {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  char name[16] = "";
  sigset_t inside;
  Thread thread;
  ASSERT_TRUE(ok(thread.start("ls test thread with a long name", [&] {
    pthread_getname_np(pthread_self(), name, sizeof name);
    pthread_sigmask(SIG_SETMASK, nullptr, &inside);
  })));
  thread.join();
  EXPECT_STREQ(name, "ls test thread ");
  for (int s : {SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGHUP, SIGCHLD})
    EXPECT_EQ(sigismember(&inside, s), 1) << s;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int s : {SIGINT, SIGTERM, SIGQUIT})
    EXPECT_EQ(sigismember(&after, s), sigismember(&before, s)) << s;
}

}  // namespace
}  // namespace ls
