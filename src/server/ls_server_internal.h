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
extern void ls_standby_leave_state(XLogRecPtr redo, XLogRecPtr end, const void *bytes,
								   Size count);
extern void ls_standby_end(void);

/* In the engine worker: the standby worker has to end, it makes restart points itself. */
extern void ls_standby_end_worker(void);

/* A state that was replayed; the head of its file, in which the bytes follow. */
typedef struct LsStandbyState
{
	uint64		position;		/* in the engine's log */
	XLogRecPtr	end;			/* of its record */
	uint64		bytes;
	bool		consistent;		/* the copy was: before, it has pages that are ahead of the log */
} LsStandbyState;

/*
 * In the startup process: a shutdown checkpoint was replayed, with which its next start may begin;
 * where is the log?  And in the engine worker: 0, or that place, if nothing was replayed since.
 */
extern void ls_standby_note_position(XLogRecPtr redo);
extern uint64 ls_standby_noted_position(void);

/*
 * The one that was left: its bytes, in this memory context; NULL: there is none.  follows: also one
 * from before the copy was consistent, for all that was replayed is redone.
 */
extern void *ls_standby_take_state(LsStandbyState *head, bool follows);
extern void ls_standby_report(const LsStandbyState *head, ls_status status, const ls_error *error,
							  uint64 log_bytes, double seconds);

/* The end of the state that was left for the checkpoint with that redo point; invalid: none was. */
extern XLogRecPtr ls_standby_left_state(XLogRecPtr redo);

/*
 * ---- ls_standby_backup.c, in the startup process: replay begins; a copy has its state; a
 * checkpoint is about to be replayed.  In the engine worker: it follows.
 */
extern void ls_standby_backup_begin(void);
extern void ls_standby_backup_restored(XLogRecPtr redo);
extern void ls_standby_backup_checkpoint(XLogRecPtr redo, bool is_shutdown, XLogRecPtr state_end);
extern void ls_standby_backup_follows(bool (*write_pages) (void));

/* ---- ls_follow.c: the engine worker of a standby with tables that can be read */

/*
 * Until the server's recovery has ended.  False: the server is being stopped, or what is wrong is
 * in its log; the engine must not recover.
 */
extern bool ls_follow_until_promoted(void);

/* While the store follows, again and again: the startup process may wait for it. */
extern void ls_follow_tend(void);

/* ---- ls_follow_redo.c: the startup process there */
extern ls_status ls_follow_redo(const void *round, Size bytes, ls_error *error);

/* Files that go are forgotten before: redo functions of the server get one of ours before them. */
extern void ls_follow_hook_redo(void);

/* ---- ls_rmgr.c: our WAL resource manager */
extern void ls_rmgr_register(void);
pg_noreturn extern void ls_raise_replay(const ls_error *error, XLogRecPtr lsn);

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

/* In such a process: interrupts are served, changed settings read.  Were there any? */
extern bool ls_process_look_at_signals(void);

/* In it: the server restarts if the engine has failed. */
extern void ls_engine_worker_panic_if_failed(void);

/* In it: the server is being stopped, or has lost its postmaster. */
extern bool ls_engine_worker_leaves(void);

/* ---- ls_recovery.c: recovery in the engine worker; false: the server's log says why */
extern bool ls_recover(void);

/* Sessions that want to use leanstore tables get that error from now on. */
extern void ls_report_recovery_failure(const ls_error *error);

#endif							/* LS_SERVER_INTERNAL_H */
