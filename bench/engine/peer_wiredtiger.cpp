// peer_wiredtiger.cpp - WiredTiger: B-tree table, raw keys and values, a transaction for each
// operation, or longer ones at snapshot isolation: one that would change what another one has
// changed since is told to roll back at once.
#include <wiredtiger.h>

#include <algorithm>
#include <filesystem>

#include "store.hpp"

namespace ls::bench {

namespace {

constexpr char kTable[] = "table:data";

void check(int error, const char *what) {
  if (error != 0) give_up(kWiredTiger.name, std::string(what) + ": " + wiredtiger_strerror(error));
}

WT_ITEM item_of(Key key) {
  WT_ITEM item{};
  item.data = key.data();
  item.size = key.size();
  return item;
}
Key bytes(const WT_ITEM &item) { return {static_cast<const u8 *>(item.data), item.size}; }

class WiredTigerSession : public Session {
 public:
  explicit WiredTigerSession(WT_CONNECTION *connection) {
    check(connection->open_session(connection, nullptr, nullptr, &session_), "session");
    check(session_->open_cursor(session_, kTable, nullptr, "overwrite=true", &cursor_), "cursor");
  }
  ~WiredTigerSession() override { session_->close(session_, nullptr); }

  void insert(Key key, const Value &value) override { change(key, value, &WT_CURSOR::insert); }
  void update(Key key, const Value &value) override { change(key, value, &WT_CURSOR::update); }
  bool lookup(Key key, Value *value) override {
    set_key(key);
    const int error = cursor_->search(cursor_);
    if (error == WT_NOTFOUND) return false;
    check(error, "search");
    WT_ITEM item;
    check(cursor_->get_value(cursor_, &item), "value");
    __builtin_memcpy(value->bytes, item.data, kValueBytes);
    check(cursor_->reset(cursor_), "reset");
    return true;
  }
  u32 scan(Key from, u32 count, u64 *sum) override {
    set_key(from);
    int order, error = cursor_->search_near(cursor_, &order);
    if (error == 0 && order < 0) error = cursor_->next(cursor_);
    u32 seen = 0;
    while (error == 0) {
      WT_ITEM item;
      check(cursor_->get_value(cursor_, &item), "value");
      *sum += *static_cast<const u8 *>(item.data);
      if (++seen == count) break;
      error = cursor_->next(cursor_);
    }
    if (error != WT_NOTFOUND) check(error, "scan");
    check(cursor_->reset(cursor_), "reset");
    return seen;
  }

 private:
  void set_key(Key key) {
    const WT_ITEM item = item_of(key);
    cursor_->set_key(cursor_, &item);
  }
  void change(Key key, const Value &value, int (*WT_CURSOR::*method)(WT_CURSOR *)) {
    for (;;) {
      set_key(key);
      WT_ITEM item{};
      item.data = value.bytes;
      item.size = kValueBytes;
      cursor_->set_value(cursor_, &item);
      const int error = (cursor_->*method)(cursor_);
      if (error == WT_ROLLBACK) continue;   // another thread has the key at this moment
      check(error, "change");
      break;
    }
    check(cursor_->reset(cursor_), "reset");
  }

  WT_SESSION *session_;
  WT_CURSOR *cursor_;
};

class WiredTigerTransactions : public Transactions {
 public:
  explicit WiredTigerTransactions(WT_CONNECTION *connection) {
    check(connection->open_session(connection, nullptr, "isolation=snapshot", &session_),
          "session");
    check(session_->open_cursor(session_, kTable, nullptr, "overwrite=true", &cursor_), "cursor");
  }
  ~WiredTigerTransactions() override { session_->close(session_, nullptr); }

  void begin(bool) override { check(session_->begin_transaction(session_, nullptr), "begin"); }
  void commit() override { check(session_->commit_transaction(session_, nullptr), "commit"); }
  void rollback() override { check(session_->rollback_transaction(session_, nullptr), "rollback"); }
  void insert(Key key, Row row) override {
    set_key(key);
    set_value(row);
    check_conflict(cursor_->insert(cursor_), "insert");
  }
  void remove(Key key) override {
    set_key(key);
    check_conflict(cursor_->remove(cursor_), "remove");
    check(cursor_->reset(cursor_), "reset");
  }
  bool lookup(Key key, std::span<u8> row) override {
    set_key(key);
    const int error = cursor_->search(cursor_);
    if (error == WT_NOTFOUND) return false;
    check_conflict(error, "search");
    copy_row(kWiredTiger.name, value().data(), value().size(), row);
    check(cursor_->reset(cursor_), "reset");
    return true;
  }
  void update(Key key, std::span<u8> row, const Change &change) override {
    set_key(key);
    check_conflict(cursor_->search(cursor_), "search");
    copy_row(kWiredTiger.name, value().data(), value().size(), row);
    change();
    set_value(row);
    check_conflict(cursor_->update(cursor_), "update");
    check(cursor_->reset(cursor_), "reset");
  }
  void scan(Key from, Key to, const Visit &visit) override {
    set_key(from);
    int order, error = cursor_->search_near(cursor_, &order);
    if (error == 0 && order < 0) error = cursor_->next(cursor_);
    for (; error == 0; error = cursor_->next(cursor_)) {
      WT_ITEM at;
      check(cursor_->get_key(cursor_, &at), "key");
      const Key key = bytes(at);
      if (!std::lexicographical_compare(key.begin(), key.end(), to.begin(), to.end()) ||
          !visit(key, value()))
        break;
    }
    if (error != WT_NOTFOUND) check_conflict(error, "scan");
    check(cursor_->reset(cursor_), "reset");
  }

 private:
  static void check_conflict(int error, const char *what) {
    if (error == WT_ROLLBACK) throw Conflict{};
    check(error, what);
  }
  void set_key(Key key) {
    const WT_ITEM item = item_of(key);
    cursor_->set_key(cursor_, &item);
  }
  void set_value(Row row) {
    const WT_ITEM item = item_of(row);
    cursor_->set_value(cursor_, &item);
  }
  Row value() {
    WT_ITEM item;
    check(cursor_->get_value(cursor_, &item), "value");
    return bytes(item);
  }

  WT_SESSION *session_;
  WT_CURSOR *cursor_;
};

class WiredTigerStore : public Store {
 public:
  explicit WiredTigerStore(const StoreOptions &options)
      : data_path_(options.directory + "/data.wt") {
    std::string config =
        "create,cache_size=" + std::to_string(options.memory) +
        ",log=(enabled=true,file_max=256MB),transaction_sync=(enabled=false),session_max=64,"
        "eviction=(threads_min=1,threads_max=2),statistics=(none)";
    if (options.direct_io) config += ",direct_io=[data]";
    check(wiredtiger_open(options.directory.c_str(), nullptr, config.c_str(), &connection_),
          "open");
    check(connection_->open_session(connection_, nullptr, nullptr, &session_), "session");
    check(session_->create(
              session_, kTable,
              "key_format=u,value_format=u,type=file,leaf_page_max=16KB,internal_page_max=16KB"),
          "create");
  }
  ~WiredTigerStore() override { check(connection_->close(connection_, "leak_memory"), "close"); }
  std::unique_ptr<Session> session(u32) override {
    return std::make_unique<WiredTigerSession>(connection_);
  }
  std::unique_ptr<Transactions> transactions(u32) override {
    return std::make_unique<WiredTigerTransactions>(connection_);
  }
  void settle() override { check(session_->checkpoint(session_, nullptr), "checkpoint"); }
  u64 data_bytes() override { return std::filesystem::file_size(data_path_); }

 private:
  const std::string data_path_;
  WT_CONNECTION *connection_;
  WT_SESSION *session_;
};

}  // namespace

const Peer kWiredTiger{
    "WiredTiger",
    "log enabled, transaction_sync off: written when its buffer is full, not synced",
    true,
    false,
    true,
    [](const StoreOptions &options) -> std::unique_ptr<Store> {
      return std::make_unique<WiredTigerStore>(options);
    }};

}  // namespace ls::bench
