/*
 * ls_relation.h - relations of the server as files of the engine: trees and scans that are open,
 * files that are forgotten.
 */
#ifndef LS_RELATION_H
#define LS_RELATION_H

#include "session/ls_session.h"

#include "access/amapi.h"
#include "access/tableam.h"
#include "catalog/catalog.h"
#include "catalog/objectaccess.h"
#include "storage/relfilelocator.h"

/* ---- ls_relation.c: relation -> open tree */

/* In rd_amcache of a leanstore relation. */
typedef struct LsRelCache
{
	ls_rel_key	key;
	ls_rel		handle;
	const struct LsIndexShape *shape;	/* of an index; NULL: not asked for yet */
} LsRelCache;

/* backend: of a temporary relation, else INVALID_PROC_NUMBER. */
static inline ls_rel_key
ls_relation_key(const RelFileLocator *locator, ProcNumber backend)
{
	ls_rel_key	key = {
		.tablespace = locator->spcOid,
		.database = locator->dbOid,
		.relation = locator->relNumber,
		.owner = backend
	};

	return key;
}

/* Before the server unlinks or empties the file. */
static inline void
ls_relation_forget(const RelFileLocator *locator, ProcNumber backend)
{
	const ls_rel_key key = ls_relation_key(locator, backend);

	ls_rel_forget(ls_shared->store, &key);
}

extern LsRelCache *ls_relation_cache(Relation rel);

extern ls_rel *ls_open(Relation rel);

/*
 * Rows of this table wait to be inserted (table/ls_table_stage.c): its entry in the relcache has no
 * file until they are, so that ls_open() comes by.  They are inserted, too, before a subtransaction
 * begins or ends and before the transaction does.
 */
typedef struct LsStaged
{
	Oid			relid;			/* invalid: no rows wait */
	void		(*insert) (void);
	void		(*forget) (void);
} LsStaged;

extern LsStaged ls_relation_staged;

/* From now on rows wait; *file: where they go. */
extern void ls_relation_stage(Relation rel, ls_rel *file);

static inline void
ls_relation_insert_staged(void)
{
	if (unlikely(OidIsValid(ls_relation_staged.relid)))
		ls_relation_staged.insert();
}

static inline void
ls_relation_forget_staged(void)
{
	if (unlikely(OidIsValid(ls_relation_staged.relid)))
		ls_relation_staged.forget();
}

/*
 * A TOAST table: what is found in it, by their numbers, has no index.  The table that VACUUM FULL
 * makes to take its place is an ordinary one in the same namespace, where no user has tables.
 */
static inline bool
ls_holds_values(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_TOASTVALUE ||
		(rel->rd_rel->relkind == RELKIND_RELATION && IsToastNamespace(rel->rd_rel->relnamespace));
}

/* What the relation's file is to the engine. */
static inline ls_rel_kind
ls_relation_kind(Relation rel)
{
	if (rel->rd_rel->relkind == RELKIND_INDEX)
		return LS_REL_INDEX;
	return ls_holds_values(rel) ? LS_REL_VALUES : LS_REL_TABLE;
}

/* Tells the engine of prepared transactions that the server has ended (txn/ls_twophase.c). */
typedef void (*LsSettle) (void);
extern LsSettle ls_relation_settle;

/* A hook, and what it calls. */
extern void ls_relation_object_access(ObjectAccessType access, Oid class_id, Oid object_id,
									  int sub_id, void *arg);
extern object_access_hook_type ls_relation_below_access;

/* ---- ls_relation_empty.c */
extern void ls_relation_empty(Relation rel);

/* This transaction has made the file, and nothing was ever in it.  False: that is not known. */
extern bool ls_relation_is_untouched(Relation rel);

/* Remember that the relation's present file goes away at commit / a new one at abort. */
extern void ls_relation_note_dropped(const RelFileLocator *locator, ProcNumber backend,
									 bool at_commit);
/* Of a temporary index: the file that it had before, if it was another, goes at commit. */
extern void ls_relation_note_index(Relation index);
extern bool ls_relation_has_pending(void);

/* PREPARE TRANSACTION: what will be unlinked, in the current memory context; then no more notes. */
extern ls_ending_file *ls_relation_ending(size_t *n);
extern void ls_relation_at_prepare(void);
extern void ls_relation_at_eoxact(bool commit);
extern void ls_relation_at_eosubxact(bool commit, SubTransactionId sub, SubTransactionId parent);

#define LS_TABLE_AM "leanstore"
#define LS_INDEX_AM "leanstore_index"

/* Of leanstore tables and indexes; invalid when the extension is not in this database. */
extern Oid	ls_table_am_oid(void);
extern Oid	ls_index_am_oid(void);

/* At load: the callbacks by which relations of the two access methods are known. */
extern void ls_relation_recognize(const TableAmRoutine *table, aminsert_function index_insert);

extern bool ls_is_table(Relation rel);
extern bool ls_is_index(Relation rel);

/* The same, of what need not be open or an index. */
extern bool ls_index_is_ours(Oid relid);

/* ---- ls_resowner.c: engine scans released after an error */
extern ls_scan *ls_scan_open_owned(Relation rel, const ls_snapshot *snapshot, uint64 lo, uint64 hi,
								   bool backward);
extern void ls_scan_close_owned(ls_scan *scan);
extern ls_index_scan *ls_index_scan_open_owned(Relation index, ls_rel *tree);
extern void ls_index_scan_close_owned(ls_index_scan *scan);

#endif							/* LS_RELATION_H */
