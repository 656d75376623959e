/*
 * ls_leap_plan.c - the keys that a plan names.
 *
 * A scan of a leap table names its keys where its conditions say what each column of the key is:
 * "=" or IN with constants, parameters, and what can be computed of them before the statement runs;
 * OR of such.  An INSERT names those of its VALUES; keys that come from elsewhere are met by the
 * trigger, row by row.  A scan that names no keys would take a row that is elsewhere for absent, so
 * it is refused (LEAP-6), unless leap.scans says that the rows that are here are meant, or that
 * those of all nodes are read: ls_leap_scan.c.
 */
#include "ls_leap.h"

#include "access/stratnum.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/pg_locale.h"
#include "utils/typcache.h"

#define MAX_KEYS 100000

int			leap_scans = LEAP_SCANS_REFUSE;
Oid			leap_read_for_peer = InvalidOid;

typedef struct Search
{
	QueryDesc  *query;
	ExprContext *context;
	LeapWanted *wanted;
	int			n;
	int			size;
} Search;

/* What conditions say of one scan. */
typedef struct Named
{
	Search	   *search;			/* NULL: only whether keys are named is asked */
	LeapMember *member;
	Index		relid;
	List	   *index_columns;	/* of an index-only scan: what its INDEX_VARs stand for */
} Named;

static void
add_key(Search *search, LeapMember *member, char **parts)
{
	if (search->n == search->size)
	{
		search->size = Max(8, search->size * 2);
		search->wanted = search->wanted == NULL ?
			palloc(sizeof(LeapWanted) * search->size) :
			repalloc(search->wanted, sizeof(LeapWanted) * search->size);
	}
	if (search->n >= MAX_KEYS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a statement names more than %d leap keys", MAX_KEYS)));
	leap_init_wanted(&search->wanted[search->n++], member->family,
					 leap_key_text(member, parts));
}

/* --- Expressions that can be computed before the statement runs --- */

static bool
is_unknown_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
		case T_Aggref:
		case T_WindowFunc:
		case T_GroupingFunc:
		case T_SubPlan:
		case T_AlternativeSubPlan:
		case T_SubLink:
		case T_SetToDefault:
		case T_CurrentOfExpr:
		case T_MergeSupportFunc:
		case T_NextValueExpr:
		case T_CaseTestExpr:
		case T_CoerceToDomainValue:
			return true;
		case T_Param:
			if (((Param *) node)->paramkind != PARAM_EXTERN)
				return true;
			break;
		default:
			break;
	}
	return expression_tree_walker(node, is_unknown_walker, context);
}

static bool
is_computable(Expr *expr)
{
	if (IsA(expr, Const))
		return true;
	return !is_unknown_walker((Node *) expr, NULL) && !contain_volatile_functions((Node *) expr);
}

static Datum
compute(Search *search, Expr *expr, bool *null)
{
	ExprState  *state;

	if (IsA(expr, Const))
	{
		*null = ((Const *) expr)->constisnull;
		return ((Const *) expr)->constvalue;
	}
	if (search->context == NULL)
		search->context = CreateStandaloneExprContext();
	search->context->ecxt_param_list_info = search->query->params;
	state = ExecInitExprWithParams(expr, search->query->params);
	return ExecEvalExpr(state, search->context, null);
}

static char *
as_text(Datum value, Oid type)
{
	Oid			output;
	bool		varlena;

	getTypeOutputInfo(type, &output, &varlena);
	return OidOutputFunctionCall(output, value);
}

/* --- Conditions --- */

static Node *
strip(Node *node)
{
	while (node && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return node;
}

/* Which column of the key is this?  -1: none. */
static int
key_column(Named *scan, Node *node)
{
	AttrNumber	attnum;
	Var		   *var = (Var *) strip(node);

	if (var == NULL || !IsA(var, Var))
		return -1;
	if (var->varno == INDEX_VAR && scan->index_columns != NIL)
	{
		var = (Var *) strip((Node *) ((TargetEntry *)
									  list_nth(scan->index_columns, var->varattno - 1))->expr);
		if (!IsA(var, Var))
			return -1;
	}
	else if (var->varno != scan->relid)
		return -1;
	attnum = var->varattno;
	for (int i = 0; i < scan->member->columns; i++)
		if (scan->member->attnum[i] == attnum)
			return i;
	return -1;
}

/* Is the operator "=" as the key's index has it, under which equal values have equal text? */
static bool
is_equality(Named *scan, int column, Oid operator, Oid collation)
{
	TypeCacheEntry *type = lookup_type_cache(getBaseType(scan->member->type[column]),
											 TYPECACHE_BTREE_OPFAMILY);

	return get_op_opfamily_strategy(operator, type->btree_opf) == BTEqualStrategyNumber &&
		(!OidIsValid(collation) || get_collation_isdeterministic(collation));
}

/* column = value: the value is appended to *values, as text; NULL equals nothing. */
static bool
read_operator(Named *scan, OpExpr *clause, List **values, bool *bound)
{
	Node	   *left = linitial(clause->args);
	Node	   *right;
	int			column;
	bool		null;
	Datum		value;

	if (list_length(clause->args) != 2)
		return false;
	right = lsecond(clause->args);
	column = key_column(scan, left);
	if (column < 0)
	{
		column = key_column(scan, right);
		right = left;
	}
	if (column < 0 || bound[column] || !is_computable((Expr *) right) ||
		!is_equality(scan, column, clause->opno, clause->inputcollid))
		return false;
	bound[column] = true;
	if (scan->search == NULL)
		return true;
	value = compute(scan->search, (Expr *) right, &null);
	if (!null)
		values[column] = lappend(values[column], as_text(value, exprType(right)));
	return true;
}

/* column = ANY (array) */
static bool
read_array(Named *scan, ScalarArrayOpExpr *clause, List **values, bool *bound)
{
	Node	   *right = lsecond(clause->args);
	int			column = key_column(scan, linitial(clause->args));
	bool		null;
	Datum		value;

	if (!clause->useOr || column < 0 || bound[column] || !is_computable((Expr *) right) ||
		!is_equality(scan, column, clause->opno, clause->inputcollid))
		return false;
	bound[column] = true;
	if (scan->search == NULL)
		return true;
	value = compute(scan->search, (Expr *) right, &null);
	if (!null)
	{
		ArrayType  *array = DatumGetArrayTypeP(value);
		Datum	   *element;
		bool	   *nulls;
		int			n;

		deconstruct_array_builtin(array, ARR_ELEMTYPE(array), &element, &nulls, &n);
		for (int i = 0; i < n; i++)
			if (!nulls[i])
				values[column] = lappend(values[column], as_text(element[i],
																 ARR_ELEMTYPE(array)));
	}
	return true;
}

/* column = value OR column = value ...: as column = ANY (array). */
static bool
read_or_of_column(Named *scan, BoolExpr *clause, List **values, bool *bound)
{
	List	   *found = NIL;
	int			column = -1;
	ListCell   *cell;

	foreach(cell, clause->args)
	{
		Node	   *arm = lfirst(cell);
		List	   *arm_values[LEAP_MAX_COLUMNS] = {NIL};
		bool		arm_bound[LEAP_MAX_COLUMNS] = {false};
		int			i = 0;

		if (!(IsA(arm, OpExpr) && read_operator(scan, (OpExpr *) arm, arm_values, arm_bound)) &&
			!(IsA(arm, ScalarArrayOpExpr) &&
			  read_array(scan, (ScalarArrayOpExpr *) arm, arm_values, arm_bound)))
			return false;
		while (!arm_bound[i])
			i++;
		if (bound[i] || (column >= 0 && column != i))
			return false;
		column = i;
		found = list_concat(found, arm_values[i]);
	}
	values[column] = found;
	bound[column] = true;
	return true;
}

/* All combinations of the columns' values. */
static void
add_combinations(Named *scan, List **values)
{
	int			columns = scan->member->columns;
	int			at[LEAP_MAX_COLUMNS] = {0};
	char	   *parts[LEAP_MAX_COLUMNS];
	int			i;

	for (i = 0; i < columns; i++)
		if (values[i] == NIL)
			return;
	for (;;)
	{
		for (i = 0; i < columns; i++)
			parts[i] = list_nth(values[i], at[i]);
		add_key(scan->search, scan->member, parts);
		for (i = columns - 1; i >= 0 && ++at[i] == list_length(values[i]); i--)
			at[i] = 0;
		if (i < 0)
			return;
	}
}

static bool read_conditions(Named *scan, List *clauses);

/* Each arm names keys. */
static bool
read_or(Named *scan, BoolExpr *clause)
{
	int			before = scan->search ? scan->search->n : 0;
	ListCell   *cell;

	foreach(cell, clause->args)
	{
		Node	   *arm = lfirst(cell);
		List	   *parts = is_andclause(arm) ? ((BoolExpr *) arm)->args : list_make1(arm);

		if (!read_conditions(scan, parts))
		{
			if (scan->search)
				scan->search->n = before;
			return false;
		}
	}
	return true;
}

/* Conditions that all hold: true if they name keys, which are added then. */
static bool
read_conditions(Named *scan, List *clauses)
{
	List	   *values[LEAP_MAX_COLUMNS] = {NIL};
	bool		bound[LEAP_MAX_COLUMNS] = {false};
	ListCell   *cell;
	int			count = 0;

	foreach(cell, clauses)
	{
		Node	   *clause = lfirst(cell);

		if (IsA(clause, OpExpr))
			count += read_operator(scan, (OpExpr *) clause, values, bound);
		else if (IsA(clause, ScalarArrayOpExpr))
			count += read_array(scan, (ScalarArrayOpExpr *) clause, values, bound);
		else if (is_orclause(clause))
			count += read_or_of_column(scan, (BoolExpr *) clause, values, bound);
	}
	if (count == scan->member->columns)
	{
		if (scan->search)
			add_combinations(scan, values);
		return true;
	}
	foreach(cell, clauses)
		if (is_orclause(lfirst(cell)) && read_or(scan, (BoolExpr *) lfirst(cell)))
			return true;
	return false;
}

/* Do conditions on a table, which the planner has not yet made a plan of, name its keys? */
bool
leap_names_keys(LeapMember *member, Index relid, List *clauses)
{
	Named		scan = {.member = member,.relid = relid};

	return read_conditions(&scan, clauses);
}

/* --- Plans --- */

static void
refuse_scan(Oid relation)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("the statement does not name the keys of leap table \"%s\" that it needs",
					get_rel_name(relation)),
			 errdetail("Rows that other nodes own would seem to be absent."),
			 errhint("Compare all columns of the key by = or IN with values, or set leap.scans to"
					 " local for the rows that this node owns, or to 'all' to read those of all"
					 " nodes.")));
}

static bool
is_locked(PlannedStmt *statement, Index relid)
{
	ListCell   *cell;

	foreach(cell, statement->rowMarks)
	{
		PlanRowMark *mark = lfirst(cell);

		if (mark->rti == relid && RowMarkRequiresRowShareLock(mark->markType))
			return true;
	}
	return false;
}

/* leap.scans is all, and ls_leap_scan.c has not taken the scan. */
static void
refuse_scan_of_all(PlannedStmt *statement, Index relid, Oid relation)
{
	bool		is_target = list_member_int(statement->resultRelations, relid);

	if (is_target || is_locked(statement, relid))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the statement does not name the keys of leap table \"%s\" that it %s",
						get_rel_name(relation), is_target ? "changes" : "locks"),
				 errdetail("With leap.scans = all rows of other nodes are read only."),
				 errhint("Compare all columns of the key by = or IN with values, or set leap.scans"
						 " to local for the rows that this node owns.")));
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("leap table \"%s\" cannot be read on all nodes here", get_rel_name(relation)),
			 errdetail("Rows of other nodes are not read beside a table that the statement changes"
					   " or locks, by TABLESAMPLE, or through a parent table."),
			 errhint("Read the rows in WITH ... AS MATERIALIZED (SELECT ...).")));
}

/* A plan with a scan of all nodes, which was made when leap.scans said so. */
static void
check_scan_of_all(void)
{
	if (leap_scans != LEAP_SCANS_ALL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the statement was planned with leap.scans = all, which it is no longer"),
				 errhint("Prepare the statement again.")));
}

static void
visit_scan(Search *search, Plan *plan, Index relid)
{
	RangeTblEntry *entry = rt_fetch(relid, search->query->plannedstmt->rtable);
	Named		scan = {.search = search,.relid = relid};
	List	   *clauses = plan->qual;

	if (entry->rtekind != RTE_RELATION || entry->relid == leap_read_for_peer)
		return;
	scan.member = leap_member_of(entry->relid);
	if (scan.member == NULL)
		return;
	if (IsA(plan, IndexScan))
		clauses = list_concat_copy(clauses, ((IndexScan *) plan)->indexqualorig);
	else if (IsA(plan, BitmapHeapScan))
		clauses = list_concat_copy(clauses, ((BitmapHeapScan *) plan)->bitmapqualorig);
	else if (IsA(plan, IndexOnlyScan))
	{
		clauses = list_concat_copy(clauses, ((IndexOnlyScan *) plan)->recheckqual);
		scan.index_columns = ((IndexOnlyScan *) plan)->indextlist;
	}
	if (read_conditions(&scan, clauses) || leap_scans == LEAP_SCANS_LOCAL)
		return;
	if (leap_scans == LEAP_SCANS_ALL)
		refuse_scan_of_all(search->query->plannedstmt, relid, entry->relid);
	refuse_scan(entry->relid);
}

/* The expression that an INSERT's plan has for a column; row: of VALUES. */
static Expr *
inserted_expression(Plan *plan, AttrNumber attnum, List *row)
{
	TargetEntry *entry = get_tle_by_resno(plan->targetlist, attnum);
	Expr	   *expr = entry ? entry->expr : NULL;

	if (expr && row && IsA(expr, Var))
		expr = list_nth(row, ((Var *) expr)->varattno - 1);
	return expr;
}

static void
visit_inserted_row(Search *search, LeapMember *member, Plan *plan, List *row)
{
	char	   *parts[LEAP_MAX_COLUMNS];

	for (int i = 0; i < member->columns; i++)
	{
		Expr	   *expr = inserted_expression(plan, member->attnum[i], row);
		bool		null;
		Datum		value;

		if (expr == NULL || !is_computable(expr) || exprType((Node *) expr) != member->type[i])
			return;
		value = compute(search, expr, &null);
		if (null)
			return;
		parts[i] = as_text(value, member->type[i]);
	}
	add_key(search, member, parts);
}

static void
visit_insert(Search *search, LeapMember *member, Plan *plan)
{
	ListCell   *cell;

	if (plan && IsA(plan, Result) && plan->lefttree == NULL)
		visit_inserted_row(search, member, plan, NIL);
	else if (plan && IsA(plan, ValuesScan))
		foreach(cell, ((ValuesScan *) plan)->values_lists)
			visit_inserted_row(search, member, plan, lfirst(cell));
}

static void
refuse_key_change(LeapMember *member, List *columns)
{
	for (int i = 0; i < member->columns; i++)
		if (list_member_int(columns, member->attnum[i]))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("the key of leap table \"%s\" cannot be changed",
							get_rel_name(member->relation)),
					 errhint("Delete the row and insert it with the other key.")));
}

static void
visit_modify(Search *search, ModifyTable *plan)
{
	int			i = 0;
	ListCell   *cell;

	foreach(cell, plan->resultRelations)
	{
		Oid			relation = rt_fetch(lfirst_int(cell),
										search->query->plannedstmt->rtable)->relid;
		LeapMember *member = leap_member_of(relation);

		if (member)
		{
			ListCell   *action;

			if (plan->updateColnosLists)
				refuse_key_change(member, list_nth(plan->updateColnosLists, i));
			if (plan->onConflictAction == ONCONFLICT_UPDATE)
				refuse_key_change(member, plan->onConflictCols);
			if (plan->mergeActionLists)
				foreach(action, (List *) list_nth(plan->mergeActionLists, i))
					if (lfirst_node(MergeAction, action)->commandType == CMD_UPDATE)
						refuse_key_change(member, lfirst_node(MergeAction, action)->updateColnos);
			if (plan->operation == CMD_INSERT)
				visit_insert(search, member, plan->plan.lefttree);
		}
		i++;
	}
}

static void visit(Search *search, Plan *plan);

static void
visit_list(Search *search, List *plans)
{
	ListCell   *cell;

	foreach(cell, plans)
		visit(search, lfirst(cell));
}

static void
visit(Search *search, Plan *plan)
{
	if (plan == NULL)
		return;
	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_SampleScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
		case T_TidScan:
		case T_TidRangeScan:
			visit_scan(search, plan, ((SeqScan *) plan)->scan.scanrelid);
			return;
		case T_ForeignScan:
		case T_CustomScan:
			if (leap_is_scan(plan))
			{
				check_scan_of_all();
				return;
			}
			if (((CustomScan *) plan)->scan.scanrelid > 0)
				visit_scan(search, plan, ((CustomScan *) plan)->scan.scanrelid);
			if (IsA(plan, CustomScan))
				visit_list(search, ((CustomScan *) plan)->custom_plans);
			break;
		case T_SubqueryScan:
			visit(search, ((SubqueryScan *) plan)->subplan);
			break;
		case T_Append:
			visit_list(search, ((Append *) plan)->appendplans);
			break;
		case T_MergeAppend:
			visit_list(search, ((MergeAppend *) plan)->mergeplans);
			break;
		case T_ModifyTable:
			visit_modify(search, (ModifyTable *) plan);
			break;
		default:
			break;
	}
	visit(search, plan->lefttree);
	visit(search, plan->righttree);
}

/* The keys that a query names, *n of them; NULL and -1 where it has no leap table. */
LeapWanted *
leap_keys_of_query(QueryDesc *query, int *n)
{
	Search		search = {.query = query};
	ListCell   *cell;
	bool		found = false;

	*n = -1;
	foreach(cell, query->plannedstmt->rtable)
	{
		RangeTblEntry *entry = lfirst(cell);

		if (entry->rtekind == RTE_RELATION && entry->relkind == RELKIND_RELATION &&
			leap_member_of(entry->relid) != NULL)
			found = true;
	}
	if (!found)
		return NULL;
	visit(&search, query->plannedstmt->planTree);
	visit_list(&search, query->plannedstmt->subplans);
	if (search.context)
		FreeExprContext(search.context, true);
	*n = search.n;
	return search.wanted;
}
