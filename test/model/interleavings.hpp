// interleavings.hpp - runs a few threads in every order there is, one step of an atomic variable at
// a time.
//
// The threads are fibers of one real thread; they change only where one of them uses a ModelAtomic
// with an order other than relaxed (relaxed ones are private, or may see anything anyway).  All
// orders are tried, depth first, in which no thread is interrupted more often than the bound says:
// a thread that ends, or yields, is no interruption.  Each run begins anew, with the state that the
// caller sets up.
//
// What it does not see: reorderings weaker than sequential consistency.  Code checked by it uses
// that order (or the thread sanitizer sees the rest).
#pragma once
#include <ucontext.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/types.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace ls::test {

class Interleavings {
 public:
  using Body = std::function<void()>;
  struct Result {
    u64 runs = 0, steps = 0;
    std::string failure;         // of the first run that failed, with its schedule
    bool complete = false;       // all orders within the bound were tried
  };

  Interleavings(u32 interruptions, u64 max_runs) : bound_(interruptions), max_runs_(max_runs) {}

  // make: set up anew, returns the threads; finish: after they have ended.
  Result explore(const std::function<std::vector<Body>()> &make, const Body &finish) {
    Result result;
    active_ = this;
    do {
      failure_.clear();
      run(make());
      if (failure_.empty()) finish();
      result.runs++;
      result.steps += steps_;
      if (!failure_.empty()) {
        result.failure = failure_ + " (schedule:";
        for (const Choice &c : choices_)
          if (c.taken)
            result.failure += " " + std::to_string(c.step) + ">" + std::to_string(c.taken);
        result.failure += ")";
        break;
      }
    } while (next_schedule() && result.runs < max_runs_);
    result.complete = choices_.empty();
    active_ = nullptr;
    return result;
  }

  // From within a thread or `finish`.
  static void fail(const std::string &why) {
    if (active_->failure_.empty()) active_->failure_ = why;
  }
  // Before a step that others may see.
  static void point() {
    if (active_ && active_->current_ != kNobody) active_->maybe_interrupt();
  }
  // The thread cannot go on by itself.
  static void give_way() {
    if (active_ && active_->current_ != kNobody) active_->switch_to(active_->choose_other());
  }

 private:
  static constexpr u32 kNobody = ~0u;
  static constexpr size_t kStackBytes = 256 * 1024;
  static constexpr u32 kMaxSteps = 100'000;

  struct Choice {
    u32 taken, count, step;
  };
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<u8[]> stack = std::make_unique<u8[]>(kStackBytes);
    Body body;
    bool ended = true;
    void *fake_stack = nullptr;
  };

  void run(std::vector<Body> bodies) {
    while (fibers_.size() < bodies.size()) fibers_.push_back(std::make_unique<Fiber>());
    alive_ = static_cast<u32>(bodies.size());
    position_ = steps_ = interruptions_ = 0;
    for (u32 i = 0; i < bodies.size(); i++) {
      Fiber &f = *fibers_[i];
      f.body = std::move(bodies[i]);
      f.ended = false;
      f.fake_stack = nullptr;
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack.get();
      f.context.uc_stack.ss_size = kStackBytes;
      f.context.uc_link = nullptr;
      makecontext(&f.context, &Interleavings::enter, 0);
    }
    switch_to(choose_other());
    current_ = kNobody;
  }

  static void enter() {
    Interleavings &self = *active_;
    self.arrived(nullptr);
    Fiber &f = *self.fibers_[self.current_];
    f.body();
    f.ended = true;
    self.alive_--;
    self.leave(f, self.alive_ ? self.choose_other() : kNobody, true);
  }

  void maybe_interrupt() {
    if (++steps_ > kMaxSteps) {
      fail("no end");
      return;   // without interruptions it ends, or the test's time limit ends it
    }
    if (interruptions_ == bound_ || alive_ == 1) return;
    u32 choice = choose(alive_);   // 0: go on
    if (choice == 0) return;
    interruptions_++;
    switch_to(nth_other(choice - 1));
  }

  u32 choose_other() {
    u32 others = 0;
    for (u32 i = 0; i < fibers_.size(); i++) others += !fibers_[i]->ended && i != current_;
    return others ? nth_other(choose(others)) : current_;
  }
  u32 nth_other(u32 n) const {
    for (u32 i = 0; i < fibers_.size(); i++)
      if (!fibers_[i]->ended && i != current_ && n-- == 0) return i;
    return kNobody;
  }

  // One of `count` ways: as in the schedule, and the first where that ends.
  u32 choose(u32 count) {
    if (count == 1) return 0;
    if (position_ == choices_.size()) choices_.push_back({0, count, steps_});
    return choices_[position_++].taken;
  }
  bool next_schedule() {
    while (!choices_.empty() && choices_.back().taken + 1 == choices_.back().count)
      choices_.pop_back();
    if (choices_.empty()) return false;
    choices_.back().taken++;
    return true;
  }

  void switch_to(u32 other) {
    if (other == current_) return;
    if (current_ == kNobody) {
      leave_main(other);
    } else {
      leave(*fibers_[current_], other, false);
    }
  }

  // Change the stack.  `ended`: no fiber comes back to this one.
#if defined(__SANITIZE_ADDRESS__)
  void starting(void **save, u32 to) {
    if (to == kNobody)
      __sanitizer_start_switch_fiber(save, main_bottom_, main_size_);
    else
      __sanitizer_start_switch_fiber(save, fibers_[to]->stack.get(), kStackBytes);
  }
  void arrived(void *saved) {
    const void *bottom = nullptr;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(saved, &bottom, &size);
    if (from_main_) main_bottom_ = bottom, main_size_ = size;
    from_main_ = false;
  }
#else
  void starting(void **, u32) {}
  void arrived(void *) {}
#endif
  void leave(Fiber &f, u32 other, bool ended) {
    current_ = other;
    starting(ended ? nullptr : &f.fake_stack, other);
    swapcontext(&f.context, other == kNobody ? &main_ : &fibers_[other]->context);
    arrived(f.fake_stack);
  }
  void leave_main(u32 other) {
    current_ = other;
    from_main_ = true;
    void *save = nullptr;
    starting(&save, other);
    swapcontext(&main_, &fibers_[other]->context);
    arrived(save);
  }

  static inline Interleavings *active_ = nullptr;

  const u32 bound_;
  const u64 max_runs_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  ucontext_t main_;
  const void *main_bottom_ = nullptr;
  size_t main_size_ = 0;
  bool from_main_ = false;
  u32 current_ = kNobody, alive_ = 0, interruptions_ = 0, steps_ = 0;
  size_t position_ = 0;
  std::vector<Choice> choices_;
  std::string failure_;
};

// What the checked code uses in place of std::atomic.
struct ModelAtomics {
  template <typename T>
  class Atomic {
   public:
    constexpr Atomic(T value = {}) : value_(value) {}
    Atomic(const Atomic &) = delete;
    Atomic &operator=(const Atomic &) = delete;
    T load(std::memory_order order = std::memory_order_seq_cst) const {
      return step(order), value_;
    }
    void store(T value, std::memory_order order = std::memory_order_seq_cst) {
      step(order), value_ = value;
    }
    T exchange(T value, std::memory_order order = std::memory_order_seq_cst) {
      return step(order), std::exchange(value_, value);
    }
    T fetch_add(T n, std::memory_order order = std::memory_order_seq_cst) {
      return step(order), std::exchange(value_, value_ + n);
    }
    T fetch_sub(T n, std::memory_order order = std::memory_order_seq_cst) {
      return step(order), std::exchange(value_, value_ - n);
    }
    T fetch_or(T n, std::memory_order order = std::memory_order_seq_cst) {
      return step(order), std::exchange(value_, value_ | n);
    }
    bool compare_exchange_strong(T &expected, T desired,
                                 std::memory_order order = std::memory_order_seq_cst) {
      step(order);
      if (value_ != expected) {
        expected = value_;
        return false;
      }
      value_ = desired;
      return true;
    }

   private:
    static void step(std::memory_order order) {
      if (order != std::memory_order_relaxed) Interleavings::point();
    }
    T value_;
  };
  static void yield() { Interleavings::give_way(); }
};

}  // namespace ls::test
