/*
 * ls_relation.c - from a relcache entry to the engine's open tree, and forgetting trees
 * whose files PostgreSQL is about to remove.
 *
 * PostgreSQL's storage manager creates and unlinks the files; the engine must drop
 * its pages before a file goes: at commit for files that were dropped or
 * replaced, at abort for files that were created.  Transaction callbacks run before
 * smgrDoPendingDeletes unlinks anything, in commit and in abort.
 */
#include "ls.h"

#include "access/relation.h"
#include "catalog/catalog.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* In rd_amcache of a leanstore relation. */
typedef struct LsRelCache
{
	ls_rel_key	key;
	ls_rel	   *handle;
} LsRelCache;

/* A file to be forgotten at the end of the transaction. */
typedef struct PendingForget
{
	struct PendingForget *next;
	ls_rel_key	key;
	bool		at_commit;		/* else at abort */
	SubTransactionId sub;
} PendingForget;

static PendingForget *pending = NULL;
static object_access_hook_type previous_access_hook = NULL;

static ls_rel_key
key_of(const RelFileLocator *locator, ProcNumber backend)
{
	return (ls_rel_key)
	{
		.tablespace = locator->spcOid,
			.database = locator->dbOid,
			.relation = locator->relNumber,
			.owner = backend
	};
}

bool
ls_is_table(Relation rel)
{
	return rel->rd_tableam == &ls_table_routine;
}

ls_rel *
ls_open(Relation rel)
{
	ls_rel_key	key = key_of(&rel->rd_locator, rel->rd_backend);
	LsRelCache *cached = rel->rd_amcache;
	ls_error	error = {0};
	RelPathStr	path;

	if (likely(cached != NULL && cached->handle != NULL &&
			   memcmp(&cached->key, &key, sizeof(key)) == 0 &&
			   ls_rel_is(cached->handle, &key)))
		return cached->handle;

	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary tables of other sessions")));

	if (cached == NULL)
	{
		cached = MemoryContextAllocZero(CacheMemoryContext, sizeof(LsRelCache));
		rel->rd_amcache = cached;
	}
	cached->handle = NULL;
	path = relpathbackend(rel->rd_locator, rel->rd_backend, MAIN_FORKNUM);
	ls_check(ls_rel_open(ls_reader(), &key, path.str, LS_REL_TABLE,
						 rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT,
						 &cached->handle, &error),
			 error, rel);
	cached->key = key;
	return cached->handle;
}

/* ---- forgetting ------------------------------------------------------------ */

void
ls_relation_note_dropped(const RelFileLocator *locator, ProcNumber backend, bool at_commit)
{
	PendingForget *entry = MemoryContextAlloc(TopMemoryContext, sizeof(PendingForget));

	entry->key = key_of(locator, backend);
	entry->at_commit = at_commit;
	entry->sub = GetCurrentSubTransactionId();
	entry->next = pending;
	pending = entry;
}

bool
ls_relation_has_pending(void)
{
	return pending != NULL;
}

void
ls_relation_at_eoxact(bool commit)
{
	while (pending != NULL)
	{
		PendingForget *entry = pending;

		pending = entry->next;
		if (entry->at_commit == commit)
			ls_rel_forget(ls_shared->store, &entry->key);
		pfree(entry);
	}
}

void
ls_relation_at_eosubxact(bool commit, SubTransactionId sub, SubTransactionId parent)
{
	PendingForget **link = &pending;

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
		if (!entry->at_commit)
			ls_rel_forget(ls_shared->store, &entry->key);
		*link = entry->next;
		pfree(entry);
	}
}

/*
 * DROP of anything that is or contains a leanstore table comes by here, relation by
 * relation, before the catalog entry is gone.
 */
static void
access_hook(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (previous_access_hook)
		previous_access_hook(access, class_id, object_id, sub_id, arg);

	if (access == OAT_DROP && class_id == RelationRelationId && sub_id == 0)
	{
		char		relkind = get_rel_relkind(object_id);
		Relation	rel;

		if (relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW && relkind != RELKIND_TOASTVALUE)
			return;
		rel = relation_open(object_id, NoLock);
		if (ls_is_table(rel))
			ls_relation_note_dropped(&rel->rd_locator, rel->rd_backend, true);
		relation_close(rel, NoLock);
	}
}

void
ls_relation_install_hooks(void)
{
	previous_access_hook = object_access_hook;
	object_access_hook = access_hook;
}

Oid
ls_table_am_oid(void)
{
	return get_table_am_oid("leanstore", false);
}
