/*
 * ls_index_show.c - leanstore indexes shown as btree indexes (leanstore.show_indexes_as_btree).
 *
 * Clients that manage schemas (ORMs, migration tools, pg_dump for a server without this
 * extension) ask the catalogs for the access method of an index, and know only the names of the
 * server's own.  A leanstore index has the operators, options and uses of a btree index, so
 * while the setting is on queries are shown one: btree's OID in pg_class.relam, which leads to its
 * name in pg_am, and in the definitions of indexes and exclusion constraints its name and its
 * operator classes.  pg_am itself is as it is: some clients ask it for the OID of "btree".
 *
 * It is done to a query that is about to be planned.  Views are expanded by then, so
 * pg_indexes is covered and no stored view is changed.  Rows of pg_class as a whole stay as they
 * are.
 */
#include "postgres.h"

#include "ls_planner.h"
#include "session/ls_session.h"
#include "relation/ls_relation.h"
#include "index/ls_index.h"

#include "access/htup_details.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(leanstore_as_btree);

#define AS_BTREE "leanstore_as_btree"

planner_hook_type ls_index_show_below_plan = NULL;

/* ---- the text of a definition ---------------------------------------------- */

/* Where a pattern begins outside of quotes; NULL: nowhere. */
static const char *
find_unquoted(const char *text, const char *pattern)
{
	size_t		len = strlen(pattern);
	char		quote = '\0';

	for (; *text != '\0'; text++)
	{
		if (quote == '\0' && strncmp(text, pattern, len) == 0)
			return text;
		if (quote == '\0' && (*text == '"' || *text == '\''))
			quote = *text;
		else if (*text == quote)
			quote = '\0';
	}
	return NULL;
}

/* As the server writes an operator class in a definition: "" where it is the default. */
static char *
shown_class(Oid opclass, Oid type, Oid am)
{
	List	   *name;

	if (GetDefaultOpClass(type, am) == opclass)
		return "";
	name = ls_index_class_name(opclass);
	if (OpclassIsVisible(opclass))
		return psprintf(" %s", quote_identifier(strVal(llast(name))));
	return psprintf(" %s", quote_qualified_identifier(strVal(linitial(name)), strVal(llast(name))));
}

static Oid
key_type(Oid index, Form_pg_index form, int column)
{
	AttrNumber	attno = form->indkey.values[column];

	return attno != 0 ? get_atttype(form->indrelid, attno) : get_atttype(index, column + 1);
}

/* With btree's operator classes; NULL: there is none for a column. */
static char *
with_btree_classes(const char *text, Oid index)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	StringInfoData result;
	oidvector  *classes;
	Form_pg_index form;
	bool		possible = true;

	if (!HeapTupleIsValid(tuple))
		return NULL;			/* dropped meanwhile */
	form = (Form_pg_index) GETSTRUCT(tuple);
	classes = (oidvector *) DatumGetPointer(SysCacheGetAttrNotNull(INDEXRELID, tuple,
																   Anum_pg_index_indclass));
	initStringInfo(&result);
	for (int i = 0; i < form->indnkeyatts && possible; i++)
	{
		Oid			type = key_type(index, form, i);
		char	   *shown = shown_class(classes->values[i], type, ls_index_am_oid());
		Oid			other = ls_index_class_of(classes->values[i], BTREE_AM_OID);
		const char *place = *shown != '\0' ? find_unquoted(text, shown) : NULL;

		possible = OidIsValid(other) && (place != NULL || *shown == '\0');
		if (place == NULL || !possible)
			continue;
		appendBinaryStringInfo(&result, text, place - text);
		appendStringInfoString(&result, shown_class(other, type, BTREE_AM_OID));
		text = place + strlen(shown);
	}
	ReleaseSysCache(tuple);
	appendStringInfoString(&result, text);
	return possible ? result.data : NULL;
}

/*
 * leanstore_as_btree(definition text, object oid, of_constraint bool): the definition of an index,
 * or of a constraint, as it would be if the index were a btree.
 */
Datum
leanstore_as_btree(PG_FUNCTION_ARGS)
{
	text	   *definition = PG_GETARG_TEXT_PP(0);
	Oid			index = PG_GETARG_OID(1);
	const char *text = text_to_cstring(definition);
	const char *using = " USING " LS_INDEX_AM " (";
	const char *place = find_unquoted(text, using);
	char	   *rest;

	if (place == NULL)
		PG_RETURN_TEXT_P(definition);
	if (PG_GETARG_BOOL(2))
		index = get_constraint_index(index);
	place += strlen(using);
	rest = with_btree_classes(place, index);
	if (rest == NULL)
		PG_RETURN_TEXT_P(definition);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%.*s USING btree (%s",
											  (int) (place - text - strlen(using)), text, rest)));
}

/* ---- queries --------------------------------------------------------------- */

static bool
defines_index(Oid function)
{
	return function == F_PG_GET_INDEXDEF_OID || function == F_PG_GET_INDEXDEF_OID_INT4_BOOL;
}

static bool
defines_constraint(Oid function)
{
	return function == F_PG_GET_CONSTRAINTDEF_OID || function == F_PG_GET_CONSTRAINTDEF_OID_BOOL;
}

static bool
defines(const FuncExpr *expr)
{
	return defines_index(expr->funcid) || defines_constraint(expr->funcid);
}

static bool
reads_access_methods(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->relid == RelationRelationId;
	if (IsA(node, FuncExpr) && defines((FuncExpr *) node))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, reads_access_methods, context,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, reads_access_methods, context);
}

static Expr *
oid_constant(Oid oid)
{
	return (Expr *) makeConst(OIDOID, -1, InvalidOid, sizeof(Oid), ObjectIdGetDatum(oid), false,
							  true);
}

/* CASE WHEN relam = (leanstore_index) THEN (btree) ELSE relam END */
static Node *
shown_method(Var *relam)
{
	CaseWhen   *when = makeNode(CaseWhen);
	CaseExpr   *result = makeNode(CaseExpr);
	Oid			equals = lookup_type_cache(OIDOID, TYPECACHE_EQ_OPR)->eq_opr;

	when->expr = make_opclause(equals, BOOLOID, false, (Expr *) copyObject(relam),
							   oid_constant(ls_index_am_oid()), InvalidOid, InvalidOid);
	when->result = oid_constant(BTREE_AM_OID);
	when->location = -1;
	result->casetype = OIDOID;
	result->args = list_make1(when);
	result->defresult = (Expr *) copyObject(relam);
	result->location = -1;
	return (Node *) result;
}

/* The function of this extension, wherever it is; InvalidOid: it is not in this database. */
static Oid
as_btree_function(void)
{
	Oid			types[] = {TEXTOID, OIDOID, BOOLOID};
	HeapTuple	tuple = SearchSysCache1(AMOID, ObjectIdGetDatum(ls_index_am_oid()));
	Oid			namespace;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	namespace = get_func_namespace(((Form_pg_am) GETSTRUCT(tuple))->amhandler);
	ReleaseSysCache(tuple);
	/* whether the role may look into the schema does not matter */
	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(AS_BTREE),
						   PointerGetDatum(buildoidvector(types, lengthof(types))),
						   ObjectIdGetDatum(namespace));
}

static Node *
shown_definition(FuncExpr *definition)
{
	Oid			function = as_btree_function();
	List	   *args;

	if (!OidIsValid(function))
		return (Node *) definition;
	args = list_make3(definition, copyObject(linitial(definition->args)),
					  makeBoolConst(defines_constraint(definition->funcid), false));
	return (Node *) makeFuncExpr(function, TEXTOID, args, definition->funccollid,
								 definition->inputcollid, COERCE_EXPLICIT_CALL);
}

static bool
is_access_method(const Var *var, List *queries)
{
	Query	   *query;
	RangeTblEntry *rte;

	if (var->varattno != Anum_pg_class_relam || var->vartype != OIDOID ||
		var->varlevelsup >= list_length(queries))
		return false;
	query = list_nth_node(Query, queries, var->varlevelsup);
	if (var->varno <= 0 || var->varno > list_length(query->rtable) ||
		var->varno == query->resultRelation)
		return false;
	rte = rt_fetch(var->varno, query->rtable);
	return rte->rtekind == RTE_RELATION && rte->relid == RelationRelationId;
}

/* queries: those around this node, the innermost first. */
static Node *
show(Node *node, List *queries)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && is_access_method((Var *) node, queries))
		return shown_method((Var *) node);
	if (IsA(node, Query))
	{
		List	   *inner = lcons(node, list_copy(queries));

		return (Node *) query_tree_mutator((Query *) node, show, inner, 0);
	}
	node = expression_tree_mutator(node, show, queries);
	if (IsA(node, FuncExpr) && defines((FuncExpr *) node))
		return shown_definition((FuncExpr *) node);
	return node;
}

/* The query itself is not changed. */
static Query *
show_as_btree(Query *query)
{
	if (!OidIsValid(ls_index_am_oid()) || !reads_access_methods((Node *) query, NULL))
		return query;
	return castNode(Query, show((Node *) query, NIL));
}

PlannedStmt *
ls_index_show_plan(Query *query, const char *text, int options, ParamListInfo params)
{
	if (unlikely(ls_show_indexes_as_btree))
		query = show_as_btree(query);
	return ls_index_show_below_plan ? ls_index_show_below_plan(query, text, options, params) :
		standard_planner(query, text, options, params);
}
