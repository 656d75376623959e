// spare_memory.hpp - blocks that one thread takes and gives back again and again (scans: several
// per statement, of pages each).  To malloc they are large, and it tidies up all it has whenever
// one is asked for.
#pragma once
#include <new>

#include "base/types.hpp"

namespace ls {

class SpareMemory {
 public:
  SpareMemory() = default;
  ~SpareMemory() {
    for (Block &block : kept_) release(block.memory);
  }
  SpareMemory(const SpareMemory &) = delete;
  SpareMemory &operator=(const SpareMemory &) = delete;

  // Aligned to a cache line; null: no memory.
  void *take(size_t bytes) {
    for (Block &block : kept_) {
      if (block.memory && block.bytes == bytes) {
        void *memory = block.memory;
        block.memory = nullptr;
        return memory;
      }
    }
    return ::operator new(bytes, std::align_val_t{kCacheLine}, std::nothrow);
  }
  void give(void *memory, size_t bytes) {
    for (Block &block : kept_) {
      if (!block.memory) {
        block = {memory, bytes};
        return;
      }
    }
    release(memory);
  }

 private:
  static void release(void *memory) { ::operator delete(memory, std::align_val_t{kCacheLine}); }
  struct Block {
    void *memory = nullptr;
    size_t bytes = 0;
  };
  Block kept_[4];
};

}  // namespace ls
