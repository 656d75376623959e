// loser_undo.cpp - changes gathered in portions, undone by a crew, fates logged.
#include "recovery/loser_undo.hpp"

#include <algorithm>

#include "base/failpoint.hpp"
#include "base/interrupt.hpp"
#include "btree/leaf_reads.hpp"
#include "btree/tree.hpp"
#include "buffer/file_use.hpp"
#include "recovery/crew.hpp"
#include "recovery/loser_files.hpp"
#include "recovery/undo_portion.hpp"
#include "txn/row.hpp"

namespace ls {

namespace {

// Reads leaves together that the next updates and deletions want.  Insertions are ranges, which do
// that themselves.
void bring_in(Worker &w, FileSlot &file, const UndoPortion::Rest &next, LeafReads &reads) {
  // Rows with ids so near are in one leaf, or in leaves that are all wanted.
  constexpr u64 kNear = 32;
  struct Rows { u64 first, last; };
  Rows rows[LeafReads::kMost];
  u32 n = 0;
  for (size_t i = 0; i < next.size() && !next[i].inserts(); i++) {
    const u64 row_id = next[i].change.row_id;
    if (n > 0 && row_id - rows[n - 1].last <= kNear) {
      rows[n - 1].last = row_id;
    } else if (n < LeafReads::kMost) {
      rows[n++] = {row_id, row_id};
    } else {
      break;
    }
  }
  u8 keys[2 * LeafReads::kMost][kRowKeyBytes];
  BTree::KeyRange ranges[LeafReads::kMost];
  for (u32 i = 0; i < n; i++) {
    encode_row_key(rows[i].first, keys[2 * i]);
    encode_row_key(rows[i].last, keys[2 * i + 1]);
    ranges[i] = {Bytes(keys[2 * i], kRowKeyBytes), Bytes(keys[2 * i + 1], kRowKeyBytes)};
  }
  BTree(w.ctx, file).bring_in(reads, {ranges, n});
}

// Gathers changes in portions, has the tasks of each done by several threads, and ends the losers
// of which everything is undone.
class Undoer {
 public:
  Undoer(Worker &w, std::span<const u32> slots, UndoSpool &undo, const LogAnalysis &analysis,
         UndoStats &stats)
      : w_(w), slots_(slots), undo_(undo), files_(w, analysis), stats_(stats) {}

  Status run(const std::vector<Tn> &losers) {
    for (Tn tn : losers) {
      LS_TRY(undo_.backward(tn, [&](const RowUndo &change) { return add(tn, change); }));
      gathered_.push_back(tn);
    }
    LS_TRY(undo_portion());
    return go_on(w_);   // a start that was cancelled goes no further
  }

 private:
  static Status go_on(const Worker &w) {
    return interrupt_pending(w.ctx.interrupt) ? fail(LS_INTERRUPTED, "recovery was cancelled")
                                              : kOk;
  }

  Status add(Tn tn, RowUndo change) {
    LS_TRY(go_on(w_));
    stats_.records++;
    const FileHandle *file;
    LS_TRY(files_.find(change.file, &file));
    while (file && !portion_.add(*file, tn, &change)) LS_TRY(undo_portion());
    return kOk;
  }

  Status undo_portion() {
    portion_.divide();
    taken_.store(0, std::memory_order_relaxed);
    const size_t threads = std::min({slots_.size(), portion_.tasks(), size_t{Crew::kMost}});
    Crew crew;
    LS_TRY(crew.run("ls undo", static_cast<u32>(threads),
                    [&](u32 member) { return take_tasks(crew, member); }));
    LS_FAILPOINT(recovery_before_fate);
    portion_.clear();
    for (Tn tn : gathered_) LS_TRY(log_fate(w_, RecordKind::kAborted, tn));
    stats_.losers += gathered_.size();
    gathered_.clear();
    return kOk;
  }

  Status take_tasks(const Crew &crew, u32 member) {
    Worker worker(w_.pool, w_.log.log(), w_.txns, slots_[member]);
    worker.ctx.interrupt = w_.ctx.interrupt;
    worker.ctx.must_open = true;
    LeafReads reads;
    for (;;) {
      FileUse use;
      const size_t task = taken_.fetch_add(1, std::memory_order_relaxed);
      if (task >= portion_.tasks() || crew.failed()) return kOk;
      LS_TRY(portion_.undo(task, [&](const UndoOp &op, const UndoPortion::Rest &rest) -> Status {
        LS_TRY(go_on(worker));
        FileHandle file = *op.file;   // others have it, too
        if (!use) LS_TRY(use.begin(worker.ctx, &file));
        const u64 pages_read = worker.ctx.pages.read;
        LS_TRY(row_undo(worker, use.file(), op.change, op.tn, reads));
        if (worker.ctx.pages.read != pages_read) bring_in(worker, use.file(), rest, reads);
        return kOk;
      }));
    }
  }

  Worker &w_;
  const std::span<const u32> slots_;
  UndoSpool &undo_;
  LoserFiles files_;
  UndoStats &stats_;
  UndoPortion portion_;
  std::atomic<size_t> taken_{0};   // tasks of it
  std::vector<Tn> gathered_;       // losers of which no change is left behind the portion
};

}  // namespace

Status undo_losers(Worker &w, std::span<const u32> slots, UndoSpool &undo,
                   const LogAnalysis &analysis, const std::vector<Tn> &losers, UndoStats *stats) {
  return losers.empty() ? kOk : Undoer(w, slots, undo, analysis, *stats).run(losers);
}

Status log_fate(Worker &w, RecordKind kind, Tn tn) {
  LS_TRY(w.log.reserve(kMaxRecordHeadBytes + kMaxVarintBytes, nullptr));
  w.log.start(kind);
  w.log.number(tn);
  w.log.finish();
  return kOk;
}

}  // namespace ls
