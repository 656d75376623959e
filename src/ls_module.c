/*
 * ls_module.c - loading: chains every hook of the extension, in one place.
 *
 * Everything shared is reserved when the postmaster loads the library from
 * shared_preload_libraries; any other way of loading it is refused.
 */
#include "ls.h"
#include "ls_pin.h"
#include "ls_serializable.h"
#include "ls_upgrade.h"
#include "executor/ls_state.h"
#include "index/ls_index.h"
#include "plan/ls_plan.h"

#include "fmgr.h"
#include "miscadmin.h"

PG_MODULE_MAGIC_EXT(
					.name = "leanstore_am",
					.version = "1.0"
);

void		_PG_init(void);

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("leanstore_am must be loaded by the server at start"),
				 errhint("Add leanstore_am to \"shared_preload_libraries\" and restart the server.")));

	ls_define_settings();
	ls_index_define_options();
	ls_shmem_install_hooks();
	ls_rmgr_register();
	ls_worker_register();
	ls_xact_install_callbacks();
	ls_state_install_hooks();
	ls_pin_install_hooks();
	ls_shown_install_hooks();
	ls_serializable_install_hooks();
	ls_relation_install_hooks();
	ls_utility_install_hooks();
	ls_upgrade_install_hook();
	ls_page_tools_install_hooks();
	ls_index_install_planner_hook();
	ls_plan_install_hook();
	ls_state_note_own_hooks();
}
