// removal_log.hpp - what the log says of the entries of an index and of the transactions around
// them: the entries that a record removes are found by replaying all records before it.
//
// For an index of one leaf.
#pragma once
#include <algorithm>

#include "btree/tree_redo.hpp"
#include "index/index.hpp"
#include "index/index_log.hpp"
#include "txn/row_purge.hpp"
#include "unit/txn/txn_fixture.hpp"
#include "unit/wal/log_image.hpp"

namespace ls::txn_test {

struct IndexedRow {
  u64 key, row_id;
  auto operator<=>(const IndexedRow &) const = default;
};

// Big endian: in the order of the numbers.
inline std::string key_bytes(u64 key) {
  return {static_cast<char>(key >> 8), static_cast<char>(key)};
}
inline IndexedRow row_of_entry(Bytes entry) {
  const Bytes key = entry_key(entry);
  return {u64{key[0]} << 8 | key[1], entry_row_id(entry)};
}

struct LogEvent {
  enum class Kind { kEnd, kRowsRemoved, kEntriesRemoved } kind;
  Tn tn = 0;                        // kEnd: of the transaction; kEntriesRemoved: newest
  bool committed = false;           // kEnd
  std::vector<u64> rows;            // kRowsRemoved
  std::vector<IndexedRow> entries;  // kEntriesRemoved
};

class RemovalLog {
 public:
  RemovalLog(Engine &engine, const FileSlot &table, const FileSlot &index)
      : table_(table.file_no.load()), index_(index.file_no.load()) {
    EXPECT_TRUE(engine.log().wait_hardened(engine.log().last_gsn(), nullptr));
    LogImage image;
    EXPECT_TRUE(ok(read_log((engine.path() + "/wal").c_str(), 4 << 20, 0, 0, image)))
        << last_error().message;
    for (const LogEntry &e : image.entries) take(e.record());
  }

  const std::vector<LogEvent> &events() const { return events_; }
  std::vector<LogEvent> removals() const {
    std::vector<LogEvent> found;
    for (const LogEvent &e : events_)
      if (e.kind == LogEvent::Kind::kEntriesRemoved) found.push_back(e);
    return found;
  }

 private:
  void take(const LogRecord &record) {
    if (record.kind == RecordKind::kCommit || record.kind == RecordKind::kAborted)
      events_.push_back({.kind = LogEvent::Kind::kEnd, .tn = record.tn(),
                         .committed = record.kind == RecordKind::kCommit});
    for (LogBytes left = has_page_operations(record.kind) ? record.body : LogBytes();
         !left.empty();) {
      LogOp op;
      ASSERT_EQ(load_op(&left, &op), nullptr);
      if (op.file == table_ && op.code == kRowRemove) take_rows(op);
      if (op.file == index_) take_entries(op);
    }
  }
  void take_rows(const LogOp &op) {
    LogEvent event{.kind = LogEvent::Kind::kRowsRemoved};
    LogUnpacker in(op.operands);
    for (u64 row_id = 0; in.left() > 0;) event.rows.push_back(row_id += unzigzag(in.number()));
    events_.push_back(std::move(event));
  }
  void take_entries(const LogOp &op) {
    ASSERT_NE(op.code, kTreeTruncate) << "the index is to have one leaf";
    if (op.code == kIndexInsert) {
      LogUnpacker in(op.operands);
      const IndexedRow entry = row_of_entry(in.take(in.number()));
      leaf_.insert(std::upper_bound(leaf_.begin(), leaf_.end(), entry), entry);
    }
    LogEvent event{.kind = LogEvent::Kind::kEntriesRemoved};
    if (!index_removal_newest(op.code, op.operands, &event.tn)) return;
    ASSERT_EQ(op.code, kIndexRemoveDated);
    LogUnpacker in(op.operands);
    in.number();
    const Bytes list = in.rest();
    for (size_t at = list.size(); at > sizeof(u16); at -= sizeof(u16)) {
      u16 pos;
      std::memcpy(&pos, list.data() + at - sizeof pos, sizeof pos);
      ASSERT_LT(pos, leaf_.size());
      event.entries.push_back(leaf_[pos]);
      leaf_.erase(leaf_.begin() + pos);
    }
    events_.push_back(std::move(event));
  }

  const FileNo table_, index_;
  std::vector<IndexedRow> leaf_;
  std::vector<LogEvent> events_;
};

// A table with an index, as a host works on them.  A row is its key.
struct IndexedTable {
  Engine engine;
  Host host{engine};
  FileSlot &table{*engine.open("table")}, &index{*engine.open("index", LS_REL_INDEX)};
  const IndexAt at{index, table};

  void add_entry(Session &s, u64 key, u64 row_id) {
    const std::string bytes = key_bytes(key);
    const Status status = index_insert(s.worker(), at, {bytes_of(bytes), row_id, {}});
    EXPECT_TRUE(ok(status) || code(status) == LS_EXISTS) << last_error().message;
  }
  void insert(Session &s, u64 key, u64 row_id) {
    TXN_EXPECT_OK(s.insert(table, row_id, key_bytes(key)));
    add_entry(s, key, row_id);
  }
  // The entry of the old key becomes stale.
  void rekey(Session &s, u64 key, u64 row_id) {
    TXN_EXPECT_OK(index_note_stale(s.worker(), index));
    TXN_EXPECT_OK(s.update(table, row_id, key_bytes(key)));
    add_entry(s, key, row_id);
  }
  void remove_entry(Session &s, u64 key, u64 row_id) {
    const std::string bytes = key_bytes(key);
    TXN_EXPECT_OK(index_remove(s.worker(), at, bytes_of(bytes), row_id));
  }
  // As ls_index_remove_stale() does it.
  bool remove_stale(Session &s, u64 key, u64 row_id) {
    const std::string bytes = key_bytes(key);
    BTree::PageStamp seen;
    if (!ok(index_look(s.worker(), index, bytes_of(bytes), row_id, &seen))) return false;
    ls_snapshot any{};
    any.kind = LS_SNAPSHOT_ANY;
    std::string newest;
    Tn tn = 0;
    if (ok(s.fetch(table, row_id, any, &newest))) {
      tn = s.row.writer_tn;
      const bool ghost = (s.row.flags & LS_ROW_GHOST) != 0;
      if (tn_is_active(engine.txns(), tn) ||
          version_needed(engine.txns().snapshots, kEarliestTn, tn) || (!ghost && newest == bytes))
        return false;
    }
    bool removed = false;
    TXN_EXPECT_OK(
        index_remove_seen(s.worker(), index, {bytes_of(bytes), row_id, seen, tn}, &removed));
    return removed;
  }
  void sweep(Session &s) {
    ls_index_position position{};
    u64 entries = 0, removed = 0;
    EXPECT_EQ(code(index_sweep(s.worker(), at, 10, &position, &entries, &removed)), LS_END);
  }
  void purge(Session &s, u64 row_id, bool unseen = false) {
    PurgeResult result;
    if (unseen)
      TXN_EXPECT_OK(purge_unseen(s.worker(), table, row_id, &result));
    else
      TXN_EXPECT_OK(purge_leaf(s.worker(), table, row_id, settled_below(engine.txns()), &result));
  }
};

}  // namespace ls::txn_test
