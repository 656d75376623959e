/*
 * ls_module.c - loading: settings, hooks, the engine worker, and what other modules are told.
 *
 * Everything shared is reserved when the postmaster loads the library from
 * shared_preload_libraries; any other way of loading it is refused.
 */
#include "postgres.h"

#include "ls_module.h"
#include "ls_server_internal.h"
#include "session/ls_session.h"
#include "relation/ls_relation.h"
#include "txn/ls_txn.h"
#include "row/ls_row.h"
#include "index/ls_index.h"
#include "planner/ls_planner.h"
#include "table/ls_table.h"

#include "fmgr.h"
#include "miscadmin.h"

PG_MODULE_MAGIC_EXT(
					.name = "leanstore_am",
					.version = LS_VERSION
);

void		_PG_init(void);

static LsModule module = {
	.version = LS_MODULE_VERSION,
	.is_table = ls_is_table,
	.is_index = ls_index_is_ours,
	.below_planner = &ls_index_show_below_plan,
	.below_executor_start = &ls_serializable_below_start,
	.below_relation_info = &ls_planner_below_info,
};

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("leanstore_am must be loaded by the server at start"),
				 errhint("Add leanstore_am to \"shared_preload_libraries\" and "
						 "restart the server.")));

	ls_define_settings();
	ls_set_value_head(ls_value_head);
	ls_relation_recognize(&ls_table_routine, ls_index_aminsert);
	ls_index_define_options();
	ls_rmgr_register();
	ls_worker_register();
	ls_standby_register();
	ls_install_hooks();
	module.object_access = object_access_hook;
	module.object_access_is_lowest = ls_object_access_is_lowest;
	module.relation_info = get_relation_info_hook;
	*find_rendezvous_variable(LS_MODULE_VARIABLE) = &module;
}
