/*
 * ls_plan_reuse.c - the planner's hook: queries that differ in their values only are planned once.
 *
 * README.md tells the rules.  A query gets a copy of a cached plan, so that one can be dropped at
 * any time.  A copy of a plan that was used before has a mark, of which EXPLAIN tells.
 */
#include "ls_plan.h"

#include "commands/explain.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "utils/memutils.h"

/* Shapes seen once are not worth a plan for later.  A power of two. */
#define N_SEEN 1024
/*
 * A plan for a range is used for one of twice as many rows, up to this: so a range that becomes
 * longer is not planned twice each time.
 */
#define ROWS_WITHOUT_DOUBT 1000
/* What a table is told to have, at least, while a plan is made that is kept. */
#define MIN_PAGES_BY_INDEX 10
/*
 * A plan that was used before has this for the catalog cache of the first item in its
 * invalItems.  There is no such cache, so nothing invalidates it, and copyObject() keeps it in
 * the server's plan cache.
 */
#define REUSED_MARK (-1)

typedef struct Request
{
	Query	   *query;
	const char *text;
	int			options;
	ParamListInfo params;
	LsQueryShape shape;
} Request;

static planner_hook_type previous_planner = NULL;
static get_relation_info_hook_type previous_relation_info = NULL;
static explain_per_plan_hook_type previous_explain = NULL;
static uint64 seen[N_SEEN];
static bool planning = false;	/* a plan to be kept */

static bool
was_seen(uint64 hash)
{
	uint64	   *place = &seen[hash & (N_SEEN - 1)];
	bool		result = *place == hash;

	*place = hash;
	return result;
}

static PlannedStmt *
plan_as_always(Query *query, const char *text, int options, ParamListInfo params)
{
	return previous_planner ? previous_planner(query, text, options, params) :
		standard_planner(query, text, options, params);
}

static PlannedStmt *
plan_for_all_values(Query *parameterized, const char *text, int options, ParamListInfo estimates)
{
	PlannedStmt *plan;

	planning = true;
	PG_TRY();
	{
		plan = plan_as_always(parameterized, text, options, estimates);
	}
	PG_FINALLY();
	{
		planning = false;
	}
	PG_END_TRY();
	return plan;
}

/* The plan of a parameterized query becomes one to be kept, if it is right for all values. */
static void
note_plan(LsCachedPlan *made, PlannedStmt *plan)
{
	const ParamListInfo estimates = made->parameterized.estimates;
	LsPlanValue values[LS_PLAN_MAX_VALUES];
	double		rows;

	list_free(made->relations);
	made->relations = list_copy(plan->relationOids);
	made->items = copyObject(plan->invalItems);
	if (!ls_plan_is_bounded(plan, &made->parameterized, &made->bound))
		return;
	for (int i = 0; i < estimates->numParams; i++)
		values[i] = (LsPlanValue)
	{
		.value = estimates->params[i].value, .is_null = estimates->params[i].isnull
	};
	rows = ls_plan_rows(&made->bound, values);
	made->rows_max = made->bound.from < 0 ? rows : Max(rows, Min(2 * rows, ROWS_WITHOUT_DOUBT));
	made->plan = copyObject(plan);
	ls_place_in_plan(made->plan, &made->parameterized);
}

/* A plan for the shape, or that there is none for all values.  False: catalogs are changing. */
static bool
make_plan(const Request *request, LsCachedPlan *made)
{
	uint64		invalidations = ls_plan_invalidations();
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "leanstore plan",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	bool		understood;

	*made = (LsCachedPlan)
	{
		.context = context, .options = request->options
	};
	ls_planner_settings(&made->settings);
	made->blank = ls_query_blank(request->query, request->options, request->params);
	made->relations = list_make1_oid(linitial_node(RangeTblEntry, made->blank->rtable)->relid);
	understood = ls_query_parameterize(request->query, request->options, request->params,
									   &made->parameterized);
	MemoryContextSwitchTo(old_context);
	if (understood)
	{
		PlannedStmt *plan = plan_for_all_values(made->parameterized.query, request->text,
												request->options, made->parameterized.estimates);

		MemoryContextSwitchTo(context);
		note_plan(made, plan);
		MemoryContextSwitchTo(old_context);
	}
	made->parameterized.query = NULL;
	made->parameterized.estimates = NULL;
	if (ls_plan_invalidations() == invalidations)
		return true;
	MemoryContextDelete(context);
	return false;
}

static void
mark_as_reused(PlannedStmt *plan)
{
	PlanInvalItem *mark = makeNode(PlanInvalItem);

	mark->cacheId = REUSED_MARK;
	plan->invalItems = lcons(mark, plan->invalItems);
}

static bool
is_reused(const PlannedStmt *plan)
{
	return plan->invalItems != NIL &&
		linitial_node(PlanInvalItem, plan->invalItems)->cacheId == REUSED_MARK;
}

/* With the values of this query. */
static PlannedStmt *
copy_plan(LsCachedPlan *kept, const Query *query, const LsPlanValue *values)
{
	PlannedStmt *plan;

	ls_place_values(&kept->parameterized, values,
					kept->parameterized.n_values + kept->parameterized.n_computed);
	plan = copyObject(kept->plan);
	plan->queryId = query->queryId;
	plan->stmt_location = query->stmt_location;
	plan->stmt_len = query->stmt_len;
	if (kept->uses++ > 0)
		mark_as_reused(plan);
	return plan;
}

/*
 * The cached plan, if it is right for so many rows; or one made for them, if the planner would
 * still read a range so.
 */
static LsCachedPlan *
plan_for_rows(const Request *request, LsCachedPlan *kept, double rows)
{
	LsCachedPlan	made;

	if (rows <= kept->rows_max)
		return kept;
	if (kept->rows_refused > 0 && rows >= kept->rows_refused)
		return NULL;
	if (!make_plan(request, &made))
		return NULL;
	if (made.plan != NULL)
		return ls_plan_cache_put(request->shape.hash, &made);
	MemoryContextDelete(made.context);
	kept = ls_plan_find(request->shape.hash);
	if (kept != NULL)
		kept->rows_refused = rows;
	return NULL;
}

/*
 * NULL: not everything can be computed of these values, or the plan has gone, or is not right
 * for so many rows.
 */
static PlannedStmt *
plan_with(const Request *request, LsCachedPlan *kept)
{
	LsPlanValue values[LS_PLAN_MAX_VALUES];

	memcpy(values, request->shape.values, request->shape.n_values * sizeof(LsPlanValue));
	if (kept->parameterized.n_computed > 0)
	{
		uint64		serial = kept->serial;

		if (!ls_compute_values(&kept->parameterized, values))
			return NULL;
		kept = ls_plan_find(request->shape.hash);
		if (kept == NULL || kept->serial != serial)
			return NULL;
	}
	kept = plan_for_rows(request, kept, ls_plan_rows(&kept->bound, values));
	return kept != NULL ? copy_plan(kept, request->query, values) : NULL;
}

/* NULL: plan it as always. */
static PlannedStmt *
plan_by_shape(const Request *request)
{
	LsCachedPlan *kept;
	LsCachedPlan	made;

	ls_plan_prepare();
	kept = ls_plan_find(request->shape.hash);
	if (kept != NULL)
	{
		if (request->options != kept->options ||
			!ls_query_is_like(request->query, &request->shape, kept->blank))
			return NULL;
		ls_plan_used(kept);
	}
	else if (was_seen(request->shape.hash) && make_plan(request, &made))
		kept = ls_plan_cache_put(request->shape.hash, &made);
	return kept != NULL && kept->plan != NULL ? plan_with(request, kept) : NULL;
}

/*
 * Where one row is looked up in a small table the planner, which knows costs of pages only,
 * reads all rows.  The table may be larger when the plan is used again, and a look-up is
 * quicker even among 50 rows (3.5 instead of 4.7 microseconds).
 */
static void
relation_info(PlannerInfo *root, Oid relation, bool inhparent, RelOptInfo *rel)
{
	if (previous_relation_info != NULL)
		previous_relation_info(root, relation, inhparent, rel);
	if (!planning || inhparent)
		return;
	foreach_node(IndexOptInfo, index, rel->indexlist)
		if (ls_accel_host->is_index(index->indexoid))
			rel->pages = Max(rel->pages, MIN_PAGES_BY_INDEX);
}

/* Do others than leanstore_am and this module tell the planner of relations? */
static bool
others_tell_of_relations(void)
{
	return get_relation_info_hook != ls_accel_host->relation_info ||
		*ls_accel_host->below_relation_info != relation_info || previous_relation_info != NULL;
}

/* Another extension that has a say in planning, as by hints, may say something else next time. */
static bool
others_plan(void)
{
	return set_rel_pathlist_hook != NULL || create_upper_paths_hook != NULL ||
		join_search_hook != NULL || others_tell_of_relations();
}

static PlannedStmt *
plan_query(Query *query, const char *text, int options, ParamListInfo params)
{
	PlannedStmt *plan = NULL;

	if (ls_accel_plan_cache && ls_accel_keeps_memory() && !planning && !others_plan())
	{
		Request		request;

		request.query = query;
		request.text = text;
		request.options = options;
		request.params = params;
		if (ls_query_shape(query, options, params, &request.shape))
			plan = plan_by_shape(&request);
	}
	return plan != NULL ? plan : plan_as_always(query, text, options, params);
}

static void
explain(PlannedStmt *plan, IntoClause *into, ExplainState *es, const char *text,
		ParamListInfo params, QueryEnvironment *environment)
{
	if (previous_explain)
		previous_explain(plan, into, es, text, params, environment);
	if (is_reused(plan))
		ExplainPropertyBool("Plan Reused", true, es);
}

/* host: NULL where leanstore_am is loaded later, above these hooks. */
void
ls_plan_install_hooks(const LsModule *host)
{
	planner_hook_type *planner = host != NULL ? host->below_planner : &planner_hook;
	get_relation_info_hook_type *info =
		host != NULL ? host->below_relation_info : &get_relation_info_hook;

	previous_planner = *planner;
	*planner = plan_query;
	previous_relation_info = *info;
	*info = relation_info;
	previous_explain = explain_per_plan_hook;
	explain_per_plan_hook = explain;
}
