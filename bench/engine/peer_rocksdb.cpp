// peer_rocksdb.cpp - RocksDB: no compression, bloom filters, one column family.
//
// Its log is collected in memory and written by a thread every 5 ms, as ours is: with a system call
// for each change it would be measured with a stronger promise than the others.
//
// Its transactions are those of TransactionDB: they lock what they change, and with a snapshot set
// at the beginning they meet a conflict where a key has changed since.  A deadlock is a conflict,
// too.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/transaction.h>
#include <rocksdb/utilities/transaction_db.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <thread>

#include "store.hpp"

namespace ls::bench {

namespace {

void check(const rocksdb::Status &status, const char *what) {
  if (!status.ok()) give_up(kRocksDb.name, std::string(what) + ": " + status.ToString());
}

void check_conflict(const rocksdb::Status &status, const char *what) {
  if (status.IsBusy() || status.IsTimedOut() || status.IsTryAgain()) throw Conflict{};
  check(status, what);
}

rocksdb::Slice slice(Key key) { return {reinterpret_cast<const char *>(key.data()), key.size()}; }
rocksdb::Slice slice(const Value &value) {
  return {reinterpret_cast<const char *>(value.bytes), kValueBytes};
}

class RocksDbSession : public Session {
 public:
  explicit RocksDbSession(rocksdb::DB *db) : db_(db) {}
  void insert(Key key, const Value &value) override {
    check(db_->Put(rocksdb::WriteOptions(), slice(key), slice(value)), "put");
  }
  void update(Key key, const Value &value) override { insert(key, value); }
  bool lookup(Key key, Value *value) override {
    const rocksdb::Status status =
        db_->Get(read_, db_->DefaultColumnFamily(), slice(key), &pinned_);
    if (status.IsNotFound()) return false;
    check(status, "get");
    __builtin_memcpy(value->bytes, pinned_.data(), kValueBytes);
    pinned_.Reset();
    return true;
  }
  u32 scan(Key from, u32 count, u64 *sum) override {
    std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(read_));
    u32 seen = 0;
    for (at->Seek(slice(from)); at->Valid() && seen < count; at->Next(), seen++)
      *sum += static_cast<u8>(at->value()[0]);
    check(at->status(), "scan");
    return seen;
  }

 private:
  rocksdb::DB *db_;
  rocksdb::ReadOptions read_;
  rocksdb::PinnableSlice pinned_;
};

class RocksDbTransactions : public Transactions {
 public:
  explicit RocksDbTransactions(rocksdb::TransactionDB *db) : db_(db) {
    options_.set_snapshot = true;
    options_.deadlock_detect = true;
  }
  void begin(bool) override {
    transaction_.reset(
        db_->BeginTransaction(rocksdb::WriteOptions(), options_, transaction_.release()));
    read_.snapshot = transaction_->GetSnapshot();
  }
  void commit() override { check(transaction_->Commit(), "commit"); }
  void rollback() override { check(transaction_->Rollback(), "rollback"); }
  // Untracked: whether another transaction has inserted it, too, is not asked.
  void insert(Key key, Row row) override {
    check_conflict(transaction_->PutUntracked(slice(key), slice(row)), "put");
  }
  void remove(Key key) override { check_conflict(transaction_->Delete(slice(key)), "delete"); }
  bool lookup(Key key, std::span<u8> row) override {
    const rocksdb::Status status =
        transaction_->Get(read_, db_->DefaultColumnFamily(), slice(key), &pinned_);
    if (status.IsNotFound()) return false;
    check(status, "get");
    take_pinned(row);
    return true;
  }
  void update(Key key, std::span<u8> row, const Change &change) override {
    check_conflict(
        transaction_->GetForUpdate(read_, db_->DefaultColumnFamily(), slice(key), &pinned_),
        "get for update");
    take_pinned(row);
    change();
    constexpr bool kIsLocked = true;
    check_conflict(transaction_->Put(db_->DefaultColumnFamily(), slice(key), slice(row), kIsLocked),
                   "put");
  }
  void scan(Key from, Key to, const Visit &visit) override {
    const rocksdb::Slice end = slice(to);
    rocksdb::ReadOptions bounded = read_;
    bounded.iterate_upper_bound = &end;
    std::unique_ptr<rocksdb::Iterator> at(transaction_->GetIterator(bounded));
    for (at->Seek(slice(from)); at->Valid(); at->Next())
      if (!visit(bytes(at->key()), bytes(at->value()))) return;
    check(at->status(), "scan");
  }

 private:
  static Key bytes(const rocksdb::Slice &slice) {
    return {reinterpret_cast<const u8 *>(slice.data()), slice.size()};
  }
  void take_pinned(std::span<u8> row) {
    copy_row(kRocksDb.name, pinned_.data(), pinned_.size(), row);
    pinned_.Reset();
  }

  rocksdb::TransactionDB *db_;
  rocksdb::TransactionOptions options_;
  rocksdb::ReadOptions read_;
  rocksdb::PinnableSlice pinned_;
  std::unique_ptr<rocksdb::Transaction> transaction_;
};

class RocksDbStore : public Store {
 public:
  explicit RocksDbStore(const StoreOptions &options) {
    rocksdb::Options o;
    o.create_if_missing = true;
    o.compression = rocksdb::kNoCompression;
    o.manual_wal_flush = true;
    o.use_direct_reads = options.direct_io;
    o.use_direct_io_for_flush_and_compaction = options.direct_io;
    o.IncreaseParallelism(2);
    // Memory tables are part of the budget.
    o.write_buffer_size = std::min<u64>(u64{64} << 20, options.memory / 8);
    o.max_write_buffer_number = 2;
    rocksdb::BlockBasedTableOptions table;
    // A shard has to hold the filter of a whole file, a megabyte, or each look-up reads that again.
    constexpr u64 kLeastShard = u64{16} << 20;
    const u64 cache_bytes = options.memory - 2 * o.write_buffer_size;
    const int shard_bits = std::bit_width(std::clamp<u64>(cache_bytes / kLeastShard, 1, 64)) - 1;
    table.block_cache = rocksdb::NewLRUCache(cache_bytes, shard_bits);
    table.cache_index_and_filter_blocks = true;
    table.pin_l0_filter_and_index_blocks_in_cache = true;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10, false));
    table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
    o.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB *db;
    if (options.transactions) {
      check(rocksdb::TransactionDB::Open(o, {}, options.directory, &transaction_db_), "open");
      db = transaction_db_;
    } else {
      check(rocksdb::DB::Open(o, options.directory, &db), "open");
    }
    db_.reset(db);
    log_writer_ = std::thread([this] {
      while (!stop_.load()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        check(db_->FlushWAL(false), "log");
      }
    });
  }
  ~RocksDbStore() override {
    stop_ = true;
    log_writer_.join();
    check(db_->Close(), "close");
  }
  std::unique_ptr<Session> session(u32) override {
    return std::make_unique<RocksDbSession>(db_.get());
  }
  std::unique_ptr<Transactions> transactions(u32) override {
    return std::make_unique<RocksDbTransactions>(transaction_db_);
  }
  u64 data_bytes() override {
    uint64_t bytes = 0;
    db_->GetIntProperty("rocksdb.live-sst-files-size", &bytes);
    return bytes;
  }
  void settle() override {
    check(db_->Flush(rocksdb::FlushOptions()), "flush");
    u64 busy = 1;
    while (busy != 0) {
      busy = 0;
      for (const char *property :
           {"rocksdb.compaction-pending", "rocksdb.num-running-compactions",
            "rocksdb.mem-table-flush-pending", "rocksdb.num-running-flushes"}) {
        uint64_t value = 0;
        db_->GetIntProperty(property, &value);
        busy += value;
      }
      if (busy != 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

 private:
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::TransactionDB *transaction_db_ = nullptr;   // the same, where there are transactions
  std::atomic<bool> stop_{false};
  std::thread log_writer_;
};

}  // namespace

const Peer kRocksDb{"RocksDB",
                    "log written every 5 ms (manual_wal_flush), not synced",
                    true,
                    false,
                    true,
                    [](const StoreOptions &options) -> std::unique_ptr<Store> {
                      return std::make_unique<RocksDbStore>(options);
                    }};

}  // namespace ls::bench
