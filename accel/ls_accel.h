/*
 * ls_accel.h - leanstore_accel: plans and executor states are used again.
 *
 * A second module beside leanstore_am, of which it knows ls_module.h alone.  README.md tells what
 * it does and why it is not part of the storage engine.
 */
#ifndef LS_ACCEL_H
#define LS_ACCEL_H

#include "postgres.h"

#include "server/ls_module.h"

/* ---- settings, leanstore_accel.* */
extern bool ls_accel_plan_cache;
extern bool ls_accel_executor_cache;
extern int	ls_accel_kept_memory_kb;

/* ---- ls_accel_module.c */

/* leanstore_am; NULL only while the libraries of shared_preload_libraries are loaded. */
extern const LsModule *ls_accel_host;

/* Is the running server the one that this module was built for, to the minor version? */
extern bool ls_accel_server_is_known;

/* ---- ls_accel_memory.c */
extern bool ls_accel_keeps_memory(void);
extern void ls_accel_bound_memory(void);

#endif							/* LS_ACCEL_H */
