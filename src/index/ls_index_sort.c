/*
 * ls_index_sort.c - sorting the entries of a new index.
 *
 * Entries are byte strings that memcmp orders, so they are sorted by their bytes: eight
 * of them as one integer, radix sorted; then the next eight of those that are
 * equal so far.  What does not fit into memory is written to runs, temporary files, which
 * are merged as they are read.
 *
 * Where one integer and the row id say everything, that is in an index of one column of
 * eight bytes at most and nothing beside it, there is no record.  The first byte
 * of a key is the marker of its first column (ls_key.h); the integer is made of those
 * behind it, and for NULL it is the least or the greatest.
 *
 *	packed		prefix = the column; rest = marker (8 bits) | row id (40) | flags (8)
 *	otherwise	prefix = what it is sorted by just now; rest = address of the record: head, key, row id, payload
 */
#include "ls_index_sort.h"

#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "storage/buffile.h"
#include "utils/memutils.h"

#define ROW_ID_BYTES 5
#define PREFIX_BYTES 8

/* What one column of a fixed width may take to be packed. */
#define MAX_PACKED_WIDTH PREFIX_BYTES

/* Fewer are sorted by comparing them. */
#define RADIX_SORT_ITEMS 256

/* So many runs are merged at a time: each has a buffer of its own. */
#ifdef LS_DEBUG_CHECKS
#define MAX_RUNS 8				/* so that tests get there */
#else
#define MAX_RUNS 256
#endif

typedef struct SortItem
{
	uint64		prefix;
	uint64		rest;
} SortItem;

typedef struct RecordHead
{
	uint16		key_len;
	uint16		payload_len;
	uint8		flags;
} RecordHead;

#define RECORD_BYTES(head) (sizeof(RecordHead) + (head)->key_len + ROW_ID_BYTES + (head)->payload_len)

/* A run being merged: the item it is at. */
typedef struct Run
{
	BufFile    *file;
	int			level;			/* how often it has been merged */
	SortItem		item;
	char	   *record;			/* unless packed: the item's, in a buffer of this size */
	Size		record_size;
} Run;

struct LsIndexSort
{
	bool		packed;
	uint32		width;			/* packed: of the column */
	MemoryContext context;		/* of everything here */
	MemoryContext records;		/* a bump context; NULL when packed */
	Size		memory;

	SortItem   *items;
	SortItem   *scratch;		/* as large */
	Size		n_items;
	Size		max_items;
	Size		record_bytes;
	Size		next;			/* the next item, without runs */

	int			n_runs;
	Run			runs[MAX_RUNS];
	int			heap[MAX_RUNS]; /* runs, the least first */
	int			n_heap;
	bool		started;		/* the least run has been given out */

	uint8		entry[LS_MAX_KEY_BYTES + ROW_ID_BYTES]; /* packed: of the record given out */
};

/* ---- order ----------------------------------------------------------------- */

static inline int
compare_records(const RecordHead *a, const RecordHead *b)
{
	/* no entry is a prefix of another */
	return memcmp(a + 1, b + 1, Min(a->key_len, b->key_len) + ROW_ID_BYTES);
}

static inline bool
item_less(const LsIndexSort *sort, const SortItem *a, const SortItem *b)
{
	if (sort->packed)
		return a->prefix != b->prefix ? a->prefix < b->prefix : a->rest < b->rest;
	return compare_records((const RecordHead *) a->rest, (const RecordHead *) b->rest) < 0;
}

#define ST_SORT sort_records
#define ST_ELEMENT_TYPE SortItem
#define ST_COMPARE(a, b) compare_records((const RecordHead *) (a)->rest, (const RecordHead *) (b)->rest)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

#define ST_SORT sort_packed
#define ST_ELEMENT_TYPE SortItem
#define ST_COMPARE(a, b) ((a)->rest < (b)->rest ? -1 : (a)->rest > (b)->rest)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/*
 * By prefix, least significant byte first: every pass is stable.  A byte that is the
 * same in all of them takes no pass.
 */
static void
radix_sort(SortItem *items, SortItem *scratch, Size n)
{
	Size		counts[PREFIX_BYTES][256];
	SortItem   *from = items;
	SortItem   *to = scratch;

	memset(counts, 0, sizeof(counts));
	for (Size i = 0; i < n; i++)
		for (int byte = 0; byte < PREFIX_BYTES; byte++)
			counts[byte][(from[i].prefix >> (8 * byte)) & 0xFF]++;

	for (int byte = 0; byte < PREFIX_BYTES; byte++)
	{
		Size	   *count = counts[byte];
		Size		start = 0;
		SortItem   *swap = from;

		CHECK_FOR_INTERRUPTS();
		if (count[(from[0].prefix >> (8 * byte)) & 0xFF] == n)
			continue;
		for (int value = 0; value < 256; value++)
		{
			Size		here = count[value];

			count[value] = start;
			start += here;
		}
		for (Size i = 0; i < n; i++)
			to[count[(from[i].prefix >> (8 * byte)) & 0xFF]++] = from[i];
		from = to;
		to = swap;
	}
	if (from != items)
		memcpy(items, from, n * sizeof(SortItem));
}

/* Up to eight bytes as an integer that orders like them. */
static inline uint64
bytes_to_prefix(const uint8 *bytes, uint32 len)
{
	uint64		prefix = 0;

	memcpy(&prefix, bytes, Min(len, PREFIX_BYTES));
	return pg_ntoh64(prefix);
}

/*
 * Sort records that are equal in their first `offset` bytes.  Many of them by the next
 * eight, and so on with those that are equal in these, too.
 */
static void
sort_records_behind(SortItem *items, SortItem *scratch, Size n, uint32 offset)
{
	if (n < RADIX_SORT_ITEMS)
	{
		sort_records(items, n);
		return;
	}
	check_stack_depth();
	for (Size i = 0; i < n; i++)
	{
		const RecordHead *head = (const RecordHead *) items[i].rest;
		uint32		len = head->key_len + ROW_ID_BYTES;

		items[i].prefix = bytes_to_prefix((const uint8 *) (head + 1) + Min(offset, len), len - Min(offset, len));
	}
	radix_sort(items, scratch, n);
	for (Size from = 0, to; from < n; from = to)
	{
		for (to = from + 1; to < n && items[to].prefix == items[from].prefix; to++)
			;
		if (to - from > 1)
			sort_records_behind(items + from, scratch + from, to - from, offset + PREFIX_BYTES);
	}
}

static void
sort_items(LsIndexSort *sort)
{
	if (!sort->packed)
	{
		sort_records_behind(sort->items, sort->scratch, sort->n_items, 0);
		return;
	}
	if (sort->n_items < 2)
		return;
	radix_sort(sort->items, sort->scratch, sort->n_items);
	for (Size from = 0, to; from < sort->n_items; from = to)
	{
		for (to = from + 1; to < sort->n_items && sort->items[to].prefix == sort->items[from].prefix; to++)
			;
		if (to - from > 1)
			sort_packed(sort->items + from, to - from);
	}
}

/* ---- runs ------------------------------------------------------------------ */

static void
write_item(const LsIndexSort *sort, BufFile *file, const SortItem *item)
{
	if (sort->packed)
		BufFileWrite(file, item, sizeof(SortItem));
	else
	{
		const RecordHead *head = (const RecordHead *) item->rest;

		BufFileWrite(file, head, RECORD_BYTES(head));
	}
}

/* Go to the run's next item; false at its end. */
static bool
read_item(const LsIndexSort *sort, Run *run)
{
	RecordHead	head;

	if (sort->packed)
		return BufFileReadMaybeEOF(run->file, &run->item, sizeof(SortItem), true) != 0;

	if (BufFileReadMaybeEOF(run->file, &head, sizeof(head), true) == 0)
		return false;
	if (RECORD_BYTES(&head) > run->record_size)
	{
		run->record_size = RECORD_BYTES(&head) * 2;
		if (run->record != NULL)
			pfree(run->record);
		run->record = MemoryContextAlloc(sort->context, run->record_size);
	}
	memcpy(run->record, &head, sizeof(head));
	BufFileReadExact(run->file, run->record + sizeof(head), RECORD_BYTES(&head) - sizeof(head));
	run->item.rest = (uint64) (uintptr_t) run->record;
	return true;
}

static inline bool
run_less(const LsIndexSort *sort, int a, int b)
{
	return item_less(sort, &sort->runs[a].item, &sort->runs[b].item);
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
		if (BufFileSeek(sort->runs[i].file, 0, 0, SEEK_SET) != 0)
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
static const SortItem *
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
	BufFile    *merged = BufFileCreateTemp(false);
	const SortItem *item;

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
		write_item(sort, merged, item);
	}
	for (int i = first; i < sort->n_runs; i++)
		close_run(&sort->runs[i]);
	sort->runs[first] = (Run) {.file = merged, .level = level + 1};
	sort->n_runs = first + 1;
}

/* Sort what is in memory and make a run of it. */
static void
write_run(LsIndexSort *sort)
{
	MemoryContext old = MemoryContextSwitchTo(sort->context);
	BufFile    *file;

	sort_items(sort);
	if (sort->n_runs == MAX_RUNS)
		merge_runs(sort);
	file = BufFileCreateTemp(false);
	for (Size i = 0; i < sort->n_items; i++)
	{
		if (i % 4096 == 0)
			CHECK_FOR_INTERRUPTS();
		write_item(sort, file, &sort->items[i]);
	}
	sort->runs[sort->n_runs++] = (Run) {.file = file};
	sort->n_items = 0;
	sort->record_bytes = 0;
	if (sort->records != NULL)
		MemoryContextReset(sort->records);
	MemoryContextSwitchTo(old);
}

/* ---- interface ------------------------------------------------------------- */

LsIndexSort *
ls_index_sort_begin(const LsIndexShape *shape, int kilobytes)
{
	LsIndexSort *sort = palloc0_object(LsIndexSort);
	uint32		width = shape->keys[0].encoding->width;

	sort->packed = shape->n_columns == 1 && shape->n_stored == 0 && width > 0 && width <= MAX_PACKED_WIDTH;
	sort->width = width;
	sort->context = CurrentMemoryContext;
	sort->memory = (Size) kilobytes * 1024;
	sort->max_items = 1024;
	sort->items = palloc_array(SortItem, sort->max_items);
	sort->scratch = palloc_array(SortItem, sort->max_items);
	if (!sort->packed)
		sort->records = BumpContextCreate(CurrentMemoryContext, "leanstore index records", ALLOCSET_DEFAULT_SIZES);
	return sort;
}

/* Room for one more; false when that would take too much memory. */
static bool
have_room(LsIndexSort *sort)
{
	Size		more = sort->max_items * 2;

	if (sort->n_items < sort->max_items)
		return sort->n_items * 2 * sizeof(SortItem) + sort->record_bytes <= sort->memory;
	if (more * 2 * sizeof(SortItem) + sort->record_bytes > sort->memory)
	{
		/* the last step may be a smaller one */
		more = (sort->memory - Min(sort->record_bytes, sort->memory)) / (2 * sizeof(SortItem));
		if (!sort->packed || more <= sort->max_items)
			return false;
	}
	sort->items = repalloc_huge(sort->items, more * sizeof(SortItem));
	pfree(sort->scratch);
	sort->scratch = MemoryContextAllocHuge(sort->context, more * sizeof(SortItem));
	sort->max_items = more;
	return true;
}

static inline void
put_row_id(uint8 *out, uint64 row_id)
{
	for (int i = ROW_ID_BYTES - 1; i >= 0; i--)
		*out++ = (uint8) (row_id >> (8 * i));
}

void
ls_index_sort_add(LsIndexSort *sort, ls_bytes key, uint64 row_id, ls_bytes payload, uint8 flags)
{
	SortItem   *item;

	if (!have_room(sort))
		write_run(sort);
	item = &sort->items[sort->n_items++];
	if (sort->packed)
	{
		item->prefix = key.data[0] == LS_KEY_VALUE ? bytes_to_prefix(key.data + 1, key.len - 1)
			: key.data[0] == LS_KEY_NULL_LAST ? PG_UINT64_MAX : 0;
		item->rest = (uint64) key.data[0] << 48 | row_id << 8 | flags;
	}
	else
	{
		RecordHead	head = {.key_len = key.len, .payload_len = payload.len, .flags = flags};
		char	   *record = MemoryContextAlloc(sort->records, RECORD_BYTES(&head));

		item->rest = (uint64) (uintptr_t) record;
		memcpy(record, &head, sizeof(head));
		record += sizeof(head);
		memcpy(record, key.data, key.len);
		put_row_id((uint8 *) record + key.len, row_id);
		memcpy(record + key.len + ROW_ID_BYTES, payload.data, payload.len);
		sort->record_bytes += MAXALIGN(RECORD_BYTES(&head));
	}
}

void
ls_index_sort_perform(LsIndexSort *sort)
{
	if (sort->n_runs == 0)
		sort_items(sort);
	else
	{
		if (sort->n_items > 0)
			write_run(sort);
		pfree(sort->items);
		pfree(sort->scratch);
		begin_merge(sort, 0);
	}
}

/* The item as a record. */
static void
unpack(LsIndexSort *sort, const SortItem *item, LsIndexRecord *record)
{
	if (sort->packed)
	{
		uint64		prefix = pg_hton64(item->prefix);
		uint8		marker = (uint8) (item->rest >> 48);

		sort->entry[0] = marker;
		record->key_len = 1;
		if (marker == LS_KEY_VALUE)
		{
			memcpy(sort->entry + 1, &prefix, PREFIX_BYTES);
			record->key_len += sort->width;
		}
		put_row_id(sort->entry + record->key_len, (item->rest >> 8) & LS_MAX_ROW_ID);
		record->entry.data = sort->entry;
		record->payload = (ls_bytes) {0};
		record->flags = (uint8) item->rest;
	}
	else
	{
		const RecordHead *head = (const RecordHead *) item->rest;

		record->key_len = head->key_len;
		record->entry.data = (const uint8 *) (head + 1);
		record->payload = (ls_bytes) {record->entry.data + head->key_len + ROW_ID_BYTES, head->payload_len};
		record->flags = head->flags;
	}
	record->entry.len = record->key_len + ROW_ID_BYTES;
}

bool
ls_index_sort_next(LsIndexSort *sort, LsIndexRecord *record)
{
	const SortItem *item;

	if (sort->n_runs > 0)
		item = merge_next(sort);
	else
		item = sort->next < sort->n_items ? &sort->items[sort->next++] : NULL;
	if (item == NULL)
		return false;
	unpack(sort, item, record);
	return true;
}

void
ls_index_sort_end(LsIndexSort *sort)
{
	if (sort->n_runs == 0)
	{
		pfree(sort->items);
		pfree(sort->scratch);
	}
	for (int i = 0; i < sort->n_runs; i++)
		close_run(&sort->runs[i]);
	if (sort->records != NULL)
		MemoryContextDelete(sort->records);
	pfree(sort);
}
