/*
 * ls_server_internal.h - what the files of server/ share.
 */
#ifndef LS_SERVER_INTERNAL_H
#define LS_SERVER_INTERNAL_H

#include "postgres.h"

#include "leanstore/engine.h"

#include "access/xlogdefs.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
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

extern void ls_fill_config(ls_config *config);

/* ---- ls_standby.c: restart points on a standby, made by a worker */
extern void ls_standby_register(void);
PGDLLEXPORT extern void ls_standby_worker_main(Datum arg);

/* In the startup process: a state was replayed, with the record's end; replay has ended. */
extern void ls_standby_leave_state(XLogRecPtr end, const void *bytes, Size count);
extern void ls_standby_end(void);

/* ---- ls_rmgr.c: our WAL resource manager */
extern void ls_rmgr_register(void);

/* ---- ls_decode.c: rm_decode */
struct LogicalDecodingContext;
struct XLogRecordBuffer;
extern void ls_decode(struct LogicalDecodingContext *ctx, struct XLogRecordBuffer *buf);

/* ---- ls_worker.c: the engine worker process */
extern void ls_worker_register(void);

/* A process of this kind, with access to shared memory, that is started again when it fails. */
extern void ls_process_register(const char *name, const char *function, int flags,
								BgWorkerStartTime start);
PGDLLEXPORT extern void ls_engine_worker_main(Datum arg);

/* In it: the server is being stopped, or has lost its postmaster. */
extern bool ls_engine_worker_leaves(void);

/* ---- ls_recovery.c: recovery in the engine worker; false: the server's log says why */
extern bool ls_recover(void);

#endif							/* LS_SERVER_INTERNAL_H */
