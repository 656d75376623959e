/*
 * ls_guc.c - the settings, leanstore.*
 *
 * Most of them size shared memory or the engine's threads, so they are read once,
 * at server start.
 */
#include "postgres.h"

#include "ls_session_internal.h"

#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/plancache.h"

int			ls_buffer_pool_size_mb = 512;
int			ls_compressed_cache_percent = 25;
int			ls_eviction_threads = 1;
int			ls_log_buffer_size_kb = 1024;
int			ls_wal_segment_size_mb = 16;
int			ls_max_wal_size_mb = 1024;
int			ls_checkpoint_timeout_s = 300;
int			ls_max_open_relations = 16384;
int			ls_version_trees = 16;
int			ls_range_lock_memory_kb = 16 * 1024;
bool		ls_direct_io = true;
int			ls_which_log = LS_LOG_ENGINE;
int			ls_default_index = LS_DEFAULT_INDEX_LEANSTORE;
bool		ls_replace_btree = true;
bool		ls_show_indexes_as_btree = false;
bool		ls_count_remote_waits = false;
int			ls_sequence_log_values = 10000;
char	   *ls_trace_values = "";
int			ls_trace_values_size_kb = 1024 * 1024;
bool		ls_share_values = true;
int			ls_value_move_rate_kb = 64 * 1024;
int			ls_value_move_percent = 50;
int			ls_value_free_percent = 20;

static const struct config_enum_entry default_index_options[] = {
	{"leanstore", LS_DEFAULT_INDEX_LEANSTORE, false},
	{"btree", LS_DEFAULT_INDEX_BTREE, false},
	{NULL, 0, false}
};

static const struct config_enum_entry log_options[] = {
	{"engine", LS_LOG_ENGINE, false},
	{"wal", LS_LOG_WAL, false},
	{NULL, 0, false}
};

static bool
check_power_of_two(int *newval, void **extra, GucSource source)
{
	if ((*newval & (*newval - 1)) == 0)
		return true;
	GUC_check_errdetail("The value must be a power of two.");
	return false;
}

/* Statements that are planned already show what the setting said then. */
static void
replan_all(bool newval, void *extra)
{
	if (newval != ls_show_indexes_as_btree)
		ResetPlanCache();
}

/* A name of a file in one directory, never a path.  "off" would be a trace, so it is none. */
static bool
check_trace_name(char **newval, void **extra, GucSource source)
{
	const char *name = *newval;
	bool		ignored;

	if (name[0] == '\0')
		return true;
	if (strlen(name) >= NAMEDATALEN ||
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") !=
		strlen(name))
	{
		GUC_check_errdetail("A trace is named by at most %d letters, digits, \"_\" and \"-\".",
							NAMEDATALEN - 1);
		return false;
	}
	if (parse_bool(name, &ignored))
	{
		GUC_check_errdetail("A trace needs a name that does not mean on or off; "
							"the empty one turns tracing off.");
		return false;
	}
	return true;
}

/* Pages in memory. */
static void
define_pool(void)
{
	DefineCustomIntVariable("leanstore.buffer_pool_size",
							"Memory for pages of leanstore tables and indexes.",
							"Reserved in shared memory at server start; leanstore relations do not "
							"use shared_buffers.",
							&ls_buffer_pool_size_mb, 512, 1, 16 * 1024 * 1024,
							PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);

	DefineCustomIntVariable("leanstore.compressed_cache_percent",
							"Percentage of the buffer pool that may hold evicted pages in "
							"compressed form.",
							"Taken only while pages have to be evicted and are wanted again; "
							"0 turns it off.",
							&ls_compressed_cache_percent, 25, 0, 50,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("leanstore.eviction_threads",
							"Number of threads that keep page frames free and write changed pages.",
							NULL,
							&ls_eviction_threads, 1, 1, 3,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("leanstore.direct_io",
							 "Reads and writes pages, and writes the log, "
							 "past the operating system's cache.",
							 "Pages are then cached once, in the buffer pool; the log is written "
							 "so, too.  File systems without direct I/O are used buffered.",
							 &ls_direct_io, true,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("leanstore.max_open_relations",
							"Number of leanstore relations that can be open at one time.",
							"Idle ones are closed to make room.  Each takes about 300 bytes of "
							"shared memory and keeps its first page in the buffer pool.",
							&ls_max_open_relations, 16384, 64, 1024 * 1024,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
}

/* The log, and what it is kept for. */
static void
define_log(void)
{
	DefineCustomEnumVariable("leanstore.log",
							 "Log that makes changes of leanstore tables durable.",
							 "The engine's own, or the server's WAL.  It can be changed when the "
							 "server was shut down cleanly.",
							 &ls_which_log, LS_LOG_ENGINE, log_options,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("leanstore.log_buffer_size",
							"Log buffer of each backend.",
							"A power of two.  Shared memory is reserved for all possible backends, "
							"and used by as many as run at a time.",
							&ls_log_buffer_size_kb, 1024, 64, 32 * 1024,
							PGC_POSTMASTER, GUC_UNIT_KB, check_power_of_two, NULL, NULL);

	DefineCustomIntVariable("leanstore.wal_segment_size",
							"Size of one file of the engine's log.",
							"Fixed when the engine's files are first created.",
							&ls_wal_segment_size_mb, 16, 1, 1024,
							PGC_POSTMASTER, GUC_UNIT_MB, check_power_of_two, NULL, NULL);

	DefineCustomIntVariable("leanstore.max_wal_size",
							"Size of the engine's log that makes a checkpoint due.",
							"A soft limit: a long transaction keeps its log until it ends.",
							&ls_max_wal_size_mb, 1024, 32, 1024 * 1024,
							PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);

	DefineCustomIntVariable("leanstore.checkpoint_timeout",
							"Longest time between checkpoints of the engine.",
							NULL,
							&ls_checkpoint_timeout_s, 300, 1, 86400,
							PGC_POSTMASTER, GUC_UNIT_S, NULL, NULL, NULL);

	DefineCustomBoolVariable("leanstore.count_remote_waits",
							 "Counts commits that would wait for another session's log, "
							 "were each log flushed alone.",
							 "See leanstore_stat_wal.log_remote_by_page and "
							 "log_remote_by_transaction; takes a little time per row.",
							 &ls_count_remote_waits, false,
							 PGC_SUSET, 0, NULL, ls_assign_count_remote_waits, NULL);

	DefineCustomIntVariable("leanstore.sequence_log_values",
							"Values of a sequence that are logged ahead by transactions that write "
							"leanstore tables.",
							"PostgreSQL logs 32 at a time, and a transaction that does so waits "
							"for both logs.  A crash may skip as many values.",
							&ls_sequence_log_values, 10000, 0, 1000 * 1000,
							PGC_USERSET, 0, NULL, NULL, NULL);
}

/* What transactions need in shared memory. */
static void
define_transactions(void)
{
	DefineCustomIntVariable("leanstore.version_trees",
							"Number of partitions of the store of old row versions.",
							"More partitions let more concurrent writers keep out of each "
							"other's way.",
							&ls_version_trees, 16, 1, 64,
							PGC_POSTMASTER, 0, check_power_of_two, NULL, NULL);

	DefineCustomIntVariable("leanstore.range_lock_memory",
							"Memory for the ranges that SERIALIZABLE transactions lock.",
							"Reserved in shared memory at server start.",
							&ls_range_lock_memory_kb, 16 * 1024, 64, 1024 * 1024,
							PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
}

/* What is stored out of line: row/ls_value.c, row/ls_value_trace.c. */
static void
define_values(void)
{
	DefineCustomBoolVariable("leanstore.share_values",
							 "Stores the same bytes of large values of a table once.",
							 "Values that are stored while it is off are not found by later ones.",
							 &ls_share_values, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("leanstore.value_move_rate",
							"Bytes of large values that are moved in a second to make files "
							"shorter.",
							"0: none are moved, and files stay as long as they were.",
							&ls_value_move_rate_kb, 64 * 1024, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);

	DefineCustomIntVariable("leanstore.value_move_percent",
							"Percentage of all that is written that moved values may be, while "
							"sessions write.",
							"100: only leanstore.value_move_rate counts.",
							&ls_value_move_percent, 50, 1, 100,
							PGC_SIGHUP, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("leanstore.value_free_percent",
							"Free space that makes a file of large values due to become shorter, "
							"as a percentage of what is in use.",
							NULL,
							&ls_value_free_percent, 20, 10, 10000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);

	DefineCustomStringVariable("leanstore.trace_values",
							   "Name of the trace of values that are stored out of line "
							   "and deleted.",
							   "A file in leanstore/traces in the data directory, for the "
							   "simulator in bench/values; empty: none is written.",
							   &ls_trace_values, "",
							   PGC_SUSET, 0, check_trace_name, NULL, NULL);

	DefineCustomIntVariable("leanstore.trace_values_size",
							"Size at which a trace of values ends.",
							NULL,
							&ls_trace_values_size_kb, 1024 * 1024, 1, INT_MAX,
							PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
}

/* Indexes and how they are shown. */
static void
define_indexes(void)
{
	DefineCustomEnumVariable("leanstore.default_index",
							 "Access method of keys and indexes of leanstore tables for which "
							 "none is named.",
							 "Columns that a leanstore index cannot have get a btree in any case.",
							 &ls_default_index, LS_DEFAULT_INDEX_LEANSTORE, default_index_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("leanstore.replace_btree",
							 "Makes indexes of their table's kind where another is named that "
							 "serves the same.",
							 "USING btree makes leanstore indexes of leanstore tables,"
							 " USING leanstore btree indexes of other ones.",
							 &ls_replace_btree, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable("leanstore.show_indexes_as_btree",
							 "Shows leanstore indexes as btree indexes to queries of the catalogs.",
							 "For clients that know the server's own access methods only.",
							 &ls_show_indexes_as_btree, false,
							 PGC_USERSET, 0, NULL, replan_all, NULL);
}

void
ls_define_settings(void)
{
	define_pool();
	define_log();
	define_transactions();
	define_indexes();
	define_values();
	MarkGUCPrefixReserved("leanstore");
}
