/*
 * ls_leap_module.c - loading: settings, hooks, the ends of transactions, internal statements.
 *
 * Before a statement runs it owns the keys that its plan names: ExecutorStart.  It then gets a new
 * snapshot, since what was fetched, or came while its locks were waited for, is newer than its own.
 */
#include "ls_leap.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "libpq/libpq.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC_EXT(
					.name = "leanstore_leap",
					.version = "1.0"
);

void		_PG_init(void);

int			leap_timeout_ms = 5000;
int			leap_minimum_hold_ms = 5;
int			leap_settle_interval_ms = 1000;
char	   *leap_database = NULL;
int			leap_delegation = LEAP_DELEGATION_AUTO;

#ifdef LS_DEBUG_CHECKS
int			leap_planted = LEAP_PLANT_NOTHING;
int			leap_chaos = 0;
#endif

static const struct config_enum_entry scans_options[] = {
	{"refuse", LEAP_SCANS_REFUSE, false},
	{"local", LEAP_SCANS_LOCAL, false},
	{"all", LEAP_SCANS_ALL, false},
	{NULL, 0, false}
};

static const struct config_enum_entry delegation_options[] = {
	{"auto", LEAP_DELEGATION_AUTO, false},
	{"never", LEAP_DELEGATION_NEVER, false},
	{"always", LEAP_DELEGATION_ALWAYS, false},
	{NULL, 0, false}
};

static int	inside_level = 0;	/* nesting level of the transaction that entered; 0: none has */
static ExecutorStart_hook_type below_start = NULL;
static ExecutorRun_hook_type below_run = NULL;
static ExecutorCheckPerms_hook_type below_check = NULL;
static int	is_starting = 0;		/* how many executions are, one within the other */

/* --- Internal statements --- */

bool
leap_is_inside(void)
{
	return inside_level != 0;
}

/* Internal statements follow, by SPI; leap_leave() has to come, unless an error does. */
void
leap_enter(LeapInside *inside)
{
	inside->outer_level = inside_level;
	GetUserIdAndSecContext(&inside->user, &inside->security);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID,
						   inside->security | SECURITY_LOCAL_USERID_CHANGE);
	inside->guc_level = NewGUCNestLevel();
	RestrictSearchPath();
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "leap: cannot connect to SPI");
	inside_level = GetCurrentTransactionNestLevel();
}

void
leap_leave(LeapInside *inside)
{
	inside_level = inside->outer_level;
	SPI_finish();
	AtEOXact_GUC(false, inside->guc_level);
	SetUserIdAndSecContext(inside->user, inside->security);
}

/* A subtransaction of this level has rolled back: what it entered it will not leave. */
void
leap_forget_inside(int level)
{
	if (inside_level >= level)
		inside_level = 0;
}

/* --- Hooks --- */

/* A unit that moves fires no trigger, and no foreign key is looked at: it does not change. */
static void
strip_triggers(QueryDesc *query)
{
	if (query->planstate && IsA(query->planstate, ModifyTableState))
	{
		ModifyTableState *state = (ModifyTableState *) query->planstate;

		for (int i = 0; i < state->mt_nrels; i++)
			state->resultRelInfo[i].ri_TrigDesc = NULL;
		state->mt_transition_capture = NULL;
		state->mt_oc_transition_capture = NULL;
	}
}

/* True: the query has a new snapshot. */
static bool
own_keys_of(QueryDesc *query)
{
	int			n;
	LeapWanted *wanted = leap_keys_of_query(query, &n);

	if (n < 0)
		return false;
	/* No key moves for a statement that will not be permitted. */
	ExecCheckPermissions(query->plannedstmt->rtable, query->plannedstmt->permInfos, true);
	if (n > 0)
		leap_own(wanted, n, query->snapshot);
	if (IsolationUsesXactSnapshot() || query->snapshot == NULL ||
		!IsMVCCSnapshot(query->snapshot) || LEAP_IS_PLANTED(OLD_SNAPSHOT))
		return false;
	UnregisterSnapshot(query->snapshot);
	PushActiveSnapshot(GetTransactionSnapshot());
	query->snapshot = RegisterSnapshot(GetActiveSnapshot());
	return true;
}

static void
executor_start(QueryDesc *query, int flags)
{
	bool		is_inside = leap_is_inside();
	int			before = is_starting;
	volatile bool has_pushed = false;

	PG_TRY();
	{
		is_starting = before + 1;
		if (!is_inside && (flags & EXEC_FLAG_EXPLAIN_ONLY) == 0 && !IsParallelWorker())
			has_pushed = own_keys_of(query);
		if (below_start)
			below_start(query, flags);
		else
			standard_ExecutorStart(query, flags);
	}
	PG_FINALLY();
	{
		is_starting = before;
	}
	PG_END_TRY();
	if (has_pushed)
		PopActiveSnapshot();
	if (is_inside)
		strip_triggers(query);
}

/* The snapshot that the query got in executor_start() is the active one while it runs. */
static void
executor_run(QueryDesc *query, ScanDirection direction, uint64 count)
{
	bool		is_other = query->snapshot && ActiveSnapshotSet() &&
		GetActiveSnapshot() != query->snapshot;

	if (is_other)
		PushActiveSnapshot(query->snapshot);
	if (below_run)
		below_run(query, direction, count);
	else
		standard_ExecutorRun(query, direction, count);
	if (is_other)
		PopActiveSnapshot();
}

/*
 * COPY table TO has no plan; its privileges are checked outside of the executor.  So are those of a
 * foreign key that is made, which asks without an error, and then runs a query.
 */
static bool
check_permissions(List *tables, List *permissions, bool is_error)
{
	ListCell   *cell;

	foreach(cell, permissions)
	{
		RTEPermissionInfo *info = lfirst(cell);

		if (is_error && is_starting == 0 && info->requiredPerms == ACL_SELECT &&
			leap_scans != LEAP_SCANS_LOCAL && leap_member_of(info->relid))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("COPY TO of leap table \"%s\" would leave out rows that other"
							" nodes own", get_rel_name(info->relid)),
					 leap_scans == LEAP_SCANS_ALL ?
					 errhint("COPY (SELECT * FROM ...) TO takes the rows of all nodes.") :
					 errhint("Set leap.scans to local for the rows that this node owns.")));
	}
	return below_check == NULL || below_check(tables, permissions, is_error);
}

/* --- The trigger --- */

PG_FUNCTION_INFO_V1(leap_guard);

/* BEFORE INSERT: the key is owned before the row is inserted.  BEFORE TRUNCATE: refused. */
Datum
leap_guard(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	LeapMember *member;
	char	   *parts[LEAP_MAX_COLUMNS];
	LeapWanted	wanted;

	if (!CALLED_AS_TRIGGER(fcinfo))
		elog(ERROR, "leap_guard is a trigger");
	if (TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("leap table \"%s\" cannot be truncated",
						RelationGetRelationName(data->tg_relation)),
				 errhint("Delete its rows by their keys, or leap.drop() it.")));
	member = leap_member_of(RelationGetRelid(data->tg_relation));
	if (member == NULL)
		PG_RETURN_POINTER(data->tg_trigtuple);
	for (int i = 0; i < member->columns; i++)
	{
		bool		null;
		Oid			output;
		Datum		value = heap_getattr(data->tg_trigtuple, member->attnum[i],
										 RelationGetDescr(data->tg_relation), &null);
		bool		varlena;

		if (null)
			PG_RETURN_POINTER(data->tg_trigtuple);
		getTypeOutputInfo(member->type[i], &output, &varlena);
		parts[i] = OidOutputFunctionCall(output, value);
	}
	leap_init_wanted(&wanted, member->family, leap_key_text(member, parts));
	leap_own(&wanted, 1, NULL);
	PG_RETURN_POINTER(data->tg_trigtuple);
}

/* --- Ends of transactions --- */

static void
at_end(XactEvent event, void *argument)
{
	bool		committed = event == XACT_EVENT_COMMIT || event == XACT_EVENT_PREPARE;

	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
	{
		leap_await_promises();
		if (leap_has_given && whereToSendOutput == DestRemote)
		{
			(void) pq_flush();	/* the answer leaves before the forced write: LEAP-9 */
			LEAP_STEP("give_promised");
		}
	}
	if (event == XACT_EVENT_PRE_COMMIT && leap_has_accepted())
		LEAP_STEP("own_before_commit");
	if (event == XACT_EVENT_COMMIT && leap_has_accepted())
		LEAP_STEP("own_after_commit");
	if (event == XACT_EVENT_COMMIT && leap_has_given)
		LEAP_STEP("give_after_commit");
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	inside_level = is_starting = 0;
	leap_has_given = false;
	leap_drop_busy_peers();
	leap_forget_promises();
	leap_own_at_end(committed);
	leap_end_timestamp(committed);
	leap_table_at_end();
}

static void
at_subend(SubXactEvent event, SubTransactionId id, SubTransactionId parent, void *argument)
{
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		leap_forget_inside(level);
		leap_drop_busy_peers();
	}
	if (event == SUBXACT_EVENT_ABORT_SUB || event == SUBXACT_EVENT_COMMIT_SUB)
		leap_own_at_subend(event == SUBXACT_EVENT_COMMIT_SUB, level);
}

/* --- Loading --- */

static void
assign_scans(int scans, void *extra)
{
	leap_scan_set(scans);
}

static void
define_settings(void)
{
	DefineCustomEnumVariable("leap.scans",
							 "What a scan of a leap table that names no keys does.",
							 "refuse: it is an error. local: it sees the rows that this node owns."
							 " all: it reads the rows of all nodes.",
							 &leap_scans, LEAP_SCANS_REFUSE, scans_options,
							 PGC_USERSET, 0, NULL, assign_scans, NULL);
	DefineCustomEnumVariable("leap.delegation",
							 "Whether leap.run() moves keys to the call, or the call to the keys.",
							 "auto: by how often keys were used here each time they came.",
							 &leap_delegation, LEAP_DELEGATION_AUTO, delegation_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("leap.timeout",
							"How long a session waits for a key, or for another node's answer.",
							NULL, &leap_timeout_ms, 5000, 10, 3600000,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("leap.minimum_hold",
							"How long a key that came stays at least.",
							NULL, &leap_minimum_hold_ms, 5, 0, 60000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("leap.settle_interval",
							"How often the worker tells homes of keys that came.",
							NULL, &leap_settle_interval_ms, 1000, 10, 3600000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomStringVariable("leap.database",
							   "The database that the settling worker works in.",
							   NULL, &leap_database, "postgres",
							   PGC_POSTMASTER, 0, NULL, NULL, NULL);
#ifdef LS_DEBUG_CHECKS
	DefineCustomIntVariable("leap_debug.planted", "An error for a checker to find.",
							NULL, &leap_planted, 0, 0, LEAP_PLANT_LOSE_CHILDREN,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("leap_debug.chaos",
							"How many of a hundred messages are late, doubled, or not answered.",
							NULL, &leap_chaos, 0, 0, 100,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
#endif
	MarkGUCPrefixReserved("leap");
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("leanstore_leap has to be named in shared_preload_libraries")));
	define_settings();
	leap_scan_install();
	leap_shared_install();
	leap_worker_install();
	leap_table_install();
	below_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	below_run = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	below_check = ExecutorCheckPerms_hook;
	ExecutorCheckPerms_hook = check_permissions;
	RegisterXactCallback(at_end, NULL);
	RegisterSubXactCallback(at_subend, NULL);
}
