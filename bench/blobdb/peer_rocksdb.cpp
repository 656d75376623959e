// peer_rocksdb.cpp - RocksDB with integrated BlobDB, set as its manual says for values like these.
//
// - All values lie in blob files, without compression; files are as large as a flush makes them, so
//   that garbage collection has some to choose from.
// - A write is synced; writes of several threads share a sync (RocksDB's group commit).  Log files
//   are used again, as PostgreSQL's are: a sync need not write the file's new length, too.
// - Memory: a half for blocks and blobs, a quarter for each of two write buffers.
// - What the tree holds is small: a level with all of it, compacted with each four flushes.  That
//   is when garbage is collected, too; `force` makes it happen for it alone.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "store.hpp"

namespace ls::blobdb {
namespace {

using namespace std::chrono_literals;

constexpr u64 kSmallestBlob = 512;
constexpr int kBloomBits = 10;
constexpr auto kIdle = 500ms;  // without a compaction: there is none to come
constexpr auto kIdleStep = 20ms;
constexpr int kIdleSteps = 60'000 / 20;

void check(const rocksdb::Status &status, const char *what) {
  if (!status.ok()) give_up(std::string("RocksDB: ") + what + ": " + status.ToString());
}

struct Key {
  char bytes[sizeof(u64)];
  explicit Key(u32 key) {
    const u64 id = __builtin_bswap64(key);
    memcpy(bytes, &id, sizeof(id));
  }
  rocksdb::Slice slice() const { return {bytes, sizeof(bytes)}; }
};

class RocksDbSession : public Session {
 public:
  RocksDbSession(rocksdb::DB *db, const rocksdb::Snapshot *snapshot) : db_(db) {
    read_.snapshot = snapshot;
    write_.sync = true;
  }
  ~RocksDbSession() override {
    if (read_.snapshot != nullptr) db_->ReleaseSnapshot(read_.snapshot);
  }
  void put(const Operation &operation) override {
    fill(operation.content, &bytes_);
    check(batch_.Put(Key(operation.key).slice(),
                     {reinterpret_cast<const char *>(bytes_.data()), bytes_.size()}),
          "put");
    in_batch_.push_back(operation.key);
  }
  void read(u32 key, const Content &expected, bool all) override {
    // What is not committed yet is in this thread's memory.
    if (std::find(in_batch_.begin(), in_batch_.end(), key) != in_batch_.end()) return;
    check(db_->Get(read_, db_->DefaultColumnFamily(), Key(key).slice(), &pinned_), "get");
    if (!is_equal(expected, {reinterpret_cast<const u8 *>(pinned_.data()), pinned_.size()}, all))
      give_up("RocksDB: key " + std::to_string(key) + " has another value");
    pinned_.Reset();
  }
  void commit() override {
    if (in_batch_.empty()) return;
    check(db_->Write(write_, &batch_), "write");
    batch_.Clear();
    in_batch_.clear();
  }

 private:
  rocksdb::DB *db_;
  rocksdb::ReadOptions read_;
  rocksdb::WriteOptions write_;
  rocksdb::WriteBatch batch_;
  rocksdb::PinnableSlice pinned_;
  std::vector<u8> bytes_;
  std::vector<u32> in_batch_;
};

class RocksDb : public Store {
 public:
  explicit RocksDb(const StoreOptions &options) {
    rocksdb::DB *db = nullptr;
    check(rocksdb::DB::Open(settings(options), options.place, &db), "open");
    db_.reset(db);
  }
  std::unique_ptr<Session> session() override {
    return std::make_unique<RocksDbSession>(db_.get(), nullptr);
  }
  std::unique_ptr<Session> snapshot() override {
    return std::make_unique<RocksDbSession>(db_.get(), db_->GetSnapshot());
  }
  void settle() override {
    check(db_->Flush(rocksdb::FlushOptions()), "flush");
    auto idle = 0ms;
    for (int step = 0; step < kIdleSteps && idle < kIdle; step++) {
      std::this_thread::sleep_for(kIdleStep);
      idle = is_busy() ? 0ms : idle + kIdleStep;
    }
  }

 private:
  static rocksdb::Options settings(const StoreOptions &options) {
    rocksdb::Options settings;
    settings.create_if_missing = true;
    settings.compression = rocksdb::kNoCompression;
    settings.write_buffer_size = options.memory / 4;
    settings.max_write_buffer_number = 2;
    settings.max_background_jobs = 2;
    settings.recycle_log_file_num = 2;
    settings.enable_blob_files = true;
    settings.min_blob_size = kSmallestBlob;
    settings.blob_file_size = options.memory / 4;
    settings.blob_compression_type = rocksdb::kNoCompression;
    settings.enable_blob_garbage_collection = true;
    settings.blob_garbage_collection_age_cutoff = options.cutoff;
    settings.blob_garbage_collection_force_threshold = options.force;
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(options.memory / 2);
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kBloomBits));
    settings.blob_cache = table.block_cache;
    settings.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    return settings;
  }
  bool is_busy() {
    using Properties = rocksdb::DB::Properties;
    for (const std::string &name :
         {Properties::kNumRunningCompactions, Properties::kCompactionPending,
          Properties::kNumRunningFlushes, Properties::kMemTableFlushPending}) {
      u64 value = 0;
      if (!db_->GetIntProperty(name, &value)) give_up("RocksDB: no property " + name);
      if (value != 0) return true;
    }
    return false;
  }

  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

std::unique_ptr<Store> open_rocksdb(const StoreOptions &options) {
  return std::make_unique<RocksDb>(options);
}

}  // namespace ls::blobdb
