/*
 * ls_executor_cacheable.c - for which plans is the executor's state worth keeping, and right next
 * time?
 *
 * Nodes that ls_executor_reset.c knows, on leanstore tables, and expressions of which nothing
 * outlives an execution but what depends on catalogs: the server's own functions, nothing
 * volatile.
 */
#include "ls_executor_cache.h"

#include "access/relation.h"
#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

static bool
function_fits(Oid function)
{
	return function < FirstNormalObjectId && !get_func_retset(function) &&
		(func_volatile(function) != PROVOLATILE_VOLATILE || function == F_NEXTVAL);
}

static bool
has_strange_function(Oid function, void *context)
{
	return !function_fits(function);
}

/* expression_tree_walker's answer: true stops. */
static bool
does_not_fit(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_List:
		case T_TargetEntry:
		case T_Var:
		case T_Const:
		case T_Param:
		case T_OpExpr:
		case T_FuncExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_BoolExpr:
		case T_RelabelType:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CoalesceExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_SQLValueFunction:
		case T_NextValueExpr:
		case T_ArrayExpr:
			break;
		default:
			return true;
	}
	return check_functions_in_node(node, has_strange_function, NULL) ||
		expression_tree_walker(node, does_not_fit, context);
}

static bool
expression_fits(const void *expression)
{
	return !does_not_fit((Node *) expression, NULL);
}

static bool
index_fits(Oid index_id)
{
	Relation	index;
	bool		result;

	if (!ls_accel_host->is_index(index_id))
		return false;
	index = relation_open(index_id, AccessShareLock);
	result = RelationGetIndexExpressions(index) == NIL && RelationGetIndexPredicate(index) == NIL;
	relation_close(index, NoLock);
	return result;
}

static bool
may_be_changed(Relation table)
{
	const TupleConstr *constraints = RelationGetDescr(table)->constr;
	List	   *indexes;
	ListCell   *cell;

	if (table->trigdesc != NULL || table->rd_rel->relispartition)
		return false;
	if (constraints != NULL &&
		(constraints->num_check > 0 || constraints->has_generated_stored ||
		 constraints->has_generated_virtual))
		return false;
	indexes = RelationGetIndexList(table);
	foreach(cell, indexes)
	{
		if (!index_fits(lfirst_oid(cell)))
			return false;
	}
	return true;
}

static bool
table_fits(const RangeTblEntry *entry, bool changed)
{
	Relation	table = relation_open(entry->relid, NoLock);
	bool		result = ls_accel_host->is_table(table) &&
		table->rd_rel->relkind == RELKIND_RELATION && (!changed || may_be_changed(table));

	relation_close(table, NoLock);
	return result;
}

static bool
tables_fit(const PlannedStmt *plan)
{
	int			number = 0;
	ListCell   *cell;

	foreach(cell, plan->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		number++;
		switch (entry->rtekind)
		{
			case RTE_RELATION:
				if (entry->inh || entry->tablesample != NULL ||
					!table_fits(entry, list_member_int(plan->resultRelations, number)))
					return false;
				break;
			case RTE_VALUES:
			case RTE_RESULT:
			case RTE_JOIN:
				break;
			default:
				return false;
		}
	}
	return true;
}

static bool node_fits(const Plan *plan);

static bool
index_scan_fits(Oid index, const List *conditions, const List *order)
{
	return order == NIL && expression_fits(conditions) && ls_accel_host->is_index(index);
}

static bool
change_fits(const ModifyTable *plan)
{
	return plan->operation != CMD_MERGE && list_length(plan->resultRelations) == 1 &&
		plan->rootRelation == 0 && plan->canSetTag && plan->withCheckOptionLists == NIL &&
		plan->onConflictAction == ONCONFLICT_NONE && expression_fits(plan->returningLists);
}

static bool
nodes_fit(const List *plans)
{
	ListCell   *cell;

	foreach(cell, plans)
	{
		if (!node_fits(lfirst(cell)))
			return false;
	}
	return true;
}

static bool
specifics_fit(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_ModifyTable:
			return change_fits((const ModifyTable *) plan);
		case T_LockRows:
		case T_SeqScan:
		case T_BitmapHeapScan:
			return true;
		case T_Result:
			return expression_fits(((const Result *) plan)->resconstantqual);
		case T_ValuesScan:
			return expression_fits(((const ValuesScan *) plan)->values_lists);
		case T_Limit:
			return ((const Limit *) plan)->limitOption == LIMIT_OPTION_COUNT &&
				expression_fits(((const Limit *) plan)->limitOffset) &&
				expression_fits(((const Limit *) plan)->limitCount);
		case T_NestLoop:
			return ((const NestLoop *) plan)->join.jointype == JOIN_INNER &&
				expression_fits(((const NestLoop *) plan)->join.joinqual);
		case T_IndexScan:
			return index_scan_fits(((const IndexScan *) plan)->indexid,
				((const IndexScan *) plan)->indexqual, ((const IndexScan *) plan)->indexorderby);
		case T_IndexOnlyScan:
			return index_scan_fits(((const IndexOnlyScan *) plan)->indexid,
				((const IndexOnlyScan *) plan)->indexqual,
								   ((const IndexOnlyScan *) plan)->indexorderby);
		case T_BitmapIndexScan:
			return index_scan_fits(((const BitmapIndexScan *) plan)->indexid,
				((const BitmapIndexScan *) plan)->indexqual, NIL);
		case T_BitmapOr:
			return nodes_fit(((const BitmapOr *) plan)->bitmapplans);
		case T_BitmapAnd:
			return nodes_fit(((const BitmapAnd *) plan)->bitmapplans);
		default:
			return false;
	}
}

static bool
node_fits(const Plan *plan)
{
	if (plan == NULL)
		return true;
	return plan->initPlan == NIL && !plan->parallel_aware && !plan->async_capable &&
		specifics_fit(plan) && expression_fits(plan->targetlist) && expression_fits(plan->qual) &&
		node_fits(plan->lefttree) && node_fits(plan->righttree);
}

/* While it is executed: its tables are locked. */
bool
ls_executor_state_is_cacheable(const PlannedStmt *plan)
{
	if (plan->commandType != CMD_SELECT && plan->commandType != CMD_INSERT &&
		plan->commandType != CMD_UPDATE && plan->commandType != CMD_DELETE)
		return false;
	return plan->relationOids != NIL && plan->utilityStmt == NULL && plan->subplans == NIL &&
		plan->partPruneInfos == NIL && plan->appendRelations == NIL &&
		!plan->hasModifyingCTE && !plan->parallelModeNeeded && plan->jitFlags == 0 &&
		tables_fit(plan) && node_fits(plan->planTree);
}
