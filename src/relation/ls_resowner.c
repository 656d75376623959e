/*
 * ls_resowner.c - engine scans belong to a resource owner: an error that jumps
 * out of an executor node must not leak their malloc'ed memory.
 *
 * An engine scan holds no latch and no pin between calls, so the order of
 * release does not matter.
 */
#include "postgres.h"

#include "ls_relation.h"

#include "lib/ilist.h"
#include "utils/resowner.h"

static void release_scan(Datum res);

static const ResourceOwnerDesc scan_desc = {
	.name = "leanstore scan",
	.release_phase = RESOURCE_RELEASE_BEFORE_LOCKS,
	.release_priority = RELEASE_PRIO_FIRST,
	.ReleaseResource = release_scan,
	.DebugPrint = NULL,
};

/* Few at a time: a list is enough to find the owner of a scan that is closed. */
typedef struct OwnedScan
{
	dlist_node	node;
	ls_scan    *scan;			/* of a table, or ... */
	ls_index_scan *index_scan;	/* ... of an index */
	ResourceOwner owner;
} OwnedScan;

static dlist_head owned_scans = DLIST_STATIC_INIT(owned_scans);

static void
close_owned(OwnedScan *owned)
{
	dlist_delete(&owned->node);
	if (owned->scan != NULL)
		ls_scan_close(owned->scan);
	else
		ls_index_scan_close(owned->index_scan);
	free(owned);
}

static void
release_scan(Datum res)
{
	close_owned((OwnedScan *) DatumGetPointer(res));
}

/* Room for a scan that is about to be opened. */
static OwnedScan *
prepare(void)
{
	OwnedScan  *owned;

	ResourceOwnerEnlarge(CurrentResourceOwner);
	owned = calloc(1, sizeof(OwnedScan));
	if (owned == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	return owned;
}

static void
own(OwnedScan *owned, ls_status status, const ls_error *error, Relation rel)
{
	if (status != LS_OK)
	{
		free(owned);
		ls_raise(error, rel);
	}
	owned->owner = CurrentResourceOwner;
	dlist_push_head(&owned_scans, &owned->node);
	ResourceOwnerRemember(owned->owner, PointerGetDatum(owned), &scan_desc);
}

static void
disown(const void *scan)
{
	dlist_iter	iter;

	dlist_foreach(iter, &owned_scans)
	{
		OwnedScan  *owned = dlist_container(OwnedScan, node, iter.cur);

		if (owned->scan != scan && owned->index_scan != scan)
			continue;
		ResourceOwnerForget(owned->owner, PointerGetDatum(owned), &scan_desc);
		close_owned(owned);
		return;
	}
	elog(ERROR, "leanstore scan is not owned");
}

ls_scan *
ls_scan_open_owned(Relation rel, const ls_snapshot *snapshot, uint64 lo, uint64 hi, bool backward)
{
	ls_error	error = {0};
	ls_rel	   *handle = ls_open(rel);
	OwnedScan  *owned = prepare();

	own(owned, ls_scan_open(ls_reader(), handle, snapshot, lo, hi, backward, &owned->scan, &error),
		&error, rel);
	return owned->scan;
}

void
ls_scan_close_owned(ls_scan *scan)
{
	disown(scan);
}

ls_index_scan *
ls_index_scan_open_owned(Relation index, ls_rel *tree)
{
	ls_error	error = {0};
	ls_worker  *worker = ls_reader();
	OwnedScan  *owned = prepare();

	own(owned, ls_index_scan_open(worker, tree, &owned->index_scan, &error), &error, index);
	return owned->index_scan;
}

void
ls_index_scan_close_owned(ls_index_scan *scan)
{
	disown(scan);
}
