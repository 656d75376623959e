// version_store.hpp - older versions and runtime undo: buffer-managed B-trees keyed by (tn, seq),
// partitioned by tn, so concurrent transactions write different right edges and a long transaction
// spills to disk instead of filling memory.  Not logged, not recovered: after a restart no snapshot
// needs an old version, and losers are undone from the log.
//
// Value = VersionEntry head | row payload of the version (kUpdate only).
//   kInsert   rows [row_id, row_id + count) were inserted under this seq; undo removes those that
//             still carry (tn, seq)
//   kUpdate   `previous` header and payload of the row before the change
//   kDelete   `previous` header; the payload is still in the leaf under the ghost (MOVED: 8 bytes
//             moved_to appended there).  With `run` it stands for that many entries of deletions
//             (VER-4)
//   kLock     row locks were taken.  Of a row that the transaction had locked before: undo gives
//             the lock tree entry back the weaker mode.  Else row_id is that of a block of rows
//             (RLOCK-5 in txn/row_lock_table.hpp): undo removes the entries taken under this seq
// Entries of one transaction in descending seq are its rollback.
//
// VER-1  Only transaction tn writes entries (tn, *) while it runs.  Later a transaction that has
//        changed the row may relink and remove them (txn/version_prune.hpp); the cleaner removes
//        those below the horizon, where no snapshot looks.
// VER-2  What an entry that a row header points to says of `previous` never changes.  (One written
//        ahead of a change that was not made after all is overwritten by the transaction's next
//        change.)
// VER-3  `older` leads to the version before `previous`; none when no snapshot needs it: one that
//        does not see `previous` sees no row.
// VER-4  A run begins at a sequence number that kVersionRun divides.  Its i-th entry, of the i-th
//        row and sequence number from there on, has the same `previous`.  Its transaction gives
//        these numbers to nothing else.
#pragma once
#include "btree/tree.hpp"
#include "version/row_header.hpp"
#include "version/version_leaves.hpp"

namespace ls {

enum class VersionOp : u8 { kInsert = 1, kUpdate = 2, kDelete = 3, kLock = 4 };

struct VersionLocator {
  Tn tn = 0;
  u32 seq = 0;
  explicit operator bool() const { return tn != 0; }
};

struct VersionEntry {
  VersionOp op;
  u8 had_mode;          // kLock: mode held before + 1, 0: none
  u16 run;              // kDelete: VER-4; 0: of one row
  u32 count;            // kInsert; for others the part that wrote: part()
  FileNo file_no;       // a forgotten file's entries are skipped
  u64 file_slot : 24;   // FileSlot index: where the file was open
  u64 row_id : 40;
  RowHeader previous;   // kUpdate, kDelete
  u64 older_tn;         // where the version before `previous` is; 0: no snapshot needs it
  u32 older_seq;        // kLock: seq of the mode held before; kInsert: the part that wrote
  u32 payload_bytes;
  // The host's name for the part of the transaction that wrote this and may be rolled back by
  // itself; 0: it has none.
  u32 part() const { return op == VersionOp::kInsert ? older_seq : count; }
  void set_part(u32 part) { (op == VersionOp::kInsert ? older_seq : count) = part; }
  VersionLocator older() const { return {older_tn, older_seq}; }
  u64 rows_end() const { return row_id + (run != 0 ? run : 1u); }
};
inline constexpr u32 kVersionRun = 64;   // at most so many entries in a run
static_assert(sizeof(VersionEntry) == 56 && LS_MAX_ROW_ID < u64{1} << 40);

// tn: 6 bytes, big endian | seq: 1, 2 or 5 bytes in memcmp order, the smallest that do.  So small
// that what the fences leave of it mostly is the slot's head: looking for an entry does not touch
// the heap (10 percent of a reader's scan over old versions).
inline constexpr u32 kVersionTnBytes = 6;
inline constexpr u32 kMaxVersionKeyBytes = kVersionTnBytes + 5;
inline constexpr u32 kMaxVersionBytes = sizeof(VersionEntry) + LS_MAX_ROW_BYTES;
static_assert(kMaxVersionBytes <= Node::max_value_bytes(kMaxVersionKeyBytes));

struct VersionKey {
  u8 bytes[kMaxVersionKeyBytes];
  u32 length = 0;
  VersionKey() = default;
  VersionKey(Tn tn, u32 seq);
  operator Bytes() const { return Bytes(bytes, length); }
};
// False when the bytes can not be a key.
bool decode_version_key(Bytes key, VersionLocator *at);

// The version before `previous` in the chain that a new version continues: none once every snapshot
// sees `previous`.  (Versions in the middle of a chain that no snapshot needs are cut out by
// txn/version_prune.hpp.)
VersionLocator older_needed(const RowHeader &previous, Tn horizon);

// One partition.
class VersionStore {
 public:
  VersionStore(Ctx &ctx, FileSlot &file, VersionLeaves &leaves)
      : tree_(ctx, file), leaves_(leaves) {}

  // Write or overwrite.  Holds no latch before and after.
  Status put(VersionLocator at, const VersionEntry &entry, Bytes payload);
  // Copy an entry to `out` (kPageSize bytes, 8-aligned), payload behind the head.  That of a run is
  // given as its row's alone, but for `run`.  LS_NOT_FOUND: rolled back or cleaned.
  Status get(VersionLocator at, u8 *out, const VersionEntry **entry);
  // The same of the entry where a hint says; null when it is not there any more.
  const VersionEntry *at_hint(const LeafHint &hint, u8 *out);
  // Descending over the entries of a transaction with seq in [from, before): copies into `leaf`
  // (kPageSize) and calls each on the copy, no latch held; then removes them.  Only by the owner
  // (VER-1).
  Status take_back(Tn tn, u32 from, u32 before, u8 *leaf, void *arg,
                   Status (*each)(void *arg, u32 seq, const VersionEntry &entry, Bytes payload));

  // Ascending over the entries of a transaction: calls each on a copy, no latch held.  Only by the
  // owner (VER-1).
  Status for_each(Tn tn, void *arg,
                  Status (*each)(void *arg, u32 seq, const VersionEntry &entry, Bytes payload));

  // Remove one entry, or a whole run by its first number; absent is fine.
  Status remove(VersionLocator at) { return remove_in_leaf(at.tn, at.seq, at.seq + 1); }

  // The frame where the entry probably is; null: not known.
  Frame *guess(VersionLocator at);

  BTree &tree() { return tree_; }

 private:
  Status read(VersionLocator at, u8 *out, VersionEntry **entry);
  Status remove_in_leaf(Tn tn, u32 first, u32 before);

  BTree tree_;
  VersionLeaves &leaves_;
};

// Split a version tree's value; false when it does not make sense.
bool parse_version(Bytes value, VersionEntry *entry, Bytes *payload);

}  // namespace ls
