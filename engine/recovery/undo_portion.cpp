// undo_portion.cpp - changes added until memory is full, then divided into tasks by row.
#include "recovery/undo_portion.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace ls {

namespace {

// A portion's memory: so many changes, about 100 bytes each, and so many bytes that updates have
// replaced.
constexpr size_t kMostOps = 128 << 10;
constexpr size_t kMostBytes = 8 << 20;
// A task has about so many changes, or rows that were inserted: a thread that is done early finds
// another one.
constexpr u64 kTaskRows = UndoOp::kBlockRows;

auto place(const UndoOp &op) {
  // Insertions behind everything else of their block.
  return std::tuple(op.file->number, op.block(), op.inserts(), op.change.row_id);
}

}  // namespace

UndoPortion::UndoPortion() {
  ops_.reserve(kMostOps);
  bytes_.reserve(kMostBytes);
}

bool UndoPortion::add(const FileHandle &file, Tn tn, RowUndo *change) {
  const Bytes bytes = change->patch.fresh;
  for (;;) {
    if (ops_.size() == kMostOps || bytes.size() > kMostBytes - bytes_.size()) return false;
    UndoOp op{&file, tn, *change};
    op.change.count =
        std::min(change->count, UndoOp::kBlockRows - change->row_id % UndoOp::kBlockRows);
    op.change.patch.fresh = Bytes(bytes_.data() + bytes_.size(), bytes.size());
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    ops_.push_back(op);
    if (op.change.count == change->count) return true;
    change->row_id += op.change.count;
    change->count -= op.change.count;
  }
}

void UndoPortion::clear() {
  ops_.clear();
  bytes_.clear();
}

void UndoPortion::divide() {
  order_.resize(ops_.size());
  std::iota(order_.begin(), order_.end(), 0u);
  // Of a row's changes the one added first comes first.
  std::sort(order_.begin(), order_.end(), [this](u32 a, u32 b) {
    const auto left = place(ops_[a]), right = place(ops_[b]);
    return left != right ? left < right : a < b;
  });
  tasks_.clear();
  u64 rows = kTaskRows;
  const UndoOp *before = nullptr;
  for (u32 i = 0; i < order_.size(); i++) {
    const UndoOp &op = ops_[order_[i]];
    const bool same_file = before && op.file->number == before->file->number;
    if (!same_file || (rows >= kTaskRows && op.block() != before->block())) {
      tasks_.push_back(i);
      rows = 0;
    }
    rows += op.change.count;
    before = &op;
  }
}

}  // namespace ls
