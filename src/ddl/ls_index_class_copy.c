/*
 * ls_index_class_copy.c - operator classes for the types of extensions and users.
 *
 * The author of a type gives it a btree operator class. Each such class gets one of ours
 * that compares in the same way: when it is created, and those that are there when this extension
 * is.
 *
 * A copy belongs to no extension: it would take the one that it is a member of with it when the
 * other one is dropped. Instead it goes by itself with the btree class it was made of, and with
 * our access method. It lies in pg_catalog, which is never dumped: a restore makes it anew.
 */
#include "postgres.h"

#include "ls_ddl_internal.h"
#include "relation/ls_relation.h"
#include "index/ls_index.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_proc.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_type.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(leanstore_add_operator_classes);

/* ---- copies and what they were made of ------------------------------------- */

static void
go_with(Oid class_id, Oid object, Oid other_class_id, Oid other)
{
	ObjectAddress depender;
	ObjectAddress referenced;

	ObjectAddressSet(depender, class_id, object);
	ObjectAddressSet(referenced, other_class_id, other);
	recordDependencyOn(&depender, &referenced, DEPENDENCY_AUTO);
}

/*
 * The object of the same catalog that this one goes with, or that goes with it; InvalidOid: none.
 */
static Oid
partner(Oid class_id, Oid object, bool of_copy)
{
	Relation	pg_depend = table_open(DependRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			result = InvalidOid;

	ScanKeyInit(&keys[0], of_copy ? Anum_pg_depend_classid : Anum_pg_depend_refclassid,
				BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(class_id));
	ScanKeyInit(&keys[1], of_copy ? Anum_pg_depend_objid : Anum_pg_depend_refobjid,
				BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object));
	scan = systable_beginscan(pg_depend, of_copy ? DependDependerIndexId : DependReferenceIndexId,
							  true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->classid == class_id && form->refclassid == class_id &&
			form->deptype == DEPENDENCY_AUTO)
			result = of_copy ? form->refobjid : form->objid;
	}
	systable_endscan(scan);
	table_close(pg_depend, AccessShareLock);
	return result;
}

/* ---- names ----------------------------------------------------------------- */

static List *
types_of(Oid left, Oid right)
{
	return list_make2(makeTypeNameFromOid(left, -1), makeTypeNameFromOid(right, -1));
}

static ObjectWithArgs *
with_types(Oid namespace, const char *name, Oid left, Oid right)
{
	ObjectWithArgs *result = makeNode(ObjectWithArgs);

	result->objname = list_make2(makeString(get_namespace_name(namespace)),
								 makeString(pstrdup(name)));
	result->objargs = types_of(left, right);
	return result;
}

static ObjectWithArgs *
operator_name(Oid op)
{
	HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(op));
	Form_pg_operator form;
	ObjectWithArgs *result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator %u", op);
	form = (Form_pg_operator) GETSTRUCT(tuple);
	result = with_types(form->oprnamespace, NameStr(form->oprname), form->oprleft, form->oprright);
	ReleaseSysCache(tuple);
	return result;
}

static ObjectWithArgs *
function_name(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc form;
	ObjectWithArgs *result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	form = (Form_pg_proc) GETSTRUCT(tuple);
	result = with_types(form->pronamespace, NameStr(form->proname),
						form->proargtypes.values[0], form->proargtypes.values[1]);
	ReleaseSysCache(tuple);
	return result;
}

/* In pg_catalog, and not yet used there. */
static List *
free_name(int cache, const char *name, Oid of)
{
	if (SearchSysCacheExists3(cache, ObjectIdGetDatum(ls_index_am_oid()), CStringGetDatum(name),
							  ObjectIdGetDatum(PG_CATALOG_NAMESPACE)))
		name = psprintf("%.*s_%u", NAMEDATALEN - 12, name, of);
	return list_make2(makeString("pg_catalog"), makeString(pstrdup(name)));
}

/* ---- making copies --------------------------------------------------------- */

/*
 * Five operators and the comparison procedure for these types, as items; NIL: the family has not
 * all of them.
 */
static List *
items_of(Oid family, Oid left, Oid right)
{
	List	   *items = NIL;

	for (int i = 0; i <= BTMaxStrategyNumber; i++)
	{
		CreateOpClassItem *item = makeNode(CreateOpClassItem);
		Oid			object = i > 0 ? get_opfamily_member(family, left, right, i)
			: get_opfamily_proc(family, left, right, BTORDER_PROC);

		if (!OidIsValid(object))
			return NIL;
		item->itemtype = i > 0 ? OPCLASS_ITEM_OPERATOR : OPCLASS_ITEM_FUNCTION;
		item->name = i > 0 ? operator_name(object) : function_name(object);
		item->number = Max(i, 1);
		item->class_args = i > 0 ? NIL : types_of(left, right);
		items = lappend(items, item);
	}
	return items;
}

static Oid
copy_of_family(Oid family)
{
	Oid			copy = partner(OperatorFamilyRelationId, family, false);
	CreateOpFamilyStmt *stmt;

	if (OidIsValid(copy))
		return copy;
	stmt = makeNode(CreateOpFamilyStmt);
	stmt->opfamilyname = free_name(OPFAMILYAMNAMENSP, get_opfamily_name(family, false), family);
	stmt->amname = pstrdup(LS_INDEX_AM);
	copy = DefineOpFamily(stmt).objectId;
	go_with(OperatorFamilyRelationId, copy, OperatorFamilyRelationId, family);
	go_with(OperatorFamilyRelationId, copy, AccessMethodRelationId, ls_index_am_oid());
	CommandCounterIncrement();
	return copy;
}

static bool
has_default_class(Oid type)
{
	Oid			opclass = GetDefaultOpClass(type, ls_index_am_oid());

	return OidIsValid(opclass) && get_opclass_input_type(opclass) == type;
}

static void
copy_class(Oid opclass, Oid family, Oid type, const char *name, bool is_default)
{
	List	   *items = items_of(family, type, type);
	CreateOpClassStmt *stmt;
	Oid			copy;

	if (items == NIL || OidIsValid(ls_index_class_of(opclass, ls_index_am_oid())))
		return;
	stmt = makeNode(CreateOpClassStmt);
	stmt->opclassname = free_name(CLAAMNAMENSP, name, opclass);
	stmt->opfamilyname = list_make2(makeString("pg_catalog"),
									makeString(get_opfamily_name(copy_of_family(family), false)));
	stmt->amname = pstrdup(LS_INDEX_AM);
	stmt->datatype = makeTypeNameFromOid(type, -1);
	stmt->items = items;
	stmt->isDefault = is_default && !has_default_class(type);
	copy = DefineOpClass(stmt).objectId;
	go_with(OperatorClassRelationId, copy, OperatorClassRelationId, opclass);
	CommandCounterIncrement();
}

/* What compares two types of a family. */
static void
copy_pairs(Oid family)
{
	Oid			copy = partner(OperatorFamilyRelationId, family, false);
	CatCList   *list;
	List	   *items = NIL;

	if (!OidIsValid(copy))
		return;
	list = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(family));
	for (int i = 0; i < list->n_members; i++)
	{
		Form_pg_amproc form = (Form_pg_amproc) GETSTRUCT(&list->members[i]->tuple);

		if (form->amprocnum == BTORDER_PROC && form->amproclefttype != form->amprocrighttype &&
			!OidIsValid(get_opfamily_proc(copy, form->amproclefttype, form->amprocrighttype,
										  BTORDER_PROC)))
			items = list_concat(items, items_of(family, form->amproclefttype,
												form->amprocrighttype));
	}
	ReleaseCatCacheList(list);
	if (items != NIL)
	{
		AlterOpFamilyStmt *stmt = makeNode(AlterOpFamilyStmt);

		stmt->opfamilyname = list_make2(makeString("pg_catalog"),
										makeString(get_opfamily_name(copy, false)));
		stmt->amname = pstrdup(LS_INDEX_AM);
		stmt->items = items;
		(void) AlterOpFamily(stmt);
		CommandCounterIncrement();
	}
}

static void
copy_classes(void)
{
	CatCList   *list = SearchSysCacheList1(CLAAMNAMENSP, ObjectIdGetDatum(BTREE_AM_OID));
	List	   *families = NIL;

	for (int i = 0; i < list->n_members; i++)
	{
		Form_pg_opclass form = (Form_pg_opclass) GETSTRUCT(&list->members[i]->tuple);

		/* the server's own have theirs in the extension's script */
		if (form->oid < FirstNormalObjectId)
			continue;
		copy_class(form->oid, form->opcfamily, form->opcintype,
				   NameStr(form->opcname), form->opcdefault);
		families = list_append_unique_oid(families, form->opcfamily);
	}
	ReleaseCatCacheList(list);
	foreach_oid(family, families)
		copy_pairs(family);
}

static void
copy_as_superuser(void)
{
	bool		in_extension = creating_extension;
	Oid			user;
	int			security;

	if (!OidIsValid(ls_index_am_oid()))
		return;
	/*
	 * Operator classes are for superusers to make; these say nothing that another one has not said.
	 */
	GetUserIdAndSecContext(&user, &security);
	PG_TRY();
	{
		SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, security | SECURITY_LOCAL_USERID_CHANGE);
		creating_extension = false;
		copy_classes();
	}
	PG_FINALLY();
	{
		creating_extension = in_extension;
		SetUserIdAndSecContext(user, security);
	}
	PG_END_TRY();
}

Datum
leanstore_add_operator_classes(PG_FUNCTION_ARGS)
{
	copy_as_superuser();
	PG_RETURN_VOID();
}

/* ---- classes of users ------------------------------------------------------ */

void
ls_index_make_way(const CreateOpClassStmt *stmt)
{
	Oid			type = LookupTypeNameOid(NULL, stmt->datatype, true);
	Oid			opclass;
	ObjectAddress object;

	/* what is wrong with the statement the server will say */
	if (!stmt->isDefault || !OidIsValid(type) || !superuser() || !has_default_class(type))
		return;
	opclass = GetDefaultOpClass(type, ls_index_am_oid());
	if (!OidIsValid(partner(OperatorClassRelationId, opclass, true)))
		return;
	ObjectAddressSet(object, OperatorClassRelationId, opclass);
	performDeletion(&object, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	CommandCounterIncrement();
}

void
ls_index_after_class_statement(const Node *stmt)
{
	const char *am = IsA(stmt, CreateOpClassStmt) ? ((const CreateOpClassStmt *) stmt)->amname
		: IsA(stmt, AlterOpFamilyStmt) ? ((const AlterOpFamilyStmt *) stmt)->amname : NULL;
	/* Under pg_upgrade the members of our extension are made one by one. */
	const bool	has_come = IsBinaryUpgrade && IsA(stmt, CreateAmStmt) &&
		strcmp(((const CreateAmStmt *) stmt)->amname, LS_INDEX_AM) == 0;

	if (has_come || (am != NULL && strcmp(am, DEFAULT_INDEX_TYPE) == 0))
	{
		CommandCounterIncrement();
		copy_as_superuser();
	}
}
