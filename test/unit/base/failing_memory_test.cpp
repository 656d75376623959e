// failing_memory_test.cpp - allocations that fail on purpose, and their tests.
#include "unit/base/failing_memory.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "base/aligned_memory.hpp"
#include "os/thread.hpp"

namespace ls::test {
namespace {

enum class Target : u32 { kNobody, kCounted, kThreads };

std::atomic<Target> g_target{Target::kNobody};
std::atomic<u64> g_left{0};
std::atomic<bool> g_fired{false};
// A thread that the engine has started may look at it while the next one is armed.
std::atomic<const char *> g_name{nullptr};
thread_local u32 t_counted = 0;
pthread_t g_counted_thread;

bool is_meant() {
  switch (g_target.load(std::memory_order_acquire)) {
    case Target::kNobody:
      return false;
    case Target::kCounted:
      return t_counted > 0 && pthread_equal(pthread_self(), g_counted_thread);
    case Target::kThreads:
      char name[16];
      return pthread_getname_np(pthread_self(), name, sizeof name) == 0 &&
             std::strcmp(name, g_name.load(std::memory_order_relaxed)) == 0;
  }
  return false;
}

bool fails() {
  if (!is_meant()) return false;
  if (g_left.load(std::memory_order_relaxed) == 0 ||
      g_left.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return false;
  g_fired.store(true, std::memory_order_release);
  return true;
}

void arm_for(Target target, u64 nth) {
  g_fired.store(false, std::memory_order_relaxed);
  g_left.store(nth, std::memory_order_relaxed);
  g_target.store(target, std::memory_order_release);
}

}  // namespace

void FailingMemory::arm(u64 nth) {
  g_counted_thread = pthread_self();
  arm_for(Target::kCounted, nth);
}

void FailingMemory::arm_threads(const char *name, u64 nth) {
  g_name.store(name, std::memory_order_relaxed);
  arm_for(Target::kThreads, nth);
}

bool FailingMemory::fired() { return g_fired.load(std::memory_order_acquire); }

bool FailingMemory::disarm() {
  g_target.store(Target::kNobody, std::memory_order_release);
  return fired();
}

FailingMemory::Counted::Counted() { t_counted++; }
FailingMemory::Counted::~Counted() { t_counted--; }

namespace {

void *allocate(std::size_t bytes, std::size_t alignment) {
  if (fails()) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes ? bytes : 1);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void *allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void *memory = allocate(bytes, alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

TEST(FailingMemoryTest, the_nth_counted_allocation_fails_once) {
  FailingMemory::arm(2);
  int outcomes = 0;
  for (int i = 0; i < 4; i++) {
    const FailingMemory::Counted counted;
    try {
      const std::unique_ptr<char[]> memory(new char[100]);
      asm volatile("" : : "r"(memory.get()) : "memory");
    } catch (const std::bad_alloc &) {
      outcomes |= 1 << i;
    }
  }
  EXPECT_TRUE(FailingMemory::disarm());
  EXPECT_EQ(outcomes, 1 << 1);
  FailingMemory::arm(1);
  EXPECT_NE(allocate_pages(1), nullptr) << "not within a Counted";
  {
    const FailingMemory::Counted counted;
    EXPECT_EQ(allocate_pages(1), nullptr) << "those that do not throw, too";
    EXPECT_NE(allocate_pages(1), nullptr);
  }
  EXPECT_TRUE(FailingMemory::disarm());
}

TEST(FailingMemoryTest, threads_are_told_by_their_name) {
  FailingMemory::arm_threads("some thread", 1);
  for (const char *name : {"another", "some thread"}) {
    std::atomic<bool> failed{false};
    Thread thread;
    ASSERT_EQ(thread.start(name, [&] { failed.store(allocate_pages(1) == nullptr); }), kOk);
    thread.join();
    EXPECT_EQ(failed.load(), std::strcmp(name, "some thread") == 0);
  }
  EXPECT_TRUE(FailingMemory::disarm());
}

}  // namespace
}  // namespace ls::test

// ---- for the whole program

void *operator new(std::size_t bytes) { return ls::test::allocate_or_throw(bytes, 0); }
void *operator new[](std::size_t bytes) { return ls::test::allocate_or_throw(bytes, 0); }
void *operator new(std::size_t bytes, std::align_val_t a) {
  return ls::test::allocate_or_throw(bytes, static_cast<std::size_t>(a));
}
void *operator new[](std::size_t bytes, std::align_val_t a) {
  return ls::test::allocate_or_throw(bytes, static_cast<std::size_t>(a));
}
void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept {
  return ls::test::allocate(bytes, 0);
}
void *operator new[](std::size_t bytes, const std::nothrow_t &) noexcept {
  return ls::test::allocate(bytes, 0);
}
void *operator new(std::size_t bytes, std::align_val_t a, const std::nothrow_t &) noexcept {
  return ls::test::allocate(bytes, static_cast<std::size_t>(a));
}
void *operator new[](std::size_t bytes, std::align_val_t a, const std::nothrow_t &) noexcept {
  return ls::test::allocate(bytes, static_cast<std::size_t>(a));
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
