/*
 * ls_recent.c - what this backend did to rows a moment ago.
 *
 * A TID names a row, not a version, and the executor does not say what it asks a row for.  Four
 * notes of what came just before tell it.  Each is about one row; a new one takes the old one's
 * place.
 *
 *	note			set by					asked by				holds until
 *	superseded		an update in place		a fetch of the old		it is asked, or something
 *											version (triggers)		else is done to a table
 *	dirty match		an index fetch with		the lock of ON			something else is done
 *					a dirty snapshot		CONFLICT that follows	to a table
 *	conflict lock	the lock of ON			the update, or a		the command ends
 *					CONFLICT DO UPDATE		second lock
 *	moved			an update to a new		insertions of the		the command ends
 *					row id					row's entries
 *
 * "Something else is done to a table" is ls_forget_recent(): each callback of the table access
 * method begins with it, once it has asked for what it needs itself.  "The command ends" needs no
 * such call: the note names the transaction and the command, and neither comes again.  Row ids do
 * begin anew, when a table is truncated, but by another command.
 */
#include "postgres.h"

#include "ls_row.h"

LsRecent	ls_recent;

void
ls_note_superseded(Relation rel, uint64 row_id, CommandId cid)
{
	ls_recent.superseded.relid = RelationGetRelid(rel);
	ls_recent.superseded.cid = cid;
	ls_recent.superseded.row_id = row_id;
}

bool
ls_take_superseded(Relation rel, uint64 row_id, CommandId *cid)
{
	if (ls_recent.superseded.relid != RelationGetRelid(rel) ||
		ls_recent.superseded.row_id != row_id)
		return false;
	ls_recent.superseded.relid = InvalidOid;
	*cid = ls_recent.superseded.cid;
	return true;
}

void
ls_note_dirty_match(Relation rel, uint64 row_id)
{
	ls_recent.dirty_match.relid = RelationGetRelid(rel);
	ls_recent.dirty_match.row_id = row_id;
}

bool
ls_is_dirty_match(Relation rel, uint64 row_id)
{
	return ls_recent.dirty_match.relid == RelationGetRelid(rel) &&
		ls_recent.dirty_match.row_id == row_id;
}

void
ls_note_conflict_lock(Relation rel, uint64 row_id, CommandId cid)
{
	ls_recent.conflict_lock.relid = RelationGetRelid(rel);
	ls_recent.conflict_lock.cid = cid;
	ls_recent.conflict_lock.own_tn = ls_own_tn();
	ls_recent.conflict_lock.row_id = row_id;
}

bool
ls_is_conflict_lock(Relation rel, uint64 row_id, CommandId cid)
{
	return ls_recent.conflict_lock.row_id == row_id &&
		ls_recent.conflict_lock.relid == RelationGetRelid(rel) &&
		ls_recent.conflict_lock.cid == cid &&
		ls_recent.conflict_lock.own_tn == ls_own_tn();
}

void
ls_note_moved(Relation rel, uint64 from, uint64 to, CommandId cid)
{
	ls_recent.moved.relid = RelationGetRelid(rel);
	ls_recent.moved.cid = cid;
	ls_recent.moved.own_tn = ls_own_tn();
	ls_recent.moved.from = from;
	ls_recent.moved.to = to;
}

uint64
ls_moved_from(Relation rel, uint64 to, CommandId cid)
{
	if (ls_recent.moved.to != to || ls_recent.moved.relid != RelationGetRelid(rel) ||
		ls_recent.moved.cid != cid || ls_recent.moved.own_tn != ls_own_tn())
		return 0;
	return ls_recent.moved.from;
}
