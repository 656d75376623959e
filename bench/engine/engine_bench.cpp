// engine_bench.cpp - which store is measured with what, when: peers take turns, and another one
// begins each round.
//
//   engine_bench DIRECTORY OUT.tsv      settings are environment variables
// (bench/workloads/engine.toml).
//
// A line of the output: workload, threads, store, then the rounds in millions of operations per
// second; TPC-C: in thousands of transactions.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>

#include "workload.hpp"

namespace ls::bench {

namespace {

const Peer *const kPeers[] = {
    &kTree,     &kRows,
#ifdef WITH_ROCKSDB
    &kRocksDb,
#endif
#ifdef WITH_WIREDTIGER
    &kWiredTiger,
#endif
#ifdef WITH_LMDB
    &kLmdb,
#endif
#ifdef WITH_ORIGINAL
    &kOriginal,
#endif
};

constexpr u64 kWarehouseBytes = 100'000'000;   // TPC-C's rows and their keys, about
constexpr u32 kMaxWarehouses = 10'000;
constexpr u64 kMostRows = 100'000'000;         // of TPC-C

std::string setting(const char *name, const std::string &otherwise) {
  const char *value = std::getenv(name);
  return value && *value ? value : otherwise;
}
u64 number(const char *name, u64 otherwise) {
  return std::stoull(setting(name, std::to_string(otherwise)));
}

std::vector<std::string> list(const char *name, const std::string &otherwise) {
  std::vector<std::string> items;
  std::istringstream in(setting(name, otherwise));
  for (std::string item; std::getline(in, item, ',');) items.push_back(item);
  return items;
}

struct Settings {
  u64 keys = number("KEYS", 10'000'000), urls = number("URLS", 6'000'000);
  u64 duration_us = number("SECONDS_EACH", 5) * 1'000'000;
  u32 rounds = static_cast<u32>(number("ROUNDS", 3));
  u64 growth = number("GROWTH", std::max<u64>(keys, 2'000'000));   // keys that YCSB may insert
  Tpcc tpcc{static_cast<u32>(number("WAREHOUSES", 20)), number("AFFINITY", 0) != 0};
  std::vector<std::string> work = list("WORK", "inserts,points,scans,ycsb,out,space,tpcc,tpcc_out");
  std::vector<std::string> stores = list("STORES", "");
  std::string label = setting("LABEL", "");
  std::vector<u32> threads;
  Settings() {
    for (const std::string &text : list("THREADS", "1,2,4,8"))
      threads.push_back(static_cast<u32>(std::stoul(text)));
    for (const u32 n : threads)
      if (n == 0 || n > kMaxThreads) give_up("THREADS", "1 to " + std::to_string(kMaxThreads));
    if (tpcc.warehouses == 0 || tpcc.warehouses > kMaxWarehouses)
      give_up("WAREHOUSES", "1 to " + std::to_string(kMaxWarehouses));
  }
  bool wants(const char *family) const {
    return std::find(work.begin(), work.end(), family) != work.end();
  }
  bool takes_part(const Peer &peer) const {
    if (stores.empty()) return true;
    return std::any_of(stores.begin(), stores.end(),
                       [&](const std::string &s) { return std::strstr(peer.name, s.c_str()); });
  }
};

// A store in a process of its own, forked from this one, and a directory that goes with it.  What
// it is asked to do is described by pointers to what was there before the fork.  Meanwhile the
// others are stopped: some have threads that look for work all the time.
class Stall {
 public:
  struct Task {
    enum Kind : u32 {
      kFill,
      kWarm,
      kSettle,
      kPlay,
      kFillTpcc,
      kWarmTpcc,
      kPlayTpcc,
      kCheckTpcc,
      kSize
    } kind;
    u32 threads = 2;
    const std::vector<u32> *order = nullptr;   // kFill
    const Mix *mix = nullptr;                  // kPlay
    const Zipf *zipf = nullptr;
    const Tpcc *tpcc = nullptr;
    u64 duration_us = 0;
  };
  struct Answer {
    double rate = 0, retries = 0;
    u64 bytes = 0;   // kSize
  };

  Stall(const Peer &peer, const std::string &directory, const KeySet &keys, u64 memory,
        bool direct_io)
      : Stall(peer, {directory, memory, keys.most(), keys.is_integers(), direct_io, false}, &keys) {
  }
  // The store's directory is made in the one of the options.
  Stall(const Peer &peer, StoreOptions options, const KeySet *keys)
      : peer_(peer), path_(options.directory + "/" + std::to_string(next_++)) {
    options.directory = path_;
    std::filesystem::create_directories(path_);
    int down[2], up[2];
    if (pipe(down) != 0 || pipe(up) != 0) give_up(peer.name, "no pipe");
    std::fflush(nullptr);
    pid_ = fork();
    if (pid_ < 0) give_up(peer.name, "no process");
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);   // a stopped child would not see the end of its tasks
      close(down[1]);
      close(up[0]);
      // they would not see the end of their tasks
      for (const Stall *other : all_) close(other->tasks_);
      serve(down[0], up[1], options, keys);
    }
    close(down[0]);
    close(up[1]);
    tasks_ = down[1];
    answers_ = up[0];
    all_.insert(this);
  }
  Stall(const Stall &) = delete;
  ~Stall() {
    all_.erase(this);
    kill(pid_, SIGCONT);
    close(tasks_);   // the end of its tasks
    int state = 0;
    waitpid(pid_, &state, 0);
    close(answers_);
    std::filesystem::remove_all(path_);
    if (state != 0) give_up(peer_.name, "did not end well");
  }

  const Peer &peer() const { return peer_; }
  Answer ask(const Task &task) {
    Answer answer;
    for (const Stall *stall : all_) kill(stall->pid_, stall == this ? SIGCONT : SIGSTOP);
    if (write(tasks_, &task, sizeof task) != sizeof task ||
        read(answers_, &answer, sizeof answer) != sizeof answer) {
      std::filesystem::remove_all(path_);
      give_up(peer_.name, "has failed");
    }
    return answer;
  }

 private:
  [[noreturn]] void serve(int tasks, int answers, const StoreOptions &options, const KeySet *keys) {
    {
      std::unique_ptr<Store> store = peer_.open(options);
      Filled filled{store.get(), keys, keys ? keys->count() : 0};
      Task task;
      while (read(tasks, &task, sizeof task) == sizeof task) {
        Answer answer;
        switch (task.kind) {
          case Task::kFill:
            answer.rate = measure_inserts(*store, *keys, *task.order, task.threads);
            break;
          case Task::kWarm: warm(filled, task.threads); break;
          case Task::kSettle: store->settle(); break;
          case Task::kPlay:
            answer.rate =
                measure_mix(filled, *task.mix, *task.zipf, task.threads, task.duration_us);
            break;
          case Task::kFillTpcc: load_tpcc(*store, *task.tpcc, task.threads); break;
          case Task::kWarmTpcc: warm_tpcc(*store); break;
          case Task::kPlayTpcc: {
            const TpccRate rate = measure_tpcc(*store, *task.tpcc, task.threads, task.duration_us);
            answer = {rate.transactions, rate.retries};
            break;
          }
          case Task::kSize: answer.bytes = store->data_bytes(); break;
          case Task::kCheckTpcc: check_tpcc(*store, *task.tpcc, peer_.name); break;
        }
        if (write(answers, &answer, sizeof answer) != sizeof answer) break;
      }
    }
    _exit(0);
  }

  static inline u32 next_ = 0;
  static inline std::set<const Stall *> all_;
  const Peer &peer_;
  const std::string path_;
  pid_t pid_;
  int tasks_, answers_;   // tasks are written to the one, answers read from the other
};

class Results {
 public:
  Results(const char *path, std::string label)
      : out_(std::fopen(path, "w")), label_(std::move(label)) {
    if (!out_) give_up(path, "cannot be written");
  }
  ~Results() { std::fclose(out_); }
  void add(const std::string &workload, u32 threads, const Peer &peer, double value) {
    // Written at once: a run that is cut short leaves what it has.
    std::fprintf(out_, "%s\t%u\t%s\t%.4f\n", workload.c_str(), threads,
                 label_.empty() ? peer.name : label_.c_str(), value);
    std::fflush(out_);
  }

 private:
  FILE *out_;
  const std::string label_;
};

class Bench {
 public:
  Bench(std::string directory, const char *out)
      : directory_(std::move(directory)), results_(out, settings_.label) {}

  void run() {
    for (const Peer *peer : kPeers)
      if (settings_.takes_part(*peer)) std::printf("%-16s %s\n", peer->name, peer->durability);
    std::fflush(stdout);
    if (settings_.keys != 0) {
      const KeySet keys = KeySet::integers(settings_.keys, settings_.keys + settings_.growth);
      in_memory("8-byte keys", keys, 8, true);
      if (settings_.wants("out")) out_of_memory(keys);
      if (settings_.wants("space")) space(keys);
    }
    if (settings_.urls != 0)
      in_memory("URLs", KeySet::urls(settings_.urls, settings_.urls), 63, false);
    if (settings_.wants("tpcc"))
      tpcc(settings_.tpcc.affinity ? "TPC-C, own warehouses" : "TPC-C", u64{1} << 30,
           kWarehouseBytes * 4, false);
    if (settings_.wants("tpcc_out"))
      tpcc("TPC-C, four times the pool", 0, kWarehouseBytes / 4, true);
  }

 private:
  using Field = std::vector<std::unique_ptr<Stall>>;   // stores side by side

  std::vector<const Peer *> peers(bool integers) const {
    std::vector<const Peer *> chosen;
    for (const Peer *peer : kPeers)
      if (settings_.takes_part(*peer) && (integers || !peer->integers_only)) chosen.push_back(peer);
    return chosen;
  }
  // Each round another one begins.
  template <typename Turn>
  void take_turns(size_t n, const Turn &turn) {
    for (u32 round = 0; round < settings_.rounds; round++)
      for (size_t i = 0; i < n; i++) turn((i + round) % n);
  }

  void in_memory(const std::string &data, const KeySet &keys, u64 key_bytes, bool ycsb) {
    // Room for more than twice the bytes of the largest store, so that no store evicts.
    const u64 memory = std::max<u64>(u64{256} << 20, keys.most() * (key_bytes + kValueBytes) * 3);
    if (settings_.wants("inserts")) inserts(data, keys, memory);
    ycsb = ycsb && settings_.wants("ycsb");
    if (!ycsb && !settings_.wants("points") && !settings_.wants("scans")) return;
    const Zipf zipf(keys.count());
    const std::vector<u32> order = insertion_order(keys.count(), true);
    Field field;
    for (const Peer *peer : peers(keys.is_integers()))
      field.push_back(std::make_unique<Stall>(*peer, directory_, keys, memory, false));
    fill(field, order);
    if (settings_.wants("points"))
      for (const Mix &mix : kPointMixes)
        play(field, data + ", " + mix.name, mix, zipf);
    if (settings_.wants("scans"))
      for (const Mix &mix : kScanMixes)
        play(field, data + ", " + mix.name, mix, zipf);
    if (ycsb) for (const Mix &mix : kYcsbMixes) play(field, mix.name, mix, zipf);
  }

  // Of integers.  A page is about nine tenths full after ascending insertions; an entry has 10
  // bytes beside key and value.
  static u64 quarter(const KeySet &keys) {
    return std::max<u64>(u64{16} << 20, keys.count() * (8 + kValueBytes + 10) * 10 / 9 / 4);
  }

  void out_of_memory(const KeySet &keys) {
    const u64 memory = quarter(keys);
    const Zipf zipf(1);
    const std::vector<u32> order = insertion_order(keys.count(), false);
    Field field;
    for (const Peer *peer : peers(true))
      if (peer->limits_memory)
        field.push_back(std::make_unique<Stall>(*peer, directory_, keys, memory, true));
    fill(field, order);
    for (const Mix &mix : kOutOfMemoryMixes) play(field, mix.name, mix, zipf);
  }

  // Insertions in random order where memory is short: how fast, and how much room they leave in the
  // pages.
  void space(const KeySet &keys) {
    const std::vector<u32> order = insertion_order(keys.count(), true);
    std::vector<const Peer *> chosen = peers(true);
    std::erase_if(chosen, [](const Peer *peer) { return !peer->limits_memory; });
    for (const u32 threads : settings_.threads)
      take_turns(chosen.size(), [&](size_t i) {
        Stall stall(*chosen[i], directory_, keys, quarter(keys), true);
        const double rate =
            stall.ask({.kind = Stall::Task::kFill, .threads = threads, .order = &order}).rate;
        results_.add("four times the pool, random inserts", threads, *chosen[i], rate);
        stall.ask({.kind = Stall::Task::kSettle});
        const double bytes = static_cast<double>(stall.ask({.kind = Stall::Task::kSize}).bytes);
        if (bytes != 0)
          results_.add("Space after random inserts", threads, *chosen[i],
                       bytes / static_cast<double>(keys.count() * (8 + kValueBytes)));
      });
  }

  // A virtual machine has given what it did not use back to its host, and gets it again page by
  // page, at several times the cost of an insertion each: that would be charged to the store that
  // fills memory first.  All begin with memory that the machine has.
  static void claim_memory(u64 bytes) {
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) give_up("the machine", "no memory");
    madvise(memory, bytes, MADV_HUGEPAGE);
    for (u64 at = 0; at < bytes; at += 4096) static_cast<volatile u8 *>(memory)[at] = 1;
    munmap(memory, bytes);
  }

  void inserts(const std::string &data, const KeySet &keys, u64 memory) {
    const std::vector<const Peer *> chosen = peers(keys.is_integers());
    for (const bool random : {false, true}) {
      const std::vector<u32> order = insertion_order(keys.count(), random);
      for (const u32 threads : settings_.threads)
        take_turns(chosen.size(), [&](size_t i) {
          claim_memory(memory);
          Stall stall(*chosen[i], directory_, keys, memory, false);
          const double rate =
              stall.ask({.kind = Stall::Task::kFill, .threads = threads, .order = &order}).rate;
          results_.add(data + (random ? ", random inserts" : ", ascending inserts"), threads,
                       *chosen[i], rate);
        });
    }
  }

  // From turn to turn the data grows, each store's at its own speed.
  void tpcc(const std::string &name, u64 memory, u64 memory_each, bool direct_io) {
    Field field;
    for (const Peer *peer : peers(true))
      if (peer->has_transactions && (peer->limits_memory || !direct_io))
        field.push_back(std::make_unique<Stall>(
            *peer,
            StoreOptions{directory_, memory + settings_.tpcc.warehouses * memory_each, kMostRows,
                         false, direct_io, true},
            nullptr));
    for (auto &stall : field) {
      stall->ask({.kind = Stall::Task::kFillTpcc, .tpcc = &settings_.tpcc});
      stall->ask({.kind = Stall::Task::kSettle});
    }
    if (!direct_io)
      for (auto &stall : field) stall->ask({.kind = Stall::Task::kWarmTpcc});
    for (const u32 threads : settings_.threads)
      take_turns(field.size(), [&](size_t i) {
        const Stall::Answer answer = field[i]->ask({.kind = Stall::Task::kPlayTpcc,
                                                    .threads = threads,
                                                    .tpcc = &settings_.tpcc,
                                                    .duration_us = settings_.duration_us});
        results_.add(name, threads, field[i]->peer(), answer.rate);
        std::printf("%s, %u threads, %s: %.2f of 100 transactions made again\n", name.c_str(),
                    threads, field[i]->peer().name, 100 * answer.retries);
        std::fflush(stdout);
        field[i]->ask({.kind = Stall::Task::kSettle});
      });
    for (auto &stall : field)
      stall->ask({.kind = Stall::Task::kCheckTpcc, .tpcc = &settings_.tpcc});
  }

  void fill(Field &field, const std::vector<u32> &order) {
    for (auto &stall : field) {
      stall->ask({.kind = Stall::Task::kFill, .order = &order});
      stall->ask({.kind = Stall::Task::kSettle});
    }
    for (auto &stall : field) stall->ask({.kind = Stall::Task::kWarm});
  }
  void play(Field &field, const std::string &name, const Mix &mix, const Zipf &zipf) {
    for (const u32 threads : settings_.threads)
      take_turns(field.size(), [&](size_t i) {
        const Stall::Answer answer = field[i]->ask({.kind = Stall::Task::kPlay,
                                                    .threads = threads,
                                                    .mix = &mix,
                                                    .zipf = &zipf,
                                                    .duration_us = settings_.duration_us});
        results_.add(name, threads, field[i]->peer(), answer.rate);
        if (mix.updates + mix.inserts + mix.modifications != 0)
          field[i]->ask({.kind = Stall::Task::kSettle});
      });
  }

  const Settings settings_;
  const std::string directory_;
  Results results_;
};

}  // namespace
}  // namespace ls::bench

int main(int argc, char **argv) {
  if (argc != 3) ls::bench::give_up(argv[0], "DIRECTORY OUT.tsv");
  ls::bench::Bench(argv[1], argv[2]).run();
}
