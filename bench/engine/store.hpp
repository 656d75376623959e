// store.hpp - what every store of the comparison offers: one ordered map from byte strings to
// values of one size.  Most of them offer transactions, too, on such a map with values of any size,
// the rows.
//
// Threads work through a session of their own.  Whatever fails ends the program: a benchmark that
// goes on after an error measures the error.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/types.hpp"

namespace ls::bench {

using Key = std::span<const u8>;
using Row = std::span<const u8>;
inline constexpr u32 kValueBytes = 64;
inline constexpr u32 kMaxKeyBytes = 256;
inline constexpr u32 kMaxRowBytes = 1024;
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
  // Up to `count` entries from `from` on, each value looked at (its first byte goes into *sum); how
  // many there were.
  virtual u32 scan(Key from, u32 count, u64 *sum) = 0;
};

// Thrown by an operation that has met another transaction: its own is to be rolled back and made
// again.
struct Conflict {};

// One transaction after the other.  Each sees what had been committed when it began, and its own
// changes; of two at a time that change the same row one goes on and the other one meets a
// Conflict.
class Transactions {
 public:
  using Change = std::function<void()>;
  // calls no operation; false: that was enough
  using Visit = std::function<bool(Key key, Row row)>;

  virtual ~Transactions() = default;
  virtual void begin(bool writes) = 0;
  virtual void commit() = 0;
  virtual void rollback() = 0;   // after a Conflict, too

  virtual void insert(Key key, Row row) = 0;   // absent before, which is not checked
  virtual void remove(Key key) = 0;            // present
  // Present or not; a row has the length of `row`.
  virtual bool lookup(Key key, std::span<u8> row) = 0;
  // Looked up, changed in `row` by `change`, written back.  Present.
  virtual void update(Key key, std::span<u8> row, const Change &change) = 0;
  // Rows with from <= key < to, ascending.
  virtual void scan(Key from, Key to, const Visit &visit) = 0;
};

struct StoreOptions {
  std::string directory;   // empty, the store's own
  u64 memory;              // for pages: pool or cache
  u64 most_keys;           // ever
  bool integer_keys;       // of 8 bytes, big endian, below most_keys
  bool direct_io;          // past the operating system's cache
  bool transactions;       // instead of sessions
};

// One in a process at a time.
class Store {
 public:
  virtual ~Store() = default;
  virtual std::unique_ptr<Session> session(u32 thread) = 0;
  virtual std::unique_ptr<Transactions> transactions(u32 /*thread*/) { return nullptr; }
  // Work put off so far is done now, so that it is not done during another store's turn.  No
  // session works.
  virtual void settle() {}
  // What its files take after settle(), log apart; 0: not known.
  virtual u64 data_bytes() { return 0; }
};

struct Peer {
  const char *name;
  const char *durability;   // of a change, as configured here
  bool has_transactions;
  bool integers_only;
  bool limits_memory;       // false: what it keeps in memory is the operating system's choice
  std::unique_ptr<Store> (*open)(const StoreOptions &options);
};
extern const Peer kTree, kRows, kRocksDb, kWiredTiger, kLmdb, kOriginal;

[[noreturn]] inline void give_up(const char *store, const std::string &what) {
  std::fprintf(stderr, "%s: %s\n", store, what.c_str());
  std::exit(1);
}

// Where a store has found a row of another length than it was asked for, or none at all.
inline void copy_row(const char *store, const void *found, size_t bytes, std::span<u8> row) {
  if (bytes != row.size()) give_up(store, "a row has another length");
  __builtin_memcpy(row.data(), found, bytes);
}

}  // namespace ls::bench
