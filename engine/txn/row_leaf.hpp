// row_leaf.hpp - one row in its leaf, exclusively latched, and the bytes of a table leaf's values.
//
// Value of a row = RowHeader | payload | moved_to (8 bytes, only with LS_ROW_MOVED).
#pragma once
#include "base/check.hpp"
#include "txn/worker.hpp"

namespace ls {

inline constexpr u32 kMovedBytes = 8;
inline constexpr u32 kMaxLeafRows = kNodeSpace / (kDenseSlotBytes + sizeof(RowHeader));
inline constexpr u32 kMaxRowValueBytes = sizeof(RowHeader) + LS_MAX_ROW_BYTES + kMovedBytes;
static_assert(kMaxRowValueBytes <= LS_ROW_BUFFER_BYTES &&
              kMaxRowValueBytes <= Node::max_value_bytes(kRowKeyBytes));

struct RowKey {
  u8 bytes[kRowKeyBytes];
  explicit RowKey(u64 row_id) { encode_row_key(row_id, bytes); }
  operator Bytes() const { return Bytes(bytes, kRowKeyBytes); }
};

// Room that a row takes in a leaf, slot included (at most: a leaf's prefix makes it less).
inline constexpr u32 row_room(u32 payload_bytes) {
  return Node::most_entry_bytes(kRowKeyBytes, static_cast<u32>(sizeof(RowHeader)) + payload_bytes);
}
// Room that a change of its length needs.
inline constexpr u32 growth(u32 old_bytes, u32 new_bytes) {
  return new_bytes > old_bytes ? new_bytes - old_bytes : 0;
}

// A value split; the payload without moved_to.
struct RowParts {
  RowHeader header{};
  Bytes payload;
  u64 moved_to = 0;
};
// False when the bytes can not be a row.
bool split_row(Bytes value, RowParts *parts);
// What is wrong with bytes that come from a file, as those of a row; null: nothing.
const char *row_fault(Bytes value, RowParts *parts);
Status fail_row(const FileSlot &file, u64 row_id, const char *what);

// The leaf of a row, latched exclusively by open().
class RowLeaf {
 public:
  // With at least `need` free bytes.  *file gone*: LS_NOT_FOUND; an absent row is no failure:
  // found().
  Status open(Worker &w, FileSlot &file, u64 row_id, u32 need);
  bool found() const { return found_; }
  u16 position() const { return pos_; }   // of the row, or where it would be
  RowHeader header() const {
    LS_ASSERT(found_);
    return RowHeader::load(value().data());
  }
  Bytes value() const { return node()->value(pos_); }
  Bytes payload() const { return value().subspan(sizeof(RowHeader)); }
  PageNo page_no() const { return node()->header.page_no; }
  bool is_small() const { return node()->used_bytes() < kPageSize / 4; }

  // Changes; the row must be there (insert: must not).  False when the leaf has no room.
  bool insert(Bytes key, const RowHeader &header, Bytes payload);
  // The row of open() and those after it in ascending order, as many as belong here and fit; how
  // many: 0 when the leaf has no room.
  u32 insert_many(u64 row_id, const RowHeader &header, std::span<const ls_bytes> rows);
  bool set(const RowHeader &header, Bytes payload, Bytes tail = {});
  void set_header(const RowHeader &header) {
    LS_ASSERT(found_);
    header.store(node()->value_data(pos_));
  }
  void remove() {
    LS_ASSERT(found_);
    node()->remove(pos_);
    found_ = false;
  }

  // The caller has changed the leaf; gsn: of the record, 0: not logged.  It closes next.
  void changed(Gsn gsn) {
    pool_->mark_changed(log_, guard_.frame(), gsn);
    blocks_->changed(file_no_, kind_, first_, last_);
  }
  // The same where only ghosts that no snapshot needs have gone (BLK-3).
  void purged(Gsn gsn) { pool_->mark_changed(log_, guard_.frame(), gsn); }
  // The same where only lock bits of a header have changed: not logged, but not lost by eviction
  // either.  Log space was reserved before open(), of 0 bytes.
  void changed_hint() { pool_->mark_dirty_hint(log_, guard_.frame()); }
  // The same where redo has the file's pages to itself, and only HAS_PREV has changed.
  void changed_as_redone() { pool_->mark_dirty(guard_.frame(), node()->header.gsn); }
  void close() { guard_.reset(); }
  Node *node() const { return reinterpret_cast<Node *>(guard_.page()); }

 private:
  ExclusiveGuard guard_;
  BufferPool *pool_ = nullptr;
  LogAppender *log_ = nullptr;
  RowBlocks *blocks_ = nullptr;
  FileNo file_no_ = 0;
  u8 kind_ = 0;
  u64 first_ = 0, last_ = 0;   // rows that are changed, for BLK-1
  u16 pos_ = 0;
  bool found_ = false;
};

// After removals: merge the leaf of the row with a neighbour if that works out.  No latch held;
// never an error, the leaf just stays small.
void merge_small_leaf(Worker &w, FileSlot &file, u64 row_id);

// Rows with consecutive ids; stops before one that is not for this leaf, is there already, or does
// not fit.  Redo uses the same.
u32 insert_rows(Node *node, u64 row_id, const RowHeader &header, std::span<const ls_bytes> rows);

// Overwrite the value at `pos`; false when the leaf has no room.  Redo uses the same, so it does
// the same.
bool set_row(Node *node, u16 pos, const RowHeader &header, Bytes payload, Bytes tail = {});

}  // namespace ls
