// store.hpp - what every store of the comparison offers: one ordered map from byte strings to values of one size.
//
// Threads work through a session of their own.  Whatever fails ends the program: a benchmark that goes on after an error measures
// the error.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>

#include "base/types.hpp"

namespace ls::bench {

using Key = std::span<const u8>;
inline constexpr u32 kValueBytes = 64;
inline constexpr u32 kMaxKeyBytes = 256;
inline constexpr u32 kMaxThreads = 16;

struct Value {
  u8 bytes[kValueBytes];
};

class Session {
 public:
  virtual ~Session() = default;
  virtual void insert(Key key, const Value &value) = 0;   // absent before
  virtual void update(Key key, const Value &value) = 0;   // present
  virtual bool lookup(Key key, Value *value) = 0;
  // Up to `count` entries from `from` on, each value looked at (its first byte goes into *sum); how many there were.
  virtual u32 scan(Key from, u32 count, u64 *sum) = 0;
};

struct StoreOptions {
  std::string directory;   // empty, the store's own
  u64 memory;              // for pages: pool or cache
  u64 most_keys;           // ever
  bool integer_keys;       // of 8 bytes, big endian, below most_keys
  bool direct_io;          // past the operating system's cache
};

// One in a process at a time.
class Store {
 public:
  virtual ~Store() = default;
  virtual std::unique_ptr<Session> session(u32 thread) = 0;
  // Work put off so far is done now, so that it is not done during somebody else's turn.  No session works.
  virtual void settle() {}
};

struct Peer {
  const char *name;
  const char *durability;   // of a change, as configured here
  bool integers_only;
  bool limits_memory;       // false: what it keeps in memory is the operating system's choice
  std::unique_ptr<Store> (*open)(const StoreOptions &options);
};
extern const Peer kTree, kRows, kRocksDb, kWiredTiger, kLmdb, kOriginal;

[[noreturn]] inline void give_up(const char *store, const std::string &what) {
  std::fprintf(stderr, "%s: %s\n", store, what.c_str());
  std::exit(1);
}

}  // namespace ls::bench
