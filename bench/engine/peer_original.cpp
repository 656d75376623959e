// peer_original.cpp - the original LeanStore (public repository leanstore/leanstore), built by the
// caller (-D original=FOLDER).
//
// Its plain B-tree (BTreeLL), with the log on and really written, which it is not by default
// (wal_pwrite), and not synced; contention split on, XMerge off, as by default.  A change is a
// transaction at its lowest level of isolation; look-ups and scans are none.  Its workers' state
// belongs to threads that it starts itself: ours put theirs on.
#ifdef WITH_ORIGINAL
#include <leanstore/Config.hpp>
#include <leanstore/LeanStore.hpp>
#include <leanstore/concurrency-recovery/CRMG.hpp>

#include <algorithm>
#include <csignal>

#include "store.hpp"

namespace ls::bench {

namespace {

using leanstore::OP_RESULT;
using leanstore::cr::Worker;

u8 *bytes_of(const u8 *bytes) { return const_cast<u8 *>(bytes); }

class OriginalSession : public Session {
 public:
  OriginalSession(leanstore::KVInterface *tree, Worker *worker) : tree_(tree), worker_(worker) {
    Worker::tls_ptr = worker;
    update_->count = 1;
    update_->slots[0] = {0, kValueBytes};
  }
  ~OriginalSession() override { Worker::tls_ptr = nullptr; }
  void insert(Key key, const Value &value) override {
    begin();
    expect(tree_->insert(bytes_of(key.data()), static_cast<u16>(key.size()), bytes_of(value.bytes),
                         kValueBytes),
           "insert");
    worker_->commitTX();
  }
  void update(Key key, const Value &value) override {
    begin();
    expect(tree_->updateSameSizeInPlace(
               bytes_of(key.data()), static_cast<u16>(key.size()),
               [&](u8 *old, u16) { __builtin_memcpy(old, value.bytes, kValueBytes); }, *update_),
           "update");
    worker_->commitTX();
  }
  bool lookup(Key key, Value *value) override {
    return tree_->lookup(bytes_of(key.data()), static_cast<u16>(key.size()),
                         [&](const u8 *found, u16) {
                           __builtin_memcpy(value->bytes, found, kValueBytes);
                         }) == OP_RESULT::OK;
  }
  u32 scan(Key from, u32 count, u64 *sum) override {
    u32 seen = 0;
    tree_->scanAsc(
        bytes_of(from.data()), static_cast<u16>(from.size()),
        [&](const u8 *, u16, const u8 *value, u16) {
          *sum += value[0];
          return ++seen < count;
        },
        [] {});
    return seen;
  }

 private:
  void begin() {
    worker_->startTX(leanstore::TX_MODE::OLTP, leanstore::TX_ISOLATION_LEVEL::READ_UNCOMMITTED);
  }
  static void expect(OP_RESULT result, const char *what) {
    if (result != OP_RESULT::OK) give_up(kOriginal.name, what);
  }

  leanstore::KVInterface *tree_;
  Worker *worker_;
  alignas(8) u8 update_bytes_[sizeof(leanstore::UpdateSameSizeInPlaceDescriptor) +
                              sizeof(leanstore::UpdateSameSizeInPlaceDescriptor::Slot)]{};
  leanstore::UpdateSameSizeInPlaceDescriptor *update_ =
      reinterpret_cast<leanstore::UpdateSameSizeInPlaceDescriptor *>(update_bytes_);
};

class OriginalStore : public Store {
 public:
  explicit OriginalStore(const StoreOptions &options) {
    FLAGS_ssd_path = options.directory + "/data";
    FLAGS_trunc = true;
    FLAGS_dram_gib = static_cast<double>(options.memory) / (u64{1} << 30);
    FLAGS_worker_threads = kMaxThreads;
    FLAGS_wal_pwrite = true;
    FLAGS_wal_offset_gib = 256;   // the log grows down from there, in a file with holes
    FLAGS_vi = false;
    FLAGS_mv = false;
    FLAGS_isolation_level = "ru";
    FLAGS_cpu_counters = false;
    FLAGS_print_tx_console = false;
    std::signal(SIGTRAP, SIG_IGN);   // raised for keys that are not found
    engine_ = new leanstore::LeanStore;
    engine_->getCRManager().scheduleJobSync(0, [this] {
      tree_ = &engine_->registerBTreeLL("data", {.enable_wal = true, .use_bulk_insert = false});
    });
  }
  // Its threads, and its file, go with the process.
  std::unique_ptr<Session> session(u32 thread) override {
    return std::make_unique<OriginalSession>(tree_, engine_->getCRManager().workers[thread]);
  }

 private:
  leanstore::LeanStore *engine_;
  leanstore::KVInterface *tree_ = nullptr;
};

}  // namespace

const Peer kOriginal{"original LeanStore",
                     "log written without pause (wal_pwrite), not synced, nobody waits",
                     false,
                     false,
                     true,
                     [](const StoreOptions &options) -> std::unique_ptr<Store> {
                       return std::make_unique<OriginalStore>(options);
                     }};

}  // namespace ls::bench
#endif
