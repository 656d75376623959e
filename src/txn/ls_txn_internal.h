/*
 * ls_txn_internal.h - what the files of txn/ share.
 */
#ifndef LS_TXN_INTERNAL_H
#define LS_TXN_INTERNAL_H

#include "ls_txn.h"

#include "access/xlogdefs.h"

/* ---- ls_xact.c */

/* Waits until no change that this backend was shown can be taken back by a crash. */
extern void ls_wait_for_shown(void);

/*
 * As things are, the transaction's commit waits for the engine's log, and so for all that it has
 * been shown.
 */
extern bool ls_commit_is_awaited(void);

/* ---- ls_shown.c */
extern void ls_shown_at_abort(void);

/* ---- ls_snapshot.c */

/* How many transactions a snapshot does not see, though they have begun: at most so many. */
extern uint32 ls_max_running(void);

/* ---- ls_pin.c */

/* A pin as the engine worker reads it. */
typedef struct LsPin
{
	ls_plain_snapshot snapshot;
	uint64	   *running;		/* room for ls_max_running() */
} LsPin;

/* How many processes may have a pin. */
extern uint32 ls_pin_slots(void);

/* False: that process has none. */
extern bool ls_pin_read(uint32 proc, LsPin *pin);

/* A snapshot is about to be used: raises an error if versions that it sees may have gone. */
extern void ls_pin_check(Snapshot snapshot);
extern void ls_pin_at_eoxact(void);

/* ---- ls_twophase.c: harden the open transaction as prepared; before PostgreSQL does */
extern void ls_twophase_prepare(ls_worker *worker, uint64 tn, const ls_ending_file *files,
								size_t n_files);

/*
 * ---- ls_commit_note.c
 *
 * At XACT_EVENT_COMMIT: what the commit record has that ls_commits_replay() could not
 * know, into LS_COMMIT_NOTE_BYTES; how many were used.
 */
extern size_t ls_commit_note_fill(char *note);

/*
 * ---- ls_commit_order.c: the order of commits across PostgreSQL's WAL and the engine's log.
 *
 * In one log a commit is durable only with everything before it.  With two, a commit
 * in one log could outlive what it has seen in the other.  So before a commit
 * takes its place in its log, the other one is made durable as far as the
 * transaction may have seen it:
 *
 *	O1	engine's log only: WAL up to the newest record that others have made visible
 *		without flushing it - a sequence's values (ls_sequence.c), commits with
 *		synchronous_commit = off
 *	O2	WAL only, and leanstore tables were read: the engine's log up to now
 *	O3	both: prepared in the engine's log, then a flushed commit record; each takes
 *		along what is before it (ls_xact.c)
 *
 * leanstore.log = wal: one log, but records of the engine's get there when a session writes them
 * out.
 *
 *	O4	what this session has logged is in WAL before its commit record: with rows that it has
 *		changed (ls_xact.c), or without any, as pages of an index that it has built
 */

/* PRE_COMMIT, every transaction.  May raise errors and wait. */
extern void ls_commit_order_before_commit(bool engine_log, bool engine_read);

/* COMMIT, ABORT, PREPARE. */
extern void ls_commit_order_at_eoxact(bool committed);

/* ---- ls_snapshot.c: the order of two TNs, for qsort() and bsearch() */
extern int	ls_compare_tn(const void *a, const void *b);

/* ---- ls_snapshot_standby.c: is that snapshot as new as the first one?  Else it is of no use. */
extern bool ls_first_snapshot_is_older(uint64 xmin, uint64 xmax, const TransactionId *running,
									   uint32 n);

/*
 * ---- ls_sequence.c
 *
 * The newest WAL of the sequences that this transaction has asked; log_ahead: it waits for both
 * logs anyway, so log those ahead that have a last record not flushed yet.
 */
extern XLogRecPtr ls_sequences_lsn(bool log_ahead);

/* ---- ls_serializable.c: events of transactions */
extern void ls_serializable_start_sub(void);
extern void ls_serializable_before_prepare(void);

/* After the effects have become visible, or were undone. */
extern void ls_serializable_at_eoxact(void);
extern void ls_serializable_at_worker_abort(void);

/* ---- ls_serializable_mixed.c */

/* The transaction is about to commit.  wrote: something in leanstore tables. */
extern void ls_mixed_before_commit(bool wrote);
extern void ls_mixed_at_eoxact(void);

#endif							/* LS_TXN_INTERNAL_H */
