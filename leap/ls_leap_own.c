/*
 * ls_leap_own.c - a transaction comes to own the keys that it names (the requester's side).
 *
 * leap_own() locks the keys for use, reads what this node knows of them, and fetches those that it
 * does not own: one request per node and round, to all nodes at once.  What comes is put into place
 * in the transaction itself; if that rolls back, the units are still with the nodes that have given
 * them, and the next transaction here that wants them gets them again (LEAP-4).
 */
#include "ls_leap.h"

#include "libpq-fe.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"
#include "access/xlog.h"

/* Keys that the transaction has locked and owns. */
typedef struct Held
{
	uint64		hash;			/* hash key; two keys of one hash are one lock, and checked twice */
	int			level;			/* of the subtransaction that has the lock */
	char	   *key;
	LeapFamily *family;
} Held;

static HTAB *held = NULL;
static bool has_accepted = false;
static bool is_settling = false;	/* what is in flight comes even if its family is frozen */

void
leap_init_wanted(LeapWanted *wanted, LeapFamily *family, char *key)
{
	memset(wanted, 0, sizeof(LeapWanted));
	wanted->family = family;
	wanted->key = key;
	wanted->hash = leap_hash(family, key);
}

/* All transactions lock in one order. */
int
leap_compare_wanted(const void *a, const void *b)
{
	const LeapWanted *left = a;
	const LeapWanted *right = b;

	if (left->family->id != right->family->id)
		return left->family->id < right->family->id ? -1 : 1;
	if (left->hash != right->hash)
		return left->hash < right->hash ? -1 : 1;
	return strcmp(left->key, right->key);
}

/* --- Keys that the transaction has --- */

static bool
is_held(LeapWanted *wanted)
{
	Held	   *entry = held ? hash_search(held, &wanted->hash, HASH_FIND, NULL) : NULL;

	return entry && entry->family->id == wanted->family->id &&
		strcmp(entry->key, wanted->key) == 0;
}

static void
note_held(LeapWanted *wanted)
{
	HASHCTL		control = {.keysize = sizeof(uint64),.entrysize = sizeof(Held),
	.hcxt = TopTransactionContext};
	bool		found;
	Held	   *entry;

	if (held == NULL)
		held = hash_create("leap keys held", 32, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	entry = hash_search(held, &wanted->hash, HASH_ENTER, &found);
	if (found)
		return;					/* of another key with this hash: this one is looked up each time */
	entry->level = GetCurrentTransactionNestLevel();
	entry->family = wanted->family;
	entry->key = MemoryContextStrdup(TopTransactionContext, wanted->key);
}

bool
leap_has_accepted(void)
{
	return has_accepted;
}

void
leap_own_at_end(bool committed)
{
	held = NULL;				/* its memory goes with the transaction's */
	if (committed && has_accepted)
		leap_wake_worker();
	has_accepted = false;
}

/* Locks of a subtransaction that rolls back are gone; its parent has those of one that commits. */
void
leap_own_at_subend(bool committed, int level)
{
	HASH_SEQ_STATUS scan;
	Held	   *entry;

	if (held == NULL)
		return;
	hash_seq_init(&scan, held);
	while ((entry = hash_seq_search(&scan)) != NULL)
		if (entry->level >= level)
		{
			if (committed || LEAP_IS_PLANTED(KEEP_HELD))
				entry->level = level - 1;
			else
				hash_search(held, &entry->hash, HASH_REMOVE, NULL);
		}
}

/* --- Fetching --- */

/* Where to ask first. */
static void
aim(LeapWanted *wanted)
{
	int			home = leap_home(wanted->family, wanted->key);

	wanted->floor = LEAP_IS_PLANTED(IGNORE_EPOCHS) ? -1 : wanted->state.epoch;
	if (!(LEAP_IS_PLANTED(IGNORE_EPOCHS) && home != leap_self()) && wanted->state.owner != 0 &&
		 wanted->state.owner != leap_self())
	{
		wanted->target = wanted->state.owner;
		wanted->told = wanted->state.epoch;
	}
	else
	{
		wanted->target = home;
		wanted->told = 0;
	}
}

static char *
array_text(Datum *values, int n, Oid type)
{
	Oid			output;
	bool		varlena;
	ArrayType  *array = type == TEXTOID ?
		construct_array(values, n, TEXTOID, -1, false, TYPALIGN_INT) :
		construct_array(values, n, INT8OID, 8, true, TYPALIGN_DOUBLE);

	getTypeOutputInfo(type == TEXTOID ? TEXTARRAYOID : INT8ARRAYOID, &output, &varlena);
	return OidOutputFunctionCall(output, PointerGetDatum(array));
}

/* The request to one node for the keys of one family that are aimed there; 0: none are. */
static int
make_request(LeapCall *call, LeapWanted *wanted, int n, int first)
{
	Datum	   *key = palloc(sizeof(Datum) * n);
	Datum	   *told = palloc(sizeof(Datum) * n);
	int			count = 0;

	for (int i = first; i < n; i++)
		if (!wanted[i].fetched && wanted[i].target == wanted[first].target &&
			wanted[i].family == wanted[first].family)
		{
			key[count] = CStringGetTextDatum(wanted[i].key);
			told[count++] = Int64GetDatum(wanted[i].told);
		}
	memset(call, 0, sizeof(LeapCall));
	call->node = wanted[first].target;
	call->sql = LEAP_SQL_TAKE;
	call->params = 5;
	call->param[0] = psprintf("%d", leap_self());
	call->param[1] = psprintf("%lld", (long long) leap_timestamp());
	call->param[2] = psprintf("%d", wanted[first].family->id);
	call->param[3] = array_text(key, count, TEXTOID);
	call->param[4] = array_text(told, count, INT8OID);
	return count;
}

static void
go_home(LeapWanted *wanted)
{
	int			home = leap_home(wanted->family, wanted->key);

	if (home == leap_self() || wanted->target == home)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("the owner of leap key \"%s\" was not found", wanted->key),
				 errdetail("Node \"%s\" does not know it.", leap_node_name(wanted->target)),
				 errhint("Try the transaction again.")));
	wanted->target = home;
	wanted->told = 0;
}

/* Another node was named. */
static void
follow(LeapWanted *wanted, int owner, int64 epoch)
{
	leap_count(LEAP_REDIRECTED, 1);
	if (++wanted->hops > LEAP_MAX_HOPS)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("leap key \"%s\" moves faster than it can be followed", wanted->key),
				 errhint("Try the transaction again.")));
	if (owner == leap_self())
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("node \"%s\" takes this node for the owner of leap key \"%s\" since"
						" epoch %lld, but it is not",
						leap_node_name(wanted->target), wanted->key, (long long) epoch),
				 errhint("Was this node restored from an older backup?")));
	if (epoch < wanted->floor || (epoch == wanted->told && owner == wanted->target))
		go_home(wanted);
	else
	{
		wanted->target = owner;
		wanted->told = wanted->floor = epoch;
	}
}

/* One row of an answer. */
static void
take_answer(LeapWanted *wanted, PGresult *result, int row)
{
	char		outcome = PQgetvalue(result, row, 1)[0];
	int			owner = atoi(PQgetvalue(result, row, 2));
	int64		epoch = strtoll(PQgetvalue(result, row, 3), NULL, 10);

	if (outcome == 'g' && (epoch > wanted->floor || LEAP_IS_PLANTED(IGNORE_EPOCHS)))
	{
		wanted->fetched = true;
		wanted->epoch = epoch;
		wanted->payload = pstrdup(PQgetvalue(result, row, 4));
	}
	else if (outcome == 'o')
		follow(wanted, owner, epoch);
	else
	{
		if (++wanted->hops > LEAP_MAX_HOPS)
			follow(wanted, owner, epoch);
		go_home(wanted);
	}
}

static void
take_answers(LeapWanted *wanted, int n, LeapCall *call)
{
	for (int row = 0; row < PQntuples(call->result); row++)
		for (int i = 0; i < n; i++)
			if (!wanted[i].fetched && wanted[i].target == call->node &&
				atoi(PQgetvalue(call->result, row, 5)) == wanted[i].family->id &&
				strcmp(wanted[i].key, PQgetvalue(call->result, row, 0)) == 0)
			{
				take_answer(&wanted[i], call->result, row);
				break;
			}
}

/* One round: a call to each node that has to be asked, for one family each. */
static int
fetch_round(LeapWanted *wanted, int n)
{
	LeapCall   *calls = palloc(sizeof(LeapCall) * n);
	int			count = 0;

	for (int i = 0; i < n; i++)
	{
		bool		is_asked = wanted[i].fetched;

		for (int c = 0; c < count && !is_asked; c++)
			is_asked = calls[c].node == wanted[i].target;
		if (!is_asked)
			make_request(&calls[count++], wanted, n, i);
	}
	if (count == 0)
		return 0;
	if (!is_settling)
		leap_count(LEAP_ROUNDS, 1);
	leap_call_all(calls, count);
	LEAP_STEP("own_answered");
	for (int c = 0; c < count; c++)
		take_answers(wanted, n, &calls[c]);
	return count;
}

/*
 * Gets the units of keys from their owners.  The caller holds a lock on each key that keeps other
 * transactions of this node from fetching it, and has read its state under that lock.
 */
void
leap_fetch(LeapWanted *wanted, int n)
{
	for (int i = 0; i < n; i++)
		aim(&wanted[i]);
	while (fetch_round(wanted, n) > 0)
		CHECK_FOR_INTERRUPTS();
}

/* --- Owning --- */

static int
compact_unowned(LeapWanted *wanted, int n, LeapWanted *missing)
{
	int			count = 0;

	for (int i = 0; i < n; i++)
		if (wanted[i].state.owner != leap_self() &&
			!(LEAP_IS_PLANTED(OWN_ABSENT) && wanted[i].state.owner == 0))
			missing[count++] = wanted[i];
	return count;
}

static void
refuse_unowned(LeapWanted *missing)
{
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("leap key \"%s\" is not here", missing->key),
				 errdetail("A transaction with one snapshot for all of its statements would not"
						   " see what comes."),
				 errhint("Call leap.own() in a transaction of its own, and try again; or use READ"
						 " COMMITTED.")));
	if (XactReadOnly || RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("leap key \"%s\" is not here, and cannot be fetched in a read-only"
						" transaction", missing->key)));
}

#ifdef LS_DEBUG_CHECKS
/* What must not be: LEAP-8. */
static void
tell_early(LeapWanted *missing, int n)
{
	for (int i = 0; i < n; i++)
	{
		LeapCall	call = {.node = leap_home(missing[i].family, missing[i].key),
			.sql = "SELECT leap.peer_inform($1::int, $2::int, ARRAY[$3], ARRAY[$4::bigint])",
			.params = 4,.param = {psprintf("%d", leap_self()),
				psprintf("%d", missing[i].family->id), missing[i].key,
		psprintf("%lld", (long long) missing[i].epoch)}};

		if (call.node != leap_self())
			leap_call_all(&call, 1);
	}
}
#endif

/* Puts what was fetched into place, in this transaction. */
static void
accept(LeapWanted *missing, int n)
{
	if (synchronous_commit < SYNCHRONOUS_COMMIT_LOCAL_FLUSH)
		(void) set_config_option("synchronous_commit", "local", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
	for (int i = 0; i < n; i++)
	{
		leap_write(&missing[i], leap_self(), missing[i].epoch, NULL);
		leap_put_rows(&missing[i]);
		leap_note_fetch(missing[i].hash);
		LEAP_STEP("own_accepted");
	}
	leap_count(LEAP_TAKEN, n);
	has_accepted = true;
#ifdef LS_DEBUG_CHECKS
	if (LEAP_IS_PLANTED(TELL_EARLY))
		tell_early(missing, n);
#endif
}

static void
unlock_all(LeapWanted *wanted, int n, LOCKMODE mode)
{
	for (int i = 0; i < n; i++)
		leap_unlock_key(wanted[i].hash, mode);
}

/* Locks keys; false, and none locked, if the transaction has to die. */
static bool
lock_all(LeapWanted *wanted, int n, LOCKMODE mode)
{
	for (int i = 0; i < n; i++)
		if (!leap_lock_key(wanted[i].hash, mode))
		{
			unlock_all(wanted, i, mode);
			return false;
		}
	return true;
}

/* Fetches what is missing still when its lock is had; false if the transaction has to die. */
static bool
lock_and_fetch(LeapWanted *missing, int *n)
{
	if (!lock_all(missing, *n, ShareUpdateExclusiveLock))
		return false;
	leap_read(missing, *n, false);
	*n = compact_unowned(missing, *n, missing);
	leap_fetch(missing, *n);
	return true;
}

/* The same, and an answer of another node that the transaction has to die is no error. */
static bool
lock_and_fetch_quietly(LeapWanted *missing, int *n)
{
	MemoryContext before = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool done = false;

	BeginInternalSubTransaction("leap");
	MemoryContextSwitchTo(before);
	PG_TRY();
	{
		done = lock_and_fetch(missing, n);
		if (done)
			ReleaseCurrentSubTransaction();
		else
			RollbackAndReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(before);
		error = CopyErrorData();
		if (error->sqlerrcode != ERRCODE_T_R_SERIALIZATION_FAILURE)
			PG_RE_THROW();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		FreeErrorData(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(before);
	CurrentResourceOwner = owner;
	return done;
}

static bool
all_cached(LeapWanted *wanted, int n)
{
	for (int i = 0; i < n; i++)
		if (!leap_cache_has(&wanted[i]))
			return false;
	return true;
}

/* One attempt: false, and nothing locked, if the transaction has to die. */
static bool
try_own(LeapWanted *wanted, int n, Snapshot snapshot)
{
	LeapWanted *missing;
	int			count;

	if (!lock_all(wanted, n, AccessShareLock))
		return false;
	if (leap_refresh_families(wanted, n) && !is_settling)
	{
		unlock_all(wanted, n, AccessShareLock);
		return false;
	}
	if (all_cached(wanted, n))
		return true;
	leap_read(wanted, n, false);
	missing = palloc(sizeof(LeapWanted) * n);
	count = compact_unowned(wanted, n, missing);
	if (count > 0)
	{
		refuse_unowned(missing);
		if (!(held ? lock_and_fetch(missing, &count) : lock_and_fetch_quietly(missing, &count)))
		{
			unlock_all(wanted, n, AccessShareLock);
			return false;
		}
		accept(missing, count);
	}
	else if (!IsolationUsesXactSnapshot())
		for (int i = 0; i < n; i++)
			leap_cache_add(&wanted[i]);
	else if (snapshot && IsMVCCSnapshot(snapshot) &&
			 !leap_snapshot_agrees(wanted, n, snapshot))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access: leap key came after the transaction began"),
				 errhint("Try the transaction again.")));
	return true;
}

static void
die(LeapWanted *wanted)
{
	leap_keep_timestamp();
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 wanted->family->is_frozen ?
			 errmsg("homes of leap key \"%s\" are being changed", wanted->key) :
			 errmsg("leap key \"%s\" is used by an older transaction", wanted->key),
			 errhint("Try the transaction again: it keeps its age.")));
}

/* Before another attempt: long enough for a short transaction to end, different for each. */
static void
pause_before_retry(int attempt)
{
	static uint32 event = 0;
	long		ms = 1 + pg_prng_uint64_range(&pg_global_prng_state, 0, 4 * Min(attempt, 25));

	if (event == 0)
		event = WaitEventExtensionNew("LeapRetry");
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * The transaction comes to own keys; sorts them.  A transaction that held none before may be tried
 * again here as often as leap.timeout allows, for no other waits for what it holds.
 */
void
leap_own(LeapWanted *wanted, int n, Snapshot snapshot)
{
	TimestampTz since = 0;
	int			count = 0;

	for (int i = 0; i < n; i++)
		if (!is_held(&wanted[i]))
			wanted[count++] = wanted[i];
	if (count == 0)
		return;
	qsort(wanted, count, sizeof(LeapWanted), leap_compare_wanted);
	for (int attempt = 1; !try_own(wanted, count, snapshot); attempt++)
	{
		if (since == 0)
			since = GetCurrentTimestamp();
		if (held != NULL || is_settling ||
			TimestampDifferenceExceeds(since, GetCurrentTimestamp(), leap_timeout_ms))
			die(&wanted[0]);
		pause_before_retry(attempt);
	}
	for (int i = 0; i < count; i++)
	{
		note_held(&wanted[i]);
		leap_note_use(wanted[i].hash);
	}
}

bool
leap_holds_keys(void)
{
	return held != NULL;
}

/* --- SQL --- */

PG_FUNCTION_INFO_V1(leap_own_keys);
PG_FUNCTION_INFO_V1(leap_own_of_family);
PG_FUNCTION_INFO_V1(leap_own_for_call);

/* Keys of a table as a user wrote them; the user needs some right to the table. */
LeapWanted *
leap_read_keys(Oid relation, ArrayType *keys, int *n)
{
	LeapMember *member = leap_member_of(relation);
	LeapWanted *wanted;
	bool	   *null;
	Datum	   *key;
	int			count;

	if (member == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is no leap table", get_rel_name(relation))));
	if (pg_class_aclcheck(relation, GetUserId(), ACL_SELECT | ACL_UPDATE | ACL_INSERT |
						  ACL_DELETE) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, get_rel_name(relation));
	deconstruct_array(keys, TEXTOID, -1, false, TYPALIGN_INT, &key, &null, &count);
	wanted = palloc(sizeof(LeapWanted) * Max(count, 1));
	*n = 0;
	for (int i = 0; i < count; i++)
		if (!null[i])
			leap_init_wanted(&wanted[(*n)++], member->family,
							 leap_canonical_key(member, TextDatumGetCString(key[i])));
	return wanted;
}

/* leap.own(table, keys): this transaction owns them; returns how many were named. */
Datum
leap_own_keys(PG_FUNCTION_ARGS)
{
	int			n;
	LeapWanted *wanted = leap_read_keys(PG_GETARG_OID(0), PG_GETARG_ARRAYTYPE_P(1), &n);

	leap_own(wanted, n, NULL);
	PG_RETURN_INT32(n);
}

/* Keys of a family, as other nodes have them; returns how many. */
int
leap_own_texts(LeapFamily *family, ArrayType *keys)
{
	Datum	   *key;
	int			n;
	LeapWanted *wanted;

	deconstruct_array(keys, TEXTOID, -1, false, TYPALIGN_INT, &key, NULL, &n);
	wanted = palloc(sizeof(LeapWanted) * Max(n, 1));
	for (int i = 0; i < n; i++)
		leap_init_wanted(&wanted[i], family, TextDatumGetCString(key[i]));
	leap_own(wanted, n, NULL);
	return n;
}

Datum
leap_own_for_call(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(leap_own_texts(leap_family(PG_GETARG_INT32(0)), PG_GETARG_ARRAYTYPE_P(1)));
}

/* leap.own_of_family(family, keys): to settle. */
Datum
leap_own_of_family(PG_FUNCTION_ARGS)
{
	int			n = 0;

	PG_TRY();
	{
		is_settling = true;
		n = leap_own_texts(leap_family(PG_GETARG_INT32(0)), PG_GETARG_ARRAYTYPE_P(1));
	}
	PG_FINALLY();
	{
		is_settling = false;
	}
	PG_END_TRY();
	PG_RETURN_INT32(n);
}
