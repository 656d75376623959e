// undo_spool.cpp - undo in memory, the largest transactions to their files, and back again.
#include "recovery/undo_spool.hpp"

#include <algorithm>

namespace ls {

UndoSpool::Transaction &UndoSpool::of(Tn tn) {
  const auto [at, is_new] = txns_.try_emplace(tn);
  if (is_new) at->second.inserted.count = 0;
  return at->second;
}

Status UndoSpool::add(Tn tn, const RowUndo &undo) {
  Transaction &txn = of(tn);
  if (txn.inserted.count > 0 && txn.inserted.extend(undo)) return kOk;
  end_range(txn);
  if (undo.code == kRowInsert) {
    txn.inserted = undo;
  } else {
    put(txn, undo);
  }
  return bytes_ > most_bytes_ ? make_room() : kOk;
}

Status UndoSpool::add_record(Tn tn, LogOpReader reader, std::set<FileNo> *files) {
  for (;;) {
    LogOp op;
    bool end;
    LS_TRY(reader.next(&op, &end));
    if (end) return kOk;
    RowUndo undo;
    LS_TRY(row_undo_of(op, &undo));
    LS_TRY(add(tn, undo));
    if (files) files->insert(undo.file);
  }
}

void UndoSpool::put(Transaction &txn, const RowUndo &undo) {
  const size_t before = txn.bytes();
  txn.items.add(kUndoRow, pack_row_undo(undo), undo.patch.fresh);
  bytes_ += txn.bytes() - before;
}

void UndoSpool::end_range(Transaction &txn) {
  if (txn.inserted.count > 0) put(txn, txn.inserted);
  txn.inserted.count = 0;
}

// The transactions that have most: few large pieces, however many transactions there are.
Status UndoSpool::make_room() {
  while (bytes_ > most_bytes_ / 2) {
    const auto most = std::max_element(
        txns_.begin(), txns_.end(),
        [](const auto &a, const auto &b) { return a.second.bytes() < b.second.bytes(); });
    LS_TRY(spill(most->first, most->second));
  }
  return kOk;
}

Status UndoSpool::spill(Tn tn, Transaction &txn) {
  if (!txn.file) txn.file.emplace(path_of(tn), tn);
  LS_TRY(txn.file->append(txn.items.bytes()));
  bytes_ -= txn.bytes();
  txn.items.clear();
  return kOk;
}

Status UndoSpool::write(Tn tn, UndoEnd *end) {
  Transaction &txn = of(tn);
  end_range(txn);
  if (txn.bytes() > 0) LS_TRY(spill(tn, txn));
  *end = txn.file ? txn.file->end() : UndoEnd{};
  return end->bytes > 0 ? txn.file->sync() : kOk;
}

Status UndoSpool::backward(Tn tn, const std::function<Status(const RowUndo &)> &each) {
  Transaction &txn = of(tn);
  end_range(txn);
  const UndoFile file = txn.file ? *txn.file : UndoFile(path_of(tn), tn);
  const auto undo = [&](const UndoItem &item) {
    RowUndo change;
    if (item.kind != kUndoRow || !parse_row_undo(item.bytes, &change)) return file.damaged();
    return each(change);
  };
  LS_TRY(undo_backward(file, txn.items.bytes(), undo));
  return file.backward(undo);
}

}  // namespace ls
