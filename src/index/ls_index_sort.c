/*
 * ls_index_sort.c - sorting the entries of a new index.
 *
 * Entries are byte strings that memcmp orders (ls_index_sort_items.h).  What does
 * not fit into memory is written to runs, temporary files, which are merged as they are
 * read; the last run stays in memory.
 *
 * In a parallel build the runs of every process are in files of one set, and the leader merges
 * them all.
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "ls_index_sort.h"
#include "ls_index_sort_items.h"

#include <sys/mman.h>

#include "miscadmin.h"
#include "storage/buffile.h"
#include "utils/memutils.h"

/* What one column of a fixed width may take to be packed. */
#define MAX_PACKED_WIDTH LS_SORT_PREFIX_BYTES

/* So many runs are merged at a time: each has a buffer of its own. */
#ifdef LS_DEBUG_CHECKS
#define MAX_RUNS 8				/* so that tests get there */
#else
#define MAX_RUNS 256
#endif

/* A run being merged: the item it is at. */
typedef struct Run
{
	BufFile    *file;			/* NULL: in memory */
	int			number;			/* of its file in the shared set */
	int			level;			/* how often it has been merged */
	LsSortItem	item;
	char	   *record;			/* unless packed: the item's, in a buffer of this size */
	Size		record_size;
} Run;

struct LsIndexSort
{
	bool		packed;
	uint32		width;			/* packed: of the column */
	MemoryContext context;		/* of everything here */
	MemoryContext records;		/* chunks of them, one behind the other; NULL when packed */
	char	   *chunk;			/* what is left of the last */
	Size		chunk_left;
	Size		chunk_size;
	Size		memory;

	LsSortItem   *items;
	LsSortItem   *scratch;		/* as large */
	Size		n_items;
	Size		max_items;
	Size		record_bytes;
	bool		in_order;		/* as they were added */
	Size		next;			/* the next item, without runs */

	SharedFileSet *files;		/* NULL: no other process reads the runs */
	int			participant;
	int			n_files;		/* made in the set so far */

	int			n_runs;
	int			max_runs;
	Run		   *runs;
	int		   *heap;			/* runs, the least first */
	int			n_heap;
	bool		started;		/* the least run has been given out */

	/* packed: of the record given out */
	uint8		entry[LS_MAX_KEY_BYTES + LS_ENTRY_ROW_ID_BYTES];
};

/* ---- memory ---------------------------------------------------------------- */

#define MIN_CHUNK_BYTES (64 * 1024)
#define MAX_CHUNK_BYTES (16 * 1024 * 1024)

/*
 * Sorting jumps about in all of this memory.  In pages of the usual size, what that costs
 * is to find the pages (half of the time of loading an index on texts).
 */
static void *
allocate(MemoryContext context, Size size)
{
	char	   *memory = MemoryContextAllocHuge(context, size);

#ifdef MADV_HUGEPAGE
	if (size >= MAX_CHUNK_BYTES)
	{
		char	   *first = (char *) TYPEALIGN(PG_IO_ALIGN_SIZE, memory);

		/* where that cannot be had it is only slower */
		(void) madvise(first, TYPEALIGN_DOWN(PG_IO_ALIGN_SIZE, memory + size - first),
					   MADV_HUGEPAGE);
	}
#endif
	return memory;
}

static char *
allocate_record(LsIndexSort *sort, Size size)
{
	char	   *record;

	size = MAXALIGN(size);
	if (sort->chunk_left < size)
	{
		sort->chunk_size = Min(Max(sort->chunk_size * 2, MIN_CHUNK_BYTES), MAX_CHUNK_BYTES);
		sort->chunk_size = Max(sort->chunk_size, size);
		sort->chunk = allocate(sort->records, sort->chunk_size);
		sort->chunk_left = sort->chunk_size;
	}
	record = sort->chunk;
	sort->chunk += size;
	sort->chunk_left -= size;
	sort->record_bytes += size;
	return record;
}

static void
reset_records(LsIndexSort *sort)
{
	if (sort->records != NULL)
		MemoryContextReset(sort->records);
	sort->chunk_left = sort->chunk_size = 0;
	sort->record_bytes = 0;
}

static void
sort_in_memory(LsIndexSort *sort)
{
	if (!sort->in_order)
		ls_sort_items(sort->items, sort->scratch, sort->n_items, sort->packed);
}

/* ---- runs ------------------------------------------------------------------ */

static void
file_name(char *name, int participant, int number)
{
	snprintf(name, MAXPGPATH, "%d.%d", participant, number);
}

static Run *
add_run(LsIndexSort *sort)
{
	if (sort->n_runs == sort->max_runs)
	{
		sort->max_runs *= 2;
		sort->runs = repalloc_array(sort->runs, Run, sort->max_runs);
		sort->heap = repalloc_array(sort->heap, int, sort->max_runs);
	}
	sort->runs[sort->n_runs] = (Run) {0};
	return &sort->runs[sort->n_runs++];
}

/* A new file for a run. */
static Run
create_run(LsIndexSort *sort)
{
	Run			run = {0};

	if (sort->files == NULL)
		run.file = BufFileCreateTemp(false);
	else
	{
		char		name[MAXPGPATH];

		run.number = sort->n_files++;
		file_name(name, sort->participant, run.number);
		run.file = BufFileCreateFileSet(&sort->files->fs, name);
	}
	return run;
}

static void
write_item(const LsIndexSort *sort, BufFile *file, const LsSortItem *item)
{
	if (sort->packed)
		BufFileWrite(file, item, sizeof(LsSortItem));
	else
	{
		const LsSortRecord *head = (const LsSortRecord *) item->rest;

		BufFileWrite(file, head, ls_sort_record_bytes(head));
	}
}

/*
 * The next item in memory, NULL at the end.  In their order the records lie anywhere:
 * they are fetched a while before they are read.
 */
#define PREFETCHED_ITEMS 16
#define PREFETCHED_BYTES 128

static inline const LsSortItem *
next_in_memory(LsIndexSort *sort)
{
	Size		ahead = sort->next + PREFETCHED_ITEMS;

	if (!sort->packed && ahead < sort->n_items)
		for (int at = 0; at < PREFETCHED_BYTES; at += 64)
			__builtin_prefetch((const char *) sort->items[ahead].rest + at);
	return sort->next < sort->n_items ? &sort->items[sort->next++] : NULL;
}

/* Go to the run's next item; false at its end. */
static bool
read_item(LsIndexSort *sort, Run *run)
{
	LsSortRecord	head;

	if (run->file == NULL)
	{
		const LsSortItem *item = next_in_memory(sort);

		if (item != NULL)
			run->item = *item;
		return item != NULL;
	}

	if (sort->packed)
		return BufFileReadMaybeEOF(run->file, &run->item, sizeof(LsSortItem), true) != 0;

	if (BufFileReadMaybeEOF(run->file, &head, sizeof(head), true) == 0)
		return false;
	if (ls_sort_record_bytes(&head) > run->record_size)
	{
		run->record_size = ls_sort_record_bytes(&head) * 2;
		if (run->record != NULL)
			pfree(run->record);
		run->record = MemoryContextAlloc(sort->context, run->record_size);
	}
	memcpy(run->record, &head, sizeof(head));
	BufFileReadExact(run->file, run->record + sizeof(head),
					 ls_sort_record_bytes(&head) - sizeof(head));
	run->item.rest = (uint64) (uintptr_t) run->record;
	return true;
}

static inline bool
run_less(const LsIndexSort *sort, int a, int b)
{
	return ls_sort_item_less(sort->packed, &sort->runs[a].item, &sort->runs[b].item);
}

/* The run at this place of the heap has got a greater item. */
static void
sift_down(LsIndexSort *sort, int at)
{
	int			run = sort->heap[at];

	for (;;)
	{
		int			child = 2 * at + 1;

		if (child >= sort->n_heap)
			break;
		if (child + 1 < sort->n_heap && run_less(sort, sort->heap[child + 1], sort->heap[child]))
			child++;
		if (!run_less(sort, sort->heap[child], run))
			break;
		sort->heap[at] = sort->heap[child];
		at = child;
	}
	sort->heap[at] = run;
}

/* Of all runs from this one on. */
static void
begin_merge(LsIndexSort *sort, int first)
{
	sort->n_heap = 0;
	for (int i = first; i < sort->n_runs; i++)
	{
		if (sort->runs[i].file != NULL && BufFileSeek(sort->runs[i].file, 0, 0, SEEK_SET) != 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not rewind a temporary file of an index build: %m")));
		if (read_item(sort, &sort->runs[i]))
			sort->heap[sort->n_heap++] = i;
	}
	for (int at = sort->n_heap / 2 - 1; at >= 0; at--)
		sift_down(sort, at);
	sort->started = false;
}

/* The least item of the runs being merged, NULL at the end. */
static const LsSortItem *
merge_next(LsIndexSort *sort)
{
	if (sort->started)
	{
		if (!read_item(sort, &sort->runs[sort->heap[0]]))
			sort->heap[0] = sort->heap[--sort->n_heap];
		if (sort->n_heap > 0)
			sift_down(sort, 0);
	}
	sort->started = true;
	return sort->n_heap > 0 ? &sort->runs[sort->heap[0]].item : NULL;
}

static void
close_run(Run *run)
{
	if (run->file != NULL)
		BufFileClose(run->file);
	if (run->record != NULL)
		pfree(run->record);
	*run = (Run) {0};
}

/*
 * There is no room for another run.  Runs that have been merged are in front; the
 * others become one of them.  When that would not be worth it, all become one.
 */
static void
merge_runs(LsIndexSort *sort)
{
	int			level = sort->runs[sort->n_runs - 1].level;
	int			first = sort->n_runs - 1;
	Run			merged = create_run(sort);
	const LsSortItem *item;

	while (first > 0 && sort->runs[first - 1].level == level)
		first--;
	if (sort->n_runs - first < MAX_RUNS / 2)
	{
		first = 0;
		level = sort->runs[0].level;
	}

	begin_merge(sort, first);
	while ((item = merge_next(sort)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		write_item(sort, merged.file, item);
	}
	for (int i = first; i < sort->n_runs; i++)
	{
		int			number = sort->runs[i].number;

		close_run(&sort->runs[i]);
		if (sort->files != NULL)
		{
			char		name[MAXPGPATH];

			file_name(name, sort->participant, number);
			BufFileDeleteFileSet(&sort->files->fs, name, false);
		}
	}
	merged.level = level + 1;
	sort->runs[first] = merged;
	sort->n_runs = first + 1;
}

/* Sort what is in memory and make a run of it. */
static void
write_run(LsIndexSort *sort)
{
	MemoryContext old = MemoryContextSwitchTo(sort->context);
	Run			run;

	sort_in_memory(sort);
	if (sort->n_runs == MAX_RUNS)
		merge_runs(sort);
	run = create_run(sort);
	for (Size i = 0; i < sort->n_items; i++)
	{
		if (i % 4096 == 0)
			CHECK_FOR_INTERRUPTS();
		write_item(sort, run.file, &sort->items[i]);
	}
	*add_run(sort) = run;
	sort->n_items = 0;
	sort->in_order = true;
	reset_records(sort);
	MemoryContextSwitchTo(old);
}

/* ---- interface ------------------------------------------------------------- */

LsIndexSort *
ls_index_sort_begin(const LsIndexShape *shape, int kilobytes)
{
	LsIndexSort *sort = palloc0_object(LsIndexSort);
	uint32		width = shape->keys[0].encoding->width;

	sort->packed = shape->n_columns == 1 && shape->n_stored == 0 && width > 0 &&
				   width <= MAX_PACKED_WIDTH;
	sort->width = width;
	sort->context = CurrentMemoryContext;
	sort->memory = (Size) kilobytes * 1024;
	sort->max_items = 1024;
	sort->in_order = true;
	sort->items = palloc_array(LsSortItem, sort->max_items);
	sort->scratch = palloc_array(LsSortItem, sort->max_items);
	sort->max_runs = 16;
	sort->runs = palloc_array(Run, sort->max_runs);
	sort->heap = palloc_array(int, sort->max_runs);
	if (!sort->packed)
		sort->records = AllocSetContextCreate(CurrentMemoryContext, "leanstore index records",
											  ALLOCSET_SMALL_SIZES);
	return sort;
}

/* Room for one more; false when that would take too much memory. */
static bool
have_room(LsIndexSort *sort)
{
	Size		more = sort->max_items * 2;
	LsSortItem   *grown;

	if (sort->n_items < sort->max_items)
		return sort->n_items * 2 * sizeof(LsSortItem) + sort->record_bytes <= sort->memory;
	if (more * 2 * sizeof(LsSortItem) + sort->record_bytes > sort->memory)
	{
		/* the last step may be a smaller one */
		more = (sort->memory - Min(sort->record_bytes, sort->memory)) / (2 * sizeof(LsSortItem));
		if (!sort->packed || more <= sort->max_items)
			return false;
	}
	pfree(sort->scratch);
	grown = allocate(sort->context, more * sizeof(LsSortItem));
	memcpy(grown, sort->items, sort->n_items * sizeof(LsSortItem));
	pfree(sort->items);
	sort->items = grown;
	sort->scratch = allocate(sort->context, more * sizeof(LsSortItem));
	sort->max_items = more;
	return true;
}

void
ls_index_sort_add(LsIndexSort *sort, ls_bytes key, uint64 row_id, ls_bytes payload, uint8 flags)
{
	LsSortItem   *item;

	if (!have_room(sort))
		write_run(sort);
	item = &sort->items[sort->n_items++];
	if (sort->packed)
	{
		item->prefix = key.data[0] == LS_KEY_VALUE ? ls_sort_prefix(key.data + 1, key.len - 1)
			: key.data[0] == LS_KEY_NULL_LAST ? PG_UINT64_MAX : 0;
		item->rest = (uint64) key.data[0] << 48 | row_id << 8 | flags;
	}
	else
	{
		LsSortRecord	head = {.key_len = key.len, .payload_len = payload.len, .flags = flags};
		char	   *record = allocate_record(sort, ls_sort_record_bytes(&head));

		item->rest = (uint64) (uintptr_t) record;
		memcpy(record, &head, sizeof(head));
		record += sizeof(head);
		memcpy(record, key.data, key.len);
		ls_index_put_row_id(row_id, (uint8 *) record + key.len);
		memcpy(record + key.len + LS_ENTRY_ROW_ID_BYTES, payload.data, payload.len);
	}
	if (sort->in_order && sort->n_items > 1)
		sort->in_order = ls_sort_item_less(sort->packed, item - 1, item);
}

void
ls_index_sort_perform(LsIndexSort *sort)
{
	sort_in_memory(sort);
	pfree(sort->scratch);
	sort->scratch = NULL;
	if (sort->n_runs > 0)
	{
		/* what is still in memory is a run, too */
		(void) add_run(sort);
		begin_merge(sort, 0);
	}
}

void
ls_index_sort_share(LsIndexSort *sort, SharedFileSet *files, int participant)
{
	sort->files = files;
	sort->participant = participant;
}

int
ls_index_sort_export(LsIndexSort *sort)
{
	if (sort->n_items > 0)
		write_run(sort);
	for (int i = 0; i < sort->n_runs; i++)
	{
		BufFileExportFileSet(sort->runs[i].file);
		close_run(&sort->runs[i]);
	}
	sort->n_runs = 0;
	return sort->n_files;
}

void
ls_index_sort_import(LsIndexSort *sort, int participant, int n_files)
{
	MemoryContext old = MemoryContextSwitchTo(sort->context);

	for (int i = 0; i < n_files; i++)
	{
		char		name[MAXPGPATH];
		BufFile    *file;

		file_name(name, participant, i);
		file = BufFileOpenFileSet(&sort->files->fs, name, O_RDONLY, true);
		/* not there: it was merged into a later one */
		if (file != NULL)
			add_run(sort)->file = file;
	}
	MemoryContextSwitchTo(old);
}

/* The item as a record. */
static void
unpack(LsIndexSort *sort, const LsSortItem *item, LsIndexRecord *record)
{
	if (sort->packed)
	{
		uint64		prefix = pg_hton64(item->prefix);
		uint8		marker = (uint8) (item->rest >> 48);

		sort->entry[0] = marker;
		record->key_len = 1;
		if (marker == LS_KEY_VALUE)
		{
			memcpy(sort->entry + 1, &prefix, LS_SORT_PREFIX_BYTES);
			record->key_len += sort->width;
		}
		ls_index_put_row_id((item->rest >> 8) & LS_MAX_ROW_ID, sort->entry + record->key_len);
		record->entry.data = sort->entry;
		record->payload = (ls_bytes) {0};
		record->flags = (uint8) item->rest;
	}
	else
	{
		const LsSortRecord *head = (const LsSortRecord *) item->rest;

		record->key_len = head->key_len;
		record->entry.data = (const uint8 *) (head + 1);
		record->payload = (ls_bytes){record->entry.data + head->key_len + LS_ENTRY_ROW_ID_BYTES,
									 head->payload_len};
		record->flags = head->flags;
	}
	record->entry.len = record->key_len + LS_ENTRY_ROW_ID_BYTES;
}

bool
ls_index_sort_next(LsIndexSort *sort, LsIndexRecord *record)
{
	const LsSortItem *item;

	if (sort->n_runs > 0)
		item = merge_next(sort);
	else
		item = next_in_memory(sort);
	if (item == NULL)
		return false;
	unpack(sort, item, record);
	return true;
}

void
ls_index_sort_end(LsIndexSort *sort)
{
	pfree(sort->items);
	if (sort->scratch != NULL)
		pfree(sort->scratch);
	for (int i = 0; i < sort->n_runs; i++)
		close_run(&sort->runs[i]);
	if (sort->records != NULL)
		MemoryContextDelete(sort->records);
	pfree(sort->runs);
	pfree(sort->heap);
	pfree(sort);
}
