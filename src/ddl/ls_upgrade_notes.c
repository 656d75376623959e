/*
 * ls_upgrade_notes.c - what pg_upgrade's dump of the schema does not tell, and leanstore indexes
 * need: the new cluster gets the file of each index, so it has to be made there as it was.
 *
 * - Which indexes of constraints are leanstore indexes: a constraint names no access method.
 * - How an index encodes strings under collations of libc (index/ls_index_form.c): a dump's index
 *   is empty, and would be given what a new one gets.
 * - Sort positions of the values of enums (key/ls_key_enum.c): in a dump their values are added one
 *   behind the other.
 *
 * The first query in each database of the old cluster notes it, and makes sure that the store can
 * be handed on: pg_upgrade is at its checks then, with --check as well.
 */
#include "postgres.h"

#include "ls_ddl_internal.h"
#include "session/ls_session.h"
#include "relation/ls_relation.h"
#include "index/ls_index.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_enum.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "parser/parse_type.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

ExecutorStart_hook_type ls_upgrade_notes_below_start = NULL;

/* A function is called for each row of a catalog; an access method, where it has such a column. */
static void
visit(Oid catalog, AttrNumber am_column, Oid am, void (*each) (HeapTuple tuple, void *arg),
	  void *arg)
{
	Relation	rel = table_open(catalog, AccessShareLock);
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	if (am_column != InvalidAttrNumber)
		ScanKeyInit(&key, am_column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(am));
	scan = systable_beginscan(rel, InvalidOid, false, NULL, am_column != InvalidAttrNumber, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		each(tuple, arg);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/* A partitioned table only says what its partitions are to be. */
static void
look_at_table(HeapTuple tuple, void *any)
{
	*(bool *) any |= ((Form_pg_class) GETSTRUCT(tuple))->relkind != RELKIND_PARTITIONED_TABLE;
}

static void
note_index(HeapTuple tuple, void *notes)
{
	Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
	Relation	index = relation_open(form->oid, AccessShareLock);

	/* The shape is an error if the index would have to be built anew, as it would be there. */
	if (form->relkind == RELKIND_INDEX && index->rd_index->indisvalid)
	{
		const LsIndexShape *shape = ls_index_shape(index);

		ls_upgrade_note_index(notes, form->oid, shape->forms, shape->n_keys);
	}
	else
		ls_upgrade_note_index(notes, form->oid, NULL, 0);
	relation_close(index, AccessShareLock);
}

static void
note_enum(HeapTuple tuple, void *notes)
{
	Form_pg_enum form = (Form_pg_enum) GETSTRUCT(tuple);

	ls_upgrade_note_enum(notes, form->oid, form->enumsortorder);
}

static void
note_database(void)
{
	const Oid	am = ls_index_am_oid();
	StringInfoData notes;
	bool		has_tables = false;

	visit(RelationRelationId, Anum_pg_class_relam, ls_table_am_oid(), look_at_table, &has_tables);
	if (has_tables)
		(void) ls_reader();		/* an error, if leanstore tables cannot be used */
	initStringInfo(&notes);
	visit(RelationRelationId, Anum_pg_class_relam, am, note_index, &notes);
	visit(EnumRelationId, InvalidAttrNumber, InvalidOid, note_enum, &notes);
	ls_upgrade_leave_notes(&notes);
}

void
ls_upgrade_notes_start(QueryDesc *query, int eflags)
{
	static bool looked = false;

	if (!looked && OidIsValid(ls_index_am_oid()) && ls_upgrade_wants_notes())
		note_database();
	looked = true;
	if (ls_upgrade_notes_below_start)
		ls_upgrade_notes_below_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

/* ---- in the new cluster ------------------------------------------------------ */

static void
set_position(Relation pg_enum, Oid value)
{
	const float4 *position = ls_upgrade_position(value);
	HeapTuple	tuple = SearchSysCacheCopy1(ENUMOID, ObjectIdGetDatum(value));
	Form_pg_enum form;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for enum value %u", value);
	form = (Form_pg_enum) GETSTRUCT(tuple);
	if (position != NULL && form->enumsortorder != *position)
	{
		form->enumsortorder = *position;
		CatalogTupleUpdate(pg_enum, &tuple->t_self, tuple);
	}
	heap_freetuple(tuple);
}

/* Values come in their order, so a position that is put back is behind all that are there. */
void
ls_upgrade_restore_positions(const AlterEnumStmt *stmt)
{
	Oid			type = LookupTypeNameOid(NULL, makeTypeNameFromNameList(stmt->typeName), true);
	Relation	pg_enum;
	CatCList   *list;

	if (!OidIsValid(type))
		return;
	CommandCounterIncrement();
	pg_enum = table_open(EnumRelationId, RowExclusiveLock);
	list = SearchSysCacheList1(ENUMTYPOIDNAME, ObjectIdGetDatum(type));
	for (int i = 0; i < list->n_members; i++)
		set_position(pg_enum, ((Form_pg_enum) GETSTRUCT(&list->members[i]->tuple))->oid);
	ReleaseSysCacheList(list);
	table_close(pg_enum, RowExclusiveLock);
	CommandCounterIncrement();
}
