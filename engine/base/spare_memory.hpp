// spare_memory.hpp - blocks that one thread takes and gives back again and again (scans: several per statement, of pages each).
// To malloc they are large, and it tidies up all it has whenever one is asked for.
#pragma once
#include <cstdlib>

#include "base/types.hpp"

namespace ls {

class SpareMemory {
 public:
  SpareMemory() = default;
  ~SpareMemory() {
    for (Block &block : kept_) std::free(block.memory);
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
    return std::aligned_alloc(kCacheLine, (bytes + kCacheLine - 1) / kCacheLine * kCacheLine);
  }
  void give(void *memory, size_t bytes) {
    for (Block &block : kept_) {
      if (!block.memory) {
        block = {memory, bytes};
        return;
      }
    }
    std::free(memory);
  }

 private:
  struct Block {
    void *memory = nullptr;
    size_t bytes = 0;
  };
  Block kept_[4];
};

}  // namespace ls
