/*
 * ls_index_options.c - storage parameters of an index, and what an operator class must have.
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "relation/ls_relation.h"

#include "access/amvalidate.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/stratnum.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#define COMPARE_PROC 1

static relopt_kind options_kind;

void
ls_index_define_options(void)
{
	options_kind = add_reloption_kind();
	add_int_reloption(options_kind, "fillfactor",
					  "How full a new leanstore index packs its pages, in percent",
					  LS_INDEX_DEFAULT_FILLFACTOR, 10, 100, ShareUpdateExclusiveLock);
}

bytea *
ls_index_amoptions(Datum reloptions, bool validate)
{
	static const relopt_parse_elt elements[] = {
		{"fillfactor", RELOPT_TYPE_INT, offsetof(LsIndexOptions, fillfactor)},
	};

	return build_reloptions(reloptions, validate, options_kind, sizeof(LsIndexOptions), elements,
							lengthof(elements));
}

/* ---- operator classes ------------------------------------------------------ */

typedef struct Validation
{
	const char *family;
	bool		ok;
} Validation;

static void
complain(Validation *v, const char *what, const char *about)
{
	ereport(INFO,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("operator family \"%s\" of access method %s %s %s",
					v->family, LS_INDEX_AM, what, about)));
	v->ok = false;
}

static void
validate_functions(Validation *v, CatCList *functions)
{
	for (int i = 0; i < functions->n_members; i++)
	{
		Form_pg_amproc function = (Form_pg_amproc) GETSTRUCT(&functions->members[i]->tuple);

		if (function->amprocnum != COMPARE_PROC)
			complain(v, "has a support number that does not exist for function",
					 format_procedure(function->amproc));
		else if (!check_amproc_signature(function->amproc, INT4OID, true, 2, 2,
										 function->amproclefttype, function->amprocrighttype))
			complain(v, "has a wrong signature for function", format_procedure(function->amproc));
	}
}

static void
validate_operators(Validation *v, CatCList *operators)
{
	for (int i = 0; i < operators->n_members; i++)
	{
		Form_pg_amop op = (Form_pg_amop) GETSTRUCT(&operators->members[i]->tuple);

		if (op->amopstrategy < 1 || op->amopstrategy > BTMaxStrategyNumber)
			complain(v, "has a strategy number that does not exist for operator",
					 format_operator(op->amopopr));
		if (op->amoppurpose != AMOP_SEARCH || OidIsValid(op->amopsortfamily))
			complain(v, "has an ORDER BY specification for operator", format_operator(op->amopopr));
		if (!check_amop_signature(op->amopopr, BOOLOID, op->amoplefttype, op->amoprighttype))
			complain(v, "has a wrong signature for operator", format_operator(op->amopopr));
	}
}

/* A pair of types needs all five operators and the comparison.  Cross-type pairs may be missing. */
static void
validate_groups(Validation *v, List *groups, Oid type)
{
	const uint64 all_operators = ((uint64) 1 << (BTMaxStrategyNumber + 1)) - 2;
	bool		found = false;

	foreach_ptr(OpFamilyOpFuncGroup, group, groups)
	{
		char	   *types = psprintf("types %s and %s", format_type_be(group->lefttype),
							   format_type_be(group->righttype));

		if (group->operatorset != all_operators)
			complain(v, "is missing operators for", types);
		if ((group->functionset & ((uint64) 1 << COMPARE_PROC)) == 0)
			complain(v, "is missing the comparison function for", types);
		if (group->lefttype == type && group->righttype == type)
			found = true;
	}
	if (!found)
		complain(v, "is missing operators for type", format_type_be(type));
}

bool
ls_index_amvalidate(Oid opclass)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
	Form_pg_opclass form;
	Validation	v = {.ok = true};
	CatCList   *operators;
	CatCList   *functions;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator class %u", opclass);
	form = (Form_pg_opclass) GETSTRUCT(tuple);
	v.family = get_opfamily_name(form->opcfamily, false);
	operators = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(form->opcfamily));
	functions = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(form->opcfamily));

	validate_functions(&v, functions);
	validate_operators(&v, operators);
	validate_groups(&v, identify_opfamily_groups(operators, functions), form->opcintype);

	ReleaseCatCacheList(functions);
	ReleaseCatCacheList(operators);
	ReleaseSysCache(tuple);
	return v.ok;
}

/*
 * As btree's: what compares a type with itself belongs to the operator class of that
 * type, if there is one, and can not be dropped alone; what compares two types is a
 * member of the family that may come and go.
 */
void
ls_index_amadjustmembers(Oid opfamily, Oid opclass, List *operators, List *functions)
{
	Oid			am = ls_index_am_oid();

	/* so that CREATE OPERATOR CLASS finds the class it has just made */
	if (OidIsValid(opclass))
		CommandCounterIncrement();

	foreach_ptr(OpFamilyMember, member, list_concat_copy(operators, functions))
	{
		Oid			owner = InvalidOid;

		if (member->lefttype == member->righttype)
			owner = opclass_for_family_datatype(am, opfamily, member->lefttype);
		member->ref_is_hard = OidIsValid(owner);
		member->ref_is_family = !OidIsValid(owner);
		member->refobjid = OidIsValid(owner) ? owner : opfamily;
	}
}
