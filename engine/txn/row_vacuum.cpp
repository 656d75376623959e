// row_vacuum.cpp - leaf by leaf through the blocks of a cell that are not known to be clean.
#include "txn/row_vacuum.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/prefetch.hpp"
#include "btree/read_ahead.hpp"
#include "txn/row_blocks.hpp"
#include "txn/row_leaf.hpp"
#include "txn/row_purge.hpp"

namespace ls {

namespace {

// Cells passed in one call: interrupts are the host's to look at.
constexpr u32 kCellsPassed = 1024;

// A fence as the first row id at or behind it.
u64 fence_row(Bytes fence) {
  u8 key[kRowKeyBytes] = {};
  std::copy_n(fence.begin(), std::min<size_t>(fence.size(), sizeof key), key);
  return decode_row_key(key);
}

// The rows of one cell.
class CellVacuum {
 public:
  CellVacuum(Worker &w, FileSlot &file, u64 cell_no, ls_vacuum *state)
      : w_(w), file_(file), state_(*state), shift_(block_shift(file.kind)),
        first_row_((cell_no * RowCell::kBlocks << shift_) + 1),
        own_(w.txns->row_blocks, file.file_no.load(std::memory_order_relaxed), cell_no),
        tree_(w.ctx, file), read_ahead_(w.ctx, file) {
    const u64 rows = state->end_row - first_row_;
    blocks_ = static_cast<u32>(
        std::min<u64>(RowCell::kBlocks, (rows + (u64{1} << shift_) - 1) >> shift_));
  }

  // Nothing is left to look at, by what is known; counts that.
  bool passes() {
    if (state_.all || !own_.get()) return false;
    for (u32 block = 0; block < blocks_; block++)
      if (!own_.get()->has(block, BlockFact::kClean)) return false;
    for (u32 block = 0; block < blocks_; block++) {
      count_block(block);
      state_.rows += own_.get()->rows[block];
    }
    return true;
  }

  // *next_row: where to go on.
  Status look(u64 *next_row) {
    begin();
    *next_row = row_of(blocks_);
    u64 behind = 0;
    for (u32 block = 0; block < blocks_;) {
      u32 end = block;
      while (end < blocks_ && look_at_[end]) end++;
      if (end == block) {
        block++;
        continue;
      }
      LS_TRY(look_at_rows(row_of(block), row_of(end), &behind));
      block = end;
    }
    finish();
    // Nothing for the rows from there to the next one, so their cells are passed.
    const bool all = std::all_of(look_at_, look_at_ + blocks_, [](bool look) { return look; });
    if (all && !found_any_ && behind > *next_row) *next_row = behind;
    return kOk;
  }

  // A block of which nothing is known.  True: it is full.
  bool look_at_full(u64 row_id) {
    const u32 block = static_cast<u32>((row_id - first_row_) >> shift_);
    RowCell *cell = own_.get();
    if (!cell || cell->has(block, BlockFact::kClean) || cell->has(block, BlockFact::kFull))
      return false;
    old_below_ = std::min<Tn>(settled_below(*w_.txns), state_.below);
    purges_ = false;
    cell->begin(block);
    u64 behind = 0;
    look_at_[block] = ok(look_at_rows(row_of(block), row_of(block + 1), &behind));
    return cell->settle(block, facts_of(block) & RowCell::bit(block, BlockFact::kFull));  // BLK-4
  }

 private:
  u64 row_of(u32 block) const { return first_row_ + (u64{block} << shift_); }

  void count_block(u32 block) {
    const RowCell *cell = own_.get();
    const bool vouched = cell && cell->has(block, BlockFact::kVouched);
    state_.blocks++;
    state_.clean += cell && cell->has(block, BlockFact::kClean);
    state_.not_vouched += !vouched;
    state_.visible += vouched || (cell && cell->has(block, BlockFact::kFull));
  }

  void begin() {
    // The horizon before the rows: what is below has ended.
    old_below_ = std::min<Tn>(settled_below(*w_.txns), state_.below);
    RowCell *cell = own_.get();
    for (u32 block = 0; block < blocks_; block++) {
      look_at_[block] = state_.all || !cell || !cell->has(block, BlockFact::kClean);
      if (!look_at_[block]) {
        state_.rows += cell->rows[block];
      } else if (cell) {
        cell->begin(block);
      }
    }
  }

  // Rows lo <= id < hi.  *behind: the first row behind them that there may be.
  Status look_at_rows(u64 lo, u64 hi, u64 *behind) {
    const RowKey from(lo), to(hi);
    BTree::ParentHint hook{.parent = {}, .ahead = &read_ahead_, .end = to};
    u8 fence[kMaxKeyBytes];
    Bytes bound = from;
    for (;;) {
      LS_TRY(tree_.leaf_copy(bound, page_, &hook));
      if (hook.next_page) prefetch(hook.next_page, kPageSize);
      if (purges_) LS_TRY(purge(bound, &hook));
      bool done = false;
      LS_TRY(look_at_leaf(bound, hi, behind, &done));
      if (done) return kOk;
      if (!node().has_upper) {
        *behind = state_.end_row;
        return kOk;
      }
      const Bytes upper = node().upper_fence();
      *behind = fence_row(upper);
      if (*behind >= hi) return kOk;
      std::copy(upper.begin(), upper.end(), fence);
      bound = Bytes(fence, upper.size());
    }
  }

  // The copy's ghosts that no snapshot needs go, and it is made again.
  Status purge(Bytes bound, BTree::ParentHint *hook) {
    for (u16 pos = node().position_of(bound); pos < node().count; pos++) {
      u64 row_id = 0;
      RowHeader header{};
      LS_TRY(row_at(pos, &row_id, &header));
      if (!header.has(LS_ROW_GHOST) || header.tn() >= old_below_) continue;
      PurgeResult purged;
      LS_TRY(purge_leaf(w_, file_, row_id, settled_below(*w_.txns), &purged));
      return tree_.leaf_copy(bound, page_, hook);
    }
    return kOk;
  }

  Status row_at(u16 pos, u64 *row_id, RowHeader *header) {
    u8 key[kMaxKeyBytes];
    const Bytes value = node().value(pos);
    if (node().copy_key(pos, key) != kRowKeyBytes)
      return fail_page(file_.path, node().header.page_no, "a key is not a row id");
    *row_id = decode_row_key(key);
    if (value.size() < sizeof(RowHeader))
      return fail_row(file_, *row_id, "shorter than its header");
    *header = RowHeader::load(value.data());
    return kOk;
  }

  // *done: the leaf has a row at or behind `hi`.
  Status look_at_leaf(Bytes bound, u64 hi, u64 *behind, bool *done) {
    for (u16 pos = node().position_of(bound); pos < node().count && !*done; pos++) {
      u64 row_id = 0;
      RowHeader header{};
      LS_TRY(row_at(pos, &row_id, &header));
      *done = row_id >= hi;
      if (*done) {
        *behind = row_id;
      } else {
        note_row(row_id, header, static_cast<u32>(node().value(pos).size()));
      }
    }
    return kOk;
  }

  void note_row(u64 row_id, const RowHeader &header, u32 bytes) {
    const u32 block = static_cast<u32>((row_id - first_row_) >> shift_);
    LS_ASSERT(row_id >= first_row_ && block < RowCell::kBlocks);
    const bool old = header.tn() < old_below_;
    const bool ghost = header.has(LS_ROW_GHOST);
    state_.waits |= !old && header.tn() < state_.below;
    unclean_[block] |= ghost || !old;
    found_any_ = true;
    if (ghost) {
      state_.ghosts++;
      return;
    }
    rows_[block]++;
    state_.rows++;
    state_.rows_looked_at++;
    state_.bytes += bytes - sizeof(RowHeader);
  }

  u64 facts_of(u32 block) const {
    if (!look_at_[block] || unclean_[block]) return 0;
    u64 facts = RowCell::bit(block, BlockFact::kClean);
    if (file_.kind == LS_REL_TABLE && rows_[block] == u32{1} << kRowsPerBlockShift)
      facts |= RowCell::bit(block, BlockFact::kFull);
    return facts;
  }

  void finish() {
    for (u32 block = 0; block < blocks_; block++) {
      if (look_at_[block]) {
        state_.looked_at++;
        if (own_.get() && own_.get()->settle(block, facts_of(block)))
          own_.get()->rows[block] = static_cast<u16>(rows_[block]);
      }
      count_block(block);
    }
  }

  const Node &node() const { return *reinterpret_cast<const Node *>(page_); }

  Worker &w_;
  FileSlot &file_;
  ls_vacuum &state_;
  const u32 shift_;
  const u64 first_row_;
  OwnCell own_;
  BTree tree_;
  ReadAhead read_ahead_;
  u32 blocks_;
  Tn old_below_ = 0;
  bool purges_ = true, found_any_ = false;
  bool look_at_[RowCell::kBlocks] = {}, unclean_[RowCell::kBlocks] = {};
  u32 rows_[RowCell::kBlocks] = {};
  alignas(64) u8 page_[kPageSize];
};

u64 cell_of(const FileSlot &file, u64 row_id) {
  return ((row_id - 1) >> block_shift(file.kind)) / RowCell::kBlocks;
}

}  // namespace

Status row_vacuum(Worker &w, FileSlot &file, ls_vacuum *state) {
  if (!has_rows(file.kind)) return fail(LS_INVALID, "VACUUM of what has no rows");
  u64 row_id = std::max<u64>(state->next_row, 1);
  for (u32 i = 0; i < kCellsPassed && row_id < state->end_row; i++) {
    const u64 cell_no = cell_of(file, row_id);
    CellVacuum cell(w, file, cell_no, state);
    row_id = ((cell_no + 1) * RowCell::kBlocks << block_shift(file.kind)) + 1;
    if (cell.passes()) continue;
    LS_TRY(cell.look(&row_id));
    break;
  }
  state->next_row = row_id;
  return kOk;
}

bool row_look_around(Worker &w, FileSlot &file, u64 row_id) {
  if (file.kind != LS_REL_TABLE) return false;
  // A scan that reads no row notes no writer: all have to be durable.
  ls_vacuum state{};
  state.below = w.shown.hardened_below();
  state.end_row = ~u64{0};
  return CellVacuum(w, file, cell_of(file, row_id), &state).look_at_full(row_id);
}

void row_vouch(Worker &w, FileSlot &file) {
  w.txns->row_blocks.vouch(file.file_no.load(std::memory_order_relaxed));
}

}  // namespace ls
