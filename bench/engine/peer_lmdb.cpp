// peer_lmdb.cpp - LMDB: a map of the whole file, one writer at a time, no log.
//
// Without a log a transaction for each change would copy a path of pages each time, which is not
// what it is made for: a session collects its changes and writes a batch of them in one
// transaction, without sync.  What is collected is lost in a crash.
//
// Transactions are not collected: the next that writes waits until the one before has committed, so
// no session meets a conflict.
#include <lmdb.h>

#include <vector>

#include "store.hpp"

namespace ls::bench {

namespace {

constexpr u32 kBatch = 100;

void check(int error, const char *what) {
  if (error != 0) give_up(kLmdb.name, std::string(what) + ": " + mdb_strerror(error));
}

MDB_val val(const void *data, size_t bytes) { return {bytes, const_cast<void *>(data)}; }

class LmdbSession : public Session {
 public:
  LmdbSession(MDB_env *env, MDB_dbi dbi) : env_(env), dbi_(dbi) {
    check(mdb_txn_begin(env_, nullptr, MDB_RDONLY, &reader_), "reader");
    check(mdb_cursor_open(reader_, dbi_, &cursor_), "cursor");
    mdb_txn_reset(reader_);
    batch_.reserve(kBatch);
  }
  ~LmdbSession() override {
    write_batch();
    mdb_cursor_close(cursor_);
    mdb_txn_abort(reader_);
  }
  void insert(Key key, const Value &value) override {
    batch_.push_back({std::string(reinterpret_cast<const char *>(key.data()), key.size()), value});
    if (batch_.size() == kBatch) write_batch();
  }
  void update(Key key, const Value &value) override { insert(key, value); }
  bool lookup(Key key, Value *value) override {
    check(mdb_txn_renew(reader_), "renew");
    MDB_val k = val(key.data(), key.size()), v;
    const int error = mdb_get(reader_, dbi_, &k, &v);
    if (error == 0) __builtin_memcpy(value->bytes, v.mv_data, kValueBytes);
    mdb_txn_reset(reader_);
    if (error != MDB_NOTFOUND) check(error, "get");
    return error == 0;
  }
  u32 scan(Key from, u32 count, u64 *sum) override {
    check(mdb_txn_renew(reader_), "renew");
    check(mdb_cursor_renew(reader_, cursor_), "renew");
    MDB_val k = val(from.data(), from.size()), v;
    u32 seen = 0;
    int error = mdb_cursor_get(cursor_, &k, &v, MDB_SET_RANGE);
    while (error == 0) {
      *sum += *static_cast<const u8 *>(v.mv_data);
      if (++seen == count) break;
      error = mdb_cursor_get(cursor_, &k, &v, MDB_NEXT);
    }
    mdb_txn_reset(reader_);
    if (error != MDB_NOTFOUND) check(error, "scan");
    return seen;
  }

 private:
  struct Change {
    std::string key;
    Value value;
  };
  void write_batch() {
    if (batch_.empty()) return;
    MDB_txn *txn;
    check(mdb_txn_begin(env_, nullptr, 0, &txn), "begin");
    for (const Change &change : batch_) {
      MDB_val k = val(change.key.data(), change.key.size()),
              v = val(change.value.bytes, kValueBytes);
      check(mdb_put(txn, dbi_, &k, &v, 0), "put");
    }
    check(mdb_txn_commit(txn), "commit");
    batch_.clear();
  }

  MDB_env *env_;
  MDB_dbi dbi_;
  MDB_txn *reader_;
  MDB_cursor *cursor_;
  std::vector<Change> batch_;
};

class LmdbTransactions : public Transactions {
 public:
  LmdbTransactions(MDB_env *env, MDB_dbi dbi) : env_(env), dbi_(dbi) {
    check(mdb_txn_begin(env_, nullptr, MDB_RDONLY, &reader_), "reader");
    mdb_txn_reset(reader_);
  }
  ~LmdbTransactions() override { mdb_txn_abort(reader_); }

  void begin(bool writes) override {
    if (writes) {
      check(mdb_txn_begin(env_, nullptr, 0, &transaction_), "begin");
    } else {
      check(mdb_txn_renew(reader_), "renew");
      transaction_ = reader_;
    }
  }
  void commit() override {
    if (transaction_ == reader_)
      mdb_txn_reset(reader_);
    else
      check(mdb_txn_commit(transaction_), "commit");
  }
  void rollback() override {
    if (transaction_ == reader_)
      mdb_txn_reset(reader_);
    else
      mdb_txn_abort(transaction_);
  }
  void insert(Key key, Row row) override {
    MDB_val k = val(key.data(), key.size()), v = val(row.data(), row.size());
    check(mdb_put(transaction_, dbi_, &k, &v, 0), "put");
  }
  void remove(Key key) override {
    MDB_val k = val(key.data(), key.size());
    check(mdb_del(transaction_, dbi_, &k, nullptr), "delete");
  }
  bool lookup(Key key, std::span<u8> row) override {
    MDB_val k = val(key.data(), key.size()), v;
    const int error = mdb_get(transaction_, dbi_, &k, &v);
    if (error == MDB_NOTFOUND) return false;
    check(error, "get");
    copy_row(kLmdb.name, v.mv_data, v.mv_size, row);
    return true;
  }
  void update(Key key, std::span<u8> row, const Change &change) override {
    if (!lookup(key, row)) give_up(kLmdb.name, "the key to be updated is absent");
    change();
    insert(key, row);
  }
  void scan(Key from, Key to, const Visit &visit) override {
    MDB_cursor *cursor;
    check(mdb_cursor_open(transaction_, dbi_, &cursor), "cursor");
    MDB_val k = val(from.data(), from.size()), v, end = val(to.data(), to.size());
    int error = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    while (error == 0 && mdb_cmp(transaction_, dbi_, &k, &end) < 0 && visit(bytes(k), bytes(v)))
      error = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
    mdb_cursor_close(cursor);
    if (error != MDB_NOTFOUND) check(error, "scan");
  }

 private:
  static Key bytes(const MDB_val &v) { return {static_cast<const u8 *>(v.mv_data), v.mv_size}; }

  MDB_env *env_;
  MDB_dbi dbi_;
  MDB_txn *reader_, *transaction_ = nullptr;
};

class LmdbStore : public Store {
 public:
  explicit LmdbStore(const StoreOptions &options) {
    check(mdb_env_create(&env_), "create");
    const u64 most_bytes = options.most_keys * (kValueBytes + kMaxKeyBytes) * 3 + (u64{1} << 30);
    check(mdb_env_set_mapsize(env_, most_bytes), "size");
    check(mdb_env_open(env_, options.directory.c_str(),
                       MDB_NOSYNC | MDB_WRITEMAP | MDB_NOTLS | MDB_NORDAHEAD, 0600),
          "open");
    MDB_txn *txn;
    check(mdb_txn_begin(env_, nullptr, 0, &txn), "begin");
    check(mdb_dbi_open(txn, nullptr, 0, &dbi_), "open");
    check(mdb_txn_commit(txn), "commit");
  }
  ~LmdbStore() override { mdb_env_close(env_); }
  std::unique_ptr<Session> session(u32) override {
    return std::make_unique<LmdbSession>(env_, dbi_);
  }
  std::unique_ptr<Transactions> transactions(u32) override {
    return std::make_unique<LmdbTransactions>(env_, dbi_);
  }
  void settle() override { check(mdb_env_sync(env_, 1), "sync"); }

 private:
  MDB_env *env_;
  MDB_dbi dbi_;
};

}  // namespace

const Peer kLmdb{"LMDB",
                 "no log (MDB_NOSYNC, MDB_WRITEMAP), 100 changes a transaction",
                 true,
                 false,
                 false,
                 [](const StoreOptions &options) -> std::unique_ptr<Store> {
                   return std::make_unique<LmdbStore>(options);
                 }};

}  // namespace ls::bench
