// main.cpp - the client of the workload `values`: does what lines of its input say, and answers
// each with a line of figures.
//
//   load      the writes before what is measured
//   run       what is measured
//   snapshot  from here on a reader sees what is there now
//   release   the reader has still seen all of that; it ends
//   settle    see Store::settle()
//   check     every value is what was put last
//
// A key belongs to one thread, which does the key's operations in their order: the end is the same
// for each store and number of threads, and no transaction waits for a row.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <thread>

#include "store.hpp"

namespace ls::blobdb {
namespace {

constexpr u32 kLoadBatch = 64, kCheckBatch = 64;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class Client {
 public:
  Client(Store *store, Operations operations, u32 threads, u32 batch)
      : store_(store), operations_(std::move(operations)), batch_(batch),
        current_(operations_.keys) {
    for (u32 i = 0; i < threads; i++)
      sessions_.push_back(store->session());
  }

  void command(const std::string &name) {
    const double begin = seconds_now();
    operations_done_ = {};
    if (name == "load")
      play(operations_.load, kLoadBatch);
    else if (name == "run")
      play(operations_.run, batch_);
    else if (name == "snapshot") {
      seen_ = current_;
      snapshot_ = store_->snapshot();
    } else if (name == "release") {
      look(snapshot_.get(), seen_);
      snapshot_.reset();
    } else if (name == "settle")
      store_->settle();
    else if (name == "check")
      look(sessions_[0].get(), current_);
    else
      give_up("no command " + name);
    answer(seconds_now() - begin);
  }

 private:
  struct Done {
    u64 puts = 0, reads = 0, put_bytes = 0;
  };

  void play(const std::vector<Operation> &operations, u32 batch) {
    std::vector<Done> done(sessions_.size());
    std::vector<std::thread> threads;
    for (u32 mine = 0; mine < sessions_.size(); mine++)
      threads.emplace_back([&, mine] { done[mine] = play_own(operations, batch, mine); });
    for (std::thread &thread : threads)
      thread.join();
    for (const Done &part : done) {
      operations_done_.puts += part.puts;
      operations_done_.reads += part.reads;
      operations_done_.put_bytes += part.put_bytes;
    }
  }

  Done play_own(const std::vector<Operation> &operations, u32 batch, u32 mine) {
    Session *session = sessions_[mine].get();
    Done done;
    for (const Operation &operation : operations) {
      if (operation.key % sessions_.size() != mine) continue;
      if (operation.kind == Kind::kRead) {
        session->read(operation.key, current_[operation.key], false);
        done.reads++;
      } else {
        session->put(operation);
        current_[operation.key] = operation.content;
        done.puts++;
        done.put_bytes += operation.content.size;
      }
      if ((done.reads + done.puts) % batch == 0) session->commit();
    }
    session->commit();
    return done;
  }

  static void look(Session *session, const std::vector<Content> &expected) {
    if (session == nullptr) give_up("no snapshot");
    for (u32 key = 0; key < expected.size(); key++) {
      if (expected[key].size != 0) session->read(key, expected[key], true);
      if (key % kCheckBatch == 0) session->commit();
    }
    session->commit();
  }

  void answer(double seconds) const {
    u64 live = 0;
    for (const Content &content : current_)
      live += content.size;
    printf("seconds=%.6f cpu=%.6f puts=%lu reads=%lu put_bytes=%lu live_bytes=%lu\n", seconds,
           cpu_seconds(), operations_done_.puts, operations_done_.reads,
           operations_done_.put_bytes, live);
    fflush(stdout);
  }

  Store *store_;
  Operations operations_;
  u32 batch_;
  std::vector<Content> current_, seen_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::unique_ptr<Session> snapshot_;
  Done operations_done_;
};

// Options NAME=VALUE, each once.
class Options {
 public:
  Options(int count, char **words) {
    for (int i = 1; i < count; i++) {
      const char *equals = strchr(words[i], '=');
      if (equals == nullptr) give_up(std::string(words[i]) + " is no NAME=VALUE");
      values_[std::string(words[i], static_cast<size_t>(equals - words[i]))] = equals + 1;
    }
  }
  std::string text(const std::string &name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) give_up("no option " + name);
    return found->second;
  }
  double number(const std::string &name) const { return std::stod(text(name)); }
  u32 count(const std::string &name) const { return static_cast<u32>(number(name)); }

 private:
  std::map<std::string, std::string> values_;
};

std::unique_ptr<Store> open_store(const Options &options) {
  if (options.text("store") == "postgres") return open_postgres();
  return open_rocksdb({options.text("place"), u64{options.count("memory_mib")} << 20,
                       options.number("cutoff"), options.number("force")});
}

int play(const Options &options) {
  Plan todo;
  todo.recipe.name = options.text("generate");
  todo.recipe.keys = options.count("keys");
  todo.recipe.writes = options.count("writes");
  todo.recipe.duplicates = options.number("duplicates");
  todo.recipe.size_min = todo.recipe.size_max = options.count("size");
  todo.recipe.seed = options.count("seed");
  todo.load = options.count("load");
  todo.reads = options.number("reads");
  Operations operations;
  std::string why;
  if (!plan(todo, &operations, &why)) give_up(why);
  const std::unique_ptr<Store> store = open_store(options);
  if (store == nullptr) give_up("compiled without RocksDB");
  Client client(store.get(), std::move(operations), options.count("clients"),
                options.count("batch"));
  for (std::string line; std::getline(std::cin, line);)
    client.command(line);
  return 0;
}

}  // namespace
}  // namespace ls::blobdb

// With "has-rocksdb" it only says whether RocksDB is a part of it.
int main(int count, char **words) {
  if (count == 2 && strcmp(words[1], "has-rocksdb") == 0) {
#ifdef WITH_ROCKSDB
    return 0;
#else
    return 1;
#endif
  }
  return ls::blobdb::play(ls::blobdb::Options(count, words));
}
