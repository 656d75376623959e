/*
 * ls_page_tools.c - tools that read a relation's pages by themselves are refused for leanstore
 * relations.
 *
 * pageinspect, pg_prewarm, pg_visibility and pg_freespacemap read the files of any relation as
 * pages of the server's format, and would report them as damaged.  Their functions are called
 * through the hook that the server has for such ends: it puts a check of the first argument, the
 * relation, before each.
 */
#include "postgres.h"

#include "ls_inspect.h"
#include "relation/ls_relation.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

static const char *const libraries[] = {"pageinspect", "pg_prewarm", "pg_visibility",
										"pg_freespacemap"};

/* What a function is without the check. */
typedef struct PageTool
{
	Oid			function;		/* hash key */
	Oid			argument;		/* type of the first one */
	PGFunction	address;
} PageTool;

static HTAB *tools = NULL;
needs_fmgr_hook_type ls_page_tools_below_needs = NULL;
fmgr_hook_type ls_page_tools_below_fmgr = NULL;

/* As CREATE FUNCTION has it: with or without a directory and a suffix. */
static bool
is_tool_library(const char *probin)
{
	const char *slash = strrchr(probin, '/');
	const char *name = slash != NULL ? slash + 1 : probin;

	for (int i = 0; i < lengthof(libraries); i++)
	{
		Size		len = strlen(libraries[i]);

		if (strncmp(name, libraries[i], len) == 0 && (name[len] == '\0' || name[len] == '.'))
			return true;
	}
	return false;
}

/* The type of its first argument if that can name a relation, else InvalidOid. */
static Oid
relation_argument(Oid function)
{
	HeapTuple	tuple;
	Form_pg_proc proc;
	Oid			type = InvalidOid;

	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	if (proc->prolang == ClanguageId && proc->pronargs > 0)
		type = proc->proargtypes.values[0];
	if (type != REGCLASSOID && type != OIDOID && type != TEXTOID)
		type = InvalidOid;
	/* last: it is behind all other columns, and the handlers of access methods come by often */
	if (OidIsValid(type))
	{
		bool		isnull;
		Datum		probin = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_probin, &isnull);

		if (isnull || !is_tool_library(TextDatumGetCString(probin)))
			type = InvalidOid;
	}
	ReleaseSysCache(tuple);
	return type;
}

static Oid
relation_of(FunctionCallInfo fcinfo, Oid type)
{
	List	   *name;

	if (PG_ARGISNULL(0))
		return InvalidOid;
	if (type != TEXTOID)
		return PG_GETARG_OID(0);
	name = textToQualifiedNameList(PG_GETARG_TEXT_PP(0));
	return RangeVarGetRelid(makeRangeVarFromNameList(name), NoLock, true);
}

static bool
is_leanstore(Oid relid)
{
	Oid			am = OidIsValid(relid) ? get_rel_relam(relid) : InvalidOid;

	return OidIsValid(am) && (am == get_table_am_oid(LS_TABLE_AM, true) || am == ls_index_am_oid());
}

/* In the place of a function of those libraries. */
static Datum
checked(PG_FUNCTION_ARGS)
{
	Oid			function = fcinfo->flinfo->fn_oid;
	const PageTool *tool = hash_search(tools, &function, HASH_FIND, NULL);
	Oid			relid = relation_of(fcinfo, tool->argument);

	if (is_leanstore(relid))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("function %s() does not work on leanstore relation \"%s\"",
						get_func_name(function), get_rel_name(relid)),
				 errdetail("Its pages have a format of their own, and are not in the server's "
						   "shared buffers."),
				 errhint("Use leanstore_check(), leanstore_relation_info() or "
						 "leanstore_stat_buffer.")));
	return tool->address(fcinfo);
}

/*
 * The last function that was none.  The planner asks for our index handler several times for each
 * condition of equality, whatever the access method of its table.
 */
static Oid	no_tool = InvalidOid;

static void
forget_no_tool(Datum arg, int cache_id, uint32 hash_value)
{
	no_tool = InvalidOid;
}

static bool
is_tool(Oid function)
{
	static bool told = false;	/* of changes of pg_proc */

	/* the server's own are asked for most often */
	if (function < FirstNormalObjectId || function == no_tool)
		return false;
	if (OidIsValid(relation_argument(function)))
		return true;
	if (!told)
		CacheRegisterSyscacheCallback(PROCOID, forget_no_tool, (Datum) 0);
	told = true;
	no_tool = function;
	return false;
}

bool
ls_page_tools_needs_fmgr(Oid function)
{
	return (ls_page_tools_below_needs != NULL && ls_page_tools_below_needs(function)) ||
		is_tool(function);
}

static void
put_check_before(FmgrInfo *flinfo)
{
	HASHCTL		control = {.keysize = sizeof(Oid),
					   .entrysize = sizeof(PageTool),
					   .hcxt = TopMemoryContext};
	Oid			argument;
	PageTool   *tool;

	/* called again */
	if (flinfo->fn_addr == checked)
		return;
	argument = relation_argument(flinfo->fn_oid);
	if (!OidIsValid(argument))
		return;
	if (tools == NULL)
		tools = hash_create("leanstore page tools", 32, &control,
							HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	tool = hash_search(tools, &flinfo->fn_oid, HASH_ENTER, NULL);
	tool->argument = argument;
	tool->address = flinfo->fn_addr;
	flinfo->fn_addr = checked;
}

void
ls_page_tools_fmgr(FmgrHookEventType event, FmgrInfo *flinfo, Datum *private)
{
	if (ls_page_tools_below_fmgr != NULL &&
		(ls_page_tools_below_needs == NULL || ls_page_tools_below_needs(flinfo->fn_oid)))
		ls_page_tools_below_fmgr(event, flinfo, private);
	if (event == FHET_START)
		put_check_before(flinfo);
}
