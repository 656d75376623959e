// row_blocks.hpp - what is known of the rows of each block of row ids, in shared memory.
//
// A block is 256 row ids, as a logical block of the host is; in a file of values 16 values.  What
// VACUUM has found out stays known until the first change of a row of the block. So the next VACUUM
// looks only at blocks with changes, and a scan of an index alone fetches no rows of the others.
//
//   kClean    no ghosts; every row has one version that all snapshots see, and is durable
//   kFull     the same, and there is a row under every id of the block
//   kVouched  clean, and every entry of an index that leads into the block is of a row that is
//             there and has its key
//   kPending  rows are being looked at, to find that out
//
// Nothing is known of a block without a cell: memory is bounded, and a start begins with none.
//
// BLK-1  A worker that changes a row clears all that is known of its block, in one step, while it
//        has the row's leaf latched (RowLeaf::changed).  What a reader finds set is so for each
//        snapshot that it may have: a transaction that a snapshot sees has cleared before that was
//        taken.
// BLK-2  Set in two steps: kPending, then the rows are copied from their leaves, then kPending
//        becomes what was found, unless it has gone meanwhile.  A change that the copy does not
//        have was made after kPending was set, so it clears it.
// BLK-3  Ghosts that go, and insertions that are rolled back, clear nothing: nothing is known of a
//        block that has such rows.
// BLK-4  What is set is set by the owner of the cell (RowCell::owned), one at a time: kPending is
//        its own.  kClean and kVouched are set by VACUUM alone, of which the host runs one at a
//        time on a table: a block that is clean when indexes have been cleaned was so all the time.
//        A scan sets kFull, where nothing is known.
// BLK-5  kVouched is about the entries that the indexes have.  A scan that has copied entries may
//        have others: of rows that have gone since, or of keys that were taken back.  So vouches()
//        changes before kVouched is set.  A scan that has asked for it before it copied a leaf, and
//        finds it the same after it has found kVouched, has copied what was vouched for.
//        kFull is about rows alone: an entry of an index that is not marked leads to its row, if
//        there is one.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <initializer_list>
#include <iterator>

#include "base/status.hpp"
#include "buffer/page.hpp"

namespace ls {

enum class BlockFact : u32 { kPending = 0, kClean, kFull, kVouched };
inline constexpr u32 kBlockFacts = 4;
// Bits of one block.
constexpr u32 block_facts(std::initializer_list<BlockFact> facts) {
  u32 bits = 0;
  for (const BlockFact fact : facts) bits |= u32{1} << static_cast<u32>(fact);
  return bits;
}

inline constexpr u32 kRowsPerBlockShift = 8, kPlacesPerBlockShift = 12;
constexpr u32 block_shift(u32 kind) {
  return kind == LS_REL_VALUES ? kPlacesPerBlockShift : kRowsPerBlockShift;
}

// 64 blocks.
struct alignas(kCacheLine) RowCell {
  static constexpr u32 kBlocks = 64;
  static constexpr u32 kPerWord = 64 / kBlockFacts;

  std::atomic<u64> facts[kBlocks / kPerWord];   // a block's in neighbouring bits
  std::atomic<u32> owned;
  std::atomic<u32> moves;   // odd while it goes from one file, or place, to another
  // The owner's: rows of each block that is clean.
  u16 rows[kBlocks];

  static constexpr u64 bit(u32 block, BlockFact fact) {
    return u64{1} << (block % kPerWord * kBlockFacts + static_cast<u32>(fact));
  }
  // A fact of all blocks of a word.
  static constexpr u64 all(BlockFact fact) {
    return u64{0x1111'1111'1111'1111} << static_cast<u32>(fact);
  }
  bool has(u32 block, BlockFact fact) const {
    return (facts[block / kPerWord].load(std::memory_order_acquire) & bit(block, fact)) != 0;
  }
  void forget(u32 block) {
    std::atomic<u64> &word = facts[block / kPerWord];
    const u64 of_block = u64{0xf} << (block % kPerWord * kBlockFacts);
    if (word.load(std::memory_order_relaxed) & of_block)
      word.fetch_and(~of_block, std::memory_order_seq_cst);
  }
  // BLK-2, by the owner: the block's rows are going to be copied; and they have been, and these are
  // the facts (their bits), which may be none.  False: none is known, for one has changed.
  void begin(u32 block) {
    forget(block);
    facts[block / kPerWord].fetch_or(bit(block, BlockFact::kPending), std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  bool settle(u32 block, u64 found) {
    std::atomic<u64> &word = facts[block / kPerWord];
    const u64 pending = bit(block, BlockFact::kPending);
    u64 seen = word.load(std::memory_order_relaxed), now;
    do {
      if ((seen & pending) == 0) return false;
      now = (seen & ~pending) | found;
    } while (!word.compare_exchange_weak(seen, now, std::memory_order_seq_cst));
    return found != 0;
  }
};

// Which cells there are.  Those of neighbours are found by neighbouring tags, four to a bucket.
class RowBlocks {
 public:
  static size_t bytes_for(u64 frames);
  // memory: zeros, a cache line aligned.
  void init(void *memory, u64 frames);

  // BLK-1: rows from `first` to `last` have changed, their leaf is latched.
  void changed(u64 file_no, u32 kind, u64 first, u64 last) {
    const u32 shift = block_shift(kind);
    // As strong as BLK-2 needs it: the latch was taken by an atomic read-modify-write, and on this
    // machine no load passes that.
#if !defined(__x86_64__)
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
    const u64 last_block = (last - 1) >> shift;
    for (u64 block = (first - 1) >> shift; block <= last_block; block++) {
      const u64 cell_no = block / RowCell::kBlocks;
      const Bucket &bucket = bucket_of(file_no, cell_no);
      // Two workers may have made a cell each.
      for (u32 i = 0; i < kWays; i++) {
        if (bucket.tags[i].is(file_no, cell_no))
          cells_[cell_index(bucket, i)].forget(static_cast<u32>(block % RowCell::kBlocks));
      }
    }
  }

  // The words of the cell that was asked last, for rows of its other blocks.
  struct SeenCell {
    u64 number = ~u64{0};
    u64 facts[RowCell::kBlocks / RowCell::kPerWord];
  };

  // What is known of the block of a row: bits of a block.
  u32 facts(u64 file_no, u32 kind, u64 row_id, SeenCell *seen) const {
    const u64 block = (row_id - 1) >> block_shift(kind);
    if (seen->number != block / RowCell::kBlocks) look(file_no, block / RowCell::kBlocks, seen);
    const u32 in_cell = static_cast<u32>(block % RowCell::kBlocks);
    const u64 word = seen->facts[in_cell / RowCell::kPerWord];
    return static_cast<u32>(word >> (in_cell % RowCell::kPerWord * kBlockFacts)) &
           ((1u << kBlockFacts) - 1);
  }
  u32 facts(u64 file_no, u32 kind, u64 row_id) const {
    SeenCell seen;
    return facts(file_no, kind, row_id, &seen);
  }
  // Is one of these?
  bool known(u64 file_no, u32 kind, u64 row_id, u32 wanted) const {
    return (facts(file_no, kind, row_id) & wanted) != 0;
  }

  // The cell becomes the caller's until release(); made if there is none.  Null: it is another
  // worker's, or no place is free.
  RowCell *own(u64 file_no, u64 cell_no);
  // kVouched for all blocks of a file that are clean.
  void vouch(u64 file_no);
  // BLK-5.  No two files have the same number but those that share the counter.
  u64 vouches(u64 file_no) const {
    const u64 place = file_no % kVouchCounters;
    return vouches_[place].load(std::memory_order_seq_cst) * kVouchCounters + place;
  }
  static void release(RowCell *cell) { cell->owned.store(0, std::memory_order_release); }

  // What is known of 64 blocks, as it is kept over a clean end (store/kept_blocks.hpp).
  struct Known {
    u64 file_no, cell_no;
    u64 facts[RowCell::kBlocks / RowCell::kPerWord];
    u16 rows[RowCell::kBlocks];
  };
  static constexpr u64 kKept = RowCell::all(BlockFact::kClean) | RowCell::all(BlockFact::kFull) |
                               RowCell::all(BlockFact::kVouched);
  // Of every cell in which something is known: each(known), as long as that is kOk.  No worker is
  // there any more.
  template <typename Each>
  Status each_known(Each &&each) const;
  // No worker is there yet.
  void put(const Known &known);

 private:
  static constexpr u32 kWays = 4;
  static constexpr u64 kVouchCounters = 256;

  struct Tag {
    std::atomic<u64> file_no, cell_no;
    bool is(u64 file, u64 cell) const {
      return file_no.load(std::memory_order_acquire) == file &&
             cell_no.load(std::memory_order_acquire) == cell;
    }
  };
  struct alignas(kCacheLine) Bucket {
    Tag tags[kWays];
  };

  static u64 buckets_for(u64 frames) {
    constexpr u64 kFewest = 256, kFramesPerBucket = 64;
    return std::bit_ceil(frames / kFramesPerBucket < kFewest ? kFewest : frames / kFramesPerBucket);
  }
  Bucket &bucket_of(u64 file_no, u64 cell_no) const {
    const u64 h = file_no * 0x9e3779b97f4a7c15ull;
    return buckets_[((h ^ h >> 32) + cell_no) & mask_];
  }
  size_t cell_index(const Bucket &bucket, u32 way) const {
    return static_cast<size_t>(&bucket - buckets_) * kWays + way;
  }
  void look(u64 file_no, u64 cell_no, SeenCell *seen) const {
    *seen = {.number = cell_no, .facts = {}};
    const Bucket &bucket = bucket_of(file_no, cell_no);
    for (u32 i = 0; i < kWays; i++) {
      const RowCell &cell = cells_[cell_index(bucket, i)];
      const u32 moves = cell.moves.load(std::memory_order_acquire);
      if (!bucket.tags[i].is(file_no, cell_no)) continue;
      for (u32 word = 0; word < std::size(seen->facts); word++)
        seen->facts[word] = cell.facts[word].load(std::memory_order_acquire);
      // What was found is this file's: it was this file's cell all the time.
      if (moves % 2 != 0 || cell.moves.load(std::memory_order_acquire) != moves)
        *seen = {.number = cell_no, .facts = {}};
      return;
    }
  }

  Bucket *buckets_ = nullptr;
  RowCell *cells_ = nullptr;
  u64 mask_ = 0;
  std::atomic<u64> vouches_[kVouchCounters] = {};
};

template <typename Each>
Status RowBlocks::each_known(Each &&each) const {
  for (u64 i = 0; i <= mask_; i++) {
    for (u32 way = 0; way < kWays; way++) {
      const Tag &tag = buckets_[i].tags[way];
      const RowCell &cell = cells_[cell_index(buckets_[i], way)];
      Known known{.file_no = tag.file_no.load(std::memory_order_acquire),
                  .cell_no = tag.cell_no.load(std::memory_order_acquire), .facts = {}, .rows = {}};
      u64 any = 0;
      for (u32 word = 0; word < std::size(known.facts); word++)
        any |= known.facts[word] = cell.facts[word].load(std::memory_order_acquire) & kKept;
      if (known.file_no == 0 || any == 0) continue;
      std::copy(std::begin(cell.rows), std::end(cell.rows), known.rows);
      LS_TRY(each(known));
    }
  }
  return kOk;
}

// A cell that is owned for the length of a block of code.
class OwnCell {
 public:
  OwnCell(RowBlocks &blocks, u64 file_no, u64 cell_no) : cell_(blocks.own(file_no, cell_no)) {}
  ~OwnCell() {
    if (cell_) RowBlocks::release(cell_);
  }
  OwnCell(const OwnCell &) = delete;
  OwnCell &operator=(const OwnCell &) = delete;
  RowCell *get() const { return cell_; }

 private:
  RowCell *cell_;
};

}  // namespace ls
