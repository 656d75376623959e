/*
 * ls_xact.c - this backend as a worker of the engine, and its transactions.
 *
 * PostgreSQL names transactions, the engine stores them.  The order of events at
 * commit (xact.c, CommitTransaction):
 *
 *	PRE_COMMIT callback		 the other log becomes durable as far as the transaction
 *							 may have seen it (ls_two_logs.h).
 *							 Only leanstore data written: room in the engine's log.
 *							 PostgreSQL WAL written too, or about to be: harden all as
 *							 prepared(xid) and make PostgreSQL flush its commit record;
 *							 after a crash pg_xact decides.
 *	what PostgreSQL waits for	 NOTIFY's lock, a standby: no place in any order is held
 *	RecordTransactionCommit	 without WAL of the transaction's own the commit record is
 *							 written but not flushed
 *	ProcArrayEndTransaction	 effects become visible; who takes a snapshot that sees them
 *							 waits for the COMMIT callback (ls_snapshot.c)
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
#include "ls.h"
#include "ls_backup.h"
#include "ls_pin.h"
#include "ls_serializable.h"
#include "ls_table.h"
#include "ls_two_logs.h"

#include "access/parallel.h"
#include "access/twophase.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "replication/origin.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* ---- backend state */
static ls_worker *worker = NULL;
const volatile int **ls_interrupt = NULL;
static uint64 begun_tn = 0;		/* engine transaction of the current transaction */
static TransactionId writing_part = InvalidTransactionId;	/* as the engine knows it */
static bool engine_read = false;	/* the current transaction has looked at leanstore data */
static bool mixed = false;		/* this transaction is committed through both logs */
static bool commit_begun = false;	/* it has been decided how it commits */
static bool callbacks_behind = false;	/* other libraries may write WAL at PRE_COMMIT after us */
static uint64 wait_gsn = 0;		/* commit to wait for when locks are released */
static uint32 wait_event_commit = 0;
static uint32 wait_event_recovery = 0;
static uint32 engine_wait_events[LS_WAITS];

typedef struct Savepoint
{
	SubTransactionId subid;
	uint32		seq;
} Savepoint;

static Savepoint *savepoints = NULL;
static int	n_savepoints = 0;
static int	max_savepoints = 0;

/* ---- attaching ------------------------------------------------------------ */

static void
detach(int code, Datum arg)
{
	if (worker)
	{
		/* An exit in the middle of a transaction has gone through abort already. */
		ls_pages_attach(NULL);
		ls_worker_detach(worker);
		worker = NULL;
		ls_interrupt = NULL;
	}
}

/*
 * The server starts the engine worker within a second or two.  When there is none for much longer there will be none:
 * the worker needs one of max_worker_processes, and other libraries may have taken all.
 */
#define ENGINE_WORKER_ABSENT_MS 10000

static void
raise_if_worker_absent(TimestampTz *seen)
{
	TimestampTz now = GetCurrentTimestamp();

	if (pg_atomic_read_u32(&ls_shared->engine_pid) != 0)
		*seen = now;
	else if (TimestampDifferenceExceeds(*seen, now, ENGINE_WORKER_ABSENT_MS))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("leanstore tables cannot be used: the leanstore engine worker is not running"),
				 errhint("It needs a background worker: increase \"max_worker_processes\" (currently %d) and restart the server, "
						 "or see the server log for another reason.", max_worker_processes)));
}

static void
wait_for_recovery(void)
{
	TimestampTz seen = GetCurrentTimestamp();

	if (!wait_event_recovery)
		wait_event_recovery = WaitEventExtensionNew("LeanstoreRecovery");

	while (!ls_store_ready(ls_shared->store))
	{
		if (pg_atomic_read_u32(&ls_shared->recovery_failed))
		{
			pg_read_barrier();
			ereport(ERROR,
					(errcode(ls_shared->recovery_error.status == LS_CORRUPT ? ERRCODE_DATA_CORRUPTED : ERRCODE_IO_ERROR),
					 errmsg("leanstore tables cannot be used: recovery failed: %s", ls_error_text(&ls_shared->recovery_error)),
					 ls_shared->recovery_error.path[0] ? errdetail("File \"%s\".", ls_shared->recovery_error.path) : 0,
					 errhint("See the server log; remove the cause and restart the server.")));
		}
		pgstat_report_wait_start(wait_event_recovery);
		(void) ls_store_wait_ready(ls_shared->store, 100);
		pgstat_report_wait_end();
		CHECK_FOR_INTERRUPTS();
		if (!PostmasterIsAlive())
			ereport(FATAL,
					(errcode(ERRCODE_ADMIN_SHUTDOWN),
					 errmsg("terminating connection due to unexpected postmaster exit")));
		raise_if_worker_absent(&seen);
	}
}

/*
 * A wait in the engine has no end any more when the engine worker has died with the
 * postmaster.  At once: the callbacks of proc_exit() would wait in the engine, too.  While
 * the worker lives it waits for this session to detach.
 */
static void
leave_without_server(void)
{
	if (!PostmasterIsAlive() && ls_process_is_gone(pg_atomic_read_u32(&ls_shared->engine_pid)))
		_exit(1);
}

static void
count_dependencies(bool count)
{
	if (!ls_worker_count_dependencies(worker, count))
		ereport(WARNING,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("no memory to count remote waits: this session counts none")));
}

/* Apart from ls_reader(), which is called for every row. */
static pg_noinline void
attach(void)
{
	ls_error	error = {0};

	if (ls_shared == NULL || !IsUnderPostmaster)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("leanstore tables cannot be used in single-user mode"),
				 errhint("Start the server normally.")));
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("leanstore tables cannot be read on a standby server"),
				 errhint("The engine's log is not replicated; connect to the primary.")));

	ls_backup_refuse();
	wait_for_recovery();
	if (!wait_event_commit)
		wait_event_commit = WaitEventExtensionNew("LeanstoreCommit");
	engine_wait_events[LS_WAIT_LOG_SPACE] = WaitEventExtensionNew("LeanstoreLogSpace");
	engine_wait_events[LS_WAIT_PAGE_READ] = WaitEventExtensionNew("LeanstorePageRead");
	engine_wait_events[LS_WAIT_OPEN_RELATION] = WaitEventExtensionNew("LeanstoreOpenRelation");
	engine_wait_events[LS_WAIT_PAGE_FRAME] = WaitEventExtensionNew("LeanstorePageFrame");
	ls_descriptors_reserve();
	if (ls_worker_attach(ls_shared->store, MyProcNumber, &worker, &error) != LS_OK)
		ls_raise(&error, NULL);
	ls_watch_host(leave_without_server);
	ls_pages_attach(worker);
	ls_worker_report_waits(worker, my_wait_event_info, engine_wait_events);
	count_dependencies(ls_count_remote_waits);
	ls_interrupt = ls_worker_interrupt(worker);
	on_shmem_exit(detach, 0);
}

void
ls_assign_count_remote_waits(bool newval, void *extra)
{
	if (worker != NULL)
		count_dependencies(newval);
}

ls_worker *
ls_reader(void)
{
	if (unlikely(worker == NULL))
		attach();
	engine_read = true;
	return worker;
}

bool
ls_reader_attached(void)
{
	return worker != NULL;
}

uint64
ls_own_tn(void)
{
	FullTransactionId full = GetTopFullTransactionIdIfAny();

	if (!FullTransactionIdIsValid(full))
		return 0;
	return U64FromFullTransactionId(full) + ls_store_tn_offset(ls_shared->store);
}

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
				 errhint("Put leanstore_am before the library with that callback in \"shared_preload_libraries\".")));

	/* In a subtransaction this gives it an XID of its own, for others to wait on. */
	xid = GetCurrentTransactionId();
	if (unlikely(begun_tn == 0))
	{
		ls_error	error = {0};
		uint64		tn = U64FromFullTransactionId(GetTopFullTransactionId()) + ls_store_tn_offset(ls_shared->store);

		ls_check(ls_txn_begin(w, tn, &error), error, NULL);
		begun_tn = tn;
	}

	/*
	 * Rows carry the top-level transaction only.  A waiter should go on when the
	 * savepoint that made the change is rolled back, so the engine is told whose it is.
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
	ls_two_logs_at_eoxact(committed);
	ls_pin_at_eoxact();
	ls_mixed_at_eoxact();
	ls_serializable_at_eoxact();
	if (ls_count_remote_waits && worker != NULL)
		ls_worker_forget_dependencies(worker);
	begun_tn = 0;
	writing_part = InvalidTransactionId;
	engine_read = false;
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

	pgstat_report_wait_start(wait_event_commit);
	status = ls_txn_prepare_commit(worker, full_xid, &error);
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
	return begun_tn != 0 && ls_txn_has_log(worker);
}

void
ls_wait_for_shown(void)
{
	ls_error	error = {0};
	ls_status	status;

	if (worker == NULL || likely(!ls_shown_unhardened(worker)))
		return;
	pgstat_report_wait_start(wait_event_commit);
	LS_CALL(status, ls_wait_shown(worker, &error));
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
 * was written (catalogs, heap, native indexes, sequences) or will be by the callback
 * of another library.  And when the commit record has a replication origin's
 * position: with the changes lost, what was sent is never sent again; with the
 * position lost, it is applied twice.
 */
static bool
needs_both_logs(void)
{
	return XactLastRecEnd != 0 || callbacks_behind ||
		(replorigin_session_origin != InvalidRepOriginId && replorigin_session_origin != DoNotReplicateId);
}

static void
pre_commit(void)
{
	ls_mixed_before_commit(begun_tn != 0);
	ls_two_logs_before_commit(has_engine_log(), engine_read);
	if (!ls_commit_is_awaited())
		ls_wait_for_shown();
	commit_begun = true;
	if (!has_engine_log())
		return;

	mixed = needs_both_logs();
	if (mixed)
	{
		/*
		 * The commit record has to be flushed even with synchronous_commit = off:
		 * whoever sees the effects next may commit through the engine's log
		 * alone, and be acknowledged.
		 */
		ForceSyncCommit();
		harden(begun_tn - ls_store_tn_offset(ls_shared->store));
	}
	else
	{
		ls_error	error = {0};
		ls_status	status;

		LS_CALL(status, ls_txn_reserve_commit(worker, &error));
		ls_check(status, error, NULL);
	}
}

static void
commit(void)
{
	/* A mixed transaction is durable already, and with it all that its commit record holds. */
	bool		will_wait = synchronous_commit > SYNCHRONOUS_COMMIT_OFF && !mixed;
	static char note[LS_COMMIT_NOTE_BYTES];
	size_t		note_bytes = mixed || !has_engine_log() ? 0 : ls_commit_note_fill(note);
	uint64		gsn = ls_txn_commit(worker, note, note_bytes, will_wait);

	wait_gsn = will_wait ? gsn : 0;
	ls_pages_note(NULL);
}

static void
pre_prepare(void)
{
	/* What the server itself is about to refuse gets its own message. */
	if (max_prepared_xacts == 0 || (MyXactFlags & XACT_FLAGS_ACCESSEDTEMPNAMESPACE) != 0)
		return;

	/*
	 * COMMIT PREPARED unlinks files without a callback before, so nobody could
	 * tell the engine to let go of them in time.
	 */
	if (ls_relation_has_pending())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that has created, rewritten, truncated or dropped leanstore tables or indexes"),
				 errhint("Use COMMIT for it; changes of rows can be prepared.")));
	if (begun_tn == 0)
		return;
	pgstat_report_wait_start(wait_event_commit);
	PG_TRY();
	{
		ls_twophase_prepare(worker, begun_tn);
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
			if (begun_tn != 0)
			{
				*ls_interrupt = NULL;	/* the error may have left it set */
				ls_txn_abort(worker);
				ls_pages_note(NULL);
			}
			ls_relation_at_eoxact(false);
			end_of_transaction(false);
			ls_shown_at_abort();
			break;

		case XACT_EVENT_PRE_PREPARE:
			ls_serializable_before_prepare();
			ls_mixed_before_commit(begun_tn != 0);
			ls_two_logs_before_commit(has_engine_log(), engine_read);
			commit_begun = true;
			pre_prepare();
			break;

		case XACT_EVENT_PREPARE:
			if (begun_tn != 0)
			{
				ls_txn_hand_over(worker);
			}
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
			savepoints[n_savepoints++] = (Savepoint) {subid, begun_tn != 0 ? ls_txn_savepoint(worker) : 0};
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

				while (n_savepoints > 0 && savepoints[n_savepoints - 1].subid >= subid)
				{
					seq = savepoints[--n_savepoints].seq;
					known = true;
				}
				if (known && begun_tn != 0)
				{
					*ls_interrupt = NULL;
					ls_txn_rollback_to(worker, seq);
				}
				ls_relation_at_eosubxact(false, subid, parent);
				ls_shown_at_abort();
				break;
			}

		default:
			break;
	}
}

/* What the server's setting means for heap, too: company is worth waiting for only if somebody is there. */
static uint32
commit_delay(void)
{
	return CommitDelay > 0 && enableFsync && MinimumActiveBackends(CommitSiblings) ? CommitDelay : 0;
}

/* Locks are gone: now wait for durability, the last thing before the client hears of the commit. */
static void
release_callback(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *arg)
{
	if (phase == RESOURCE_RELEASE_AFTER_LOCKS && is_top_level && is_commit && wait_gsn != 0)
	{
		uint64		gsn = wait_gsn;

		wait_gsn = 0;
		pgstat_report_wait_start(wait_event_commit);
		ls_wait_hardened(worker, gsn, commit_delay());
		pgstat_report_wait_end();
	}
}

/*
 * PostgreSQL calls first the callback that was registered last.  Those registered before
 * ours come after us: at PRE_COMMIT they may write WAL, or make something of this
 * transaction durable elsewhere, when we have decided that it needs the engine's log
 * only.  The server does not say which there are.  But a chunk that is freed is what
 * the next allocation of its size gets, and that is the server's list entry; where it
 * is not, or looks different, there may be others.
 */
static bool
register_callback(void)
{
	struct
	{
		void	   *next;
		XactCallback callback;
		void	   *arg;
	}		   *entry = MemoryContextAlloc(TopMemoryContext, sizeof(*entry));

	pfree(entry);
	RegisterXactCallback(xact_callback, NULL);
	return entry->callback == xact_callback && entry->next == NULL;
}

void
ls_xact_install_callbacks(void)
{
	callbacks_behind = !register_callback();
	if (callbacks_behind)
		ereport(LOG,
				(errmsg("transactions that write leanstore tables will wait for the server's log, too"),
				 errdetail("A library that was loaded before leanstore_am may write to it when they commit."),
				 errhint("Put leanstore_am first in \"shared_preload_libraries\" if that library allows.")));
	RegisterSubXactCallback(subxact_callback, NULL);
	RegisterResourceReleaseCallback(release_callback, NULL);
}
