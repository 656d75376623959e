// row.hpp - operations on single rows of a table, as engine.h promises them (ls_row_*, without the
// C).
//
// Called by capi/ for a worker that holds no latch; each returns holding none.  Changes need an
// open transaction (txn_begin), else LS_INVALID.  Every change writes its undo entry first, then
// latches one leaf, checks that the row still is the one it decided on, changes it and logs one
// record.  Nothing waits for another transaction: a conflict is returned (LS_BEING_MODIFIED,
// LS_LOCKED) and the call made again by the host.
#pragma once
#include <span>

#include "txn/worker.hpp"

namespace ls {

// ---- row_fetch.cpp
// buffer: LS_ROW_BUFFER_BYTES, 8-aligned.  LS_OK, LS_NOT_FOUND.  all_dead may be null.
Status row_fetch(Worker &w, FileSlot &file, u64 row_id, const ls_snapshot &snapshot, u8 *buffer,
                 ls_row *row, bool *all_dead);

// ---- row_insert.cpp
// flags: 0 or LS_ROW_SPECULATIVE (then cid is the token).  LS_EXISTS when the row id is taken.
Status row_insert(Worker &w, FileSlot &file, u64 row_id, u32 cid, u32 flags, Bytes data);
// Consecutive row ids; each leaf is latched once for all rows that go into it.  *inserted: how many
// are in, on failure too.
Status row_insert_many(Worker &w, FileSlot &file, u64 first_row_id, u32 cid,
                       std::span<const ls_bytes> rows, u32 *inserted);
// As `row` is in the file it comes from, with its older versions; no undo.
Status row_insert_copied(Worker &w, FileSlot &file, u64 row_id, const ls_row &row);
Status row_finish_speculative(Worker &w, FileSlot &file, u64 row_id, u32 cid, bool keep);

// ---- row_update.cpp
Status row_update(Worker &w, FileSlot &file, const ls_change &change, Bytes data,
                  ls_conflict *conflict);
Status row_delete(Worker &w, FileSlot &file, const ls_change &change, u64 moved_to,
                  ls_conflict *conflict);

// ---- value.cpp: values, in files of them (ls_value_insert and so on)
Status value_insert(Worker &w, FileSlot &file, const ls_new_value &value, u32 cid);
Status value_read(Worker &w, FileSlot &file, const ls_value_slice &slice, u8 *out);
Status value_delete(Worker &w, FileSlot &file, u64 value_id, u32 bytes, u32 cid);
Status value_check(Worker &w, FileSlot &file, const ls_row &row, u32 *value_bytes);

// ---- value_copy.cpp
// As row_insert_copied.  LS_NOT_FOUND: a deleted value of which the bytes are gone, too.
Status value_insert_copied(Worker &w, FileSlot &to, FileSlot &from, const ls_row &row);
// A value of a file that another store has written, into a new one.
Status value_adopt(Worker &w, FileSlot &to, const FileRef &from, const ls_row &row);

// ---- row_lock.cpp
Status row_lock(Worker &w, FileSlot &file, const ls_change &change, bool any_version, u8 *buffer,
                ls_row *row, bool *newer, ls_conflict *conflict);

// A transaction that holds a lock on the row, the worker's own first, and under which sequence
// number; LS_NOT_FOUND.
Status row_locker(Worker &w, FileSlot &file, u64 row_id, Tn *tn, u32 *seq);

// ---- row_ids.cpp
// Draw `count` consecutive row ids.  No row id is ever drawn twice, not after a crash either.
Status row_ids(Worker &w, FileSlot &file, u32 count, u64 *first);
void row_ids_return(FileSlot &file, u64 first, u64 end);
// Consecutive value ids, see ls_value_ids.
Status value_ids(Worker &w, FileSlot &file, u32 count, ls_value_range *values);
// None below is drawn from now on; for values a place.
Status row_ids_skip(Worker &w, FileSlot &file, u64 to);
// Row ids, of values places, below were drawn or may have been.
u64 row_ids_next(const FileSlot &file);
// Clean shutdown, no other worker: store the exact next row id in the meta page.  Also for unlogged
// tables.
Status row_ids_seal(Worker &w, FileSlot &file);

}  // namespace ls
