/*
 * ls_plan_fingerprint.c - queries that differ in their values only.
 *
 * A query's shape is everything but the values of constants and parameters.  Queries of the
 * same shape have their values in the same places, so one can be put for the other.  NULL,
 * booleans and names of objects (regclass and the like) are no values but belong to the shape:
 * the planner decides by them.
 *
 * Only queries on one leanstore table have a shape: without subqueries, row security, grouping
 * and the like, for which a plan would not be used again anyway (ls_plan_bounded.c).
 */
#include "ls_plan.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "nodes/nodeFuncs.h"
#include "utils/rel.h"

/* The length of a value while queries are compared: no real constant has it. */
#define BLANK_LENGTH (-100)

static bool
is_ours(Oid relation_id)
{
	Relation	relation = RelationIdGetRelation(relation_id);
	bool		result;

	if (!RelationIsValid(relation))
		return false;
	result = ls_accel_host->is_table(relation);
	RelationClose(relation);
	return result;
}

/* ON CONFLICT has a second entry, for EXCLUDED, and GROUP BY for what it groups by. */
static bool
is_on_one_table(const Query *query)
{
	RangeTblEntry *first;

	if (list_length(query->rtable) != 1 + (query->onConflict != NULL) + query->hasGroupRTE)
		return false;
	first = linitial_node(RangeTblEntry, query->rtable);
	return first->rtekind == RTE_RELATION && first->relkind == RELKIND_RELATION &&
		first->tablesample == NULL && first->securityQuals == NIL && is_ours(first->relid);
}

static bool
is_simple(const Query *query)
{
	if (query->commandType != CMD_SELECT && query->commandType != CMD_INSERT &&
		query->commandType != CMD_UPDATE && query->commandType != CMD_DELETE)
		return false;
	if (query->utilityStmt != NULL || query->hasSubLinks || query->hasRowSecurity ||
		query->hasWindowFuncs || query->hasTargetSRFs || query->cteList != NIL ||
		query->setOperations != NULL || query->groupingSets != NIL ||
		query->withCheckOptions != NIL)
		return false;
	return is_on_one_table(query);
}

static bool
is_value(const Const *constant)
{
	if (constant->constisnull)
		return false;
	switch (constant->consttype)
	{
		case BOOLOID:
		case UNKNOWNOID:
		case CSTRINGOID:
		case RECORDOID:
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGCOLLATIONOID:
		case REGTYPEOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
			return false;
		default:
			return true;
	}
}

/* As the planner would know it: only then may it be put in place of the parameter. */
static bool
param_value(ParamListInfo params, const Param *param, LsPlanValue *value)
{
	ParamExternData *known;
	ParamExternData fetched;

	if (params == NULL || param->paramid <= 0 || param->paramid > params->numParams)
		return false;
	if (params->paramFetch != NULL)
		known = params->paramFetch(params, param->paramid, true, &fetched);
	else
		known = &params->params[param->paramid - 1];
	if (known->ptype != param->paramtype || (known->pflags & PARAM_FLAG_CONST) == 0)
		return false;
	value->value = known->value;
	value->is_null = known->isnull;
	return true;
}

typedef struct Walk
{
	ParamListInfo params;
	LsQueryShape *shape;
} Walk;

static inline void
mix(Walk *walk, uint64 what)
{
	walk->shape->hash = hash_combine64(walk->shape->hash, what);
}

static inline void
mix_name(Walk *walk, const char *name)
{
	if (name != NULL)
		mix(walk, hash_bytes((const unsigned char *) name, (int) strlen(name)));
}

/* True: no shape. */
static bool
add_value(Walk *walk, Node *node)
{
	LsPlanValue *value;

	if (walk->shape->n_values == LS_PLAN_MAX_VALUES)
		return true;
	walk->shape->nodes[walk->shape->n_values] = node;
	value = &walk->shape->values[walk->shape->n_values++];
	if (IsA(node, Const))
	{
		value->value = ((Const *) node)->constvalue;
		value->is_null = false;
		return false;
	}
	return !param_value(walk->params, (Param *) node, value);
}

/* What is mixed need not be all: queries with the same hash are compared. */
static bool
walk_expression(Node *node, void *context)
{
	Walk	   *walk = context;

	if (node == NULL)
		return false;
	mix(walk, nodeTag(node));
	switch (nodeTag(node))
	{
		case T_Var:
			mix(walk, (uint64) ((Var *) node)->varattno);
			return false;
		case T_Const:
			mix(walk, ((Const *) node)->consttype);
			return is_value((Const *) node) && add_value(walk, node);
		case T_Param:
			mix(walk, (uint64) ((Param *) node)->paramid);
			return ((Param *) node)->paramkind != PARAM_EXTERN || add_value(walk, node);
		case T_OpExpr:
			mix(walk, ((OpExpr *) node)->opno);
			break;
		case T_FuncExpr:
			mix(walk, ((FuncExpr *) node)->funcid);
			break;
		case T_Aggref:
			mix(walk, ((Aggref *) node)->aggfnoid);
			break;
		case T_TargetEntry:
			mix_name(walk, ((TargetEntry *) node)->resname);
			break;
		case T_SortGroupClause:
			mix(walk, ((SortGroupClause *) node)->tleSortGroupRef);
			mix(walk, ((SortGroupClause *) node)->sortop);
			return false;
		case T_Query:
		case T_SubLink:
			return true;
		default:
			break;
	}
	return expression_tree_walker(node, walk_expression, walk);
}

/* Its values are told with it.  False: plan it as always. */
bool
ls_query_shape(Query *query, int options, ParamListInfo params, LsQueryShape *shape)
{
	Walk		walk = {.params = params, .shape = shape};
	const RangeTblEntry *table;

	if (!is_simple(query))
		return false;
	table = linitial_node(RangeTblEntry, query->rtable);
	shape->hash = murmurhash64(table->relid);
	shape->n_values = 0;
	mix_name(&walk, table->eref->aliasname);
	mix(&walk, (uint64) query->commandType);
	mix(&walk, (uint64) options);
	if (query->rowMarks != NIL)
		mix(&walk, (uint64) linitial_node(RowMarkClause, query->rowMarks)->strength);
	return !query_tree_walker(query, walk_expression, &walk,
							  QTW_IGNORE_RANGE_TABLE | QTW_EXAMINE_SORTGROUP);
}

static void
blank(Const *constant)
{
	constant->constvalue = 0;
	constant->constisnull = true;
	constant->constlen = BLANK_LENGTH;
}

/* A copy of a query that has a shape, and the shape with the copy's nodes. */
Query *
ls_query_copy(Query *query, int options, ParamListInfo params, LsQueryShape *shape)
{
	Query	   *copy = copyObject(query);

	if (!ls_query_shape(copy, options, params, shape))
		elog(ERROR, "a copied query has no shape");
	return copy;
}

/* A copy, for ls_query_is_like(). */
Query *
ls_query_blank(Query *query, int options, ParamListInfo params)
{
	LsQueryShape shape;
	Query	   *copy = ls_query_copy(query, options, params, &shape);

	for (int i = 0; i < shape.n_values; i++)
		if (IsA(shape.nodes[i], Const))
			blank((Const *) shape.nodes[i]);
	return copy;
}

/* Has it the shape of the other one?  The hash says so nearly always, but must not decide. */
bool
ls_query_is_like(Query *query, const LsQueryShape *shape, const Query *blanked)
{
	Const		saved[LS_PLAN_MAX_VALUES];
	bool		result;

	for (int i = 0; i < shape->n_values; i++)
	{
		if (!IsA(shape->nodes[i], Const))
			continue;
		saved[i] = *(Const *) shape->nodes[i];
		blank((Const *) shape->nodes[i]);
	}
	result = equal(query, blanked);
	for (int i = shape->n_values; i-- > 0;) /* backwards: one node may be in two places */
		if (IsA(shape->nodes[i], Const))
			*(Const *) shape->nodes[i] = saved[i];
	return result;
}
