/*
 * ls_xact.c - a transaction of the server is one of the engine, too.
 *
 * PostgreSQL names transactions, the engine stores them.  The order of events at
 * commit (xact.c, CommitTransaction):
 *
 *	PRE_COMMIT callback		 the other log becomes durable as far as the transaction
 *							 may have seen it (ls_commit_order.c).
 *							 Only leanstore data written: room in the engine's log.
 *							 PostgreSQL WAL written too: harden all as prepared(xid) and
 *							 make PostgreSQL flush its commit record; after a crash
 *							 pg_xact decides.
 *	other libraries' PRE_COMMIT	 what they write may be the first WAL of the transaction: looked
 *							 at by a callback behind theirs, and hardened as above
 *	what PostgreSQL waits for	 NOTIFY's lock, a standby: no place in any order is held
 *	RecordTransactionCommit	 without WAL of the transaction's own the commit record is
 *							 written but not flushed
 *	ProcArrayEndTransaction	 effects become visible; a backend that takes a snapshot that sees
 *							 them waits for the COMMIT callback (ls_snapshot.c)
 *	COMMIT callback			 the engine's commit record takes its place in the total order,
 *							 behind all that this transaction has seen, before all that see
 *							 it; row waiters go on from here
 *	locks are released
 *	resource release		 wait until the record is durable (early lock release)
 *
 * Two-phase commit: ls_twophase.c.
 *
 * At abort ProcArrayEndTransaction comes before the ABORT callback that undoes
 * the changes in place; in between, the engine's list of active transactions
 * keeps the changes invisible (ls_snapshot.c) and XactLocks keep waiters waiting.
 */
#include "postgres.h"

#include "ls_txn_internal.h"
#include "pg/ls_pg.h"
#include "relation/ls_relation.h"

#include "access/parallel.h"
#include "access/twophase.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "replication/origin.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

/* ---- backend state */
static uint64 begun_tn = 0;		/* engine transaction of the current transaction */
static TransactionId writing_part = InvalidTransactionId;	/* as the engine knows it */
static bool mixed = false;		/* this transaction is committed through both logs */
static bool commit_begun = false;	/* it has been decided how it commits */
static bool is_called_last = false; /* behind other libraries' PRE_COMMIT, too */
static uint64 wait_gsn = 0;		/* commit to wait for when locks are released */

typedef struct Savepoint
{
	SubTransactionId subid;
	uint32		seq;
} Savepoint;

static Savepoint *savepoints = NULL;
static int	n_savepoints = 0;
static int	max_savepoints = 0;

ls_worker *
ls_writer(void)
{
	ls_worker  *w = ls_reader();
	TransactionId xid;
	TransactionId part;

	/* The leader may write (CREATE TABLE AS over a parallel plan); it has its XID then. */
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot modify leanstore tables in a parallel worker")));

	/* A callback of another library: what it writes now would not be hardened with the rest. */
	if (unlikely(commit_begun))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot modify leanstore tables in a callback at the end of a transaction"),
				 errhint("Put leanstore_am before the library with that callback in "
						 "\"shared_preload_libraries\".")));

	/* In a subtransaction this gives it an XID of its own, for others to wait on. */
	xid = GetCurrentTransactionId();
	if (unlikely(begun_tn == 0))
	{
		ls_error	error = {0};
		uint64		tn = U64FromFullTransactionId(GetTopFullTransactionId()) +
					ls_store_tn_offset(ls_shared->store);

		ls_check(ls_txn_begin(w, tn, &error), error, NULL);
		begun_tn = tn;
	}

	/*
	 * Rows carry the top-level transaction only.  A waiter should go on when the
	 * savepoint that made the change is rolled back, so the engine is told which one it is.
	 */
	part = GetCurrentTransactionNestLevel() > 1 ? xid : InvalidTransactionId;
	if (part != writing_part)
	{
		ls_txn_set_part(w, part);
		writing_part = part;
	}
	return w;
}

/* ---- transaction events --------------------------------------------------- */

static void
end_of_transaction(bool committed)
{
	ls_commit_order_at_eoxact(committed);
	ls_pin_at_eoxact();
	ls_mixed_at_eoxact();
	ls_serializable_at_eoxact();
	if (ls_count_remote_waits && ls_attached_worker != NULL)
		ls_worker_forget_dependencies(ls_attached_worker);
	begun_tn = 0;
	writing_part = InvalidTransactionId;
	ls_session_at_eoxact();
	mixed = false;
	commit_begun = false;
	n_savepoints = 0;
}

/* Changes, as prepared(full_xid), and everything before them; without changes, that only. */
static void
harden(uint64 full_xid)
{
	ls_error	error = {0};
	ls_status	status;

	pgstat_report_wait_start(ls_wait_event_commit);
	status = ls_txn_prepare_commit(ls_attached_worker, full_xid, &error);
	pgstat_report_wait_end();
	if (status != LS_OK)
		ls_raise(&error, NULL);
}

void
ls_harden_all(void)
{
	harden(0);
}

static bool
has_engine_log(void)
{
	return begun_tn != 0 && ls_txn_has_log(ls_attached_worker);
}

void
ls_wait_for_shown(void)
{
	ls_error	error = {0};
	ls_status	status;

	if (ls_attached_worker == NULL || likely(!ls_shown_unhardened(ls_attached_worker)))
		return;
	pgstat_report_wait_start(ls_wait_event_commit);
	LS_CALL(status, ls_wait_shown(ls_attached_worker, &error));
	pgstat_report_wait_end();
	ls_check(status, error, NULL);
}

bool
ls_commit_is_awaited(void)
{
	return synchronous_commit > SYNCHRONOUS_COMMIT_OFF && has_engine_log();
}

/*
 * Has the commit to be durable in both logs, all or nothing?  When PostgreSQL WAL
 * was written (catalogs, heap, native indexes, sequences) or may be by the callback
 * of another library, unseen.  And when the commit record has a replication origin's
 * position: with the changes lost, what was sent is never sent again; with the
 * position lost, it is applied twice.
 */
static bool
needs_both_logs(void)
{
	return XactLastRecEnd != 0 || !is_called_last ||
		   (replorigin_session_origin != InvalidRepOriginId &&
			replorigin_session_origin != DoNotReplicateId);
}

/*
 * The commit record has to be flushed even with synchronous_commit = off: a transaction that sees
 * the effects next may commit through the engine's log alone, and be acknowledged.
 */
static void
prepare_for_both_logs(void)
{
	mixed = true;
	ForceSyncCommit();
	harden(begun_tn - ls_store_tn_offset(ls_shared->store));
}

/*
 * leanstore.log = wal: the changes get into WAL before the commit record.  The server flushes both
 * at once if it finds that the transaction has written WAL; it may have been another session that
 * has inserted the round.
 */
static void
write_to_wal(void)
{
	ls_error	error = {0};
	uint64		end;
	ls_status	status;

	LS_CALL(status, ls_txn_write_out(ls_attached_worker,
									 begun_tn - ls_store_tn_offset(ls_shared->store), &end,
									 &error));
	ls_check(status, error, NULL);
	if (XactLastRecEnd == InvalidXLogRecPtr)
		XactLastRecEnd = end;
}

/* The server flushes it with the commit record, which is behind it. */
void
ls_write_out_logged(void)
{
	ls_error	error = {0};
	uint64		end;
	ls_status	status;

	LS_CALL(status, ls_txn_write_out(ls_attached_worker, 0, &end, &error));
	ls_check(status, error, NULL);
}

void
ls_write_out_all(void)
{
	ls_error	error = {0};
	ls_status	status;

	LS_CALL(status, ls_log_write_out(ls_reader(), &error));
	ls_check(status, error, NULL);
}

static void
pre_commit(void)
{
	ls_relation_insert_staged();
	ls_mixed_before_commit(begun_tn != 0);
	ls_commit_order_before_commit(has_engine_log(), ls_engine_was_read);
	if (!ls_commit_is_awaited())
		ls_wait_for_shown();
	commit_begun = true;
	if (!has_engine_log())
		return;
	if (ls_log_is_wal())
	{
		write_to_wal();
		return;
	}

	if (needs_both_logs())
		prepare_for_both_logs();
	else
	{
		ls_error	error = {0};
		ls_status	status;

		LS_CALL(status, ls_txn_reserve_commit(ls_attached_worker, &error));
		ls_check(status, error, NULL);
	}
}

/*
 * Behind all callbacks: another library has written the transaction's first WAL.  What it has made
 * durable elsewhere may depend on this commit, so nothing is waited for that could be interrupted.
 */
static void
last_callback(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT && has_engine_log() && !ls_log_is_wal() && !mixed &&
		needs_both_logs())
		prepare_for_both_logs();
}

static void
commit(void)
{
	/*
	 * A mixed transaction is durable already, and with it all that its commit record holds; in WAL
	 * one is as durable as its own setting says.
	 */
	bool		in_own_log = !mixed && !ls_log_is_wal();
	bool		will_wait = synchronous_commit > SYNCHRONOUS_COMMIT_OFF && in_own_log;
	static char note[LS_COMMIT_NOTE_BYTES];
	size_t		note_bytes = in_own_log && has_engine_log() ? ls_commit_note_fill(note) : 0;
	uint64		gsn = ls_txn_commit(ls_attached_worker, note, note_bytes, will_wait);

	wait_gsn = will_wait ? gsn : 0;
	if (ls_log_is_wal())
		ls_host_log_flushed(ls_attached_worker);
	ls_pages_note(NULL);
}

/* What the server itself is about to refuse gets its own message. */
static bool
may_prepare(void)
{
	return max_prepared_xacts > 0 && (MyXactFlags & XACT_FLAGS_ACCESSEDTEMPNAMESPACE) == 0;
}

static void
pre_prepare(void)
{
	ls_ending_file *files = NULL;
	size_t		n_files = 0;

	if (begun_tn == 0 || !may_prepare())
		return;
	if (ls_relation_has_pending())
		files = ls_relation_ending(&n_files);
	pgstat_report_wait_start(ls_wait_event_commit);
	PG_TRY();
	{
		ls_twophase_prepare(ls_attached_worker, begun_tn, files, n_files);
	}
	PG_FINALLY();
	{
		pgstat_report_wait_end();
	}
	PG_END_TRY();
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			pre_commit();
			break;

		case XACT_EVENT_COMMIT:
			if (begun_tn != 0)
				commit();
			ls_relation_at_eoxact(true);
			end_of_transaction(true);
			break;

		case XACT_EVENT_ABORT:
			ls_relation_forget_staged();
			if (begun_tn != 0)
			{
				*ls_interrupt = NULL;	/* the error may have left it set */
				ls_txn_abort(ls_attached_worker);
				ls_pages_note(NULL);
			}
			ls_relation_at_eoxact(false);
			end_of_transaction(false);
			ls_shown_at_abort();
			break;

		case XACT_EVENT_PRE_PREPARE:
			ls_relation_insert_staged();
			/* What a transaction without rows has made or dropped is the engine's to know, too. */
			if (ls_relation_has_pending() && may_prepare())
				(void) ls_writer();
			ls_serializable_before_prepare();
			ls_mixed_before_commit(begun_tn != 0);
			ls_commit_order_before_commit(has_engine_log(), ls_engine_was_read);
			commit_begun = true;
			pre_prepare();
			break;

		case XACT_EVENT_PREPARE:
			if (begun_tn != 0)
				ls_txn_hand_over(ls_attached_worker);
			ls_relation_at_prepare();
			end_of_transaction(false);
			break;

		case XACT_EVENT_PARALLEL_ABORT:
			ls_serializable_at_worker_abort();
			break;

		default:
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	switch (event)
	{
		case SUBXACT_EVENT_START_SUB:
			ls_relation_insert_staged();
			ls_serializable_start_sub();
			if (n_savepoints == max_savepoints)
			{
				int			grown = Max(16, max_savepoints * 2);

				savepoints = savepoints == NULL
					? MemoryContextAlloc(TopMemoryContext, grown * sizeof(Savepoint))
					: repalloc(savepoints, grown * sizeof(Savepoint));
				max_savepoints = grown;
			}
			/* Without an engine transaction yet, everything to come belongs to the savepoint. */
			savepoints[n_savepoints++] = (Savepoint)
			{
				subid, begun_tn != 0 ? ls_txn_savepoint(ls_attached_worker) : 0
			};
			break;

		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			ls_relation_insert_staged();
			break;

		case SUBXACT_EVENT_COMMIT_SUB:
			while (n_savepoints > 0 && savepoints[n_savepoints - 1].subid >= subid)
				n_savepoints--;
			ls_relation_at_eosubxact(true, subid, parent);
			break;

		case SUBXACT_EVENT_ABORT_SUB:
			{
				uint32		seq = 0;
				bool		known = false;

				ls_relation_forget_staged();
				while (n_savepoints > 0 && savepoints[n_savepoints - 1].subid >= subid)
				{
					seq = savepoints[--n_savepoints].seq;
					known = true;
				}
				if (known && begun_tn != 0)
				{
					*ls_interrupt = NULL;
					ls_txn_rollback_to(ls_attached_worker, seq);
				}
				ls_relation_at_eosubxact(false, subid, parent);
				ls_shown_at_abort();
				break;
			}

		default:
			break;
	}
}

/*
 * What the server's setting means for heap, too: a commit group is worth waiting for only if
 * other transactions are active.
 */
static uint32
commit_delay(void)
{
	return CommitDelay > 0 && enableFsync && MinimumActiveBackends(CommitSiblings) ? CommitDelay
																				   : 0;
}

/* Locks are gone: now wait for durability, the last thing before the client hears of the commit. */
static void
release_callback(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *arg)
{
	if (phase == RESOURCE_RELEASE_AFTER_LOCKS && is_top_level && is_commit && wait_gsn != 0)
	{
		uint64		gsn = wait_gsn;

		wait_gsn = 0;
		pgstat_report_wait_start(ls_wait_event_commit);
		ls_wait_hardened(ls_attached_worker, gsn, commit_delay());
		pgstat_report_wait_end();
	}
}

/*
 * Callbacks that were registered before come between the two: at PRE_COMMIT they may write WAL, or
 * make something of the transaction durable elsewhere.
 */
void
ls_xact_install_callbacks(void)
{
	is_called_last = ls_pg_register_xact_callbacks(xact_callback, last_callback);
	if (!is_called_last)
		ereport(LOG,
				(errmsg("transactions that write leanstore tables will wait for the "
						"server's log, too"),
				 errdetail("A library that was loaded before leanstore_am may write to it when "
						   "they commit, and the server's list of callbacks looks unfamiliar.")));
	RegisterSubXactCallback(subxact_callback, NULL);
	RegisterResourceReleaseCallback(release_callback, NULL);
	ls_relation_settle = ls_twophase_settle_all;
}
