/*
 * ls_index_parallel.c - several processes share one index scan.
 *
 * They take turns reading the index: the process that has the turn goes on behind the
 * place where the one before stopped, reads a batch of entries, publishes how far
 * it came, and returns its batch to the executor while others read on.  The
 * place is a key, so it means the same to each process, whatever the conditions are.
 *
 * No lock is held while the index is read: `reading` keeps others away, and they sleep
 * on a condition variable.  A process that fails while it reads ends the query, and
 * with it the processes that wait.
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "ls_index_scan.h"

#include "access/xact.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "utils/wait_event.h"

/*
 * Enough that taking turns costs nothing against fetching the rows, few enough that a small scan is
 * shared.
 */
#define BATCH_ENTRIES 128

typedef struct LsIndexParallel
{
	slock_t		mutex;
	/* a process is; the rest belongs to that process, otherwise to the mutex */
	bool		reading;
	bool		finished;		/* there are no more entries */
	ConditionVariable may_read;
	uint32		position_len;	/* 0: no process has read yet */
	uint8		position[LS_MAX_KEY_BYTES + LS_ENTRY_ROW_ID_BYTES];
} LsIndexParallel;

/* Entries read and not yet returned, in memory of their own. */
struct LsIndexParallelBatch
{
	int			n;
	int			next;
	uint64		vouches;		/* before the first one was read */
	uint64		row_ids[BATCH_ENTRIES];
	uint32		key_ends[BATCH_ENTRIES];
	uint32		payload_ends[BATCH_ENTRIES];
	bool		visible[BATCH_ENTRIES]; /* LsIndexScan's */
	StringInfoData bytes;		/* key, payload, key, payload ... */
	StringInfoData position;	/* of the last one */
};

Size
ls_index_amestimateparallelscan(Relation index, int nkeys, int norderbys)
{
	return sizeof(LsIndexParallel);
}

void
ls_index_aminitparallelscan(void *target)
{
	LsIndexParallel *shared = target;

	/* workers lock for the leader, which releases: it can not fail to attach when that is due */
	if (XactIsoLevel == XACT_SERIALIZABLE)
		(void) ls_reader();

	memset(shared, 0, sizeof(LsIndexParallel));
	SpinLockInit(&shared->mutex);
	ConditionVariableInit(&shared->may_read);
}

static LsIndexParallel *
shared_of(IndexScanDesc scan)
{
	return OffsetToPointer(scan->parallel_scan, scan->parallel_scan->ps_offset_am);
}

/* By the leader, when no worker is running. */
void
ls_index_amparallelrescan(IndexScanDesc scan)
{
	LsIndexParallel *shared = shared_of(scan);

	SpinLockAcquire(&shared->mutex);
	shared->reading = false;
	shared->finished = false;
	shared->position_len = 0;
	SpinLockRelease(&shared->mutex);
}

void
ls_index_parallel_forget(LsIndexScan *so)
{
	if (so->batch != NULL)
		so->batch->n = so->batch->next = 0;
}

/* Wait for our turn to read; false when there is nothing left. */
static bool
begin_reading(LsIndexParallel *shared)
{
	bool		waiting = true;
	bool		finished = false;

	while (waiting)
	{
		SpinLockAcquire(&shared->mutex);
		finished = shared->finished;
		waiting = !finished && shared->reading;
		if (!waiting && !finished)
			shared->reading = true;
		SpinLockRelease(&shared->mutex);
		if (waiting)
			ConditionVariableSleep(&shared->may_read, WAIT_EVENT_BTREE_PAGE);
	}
	ConditionVariableCancelSleep();
	return !finished;
}

static void
end_reading(LsIndexParallel *shared, bool finished)
{
	SpinLockAcquire(&shared->mutex);
	shared->reading = false;
	shared->finished = finished;
	SpinLockRelease(&shared->mutex);
	if (finished)
		ConditionVariableBroadcast(&shared->may_read);
	else
		ConditionVariableSignal(&shared->may_read);
}

/* False: nothing is left. */
static bool
read_batch(IndexScanDesc scan, bool backward)
{
	LsIndexScan *so = scan->opaque;
	LsIndexParallelBatch *batch = so->batch;
	LsIndexParallel *shared = shared_of(scan);

	batch->n = batch->next = 0;
	resetStringInfo(&batch->bytes);
	if (!begin_reading(shared))
		return false;

	ls_index_scan_resume(scan, (ls_bytes) {shared->position, shared->position_len}, backward);
	while (batch->n < BATCH_ENTRIES && ls_index_scan_advance(scan, backward))
	{
		if (batch->n == 0)
			batch->vouches = ls_index_scan_vouches(so->engine);
		batch->row_ids[batch->n] = so->entry.row_id;
		appendBinaryStringInfo(&batch->bytes, so->entry.key.data, so->entry.key.len);
		batch->key_ends[batch->n] = batch->bytes.len;
		if (so->entry.payload.len > 0)
			appendBinaryStringInfo(&batch->bytes, so->entry.payload.data, so->entry.payload.len);
		batch->payload_ends[batch->n] = batch->bytes.len;
		batch->visible[batch->n] = so->visible;
		batch->n++;
	}
	if (batch->n == BATCH_ENTRIES)
	{
		ls_index_entry_position(&so->entry, &batch->position);
		memcpy(shared->position, batch->position.data, batch->position.len);
		shared->position_len = batch->position.len;
	}
	end_reading(shared, batch->n < BATCH_ENTRIES);
	return batch->n > 0;
}

uint64
ls_index_parallel_vouched(const LsIndexScan *so)
{
	return so->batch->vouches;
}

bool
ls_index_parallel_advance(IndexScanDesc scan, bool backward)
{
	LsIndexScan *so = scan->opaque;
	LsIndexParallelBatch *batch = so->batch;
	uint32		begin;
	const uint8_t *bytes;

	so->on_entry = false;
	if (batch == NULL)
	{
		MemoryContext old_context = MemoryContextSwitchTo(so->context);

		so->batch = batch = palloc0_object(LsIndexParallelBatch);
		initStringInfo(&batch->bytes);
		initStringInfo(&batch->position);
		MemoryContextSwitchTo(old_context);
	}
	if (batch->next == batch->n && !read_batch(scan, backward))
		return false;

	begin = batch->next > 0 ? batch->payload_ends[batch->next - 1] : 0;
	bytes = (const uint8_t *) batch->bytes.data;
	so->entry.row_id = batch->row_ids[batch->next];
	so->entry.key = (ls_bytes) {bytes + begin, batch->key_ends[batch->next] - begin};
	begin = batch->key_ends[batch->next];
	so->entry.payload = (ls_bytes) {bytes + begin, batch->payload_ends[batch->next] - begin};
	so->entry_no = 0;
	so->visible = batch->visible[batch->next];
	so->on_entry = true;
	batch->next++;
	return true;
}
