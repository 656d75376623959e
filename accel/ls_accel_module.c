/*
 * ls_accel_module.c - loading: settings, leanstore_am found, hooks put beneath its own.
 *
 * shared_preload_libraries names both modules in any order.  Where leanstore_am comes first the
 * hooks are put into its chain, beneath its lowest; where it comes later it chains its own above
 * them.  Either way a statement passes leanstore_am, then this module, then what was loaded before.
 * When all libraries are loaded a leanstore_am that is missing, or of another version, ends the
 * start of the server.
 */
#include "ls_accel.h"

#include "ls_executor_cache.h"
#include "ls_plan.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/guc.h"

PG_MODULE_MAGIC_EXT(
					.name = "leanstore_accel",
					.version = "1.0"
);

void		_PG_init(void);

bool		ls_accel_plan_cache = true;
bool		ls_accel_executor_cache = true;
int			ls_accel_kept_memory_kb = 2048;

const LsModule *ls_accel_host = NULL;
bool		ls_accel_server_is_known = false;

static shmem_request_hook_type previous_shmem_request = NULL;
static ProcessUtility_hook_type previous_utility = NULL;

static void
define_settings(void)
{
	DefineCustomBoolVariable("leanstore_accel.plan_cache",
							 "Uses plans of look-ups by key in leanstore tables again for other"
							 " values.",
							 "Only where a plan reads a bounded number of rows by a unique index,"
							 " whatever the values.",
							 &ls_accel_plan_cache, true,
							 PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	DefineCustomBoolVariable("leanstore_accel.executor_cache",
							 "Uses what the executor builds for a prepared plan of leanstore tables"
							 " again when the plan is executed again.",
							 "Only simple plans, without triggers and check constraints.",
							 &ls_accel_executor_cache, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("leanstore_accel.kept_memory",
							"Memory of a session for plans and executor states that are kept to be"
							" used again.",
							"What was not used for longest is dropped; 0 keeps none.",
							&ls_accel_kept_memory_kb, 2048, 0, MAX_KILOBYTES,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);

	MarkGUCPrefixReserved("leanstore_accel");
}

/* NULL: not loaded, or not yet; one of another version is returned, too. */
static const LsModule *
find_host(void)
{
	return *find_rendezvous_variable(LS_MODULE_VARIABLE);
}

/* All libraries are loaded. */
static void
shmem_request(void)
{
	const LsModule *host = find_host();

	if (previous_shmem_request)
		previous_shmem_request();
	if (host == NULL)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("leanstore_accel needs leanstore_am"),
				 errhint("Add leanstore_am to \"shared_preload_libraries\", or take"
						 " leanstore_accel out of it.")));
	if (host->version != LS_MODULE_VERSION)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("leanstore_accel does not fit leanstore_am"),
				 errdetail("It was built for version %u of leanstore_am's module interface,"
						   " which has version %u.", LS_MODULE_VERSION, host->version),
				 errhint("Build and install both from the same source.")));
	ls_accel_host = host;
}

/*
 * A state that is used again is reset field by field of the server's own nodes, which a minor
 * version may change.
 */
static void
check_server(void)
{
	const int	running = atoi(GetConfigOption("server_version_num", false, false));

	ls_accel_server_is_known = running == PG_VERSION_NUM;
	if (!ls_accel_server_is_known)
		ereport(WARNING,
				(errmsg("leanstore_accel reuses no executor states on this server"),
				 errdetail("It was built for PostgreSQL %d, and this is %d (server_version_num).",
						   PG_VERSION_NUM, running),
				 errhint("Build it anew for this server.")));
}

static void
process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *env,
				DestReceiver *dest, QueryCompletion *qc)
{
	const DiscardStmt *discard = (const DiscardStmt *) pstmt->utilityStmt;

	if (previous_utility)
		previous_utility(pstmt, query, read_only_tree, context, params, env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query, read_only_tree, context, params, env, dest, qc);
	if (IsA(discard, DiscardStmt) &&
		(discard->target == DISCARD_PLANS || discard->target == DISCARD_ALL))
		ls_plan_discard();
}

void
_PG_init(void)
{
	const LsModule *host = find_host();

	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("leanstore_accel must be loaded by the server at start"),
				 errhint("Add leanstore_accel to \"shared_preload_libraries\" and restart the"
						 " server.")));

	define_settings();
	check_server();
	previous_shmem_request = shmem_request_hook;
	shmem_request_hook = shmem_request;
	if (host != NULL && host->version != LS_MODULE_VERSION)
		return;					/* shmem_request() tells */
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	ls_plan_install_hooks(host);
	ls_executor_state_install_hooks(host);
}
