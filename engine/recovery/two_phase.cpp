// two_phase.cpp - prepared transactions taken up again, or undone as the host says.
#include "recovery/two_phase.hpp"

#include <algorithm>

#include "txn/followed_rows.hpp"
#include "txn/prepared.hpp"
#include "txn/rollback.hpp"
#include "txn/row_conflict.hpp"

namespace ls {

namespace {

constexpr u8 kRestartFlags = kVolatileFlags;   // mean nothing after a restart

RowHeader without_history(const RowHeader &header) {
  return RowHeader::make(header.tn(), static_cast<u8>(header.flags() & ~kRestartFlags), 0, 0,
                         header.seq);
}

}  // namespace

Status find_prepared(const char *directory, const LogAnalysis &analysis, const LoggedTxn &txn,
                     PreparedFile *file) {
  Status s = file->read(directory, txn.full_xid);
  const auto logged = analysis.two_phase_undo.find(txn.full_xid);
  const bool is_logged = logged != analysis.two_phase_undo.end() && logged->second.whole &&
                         logged->second.tn == txn.tn;
  if (code(s) == LS_NOT_FOUND && is_logged) {
    LS_TRY(prepared_image_write(directory, txn.full_xid, logged->second.bytes));   // PFILE-2
    s = file->read(directory, txn.full_xid);
  }
  return s;
}

Status read_prepared(const char *directory, const LogAnalysis &analysis, const LoggedTxn &txn,
                     PreparedFile *file) {
  const Status s = find_prepared(directory, analysis, txn, file);
  if (code(s) != LS_NOT_FOUND) return s;
  return fail(LS_CORRUPT,
              "prepared transaction %llu has no file in \"%s\"; "
              "restore it from a backup of the whole cluster",
              static_cast<unsigned long long>(txn.full_xid), directory);
}

Status TwoPhaseRecovery::keep_versions(Tn tn) {
  LS_TRY(open_relations());
  return file_.changes([&](const PreparedFile::Change &change) -> Status {
    const PreparedChange &head = change.head;
    FileSlot *file;
    LS_TRY(relation(head.file, &file));
    if (file == nullptr || head.op == VersionOp::kInsert) return kOk;
    LS_TRY(version_store(w_, tn).put({tn, head.seq}, entry_of(change, *file, tn), change.payload));
    return lead_to_previous(w_, *file, head.row_id, {tn, head.seq});
  });
}

Status TwoPhaseRecovery::take_over(Tn tn) {
  LS_TRY(open_relations());
  LS_TRY(rewrite(tn));  // TWOPH-2
  u32 next_seq = 1;
  LS_TRY(file_.changes([&](const PreparedFile::Change &change) {
    next_seq = std::max(next_seq, change.head.seq + 1);
    return put_change(change, tn);
  }));
  // Afterwards: a row that gets its new number loses its flag.
  LS_TRY(file_.locks([&](const PreparedLock &lock) { return mark_lock(lock); }));
  return prepared_restore(*w_.txns, tn, file_.full_xid, next_seq);
}

Status TwoPhaseRecovery::undo() {
  LS_TRY(open_relations());
  return file_.changes_backward([&](const PreparedFile::Change &change) -> Status {
    FileSlot *file;
    LS_TRY(relation(change.head.file, &file));
    if (file == nullptr) return kOk;
    for (Tn tn : file_.tns) {
      VersionEntry entry = entry_of(change, *file, tn);   // its own before keeps that number, too
      entry.previous = without_history(entry.previous);
      LS_TRY(take_kept(change.head.seq, tn, &entry));
      LS_TRY(undo_change(w_, UndoTarget{*file, change.head.row_id, tn, change.head.seq}, entry,
                         change.payload));
    }
    return kOk;
  });
}

Status TwoPhaseRecovery::open_relations() {
  for (const PreparedFile::Relation &relation : file_.relations) {
    const FileRecord &r = relation.record;
    const ls_rel_key key{r.tablespace, r.database, r.relation, r.owner};
    FileHandle file;
    const auto kind = static_cast<ls_rel_kind>(r.kind);
    const Status s = w_.pool->open_handle(w_.ctx, key, relation.path.c_str(), kind, r.logged != 0,
                                          BTree::format, &file);
    // Another store's file has nothing of this log's transactions.
    if (code(s) != LS_NOT_FOUND && code(s) != LS_FOREIGN) LS_TRY(s);
    relations_[r.file] = ok(s) ? file : FileHandle{};
  }
  return kOk;
}

Status TwoPhaseRecovery::relation(FileNo file_no, FileSlot **file) {
  if (!use_ || current_ != file_no) {
    use_.end();
    const auto at = relations_.find(file_no);
    if (at != relations_.end() && at->second.number != 0) LS_TRY(use_.begin(w_.ctx, &at->second));
    current_ = file_no;
  }
  *file = use_ ? &use_.file() : nullptr;
  return kOk;
}

// All that the file has, the new TN, and behind each lock where its row has moved since.
Status TwoPhaseRecovery::rewrite(Tn tn) {
  PreparedFileWriter out(w_.txns->prepared_dir, file_.full_xid);
  if (!file_.is_own(tn)) LS_TRY(out.tn(tn));
  LS_TRY(file_.items([&](const UndoItem &item) -> Status {
    if (item.kind == static_cast<u8>(PreparedItem::kEnd)) return kOk;
    return out.copy(item);
  }));
  LS_TRY(file_.locks([&](const PreparedLock &lock) { return put_lock(lock, tn); }));
  LS_TRY(file_.locks([&](const PreparedLock &lock) { return follow_lock(lock, tn, out); }));
  LS_TRY(out.finish());
  file_.replaced(tn, out.end());
  return prepared_file_post(w_.log.log(), w_.txns->prepared_dir, file_.full_xid,
                            w_.ctx.interrupt);
}

// W3.  The lock table has what the file names; what is there already is, or was, followed from
// there.
Status TwoPhaseRecovery::follow_lock(const PreparedLock &lock, Tn tn, PreparedFileWriter &out) {
  FileSlot *file;
  LS_TRY(relation(lock.file, &file));
  PreparedLock next = lock;
  while (file != nullptr) {
    LS_TRY(successor_of(w_, *file, next.row_id, &next.row_id));
    LockValue value;
    bool known = true;
    if (next.row_id != 0)
      LS_TRY(RowLockTable(w_).get(file_no_of(*file), next.row_id, tn, &value, &known));
    if (known) return kOk;
    LS_TRY(put_lock(next, tn));
    LS_TRY(out.lock(next));
  }
  return kOk;
}

VersionEntry TwoPhaseRecovery::entry_of(const PreparedFile::Change &change, const FileSlot &file,
                                        Tn tn) const {
  const PreparedChange &head = change.head;
  VersionEntry entry{};
  entry.op = head.op;
  entry.file_slot = file.index;
  entry.file_no = file.file_no.load(std::memory_order_relaxed);
  entry.count = head.count;
  entry.row_id = head.row_id;
  entry.payload_bytes = head.payload_bytes;
  entry.previous = without_history(head.previous);
  if (file_.is_own(head.previous.tn())) {
    const u8 history = static_cast<u8>(head.previous.flags() & LS_ROW_HAS_PREV);
    entry.previous = RowHeader::make(tn, entry.previous.flags() | history, 0, 0, head.previous.seq);
    entry.older_tn = head.older_seq != 0 ? tn : 0;
    entry.older_seq = head.older_seq;
  }
  return entry;
}

// Readers have stayed over a promotion, and may need versions behind the one that the file has.
Status TwoPhaseRecovery::take_kept(u32 seq, Tn tn, VersionEntry *entry) {
  if (!w_.txns->keeps_versions || entry->op == VersionOp::kInsert) return kOk;
  alignas(8) u8 bytes[kPageSize];
  const VersionEntry *kept = nullptr;
  const Status status = version_store(w_, tn).get({tn, seq}, bytes, &kept);
  if (code(status) == LS_NOT_FOUND) return kOk;
  LS_TRY(status);
  entry->previous = kept->previous;
  entry->older_tn = kept->older_tn;
  entry->older_seq = kept->older_seq;
  return kOk;
}

// The entry first: a row points to it.
Status TwoPhaseRecovery::put_change(const PreparedFile::Change &change, Tn tn) {
  const PreparedChange &head = change.head;
  FileSlot *file;
  LS_TRY(relation(head.file, &file));
  if (file == nullptr) return kOk;
  VersionEntry entry = entry_of(change, *file, tn);
  LS_TRY(take_kept(head.seq, tn, &entry));
  LS_TRY(version_store(w_, tn).put({tn, head.seq}, entry, change.payload));
  if (head.op != VersionOp::kInsert) return name_row(*file, head.row_id, head.seq, true, tn);
  for (u64 row_id = head.row_id; row_id < head.row_id + head.count; row_id++) {
    LS_TRY(name_row(*file, row_id, head.seq, false, tn));
  }
  return kOk;
}

// A row that carries this change of the transaction gets its new number; one that was changed again
// since, or undone, does not.
Status TwoPhaseRecovery::name_row(FileSlot &file, u64 row_id, u32 seq, bool has_previous, Tn tn) {
  LS_TRY(w_.log.reserve(row_record_room(0), w_.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(w_, file, row_id, 0));
  if (!leaf.found() || !file_.is_own(leaf.header().tn()) || leaf.header().seq != seq) return kOk;
  const u8 flags = static_cast<u8>((leaf.header().flags() & ~kRestartFlags) |
                                   (has_previous ? LS_ROW_HAS_PREV : 0));
  const RowHeader header = RowHeader::make(tn, flags, 0, 0, seq);
  leaf.set_header(header);
  leaf.changed(log_restore(RowRecord{w_, file, leaf.page_no(), row_id}, header, Patch{}));
  return kOk;
}

Status TwoPhaseRecovery::put_lock(const PreparedLock &lock, Tn tn) {
  FileSlot *file;
  LS_TRY(relation(lock.file, &file));
  if (file == nullptr) return kOk;
  const LockValue value{static_cast<u8>(lock.mode), LockState::kGranted, 0, 0};
  return RowLockTable(w_).put(file_no_of(*file), lock.row_id, tn, value);
}

Status TwoPhaseRecovery::mark_lock(const PreparedLock &lock) {
  FileSlot *file;
  LS_TRY(relation(lock.file, &file));
  if (file == nullptr) return kOk;
  LS_TRY(w_.log.reserve(0, w_.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(w_, *file, lock.row_id, 0));
  if (!leaf.found()) return kOk;
  mark_locked(w_, *file, lock.row_id, leaf);
  w_.txns->row_locks.fetch_add(1, std::memory_order_relaxed);
  return kOk;
}

}  // namespace ls
