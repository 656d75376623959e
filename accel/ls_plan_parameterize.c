/*
 * ls_plan_parameterize.c - parameters in place of a query's values, constants in place of a plan's
 * parameters.
 *
 * The planner computes immutable functions of constants: (5)::bigint is a constant to it, also
 * in what EXPLAIN shows, and one that cannot be computed is an error before anything is
 * executed.  So each such expression has one parameter as a whole, and is computed whenever its
 * plan is used.
 *
 * A plan is walked through by hand, for the server has no walker for plans.  So only nodes that
 * are listed in ls_plan_bounded.c and here can be in a plan that is used again.
 */
#include "ls_plan.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"

typedef struct Parameterizing
{
	const LsQueryShape *shape;
	LsParameterizedQuery *parameterized;
	bool		refused;
} Parameterizing;

/* What is below an expression. */
typedef struct Contents
{
	const LsQueryShape *shape;
	bool		values;
	bool		variables;		/* or something else that is not known before execution */
	bool		other;			/* it is not known how the planner computes this */
} Contents;

static int
value_number(const LsQueryShape *shape, const Node *node)
{
	if (IsA(node, Const) || IsA(node, Param))
		for (int i = 0; i < shape->n_values; i++)
			if (shape->nodes[i] == node)
				return i;
	return -1;
}

static bool
look_into(Node *node, void *context)
{
	Contents   *contents = context;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Const:
			contents->values |= value_number(contents->shape, node) >= 0;
			return false;
		case T_Param:
			if (value_number(contents->shape, node) >= 0)
				contents->values = true;
			else
				contents->variables = true;
			return false;
		case T_List:
		case T_FuncExpr:
		case T_OpExpr:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayExpr:
			break;
		case T_Var:
		case T_Aggref:
		case T_CaseTestExpr:
		case T_CoerceToDomain:	/* the planner does not compute it if the domain has constraints */
		case T_CoerceToDomainValue:
		case T_SetToDefault:
		case T_NextValueExpr:
		case T_CurrentOfExpr:
		case T_MergeSupportFunc:
		case T_ReturningExpr:
			contents->variables = true;
			return false;
		default:
			contents->other = true;
			break;
	}
	return expression_tree_walker(node, look_into, contents);
}

/*
 * Number of the value that a parameter of a parameterized query stands for; -1: the node is none.
 */
int
ls_value_of(const Node *node)
{
	return node != NULL && IsA(node, Param) && ((const Param *) node)->paramkind == PARAM_EXTERN ?
		((const Param *) node)->paramid - 1 : -1;
}

static Param *
make_param(int number, const Node *node)
{
	Param	   *param = makeNode(Param);

	param->paramkind = PARAM_EXTERN;
	param->paramid = number + 1;
	param->paramtype = exprType(node);
	param->paramtypmod = exprTypmod(node);
	param->paramcollid = exprCollation(node);
	param->location = -1;
	return param;
}

/* A constant to be set, known by the value's number. */
static Const *
make_place(LsParameterizedQuery *parameterized, int number, const Node *node)
{
	int16		length;
	bool		by_value;
	Const	   *place;

	get_typlenbyval(exprType(node), &length, &by_value);
	place = makeConst(exprType(node), exprTypmod(node), exprCollation(node), length, (Datum) 0,
					  true, by_value);
	parameterized->places[number] = lappend(parameterized->places[number], place);
	return place;
}

static Node *
with_places(Node *node, void *context)
{
	Parameterizing    *parameterizing = context;
	int			number;

	if (node == NULL)
		return NULL;
	number = value_number(parameterizing->shape, node);
	if (number >= 0)
		return (Node *) make_place(parameterizing->parameterized, number, node);
	return expression_tree_mutator(node, with_places, context);
}

/* Something that has a value of its own: not a list, a branch of CASE, or the like. */
static bool
is_expression(const Node *node)
{
	switch (nodeTag(node))
	{
		case T_FuncExpr:
		case T_OpExpr:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayExpr:
		case T_ArrayCoerceExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_BoolExpr:
		case T_SubscriptingRef:
		case T_FieldSelect:
		case T_CollateExpr:
		case T_CaseExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_RowExpr:
		case T_RowCompareExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_ConvertRowtypeExpr:
			return true;
		default:
			return false;
	}
}

/* Would the planner compute it, for any values? */
static bool
is_computed(Parameterizing *parameterizing, Node *node)
{
	Contents	contents = {.shape = parameterizing->shape};

	if (!is_expression(node))
		return false;
	(void) look_into(node, &contents);
	if (!contents.values || contents.variables || contain_mutable_functions(node))
		return false;
	/* A condition may be left out, or all others; the rest is too rare to be understood. */
	parameterizing->refused |= contents.other || exprType(node) == BOOLOID;
	return true;
}

static Node *
parameterize(Node *node, void *context)
{
	Parameterizing    *parameterizing = context;
	LsParameterizedQuery *parameterized = parameterizing->parameterized;
	int			number;

	if (node == NULL || parameterizing->refused)
		return node;
	number = value_number(parameterizing->shape, node);
	if (number >= 0)
		return (Node *) make_param(number, node);
	if (is_computed(parameterizing, node))
	{
		if (parameterized->n_values + parameterized->n_computed == LS_PLAN_MAX_VALUES)
			parameterizing->refused = true;
		if (parameterizing->refused)
			return node;
		parameterized->computed[parameterized->n_computed] = with_places(node, parameterizing);
		return (Node *) make_param(parameterized->n_values + parameterized->n_computed++, node);
	}
	return expression_tree_mutator(node, parameterize, context);
}

/* Sets the first n values where they have places. */
void
ls_place_values(const LsParameterizedQuery *parameterized, const LsPlanValue *values, int n)
{
	for (int i = 0; i < n; i++)
	{
		ListCell   *cell;

		foreach(cell, parameterized->places[i])
		{
			Const	   *place = lfirst_node(Const, cell);

			place->constvalue = values[i].value;
			place->constisnull = values[i].is_null;
		}
	}
}

/*
 * The rest of the values from the first ones.  Functions are called, which may do anything, use
 * and forget this plan, too: so nothing of it is touched after the first call.  False:
 * something is no constant any more.
 */
bool
ls_compute_values(const LsParameterizedQuery *parameterized, LsPlanValue *values)
{
	Node	   *expressions[LS_PLAN_MAX_VALUES];
	int			first = parameterized->n_values;
	int			n = parameterized->n_computed;

	ls_place_values(parameterized, values, first);
	for (int i = 0; i < n; i++)
		expressions[i] = copyObject(parameterized->computed[i]);
	for (int i = 0; i < n; i++)
	{
		Node	   *result = eval_const_expressions(NULL, expressions[i]);

		if (!IsA(result, Const))
			return false;
		values[first + i].value = ((Const *) result)->constvalue;
		values[first + i].is_null = ((Const *) result)->constisnull;
	}
	return true;
}

/*
 * Copies the query.  The planner may estimate by the values at hand, but not decide what would
 * be wrong for others.  False: something in it is not understood.
 */
bool
ls_query_parameterize(Query *query, int options, ParamListInfo params,
					  LsParameterizedQuery *parameterized)
{
	LsQueryShape shape;
	Query	   *copy = ls_query_copy(query, options, params, &shape);
	LsPlanValue values[LS_PLAN_MAX_VALUES];
	Parameterizing		parameterizing = {.shape = &shape, .parameterized = parameterized};
	int			n;

	*parameterized = (LsParameterizedQuery)
	{
		.n_values = shape.n_values,
		.computed = palloc0(LS_PLAN_MAX_VALUES * sizeof(Node *)),
		.places = palloc0(LS_PLAN_MAX_VALUES * sizeof(List *))
	};
	parameterized->query = query_tree_mutator(copy, parameterize, &parameterizing,
											  QTW_IGNORE_RANGE_TABLE | QTW_DONT_COPY_QUERY);
	if (parameterizing.refused)
		return false;
	memcpy(values, shape.values, shape.n_values * sizeof(LsPlanValue));
	if (!ls_compute_values(parameterized, values))
		return false;
	n = parameterized->n_values + parameterized->n_computed;
	parameterized->estimates = makeParamList(n);
	for (int i = 0; i < n; i++)
	{
		const Node *node = i < parameterized->n_values ?
			shape.nodes[i] : parameterized->computed[i - parameterized->n_values];

		parameterized->estimates->params[i] = (ParamExternData)
		{
			.value = values[i].value, .isnull = values[i].is_null, .pflags = 0,
			.ptype = exprType(node)
		};
	}
	return true;
}

/* ----------------------------------------------------------------
 * constants in a plan
 * ----------------------------------------------------------------
 */

static Node *
place(Node *node, void *context)
{
	int			number = ls_value_of(node);

	if (number >= 0)
		return (Node *) make_place(context, number, node);
	return expression_tree_mutator(node, place, context);
}

#define PLACE(field, type) ((field) = (type) place((Node *) (field), parameterized))

static void
place_in_node(Plan *plan, LsParameterizedQuery *parameterized)
{
	ListCell   *cell;

	PLACE(plan->targetlist, List *);
	PLACE(plan->qual, List *);
	switch (nodeTag(plan))
	{
		case T_IndexScan:
			{
				IndexScan  *scan = (IndexScan *) plan;

				PLACE(scan->indexqual, List *);
				PLACE(scan->indexqualorig, List *);
				PLACE(scan->indexorderby, List *);
				PLACE(scan->indexorderbyorig, List *);
				break;
			}
		case T_IndexOnlyScan:
			{
				IndexOnlyScan *scan = (IndexOnlyScan *) plan;

				PLACE(scan->indexqual, List *);
				PLACE(scan->recheckqual, List *);
				PLACE(scan->indexorderby, List *);
				PLACE(scan->indextlist, List *);
				break;
			}
		case T_BitmapHeapScan:
			PLACE(((BitmapHeapScan *) plan)->bitmapqualorig, List *);
			break;
		case T_BitmapIndexScan:
			PLACE(((BitmapIndexScan *) plan)->indexqual, List *);
			PLACE(((BitmapIndexScan *) plan)->indexqualorig, List *);
			break;
		case T_BitmapOr:
			foreach(cell, ((BitmapOr *) plan)->bitmapplans)
				place_in_node(lfirst(cell), parameterized);
			break;
		case T_Result:
			PLACE(((Result *) plan)->resconstantqual, Node *);
			break;
		case T_ModifyTable:
			{
				ModifyTable *modify = (ModifyTable *) plan;

				PLACE(modify->returningLists, List *);
				PLACE(modify->onConflictSet, List *);
				PLACE(modify->onConflictWhere, Node *);
				PLACE(modify->exclRelTlist, List *);
				break;
			}
		case T_Limit:
			PLACE(((Limit *) plan)->limitOffset, Node *);
			PLACE(((Limit *) plan)->limitCount, Node *);
			break;
		/* ls_plan_is_bounded() knows what else there can be: no expressions */
		default:
			break;
	}
	if (plan->lefttree != NULL)
		place_in_node(plan->lefttree, parameterized);
}

/* A plan of the parameterized query gets constants for its parameters: places. */
void
ls_place_in_plan(PlannedStmt *plan, LsParameterizedQuery *parameterized)
{
	place_in_node(plan->planTree, parameterized);
}
