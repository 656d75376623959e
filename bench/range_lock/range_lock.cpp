// The range lock beside others, in the two workloads of "Concurrent Range Locking", chapter 5.
// `bench/run range_lock` builds and runs it.  Threads write disjoint kilobytes of one object, each
// range under its lock:
//   W1  lock one range, write, unlock
//   W2  lock 16 ranges, write them, unlock them
// One line per lock, workload and number of threads: the rounds, in millions of ranges per second;
// and into a file of its own the processor time of each range, in nanoseconds, which a busy machine
// changes less.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "baselines.hpp"
#include "os/clock.hpp"
#include "range/range_locks.hpp"

namespace ls::bench {
namespace {

constexpr u32 kRanges = 4096, kRangeBytes = 1024, kMaxThreads = 16, kMaxBatch = 16;

struct Run {
  u32 threads, batch;
  u64 duration_us;
  u8 *object;
  const std::vector<std::vector<u32>> *queues;
};

// Each lock of the comparison: a Session per thread with lock(range) that waits, and unlock_all().
class Ours {
 public:
  static constexpr const char *kName = "leanstore";
  explicit Ours(u32 threads) : bytes_(RangeLocks::arena_bytes(0, threads)) {
    arena_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = RangeLocks::create(arena_, 0, threads);
  }
  ~Ours() { munmap(arena_, bytes_); }
  class Session {
   public:
    Session(Ours &ours, u32 thread) : locks_(*ours.shared_, thread), owner_{thread, 1} {}
    void lock(u32 range) {
      u8 from[8], to[8];
      key(from, u64{range} * kRangeBytes);
      key(to, u64{range + 1} * kRangeBytes);
      RangeRequest r{
          .tree = {1, 1}, .from = from, .to = to, .mode = kRangeExclusive, .owner = owner_};
      RangeOwner holder;
      while (!ok(locks_.lock(r, &holder))) sched_yield();
    }
    void unlock_all() {
      locks_.unlock_all(owner_);
      owner_.number++;
    }

   private:
    static void key(u8 *out, u64 n) {
      n = __builtin_bswap64(n);
      std::memcpy(out, &n, 8);
    }
    RangeLocks locks_;
    RangeOwner owner_;
  };

 private:
  size_t bytes_;
  void *arena_;
  RangeShared *shared_;
};

struct Song {
  static constexpr const char *kName = "skip list, spin lock (Song)";
  explicit Song(u32 threads) : list(threads) {}
  struct Session {
    Session(Song &song, u32 t) : list(song.list), thread(t) {}
    void lock(u32 range) {
      while (!list.try_lock(thread, u64{range} * kRangeBytes, u64{range + 1} * kRangeBytes))
        sched_yield();
      held[count++] = u64{range} * kRangeBytes;
    }
    void unlock_all() {
      while (count) list.unlock(thread, held[--count]);
    }
    SpinSkipLock &list;
    u32 thread, count = 0;
    u64 held[kMaxBatch];
  };
  SpinSkipLock list;
};

struct Kogan {
  static constexpr const char *kName = "lock-free list (Kogan)";
  explicit Kogan(u32 threads) : list(threads) {}
  struct Session {
    Session(Kogan &kogan, u32 t) : list(kogan.list), thread(t) {}
    void lock(u32 range) {
      SortedList::Node *n;
      while (!(n = list.try_lock(thread, u64{range} * kRangeBytes, u64{range + 1} * kRangeBytes)))
        sched_yield();
      held[count++] = n;
    }
    void unlock_all() {
      while (count) list.unlock(held[--count]);
    }
    SortedList &list;
    u32 thread, count = 0;
    SortedList::Node *held[kMaxBatch];
  };
  SortedList list;
};

struct Map {
  static constexpr const char *kName = "std::map, mutex";
  explicit Map(u32) {}
  struct Session {
    Session(Map &map, u32) : list(map.list) {}
    void lock(u32 range) {
      while (!list.try_lock(u64{range} * kRangeBytes, u64{range + 1} * kRangeBytes)) sched_yield();
      held[count++] = u64{range} * kRangeBytes;
    }
    void unlock_all() {
      while (count) list.unlock(held[--count]);
    }
    MapLock &list;
    u32 count = 0;
    u64 held[kMaxBatch];
  };
  MapLock list;
};

struct Result {
  double millions_per_second, cpu_ns;   // of ranges; for each
};

double process_cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

template <typename Lock>
Result measure(const Run &run) {
  Lock lock(run.threads);
  std::atomic<u32> ready{0};
  std::atomic<bool> go{false}, stop{false};
  std::atomic<u64> done{0};
  std::vector<std::thread> threads;
  for (u32 t = 0; t < run.threads; t++)
    threads.emplace_back([&, t] {
      typename Lock::Session session(lock, t);
      const std::vector<u32> &queue = (*run.queues)[t];
      size_t at = 0;
      u64 mine = 0;
      ready++;
      while (!go.load()) sched_yield();
      while (!stop.load(std::memory_order_relaxed)) {
        u32 batch[kMaxBatch];
        for (u32 i = 0; i < run.batch; i++) {
          batch[i] = queue[at++ % queue.size()];
          session.lock(batch[i]);
        }
        for (u32 i = 0; i < run.batch; i++)
          std::memset(run.object + u64{batch[i]} * kRangeBytes, static_cast<int>(mine),
                      kRangeBytes);
        session.unlock_all();
        mine += run.batch;
      }
      done += mine;
    });
  while (ready.load() < run.threads) sched_yield();
  const double cpu_before = process_cpu_ns();
  const u64 begin = now_us();
  go = true;
  std::this_thread::sleep_for(std::chrono::microseconds(run.duration_us));
  stop = true;
  const u64 end = now_us();
  for (auto &t : threads) t.join();
  const double ranges = static_cast<double>(done.load());
  return {ranges / static_cast<double>(end - begin), (process_cpu_ns() - cpu_before) / ranges};
}

struct Line {
  const char *name;
  Result (*measure)(const Run &);
  std::vector<Result> results;
};

void print(std::FILE *out, const char *workload, u32 threads, const Line &line,
           double Result::*what) {
  std::fprintf(out, "%s\t%u\t%s", workload, threads, line.name);
  for (const Result &result : line.results) std::fprintf(out, "\t%.3f", result.*what);
  std::fprintf(out, "\n");
  std::fflush(out);
}

void workload(const char *name, u32 batch, u32 rounds, u64 duration_us, u8 *object,
              std::FILE *cpu) {
  for (u32 threads = 1; threads <= kMaxThreads; threads *= 2) {
    // Ranges dealt out by chance: neighbours belong to different threads, and no two threads want
    // the same.
    std::vector<u32> all(kRanges);
    for (u32 i = 0; i < kRanges; i++) all[i] = i;
    std::shuffle(all.begin(), all.end(), std::mt19937(threads));
    std::vector<std::vector<u32>> queues(threads);
    for (u32 i = 0; i < kRanges; i++) queues[i % threads].push_back(all[i]);
    Run run{threads, batch, duration_us, object, &queues};
    Line lines[] = {{Ours::kName, measure<Ours>, {}},
                    {Kogan::kName, measure<Kogan>, {}},
                    {Song::kName, measure<Song>, {}},
                    {Map::kName, measure<Map>, {}}};
    for (u32 round = 0; round < rounds; round++)   // taking turns
      for (u32 i = 0; i < 4; i++) {
        Line &line = lines[(i + round) % 4];
        line.results.push_back(line.measure(run));
      }
    for (const Line &line : lines) {
      print(stdout, name, threads, line, &Result::millions_per_second);
      if (cpu) print(cpu, name, threads, line, &Result::cpu_ns);
    }
  }
}

}  // namespace
}  // namespace ls::bench

int main(int argc, char **argv) {
  const ls::u32 rounds = argc > 1 ? static_cast<ls::u32>(std::atoi(argv[1])) : 5;
  const ls::u64 duration_us = (argc > 2 ? static_cast<ls::u64>(std::atoi(argv[2])) : 200) * 1000;
  std::vector<ls::u8> object(size_t{ls::bench::kRanges} * ls::bench::kRangeBytes);
  std::FILE *cpu = argc > 3 ? std::fopen(argv[3], "w") : nullptr;
  ls::bench::workload("W1", 1, rounds, duration_us, object.data(), cpu);
  ls::bench::workload("W2", ls::bench::kMaxBatch, rounds, duration_us, object.data(), cpu);
}
