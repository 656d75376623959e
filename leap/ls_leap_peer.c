/*
 * ls_leap_peer.c - connections of a session to other nodes, and calls of their functions.
 *
 * A session keeps one libpq connection per node.  Calls go out to all nodes at once, and their
 * answers are waited for together: at most leap.timeout, with interrupts.  A connection on which an
 * answer is outstanding when an error leaves is closed at the transaction's end: what the other
 * node does with the call is its own affair, and each call may be done late, or twice (LEAP-4).
 *
 * An answer counts when the other node's transaction has ended: libpq gives NULL after it.  That of
 * a request for keys comes before, while the other node still forces its commit: a promise.  This
 * transaction goes on with it, and waits for its end before the next call there, and before its own
 * commit (LEAP-9).
 *
 * Rows of scans (ls_leap_scan.c) come on connections of their own: while they come, the same
 * statement may fetch keys, or scan again.  One that has given all of its rows is kept for the next
 * scan, one for a node; one that has not is closed, which ends the statement there: at once if it
 * sends, within a second if it waits (client_connection_check_interval).
 */
#include "ls_leap.h"

#include "libpq-fe.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

typedef struct Peer
{
	int			node;
	PGconn	   *connection;
	bool		connecting;
	PostgresPollingStatusType polling;
	bool		preparing;		/* the statement that follows the connection is on its way */
	bool		prepared;		/* LEAP_SQL_TAKE is prepared there */
	bool		busy;			/* an answer is outstanding */
	bool		promised;		/* it has come, the other node's commit has not: LEAP-9 */
	bool		stale;			/* the rest of a promise that nothing waits for */
	bool		is_for_rows;	/* of scans */
	char		name[NAMEDATALEN];
	char	   *conninfo;		/* what it was connected by */
	uint32		version;		/* leap_changes() when that was looked at */
} Peer;

/* Requests are many: a connection for calls has their statement prepared. */
#define PREPARED_TAKE "leap_take"

/* Rows that a stream takes at a time. */
#define CHUNK 256

static Peer **peers = NULL;		/* by node, up to LEAP_MAX_NODES */
static Peer *idle[LEAP_MAX_NODES + 1];	/* by node: for rows of scans, not in use */
static uint32 wait_event = 0;

static void
disconnect(Peer *peer)
{
	if (peer->connection)
	{
		PQfinish(peer->connection);
		ReleaseExternalFD();
	}
	peer->connection = NULL;
	peer->busy = peer->connecting = peer->preparing = peer->prepared = false;
	peer->promised = peer->stale = false;
}

/* After an error: no later answer is taken for that of a later call. */
void
leap_drop_busy_peers(void)
{
	for (int i = 0; peers && i <= LEAP_MAX_NODES; i++)
		if (peers[i] && peers[i]->busy)
			disconnect(peers[i]);
}

/* The node's name and connection string; *conninfo is NULL where there is no such node. */
static char *
read_node(int node, char **conninfo)
{
	MemoryContext into = CurrentMemoryContext;
	LeapInside	inside;
	char	   *name = NULL;

	*conninfo = NULL;
	leap_enter(&inside);
	leap_select_own("SELECT name, conninfo FROM leap.node WHERE id = $1", node);
	if (SPI_processed == 1)
	{
		HeapTuple	row = SPI_tuptable->vals[0];

		name = MemoryContextStrdup(into, SPI_getvalue(row, SPI_tuptable->tupdesc, 1));
		*conninfo = MemoryContextStrdup(into, SPI_getvalue(row, SPI_tuptable->tupdesc, 2));
	}
	leap_leave(&inside);
	return name;
}

const char *
leap_node_name(int node)
{
	char	   *conninfo;
	char	   *name = read_node(node, &conninfo);

	return name ? name : psprintf("%d", node);
}

static void
refuse(Peer *peer, const char *what)
{
	char	   *detail = pstrdup(what);

	while (*detail && detail[strlen(detail) - 1] == '\n')
		detail[strlen(detail) - 1] = 0;
	disconnect(peer);
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("leap node \"%s\" does not answer", peer->name),
			 errdetail("%s", detail),
			 errhint("Keys that it owns, and keys of which it is the home, can be used again"
					 " when it is back. Has it another address: leap.set_node().")));
}

static void
start_connecting(Peer *peer, const char *conninfo)
{
	char	   *options = psprintf("-c synchronous_commit=on"
								   " -c default_transaction_isolation=read\\ committed"
								   " -c default_transaction_read_only=%s"
								   " -c datestyle=iso -c intervalstyle=postgres"
								   " -c extra_float_digits=1 -c bytea_output=hex"
								   " -c client_connection_check_interval=1s"
								   " -c statement_timeout=%d%s",
								   peer->is_for_rows ? "on" : "off",
								   peer->is_for_rows ? 0 : leap_timeout_ms,
								   peer->is_for_rows ? " -c leap.scans=local" : "");
	const char *keywords[] = {"dbname", "options", "application_name", "client_encoding", NULL};
	const char *values[] = {conninfo, options, "leanstore_leap", GetDatabaseEncodingName(), NULL};

	if (!AcquireExternalFD())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("no file descriptor left for leap node \"%s\"", peer->name)));
	peer->connection = PQconnectStartParams(keywords, values, 1);
	if (peer->connection == NULL)
	{
		ReleaseExternalFD();
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	}
	peer->busy = peer->connecting = true;
	peer->polling = PGRES_POLLING_WRITING;
	if (PQstatus(peer->connection) == CONNECTION_BAD)
		refuse(peer, PQerrorMessage(peer->connection));
}

static void
connect_to(Peer *peer)
{
	uint32		version = leap_changes();
	char	   *conninfo;
	char	   *name = read_node(peer->node, &conninfo);
	char	   *kept;

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("there is no leap node %d", peer->node)));
	strlcpy(peer->name, name, NAMEDATALEN);
	kept = MemoryContextStrdup(TopMemoryContext, conninfo);
	if (peer->conninfo)
		pfree(peer->conninfo);
	peer->conninfo = kept;
	peer->version = version;	/* of before: a change meanwhile is looked at later */
	start_connecting(peer, conninfo);
}

/*
 * leap.set_node() has given the node another address: a server that still answers at the one before
 * is not the node any more.
 */
static void
drop_if_moved(Peer *peer)
{
	uint32		version;
	char	   *conninfo;

	AcceptInvalidationMessages();	/* a long transaction has not looked since it began */
	version = leap_changes();
	if (peer->version == version)
		return;
	(void) read_node(peer->node, &conninfo);
	if (conninfo == NULL || strcmp(conninfo, peer->conninfo) != 0)
		disconnect(peer);
	peer->version = version;
}

/* One that the other side has closed meanwhile is noticed before it is used. */
static void
drop_if_closed(Peer *peer)
{
	if (!PQconsumeInput(peer->connection) || PQstatus(peer->connection) == CONNECTION_BAD)
		disconnect(peer);
}

/* Takes what is left of a promise; false if more is to come. */
static bool
take_rest(Peer *peer, PGresult **failed)
{
	while (!PQisBusy(peer->connection))
	{
		PGresult   *result = PQgetResult(peer->connection);

		if (result == NULL)
		{
			peer->promised = peer->stale = false;
			return true;
		}
		if (failed && *failed == NULL && PQresultStatus(result) == PGRES_FATAL_ERROR)
			*failed = result;
		else
			PQclear(result);
	}
	return false;
}

/* At the end of a transaction: what it was promised is no concern of the next one. */
void
leap_forget_promises(void)
{
	for (int i = 0; peers && i <= LEAP_MAX_NODES; i++)
		if (peers[i] && peers[i]->promised)
		{
			peers[i]->promised = false;
			peers[i]->stale = true;
		}
}

/* One that can be used, or is on its way. */
static void
freshen(Peer *peer)
{
	if (peer->stale && (!PQconsumeInput(peer->connection) || !take_rest(peer, NULL)))
		disconnect(peer);
	if (peer->connection && !peer->busy)
		drop_if_closed(peer);
	if (peer->connection && !peer->busy)
		drop_if_moved(peer);
	if (peer->busy)
		disconnect(peer);
	if (peer->connection == NULL)
		connect_to(peer);
}

/* The connection to a node; it may still be on its way. */
static Peer *
find_peer(int node)
{
	if (node < 1 || node > LEAP_MAX_NODES)
		elog(ERROR, "leap: no node %d", node);
	if (peers == NULL)
		peers = MemoryContextAllocZero(TopMemoryContext,
									   sizeof(Peer *) * (LEAP_MAX_NODES + 1));
	if (peers[node] == NULL)
	{
		peers[node] = MemoryContextAllocZero(TopMemoryContext, sizeof(Peer));
		peers[node]->node = node;
	}
	freshen(peers[node]);
	return peers[node];
}

#ifdef LS_DEBUG_CHECKS
/* The same message once more, on a connection of its own; its answer is lost. */
static void
send_twice(LeapCall *call)
{
	static PGconn *other = NULL;
	char	   *conninfo;

	(void) read_node(call->node, &conninfo);
	PQfinish(other);
	other = PQconnectdb(conninfo);
	if (PQstatus(other) == CONNECTION_OK)
		(void) PQsendQueryParams(other, call->sql, call->params, NULL, call->param, NULL, NULL, 0);
}

/* Messages that are late, doubled, or not answered. */
static void
make_chaos(LeapCall *call)
{
	Peer	   *peer = call->peer;

	if (leap_is_cut_off(call->node))
		refuse(peer, "cut off, for a test");
	if (leap_chaos == 0 || random() % 100 >= leap_chaos)
		return;
	switch (random() % 3)
	{
		case 0:
			pg_usleep(random() % 20000);
			break;
		case 1:
			send_twice(call);
			break;
		case 2:
			if (!peer->connecting &&
				PQsendQueryParams(peer->connection, call->sql, call->params, NULL, call->param,
								  NULL, NULL, 0))
				pg_usleep(random() % 5000);
			refuse(peer, "the answer was lost, for a test");
			break;
	}
}
#endif

static void
send_call(LeapCall *call)
{
	Peer	   *peer = call->peer;

	if (!(peer->prepared && strcmp(call->sql, LEAP_SQL_TAKE) == 0 ?
		  PQsendQueryPrepared(peer->connection, PREPARED_TAKE, call->params, call->param, NULL,
							  NULL, 0) :
		  PQsendQueryParams(peer->connection, call->sql, call->params, NULL, call->param, NULL,
							NULL, 0)))
		refuse(peer, PQerrorMessage(peer->connection));
	peer->busy = true;
	leap_count_message();
}

/* A server that does not know the function says so when it is called. */
static bool
go_on_preparing(Peer *peer)
{
	PGresult   *result;

	if (PQflush(peer->connection) < 0 || !PQconsumeInput(peer->connection))
		refuse(peer, PQerrorMessage(peer->connection));
	while (!PQisBusy(peer->connection))
	{
		result = PQgetResult(peer->connection);
		if (result == NULL)
		{
			peer->preparing = peer->connecting = false;
			return true;
		}
		peer->prepared = PQresultStatus(result) == PGRES_COMMAND_OK;
		PQclear(result);
	}
	return false;
}

/* One step towards a connection; true when there is one. */
static bool
go_on_connecting(Peer *peer)
{
	if (peer->preparing)
		return go_on_preparing(peer);
	peer->polling = PQconnectPoll(peer->connection);
	if (peer->polling == PGRES_POLLING_FAILED)
		refuse(peer, PQerrorMessage(peer->connection));
	if (peer->polling != PGRES_POLLING_OK)
		return false;
	if (PQsetnonblocking(peer->connection, 1) != 0)
		refuse(peer, PQerrorMessage(peer->connection));
	peer->connecting = !peer->is_for_rows;
	if (!peer->connecting)
		return true;
	peer->preparing = true;
	if (!PQsendPrepare(peer->connection, PREPARED_TAKE, LEAP_SQL_TAKE, 0, NULL))
		refuse(peer, PQerrorMessage(peer->connection));
	return false;
}

/* Takes what has come for a call; true when all of it has. */
static bool
advance(LeapCall *call)
{
	Peer	   *peer = call->peer;

	if (peer->connecting)
	{
		if (!go_on_connecting(peer))
			return false;
		send_call(call);
	}
	if (PQflush(peer->connection) < 0 || !PQconsumeInput(peer->connection))
		refuse(peer, PQerrorMessage(peer->connection));
	while (!PQisBusy(peer->connection))
	{
		PGresult   *result = PQgetResult(peer->connection);

		if (result == NULL)
		{
			peer->busy = false;
			leap_count_message();
			return true;
		}
		/* An error of the commit comes behind the rows. */
		if (call->result == NULL || PQresultStatus(result) == PGRES_FATAL_ERROR)
		{
			PQclear(call->result);
			call->result = result;
		}
		else
			PQclear(result);
		if (strcmp(call->sql, LEAP_SQL_TAKE) == 0 &&
			PQresultStatus(call->result) == PGRES_TUPLES_OK)
		{
			peer->busy = false;
			peer->promised = true;
			leap_count_message();
			return true;
		}
	}
	return false;
}

static uint32
wanted_events(Peer *peer)
{
	if (peer->connecting && !peer->preparing)
		return peer->polling == PGRES_POLLING_READING ? WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE;
	return PQflush(peer->connection) > 0 ? WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE :
		WL_SOCKET_READABLE;
}

/*
 * Waits for any of the peers, at most so many milliseconds, -1: without end.  A NULL is none.  Of
 * those that have something their places are told; returns how many.
 */
static int
wait_for_peers(Peer **list, int n, long timeout, int *ready)
{
	WaitEventSet *set = CreateWaitEventSet(CurrentResourceOwner, n + 2);
	WaitEvent  *event = palloc(sizeof(WaitEvent) * (n + 2));
	int			count;
	int			found = 0;

	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("LeapAnswer");
	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < n; i++)
		if (list[i])
			AddWaitEventToSet(set, wanted_events(list[i]), PQsocket(list[i]->connection), NULL,
							  &list[i]);
	count = WaitEventSetWait(set, timeout, event, n + 2, wait_event);
	FreeWaitEventSet(set);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	for (int i = 0; i < count; i++)
		if (event[i].user_data)
			ready[found++] = (int) ((Peer **) event[i].user_data - list);
	pfree(event);
	return found;
}

/* Waits for any of the calls, and takes what has come; returns how many have all of it. */
static int
wait_for_any(LeapCall *calls, int n, long timeout)
{
	Peer	  **list = palloc(sizeof(Peer *) * n);
	int		   *ready = palloc(sizeof(int) * n);
	int			count;
	int			done = 0;

	for (int i = 0; i < n; i++)
		list[i] = calls[i].done ? NULL : calls[i].peer;
	count = wait_for_peers(list, n, timeout, ready);
	for (int i = 0; i < count; i++)
		if (advance(&calls[ready[i]]))
		{
			calls[ready[i]].done = true;
			done++;
		}
	pfree(list);
	pfree(ready);
	return done;
}

static void
clear_results(void *argument)
{
	LeapCall   *calls = argument;

	for (; calls->sql; calls++)
	{
		PQclear(calls->result);
		calls->result = NULL;
	}
}

/* An error of the other node becomes one of this. */
static void
raise_error(Peer *peer, PGresult *result)
{
	char	   *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	char	   *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	char	   *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
	char	   *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);

	/* 57P01 to 57P05: the other server, or its process there, ends. */
	if (state == NULL || PQstatus(peer->connection) == CONNECTION_BAD ||
		(peer->is_for_rows && strncmp(state, "57P", 3) == 0))
		refuse(peer, PQresultErrorMessage(result));
	if (strcmp(state, "40001") == 0)
		leap_keep_timestamp();
	ereport(ERROR,
			(errcode(MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4])),
			 errmsg("leap node \"%s\": %s", peer->name, message ? message : ""),
			 detail ? errdetail("%s", detail) : 0,
			 hint ? errhint("%s", hint) : 0));
}

static void
raise_and_clear(Peer *peer, PGresult *result)
{
	PG_TRY();
	{
		raise_error(peer, result);
	}
	PG_FINALLY();
	{
		PQclear(result);
	}
	PG_END_TRY();
}

/*
 * LEAP-9: a transaction makes use of what it was given only if the gift is durable.  So it waits,
 * before it commits, until the nodes that gave have committed; an error of theirs is one of this.
 */
void
leap_await_promises(void)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), leap_timeout_ms);

	for (int i = 0; peers && i <= LEAP_MAX_NODES; i++)
	{
		Peer	   *peer = peers[i];

		while (peer && peer->promised)
		{
			long		timeout = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);
			PGresult   *failed = NULL;
			int			ready;

			if (!PQconsumeInput(peer->connection))
				refuse(peer, PQerrorMessage(peer->connection));
			if (take_rest(peer, &failed) && !failed)
				break;
			if (failed)
				raise_and_clear(peer, failed);
			if (timeout <= 0)
				refuse(peer, "no end of its commit within leap.timeout");
			(void) wait_for_peers(&peer, 1, timeout, &ready);
		}
	}
}

static void
start_calls(LeapCall *calls, int n)
{
	for (int i = 0; i < n; i++)
	{
		Peer	   *peer;

		if (calls[i].node >= 1 && calls[i].node <= LEAP_MAX_NODES && peers &&
			peers[calls[i].node] && peers[calls[i].node]->promised)
			leap_await_promises();
		peer = find_peer(calls[i].node);

		calls[i].peer = peer;
#ifdef LS_DEBUG_CHECKS
		make_chaos(&calls[i]);
#endif
		if (!peer->connecting)
			send_call(&calls[i]);
	}
}

/*
 * Makes all calls at once, to a node at most one, and waits for all of them.  The results live as
 * long as the current memory context.  An error of any is raised when all have answered: none is
 * left half read.
 */
void
leap_call_all(LeapCall *calls, int n)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), leap_timeout_ms);
	LeapCall   *list = palloc0(sizeof(LeapCall) * (n + 1));
	MemoryContextCallback *callback = palloc(sizeof(MemoryContextCallback));
	int			left = n;
	/* unsigned: gcc 14 warns of the copies that a negative number would make */
	Size		size = sizeof(LeapCall) * (unsigned int) n;

	memcpy(list, calls, size);
	callback->func = clear_results;
	callback->arg = list;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
	start_calls(list, n);
	while (left > 0)
	{
		long		timeout = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);

		for (int i = 0; i < n && timeout <= 0; i++)
			if (!list[i].done)
				refuse(list[i].peer, "no answer within leap.timeout");
		left -= wait_for_any(list, n, timeout);
	}
	memcpy(calls, list, size);
	for (int i = 0; i < n; i++)
		if (PQresultStatus(calls[i].result) != PGRES_TUPLES_OK &&
			PQresultStatus(calls[i].result) != PGRES_COMMAND_OK)
			raise_error(calls[i].peer, calls[i].result);
}

/* --- Rows of scans --- */

/* A connection for a stream, which may still be on its way. */
static void
open_stream(LeapStream *stream)
{
	int			node = stream->node;
	Peer	   *peer = idle[node];

	idle[node] = NULL;
	if (peer == NULL)
	{
		peer = MemoryContextAllocZero(TopMemoryContext, sizeof(Peer));
		peer->node = node;
		peer->is_for_rows = true;
	}
	stream->peer = peer;
	freshen(peer);
#ifdef LS_DEBUG_CHECKS
	if (leap_is_cut_off(node))
		refuse(peer, "cut off, for a test");
#endif
}

static void
close_stream(LeapStream *stream)
{
	Peer	   *peer = stream->peer;

	PQclear(stream->result);
	stream->result = NULL;
	stream->peer = NULL;
	if (peer == NULL)
		return;
	if (peer->connection && !peer->busy && idle[peer->node] == NULL)
	{
		idle[peer->node] = peer;
		return;
	}
	disconnect(peer);
	if (peer->conninfo)
		pfree(peer->conninfo);
	pfree(peer);
}

/* What is not at its end is cut off.  Raises no error. */
void
leap_streams_close(LeapStream *streams, int n)
{
	for (int i = 0; i < n; i++)
		close_stream(&streams[i]);
}

/* Waits for any stream, or only for those of which the connection is on its way. */
static void
wait_for_streams(LeapStream *streams, int n, long timeout, bool only_connecting)
{
	Peer	  **list = palloc(sizeof(Peer *) * n);
	int		   *ready = palloc(sizeof(int) * n);
	int			count;

	for (int i = 0; i < n; i++)
	{
		list[i] = streams[i].peer;
		if (only_connecting && !list[i]->connecting)
			list[i] = NULL;
	}
	count = wait_for_peers(list, n, timeout, ready);
	for (int i = 0; i < count; i++)
	{
		Peer	   *peer = list[ready[i]];

		if (peer->connecting)
			(void) go_on_connecting(peer);
		else if (PQflush(peer->connection) < 0 || !PQconsumeInput(peer->connection))
			refuse(peer, PQerrorMessage(peer->connection));
	}
	pfree(list);
	pfree(ready);
}

/*
 * All nodes are asked at once, by one statement.  A node is away if it cannot be connected to
 * within leap.timeout; for rows there is no such limit.  Close the streams, after an error, too.
 */
void
leap_streams_open(LeapStream *streams, int n, const char *sql, int params,
				  const char *const *param)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), leap_timeout_ms);

	for (int i = 0; i < n; i++)
		open_stream(&streams[i]);
	for (;;)
	{
		long		timeout = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);
		Peer	   *late = NULL;

		for (int i = 0; i < n; i++)
			if (((Peer *) streams[i].peer)->connecting)
				late = streams[i].peer;
		if (late == NULL)
			break;
		if (timeout <= 0)
			refuse(late, "no connection within leap.timeout");
		wait_for_streams(streams, n, timeout, true);
	}
	for (int i = 0; i < n; i++)
	{
		Peer	   *peer = streams[i].peer;

		if (!PQsendQueryParams(peer->connection, sql, params, NULL, param, NULL, NULL, 0) ||
			!PQsetChunkedRowsMode(peer->connection, CHUNK) || PQflush(peer->connection) < 0)
			refuse(peer, PQerrorMessage(peer->connection));
		peer->busy = true;
		leap_count_message();
	}
}

/* Takes the next rows of a stream if they have come.  One that is at its end is closed. */
static bool
take_rows(LeapStream *stream)
{
	Peer	   *peer = stream->peer;

	while (peer && !PQisBusy(peer->connection))
	{
		PQclear(stream->result);
		stream->result = PQgetResult(peer->connection);
		stream->row = 0;
		if (stream->result == NULL)
		{
			peer->busy = false;
			leap_count_message();
			close_stream(stream);
			return false;
		}
		if (PQresultStatus(stream->result) != PGRES_TUPLES_CHUNK &&
			PQresultStatus(stream->result) != PGRES_TUPLES_OK)
			raise_error(peer, stream->result);
		if (PQntuples(stream->result) > 0)
			return true;
	}
	return false;
}

/* A stream with rows that have not been read, or NULL: all are at their end. */
LeapStream *
leap_streams_next(LeapStream *streams, int n)
{
	for (;;)
	{
		bool		is_open = false;

		for (int i = 0; i < n; i++)
		{
			if (streams[i].row < PQntuples(streams[i].result) || take_rows(&streams[i]))
				return &streams[i];
			is_open |= streams[i].peer != NULL;
		}
		if (!is_open)
			return NULL;
		wait_for_streams(streams, n, -1, false);
	}
}

/* --- SQL --- */

PG_FUNCTION_INFO_V1(leap_call);

/* leap.call(node, sql, params): rows of a statement on another node; one column, as text. */
Datum
leap_call(PG_FUNCTION_ARGS)
{
	LeapCall	call = {.node = PG_GETARG_INT32(0),.sql = text_to_cstring(PG_GETARG_TEXT_PP(1))};
	ArrayType  *params = PG_GETARG_ARRAYTYPE_P(2);
	ArrayBuildState *rows = initArrayResult(TEXTOID, CurrentMemoryContext, false);
	Datum	   *param;
	bool	   *null;

	deconstruct_array(params, TEXTOID, -1, false, TYPALIGN_INT, &param, &null, &call.params);
	if (call.params > lengthof(call.param))
		elog(ERROR, "leap: %d parameters", call.params);
	for (int i = 0; i < call.params; i++)
		call.param[i] = null[i] ? NULL : TextDatumGetCString(param[i]);
	leap_call_all(&call, 1);
	LEAP_STEP("settle_called");
	for (int i = 0; i < PQntuples(call.result); i++)
		rows = accumArrayResult(rows, CStringGetTextDatum(PQgetvalue(call.result, i, 0)),
								PQgetisnull(call.result, i, 0), TEXTOID, CurrentMemoryContext);
	PG_RETURN_DATUM(makeArrayResult(rows, CurrentMemoryContext));
}
