/*
 * ls_plan_cache.c - the plans that a session keeps.
 *
 * At most MAX_PLANS, each in a memory context of its own; the one that was not used for longest
 * goes first.  What the server's plan cache drops or makes anew, for what it depends on has
 * changed, is dropped here, too.  Callbacks only mark it: it goes when the planner's hook looks
 * for a plan.
 */
#include "ls_plan.h"

#include "access/xact.h"
#include "funcapi.h"
#include "jit/jit.h"
#include "miscadmin.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/planmain.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#define MAX_PLANS 128

static MemoryContext plans_context = NULL;
static HTAB *plans = NULL;
static dlist_head recent = DLIST_STATIC_INIT(recent);	/* the one used last is first */
static int	n_plans = 0;
static Size plans_bytes = 0;
static bool any_invalid = false;
static uint64 invalidations = 0;

/* ----------------------------------------------------------------
 * what plans depend on
 * ----------------------------------------------------------------
 */

void
ls_planner_settings(LsPlannerSettings *settings)
{
	StaticAssertStmt(sizeof(LsPlannerSettings) ==
					 10 * sizeof(double) + 8 * sizeof(int) + 16 * sizeof(bool),
					 "no padding: it would be compared");
	*settings = (LsPlannerSettings)
	{
		.costs = {seq_page_cost, random_page_cost, cpu_tuple_cost, cpu_index_tuple_cost,
			cpu_operator_cost, parallel_tuple_cost, parallel_setup_cost, cursor_tuple_fraction,
			jit_above_cost, hash_mem_multiplier},
		.numbers = {effective_cache_size, work_mem, max_parallel_workers_per_gather,
			debug_parallel_query,
			constraint_exclusion, XactIsoLevel == XACT_SERIALIZABLE, XactReadOnly, jit_enabled},
		.enabled = {enable_seqscan, enable_indexscan, enable_indexonlyscan, enable_bitmapscan,
			enable_tidscan, enable_sort, enable_incremental_sort, enable_hashagg, enable_nestloop,
			enable_material, enable_gathermerge,
			enable_presorted_aggregate, enable_distinct_reordering, enable_self_join_elimination},
	};
}

static void
invalidate(LsCachedPlan *kept)
{
	kept->valid = false;
	any_invalid = true;
}

static void
relation_changed(Datum arg, Oid relation)
{
	dlist_iter	iter;

	invalidations++;
	dlist_foreach(iter, &recent)
	{
		LsCachedPlan   *kept = dlist_container(LsCachedPlan, link, iter.cur);

		if (relation == InvalidOid || list_member_oid(kept->relations, relation))
			invalidate(kept);
	}
}

/* A function or type that a plan was made with. */
static void
object_changed(Datum arg, int cache, uint32 hash)
{
	dlist_iter	iter;

	invalidations++;
	dlist_foreach(iter, &recent)
	{
		LsCachedPlan   *kept = dlist_container(LsCachedPlan, link, iter.cur);
		ListCell   *cell;

		foreach(cell, kept->items)
		{
			const PlanInvalItem *item = lfirst_node(PlanInvalItem, cell);

			if (item->cacheId == cache && (hash == 0 || item->hashValue == hash))
				invalidate(kept);
		}
	}
}

/* Operators, and what families they are in: any plan may depend on those. */
static void
operators_changed(Datum arg, int cache, uint32 hash)
{
	relation_changed(arg, InvalidOid);
}

/* Has grown: what the session has read of the catalogs since may be old. */
uint64
ls_plan_invalidations(void)
{
	return invalidations;
}

/* ----------------------------------------------------------------
 * the plans
 * ----------------------------------------------------------------
 */

static void
forget(LsCachedPlan *kept)
{
	dlist_delete(&kept->link);
	n_plans--;
	plans_bytes -= kept->bytes;
	if (kept->context != NULL)
		MemoryContextDelete(kept->context);
	hash_search(plans, &kept->hash, HASH_REMOVE, NULL);
}

static void
forget_invalid(void)
{
	dlist_mutable_iter iter;

	any_invalid = false;
	dlist_foreach_modify(iter, &recent)
	{
		LsCachedPlan   *kept = dlist_container(LsCachedPlan, link, iter.cur);

		if (!kept->valid)
			forget(kept);
	}
}

void
ls_plan_prepare(void)
{
	HASHCTL		control = {.keysize = sizeof(uint64), .entrysize = sizeof(LsCachedPlan)};

	if (plans != NULL)
		return;
	plans_context = AllocSetContextCreate(TopMemoryContext, "leanstore plans",
										  ALLOCSET_DEFAULT_SIZES);
	control.hcxt = plans_context;
	plans = hash_create("leanstore plans", MAX_PLANS, &control,
						HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, object_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(TYPEOID, object_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(OPEROID, operators_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AMOPOPID, operators_changed, (Datum) 0);
}

/* What is kept for a shape, if it is still what the planner would do. */
LsCachedPlan *
ls_plan_find(uint64 hash)
{
	LsCachedPlan *kept;
	LsPlannerSettings now;

	if (any_invalid)
		forget_invalid();
	kept = hash_search(plans, &hash, HASH_FIND, NULL);
	if (kept == NULL)
		return NULL;
	ls_planner_settings(&now);
	if (memcmp(&now, &kept->settings, sizeof(now)) != 0)
	{
		forget(kept);
		return NULL;
	}
	return kept;
}

/* In place of what was kept for the shape. */
LsCachedPlan *
ls_plan_cache_put(uint64 hash, const LsCachedPlan *what)
{
	static uint64 last_serial = 0;
	LsCachedPlan *kept = hash_search(plans, &hash, HASH_FIND, NULL);

	if (kept != NULL)
		forget(kept);
	else if (n_plans == MAX_PLANS)
		forget(dlist_container(LsCachedPlan, link, dlist_tail_node(&recent)));
	kept = hash_search(plans, &hash, HASH_ENTER, NULL);
	*kept = *what;
	kept->hash = hash;
	kept->serial = ++last_serial;
	kept->valid = true;
	dlist_push_head(&recent, &kept->link);
	n_plans++;
	MemoryContextSetParent(kept->context, plans_context);
	kept->bytes = MemoryContextMemAllocated(kept->context, true);
	plans_bytes += kept->bytes;
	ls_accel_bound_memory();
	return kept;
}

Size
ls_plans_bytes(void)
{
	return plans_bytes;
}

/* The one used last stays: its user may be at work with it. */
void
ls_plans_shrink(Size bytes)
{
	while (plans_bytes > bytes && n_plans > 1)
		forget(dlist_container(LsCachedPlan, link, dlist_tail_node(&recent)));
}

void
ls_plan_used(LsCachedPlan *kept)
{
	dlist_move_head(&recent, &kept->link);
}

/* DISCARD PLANS */
void
ls_plan_discard(void)
{
	relation_changed((Datum) 0, InvalidOid);
}

PG_FUNCTION_INFO_V1(leanstore_plan_cache);

/* Of this session, the one used last first. */
Datum
leanstore_plan_cache(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	dlist_iter	iter;

	InitMaterializedSRF(fcinfo, 0);
	dlist_foreach(iter, &recent)
	{
		const LsCachedPlan *kept = dlist_container(LsCachedPlan, link, iter.cur);
		Datum		values[4];
		bool		nulls[4] = {0};

		if (!kept->valid)
			continue;
		values[0] = ObjectIdGetDatum(linitial_node(RangeTblEntry, kept->blank->rtable)->relid);
		values[1] = CStringGetTextDatum(GetCommandTagName(CreateCommandTag((Node *) kept->blank)));
		values[2] = Float8GetDatum(kept->rows_max);
		nulls[2] = kept->plan == NULL;
		values[3] = Int64GetDatum(kept->uses);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
