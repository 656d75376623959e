/*
 * ls_index_replace.c - one index takes the place of another, of a different access method.
 *
 * ALTER TABLE ... SET ACCESS METHOD: a leanstore index can not follow its table to
 * heap, so btree takes its place before; and keys of a table that becomes a leanstore
 * table get leanstore indexes.  ALTER TABLE ... ALTER COLUMN TYPE: the server makes the
 * index of a constraint anew from the constraint's definition, which does not tell of
 * an access method.
 *
 * The new index is built beside the old one and swapped with it as REINDEX
 * CONCURRENTLY does: name, constraint, foreign keys and comment go over.
 */
#include "ls_index.h"

#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

static Node *
catalog_expression(HeapTuple tuple, AttrNumber attno)
{
	bool		isnull;
	Datum		datum = SysCacheGetAttr(INDEXRELID, tuple, attno, &isnull);

	return isnull ? NULL : stringToNode(TextDatumGetCString(datum));
}

/* What index_create() wants to know. */
typedef struct NewIndex
{
	IndexInfo  *info;
	List	   *names;
	Oid			opclasses[INDEX_MAX_KEYS];
	int16	   *options;
} NewIndex;

/* An index like `old`; false when the other access method can not have it. */
static bool
plan_index(Relation old, Oid am, NewIndex *plan)
{
	IndexInfo  *info = BuildIndexInfo(old);
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(RelationGetRelid(old)));
	oidvector  *opclasses;
	int2vector *options;
	bool		possible = info->ii_ExclusionOps == NULL && !old->rd_rel->relispartition;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", RelationGetRelid(old));
	opclasses = (oidvector *) DatumGetPointer(SysCacheGetAttrNotNull(INDEXRELID, tuple, Anum_pg_index_indclass));
	options = (int2vector *) DatumGetPointer(SysCacheGetAttrNotNull(INDEXRELID, tuple, Anum_pg_index_indoption));

	plan->info = makeIndexInfo(info->ii_NumIndexAttrs, info->ii_NumIndexKeyAttrs, am,
							   (List *) catalog_expression(tuple, Anum_pg_index_indexprs),
							   make_ands_implicit((Expr *) catalog_expression(tuple, Anum_pg_index_indpred)),
							   info->ii_Unique, info->ii_NullsNotDistinct, true, false, false, false);
	plan->names = NIL;
	plan->options = palloc_array(int16, info->ii_NumIndexKeyAttrs);
	for (int i = 0; i < info->ii_NumIndexAttrs; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(old), i);

		plan->info->ii_IndexAttrNumbers[i] = info->ii_IndexAttrNumbers[i];
		plan->names = lappend(plan->names, pstrdup(NameStr(att->attname)));
		if (i >= info->ii_NumIndexKeyAttrs)
			continue;
		plan->options[i] = options->values[i];
		plan->opclasses[i] = ls_index_class_of(opclasses->values[i], am);
		possible = possible && OidIsValid(plan->opclasses[i]) &&
			(am != ls_index_am_oid() || ls_index_has_order(plan->opclasses[i]));
	}
	ReleaseSysCache(tuple);
	return possible;
}

/* The one option that both access methods have. */
static Datum
fillfactor_of(Relation index)
{
	bytea	   *options = index->rd_options;
	int			fillfactor = 0;

	if (options != NULL)
		fillfactor = ls_is_index(index) ? ((LsIndexOptions *) options)->fillfactor : ((BTOptions *) options)->fillfactor;
	if (fillfactor == 0)
		return (Datum) 0;
	return transformRelOptions((Datum) 0,
							   list_make1(makeDefElem("fillfactor", (Node *) makeInteger(fillfactor), -1)),
							   NULL, NULL, false, false);
}

static char *
free_name(Relation index)
{
	return ChooseRelationName(RelationGetRelationName(index), NULL, "replaced", RelationGetNamespace(index), false);
}

/* False, and nothing done, when that can not be. */
static bool
replace(Oid old_oid, Oid am)
{
	Relation	old = index_open(old_oid, AccessExclusiveLock);
	Relation	table = table_open(old->rd_index->indrelid, NoLock);
	ObjectAddress dropped = {RelationRelationId, old_oid, 0};
	NewIndex		plan;
	bool		possible = plan_index(old, am, &plan);

	if (possible)
	{
		char	   *name = free_name(old);
		Oid			new_oid = index_create(table, name, InvalidOid, InvalidOid, InvalidOid, InvalidRelFileNumber,
									   plan.info, plan.names, am, old->rd_rel->reltablespace, old->rd_indcollation,
									   plan.opclasses, NULL, plan.options, NULL, fillfactor_of(old),
									   0, 0, true, true, NULL);

		CommandCounterIncrement();
		name = free_name(old);
		index_close(old, NoLock);
		index_concurrently_swap(new_oid, old_oid, name);
		CommandCounterIncrement();
		performDeletion(&dropped, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
		CommandCounterIncrement();
	}
	else
		index_close(old, NoLock);
	table_close(table, NoLock);
	return possible;
}

static List *
indexes_of(Oid table)
{
	Relation	rel = table_open(table, NoLock);
	List	   *indexes = RelationGetIndexList(rel);

	table_close(rel, NoLock);
	return indexes;
}

void
ls_index_replace_all(Oid table)
{
	foreach_oid(index, indexes_of(table))
	{
		if (ls_index_is_ours(index) && !replace(index, BTREE_AM_OID))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("index \"%s\" cannot become a btree index", get_rel_name(index)),
					 errhint("Drop it first.")));
	}
}

/* ---- keys ------------------------------------------------------------------ */

void
ls_index_replace_keys(Oid table)
{
	foreach_oid(index, indexes_of(table))
		if (OidIsValid(get_index_constraint(index)) && get_rel_relam(index) == BTREE_AM_OID)
			(void) replace(index, ls_index_am_oid());
}

/* A constraint with a leanstore index. */
typedef struct Key
{
	Oid			table;
	char	   *constraint;
} Key;

List *
ls_index_note_keys(Oid table, bool with_children, LOCKMODE lockmode)
{
	List	   *tables = with_children ? find_all_inheritors(table, lockmode, NULL) : list_make1_oid(table);
	List	   *keys = NIL;

	foreach_oid(relid, tables)
	{
		if (get_rel_relkind(relid) != RELKIND_RELATION)
			continue;
		foreach_oid(index, indexes_of(relid))
		{
			Oid			constraint = get_index_constraint(index);

			if (OidIsValid(constraint) && ls_index_is_ours(index))
			{
				Key		   *key = palloc_object(Key);

				key->table = relid;
				key->constraint = get_constraint_name(constraint);
				keys = lappend(keys, key);
			}
		}
	}
	return keys;
}

void
ls_index_restore_keys(List *keys)
{
	foreach_ptr(Key, key, keys)
	{
		Oid			constraint = get_relation_constraint_oid(key->table, key->constraint, true);
		Oid			index = OidIsValid(constraint) ? get_constraint_index(constraint) : InvalidOid;

		if (OidIsValid(index) && !ls_index_is_ours(index))
			(void) replace(index, ls_index_am_oid());
	}
}
