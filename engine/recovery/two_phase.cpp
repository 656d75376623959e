#include "recovery/two_phase.hpp"

#include <algorithm>

#include "txn/prepared.hpp"
#include "txn/rollback.hpp"
#include "txn/row_conflict.hpp"

namespace ls {

namespace {

constexpr u8 kRestartFlags = kVolatileFlags;   // mean nothing after a restart

RowHeader without_history(const RowHeader &header) {
  return RowHeader::make(header.tn(), static_cast<u8>(header.flags() & ~kRestartFlags), 0, 0, header.seq);
}

}  // namespace

Status TwoPhaseRecovery::take_over(Tn tn) {
  LS_TRY(open_relations());
  LS_TRY(follow_locks());
  LS_TRY(rewrite(tn));  // W2
  file_.tns.push_back(tn);
  u32 next_seq = 1;
  for (const PreparedFile::Change &change : file_.changes) {
    LS_TRY(put_change(change, tn));
    next_seq = std::max(next_seq, change.head.seq + 1);
  }
  for (const PreparedLock &lock : file_.locks) LS_TRY(put_lock(lock, tn));
  return prepared_restore(*w_.txns, tn, file_.full_xid, next_seq);
}

Status TwoPhaseRecovery::undo() {
  LS_TRY(open_relations());
  for (size_t i = file_.changes.size(); i-- > 0;) {
    const PreparedFile::Change &change = file_.changes[i];
    FileSlot *file = relation(change.head.file);
    if (file == nullptr) continue;
    VersionEntry entry = entry_of(change, *file, 0);
    entry.previous = without_history(change.head.previous);
    for (Tn tn : file_.tns) {
      LS_TRY(undo_change(w_, UndoTarget{*file, change.head.row_id, tn, change.head.seq}, entry, change.payload));
    }
  }
  return kOk;
}

Status TwoPhaseRecovery::open_relations() {
  for (const PreparedFile::Relation &relation : file_.relations) {
    const FileRecord &r = relation.record;
    const ls_rel_key key{r.tablespace, r.database, r.relation, r.owner};
    FileSlot *slot = nullptr;
    const Status s = w_.pool->open_file(w_.ctx, key, relation.path.c_str(), static_cast<ls_rel_kind>(r.kind), r.logged != 0, 0,
                                        BTree::format, &slot);
    if (code(s) != LS_NOT_FOUND) LS_TRY(s);
    relations_[r.file] = ok(s) ? slot : nullptr;
  }
  return kOk;
}

FileSlot *TwoPhaseRecovery::relation(FileNo file_no) const {
  const auto at = relations_.find(file_no);
  return at != relations_.end() ? at->second : nullptr;
}

// W3.  The list grows while it is walked: what follows a successor is found when that is looked at.
Status TwoPhaseRecovery::follow_locks() {
  std::vector<PreparedLock> &locks = file_.locks;
  for (size_t i = 0; i < locks.size(); i++) {
    const PreparedLock lock = locks[i];
    FileSlot *file = relation(lock.file);
    if (file == nullptr) continue;
    u64 successor = 0;
    LS_TRY(successor_of(w_, *file, lock.row_id, &successor));
    const bool known = successor == 0 || std::any_of(locks.begin(), locks.end(), [&](const PreparedLock &other) {
      return other.file == lock.file && other.row_id == successor;
    });
    if (!known) locks.push_back({successor, lock.file, lock.mode});
  }
  return kOk;
}

Status TwoPhaseRecovery::rewrite(Tn tn) {
  PreparedFileWriter out;
  LS_TRY(out.open(w_.txns->prepared_dir, file_.full_xid));
  for (Tn earlier : file_.tns) LS_TRY(out.tn(earlier));
  LS_TRY(out.tn(tn));
  for (const PreparedFile::Relation &relation : file_.relations) LS_TRY(out.file(relation.record, relation.path.c_str()));
  for (const PreparedFile::Change &change : file_.changes) LS_TRY(out.change(change.head, change.payload));
  for (const PreparedLock &lock : file_.locks) LS_TRY(out.lock(lock));
  return out.finish();
}

VersionEntry TwoPhaseRecovery::entry_of(const PreparedFile::Change &change, const FileSlot &file, Tn tn) const {
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

// The entry first: a row points to it.
Status TwoPhaseRecovery::put_change(const PreparedFile::Change &change, Tn tn) {
  const PreparedChange &head = change.head;
  FileSlot *file = relation(head.file);
  if (file == nullptr) return kOk;
  LS_TRY(version_store(w_, tn).put({tn, head.seq}, entry_of(change, *file, tn), change.payload));
  if (head.op != VersionOp::kInsert) return name_row(*file, head.row_id, head.seq, true, tn);
  for (u64 row_id = head.row_id; row_id < head.row_id + head.count; row_id++) {
    LS_TRY(name_row(*file, row_id, head.seq, false, tn));
  }
  return kOk;
}

// A row that carries this change of the transaction gets its new number; one that was changed again since, or undone, does not.
Status TwoPhaseRecovery::name_row(FileSlot &file, u64 row_id, u32 seq, bool has_previous, Tn tn) {
  LS_TRY(w_.log.reserve(row_record_room(0), w_.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(w_, file, row_id, 0));
  if (!leaf.found() || !file_.is_own(leaf.header().tn()) || leaf.header().seq != seq) return kOk;
  const u8 flags = static_cast<u8>((leaf.header().flags() & ~kRestartFlags) | (has_previous ? LS_ROW_HAS_PREV : 0));
  const RowHeader header = RowHeader::make(tn, flags, 0, 0, seq);
  leaf.set_header(header);
  leaf.changed(log_restore(RowRecord{w_, file, leaf.page_no(), row_id}, header, Patch{}));
  return kOk;
}

Status TwoPhaseRecovery::put_lock(const PreparedLock &lock, Tn tn) {
  FileSlot *file = relation(lock.file);
  if (file == nullptr) return kOk;
  const LockValue value{static_cast<u8>(lock.mode), LockState::kGranted, 0, 0};
  LS_TRY(RowLockTable(w_).put(file_no_of(*file), lock.row_id, tn, value));
  RowLeaf leaf;
  LS_TRY(leaf.open(w_, *file, lock.row_id, 0));
  if (!leaf.found()) return kOk;
  mark_locked(w_, *file, lock.row_id, leaf);
  w_.txns->row_locks.fetch_add(1, std::memory_order_relaxed);
  return kOk;
}

}  // namespace ls
