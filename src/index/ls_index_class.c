/*
 * ls_index_class.c - which operator class stands for which in another access method.
 *
 * The server takes a default class of any type that a column's type is binary coercible to: for
 * citext, that of text, which has another order.  So a class is taken for a column without
 * being named only where it compares as the default btree class of the column's type does.
 * Classes of two access methods stand for each other if they take the same type and compare it by
 * the same procedure, whatever their names are.
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "relation/ls_relation.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "catalog/pg_opclass.h"
#include "commands/defrem.h"
#include "nodes/value.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* Its comparison procedure; InvalidOid: it has none. */
static Oid
comparison_of(Oid opclass)
{
	Oid			type = get_opclass_input_type(opclass);

	return get_opfamily_proc(get_opclass_family(opclass), type, type, BTORDER_PROC);
}

bool
ls_index_has_order(Oid opclass)
{
	return OidIsValid(comparison_of(opclass));
}

static HeapTuple
class_tuple(Oid opclass)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator class %u", opclass);
	return tuple;
}

Oid
ls_index_class_of(Oid opclass, Oid am)
{
	HeapTuple	tuple = class_tuple(opclass);
	Form_pg_opclass form = (Form_pg_opclass) GETSTRUCT(tuple);
	Oid			comparison = comparison_of(opclass);
	Oid			best = InvalidOid;
	int			best_likeness = -1;
	CatCList   *list = SearchSysCacheList1(CLAAMNAMENSP, ObjectIdGetDatum(am));

	for (int i = 0; OidIsValid(comparison) && i < list->n_members; i++)
	{
		Form_pg_opclass other = (Form_pg_opclass) GETSTRUCT(&list->members[i]->tuple);
		int			likeness = 2 * (other->opcdefault == form->opcdefault) +
			(strcmp(NameStr(other->opcname), NameStr(form->opcname)) == 0);

		if (other->opcintype == form->opcintype && likeness > best_likeness &&
			comparison_of(other->oid) == comparison)
		{
			best = other->oid;
			best_likeness = likeness;
		}
	}
	ReleaseCatCacheList(list);
	ReleaseSysCache(tuple);
	return best;
}

Oid
ls_index_default_class(Oid type)
{
	Oid			ours = GetDefaultOpClass(type, ls_index_am_oid());
	Oid			btree = GetDefaultOpClass(type, BTREE_AM_OID);

	if (!OidIsValid(ours) || !ls_index_has_order(ours) ||
		(OidIsValid(btree) && comparison_of(btree) != comparison_of(ours)))
		return InvalidOid;
	return ours;
}

List *
ls_index_class_name(Oid opclass)
{
	HeapTuple	tuple = class_tuple(opclass);
	Form_pg_opclass form = (Form_pg_opclass) GETSTRUCT(tuple);
	List	   *name = list_make2(makeString(get_namespace_name(form->opcnamespace)),
								  makeString(pstrdup(NameStr(form->opcname))));

	ReleaseSysCache(tuple);
	return name;
}

bool
ls_index_translate_classes(List *elements, Oid from_am, Oid to_am)
{
	foreach_node(IndexElem, element, elements)
	{
		Oid			named = InvalidOid;
		Oid			other;

		if (element->opclass != NIL)
			named = get_opclass_oid(from_am, element->opclass, true);
		if (!OidIsValid(named))
			continue;			/* it may be one of to_am's already */
		other = ls_index_class_of(named, to_am);
		if (!OidIsValid(other))
			return false;
		element->opclass = ls_index_class_name(other);
	}
	return true;
}

/* ---- indexes that are being made ------------------------------------------- */

/* The class of a column is the one that the server takes when none is named. */
static void
check_class(Relation index, int column, Oid opclass)
{
	Oid			type = TupleDescAttr(RelationGetDescr(index), column)->atttypid;

	if (GetDefaultOpClass(type, index->rd_rel->relam) != opclass ||
		OidIsValid(ls_index_default_class(type)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("data type %s has no operator class for access method \"%s\" that compares"
					" as its btree class does",
					format_type_be(type), LS_INDEX_AM),
			 errdetail("Operator class \"%s\", which takes the type, too, orders its values"
					   " in another way.",
					   NameListToString(ls_index_class_name(opclass))),
			 errhint("Make a btree index, or an operator class for the type"
					 " by leanstore_add_operator_classes().")));
}

/* The server knows this of btree's pattern classes, by their names. */
static void
check_collation(Oid opclass, Oid collation)
{
	Oid			comparison = comparison_of(opclass);

	if ((comparison != F_BTTEXT_PATTERN_CMP && comparison != F_BTBPCHAR_PATTERN_CMP) ||
		!OidIsValid(collation) || get_collation_isdeterministic(collation))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("nondeterministic collations are not supported for operator class \"%s\"",
					strVal(llast(ls_index_class_name(opclass))))));
}

static oidvector *
index_oids(HeapTuple tuple, Relation pg_index, AttrNumber attno)
{
	bool		isnull;
	Datum		oids = heap_getattr(tuple, attno, RelationGetDescr(pg_index), &isnull);

	return (oidvector *) DatumGetPointer(oids);
}

/*
 * The entry of pg_index is not visible to ordinary snapshots yet. Indexes that take over a file
 * are seen here, too, where ALTER TABLE finds that the class is the same for the new type.
 */
void
ls_index_check_classes(Oid relid)
{
	Relation	index = relation_open(relid, NoLock);
	Relation	pg_index;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	if ((index->rd_rel->relkind != RELKIND_INDEX &&
		 index->rd_rel->relkind != RELKIND_PARTITIONED_INDEX) ||
		index->rd_rel->relam != ls_index_am_oid())
	{
		relation_close(index, NoLock);
		return;
	}
	if (index->rd_rel->relkind == RELKIND_INDEX)
		ls_index_take_over_forms(index);
	pg_index = table_open(IndexRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_index_indexrelid,
				BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(pg_index, IndexRelidIndexId, true, SnapshotSelf, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		oidvector  *opclasses = index_oids(tuple, pg_index, Anum_pg_index_indclass);
		oidvector  *collations = index_oids(tuple, pg_index, Anum_pg_index_indcollation);

		for (int i = 0; i < opclasses->dim1; i++)
		{
			check_class(index, i, opclasses->values[i]);
			check_collation(opclasses->values[i], collations->values[i]);
		}
	}
	systable_endscan(scan);
	table_close(pg_index, AccessShareLock);
	relation_close(index, NoLock);
}
