/*
 * ls_index_lock.c - what an index scan locks at SERIALIZABLE.
 *
 * A scan locks, shared, the part of the index that it has read, gaps included: the
 * place of an entry says nothing of what may be inserted before it.  It locks before it
 * reads, but how far it will come is not known, and a scan that stops after three rows
 * shall not lock millions.  So it looks ahead a few entries, locks up to there, and then goes back
 * if their leaf is what it was, or else reads them again, now as they are under the lock; the next
 * step is twice as long, and one behind a place that was sought is the shortest: of an IN list each
 * value is one entry.  Look-ups by all columns and bitmap scans lock their whole range at once, and
 * so do scans by labels: the ends of that range are entries that stay, those on the way need not
 * (ls_order_label.c).
 *
 * The rows themselves are locked when they are fetched.  So an insertion has to lock
 * its entries, a deletion or update only the row.
 */
#include "postgres.h"

#include "ls_index_scan.h"
#include "txn/ls_txn.h"

/* Entries to lock at a time: at first, and at most. */
#define FIRST_AHEAD 8
#define AHEAD_AFTER_SEEK 2
#define MAX_AHEAD 1024

static void
set_bytes(StringInfo string, ls_bytes bytes)
{
	resetStringInfo(string);
	if (bytes.len > 0)
		appendBinaryStringInfo(string, bytes.data, bytes.len);
}

void
ls_index_lock_start(IndexScanDesc scan, bool backward, bool all)
{
	LsIndexScan *so = scan->opaque;
	LsIndexLock *lock = &so->lock;

	if (lock->from.data == NULL)
	{
		MemoryContext old_context = MemoryContextSwitchTo(so->context);

		initStringInfo(&lock->from);
		initStringInfo(&lock->to);
		initStringInfo(&lock->place);
		initStringInfo(&lock->position);
		MemoryContextSwitchTo(old_context);
	}
	lock->any = false;
	lock->has_place = false;
	lock->ahead = FIRST_AHEAD;
	if (scan->xs_heapfetch != NULL)
		((LsIndexFetch *) scan->xs_heapfetch)->locks = true;

	/* a row of a subtransaction may be taken back, and its entry with it */
	if (so->filter.shape->n_labels > 0 && GetCurrentTransactionNestLevel() > 1)
		all = true;
	if (all || so->filter.is_point || so->filter.searches)
	{
		ls_lock_entries(scan->indexRelation, ls_bytes_of(&so->filter.from),
						ls_bytes_of(&so->filter.to), LS_RANGE_SHARED);
		set_bytes(&lock->from, ls_bytes_of(&so->filter.from));
		set_bytes(&lock->to, ls_bytes_of(&so->filter.to));
		lock->any = true;
	}
}

/* No bytes as the upper bound: the end. */
static bool
is_below(ls_bytes position, const StringInfoData *to)
{
	return to->len == 0 || ls_bytes_compare(position, ls_bytes_of(to)) < 0;
}

void
ls_index_lock_jump(LsIndexLock *lock, ls_bytes place)
{
	/* what has been locked elsewhere stays so, but does not reach to here */
	if (lock->any &&
		(ls_bytes_compare(place, ls_bytes_of(&lock->from)) < 0 || !is_below(place, &lock->to)))
		lock->any = false;
	set_bytes(&lock->place, place);
	lock->has_place = true;
	lock->ahead = AHEAD_AFTER_SEEK;
}

/* Is the answer of the engine's scan, an entry or the end, one that cannot change any more? */
static bool
is_locked(LsIndexScan *so, ls_status status)
{
	LsIndexLock *lock = &so->lock;

	if (!lock->any)
		return false;
	if (status == LS_OK)
		return ls_bytes_compare(ls_bytes_of(&lock->position), ls_bytes_of(&lock->from)) >= 0 &&
			is_below(ls_bytes_of(&lock->position), &lock->to);
	if (so->backward)
		return ls_bytes_compare(ls_bytes_of(&lock->from), ls_bytes_of(&so->filter.from)) <= 0;
	return lock->to.len == 0 ||
		   (so->filter.to.len > 0 && !is_below(ls_bytes_of(&lock->to), &so->filter.to));
}

/*
 * Read on, from so->entry, and leave the place of the last entry read in lock->position.
 * True: the end was met.
 */
static bool
look_ahead(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;
	LsIndexLock *lock = &so->lock;
	int			n = lock->ahead;
	ls_index_entry entry = so->entry;

	lock->ahead = Min(n * 2, MAX_AHEAD);
	for (int i = 1; i < n; i++)
	{
		ls_error	error;
		ls_status	status;

		LS_CALL(status, ls_index_scan_next(so->engine, &entry, &error));
		if (status == LS_END)
			return true;
		ls_check(status, error, scan->indexRelation);
	}
	ls_index_entry_position(&entry, &lock->position);
	return false;
}

/* Lock from where the locked part ends up to lock->position, or to the end of the range. */
static void
extend(IndexScanDesc scan, bool to_end)
{
	LsIndexScan *so = scan->opaque;
	LsIndexLock *lock = &so->lock;
	ls_bytes	from = ls_bytes_of(&so->filter.from);
	ls_bytes	to = ls_bytes_of(&so->filter.to);

	if (so->backward)
	{
		if (lock->any)
			to = ls_bytes_of(&lock->from);
		else if (lock->has_place)
			to = ls_bytes_of(&lock->place);
		if (!to_end)
			from = ls_bytes_of(&lock->position);
	}
	else
	{
		if (lock->any)
			from = ls_bytes_of(&lock->to);
		else if (lock->has_place)
			from = ls_bytes_of(&lock->place);
		if (!to_end)
		{
			/* right behind it */
			appendStringInfoChar(&lock->position, '\0');
			to = ls_bytes_of(&lock->position);
		}
	}
	ls_lock_entries(scan->indexRelation, from, to, LS_RANGE_SHARED);

	if (so->backward || !lock->any)
		set_bytes(&lock->from, from);
	if (!so->backward || !lock->any)
		set_bytes(&lock->to, to);
	lock->any = true;
}

/* Begin again where the scan was, with what is there now. */
static void
read_again(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;
	ls_error	error;
	ls_status	status;

	LS_CALL(status, ls_index_scan_range(so->engine, ls_bytes_of(&so->filter.from),
										ls_bytes_of(&so->filter.to), so->backward, &error));
	ls_check(status, error, scan->indexRelation);
	if (so->lock.has_place)
	{
		LS_CALL(status, ls_index_scan_seek(so->engine, ls_bytes_of(&so->lock.place), &error));
		ls_check(status, error, scan->indexRelation);
	}
	/* the search that this makes is not one that the user has to know of */
	so->searches++;
}

ls_status
ls_index_lock_next(IndexScanDesc scan, ls_error *error)
{
	LsIndexScan *so = scan->opaque;
	LsIndexLock *lock = &so->lock;
	bool		locked = false;
	ls_status	status;

	while (!locked)
	{
		LS_CALL(status, ls_index_scan_next(so->engine, &so->entry, error));
		if (status != LS_OK && status != LS_END)
			return status;
		if (status == LS_OK)
			ls_index_entry_position(&so->entry, &lock->position);
		locked = is_locked(so, status);
		if (!locked)
		{
			ls_index_scan_mark(so->engine);
			extend(scan, status == LS_END || look_ahead(scan));
			locked = ls_index_scan_confirm(so->engine, &so->entry);
			if (!locked)
				read_again(scan);
		}
	}
	lock->has_place = status == LS_OK;
	if (lock->has_place)
		ls_index_entry_position(&so->entry, &lock->place);
	return status;
}
