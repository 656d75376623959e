/*
 * ls_leap.h - what the files of leanstore_leap share.
 *
 * A family is a set of tables that share a key; the rows of all its tables with one key are a
 * unit, which has one owner among the nodes.  docs/decisions/0051-leap.md tells the protocol, with
 * the invariants LEAP-1 to LEAP-9.
 */
#ifndef LS_LEAP_H
#define LS_LEAP_H

#include "postgres.h"

#include "access/attnum.h"
#include "executor/execdesc.h"
#include "executor/spi.h"
#include "nodes/pg_list.h"
#include "nodes/plannodes.h"
#include "storage/lock.h"
#include "utils/array.h"
#include "utils/timestamp.h"

/* Columns of a key, nodes of a cluster, redirections of one request: limits. */
#define LEAP_MAX_COLUMNS 4
#define LEAP_MAX_NODES 1023
#define LEAP_MAX_HOPS 16

/* One table of a family. */
typedef struct LeapMember
{
	struct LeapFamily *family;
	Oid			relation;
	int			ordinal;		/* parents come before children */
	int			columns;
	AttrNumber	attnum[LEAP_MAX_COLUMNS];
	Oid			type[LEAP_MAX_COLUMNS];
	char	   *take;			/* statement that deletes a unit's rows and returns them as text */
	char	   *put;			/* statement that inserts such rows */
} LeapMember;

typedef struct LeapFamily
{
	int			id;
	bool		is_frozen;		/* its homes are being changed: no key moves, or is taken for use */
	int			home_columns;	/* by so many columns of the key it has its home; 0: by all */
	int			buckets;
	int		   *home;			/* node of each bucket */
	int			members;
	LeapMember *member;
} LeapFamily;

/* What this node knows of a key: its row of leap.key, or the default where there is none. */
typedef struct LeapState
{
	bool		known;			/* there is a row */
	int			owner;			/* node, 0 if this node cannot tell */
	int64		epoch;
	bool		has_payload;	/* rows given away, not known to have arrived */
	char	   *payload;		/* as text of a text[], only where it was asked for */
	TimestampTz since;
} LeapState;

/* A key that a statement, or another node, wants. */
typedef struct LeapWanted
{
	LeapFamily *family;
	char	   *key;
	uint64		hash;
	LeapState	state;
	/* While it is being fetched: */
	int			target;			/* node to be asked next */
	int64		told;			/* since which epoch that node is said to own it, 0: not said */
	int64		floor;			/* only a gift of a later epoch counts: LEAP-3 */
	int			hops;
	bool		fetched;
	int64		epoch;			/* of the gift */
	char	   *payload;
} LeapWanted;

/* A call of a function on another node. */
typedef struct LeapCall
{
	int			node;
	const char *sql;
	int			params;
	const char *param[6];
	struct pg_result *result;	/* freed with the memory context of leap_call_all() */
	void	   *peer;			/* connection while it runs */
	bool		done;
} LeapCall;

/* Rows of a statement on another node, as they come; all zero but for the node before it starts. */
typedef struct LeapStream
{
	int			node;
	void	   *peer;			/* connection; NULL: not open, or all rows have come */
	struct pg_result *result;	/* rows that have come last, one column each */
	int			row;			/* of them, that is read next */
	uint64		rows;			/* read so far */
} LeapStream;

/* Internal statements run as the bootstrap superuser, with pg_catalog alone as search path. */
typedef struct LeapInside
{
	Oid			user;
	int			security;
	int			guc_level;
	int			outer_level;
} LeapInside;

typedef enum LeapCounter
{
	LEAP_MESSAGES,				/* sent to other nodes, and answers received */
	LEAP_SETTLING,				/* of them those of the worker, which no transaction waits for */
	LEAP_ROUNDS,				/* of requests: a message and its answer, to each node at once */
	LEAP_TAKEN,					/* units that came here */
	LEAP_GIVEN,					/* units that left */
	LEAP_RESENT,				/* gifts that were asked for again */
	LEAP_REDIRECTED,			/* requests that another node was named for */
	LEAP_WAITED,				/* locks of keys that were waited for */
	LEAP_DIED,					/* waits refused by Wait-Die */
	LEAP_CALLED,				/* calls that went to their keys */
	LEAP_COUNTERS
} LeapCounter;

/* Errors that a test plants, which its checker has to find. */
typedef enum LeapPlanted
{
	LEAP_PLANT_NOTHING,
	LEAP_PLANT_FORGET_PAYLOAD,	/* a hand-over keeps no rows for a second request */
	LEAP_PLANT_IGNORE_EPOCHS,	/* a gift is accepted whatever its epoch: twice, too */
	LEAP_PLANT_KEEP_ROWS,		/* a hand-over copies rows, and does not delete them */
	LEAP_PLANT_NO_LOCK,			/* a hand-over does not wait for transactions that use the key */
	LEAP_PLANT_SAME_EPOCH,		/* a gift that is passed on keeps its epoch */
	LEAP_PLANT_OLD_SNAPSHOT,	/* a statement keeps the snapshot of before its keys came */
	LEAP_PLANT_KEEP_HELD,		/* a rolled back subtransaction's locks are thought to be held */
	LEAP_PLANT_OWN_ABSENT,		/* a node takes keys that it knows nothing of for its own */
	LEAP_PLANT_TELL_EARLY,		/* homes are told of keys before the transaction has committed */
	LEAP_PLANT_LOSE_CHILDREN	/* the last table's rows of a family stay behind */
} LeapPlanted;

/* Steps at which a test may kill the process or have it sleep, and more; debug builds only. */
#ifdef LS_DEBUG_CHECKS
extern int	leap_planted;
extern int	leap_chaos;
extern void leap_step(const char *name);
extern bool leap_is_cut_off(int node);
#define LEAP_STEP(name) leap_step(name)
#define LEAP_IS_PLANTED(name) (leap_planted == LEAP_PLANT_##name)
#else
#define LEAP_STEP(name) ((void) 0)
#define LEAP_IS_PLANTED(name) false
#endif

/* ls_leap_module.c */
extern int	leap_timeout_ms;
extern int	leap_minimum_hold_ms;
extern char *leap_database;
extern int	leap_delegation;

typedef enum LeapDelegation
{
	LEAP_DELEGATION_AUTO,
	LEAP_DELEGATION_NEVER,
	LEAP_DELEGATION_ALWAYS
} LeapDelegation;
extern int	leap_settle_interval_ms;
extern bool leap_is_inside(void);
extern void leap_enter(LeapInside *inside);
extern void leap_leave(LeapInside *inside);
extern void leap_forget_inside(int level);

/* ls_leap_shared.c */
extern void leap_shared_install(void);
extern void leap_count_message(void);
extern void leap_count(LeapCounter counter, int n);
extern void leap_set_timestamp(uint64 timestamp);
extern uint64 leap_timestamp(void);
extern void leap_keep_timestamp(void);
extern void leap_end_timestamp(bool committed);
extern bool leap_lock_key(uint64 hash, LOCKMODE mode);
extern void leap_unlock_key(uint64 hash, LOCKMODE mode);
extern bool leap_try_lock_key(uint64 hash, LOCKMODE mode);
extern uint32 leap_generation(uint64 hash);
extern void leap_change_generation(uint64 hash);
extern void leap_note_use(uint64 hash);
extern void leap_note_fetch(uint64 hash);
extern bool leap_should_call(uint64 hash);
extern void leap_wake_worker(void);
extern void leap_register_worker_latch(void);

/* ls_leap_table.c */
extern void leap_select_own(const char *sql, int argument);
extern int	leap_self(void);
extern LeapMember *leap_member_of(Oid relation);
extern LeapFamily *leap_family(int id);
extern bool leap_refresh_families(LeapWanted *wanted, int n);
extern int	leap_home(LeapFamily *family, const char *key);
extern uint64 leap_hash(LeapFamily *family, const char *key);
extern char *leap_key_text(LeapMember *member, char **parts);
extern char *leap_canonical_key(LeapMember *member, const char *text);
extern void leap_table_install(void);
extern void leap_table_at_end(void);
extern uint32 leap_families_version(void);
extern uint32 leap_changes(void);
extern int	leap_other_nodes(int **nodes);

/* ls_leap_cache.c */
extern bool leap_cache_has(LeapWanted *wanted);
extern void leap_cache_add(LeapWanted *wanted);

/* ls_leap_store.c */
extern void leap_read(LeapWanted *wanted, int n, bool payload);
extern bool leap_snapshot_agrees(LeapWanted *wanted, int n, Snapshot snapshot);
extern void leap_write(LeapWanted *wanted, int owner, int64 epoch, const char *payload);
extern char *leap_take_rows(LeapWanted *wanted);
extern void leap_put_rows(LeapWanted *wanted);

/* ls_leap_peer.c */
#define LEAP_SQL_TAKE "SELECT * FROM leap.peer_take($1::int, $2::bigint, $3::int, $4::text[]," \
	" $5::bigint[])"
extern void leap_call_all(LeapCall *calls, int n);
extern void leap_drop_busy_peers(void);
extern void leap_await_promises(void);
extern void leap_forget_promises(void);
extern const char *leap_node_name(int node);
extern void leap_streams_open(LeapStream *streams, int n, const char *sql, int params,
							  const char *const *param);
extern LeapStream *leap_streams_next(LeapStream *streams, int n);
extern void leap_streams_close(LeapStream *streams, int n);

/* ls_leap_own.c */
extern void leap_own(LeapWanted *wanted, int n, Snapshot snapshot);
extern void leap_fetch(LeapWanted *wanted, int n);
extern void leap_init_wanted(LeapWanted *wanted, LeapFamily *family, char *key);
extern void leap_own_at_end(bool committed);
extern void leap_own_at_subend(bool committed, int level);
extern bool leap_has_accepted(void);
extern bool leap_holds_keys(void);
extern int	leap_own_texts(LeapFamily *family, ArrayType *keys);
extern LeapWanted *leap_read_keys(Oid relation, ArrayType *keys, int *n);
extern int	leap_compare_wanted(const void *a, const void *b);

/* ls_leap_give.c */
extern bool leap_has_given;

/* ls_leap_plan.c */
typedef enum LeapScans
{
	LEAP_SCANS_REFUSE,
	LEAP_SCANS_LOCAL,
	LEAP_SCANS_ALL
} LeapScans;

extern int	leap_scans;

/* While a scan of another node starts here, its table: no key of it is fetched for the scan. */
extern Oid	leap_read_for_peer;
extern LeapWanted *leap_keys_of_query(QueryDesc *query, int *n);
extern bool leap_names_keys(LeapMember *member, Index relid, List *clauses);

/* ls_leap_scan.c */
extern void leap_scan_install(void);
extern void leap_scan_set(int scans);
extern bool leap_is_scan(Plan *plan);

/* ls_leap_worker.c */
extern void leap_worker_install(void);

#endif							/* LS_LEAP_H */
