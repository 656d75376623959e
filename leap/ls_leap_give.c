/*
 * ls_leap_give.c - what other nodes ask of this one: the owner's and the home's side.
 *
 * A hand-over is this node's local commit: the unit's rows go from their tables into the payload of
 * the key's row in leap.key, which from then on names the new owner with the next epoch.  The unit
 * belongs to that owner alone (LEAP-3), so the same request gets the same gift again, however often
 * and late it comes (LEAP-4).  The payload goes when the new owner has told the key's home of it
 * (leap.settle()).
 */
#include "ls_leap.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

bool		leap_has_given = false;

/* The request that a backend works for. */
typedef struct Request
{
	int			requester;
	LeapFamily *family;
	int			n;
	LeapWanted *wanted;
	int64	   *told;			/* since when this node is said to own it; 0: not said */
	ReturnSetInfo *set;
} Request;

typedef enum Duty
{
	GIVE,						/* the key is here */
	GIVE_AGAIN,					/* it was given to the requester, and may not have arrived */
	FETCH_AND_GIVE,				/* it was given to this node, and has not arrived */
	NAME_OTHER,
	KNOW_NOTHING
} Duty;

static Duty
duty(Request *request, int i)
{
	LeapState  *state = &request->wanted[i].state;

	if (state->owner == leap_self())
		return GIVE;
	if (request->told[i] > state->epoch)
		return FETCH_AND_GIVE;
	if (state->owner == 0)
		return KNOW_NOTHING;
	if (state->owner == request->requester && state->has_payload)
		return GIVE_AGAIN;
	return NAME_OTHER;
}

static void
answer(Request *request, int i, char outcome, const char *payload)
{
	LeapWanted *wanted = &request->wanted[i];
	char		text[2] = {outcome, 0};
	Datum		values[6];
	bool		nulls[6] = {0};

	values[0] = CStringGetTextDatum(wanted->key);
	values[1] = CStringGetTextDatum(text);
	values[2] = Int32GetDatum(wanted->state.owner);
	values[3] = Int64GetDatum(wanted->state.epoch);
	if (payload)
		values[4] = CStringGetTextDatum(payload);
	else
		nulls[4] = true;
	values[5] = Int32GetDatum(request->family->id);
	tuplestore_putvalues(request->set->setResult, request->set->setDesc, values, nulls);
}

/* A key that came lately stays for leap.minimum_hold, so that two nodes do not just pass it on. */
static void
hold_back(LeapState *state)
{
	static uint32 event = 0;
	long		ms;

	if (!state->known || state->owner != leap_self() || leap_minimum_hold_ms == 0)
		return;
	if (event == 0)
		event = WaitEventExtensionNew("LeapMinimumHold");
	while ((ms = leap_minimum_hold_ms -
			TimestampDifferenceMilliseconds(state->since, GetCurrentTimestamp())) > 0)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, event);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

static void
lock_for_hand_over(LeapWanted *wanted)
{
	if (LEAP_IS_PLANTED(NO_LOCK))
		return;
	if (!leap_lock_key(wanted->hash, AccessExclusiveLock))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("leap key \"%s\" is used by an older transaction", wanted->key),
				 errhint("Try the transaction again: it keeps its age.")));
	if (leap_refresh_families(wanted, 1))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("homes of leap key \"%s\" are being changed", wanted->key),
				 errhint("Try the transaction again.")));
}

/* The unit leaves this node, with the next epoch. */
static void
give(Request *request, int i, char *payload)
{
	LeapWanted *wanted = &request->wanted[i];

	leap_change_generation(wanted->hash);
	leap_write(wanted, request->requester, wanted->state.epoch + 1,
			   LEAP_IS_PLANTED(FORGET_PAYLOAD) ? "{}" : payload);
	wanted->state.owner = request->requester;
	wanted->state.epoch++;
	answer(request, i, 'g', payload);
	leap_count(LEAP_GIVEN, 1);
	leap_has_given = true;
}

/* A unit that was given to this node, and that no transaction here has taken, is passed on. */
static void
fetch_and_give(Request *request, int i)
{
	LeapWanted *wanted = &request->wanted[i];

	leap_fetch(wanted, 1);
	wanted->state.epoch = wanted->epoch - (LEAP_IS_PLANTED(SAME_EPOCH) ? 1 : 0);
	give(request, i, wanted->payload);
}

static void
serve_key(Request *request, int i, Duty what)
{
	LeapWanted *wanted = &request->wanted[i];

	switch (what)
	{
		case GIVE:
			give(request, i, leap_take_rows(wanted));
			break;
		case GIVE_AGAIN:
			answer(request, i, 'g', wanted->state.payload);
			leap_count(LEAP_RESENT, 1);
			break;
		case FETCH_AND_GIVE:
			fetch_and_give(request, i);
			break;
		case NAME_OTHER:
			answer(request, i, 'o', NULL);
			break;
		case KNOW_NOTHING:
			answer(request, i, 'u', NULL);
			break;
	}
}

static void
serve(Request *request)
{
	leap_read(request->wanted, request->n, true);

	/*
	 * Other nodes are named without a lock, and what was given is given again: a transaction here
	 * that wants the key back has its lock, and waits for the requester.
	 */
	for (int i = 0; i < request->n; i++)
	{
		Duty		what = duty(request, i);

		if (what != GIVE && what != FETCH_AND_GIVE)
		{
			serve_key(request, i, what);
			request->wanted[i].fetched = true;
		}
	}
	for (int i = 0; i < request->n; i++)
		if (!request->wanted[i].fetched)
		{
			hold_back(&request->wanted[i].state);
			lock_for_hand_over(&request->wanted[i]);
		}
	LEAP_STEP("give_locked");
	for (int i = 0; i < request->n; i++)
		if (!request->wanted[i].fetched)
		{
			leap_read(&request->wanted[i], 1, true);
			serve_key(request, i, duty(request, i));
		}
	LEAP_STEP("give_written");
}

/* Keys and what the requester was told of them, in the order in which all transactions lock. */
static void
read_request(Request *request, ArrayType *keys, ArrayType *told)
{
	Datum	   *key;
	Datum	   *epoch;
	int			n;

	deconstruct_array(keys, TEXTOID, -1, false, TYPALIGN_INT, &key, NULL, &request->n);
	deconstruct_array(told, INT8OID, 8, true, TYPALIGN_DOUBLE, &epoch, NULL, &n);
	if (n != request->n)
		elog(ERROR, "leap: %d keys, %d epochs", request->n, n);
	request->wanted = palloc(sizeof(LeapWanted) * Max(n, 1));
	request->told = palloc(sizeof(int64) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		leap_init_wanted(&request->wanted[i], request->family, TextDatumGetCString(key[i]));
		request->wanted[i].told = DatumGetInt64(epoch[i]);
	}
	qsort(request->wanted, n, sizeof(LeapWanted), leap_compare_wanted);
	for (int i = 0; i < n; i++)
		request->told[i] = request->wanted[i].told;
}

PG_FUNCTION_INFO_V1(leap_peer_take);
PG_FUNCTION_INFO_V1(leap_try_lock);

/*
 * leap.peer_take(requester, timestamp, family, keys, told): a node wants keys, for a transaction
 * with this timestamp.
 */
Datum
leap_peer_take(PG_FUNCTION_ARGS)
{
	Request		request = {.requester = PG_GETARG_INT32(0)};

	if (IsolationUsesXactSnapshot() || IsTransactionBlock())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("leap.peer_take() is for nodes, outside of transaction blocks")));
	InitMaterializedSRF(fcinfo, 0);
	leap_set_timestamp((uint64) PG_GETARG_INT64(1));
	request.family = leap_family(PG_GETARG_INT32(2));
	request.set = (ReturnSetInfo *) fcinfo->resultinfo;
	read_request(&request, PG_GETARG_ARRAYTYPE_P(3), PG_GETARG_ARRAYTYPE_P(4));
	if (request.requester == leap_self())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("node %d asks itself for leap keys", request.requester),
				 errhint("Two nodes have one number, or leap.node has a wrong address.")));
	serve(&request);
	return (Datum) 0;
}

/* leap.try_lock(family, key): as for a hand-over, if no transaction uses the key. */
Datum
leap_try_lock(PG_FUNCTION_ARGS)
{
	LeapFamily *family = leap_family(PG_GETARG_INT32(0));
	uint64		hash = leap_hash(family, text_to_cstring(PG_GETARG_TEXT_PP(1)));

	LEAP_STEP("settle_clearing");
	PG_RETURN_BOOL(leap_try_lock_key(hash, AccessExclusiveLock));
}
