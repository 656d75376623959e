/*
 * ls_plan_bounded.c - is a plan right for all values?
 *
 * It is if what it reads is bounded whatever they are: by equality with all columns of a unique
 * index it reads at most one row, by several such conditions with OR between them one for each,
 * and by equality with all but the last column and a range of integers there at most as many as
 * lie in the range.  No other plan is much better at that, and the one that reads a range is as
 * good for any shorter one.  Where the last column is not bounded at all, but has few values as
 * statistics know it, those are all it can read: the lines of an order are numbered from 1 to
 * 15.
 */
#include "ls_plan.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "catalog/pg_am.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* More rows for each value of the columns before would be worth another plan. */
#define FEW_VALUES 100

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/* What the conditions on one column of the index say. */
typedef struct ColumnBound
{
	double		values;			/* by equality; 0: none */
	const Param *from;			/* value at either end of a range of integers */
	const Param *to;
} ColumnBound;

/* Strategy of a condition `column operator value`, and which column; 0: it is none. */
static int
strategy_of(Relation index, const Node *left, Oid operator, int *column)
{
	if (left == NULL || !IsA(left, Var) || ((const Var *) left)->varno != INDEX_VAR)
		return 0;
	*column = ((const Var *) left)->varattno - 1;
	if (*column < 0 || *column >= IndexRelationGetNumberOfKeyAttributes(index))
		return 0;
	return get_op_opfamily_strategy(operator, index->rd_opfamily[*column]);
}

static void
note_operator(Relation index, const OpExpr *condition, ColumnBound *columns)
{
	int			column;
	const Node *right;
	int			strategy;

	if (list_length(condition->args) != 2)
		return;
	strategy = strategy_of(index, linitial(condition->args), condition->opno, &column);
	if (strategy == BTEqualStrategyNumber)
		columns[column].values = 1;
	right = lsecond(condition->args);
	if (strategy == 0 || ls_value_of(right) < 0 || !is_integer(exprType(right)) ||
		!is_integer(TupleDescAttr(RelationGetDescr(index), column)->atttypid))
		return;
	if (strategy == BTGreaterStrategyNumber || strategy == BTGreaterEqualStrategyNumber)
		columns[column].from = (const Param *) right;
	else if (strategy == BTLessStrategyNumber || strategy == BTLessEqualStrategyNumber)
		columns[column].to = (const Param *) right;
}

/* column = ANY (ARRAY[...]), which is IN: the array is computed. */
static void
note_array(Relation index, const ScalarArrayOpExpr *condition,
		   const LsParameterizedQuery *parameterized, ColumnBound *columns)
{
	int			column;
	int			computed = ls_value_of(lsecond(condition->args)) - parameterized->n_values;
	const ArrayExpr *array;
	int			strategy;

	if (!condition->useOr || computed < 0 || !IsA(parameterized->computed[computed], ArrayExpr))
		return;
	array = (const ArrayExpr *) parameterized->computed[computed];
	strategy = strategy_of(index, linitial(condition->args), condition->opno, &column);
	if (!array->multidims && strategy == BTEqualStrategyNumber &&
		columns[column].values == 0)
		columns[column].values = list_length(array->elements);
}

static const LsRowBound one_row = {.factor = 1, .from = -1, .to = -1};

/* Values that ANALYZE has found in a column of an index; 0: many, or not known. */
static double
few_values(Relation index, int column)
{
	const AttrNumber attribute = index->rd_index->indkey.values[column];
	HeapTuple	tuple = SearchSysCache3(STATRELATTINH,
										ObjectIdGetDatum(index->rd_index->indrelid),
										Int16GetDatum(attribute), BoolGetDatum(false));
	double		values = 0;

	if (HeapTupleIsValid(tuple))
	{
		values = ((Form_pg_statistic) GETSTRUCT(tuple))->stadistinct;
		ReleaseSysCache(tuple);
	}
	return values > 0 && values <= FEW_VALUES ? values : 0;
}

static bool
bound_of_columns(Relation index, const ColumnBound *columns, bool only_condition, LsRowBound *bound)
{
	const int	n = IndexRelationGetNumberOfKeyAttributes(index);

	*bound = one_row;
	for (int i = 0; i < n; i++)
	{
		if (columns[i].values > 0)
			bound->factor *= columns[i].values;
		else if (i < n - 1 || !only_condition)
			return false;		/* another index may be better at the conditions on each row */
		else if (columns[i].from != NULL && columns[i].to != NULL)
		{
			bound->from = ls_value_of((const Node *) columns[i].from);
			bound->from_type = columns[i].from->paramtype;
			bound->to = ls_value_of((const Node *) columns[i].to);
			bound->to_type = columns[i].to->paramtype;
		}
		else if (i > 0 && columns[i].from == NULL && columns[i].to == NULL)
			bound->factor *= few_values(index, i);
		else
			return false;
	}
	return bound->factor > 0;
}

static bool
bound_of_index_scan(Oid index_id, const List *conditions, const List *filter,
					const LsParameterizedQuery *parameterized, LsRowBound *bound)
{
	ColumnBound columns[INDEX_MAX_KEYS] = {0};
	Relation	index = index_open(index_id, NoLock);	/* locked by the planner */
	ListCell   *cell;
	bool		result;

	foreach(cell, conditions)
	{
		const Node *condition = lfirst(cell);

		if (IsA(condition, OpExpr))
			note_operator(index, (const OpExpr *) condition, columns);
		else if (IsA(condition, ScalarArrayOpExpr))
			note_array(index, (const ScalarArrayOpExpr *) condition, parameterized, columns);
	}
	result = /* the strategies are theirs */
		(index->rd_rel->relam == BTREE_AM_OID || ls_accel_host->is_index(index_id)) &&
		index->rd_index->indisunique && index->rd_index->indimmediate &&
		bound_of_columns(index, columns, filter == NIL, bound);
	index_close(index, NoLock);
	return result;
}

/* Rows by equality, in an index or in several, one after the other. */
static bool
bound_of_bitmap(const Plan *plan, const List *filter, const LsParameterizedQuery *parameterized,
				LsRowBound *bound)
{
	double		rows = 0;
	ListCell   *cell;

	if (IsA(plan, BitmapIndexScan))
		return bound_of_index_scan(((const BitmapIndexScan *) plan)->indexid,
			((const BitmapIndexScan *) plan)->indexqual,
								   filter, parameterized, bound) && bound->from < 0;
	if (!IsA(plan, BitmapOr))
		return false;
	foreach(cell, ((const BitmapOr *) plan)->bitmapplans)
	{
		if (!bound_of_bitmap(lfirst(cell), filter, parameterized, bound))
			return false;
		rows += bound->factor;
	}
	*bound = one_row;
	bound->factor = rows;
	return true;
}

static bool
bound_of_node(const Plan *plan, const LsParameterizedQuery *parameterized, LsRowBound *bound)
{
	if (plan->initPlan != NIL || plan->parallel_aware || plan->righttree != NULL)
		return false;
	switch (nodeTag(plan))
	{
		case T_IndexScan:
			return bound_of_index_scan(((const IndexScan *) plan)->indexid,
				((const IndexScan *) plan)->indexqual,
									   plan->qual, parameterized, bound);
		case T_IndexOnlyScan:
			return bound_of_index_scan(((const IndexOnlyScan *) plan)->indexid,
				((const IndexOnlyScan *) plan)->indexqual,
									   plan->qual, parameterized, bound);
		case T_BitmapHeapScan:
			return bound_of_bitmap(plan->lefttree, plan->qual, parameterized, bound);
		case T_Result:
			if (plan->lefttree == NULL)
			{
				*bound = one_row;
				return true;
			}
			break;
		case T_ModifyTable:
			if (((const ModifyTable *) plan)->mergeActionLists != NIL ||
				((const ModifyTable *) plan)->withCheckOptionLists != NIL ||
				((const ModifyTable *) plan)->fdwDirectModifyPlans != NULL)
				return false;
			break;
		case T_LockRows:
		case T_Limit:
		case T_Sort:
		case T_Unique:
		case T_Agg:
			break;
		default:
			return false;
	}
	return plan->lefttree != NULL && bound_of_node(plan->lefttree, parameterized, bound);
}

/* Of a plan for a parameterized query.  False: none, or the plan depends on more than values. */
bool
ls_plan_is_bounded(const PlannedStmt *plan, const LsParameterizedQuery *parameterized,
				   LsRowBound *bound)
{
	return !plan->transientPlan && !plan->dependsOnRole && !plan->parallelModeNeeded &&
		plan->subplans == NIL && plan->partPruneInfos == NIL && plan->appendRelations == NIL &&
		bound_of_node(plan->planTree, parameterized, bound);
}

static double
integer_value(Oid type, Datum value)
{
	switch (type)
	{
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
			return DatumGetInt32(value);
		default:
			return (double) DatumGetInt64(value);
	}
}

double
ls_plan_rows(const LsRowBound *bound, const LsPlanValue *values)
{
	double		width;

	if (bound->from < 0)
		return bound->factor;
	if (values[bound->from].is_null || values[bound->to].is_null)
		return 0;
	width = integer_value(bound->to_type, values[bound->to].value) -
		integer_value(bound->from_type, values[bound->from].value) + 1;
	return bound->factor * Max(width, 0);
}
