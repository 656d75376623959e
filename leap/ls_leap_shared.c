/*
 * ls_leap_shared.c - shared memory: timestamps of transactions, locks of keys with Wait-Die,
 * counters, faults of tests.
 *
 * The lock of a key is one of the server's lock manager, held until the end of the transaction:
 *
 *	AccessShareLock				 use: a statement names the key
 *	ShareUpdateExclusiveLock	 fetch: this transaction gets the key from another node
 *	AccessExclusiveLock			 hand-over: the key is given to another node
 *
 * Waits within a node are edges that the server's deadlock detector sees, those between nodes are
 * not.  So each wait for a key keeps the order of Wait-Die (LEAP-5): a transaction waits only for
 * younger ones; a younger one dies, and is tried again with the timestamp that it had.  A backend
 * that works for a transaction of another node has that one's timestamp.
 */
#include "ls_leap.h"

#include <signal.h>

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "access/xact.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/builtins.h"

#define NODE_BITS 10
#define STEP_NAME 32
#define GENERATIONS 16384		/* by hash of the key: some keys share one */
#define EXPERIENCES 4096		/* by hash of the key: some keys share one */
#define EXPERIENCE_FETCHES 64	/* halved then, so that what was long ago counts less */
#define EXPLORE_EACH 16			/* so many calls in a row, and once the keys come */

/* Of a backend.  It sets waits_for before it looks at others, so of two one sees the other. */
typedef struct Slot
{
	pg_atomic_uint64 timestamp; /* of the transaction that it works for; 0: none */
	pg_atomic_uint64 waits_for; /* hash of a key; 0: none */
	pg_atomic_uint32 mode;
	TimestampTz since;			/* for the view */
} Slot;

/* How often transactions of this node used a key, and had to fetch it for that. */
typedef struct Experience
{
	pg_atomic_uint32 uses;
	pg_atomic_uint32 fetches;
	pg_atomic_uint32 calls;
} Experience;

typedef struct LeapShared
{
	pg_atomic_uint64 counter[LEAP_COUNTERS];
	Latch	   *worker;			/* of the settling worker; NULL: it does not run */
	slock_t		mutex;			/* protects the fault */
	char		step[STEP_NAME];	/* the one at which the next process meets a fault */
	int			pause_ms;		/* it sleeps so long; 0: it is killed */
	pg_atomic_uint32 generation[GENERATIONS];	/* changed by hand-overs: ls_leap_cache.c */
	Experience	experience[EXPERIENCES];
	bool		is_cut_off[LEAP_MAX_NODES + 1]; /* of tests: as if a node were out of reach */
	Slot		slot[FLEXIBLE_ARRAY_MEMBER];
} LeapShared;

static LeapShared *shared = NULL;
static uint64 kept_timestamp = 0;	/* of a transaction of this session that has died */

static shmem_request_hook_type below_request = NULL;
static shmem_startup_hook_type below_startup = NULL;

static Size
shared_size(void)
{
	return add_size(offsetof(LeapShared, slot), mul_size(MaxBackends, sizeof(Slot)));
}

static void
request(void)
{
	if (below_request)
		below_request();
	RequestAddinShmemSpace(shared_size());
}

static void
startup(void)
{
	bool		found;

	if (below_startup)
		below_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("leanstore_leap", shared_size(), &found);
	if (!found)
	{
		memset(shared, 0, shared_size());
		SpinLockInit(&shared->mutex);
		for (int i = 0; i < LEAP_COUNTERS; i++)
			pg_atomic_init_u64(&shared->counter[i], 0);
		for (int i = 0; i < MaxBackends; i++)
		{
			pg_atomic_init_u64(&shared->slot[i].timestamp, 0);
			pg_atomic_init_u64(&shared->slot[i].waits_for, 0);
			pg_atomic_init_u32(&shared->slot[i].mode, 0);
		}
	}
	LWLockRelease(AddinShmemInitLock);
}

void
leap_shared_install(void)
{
	below_request = shmem_request_hook;
	shmem_request_hook = request;
	below_startup = shmem_startup_hook;
	shmem_startup_hook = startup;
}

void
leap_count(LeapCounter counter, int n)
{
	pg_atomic_fetch_add_u64(&shared->counter[counter], n);
}

/* One that is sent to another node, or has come from it. */
void
leap_count_message(void)
{
	leap_count(LEAP_MESSAGES, 1);
	if (AmBackgroundWorkerProcess())
		leap_count(LEAP_SETTLING, 1);
}

static Slot *
my_slot(void)
{
	if (shared == NULL || MyProcNumber < 0 || MyProcNumber >= MaxBackends)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("leanstore_leap is not loaded"),
				 errhint("Name it in shared_preload_libraries and restart the server.")));
	return &shared->slot[MyProcNumber];
}

/* --- Timestamps: microseconds of the start, then the node --- */

void
leap_set_timestamp(uint64 timestamp)
{
	pg_atomic_write_u64(&my_slot()->timestamp, timestamp);
}

uint64
leap_timestamp(void)
{
	Slot	   *slot = my_slot();
	uint64		timestamp = pg_atomic_read_u64(&slot->timestamp);

	if (timestamp != 0)
		return timestamp;
	timestamp = kept_timestamp != 0 ? kept_timestamp :
		(uint64) GetCurrentTransactionStartTimestamp() << NODE_BITS | leap_self();
	pg_atomic_write_u64(&slot->timestamp, timestamp);
	return timestamp;
}

/* The transaction dies: the session's next one is as old, so it cannot starve. */
void
leap_keep_timestamp(void)
{
	kept_timestamp = pg_atomic_read_u64(&my_slot()->timestamp);
}

void
leap_end_timestamp(bool committed)
{
	if (shared == NULL || MyProcNumber < 0 || MyProcNumber >= MaxBackends)
		return;
	if (committed)
		kept_timestamp = 0;
	pg_atomic_write_u64(&shared->slot[MyProcNumber].timestamp, 0);
	pg_atomic_write_u64(&shared->slot[MyProcNumber].waits_for, 0);
}

/* --- Locks --- */

static void
set_tag(LOCKTAG *tag, uint64 hash)
{
	/* Advisory locks of users have 1 or 2 there. */
	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, (uint32) (hash >> 32), (uint32) hash, 76);
}

/* LEAP-5: does an older transaction hold the lock, or wait for it, in the way of this one? */
static bool
must_die(const LOCKTAG *tag, uint64 hash, LOCKMODE mode)
{
	uint64		mine = leap_timestamp();
	int			count;
	VirtualTransactionId *holder = GetLockConflicts(tag, mode, &count);

	for (int i = 0; i < count; i++)
	{
		uint64		theirs;

		if (holder[i].procNumber < 0 || holder[i].procNumber >= MaxBackends)
			continue;
		theirs = pg_atomic_read_u64(&shared->slot[holder[i].procNumber].timestamp);
		if (theirs != 0 && theirs < mine)
			return true;
	}
	for (int i = 0; i < MaxBackends; i++)
	{
		Slot	   *slot = &shared->slot[i];
		uint64		theirs = pg_atomic_read_u64(&slot->timestamp);

		if (i != MyProcNumber && theirs != 0 && theirs < mine &&
			pg_atomic_read_u64(&slot->waits_for) == hash &&
			DoLockModesConflict(mode, (LOCKMODE) pg_atomic_read_u32(&slot->mode)))
			return true;
	}
	return false;
}

/* Waits at most leap.timeout, or lock_timeout if that is less. */
static void
wait_for_lock(const LOCKTAG *tag, LOCKMODE mode)
{
	int			before = LockTimeout;

	leap_count(LEAP_WAITED, 1);
	PG_TRY();
	{
		if (LockTimeout == 0 || LockTimeout > leap_timeout_ms)
			LockTimeout = leap_timeout_ms;
		(void) LockAcquire(tag, mode, false, false);
	}
	PG_FINALLY();
	{
		LockTimeout = before;
		pg_atomic_write_u64(&my_slot()->waits_for, 0);
	}
	PG_END_TRY();
}

/* Until the end of the transaction.  False: the transaction has to die. */
bool
leap_lock_key(uint64 hash, LOCKMODE mode)
{
	LOCKTAG		tag;
	Slot	   *slot = my_slot();

	set_tag(&tag, hash);
	(void) leap_timestamp();
	if (LockAcquire(&tag, mode, false, true) != LOCKACQUIRE_NOT_AVAIL)
		return true;
	slot->since = GetCurrentTimestamp();
	pg_atomic_write_u32(&slot->mode, mode);
	pg_atomic_exchange_u64(&slot->waits_for, hash);
	if (must_die(&tag, hash, mode))
	{
		pg_atomic_write_u64(&slot->waits_for, 0);
		leap_count(LEAP_DIED, 1);
		return false;
	}
	wait_for_lock(&tag, mode);
	return true;
}

/* Gives back one leap_lock_key() of the same resource owner. */
void
leap_unlock_key(uint64 hash, LOCKMODE mode)
{
	LOCKTAG		tag;

	set_tag(&tag, hash);
	(void) LockRelease(&tag, mode, false);
}

bool
leap_try_lock_key(uint64 hash, LOCKMODE mode)
{
	LOCKTAG		tag;

	set_tag(&tag, hash);
	return LockAcquire(&tag, mode, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

/* --- The worker that settles --- */

void
leap_register_worker_latch(void)
{
	shared->worker = MyLatch;
}

void
leap_wake_worker(void)
{
	Latch	   *worker = shared == NULL ? NULL : *(Latch *volatile *) &shared->worker;

	if (worker != NULL)
		SetLatch(worker);
}

/* --- Views --- */

PG_FUNCTION_INFO_V1(leap_counters);
PG_FUNCTION_INFO_V1(leap_waits);

/* leap.counters(): this node's, since the server's start. */
Datum
leap_counters(PG_FUNCTION_ARGS)
{
	static const char *const names[LEAP_COUNTERS] = {
		"messages", "settling", "rounds", "taken", "given", "resent", "redirected", "waited",
		"died", "called"
	};
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	(void) my_slot();
	for (int i = 0; i < LEAP_COUNTERS; i++)
	{
		Datum		values[2] = {CStringGetTextDatum(names[i]),
		Int64GetDatum((int64) pg_atomic_read_u64(&shared->counter[i]))};
		bool		nulls[2] = {false, false};

		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* leap.waits(): sessions that wait for a key. */
Datum
leap_waits(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	(void) my_slot();
	for (int i = 0; i < MaxBackends; i++)
	{
		Slot	   *slot = &shared->slot[i];
		uint64		hash = pg_atomic_read_u64(&slot->waits_for);
		uint64		timestamp = pg_atomic_read_u64(&slot->timestamp);
		Datum		values[5];
		bool		nulls[5] = {0};

		if (hash == 0 || timestamp == 0)
			continue;
		values[0] = Int32GetDatum(GetPGProcByNumber(i)->pid);
		values[1] = Int64GetDatum((int64) hash);
		values[2] = TimestampTzGetDatum((TimestampTz) (timestamp >> NODE_BITS));
		values[3] = Int32GetDatum((int) (timestamp & LEAP_MAX_NODES));
		values[4] = TimestampTzGetDatum(slot->since);
		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* --- Whether keys have left --- */

uint32
leap_generation(uint64 hash)
{
	return pg_atomic_read_u32(&shared->generation[hash % GENERATIONS]);
}

/* The caller has the key's exclusive lock, and has not committed. */
void
leap_change_generation(uint64 hash)
{
	pg_atomic_fetch_add_u32(&shared->generation[hash % GENERATIONS], 1);
}

/* --- Moving keys, or the call --- */

void
leap_note_use(uint64 hash)
{
	pg_atomic_fetch_add_u32(&shared->experience[hash % EXPERIENCES].uses, 1);
}

void
leap_note_fetch(uint64 hash)
{
	Experience *slot = &shared->experience[hash % EXPERIENCES];

	if (pg_atomic_add_fetch_u32(&slot->fetches, 1) < EXPERIENCE_FETCHES)
		return;
	pg_atomic_write_u32(&slot->fetches, EXPERIENCE_FETCHES / 2);
	pg_atomic_write_u32(&slot->uses, pg_atomic_read_u32(&slot->uses) / 2);
}

/*
 * Should a call go to a key that is not here?  A call costs two messages and is one use, a fetch
 * four or more and brings as many uses as were made of it so far.  What is not known yet is
 * fetched, and from time to time what seemed not to be worth it.
 */
bool
leap_should_call(uint64 hash)
{
	Experience *slot = &shared->experience[hash % EXPERIENCES];
	uint32		fetches = pg_atomic_read_u32(&slot->fetches);

	if (fetches < 4 || pg_atomic_read_u32(&slot->uses) >= 2 * fetches)
		return false;
	return pg_atomic_fetch_add_u32(&slot->calls, 1) % EXPLORE_EACH != EXPLORE_EACH - 1;
}

/* --- Faults of tests --- */

PG_FUNCTION_INFO_V1(leap_set_fault);

/* leap.set_fault(step, pause_ms): the next process at that step sleeps so long, or, 0, dies. */
Datum
leap_set_fault(PG_FUNCTION_ARGS)
{
#ifdef LS_DEBUG_CHECKS
	(void) my_slot();
	SpinLockAcquire(&shared->mutex);
	strlcpy(shared->step, text_to_cstring(PG_GETARG_TEXT_PP(0)), STEP_NAME);
	shared->pause_ms = PG_GETARG_INT32(1);
	SpinLockRelease(&shared->mutex);
#else
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("leanstore_leap was built without faults for tests")));
#endif
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(leap_cut);

/* leap.cut(node, is_cut_off): this node does not reach that one. */
Datum
leap_cut(PG_FUNCTION_ARGS)
{
	(void) my_slot();
	if (PG_GETARG_INT32(0) < 1 || PG_GETARG_INT32(0) > LEAP_MAX_NODES)
		elog(ERROR, "leap: no node %d", PG_GETARG_INT32(0));
	shared->is_cut_off[PG_GETARG_INT32(0)] = PG_GETARG_BOOL(1);
	PG_RETURN_VOID();
}

#ifdef LS_DEBUG_CHECKS
bool
leap_is_cut_off(int node)
{
	return shared->is_cut_off[node];
}

void
leap_step(const char *name)
{
	bool		is_now = false;
	int			pause_ms = 0;

	if (shared->step[0] == 0)
		return;
	SpinLockAcquire(&shared->mutex);
	if (strcmp(shared->step, name) == 0)
	{
		is_now = true;
		pause_ms = shared->pause_ms;
		shared->step[0] = 0;
	}
	SpinLockRelease(&shared->mutex);
	if (!is_now)
		return;
	if (pause_ms == 0)
		kill(MyProcPid, SIGKILL);
	pg_usleep(pause_ms * 1000L);
}
#endif
