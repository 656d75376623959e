/*
 * ls_utility.c - utility commands that work on files behind the engine's back.
 *
 * CREATE DATABASE from a template, ALTER DATABASE ... SET TABLESPACE and DROP
 * DATABASE copy, move and remove the files of a database.  Before that the engine's
 * changed pages have to be in them, and from then on nothing may change or write
 * them any more: the engine closes the database.  It has to happen when no session is
 * connected and none can come, and loses nothing if the command fails later.
 *
 * The block-by-block strategy of CREATE DATABASE reads through shared buffers and
 * would refuse the engine's pages, so file_copy is chosen for a template that has some,
 * unless the user asked for something.  For others the server chooses: libraries below
 * may refuse what was not asked for, as Citus does.
 */
#include "postgres.h"

#include "ls_ddl_internal.h"
#include "session/ls_session.h"
#include "relation/ls_relation.h"
#include "txn/ls_txn.h"
#include "index/ls_index.h"
#include "table/ls_table.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_database.h"
#include "catalog/pg_subscription.h"
#include "catalog/toasting.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "replication/slot.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/injection_point.h"
#include "utils/lsyscache.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

ProcessUtility_hook_type ls_utility_below_process = NULL;
object_access_hook_type ls_utility_below_access = NULL;

/* The template of the CREATE DATABASE that is running, or "". */
static char template_name[NAMEDATALEN];

/* Has the DROP DATABASE that is running the option FORCE? */
static bool drop_by_force;

static void
close_database(Oid database)
{
	ls_error	error = {0};
	ls_status	status;

	/* nothing of it was ever opened */
	if (ls_shared->from_backup)
		return;
	ls_twophase_settle_all();
	LS_CALL(status, ls_database_close(ls_reader(), database, &error));
	ls_check(status, error, NULL);
}

/* DROP DATABASE refuses these, and must not have ended sessions before. */
static bool
may_not_be_dropped(Oid database)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	bool		is_template = HeapTupleIsValid(tuple) &&
					   ((Form_pg_database) GETSTRUCT(tuple))->datistemplate;
	int			slots;
	int			active_slots;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	(void) ReplicationSlotsCountDBSlots(database, &slots, &active_slots);
	return is_template || active_slots > 0 || CountDBSubscriptions(database) > 0;
}

static void
refuse_busy_database(Oid database, const char *what, const char *name)
{
	int			others;
	int			prepared;

	if (CountOtherDBBackends(database, &others, &prepared))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("%s \"%s\" is being accessed by other users", what, name),
				 errdetail("There are %d other sessions and %d prepared transactions using "
						   "the database.", others, prepared)));
}

/*
 * DROP DATABASE has locked the database, and is about to look whether sessions are connected.  What
 * it will refuse for another reason is left to it.  Libraries below have ended their workers there
 * by now, as Citus does.
 */
static void
close_dropped_database(Oid database)
{
	if (database == MyDatabaseId || may_not_be_dropped(database))
		return;
	if (drop_by_force)
		TerminateOtherDBBackends(database);
	refuse_busy_database(database, "database", get_database_name(database));
	close_database(database);
}

/*
 * Lock a database as SET TABLESPACE is about to do, and close it.  What that will refuse for
 * another reason is left to it.
 */
static void
lock_and_close_database(const char *name)
{
	Oid			database;

	/* Again if another database has got the name before this backend had the lock. */
	for (;;)
	{
		database = get_database_oid(name, true);
		if (!OidIsValid(database) || database == MyDatabaseId ||
			!object_ownercheck(DatabaseRelationId, database, GetUserId()))
			return;
		LockSharedObject(DatabaseRelationId, database, 0, AccessExclusiveLock);
		if (get_database_oid(name, true) == database)
			break;
		UnlockSharedObject(DatabaseRelationId, database, 0, AccessExclusiveLock);
	}
	refuse_busy_database(database, "database", name);
	close_database(database);
	ls_database_check_copy(database, name);
}

/* Any role may copy a template, only its owner another database. */
static bool
may_be_copied(Oid database)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	const bool	is_template = HeapTupleIsValid(tuple) &&
		((Form_pg_database) GETSTRUCT(tuple))->datistemplate;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return is_template || object_ownercheck(DatabaseRelationId, database, GetUserId());
}

/*
 * Has the template files of the engine?  It is locked against newcomers, as CREATE DATABASE is
 * about to do, and closed, so that they are on disk.  What the server will refuse is left to it.
 */
static bool
template_has_ours(const char *name)
{
	Oid			template;

	if (!have_createdb_privilege())
		return false;
	for (;;)
	{
		template = get_database_oid(name, true);
		if (!OidIsValid(template))
			return false;
		LockSharedObject(DatabaseRelationId, template, 0, ShareLock);
		if (get_database_oid(name, true) == template)
			break;
		UnlockSharedObject(DatabaseRelationId, template, 0, ShareLock);
	}
	if (!may_be_copied(template))
		return false;
	refuse_busy_database(template, "source database", name);
	close_database(template);
	return ls_database_may_have_ours(template);
}

static void
prepare_createdb(CreatedbStmt *stmt)
{
	const char *template = "template1";
	bool		has_strategy = false;

	foreach_node(DefElem, option, stmt->options)
	{
		if (strcmp(option->defname, "template") == 0 && option->arg != NULL)
			template = defGetString(option);
		else if (strcmp(option->defname, "strategy") == 0)
			has_strategy = true;
	}
	strlcpy(template_name, template, sizeof(template_name));
	if (!has_strategy && strcmp(template, "template0") != 0 && template_has_ours(template))
		stmt->options = lappend(stmt->options,
								makeDefElem("strategy", (Node *) makeString("file_copy"), -1));
}

void
ls_utility_object_access(ObjectAccessType access, Oid class_id, Oid object_id,
						 int sub_id, void *arg)
{
	if (ls_utility_below_access)
		ls_utility_below_access(access, class_id, object_id, sub_id, arg);

	if (access == OAT_POST_CREATE && class_id == RelationRelationId && sub_id == 0)
	{
		ls_index_take_over_key(object_id);
		ls_index_check_classes(object_id);
	}

	if (access == OAT_DROP && class_id == DatabaseRelationId)
		close_dropped_database(object_id);

	/*
	 * CREATE DATABASE has made the catalog entry and is about to copy.  By now it has
	 * locked its template against newcomers and made sure that no session is there.
	 */
	if (access == OAT_POST_CREATE && class_id == DatabaseRelationId && template_name[0] != '\0')
	{
		const Oid	template = get_database_oid(template_name, false);

		close_database(template);
		ls_database_check_copy(template, template_name);
	}
}

static bool
ends_prepared(const Node *parsetree)
{
	const TransactionStmt *statement = (const TransactionStmt *) parsetree;

	return IsA(parsetree, TransactionStmt) &&
		   (statement->kind == TRANS_STMT_COMMIT_PREPARED ||
			statement->kind == TRANS_STMT_ROLLBACK_PREPARED);
}

/*
 * A table that has become one of ours may need a TOAST table that it did not need before.  The
 * server asks before it changes the access method.
 */
static void
finish_alter_table(Node *parsetree)
{
	AlterTableStmt *statement = (AlterTableStmt *) parsetree;
	bool		changes_am = false;
	Oid			relid;
	char		relkind;

	if (!IsA(parsetree, AlterTableStmt))
		return;
	foreach_node(AlterTableCmd, command, statement->cmds)
		changes_am |= command->subtype == AT_SetAccessMethod;
	if (!changes_am)
		return;
	relid = RangeVarGetRelid(statement->relation, NoLock, true);
	relkind = OidIsValid(relid) ? get_rel_relkind(relid) : '\0';
	if ((relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW) ||
		get_rel_relam(relid) != ls_table_am_oid())
		return;
	AlterTableCreateToastTable(relid, (Datum) 0, AccessExclusiveLock);
	CommandCounterIncrement();
}

/* What a hook of ProcessUtility() is called with. */
typedef struct UtilityCall
{
	PlannedStmt *pstmt;
	const char *query;
	bool		read_only_tree;
	ProcessUtilityContext context;
	ParamListInfo params;
	QueryEnvironment *env;
	DestReceiver *dest;
	QueryCompletion *qc;
} UtilityCall;

static void
call_below(const UtilityCall *c)
{
	if (ls_utility_below_process)
		ls_utility_below_process(c->pstmt, c->query, c->read_only_tree, c->context, c->params,
								 c->env, c->dest, c->qc);
	else
		standard_ProcessUtility(c->pstmt, c->query, c->read_only_tree, c->context, c->params,
								c->env, c->dest, c->qc);
}

/*
 * TRUNCATE empties a file that the same subtransaction has made where it is, and the server's WAL
 * says so for table and indexes: replayed after a crash that empties files which the engine has
 * filled since, and of which its own log has not everything any more.  In a subtransaction of its
 * own the relations get new files.
 */
static void
truncate_below(const UtilityCall *call)
{
	MemoryContext memory = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(memory);
	PG_TRY();
	{
		call_below(call);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(memory);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(memory);
		CurrentResourceOwner = owner;
		ReThrowError(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(memory);
	CurrentResourceOwner = owner;
}

static void
end_prepared_below(const UtilityCall *call)
{
	ls_twophase_before_end();
	call_below(call);
	INJECTION_POINT("leanstore-end-prepared", NULL);
	/* it has ended: an error would say something else */
	HOLD_INTERRUPTS();
	ls_twophase_settle_all();
	RESUME_INTERRUPTS();
}

static bool
makes_extension_tables(const Node *parsetree)
{
	return (IsA(parsetree, CreateExtensionStmt) || IsA(parsetree, AlterExtensionStmt)) &&
		   strcmp(default_table_access_method, LS_TABLE_AM) == 0;
}

/*
 * Tables that an extension makes for itself are heap tables unless its script names us: its library
 * may read and write them with the heap's functions, as it does with catalogs, and these take our
 * rows for the heap's.  An error puts the setting back, too.
 */
static void
run_extension_below(const UtilityCall *call)
{
	const int	level = NewGUCNestLevel();

	(void) set_config_option("default_table_access_method", "heap", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	call_below(call);
	AtEOXact_GUC(true, level);
}

static void
run_below(const UtilityCall *call)
{
	if (IsA(call->pstmt->utilityStmt, TruncateStmt) && ls_relation_has_pending())
		truncate_below(call);
	else if (ends_prepared(call->pstmt->utilityStmt))
		end_prepared_below(call);
	else if (makes_extension_tables(call->pstmt->utilityStmt))
		run_extension_below(call);
	else
		call_below(call);
}

static void
run_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree,
			ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *env,
			DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *parsetree = pstmt->utilityStmt;
	LsIndexAfterwards after = {0};
	LsEnumPositions *enum_positions = NULL;

	template_name[0] = '\0';
	if (read_only_tree && (IsA(parsetree, CreatedbStmt) || ls_index_concerns(parsetree)))
	{
		pstmt = copyObject(pstmt);
		parsetree = pstmt->utilityStmt;
		read_only_tree = false;
	}
	switch (nodeTag(parsetree))
	{
		case T_CreatedbStmt:
			PreventInTransactionBlock(context == PROCESS_UTILITY_TOPLEVEL, "CREATE DATABASE");
			prepare_createdb((CreatedbStmt *) parsetree);
			break;
		case T_DropdbStmt:
			drop_by_force = false;
			foreach_node(DefElem, option, ((DropdbStmt *) parsetree)->options)
				drop_by_force |= strcmp(option->defname, "force") == 0;
			break;
		case T_AlterDatabaseStmt:
			foreach_node(DefElem, option, ((AlterDatabaseStmt *) parsetree)->options)
			{
				if (strcmp(option->defname, "tablespace") == 0)
				{
					PreventInTransactionBlock(context == PROCESS_UTILITY_TOPLEVEL,
											  "ALTER DATABASE SET TABLESPACE");
					lock_and_close_database(((AlterDatabaseStmt *) parsetree)->dbname);
				}
			}
			break;
		case T_AlterEnumStmt:
			enum_positions = ls_index_before_alter_enum((AlterEnumStmt *) parsetree);
			break;
		default:
			ls_index_prepare_statement(pstmt, query, context, &after);
			break;
	}

	run_below(&(UtilityCall) {pstmt, query, read_only_tree, context, params, env, dest, qc});
	finish_alter_table(parsetree);
	ls_index_finish_statement(&after, query);
	ls_index_after_class_statement(parsetree);
	if (IsBinaryUpgrade && IsA(parsetree, AlterEnumStmt))
		ls_upgrade_restore_positions((AlterEnumStmt *) parsetree);
	ls_index_after_alter_enum(enum_positions);
}

void
ls_utility_process(PlannedStmt *pstmt, const char *query, bool read_only_tree,
				   ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *env,
				   DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *statement = pstmt->utilityStmt;
	LsSnapshotUse found = ls_pin_enter_utility(statement);
	const int	outer = ls_shown_enter();
	List	   *const keys = ls_index_expect_keys(NIL);
	volatile bool succeeded = false;

	PG_TRY();
	{
		run_utility(pstmt, query, read_only_tree, context, params, env, dest, qc);
		/* COMMIT waits after its locks have gone; the others show nothing */
		if (IsA(statement, TransactionStmt))
			ls_shown_put_back(outer);
		else
			ls_shown_leave(outer);
		succeeded = true;
	}
	PG_FINALLY();
	{
		if (!succeeded)
			ls_shown_put_back(outer);
		(void) ls_index_expect_keys(keys);
		ls_pin_leave_utility(found, statement, succeeded);
	}
	PG_END_TRY();
}
