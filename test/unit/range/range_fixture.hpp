// range_fixture.hpp - range locks in an arena of the test's own.
#pragma once
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "range/range_locks.hpp"

namespace ls::test {

inline std::span<const u8> bytes_of_text(std::string_view s) {
  return {reinterpret_cast<const u8 *>(s.data()), s.size()};
}

class RangeArena {
 public:
  explicit RangeArena(u32 slots = 16, u64 bytes = u64{4} << 20)
      : slots_(slots), bytes_(RangeLocks::arena_bytes(bytes, slots)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    shared_ = RangeLocks::create(memory_, bytes, slots);
  }
  ~RangeArena() { munmap(memory_, bytes_); }
  RangeArena(const RangeArena &) = delete;
  RangeArena &operator=(const RangeArena &) = delete;

  RangeShared &shared() { return *shared_; }
  u32 slots() const { return slots_; }
  std::vector<ls_range_info> list() {
    std::vector<ls_range_info> all(RangeLocks::list(*shared_, nullptr, 0));
    all.resize(RangeLocks::list(*shared_, all.data(), all.size()));
    return all;
  }
  size_t held() {
    size_t n = 0;
    for (const ls_range_info &info : list()) n += info.granted;
    return n;
  }
  // Cells in use, after all workers have left, but for index nodes that slots have kept: everything
  // that was retired can be had again.
  u64 cells_in_use() {
    u64 live = shared_->memory.handed_out.load();
    auto *cells = shared_->memory.cells;
    auto link = [&](u64 n) {
      return reinterpret_cast<RangeCell<HardwareAtomics> *>(cells + n * kRangeCellBytes)
          ->link.load();
    };
    for (u32 i = 0; i <= slots_; i++) {
      live -= shared_->memory.slots[i].free_count;
      for (const auto &bin : shared_->memory.slots[i].bins) live -= bin.count;
      for (u64 vacant : shared_->memory.slots[i].vacant)
        if (vacant) live -= 1 + cells_of_tower(vacant);
    }
    for (auto &limbo : shared_->memory.limbo)
      for (u64 batch = limbo.load(); batch; batch = link(batch) >> 32)
        for (u64 n = batch; n; n = link(n) & 0xffffffff) live--;
    return live;
  }

 private:
  u64 cells_of_tower(u64 number) {
    auto *node = reinterpret_cast<RangeNode<HardwareAtomics> *>(shared_->memory.cells +
                                                                number * kRangeCellBytes);
    u64 cells = 1;
    for (u64 more = node->tower->next.load(); more;
         more = reinterpret_cast<RangeSpan<HardwareAtomics> *>(more)->next.load())
      cells++;
    return cells;
  }

  u32 slots_;
  size_t bytes_;
  void *memory_;
  RangeShared *shared_;
};

// A worker that locks for transactions of its own, or for another's.
class RangeWorker {
 public:
  RangeWorker(RangeArena &arena, u32 slot)
      : slot_(slot), locks_(arena.shared(), slot), owner_{slot, 1} {}

  // to "$": no upper bound.
  ls_status lock(std::string_view from, std::string_view to, RangeMode mode, u32 tree = 1) {
    return lock_for(owner_, from, to, mode, tree);
  }
  ls_status lock_for(RangeOwner owner, std::string_view from, std::string_view to, RangeMode mode,
                     u32 tree = 1) {
    RangeRequest r{.tree = {1, tree},
                   .from = bytes_of_text(from),
                   .to = bytes_of_text(to),
                   .to_end = to == "$",
                   .mode = mode,
                   .owner = owner};
    return code(locks_.lock(r, &holder));
  }
  ls_status shared(std::string_view from, std::string_view to) {
    return lock(from, to, kRangeShared);
  }
  ls_status exclusive(std::string_view from, std::string_view to) {
    return lock(from, to, kRangeExclusive);
  }
  void withdraw() { locks_.withdraw(); }
  // The next transaction is another owner.
  void end() {
    locks_.unlock_all(owner_);
    owner_.number++;
  }
  RangeOwner owner() const { return owner_; }
  RangeLocks &locks() { return locks_; }

  RangeOwner holder;   // after LS_LOCKED

 private:
  u32 slot_;
  RangeLocks locks_;
  RangeOwner owner_;
};

}  // namespace ls::test
