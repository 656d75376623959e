/*
 * ls_index_enum.c - enum types do not get new sort positions while a leanstore index contains
 * their values (key/ls_key_enum.c says why).
 *
 * It is noticed after ALTER TYPE ... ADD VALUE has done it, by comparing positions
 * from before.  Both are read under the lock that the command takes.  An index that
 * is being built is not visible yet, but it holds the type's lock, too.
 */
#include "postgres.h"

#include "ls_ddl_internal.h"
#include "key/ls_key.h"
#include "relation/ls_relation.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_type.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

struct LsEnumPositions
{
	Oid			type;
	int			n;
	struct
	{
		Oid			value;
		float4		position;
	}			values[FLEXIBLE_ARRAY_MEMBER];
};

LsEnumPositions *
ls_index_before_alter_enum(AlterEnumStmt *stmt)
{
	Oid			type = LookupTypeNameOid(NULL, makeTypeNameFromNameList(stmt->typeName), true);
	LsEnumPositions *positions;
	CatCList   *list;

	/*
	 * What the command will refuse must not lock anything, and a new name for a value moves none.
	 */
	if (XactReadOnly || stmt->oldVal != NULL || !OidIsValid(type) || !type_is_enum(type) ||
		!object_ownercheck(TypeRelationId, type, GetUserId()))
		return NULL;
	LockDatabaseObject(TypeRelationId, type, 0, ExclusiveLock);

	list = SearchSysCacheList1(ENUMTYPOIDNAME, ObjectIdGetDatum(type));
	positions = palloc(offsetof(LsEnumPositions, values) +
					   list->n_members * sizeof(positions->values[0]));
	positions->type = type;
	positions->n = list->n_members;
	for (int i = 0; i < list->n_members; i++)
	{
		Form_pg_enum value = (Form_pg_enum) GETSTRUCT(&list->members[i]->tuple);

		positions->values[i].value = value->oid;
		positions->values[i].position = value->enumsortorder;
	}
	ReleaseSysCacheList(list);
	return positions;
}

static bool
moved(const LsEnumPositions *before)
{
	bool		result = false;

	for (int i = 0; i < before->n && !result; i++)
	{
		HeapTuple	tuple = SearchSysCache1(ENUMOID, ObjectIdGetDatum(before->values[i].value));

		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for enum value %u", before->values[i].value);
		result = ((Form_pg_enum) GETSTRUCT(tuple))->enumsortorder != before->values[i].position;
		ReleaseSysCache(tuple);
	}
	return result;
}

static int
n_keys(Oid index)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	int			result;

	if (!HeapTupleIsValid(tuple))
		return 0;				/* gone meanwhile */
	result = ((Form_pg_index) GETSTRUCT(tuple))->indnkeyatts;
	ReleaseSysCache(tuple);
	return result;
}

void
ls_index_after_alter_enum(const LsEnumPositions *before)
{
	Oid			am;
	Relation	classes;
	SysScanDesc scan;
	HeapTuple	tuple;

	/* every utility command comes by, outside of transactions, too */
	if (before == NULL)
		return;
	am = get_index_am_oid(LS_INDEX_AM, true);
	if (!OidIsValid(am))
		return;
	CommandCounterIncrement();
	if (!moved(before))
		return;

	classes = table_open(RelationRelationId, AccessShareLock);
	scan = systable_beginscan(classes, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class class = (Form_pg_class) GETSTRUCT(tuple);

		if (class->relam != am || class->relkind != RELKIND_INDEX)
			continue;
		for (AttrNumber i = 1; i <= n_keys(class->oid); i++)
			if (list_member_oid(ls_key_enums(get_atttype(class->oid, i)), before->type))
				ereport(ERROR,
						(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
						 errmsg("cannot renumber the values of enum type %s because index \"%s\" "
								"contains them",
								format_type_be(before->type), NameStr(class->relname)),
						 errdetail("There is no sort position left where the new value has to go."),
						 errhint("Drop the index, add the value, and create the index again.")));
	}
	systable_endscan(scan);
	table_close(classes, AccessShareLock);
}
