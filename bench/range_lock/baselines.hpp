// baselines.hpp - the other range locks of the comparison, exclusive, on ranges of numbers:
//   MapLock       a std::map under a std::mutex
//   SpinSkipLock  a skip list under one spin lock (Song et al., VEE 2013)
//   SortedList    a lock-free sorted list (Kogan, Dice, Issa, EuroSys 2020: list-based, exclusive)
// try_lock does not wait.  The list gets the memory management of ours; the paper's does the same
// in other words.
#pragma once
#include <sched.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/random.hpp"
#include "base/spin.hpp"
#include "range/range_memory.hpp"

namespace ls::bench {

class MapLock {
 public:
  bool try_lock(u64 from, u64 to) {
    std::lock_guard guard(mutex_);
    auto after = held_.lower_bound(from);
    if (after != held_.end() && after->first < to) return false;
    if (after != held_.begin() && std::prev(after)->second > from) return false;
    held_.emplace_hint(after, from, to);
    return true;
  }
  void unlock(u64 from) {
    std::lock_guard guard(mutex_);
    held_.erase(from);
  }

 private:
  std::mutex mutex_;
  std::map<u64, u64> held_;
};

class SpinSkipLock {
 public:
  explicit SpinSkipLock(u32 threads) : pools_(threads) {}

  bool try_lock(u32 thread, u64 from, u64 to) {
    Pool &pool = pools_[thread];
    Node *n = pool.free.empty() ? new_node() : pool.free.back();
    if (!pool.free.empty()) pool.free.pop_back();
    n->from = from;
    n->to = to;
    u32 chance = next_random(pool.chance);
    for (n->height = 1; n->height < kLevels && chance % 4 == 0; chance /= 4) n->height++;
    lock();
    Node *before[kLevels];
    Node *p = find(from, before);
    bool free = (p == &head_ || p->to <= from) && (!p->next[0] || p->next[0]->from >= to);
    for (u32 level = 0; free && level < n->height; level++) {
      n->next[level] = before[level]->next[level];
      before[level]->next[level] = n;
    }
    unlock();
    if (!free) pool.free.push_back(n);
    return free;
  }
  void unlock(u32 thread, u64 from) {
    lock();
    Node *before[kLevels];
    Node *n = find(from, before)->next[0];
    for (u32 level = 0; level < n->height; level++) before[level]->next[level] = n->next[level];
    unlock();
    pools_[thread].free.push_back(n);
  }

 private:
  static constexpr u32 kLevels = 10;   // the thesis' best
  static constexpr u32 kSpins = 200;   // then the holder may need the processor
  struct Node {
    u64 from = 0, to = 0;
    u32 height = kLevels;
    Node *next[kLevels]{};
  };
  struct alignas(kCacheLine) Pool {
    std::vector<Node *> free;
    u64 chance = reinterpret_cast<u64>(this) | 1;
  };
  // The last node that begins before `from`.
  Node *find(u64 from, Node **before) {
    Node *p = &head_;
    for (u32 level = kLevels; level-- > 0;) {
      while (p->next[level] && p->next[level]->from < from) p = p->next[level];
      before[level] = p;
    }
    return p;
  }
  void lock() {
    for (u32 spins = 0; spin_.exchange(1, std::memory_order_acquire);)
      while (spin_.load(std::memory_order_relaxed)) {
        cpu_relax();
        if (++spins % kSpins == 0) sched_yield();
      }
  }
  void unlock() { spin_.store(0, std::memory_order_release); }
  Node *new_node() {
    std::lock_guard guard(all_mutex_);
    all_.push_back(std::make_unique<Node>());
    return all_.back().get();
  }

  alignas(kCacheLine) std::atomic<u32> spin_{0};
  alignas(kCacheLine) Node head_;
  std::vector<Pool> pools_;
  std::mutex all_mutex_;
  std::vector<std::unique_ptr<Node>> all_;
};

class SortedList {
 public:
  using Memory = RangeMemory<HardwareAtomics>;
  struct Node : RangeCell<HardwareAtomics> {   // next: Node* | 1: given back
    u64 from, to;
  };

  explicit SortedList(u32 threads)
      : cells_(new u8[(kCells + 2) * kRangeCellBytes]()), slots_(threads) {
    shared_.cells =
        reinterpret_cast<u8 *>((reinterpret_cast<uintptr_t>(cells_.get()) + 127) / 128 * 128);
    shared_.cell_count = kCells;
    shared_.slot_count = threads;
    shared_.slots = slots_.data();
  }

  // The node, or null.
  Node *try_lock(u32 thread, u64 from, u64 to) {
    Memory memory(shared_, thread);
    if (!memory.reserve(1)) return nullptr;
    auto *n = static_cast<Node *>(memory.take());
    n->from = from;
    n->to = to;
    memory.enter();
    while (true) {
      std::atomic<u64> *link = &head_;
      u64 there = link->load();
      bool again = false, taken = false;
      while (Node *at = node(there)) {
        u64 behind = at->next.load();
        if (behind & 1) {
          if (!link->compare_exchange_strong(there, behind & ~u64{1})) {
            again = true;
            break;
          }
          memory.retire(at);
          there = behind & ~u64{1};
          continue;
        }
        if (at->from >= to) break;
        if (at->to > from) {
          taken = true;
          break;
        }
        link = &at->next;
        there = behind;
      }
      if (taken) {
        memory.leave();
        memory.put(n);
        return nullptr;
      }
      n->next.store(there, std::memory_order_relaxed);
      if (!again && !(there & 1) && link->compare_exchange_strong(there, reinterpret_cast<u64>(n)))
        break;
    }
    memory.leave();
    return n;
  }
  void unlock(Node *n) { n->next.fetch_or(1); }

 private:
  static constexpr u32 kCells = 1 << 16;
  static Node *node(u64 link) { return reinterpret_cast<Node *>(link & ~u64{1}); }

  std::unique_ptr<u8[]> cells_;
  std::vector<Memory::Slot> slots_;
  Memory::Shared shared_;
  alignas(kCacheLine) std::atomic<u64> head_{0};
};

}  // namespace ls::bench
