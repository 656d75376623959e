// range_memory.hpp - the cells of which everything about range locks is made, and when they may be
// used again.
//
// All cells have one size, so nothing fragments and a cell can be everything in turn: node, tower,
// span, key tail, owner.  Cells that were never used are taken from the front of the arena (memory
// that is not needed stays untouched); free ones lie in a stack.  Each worker slot keeps a few at
// hand, so that locking and unlocking in turn touches nothing that is shared; more come and go in
// batches.  A batch is a chain through the lower halves of the cells' links; the upper half of its
// first one's is the next batch.
//
// Reclamation by epochs.  A worker that reads the list is inside (enter .. leave) and has announced
// the epoch in which it came.  A cell is retired after it can no longer be reached, and noted with
// the epoch of that moment; it is used again two epochs later.
//   EPOCH-1  The epoch advances from e to e + 1 only when every worker inside has announced e.
//   EPOCH-2  So a worker that was inside when a cell was retired in e (and may still look at it)
//            has left before the epoch is e + 2.
//   EPOCH-3  limbo[e % 3] gets batches of epoch e.  The worker that advanced to e + 1 empties
//            limbo[(e - 1) % 3] before it leaves: until then the epoch cannot pass e + 1, and
//            workers inside retire into e or e + 1.
// No worker waits inside, so a cell comes back as soon as those that were inside have been given
// the processor.  What is retired and not free is bounded by what can be retired in that time, and
// reserve() lets others run before it gives up.
//
// P is the supplier of atomics: std::atomic, or that of the model checker
// (test/model/range_list_model_test.cpp), where cells come back at once.
#pragma once
#include <sched.h>

#include <atomic>

#include "base/check.hpp"
#include "base/types.hpp"

namespace ls {

struct HardwareAtomics {
  template <typename T>
  using Atomic = std::atomic<T>;
  static void yield() { sched_yield(); }
  static constexpr u32 kCellBatch = 64;      // cells that go from slot to slot together
  // retired cells after which a slot tries to end the epoch
  static constexpr u32 kAdvanceEvery = 32;
};

inline constexpr u32 kRangeCellBytes = 128;
// Of a slot (range_list.hpp).
inline constexpr u32 kVacantKept = 16;

// What all cells begin with.
//   life  incarnation (32 bits), and kAlive while it is a node that counts; never anything else, so
//         that a reference with an incarnation can be tried at any time
//   link  next cell (and batch) of free or retired ones; an owner's chain
//   next  of a node: the next node; of others anything else, but here, so that a node that has gone
//         may be tried, too (RangeList, LIST-7)
template <typename P>
struct RangeCell {
  typename P::template Atomic<u64> life, link, next;
};

template <typename P>
class RangeMemory {
  template <typename T>
  using Atomic = typename P::template Atomic<T>;

 public:
  using Cell = RangeCell<P>;

  // Cells retired in one epoch by one slot.
  struct Bin {
    u64 epoch = 0;
    u64 first = 0;             // cell number
    u32 count = 0;
  };
  struct alignas(kCacheLine) Slot {
    Atomic<u64> announced{0};  // 0: outside; twice the epoch, and kHolding
    // Private to the slot's worker.
    u64 free = 0;
    u32 free_count = 0;
    // of the list's, as are the next two: where in the ring the oldest is
    u32 next_vacant = 0;
    u64 chance = 0;            // random state
    u64 vacant[kVacantKept]{}; // index nodes that are no ranges any more: cell numbers
    // an epoch, and how many batches of it went to limbo since others were last let run
    u64 pushed_in = 0;
    u32 pushed = 0;
    Bin bins[3];
  };
  struct Shared {
    u8 *cells = nullptr;       // cell number n >= 1 is at cells + n * kRangeCellBytes
    u32 cell_count = 0;
    u32 slot_count = 0;
    Slot *slots = nullptr;
    alignas(kCacheLine) Atomic<u64> epoch{3};   // > 2: epoch - 2 is no negative number
    alignas(kCacheLine) Atomic<u64> fresh{1};   // cells from here on were never used
    Atomic<u64> free{0};                        // batches: number of the first cell, tag above
    Atomic<u64> limbo[3]{};                     // batches
    Atomic<u64> handed_out{0};                  // cells that are neither fresh nor in `free`
  };

  RangeMemory(Shared &shared, u32 slot) : shared_(shared), slot_(shared.slots[slot]) {}
  RangeMemory(const RangeMemory &) = delete;
  RangeMemory &operator=(const RangeMemory &) = delete;

  Cell *cell(u64 number) const {
    return reinterpret_cast<Cell *>(shared_.cells + number * kRangeCellBytes);
  }
  u64 number(const Cell *cell) const {
    return static_cast<u64>(reinterpret_cast<const u8 *>(cell) - shared_.cells) / kRangeCellBytes;
  }
  Slot &slot() { return slot_; }
  u64 slot_number() const { return static_cast<u64>(&slot_ - shared_.slots); }

  // holding: says so to a worker that asks with is_holding (BiasedLatch).
  void enter(bool holding = false) {
    u64 epoch;
    do {
      epoch = shared_.epoch.load();
      slot_.announced.store(epoch << 1 | (holding ? kHolding : 0));
    } while (shared_.epoch.load() != epoch);
  }
  // pairs with advance and is_holding
  void leave() { slot_.announced.store(0, std::memory_order_release); }
  bool is_inside() const { return slot_.announced.load(std::memory_order_relaxed) != 0; }
  bool is_holding(u32 slot) const { return shared_.slots[slot].announced.load() & kHolding; }

  // Have n cells at hand.  Outside; inside it only tells.  False: there are none, even after others
  // were let run.
  bool reserve(u32 n) {
    return slot_.free_count >= n || (!is_inside() && get(n));
  }

  // One of those reserved.
  Cell *take() {
    LS_ASSERT(slot_.free != 0);
    Cell *c = cell(slot_.free);
    slot_.free = next_in_batch(c);
    slot_.free_count--;
    return c;
  }
  // A cell, or null.
  Cell *try_take() { return slot_.free != 0 || take_shared() ? take() : nullptr; }

  // Give back a cell that no other worker has seen.
  void put(Cell *c) {
    c->link.store(slot_.free, std::memory_order_relaxed);
    slot_.free = number(c);
    if (++slot_.free_count > kKeep) give_back();
  }

  // Inside.  No worker that enters from now on can reach the cell.
  void retire(Cell *c) {
    const u64 now = shared_.epoch.load();
    LS_ASSERT(is_inside());
    LS_ASSERT(now - (slot_.announced.load(std::memory_order_relaxed) >> 1) <= 1);  // EPOCH-1
    Bin &bin = slot_.bins[now % 3];
    if (bin.epoch != now) {
      LS_ASSERT(bin.count == 0 || bin.epoch + 3 <= now);  // EPOCH-2
      release(bin);
      bin.epoch = now;
    }
    c->link.store(bin.first, std::memory_order_relaxed);
    bin.first = number(c);
    bin.count++;
    if (bin.count % P::kAdvanceEvery == 0) advance();
    if (bin.count == kBatch) {
      push(shared_.limbo[now % 3], bin.first);   // EPOCH-3
      bin = Bin{now};
      slot_.pushed = slot_.pushed_in == now ? slot_.pushed + 1 : 1;
      slot_.pushed_in = now;
    }
  }

  // Less than an eighth is left.
  bool is_short() const {
    return shared_.handed_out.load(std::memory_order_relaxed) > shared_.cell_count / 8 * 7;
  }

 private:
  static constexpr u64 kHolding = 1;        // in Slot::announced
  static constexpr u32 kBatch = P::kCellBatch;   // a bin has at most as many
  static constexpr u32 kKeep = 2 * kBatch;  // free cells that a slot keeps
  // batches that a slot retires in one epoch before it lets others run
  static constexpr u32 kPatience = 8;
  // epochs to wait for: every worker inside has long had its turn
  static constexpr u32 kReserveTurns = 256;
  static constexpr u64 kNumberMask = 0xffffffff;

  // Slots below slot_count are few hundred words; most are 0.
  [[gnu::noinline]] bool advance() {
    u64 epoch = shared_.epoch.load();
    for (u32 i = 0; i < shared_.slot_count; i++) {
      u64 announced = shared_.slots[i].announced.load();
      if (announced != 0 && announced >> 1 != epoch) return false;
    }
    if (!shared_.epoch.compare_exchange_strong(epoch, epoch + 1)) return true;
    LS_ASSERT(slot_.announced.load(std::memory_order_relaxed) >> 1 == epoch);  // EPOCH-3
    const u64 first = shared_.limbo[(epoch - 1) % 3].exchange(0);
    if (first == 0) return true;
    u64 last = first;
    u32 batches = 1;
    for (u64 next; (next = next_batch(last)) != 0; last = next) batches++;
    push_free(first, last, batches);
    return true;
  }

  [[gnu::noinline]] bool get(u32 n) {
    if (slot_.pushed >= kPatience) {
      // A worker inside is not running, and the longer that takes the more cells are used that are
      // in no processor's cache.
      slot_.pushed = 0;
      if (shared_.epoch.load() == slot_.pushed_in) P::yield();
    }
    for (u32 turn = 0;; turn++) {
      harvest();
      while (slot_.free_count < n && take_shared()) {}
      if (slot_.free_count >= n) return true;
      if (turn == kReserveTurns) return false;
      enter();
      bool advanced = advance();
      leave();
      if (!advanced) P::yield();
    }
  }

  void harvest() {
    const u64 now = shared_.epoch.load();
    for (Bin &bin : slot_.bins)
      if (bin.epoch + 2 <= now) release(bin);
  }

  void release(Bin &bin) {
    while (bin.first) {
      Cell *c = cell(bin.first);
      bin.first = next_in_batch(c);
      put(c);
    }
    bin.count = 0;
  }

  // A batch, or what is left that was never used, from what is shared to what is at hand.
  [[gnu::noinline]] bool take_shared() {
    u64 head = shared_.free.load();
    while (head & kNumberMask) {
      // Another worker may take the batch meanwhile and use its link; then the tag has changed.
      const u64 next = next_batch(head & kNumberMask);
      if (!shared_.free.compare_exchange_strong(head, next | tag_after(head))) continue;
      for (u64 n = head & kNumberMask; n;) {
        const u64 following = next_in_batch(cell(n));
        keep(n);
        n = following;
      }
      shared_.handed_out.fetch_add(kBatch);
      return true;
    }
    if (shared_.fresh.load(std::memory_order_relaxed) > shared_.cell_count) return false;
    const u64 fresh = shared_.fresh.fetch_add(kBatch);
    u32 n = 0;
    while (n < kBatch && fresh + n <= shared_.cell_count) keep(fresh + n++);
    shared_.handed_out.fetch_add(n);
    return n > 0;
  }
  void keep(u64 number) {
    cell(number)->link.store(slot_.free, std::memory_order_relaxed);
    slot_.free = number;
    slot_.free_count++;
  }

  [[gnu::noinline]] void give_back() {
    const u64 first = slot_.free;
    Cell *last = cell(first);
    for (u32 i = 1; i < kBatch; i++) last = cell(next_in_batch(last));
    slot_.free = next_in_batch(last);
    slot_.free_count -= kBatch;
    last->link.store(0, std::memory_order_relaxed);
    push_free(first, first, 1);
  }
  // Batches in a chain, from the one that begins with `first` to that of `last`.
  void push_free(u64 first, u64 last, u32 batches) {
    shared_.handed_out.fetch_sub(u64{batches} * kBatch);
    u64 head = shared_.free.load();
    do set_next_batch(last, head & kNumberMask);
    while (!shared_.free.compare_exchange_strong(head, first | tag_after(head)));
  }
  [[gnu::noinline]] void push(Atomic<u64> &stack, u64 first) {
    u64 head = stack.load();
    do set_next_batch(first, head);
    while (!stack.compare_exchange_strong(head, first));
  }

  u64 next_in_batch(const Cell *c) const {
    return c->link.load(std::memory_order_relaxed) & kNumberMask;
  }
  u64 next_batch(u64 first) const {
    return cell(first)->link.load(std::memory_order_relaxed) >> 32;
  }
  void set_next_batch(u64 first, u64 next) {
    Cell *c = cell(first);
    c->link.store(next << 32 | next_in_batch(c), std::memory_order_relaxed);
  }
  static u64 tag_after(u64 head) { return (head & ~kNumberMask) + (kNumberMask + 1); }

  Shared &shared_;
  Slot &slot_;
};

}  // namespace ls
