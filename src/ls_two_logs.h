/*
 * ls_two_logs.h - the order of commits across PostgreSQL's WAL and the engine's log.
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
 */
#ifndef LS_TWO_LOGS_H
#define LS_TWO_LOGS_H

#include "ls.h"

#include "access/xlogdefs.h"

/* PRE_COMMIT, every transaction.  May raise errors and wait. */
extern void ls_two_logs_before_commit(bool engine_log, bool engine_read);

/* Behind the last record of the server's log; can be flushed. */
extern XLogRecPtr ls_wal_end(void);

/* COMMIT, ABORT, PREPARE. */
extern void ls_two_logs_at_eoxact(bool committed);

/*
 * ls_sequence.c: the newest WAL of the sequences that this transaction has asked; log_ahead: it waits for both logs anyway, so log
 * those ahead whose last record has not been flushed yet.
 */
extern XLogRecPtr ls_sequences_lsn(bool log_ahead);

#endif
