// store.hpp - what the client asks of a store: values by key, durable commits, a snapshot.
#pragma once
#include <memory>
#include <string>

#include "operations.hpp"

namespace ls::blobdb {

// Ends the program: the measurement is worth nothing.
[[noreturn]] void give_up(const std::string &what);

// One thread's; what it has put is durable when commit() returns.
class Session {
 public:
  virtual ~Session() = default;
  virtual void put(const Operation &operation) = 0;
  // The value must be `expected`, at the latest at the commit; `all`: of all its bytes.
  virtual void read(u32 key, const Content &expected, bool all) = 0;
  virtual void commit() = 0;
};

class Store {
 public:
  virtual ~Store() = default;
  virtual std::unique_ptr<Session> session() = 0;
  // A session that sees what is there now, until it is destroyed.
  virtual std::unique_ptr<Session> snapshot() = 0;
  // Writes out what is kept in memory only, and waits for what the store does by itself; nothing
  // for a server, which the caller checkpoints.
  virtual void settle() = 0;
};

struct StoreOptions {
  std::string place;  // RocksDB's directory
  u64 memory = 0;     // RocksDB's caches and buffers
  double cutoff = 0, force = 0;
};

// Connects as libpq's environment says, to a table v (id bigint, value bytea).
std::unique_ptr<Store> open_postgres();
// RocksDB with integrated BlobDB; nullptr: it was not compiled in.
std::unique_ptr<Store> open_rocksdb(const StoreOptions &options);

}  // namespace ls::blobdb
