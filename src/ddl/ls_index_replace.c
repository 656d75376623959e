/*
 * ls_index_replace.c - one index takes the place of another, of a different access method.
 *
 * ALTER TABLE ... SET ACCESS METHOD: the indexes of the table become those of its new kind,
 * all of them where it leaves, btree indexes that a leanstore index can stand for where it
 * comes.
 *
 * The new index is made beside the old one and swapped with it as REINDEX
 * CONCURRENTLY does: name, constraint, foreign keys, comment, marks and statistics go over.
 * Where the server is about to rewrite the table, and so to build all its indexes, it is
 * made empty.  That is for SET ACCESS METHOD as the only command of a statement: nothing of
 * the user runs between.
 *
 * ALTER TABLE ... ALTER COLUMN TYPE: the server makes the index of a constraint anew from
 * the constraint's definition, which does not tell of an access method.  What it makes is turned
 * into a leanstore index in the catalogs before it is built.
 *
 * ALTER TABLE ... ATTACH PARTITION: an index of a partitioned table, of which there is nothing but
 * the catalogs, becomes a leanstore index for its first partition.
 */
#include "postgres.h"

#include "ls_ddl_internal.h"
#include "pg/ls_pg.h"
#include "session/ls_session.h"
#include "relation/ls_relation.h"
#include "index/ls_index.h"

#include "access/attmap.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_opclass.h"
#include "catalog/partition.h"
#include "commands/defrem.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
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
	NullableDatum stattargets[INDEX_MAX_KEYS];
	Datum		class_options[INDEX_MAX_KEYS];	/* none, but targets are taken beside them only */
} NewIndex;

static Datum
reloptions_of(Relation index)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(RelationGetRelid(index)));
	bool		isnull;
	Datum		options;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", RelationGetRelid(index));
	options = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_reloptions, &isnull);
	if (!isnull)
		options = datumCopy(options, false, -1);
	ReleaseSysCache(tuple);
	return isnull ? (Datum) 0 : options;
}

/* Has it no option but the one that both access methods have? */
static bool
only_fillfactor(Relation index)
{
	return ls_index_options_suit(untransformRelOptions(reloptions_of(index)));
}

static NullableDatum
statistics_target(Relation index, AttrNumber attno)
{
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(RelationGetRelid(index)),
										Int16GetDatum(attno));
	NullableDatum target;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for attribute %d of relation %u", attno,
			 RelationGetRelid(index));
	target.value = SysCacheGetAttr(ATTNUM, tuple, Anum_pg_attribute_attstattarget, &target.isnull);
	ReleaseSysCache(tuple);
	return target;
}

/* As for CREATE INDEX: ON CONFLICT that names an operator class means btree's. */
static bool
serves_as(Oid opclass, Oid btree_class, Oid type, bool unique)
{
	return ls_index_has_order(opclass) &&
		(!unique || GetDefaultOpClass(type, BTREE_AM_OID) == btree_class);
}

/* The operators of an exclusion constraint have to be in the new classes, too. */
static bool
copy_exclusion(const IndexInfo *info, NewIndex *plan)
{
	if (info->ii_ExclusionOps == NULL)
		return true;
	plan->info->ii_ExclusionOps = info->ii_ExclusionOps;
	plan->info->ii_ExclusionProcs = info->ii_ExclusionProcs;
	plan->info->ii_ExclusionStrats = palloc_array(uint16, info->ii_NumIndexKeyAttrs);
	for (int i = 0; i < info->ii_NumIndexKeyAttrs; i++)
	{
		Oid			opclass = plan->opclasses[i];
		int			strategy = !OidIsValid(opclass) ? 0
			: get_op_opfamily_strategy(info->ii_ExclusionOps[i], get_opclass_family(opclass));

		if (strategy == 0)
			return false;
		plan->info->ii_ExclusionStrats[i] = strategy;
	}
	return true;
}

/* An index like `old`; false when the other access method can not have it. */
static bool
plan_index(Relation old, Oid am, NewIndex *plan)
{
	IndexInfo  *info = BuildIndexInfo(old);
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(RelationGetRelid(old)));
	oidvector  *opclasses;
	int2vector *options;
	bool		possible = !old->rd_rel->relispartition && only_fillfactor(old);

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", RelationGetRelid(old));
	opclasses = (oidvector *) DatumGetPointer(
		SysCacheGetAttrNotNull(INDEXRELID, tuple, Anum_pg_index_indclass));
	options = (int2vector *) DatumGetPointer(
		SysCacheGetAttrNotNull(INDEXRELID, tuple, Anum_pg_index_indoption));

	plan->info =
		makeIndexInfo(info->ii_NumIndexAttrs, info->ii_NumIndexKeyAttrs, am,
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
		plan->stattargets[i] = statistics_target(old, i + 1);
		if (i >= info->ii_NumIndexKeyAttrs)
			continue;
		plan->options[i] = options->values[i] & LS_INDEX_ORDER_OPTIONS;
		plan->opclasses[i] = ls_index_class_of(opclasses->values[i], am);
		possible = possible && OidIsValid(plan->opclasses[i]) &&
			(am != ls_index_am_oid() ||
			 serves_as(plan->opclasses[i], opclasses->values[i], att->atttypid, info->ii_Unique));
	}
	ReleaseSysCache(tuple);
	return possible && copy_exclusion(info, plan);
}

static char *
free_name(Relation index)
{
	return ChooseRelationName(RelationGetRelationName(index), NULL, "replaced",
							  RelationGetNamespace(index), false);
}

/* The swap has given the new index the dependencies of the old one, on its operator classes. */
static void
depend_on_classes(Oid index, const NewIndex *plan)
{
	ObjectAddress depender = {RelationRelationId, index, 0};
	ObjectAddresses *classes = new_object_addresses();

	deleteDependencyRecordsForClass(RelationRelationId, index, OperatorClassRelationId,
									DEPENDENCY_NORMAL);
	for (int i = 0; i < plan->info->ii_NumIndexKeyAttrs; i++)
	{
		ObjectAddress opclass = {OperatorClassRelationId, plan->opclasses[i], 0};

		add_exact_object_address(&opclass, classes);
	}
	record_object_address_dependencies(&depender, classes, DEPENDENCY_NORMAL);
	free_object_addresses(classes);
}

/* An index of `table` like `old`; InvalidOid when the access method can not have it. */
static Oid
make_like(Relation old, Relation table, Oid am, uint16 flags, NewIndex *plan)
{
	if (!plan_index(old, am, plan))
		return InvalidOid;
	return index_create(table, free_name(old), InvalidOid, InvalidOid, InvalidOid,
						InvalidRelFileNumber, plan->info, plan->names, am,
						old->rd_rel->reltablespace, old->rd_indcollation, plan->opclasses,
						plan->class_options, plan->options, plan->stattargets,
						reloptions_of(old), flags, 0, true, true, NULL);
}

/* InvalidOid, and nothing done, when that can not be.  build: the server is not about to. */
static Oid
replace(Oid old_oid, Oid am, bool build)
{
	Relation	old = index_open(old_oid, AccessExclusiveLock);
	Relation	table = table_open(old->rd_index->indrelid, NoLock);
	ObjectAddress dropped = {RelationRelationId, old_oid, 0};
	NewIndex	plan = {0};
	Oid			new_oid = make_like(old, table, am, build ? 0 : INDEX_CREATE_SKIP_BUILD, &plan);

	if (OidIsValid(new_oid))
	{
		char	   *name;

		CommandCounterIncrement();
		name = free_name(old);
		index_close(old, NoLock);
		index_concurrently_swap(new_oid, old_oid, name);
		CommandCounterIncrement();
		depend_on_classes(new_oid, &plan);
		performDeletion(&dropped, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
		CommandCounterIncrement();
	}
	else
		index_close(old, NoLock);
	table_close(table, NoLock);
	return new_oid;
}

/* Where its table becomes a leanstore table, if it can be. */
static bool
is_to_be_replaced(Oid index)
{
	return get_rel_relam(index) == BTREE_AM_OID &&
		(ls_replace_btree || OidIsValid(get_index_constraint(index)));
}

Oid
ls_index_make_like(Oid index, Relation table)
{
	Relation	old = index_open(index, AccessShareLock);
	NewIndex	plan = {0};
	Oid			made = InvalidOid;

	if (is_to_be_replaced(index))
		made = make_like(old, table, ls_index_am_oid(), 0, &plan);
	index_close(old, NoLock);
	return made;
}

Oid
ls_index_replace_empty(Oid index)
{
	return replace(index, ls_index_am_oid(), false);
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
ls_index_replace_ours(Oid table, bool build)
{
	foreach_oid(index, indexes_of(table))
	{
		if (!ls_index_is_ours(index) || OidIsValid(replace(index, BTREE_AM_OID, build)))
			continue;
		if (get_rel_relispartition(index))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("index \"%s\" cannot become a btree index", get_rel_name(index)),
					 errdetail("It is part of index \"%s\" of a partitioned table, and both have"
							   " the same access method.",
							   get_rel_name(linitial_oid(get_partition_ancestors(index)))),
					 errhint("Make that index anew with \"leanstore.default_index\" set to"
							 " btree.")));
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" cannot become a btree index", get_rel_name(index)),
				 errhint("Drop it first.")));
	}
}

void
ls_index_replace_btree(Oid table, bool build)
{
	foreach_oid(index, indexes_of(table))
		if (is_to_be_replaced(index))
			(void) replace(index, ls_index_am_oid(), build);
}

/* ---- keys ------------------------------------------------------------------ */

/* A constraint with a leanstore index, as its index is called. */
typedef struct Key
{
	Oid			schema;
	char	   *name;
} Key;

/* Those of the ALTER TABLE that the server executes. */
static List *expected_keys = NIL;

List *
ls_index_expect_keys(List *keys)
{
	List	   *outer = expected_keys;

	expected_keys = keys;
	return outer;
}

List *
ls_index_note_keys(Oid table, bool with_children, LOCKMODE lockmode)
{
	List	   *tables = with_children ? find_all_inheritors(table, lockmode, NULL)
								 : list_make1_oid(table);
	List	   *keys = NIL;

	foreach_oid(relid, tables)
	{
		char		relkind = get_rel_relkind(relid);

		if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
			continue;
		foreach_oid(index, indexes_of(relid))
			if (OidIsValid(get_index_constraint(index)) &&
				get_rel_relam(index) == ls_index_am_oid())
			{
				Key		   *key = palloc_object(Key);

				key->schema = get_rel_namespace(index);
				key->name = get_rel_name(index);
				keys = lappend(keys, key);
			}
	}
	return keys;
}

static bool
is_expected(Relation index)
{
	foreach_ptr(Key, key, expected_keys)
		if (key->schema == RelationGetNamespace(index) &&
			strcmp(key->name, RelationGetRelationName(index)) == 0)
			return true;
	return false;
}

static void
set_access_method(Oid index, Oid am)
{
	Relation	pg_class = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheLockedCopy1(RELOID, ObjectIdGetDatum(index));
	ItemPointerData tid;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", index);
	tid = tuple->t_self;
	((Form_pg_class) GETSTRUCT(tuple))->relam = am;
	CatalogTupleUpdate(pg_class, &tid, tuple);
	UnlockTuple(pg_class, &tid, InplaceUpdateTupleLock);
	heap_freetuple(tuple);
	table_close(pg_class, RowExclusiveLock);
}

static void
set_classes(Oid index, const NewIndex *plan)
{
	Relation	pg_index = table_open(IndexRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	Datum		values[Natts_pg_index] = {0};
	bool		nulls[Natts_pg_index] = {0};
	bool		replaced[Natts_pg_index] = {0};
	HeapTuple	changed;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", index);
	values[Anum_pg_index_indclass - 1] =
		PointerGetDatum(buildoidvector(plan->opclasses, plan->info->ii_NumIndexKeyAttrs));
	replaced[Anum_pg_index_indclass - 1] = true;
	changed = heap_modify_tuple(tuple, RelationGetDescr(pg_index), values, nulls, replaced);
	CatalogTupleUpdate(pg_index, &changed->t_self, changed);
	ReleaseSysCache(tuple);
	heap_freetuple(changed);
	table_close(pg_index, RowExclusiveLock);
}

/*
 * In the catalogs, of an index without contents.  Its relcache entry, which may be one of this
 * transaction's own, is made anew by the increment of the command counter.
 */
static void
become_ours(Relation index, const NewIndex *plan)
{
	const Oid	oid = RelationGetRelid(index);

	set_access_method(oid, ls_index_am_oid());
	set_classes(oid, plan);
	depend_on_classes(oid, plan);
	ls_pg_rebuild_index_entry(index);
	CommandCounterIncrement();
}

/* The server has entered a new index into the catalogs. */
void
ls_index_take_over_key(Oid relid)
{
	Relation	index;
	NewIndex	plan = {0};

	if (expected_keys == NIL)
		return;
	index = relation_open(relid, NoLock);
	if (index->rd_rel->relam == BTREE_AM_OID && is_expected(index))
	{
		CommandCounterIncrement();
		if (plan_index(index, ls_index_am_oid(), &plan))
			become_ours(index, &plan);
	}
	relation_close(index, NoLock);
}

/* ---- the first partition --------------------------------------------------- */

/* Has the partition a leanstore index that would be part of such an index? */
static bool
partition_has(Relation partition, const NewIndex *plan, Relation index, const AttrMap *map)
{
	Oid			families[INDEX_MAX_KEYS];
	bool		found = false;

	for (int i = 0; i < plan->info->ii_NumIndexKeyAttrs; i++)
		families[i] = get_opclass_family(plan->opclasses[i]);
	foreach_oid(candidate, RelationGetIndexList(partition))
	{
		Relation	other = index_open(candidate, AccessShareLock);

		found = found ||
			(other->rd_rel->relam == ls_index_am_oid() &&
			 CompareIndexInfo(BuildIndexInfo(other), plan->info, other->rd_indcollation,
							  index->rd_indcollation, other->rd_opfamily, families, map));
		index_close(other, AccessShareLock);
	}
	return found;
}

void
ls_index_follow_partition(Relation table, Oid partition_oid)
{
	Relation	partition;
	AttrMap    *map;

	if (table->rd_rel->relkind != RELKIND_PARTITIONED_TABLE || table->rd_rel->relispartition ||
		find_inheritance_children(RelationGetRelid(table), NoLock) != NIL)
		return;
	partition = relation_open(partition_oid, AccessExclusiveLock);
	map = build_attrmap_by_name(RelationGetDescr(partition), RelationGetDescr(table), true);
	foreach_oid(oid, ls_is_table(partition) ? RelationGetIndexList(table) : NIL)
	{
		Relation	index = index_open(oid, AccessShareLock);
		NewIndex	plan = {0};

		if (index->rd_rel->relam == BTREE_AM_OID &&
			plan_index(index, ls_index_am_oid(), &plan) &&
			partition_has(partition, &plan, index, map))
		{
			LockRelationOid(RelationGetRelid(table), AccessExclusiveLock);
			become_ours(index, &plan);
		}
		index_close(index, AccessShareLock);
	}
	relation_close(partition, NoLock);
}
