/*
 * ls_executor_cache.c - the executor's hooks, and the states that a session keeps.
 *
 * A plan in the server's plan cache is known by its address until its memory goes.  From its
 * second execution on its state rests here between executions.  An execution takes the state
 * along: an error on the way ends it as it would end any other, and an execution within the
 * execution builds one of its own.
 */
#include "ls_executor_cache.h"

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* Each takes about 30 kB. */
#define MAX_STATES 64
/*
 * Then it is built anew: of some executions little bits of memory stay (what extensions that
 * measure put there).
 */
#define MAX_RESTS 500
/* Measured at so many of them: it takes a walk through all its memory contexts. */
#define MEASURE_EVERY 16

static ExecutorStart_hook_type previous_start = NULL;
static ExecutorEnd_hook_type previous_end = NULL;

static MemoryContext states_context = NULL;
static HTAB *states = NULL;		/* of all plans that were seen and are still there */
static dlist_head resting = DLIST_STATIC_INIT(resting);	/* the one used last is first */
static int	n_resting = 0;
static Size resting_bytes = 0;
static uint64 changes = 0;		/* of catalogs, as far as an execution depends on them */

static void
relation_changed(Datum arg, Oid relation)
{
	changes++;
}

static void
object_changed(Datum arg, int cache, uint32 hash)
{
	changes++;
}

/* Of a plan that was seen. */
#define NOTE_BYTES sizeof(LsCachedState)

static void
prepare(void)
{
	HASHCTL		control = {.keysize = sizeof(const PlannedStmt *), .entrysize = NOTE_BYTES};

	if (states != NULL)
		return;
	states_context = AllocSetContextCreate(TopMemoryContext, "leanstore executor states",
										   ALLOCSET_DEFAULT_SIZES);
	control.hcxt = states_context;
	states = hash_create("leanstore executor states", MAX_STATES, &control,
						 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, object_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(TYPEOID, object_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(OPEROID, object_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, object_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, object_changed, (Datum) 0);
}

/* No longer rests; the caller has taken the state or drops it. */
static void
note_woken(LsCachedState *kept)
{
	dlist_delete(&kept->link);
	n_resting--;
	resting_bytes -= kept->bytes;
}

static void
drop_state(LsCachedState *kept)
{
	MemoryContext context = kept->estate->es_query_cxt;

	note_woken(kept);
	kept->estate = NULL;
	MemoryContextDelete(context);
}

static Size
notes_bytes(void)
{
	return states != NULL ? hash_get_num_entries(states) * NOTE_BYTES : 0;
}

Size
ls_states_bytes(void)
{
	return resting_bytes + notes_bytes();
}

/* The one used last stays, and so do notes, until their plans go. */
void
ls_states_shrink(Size bytes)
{
	while (ls_states_bytes() > bytes && n_resting > 1)
		drop_state(dlist_container(LsCachedState, link, dlist_tail_node(&resting)));
}

/* The plan goes. */
static void
plan_is_freed(void *plan)
{
	LsCachedState *kept = hash_search(states, &plan, HASH_FIND, NULL);

	if (kept == NULL)
		return;
	if (kept->estate != NULL)
		drop_state(kept);
	hash_search(states, &plan, HASH_REMOVE, NULL);
}

/* NULL: there are notes of so many plans that no memory is left for their states. */
static LsCachedState *
find_or_enter(const PlannedStmt *plan)
{
	bool		found;
	LsCachedState *kept = hash_search(states, &plan, HASH_FIND, &found);
	MemoryContextCallback *callback;

	if (found)
		return kept;
	if (notes_bytes() >= (Size) ls_accel_kept_memory_kb * 1024 / 2)
		return NULL;
	callback = MemoryContextAlloc(GetMemoryChunkContext(unconstify(PlannedStmt *, plan)),
		sizeof(*callback));
	*callback = (MemoryContextCallback)
	{
		.func = plan_is_freed, .arg = unconstify(PlannedStmt *, plan)
	};
	kept = hash_search(states, &plan, HASH_ENTER, NULL);
	*kept = (LsCachedState)
	{
		.plan = plan
	};
	MemoryContextRegisterResetCallback(GetMemoryChunkContext(unconstify(PlannedStmt *, plan)),
		callback);
	return kept;
}

/* The name is a constant of the server's: a plan that lives as long as its statement. */
static bool
is_in_plan_cache(PlannedStmt *plan)
{
	static const char *name = NULL;
	const char *of_plan = GetMemoryChunkContext(plan)->name;

	if (name == NULL && strcmp(of_plan, "CachedPlan") == 0)
		name = of_plan;
	return of_plan == name;
}

/*
 * What may not be written is told by standard_ExecutorStart().  That a cursor may go backward
 * makes no difference to nodes of plans that fit.
 */
static bool
is_plain(const QueryDesc *query, int eflags)
{
	return (eflags & ~(EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_SKIP_TRIGGERS)) == 0 &&
		query->instrument_options == 0 && query->crosscheck_snapshot == InvalidSnapshot &&
		query->queryEnv == NULL && !XactReadOnly && !IsInParallelMode() &&
		is_in_plan_cache(query->plannedstmt);
}

/*
 * The user, and where parameters come from: PL/pgSQL reads its variables in its own way, which
 * depends on the expression and is right for each call of the function.
 */
static LsExecutorStateMaker
maker_of(const QueryDesc *query)
{
	const ParamListInfo params = query->params;
	const ParamCompileHook compile = params != NULL ? params->paramCompile : NULL;

	return (LsExecutorStateMaker)
	{
		.user = GetUserId(), .compile = compile,
		.compiled_for = compile != NULL ? params->parserSetupArg : NULL
	};
}

static bool
has_same_maker(const LsCachedState *kept, const QueryDesc *query)
{
	const LsExecutorStateMaker now = maker_of(query);

	return now.user == kept->maker.user && now.compile == kept->maker.compile &&
		now.compiled_for == kept->maker.compiled_for;
}

static bool
wake(LsCachedState *kept, QueryDesc *query, int eflags)
{
	ExecCheckPermissions(query->plannedstmt->rtable, query->plannedstmt->permInfos, true);
	if (kept->changes == changes && has_same_maker(kept, query) && ls_executor_state_open(kept))
	{
		/* to lock an index takes notice of what has changed */
		if (kept->changes == changes)
		{
			note_woken(kept);
			ls_executor_state_wake(kept, query, eflags);
			kept->running = query->estate;
			kept->uses++;
			return true;
		}
		ls_executor_state_close(kept->parts, kept->parts->n_relations);
	}
	drop_state(kept);
	return false;
}

/*
 * Hooks of other modules beneath these would be passed by, and one that looks at each function
 * that is about to be called.
 */
static bool
others_have_a_say(void)
{
	return previous_start != NULL || previous_end != NULL ||
		!ls_accel_host->object_access_is_lowest ||
		object_access_hook != ls_accel_host->object_access;
}

static bool
may_reuse(void)
{
	return ls_accel_server_is_known && ls_accel_executor_cache && ls_accel_keeps_memory();
}

static void
start_as_always(QueryDesc *query, int eflags)
{
	if (previous_start)
		previous_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

static void
executor_start(QueryDesc *query, int eflags)
{
	LsCachedState *kept;

	if (!may_reuse() || others_have_a_say() || !is_plain(query, eflags))
	{
		start_as_always(query, eflags);
		return;
	}
	prepare();
	kept = find_or_enter(query->plannedstmt);
	if (kept == NULL)
	{
		start_as_always(query, eflags);
		return;
	}
	if (kept->estate != NULL && wake(kept, query, eflags))
		return;
	/* the state of an execution that still runs is not described any more, also if this fails */
	kept->running = NULL;
	kept->changes = changes;
	kept->maker = maker_of(query);
	kept->starts++;
	kept->rests = 0;
	kept->parts = NULL;
	start_as_always(query, eflags);
	kept->running = query->estate;
}

/* A plan that is executed once only is in the plan cache, too, if it was made for known values. */
static bool
is_worth_keeping(LsCachedState *kept, const QueryDesc *query)
{
	if (kept->starts + kept->uses < 2 || kept->estate != NULL || kept->running != query->estate ||
		kept->changes != changes || kept->rests >= MAX_RESTS ||
		!is_plain(query, query->estate->es_top_eflags))
		return false;
	if (!kept->looked_at)
	{
		kept->fits = ls_executor_state_is_cacheable(kept->plan);
		kept->looked_at = true;
	}
	return kept->fits;
}

static void
executor_end(QueryDesc *query)
{
	LsCachedState *kept = NULL;

	if (may_reuse() && states != NULL)
		kept = hash_search(states, &query->plannedstmt, HASH_FIND, NULL);
	if (kept != NULL && is_worth_keeping(kept, query) && ls_executor_state_reset(kept, query))
	{
		MemoryContextSetParent(kept->estate->es_query_cxt, states_context);
		if (n_resting == MAX_STATES)
			drop_state(dlist_container(LsCachedState, link, dlist_tail_node(&resting)));
		/* its buffers grow with the rows that it meets */
		if (kept->rests % MEASURE_EVERY == 0)
			kept->bytes = MemoryContextMemAllocated(kept->estate->es_query_cxt, true);
		dlist_push_head(&resting, &kept->link);
		n_resting++;
		resting_bytes += kept->bytes;
		kept->rests++;
		ls_accel_bound_memory();
	}
	else if (previous_end)
		previous_end(query);
	else
		standard_ExecutorEnd(query);
}

/* host: NULL where leanstore_am is loaded later, above these hooks.  It has no hook at the end. */
void
ls_executor_state_install_hooks(const LsModule *host)
{
	ExecutorStart_hook_type *start =
		host != NULL ? host->below_executor_start : &ExecutorStart_hook;

	previous_start = *start;
	*start = executor_start;
	previous_end = ExecutorEnd_hook;
	ExecutorEnd_hook = executor_end;
}

PG_FUNCTION_INFO_V1(leanstore_executor_cache);

/*
 * Of this session: for each plan with a state that rests, its first table, the command, and how
 * often a state was used again.
 */
Datum
leanstore_executor_cache(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	dlist_iter	iter;

	InitMaterializedSRF(fcinfo, 0);
	dlist_foreach(iter, &resting)
	{
		const LsCachedState *kept = dlist_container(LsCachedState, link, iter.cur);
		Datum		values[3];
		bool		nulls[3] = {0};

		values[0] = ObjectIdGetDatum(linitial_oid(kept->plan->relationOids));
		values[1] = CStringGetTextDatum(GetCommandTagName(CreateCommandTag((Node *) kept->plan)));
		values[2] = Int64GetDatum(kept->uses);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
