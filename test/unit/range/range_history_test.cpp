// Many threads; every call is noted with the times of its beginning and end on one clock, and the
// history is checked afterwards:
//   - no two conflicting ranges were held at the same time
//   - first come, first served: of two conflicting requests where the first had been told to wait
//     before the second was made, the second was not granted as long as the first was neither
//     granted nor given up (but for an owner that holds what the first waits for)
//   - everything is released: the list is empty at the end, and all cells can be had again
#include <atomic>
#include <random>
#include <thread>

#include "os/futex.hpp"
#include "unit/range/range_fixture.hpp"

namespace ls::test {
namespace {

constexpr u64 kNever = ~u64{0};
// how long a turn waits for the holder's end: there are deadlocks
constexpr i64 kPatienceUs = 2000;

struct Entry {
  u32 thread = 0, transaction = 0;
  u32 from = 0, to = 0;      // keys are numbers; to: exclusive
  RangeMode mode = kRangeShared;
  u64 asked = 0;             // before the first call
  u64 queued = kNever;       // after the first call, if it was told to wait
  u64 granting = kNever;     // before the call that granted it
  u64 granted = kNever;      // after it
  u64 ending = kNever;       // before release or withdrawal
};

bool conflict(const Entry &a, const Entry &b) {
  return a.thread != b.thread && (a.mode == kRangeExclusive || b.mode == kRangeExclusive) &&
         a.from < b.to && b.from < a.to;
}

std::string key_of(u32 n, u32 pad) {
  char text[16];
  std::snprintf(text, sizeof text, "%06u", n);
  return std::string(text) + std::string(pad, 'p');
}

struct Plan {
  u32 threads = 8;
  u32 transactions = 500;    // each thread
  u32 keys = 60;
  u32 widest = 12;
  u32 ranges = 4;            // of a transaction, at most
  u32 pad = 0;               // behind the digits of a key
  u64 bytes = u64{4} << 20;
};

class History {
 public:
  explicit History(const Plan &plan)
      : plan_(plan), arena_(plan.threads, plan.bytes), seed_(std::random_device{}()) {
    std::printf("seed %u\n", seed_);
  }

  void run() {
    std::vector<std::thread> threads;
    histories_.resize(plan_.threads);
    for (auto &transaction : transaction_) transaction.store(1);
    for (u32 t = 0; t < plan_.threads; t++) threads.emplace_back([this, t] { work(t); });
    for (auto &t : threads) t.join();
    check();
  }

 private:
  u64 now() { return clock_.fetch_add(1); }

  void work(u32 t) {
    std::mt19937 random(seed_ + t);
    RangeWorker worker(arena_, t);
    std::vector<Entry> &history = histories_[t];
    for (u32 i = 0; i < plan_.transactions; i++) {
      const size_t first = history.size();
      for (u32 n = 1 + random() % plan_.ranges; n > 0; n--) {
        Entry e;
        e.thread = t;
        e.transaction = i;
        e.from = random() % plan_.keys;
        e.to = e.from + 1 + (random() % 2 ? 0 : random() % plan_.widest);
        e.mode = random() % 2 ? kRangeShared : kRangeExclusive;
        if (history.size() > first && random() % 4 == 0) {   // an upgrade, or again
          e.from = history.back().from;
          e.to = history.back().to;
        }
        const bool granted = ask(worker, e, random() % 6);
        history.push_back(e);
        if (!granted) break;
        if (random() % 8 == 0) std::this_thread::yield();
      }
      u64 end = now();
      for (size_t e = first; e < history.size(); e++)
        history[e].ending = std::min(history[e].ending, end);
      worker.end();
      transaction_[t].store(worker.owner().number);
      futex_wake_all(&transaction_[t]);
    }
  }

  // Ask until granted, or a while in vain: workers that wait for each other give up.
  bool ask(RangeWorker &worker, Entry &e, u32 patience) {
    const std::string from = key_of(e.from, plan_.pad), to = key_of(e.to, plan_.pad);
    e.asked = now();
    for (u32 turn = 0;; turn++) {
      e.granting = now();
      ls_status status = worker.lock(from, to, e.mode);
      u64 answered = now();
      if (status == LS_OK) {
        e.granted = answered;
        return true;
      }
      EXPECT_EQ(status, LS_LOCKED);
      e.granting = kNever;
      if (turn == 0) e.queued = answered;
      if (turn == patience) {
        e.ending = now();
        worker.withdraw();
        return false;
      }
      futex_wait(&transaction_[worker.holder.slot], worker.holder.number, kPatienceUs);
    }
  }

  void check() {
    std::vector<Entry> all;
    for (auto &h : histories_) all.insert(all.end(), h.begin(), h.end());
    std::sort(all.begin(), all.end(),
              [](const Entry &a, const Entry &b) { return a.asked < b.asked; });
    u64 granted = 0, waited = 0, passed = 0;
    for (size_t i = 0; i < all.size(); i++) {
      const Entry &a = all[i];
      granted += a.granted != kNever;
      waited += a.queued != kNever;
      for (size_t j = i + 1; j < all.size() && all[j].asked < a.ending; j++) {
        const Entry &b = all[j];
        if (!conflict(a, b)) continue;
        // Held for sure from `granted` to `ending`.
        ASSERT_FALSE(a.granted != kNever && b.granted != kNever && a.granted < b.ending &&
                     b.granted < a.ending)
            << "both held: " << text(a) << " and " << text(b);
        // a was in the queue before b was made, and b was granted for sure before a was.
        if (a.queued < b.asked && b.granted < std::min(a.granting, a.ending)) {
          ASSERT_TRUE(holds_against(b, a)) << "passed: " << text(a) << " by " << text(b);
          passed++;
        }
      }
    }
    std::printf("%zu requests, %llu granted, %llu waited, %llu passed who waited for them\n",
                all.size(), (unsigned long long)granted, (unsigned long long)waited,
                (unsigned long long)passed);
    EXPECT_GT(granted, plan_.transactions);
    EXPECT_EQ(arena_.list().size(), 0u);
    EXPECT_EQ(arena_.cells_in_use(), 0u) << "lost cells";
  }

  // b's owner held something that a conflicts with when b was granted.
  bool holds_against(const Entry &b, const Entry &a) {
    const std::vector<Entry> &own = histories_[b.thread];
    auto at = std::lower_bound(own.begin(), own.end(), b.asked,
                               [](const Entry &e, u64 asked) { return e.asked < asked; });
    while (at != own.begin() && (--at)->transaction == b.transaction)
      if (at->granted != kNever && conflict(*at, a)) return true;
    return false;
  }

  static std::string text(const Entry &e) {
    char out[200];
    auto at = [](u64 t) { return t == kNever ? -1 : static_cast<long long>(t); };
    std::snprintf(out, sizeof out,
                  "thread %u %s [%u, %u) asked %lld queued %lld granted %lld..%lld ending %lld",
                  e.thread, e.mode == kRangeShared ? "shared" : "exclusive", e.from, e.to,
                  at(e.asked), at(e.queued), at(e.granting), at(e.granted), at(e.ending));
    return out;
  }

  Plan plan_;
  RangeArena arena_;
  u32 seed_;
  std::atomic<u64> clock_{1};
  std::atomic<u32> transaction_[64];   // number of each thread's current one; futex
  std::vector<std::vector<Entry>> histories_;
};

TEST(RangeHistory, few_keys) { History({.keys = 12, .widest = 4}).run(); }
TEST(RangeHistory, many_keys_and_wide_ranges) {
  History({.transactions = 300, .keys = 400, .widest = 200, .ranges = 12}).run();
}
TEST(RangeHistory, points) {
  History({.transactions = 1000, .keys = 200, .widest = 1, .ranges = 8}).run();
}
TEST(RangeHistory, long_keys) {
  History({.transactions = 300, .keys = 60, .widest = 20, .ranges = 6, .pad = 200}).run();
}

}  // namespace
}  // namespace ls::test
