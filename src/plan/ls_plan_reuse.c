/*
 * ls_plan_reuse.c - the planner's hook: queries that differ in their values only are planned once.
 *
 * README.md tells the rules.  Who gets a kept plan gets a copy, so it can be dropped at any time.
 */
#include "plan/ls_plan.h"

#include "index/ls_index.h"

#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "utils/memutils.h"

/* Shapes seen once are not worth a plan for later.  A power of two. */
#define N_SEEN 1024
/* A plan for a range is used for one of twice as many rows, up to this: so one that becomes longer is not planned twice each time. */
#define ROWS_WITHOUT_DOUBT 1000

typedef struct Request
{
	Query	   *query;
	const char *text;
	int			options;
	ParamListInfo params;
	LsQueryShape shape;
} Request;

static planner_hook_type previous_planner = NULL;
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
	return previous_planner ? previous_planner(query, text, options, params) : standard_planner(query, text, options, params);
}

static PlannedStmt *
plan_for_all_values(Query *lifted, const char *text, int options, ParamListInfo estimates)
{
	PlannedStmt *plan;

	planning = true;
	PG_TRY();
	{
		plan = plan_as_always(lifted, text, options, estimates);
	}
	PG_FINALLY();
	{
		planning = false;
	}
	PG_END_TRY();
	return plan;
}

/* The plan of a lifted query becomes one to be kept, if it is right for all values. */
static void
note_plan(LsKeptPlan *made, PlannedStmt *plan)
{
	const ParamListInfo estimates = made->lifted.estimates;
	LsPlanValue values[LS_PLAN_MAX_VALUES];
	double		rows;

	list_free(made->relations);
	made->relations = list_copy(plan->relationOids);
	made->items = copyObject(plan->invalItems);
	if (!ls_plan_bound(plan, &made->lifted, &made->bound))
		return;
	for (int i = 0; i < estimates->numParams; i++)
		values[i] = (LsPlanValue)
	{
		.value = estimates->params[i].value, .is_null = estimates->params[i].isnull
	};
	rows = ls_plan_rows(&made->bound, values);
	made->rows_max = made->bound.from < 0 ? rows : Max(rows, Min(2 * rows, ROWS_WITHOUT_DOUBT));
	made->plan = copyObject(plan);
	ls_place_in_plan(made->plan, &made->lifted);
}

/* A plan for the shape, or that there is none for all values.  False: what it depends on changes just now. */
static bool
make_plan(const Request *request, LsKeptPlan *made)
{
	uint64		invalidations = ls_plan_invalidations();
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "leanstore plan", ALLOCSET_SMALL_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	bool		understood;

	*made = (LsKeptPlan)
	{
		.context = context, .options = request->options
	};
	ls_planner_settings(&made->settings);
	made->blank = ls_query_blank(request->query, request->options, request->params);
	made->relations = list_make1_oid(linitial_node(RangeTblEntry, made->blank->rtable)->relid);
	understood = ls_query_lift(request->query, request->options, request->params, &made->lifted);
	MemoryContextSwitchTo(old_context);
	if (understood)
	{
		PlannedStmt *plan = plan_for_all_values(made->lifted.query, request->text, request->options, made->lifted.estimates);

		MemoryContextSwitchTo(context);
		note_plan(made, plan);
		MemoryContextSwitchTo(old_context);
	}
	made->lifted.query = NULL;
	made->lifted.estimates = NULL;
	if (ls_plan_invalidations() == invalidations)
		return true;
	MemoryContextDelete(context);
	return false;
}

/* With the values of this query. */
static PlannedStmt *
copy_plan(LsKeptPlan *kept, const Query *query, const LsPlanValue *values)
{
	PlannedStmt *plan;

	ls_place_values(&kept->lifted, values, kept->lifted.n_values + kept->lifted.n_computed);
	plan = copyObject(kept->plan);
	plan->queryId = query->queryId;
	plan->stmt_location = query->stmt_location;
	plan->stmt_len = query->stmt_len;
	kept->uses++;
	return plan;
}

/* The kept plan, if it is right for so many rows; or one made for them, if the planner would still read a range so. */
static LsKeptPlan *
plan_for_rows(const Request *request, LsKeptPlan *kept, double rows)
{
	LsKeptPlan	made;

	if (rows <= kept->rows_max)
		return kept;
	if (kept->rows_refused > 0 && rows >= kept->rows_refused)
		return NULL;
	if (!make_plan(request, &made))
		return NULL;
	if (made.plan != NULL)
		return ls_plan_keep(request->shape.hash, &made);
	MemoryContextDelete(made.context);
	kept = ls_plan_find(request->shape.hash);
	if (kept != NULL)
		kept->rows_refused = rows;
	return NULL;
}

/* NULL: not everything can be computed of these values, or the plan has gone, or is not right for so many rows. */
static PlannedStmt *
plan_with(const Request *request, LsKeptPlan *kept)
{
	LsPlanValue values[LS_PLAN_MAX_VALUES];

	memcpy(values, request->shape.values, request->shape.n_values * sizeof(LsPlanValue));
	if (kept->lifted.n_computed > 0)
	{
		uint64		serial = kept->serial;

		if (!ls_compute_values(&kept->lifted, values))
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
	LsKeptPlan *kept;
	LsKeptPlan	made;

	ls_plan_prepare();
	kept = ls_plan_find(request->shape.hash);
	if (kept != NULL)
	{
		if (request->options != kept->options || !ls_query_is_like(request->query, &request->shape, kept->blank))
			return NULL;
		ls_plan_used(kept);
	}
	else if (was_seen(request->shape.hash) && make_plan(request, &made))
		kept = ls_plan_keep(request->shape.hash, &made);
	return kept != NULL && kept->plan != NULL ? plan_with(request, kept) : NULL;
}

/* Another extension that has a say in planning, as by hints, may say something else next time. */
static bool
others_plan(void)
{
	return set_rel_pathlist_hook != NULL || create_upper_paths_hook != NULL || join_search_hook != NULL || !ls_index_planner_hook_is_alone();
}

static PlannedStmt *
plan_query(Query *query, const char *text, int options, ParamListInfo params)
{
	PlannedStmt *plan = NULL;

	if (unlikely(ls_show_indexes_as_btree))
		query = ls_index_show_as_btree(query);
	if (ls_reuse_plans && ls_keeps_memory() && !planning && !others_plan())
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

bool
ls_planning_to_reuse(void)
{
	return planning;
}

void
ls_plan_install_hook(void)
{
	previous_planner = planner_hook;
	planner_hook = plan_query;
}
