/*
 * ls_module.h - what leanstore_am offers to a module that is loaded beside it.
 *
 * The rendezvous variable LS_MODULE_VARIABLE points to an LsModule as soon as leanstore_am is
 * loaded.  Modules of shared_preload_libraries are loaded in any order, so one that has not found
 * it looks again when all are loaded, in shmem_request_hook.  It reads `version` first, and
 * nothing else of a struct with another version.
 *
 * leanstore_am calls no function that it finds here, and knows of no other module: one that wants
 * to be beneath its hooks puts its own hook into the place of what the lowest of them calls.
 */
#ifndef LS_MODULE_H
#define LS_MODULE_H

#include "catalog/objectaccess.h"
#include "executor/executor.h"
#include "optimizer/plancat.h"
#include "optimizer/planner.h"
#include "utils/relcache.h"

#define LS_MODULE_VARIABLE "leanstore_am"
/* Grows with each change of the struct, or of what its members mean. */
#define LS_MODULE_VERSION 1

typedef struct LsModule
{
	uint32		version;

	/* Of the access methods of this extension? */
	bool		(*is_table) (Relation rel);
	bool		(*is_index) (Oid relid);

	/* What the lowest of the extension's hooks calls; NULL there: the server's own function. */
	planner_hook_type *below_planner;
	ExecutorStart_hook_type *below_executor_start;
	get_relation_info_hook_type *below_relation_info;

	/* The highest of its hooks. */
	get_relation_info_hook_type relation_info;
	object_access_hook_type object_access;
	bool		object_access_is_lowest;	/* there was no such hook before the extension's */
} LsModule;

#endif
