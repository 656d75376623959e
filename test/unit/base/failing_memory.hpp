// failing_memory.hpp - memory that cannot be had: the n-th allocation of a thread fails, once.
//
// Allocations are those of operator new (failing_memory_test.cpp replaces it for the whole test
// program).  Only those within a
// Counted of the calling thread, or those of engine threads of a given name, are counted.
#pragma once
#include "base/types.hpp"

namespace ls::test {

class FailingMemory {
 public:
  // This thread's n-th counted allocation from now on fails.
  static void arm(u64 nth);
  // The n-th of threads of that name, which is a literal.
  static void arm_threads(const char *name, u64 nth);
  // Whether it has failed.
  static bool fired();
  // No more of that; whether it has failed.
  static bool disarm();

  // As long as it lives the thread's allocations count.
  struct Counted {
    Counted();
    ~Counted();
    Counted(const Counted &) = delete;
    Counted &operator=(const Counted &) = delete;
  };
};

}  // namespace ls::test
