/*
 * ls_relation.c - from a relcache entry to the engine's open tree, and forgetting trees
 * before PostgreSQL removes their files.
 *
 * PostgreSQL's storage manager creates and unlinks the files; the engine must drop
 * its pages before a file goes: at commit for files that were dropped or
 * replaced, at abort for files that were created.  Transaction callbacks run before
 * smgrDoPendingDeletes unlinks anything, in commit and in abort, and can ask what it
 * is going to unlink.  That list alone is the truth: ALTER TABLE may keep the file of
 * an index that it drops, and DROP INDEX CONCURRENTLY drops one several transactions
 * after it has said so.  It does not tell of temporary files, though, and the PRE_PREPARE
 * callback (ls_xact.c) must know whether some are ours, so these are noted one by one.
 *
 * COMMIT PREPARED and ROLLBACK PREPARED unlink files without a callback before that.  So the engine
 * closes them at PREPARE, and keeps them closed until it is told how the transaction has ended
 * (engine/buffer/sealed_files.hpp).
 */
#include "postgres.h"

#include "ls_relation.h"

#include "access/relation.h"
#include "catalog/catalog.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/storage.h"
#include "commands/defrem.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "leanstore/standby.h"

/*
 * The file that a temporary index had when it was last built or opened: PostgreSQL does not tell
 * of the one that REINDEX or TRUNCATE replaces.  An entry comes with its index and goes with it.
 */
typedef struct TempIndex
{
	Oid			index;			/* hash key */
	RelFileLocator locator;
} TempIndex;

/* What a transaction has done to an entry, and its end may have to take back. */
typedef enum TempChange
{
	TEMP_NONE,
	TEMP_CREATED,
	TEMP_REPLACED,				/* the note's file was the entry's */
	TEMP_DROPPED				/* the entry stays until commit */
} TempChange;

/* A file that is unlinked at the end of the transaction. */
typedef struct PendingForget
{
	struct PendingForget *next;
	RelFileLocator locator;
	ProcNumber	backend;
	bool		at_commit;		/* else at abort */
	bool		stays;			/* the file is not unlinked: the note is of the entry alone */
	SubTransactionId sub;
	TempChange	change;
	Oid			index;			/* of the change */
} PendingForget;

static PendingForget *pending = NULL;

static HTAB *temp_indexes = NULL;
static const TableAmRoutine *table_routine = NULL;
static aminsert_function index_aminsert = NULL;
object_access_hook_type ls_relation_below_access = NULL;
LsStaged	ls_relation_staged = {0};
LsSettle	ls_relation_settle = NULL;

/* Member by member: of what has just been written in pieces, a wider load has to wait. */
static inline bool
same_key(const ls_rel_key *a, const ls_rel_key *b)
{
	return a->relation == b->relation && a->database == b->database &&
		a->tablespace == b->tablespace && a->owner == b->owner;
}

void
ls_relation_recognize(const TableAmRoutine *table, aminsert_function index_insert)
{
	table_routine = table;
	index_aminsert = index_insert;
}

bool
ls_is_table(Relation rel)
{
	return rel->rd_tableam == table_routine;
}

bool
ls_is_index(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_INDEX && rel->rd_indam->aminsert == index_aminsert;
}

LsRelCache *
ls_relation_cache(Relation rel)
{
	if (rel->rd_amcache == NULL)
		rel->rd_amcache = MemoryContextAllocZero(rel->rd_rel->relkind == RELKIND_INDEX
													 ? rel->rd_indexcxt
													 : CacheMemoryContext,
												 sizeof(LsRelCache));
	return rel->rd_amcache;
}

static PendingForget *
note(const RelFileLocator *locator, ProcNumber backend, bool at_commit)
{
	PendingForget *entry = MemoryContextAllocZero(TopMemoryContext, sizeof(PendingForget));

	entry->locator = *locator;
	entry->backend = backend;
	entry->at_commit = at_commit;
	entry->sub = GetCurrentSubTransactionId();
	entry->next = pending;
	pending = entry;
	return entry;
}

static void
note_change(const RelFileLocator *locator, Relation index, TempChange change)
{
	PendingForget *entry = note(locator, index->rd_backend, true);

	entry->change = change;
	entry->index = RelationGetRelid(index);
	entry->stays = change == TEMP_CREATED;
}

void
ls_relation_note_index(Relation index)
{
	TempIndex  *entry;

	if (!RelationUsesLocalBuffers(index))
		return;
	if (temp_indexes == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(Oid),
						   .entrysize = sizeof(TempIndex),
						   .hcxt = TopMemoryContext};

		temp_indexes = hash_create("leanstore temporary indexes", 16, &control,
								   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	entry = hash_search(temp_indexes, &RelationGetRelid(index), HASH_FIND, NULL);
	if (entry != NULL && RelFileLocatorEquals(entry->locator, index->rd_locator))
		return;
	/* the note first: without memory for it nothing has changed */
	if (entry != NULL)
		note_change(&entry->locator, index, TEMP_REPLACED);
	else
	{
		note_change(&index->rd_locator, index, TEMP_CREATED);
		entry = hash_search(temp_indexes, &RelationGetRelid(index), HASH_ENTER, NULL);
	}
	entry->locator = index->rd_locator;
}

/*
 * On a standby: nothing was ever in it, so it has no pages yet.  It may get some, so the next call
 * looks again.
 */
static void
open_empty(Relation rel, LsRelCache *cached)
{
	ls_error	error = {0};

	ls_check(ls_rel_open_empty(ls_reader(), ls_relation_kind(rel), &cached->handle, &error), error,
			 rel);
	memset(&cached->key, 0, sizeof(cached->key));
}

/*
 * Apart from ls_open(), which is called for every row.  It may have to wait for a place among
 * the open relations.  Interrupts are processed meanwhile, so cache entries are got anew; and
 * the call of the engine that this is for stays as interruptible as it was.
 */
static pg_noinline ls_rel *
open_file(Relation rel, const ls_rel_key *key)
{
	bool		is_index = rel->rd_rel->relkind == RELKIND_INDEX;
	const volatile int *interrupt;
	LsRelCache *cached;
	ls_worker  *worker;
	ls_rel		handle;
	ls_error	error = {0};
	ls_status	status;
	RelPathStr	path;

	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary tables of other sessions")));

	ls_upgrade_refuse(RelationGetRelationName(rel));
	if (unlikely(ls_relation_staged.relid == RelationGetRelid(rel)))
		ls_relation_staged.insert();
	Assert(ls_relation_staged.relid != RelationGetRelid(rel));	/* STAGED-2 */
	if (is_index)
		ls_relation_note_index(rel);
	path = relpathbackend(rel->rd_locator, rel->rd_backend, MAIN_FORKNUM);
	worker = ls_reader();
	interrupt = *ls_interrupt;
	for (int tries = 0; tries < 2; tries++)
	{
		LS_CALL_ON(rel, status,
				   ls_rel_open(worker, key, path.str, ls_relation_kind(rel),
							   rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT, &handle,
							   &error));
		if (status != LS_IN_USE)
			break;
		/* The server has ended that transaction: else its lock on the relation would be there. */
		ls_relation_settle();
	}
	*ls_interrupt = interrupt;
	cached = ls_relation_cache(rel);
	if (status == LS_END)
	{
		open_empty(rel, cached);
		return &cached->handle;
	}
	ls_check(status, error, rel);
	cached->handle = handle;
	cached->key = *key;
	return &cached->handle;
}

ls_rel *
ls_open(Relation rel)
{
	ls_rel_key	key = ls_relation_key(&rel->rd_locator, rel->rd_backend);
	LsRelCache *cached = rel->rd_amcache;

	if (likely(cached != NULL && cached->handle.slot != NULL &&
			   same_key(&cached->key, &key) && ls_rel_is_open(&cached->handle)))
		return &cached->handle;
	return open_file(rel, &key);
}

void
ls_relation_stage(Relation rel, ls_rel *file)
{
	*file = *ls_open(rel);
	ls_relation_cache(rel)->handle.slot = NULL;
	ls_relation_staged.relid = RelationGetRelid(rel);
}

/* ---- forgetting ------------------------------------------------------------ */

void
ls_relation_note_dropped(const RelFileLocator *locator, ProcNumber backend, bool at_commit)
{
	(void) note(locator, backend, at_commit);
}

/* A file is kept that was noted as dropped: ALTER TABLE makes a new index around it. */
static void
note_kept(const RelFileLocator *locator, ProcNumber backend)
{
	for (PendingForget **link = &pending; *link != NULL;)
	{
		PendingForget *entry = *link;

		if (entry->at_commit && entry->backend == backend &&
			RelFileLocatorEquals(entry->locator, *locator))
			entry->stays = true;
		if (entry->stays && entry->change == TEMP_NONE)
		{
			*link = entry->next;
			pfree(entry);
		}
		else
			link = &entry->next;
	}
}

/* Forget what the storage manager is about to unlink.  It leaves alone what is not the engine's. */
static void
forget_unlinked(bool commit)
{
	RelFileLocator *locators;
	int			n = ls_shared == NULL ? 0 : smgrGetPendingDeletes(commit, &locators);

	for (int i = 0; i < n; i++)
		ls_relation_forget(&locators[i], INVALID_PROC_NUMBER);
	if (n > 0)
		pfree(locators);
}

static void
forget_temporary(const PendingForget *entry)
{
	if (entry->backend != INVALID_PROC_NUMBER && !entry->stays)
		ls_relation_forget(&entry->locator, entry->backend);
}

/* The transaction, or a subtransaction that is rolled back, ends: newest notes first. */
static void
finish(const PendingForget *entry, bool commit)
{
	if (entry->at_commit == commit)
		forget_temporary(entry);
	if (entry->change == (commit ? TEMP_DROPPED : TEMP_CREATED))
		hash_search(temp_indexes, &entry->index, HASH_REMOVE, NULL);
	else if (entry->change == TEMP_REPLACED && !commit)
	{
		TempIndex  *index = hash_search(temp_indexes, &entry->index, HASH_FIND, NULL);

		if (index != NULL)
			index->locator = entry->locator;
	}
}

bool
ls_relation_has_pending(void)
{
	return pending != NULL;
}

/*
 * All that the storage manager will unlink at the end of this transaction, either way; heap's, too,
 * which the engine leaves alone.
 */
ls_ending_file *
ls_relation_ending(size_t *n)
{
	RelFileLocator *locators[2];
	int			count[2];
	ls_ending_file *files;

	*n = 0;
	for (int commit = 0; commit < 2; commit++)
		count[commit] = smgrGetPendingDeletes(commit, &locators[commit]);
	files = palloc_array(ls_ending_file, count[0] + count[1]);
	for (int commit = 0; commit < 2; commit++)
	{
		for (int i = 0; i < count[commit]; i++)
			files[(*n)++] = (ls_ending_file) {
				.key = ls_relation_key(&locators[commit][i], INVALID_PROC_NUMBER),
				.at_commit = commit
			};
	}
	return files;
}

/* PREPARE TRANSACTION: they are the engine's to remember now.  None is a temporary file's. */
void
ls_relation_at_prepare(void)
{
	while (pending != NULL)
	{
		PendingForget *entry = pending;

		Assert(entry->backend == INVALID_PROC_NUMBER && entry->change == TEMP_NONE);
		pending = entry->next;
		pfree(entry);
	}
}

void
ls_relation_at_eoxact(bool commit)
{
	forget_unlinked(commit);
	while (pending != NULL)
	{
		PendingForget *entry = pending;

		pending = entry->next;
		finish(entry, commit);
		pfree(entry);
	}
}

void
ls_relation_at_eosubxact(bool commit, SubTransactionId sub, SubTransactionId parent)
{
	PendingForget **link = &pending;

	if (!commit)
		forget_unlinked(false);
	while (*link != NULL)
	{
		PendingForget *entry = *link;

		if (entry->sub < sub)
		{
			/* made before the subtransaction began */
			link = &entry->next;
			continue;
		}
		if (commit)
		{
			entry->sub = parent;
			link = &entry->next;
			continue;
		}
		finish(entry, false);
		*link = entry->next;
		pfree(entry);
	}
}

/* DROP of anything comes by here, relation by relation, before the catalog entry is gone. */
static void
note_drop(Oid relid)
{
	char		relkind = get_rel_relkind(relid);
	Relation	rel;

	if (relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW &&
		relkind != RELKIND_TOASTVALUE && relkind != RELKIND_INDEX)
		return;
	rel = relation_open(relid, NoLock);
	if (ls_is_index(rel) && temp_indexes != NULL &&
		hash_search(temp_indexes, &relid, HASH_FIND, NULL) != NULL)
		note_change(&rel->rd_locator, rel, TEMP_DROPPED);
	else if (ls_is_table(rel) || ls_is_index(rel))
		ls_relation_note_dropped(&rel->rd_locator, rel->rd_backend, true);
	relation_close(rel, NoLock);
}

/* A new relation: has it taken over a file?  Else that has the number that the relation has. */
static void
note_create(Oid relid)
{
	Relation	rel = relation_open(relid, NoLock);

	if (rel->rd_rel->relkind == RELKIND_INDEX && rel->rd_locator.relNumber != relid)
		note_kept(&rel->rd_locator, rel->rd_backend);
	relation_close(rel, NoLock);
}

void
ls_relation_object_access(ObjectAccessType access, Oid class_id, Oid object_id,
						  int sub_id, void *arg)
{
	if (ls_relation_below_access)
		ls_relation_below_access(access, class_id, object_id, sub_id, arg);

	if (class_id != RelationRelationId || sub_id != 0)
		return;
	if (access == OAT_DROP)
		note_drop(object_id);
	else if (access == OAT_POST_CREATE && pending != NULL)
		note_create(object_id);
}

Oid
ls_table_am_oid(void)
{
	return get_table_am_oid(LS_TABLE_AM, true);
}

Oid
ls_index_am_oid(void)
{
	return get_index_am_oid(LS_INDEX_AM, true);
}

bool
ls_index_is_ours(Oid relid)
{
	return get_rel_relkind(relid) == RELKIND_INDEX && get_rel_relam(relid) == ls_index_am_oid();
}
