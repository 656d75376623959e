/*
 * ls_pg.h - what is taken from PostgreSQL behind its interfaces.
 *
 * Each function is one reach into something that belongs to a file of the server: a private struct,
 * the layout of a page, the order of a list.  ls_pg_18.c does it for major version 18, and says
 * what it relies on.
 */
#ifndef LS_PG_H
#define LS_PG_H

#include "postgres.h"

#include "access/xact.h"
#include "access/xlogdefs.h"
#include "commands/sequence.h"
#include "nodes/pg_list.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "storage/procnumber.h"
#include "utils/rel.h"

/* ---- WAL */

/* Behind the last record of the server's log; can be flushed. */
extern XLogRecPtr ls_pg_wal_end(void);

/* ---- transaction ids, in the startup process */

/* nextXid has been given to a transaction: go on to the one behind it. */
extern void ls_pg_pass_next_xid(void);

/* In the startup process: pg_xact was cut, and has this id no more. */
extern bool ls_pg_is_cut_from_pg_xact(TransactionId xid);

/* ---- processes by their numbers, without prepared transactions */

/* All numbers are below it. */
extern uint32 ls_pg_process_count(void);

/* Looks without a lock.  0: no process has the number. */
extern int	ls_pg_process_pid(ProcNumber proc);

/* Of its transaction; with the number a virtual transaction id.  Looks without a lock. */
extern LocalTransactionId ls_pg_process_lxid(ProcNumber proc);

/*
 * The process array, as a snapshot is taken of it: until it is unlocked no transaction with an id
 * ends.  The id of the one that has ended last.
 */
extern TransactionId ls_pg_lock_processes(void);
extern void ls_pg_unlock_processes(void);

/* The id of the process' transaction, and the xmin of its snapshots; invalid: it has none. */
extern TransactionId ls_pg_process_xid(ProcNumber proc);
extern TransactionId ls_pg_process_xmin(ProcNumber proc);	/* that of VACUUM holds nothing back */

/* ---- the relation cache */

/*
 * When the entry of an index is invalidated, only its row in pg_class is read again.  After this
 * the next invalidation makes all of it anew.  Nothing may have been kept for it (rd_amcache).
 */
extern void ls_pg_rebuild_index_entry(Relation index);

/* ---- callbacks of transactions */

/*
 * Of the callbacks that there are by now `first` comes before all others, and `last` behind them.
 * False: the end of the list was not found, and `last` is not called.
 */
extern bool ls_pg_register_xact_callbacks(XactCallback first, XactCallback last);

/* ---- the lock manager */

/*
 * Of the relations of this database that satisfy `wanted`, those that this backend may have locked.
 * A list of OIDs.
 */
extern List *ls_pg_maybe_locked(bool (*wanted) (Oid relid));

/* ---- sequences */

/*
 * Log the state of a sequence after `ahead` more values, as nextval() does when it logs ahead.  The
 * sequence's page is locked exclusively; `now` is its only row.
 */
extern void ls_pg_log_sequence(Relation rel, Buffer buffer, HeapTuple now,
							   int64 ahead, int64 increment);

/* ---- read/write dependencies of SERIALIZABLE transactions, as the server tracks them */
typedef enum LsPgConflicts
{
	LS_PG_CONFLICTS_OUT,		/* with those that have overwritten what it read */
	LS_PG_CONFLICTS_IN			/* with those that have read what it overwrites */
} LsPgConflicts;

/* The other one of a dependency. */
typedef struct LsPgConflict
{
	ProcNumber	proc;			/* INVALID_PROC_NUMBER: it has no backend */
	bool		prepared;
	bool		committed;
	TransactionId xid;
} LsPgConflict;

/* Looks without a lock. */
extern bool ls_pg_has_conflicts(SerializableXactHandle xact, LsPgConflicts which);

/*
 * The first that satisfies `wanted`, which must not raise an error.  Those out that the server has
 * summarized are one that has committed.
 */
extern bool ls_pg_find_conflict(SerializableXactHandle xact, LsPgConflicts which,
								bool (*wanted) (const LsPgConflict *conflict), LsPgConflict *found);

#endif							/* LS_PG_H */
