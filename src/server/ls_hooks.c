/*
 * ls_hooks.c - every hook of the extension is installed here, in this order.
 *
 * A hook is put on top of what is there: it is called first, and calls the one below it.  So of
 * two functions in one place the one further down in this file is around the other.  A library
 * that is loaded later comes around both; leanstore_accel puts its own beneath (ls_module.h).
 */
#include "postgres.h"

#include "ls_server_internal.h"
#include "session/ls_session.h"
#include "relation/ls_relation.h"
#include "txn/ls_txn.h"
#include "planner/ls_planner.h"
#include "ddl/ls_ddl.h"
#include "inspect/ls_inspect.h"

#define PUT_ON_TOP(hook, function, below) \
	do { (below) = (hook); (hook) = (function); } while (0)

bool		ls_object_access_is_lowest = false;

void
ls_install_hooks(void)
{
	/* The server starts. */
	PUT_ON_TOP(shmem_request_hook, ls_shmem_request, ls_shmem_below_request);
	PUT_ON_TOP(shmem_startup_hook, ls_shmem_startup, ls_shmem_below_startup);

	/* A query is planned. */
	PUT_ON_TOP(get_relation_info_hook, ls_planner_relation_info, ls_planner_below_info);
	PUT_ON_TOP(planner_hook, ls_index_show_plan, ls_index_show_below_plan);

	/* It starts. */
	PUT_ON_TOP(ExecutorStart_hook, ls_serializable_executor_start, ls_serializable_below_start);
	if (IsBinaryUpgrade)
		PUT_ON_TOP(ExecutorStart_hook, ls_upgrade_notes_start, ls_upgrade_notes_below_start);

	/*
	 * It runs.  When it has ended its snapshot is pinned if it can be, and then what it has shown
	 * is waited for: for the disk, and this holds back no more versions than it has to.
	 */
	PUT_ON_TOP(ExecutorRun_hook, ls_pin_executor_run, ls_pin_below_run);
	PUT_ON_TOP(ExecutorRun_hook, ls_shown_executor_run, ls_shown_below_run);
	PUT_ON_TOP(ExecutorRun_hook, ls_serializable_executor_run, ls_serializable_below_run);
	PUT_ON_TOP(ExecutorFinish_hook, ls_pin_executor_finish, ls_pin_below_finish);

	/*
	 * A utility statement runs, and tells of objects.  That a file has gone or is kept is noted
	 * before what the statement means for indexes is looked at, which may be an error.
	 */
	ls_object_access_is_lowest = object_access_hook == NULL;
	PUT_ON_TOP(object_access_hook, ls_relation_object_access, ls_relation_below_access);
	PUT_ON_TOP(object_access_hook, ls_utility_object_access, ls_utility_below_access);
	PUT_ON_TOP(ProcessUtility_hook, ls_utility_process, ls_utility_below_process);

	/* A function is called. */
	PUT_ON_TOP(needs_fmgr_hook, ls_page_tools_needs_fmgr, ls_page_tools_below_needs);
	PUT_ON_TOP(fmgr_hook, ls_page_tools_fmgr, ls_page_tools_below_fmgr);

	/* A transaction ends: these are lists of the server; ls_xact.c looks at their order. */
	ls_xact_install_callbacks();
}
