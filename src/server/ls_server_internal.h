/*
 * ls_server_internal.h - what the files of server/ share.
 */
#ifndef LS_SERVER_INTERNAL_H
#define LS_SERVER_INTERNAL_H

#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"

/* ---- ls_hooks.c */
extern void ls_install_hooks(void);

/* There was no object access hook before ours. */
extern bool ls_object_access_is_lowest;

/* ---- ls_shmem.c: the arena in shared memory; hooks, and what each calls */
extern void ls_shmem_request(void);
extern shmem_request_hook_type ls_shmem_below_request;
extern void ls_shmem_startup(void);
extern shmem_startup_hook_type ls_shmem_below_startup;

/* ---- ls_rmgr.c: our WAL resource manager */
extern void ls_rmgr_register(void);

/* ---- ls_worker.c: the engine worker process */
extern void ls_worker_register(void);
PGDLLEXPORT extern void ls_engine_worker_main(Datum arg);

/* In it: the server is being stopped, or has lost its postmaster. */
extern bool ls_engine_worker_leaves(void);

/* ---- ls_recovery.c: recovery in the engine worker; false: the server's log says why */
extern bool ls_recover(void);

#endif							/* LS_SERVER_INTERNAL_H */
