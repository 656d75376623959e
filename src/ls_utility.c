/*
 * ls_utility.c - utility commands that work on files behind the engine's back.
 *
 * CREATE DATABASE from a template and ALTER DATABASE ... SET TABLESPACE copy the
 * files of a database: the engine's changed pages have to be in them first.  The
 * block-by-block strategy of CREATE DATABASE reads through shared buffers and
 * would refuse the engine's pages, so file_copy is chosen unless the user asked
 * for something.  DROP DATABASE removes files: their pages must be forgotten.
 */
#include "ls.h"

#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"

static ProcessUtility_hook_type previous_hook = NULL;

static void
flush_database(Oid database)
{
	ls_error	error = {0};

	(void) ls_reader();
	ls_check(ls_database_flush(ls_shared->store, database, &error), error, NULL);
}

/* The template of CREATE DATABASE; adds the strategy where none is given. */
static Oid
prepare_createdb(CreatedbStmt *stmt)
{
	const char *template = "template1";
	bool		has_strategy = false;
	Oid			result;

	foreach_node(DefElem, option, stmt->options)
	{
		if (strcmp(option->defname, "template") == 0 && option->arg != NULL)
			template = defGetString(option);
		else if (strcmp(option->defname, "strategy") == 0)
			has_strategy = true;
	}
	result = get_database_oid(template, true);
	if (OidIsValid(result) && !has_strategy && strcmp(template, "template0") != 0)
		stmt->options = lappend(stmt->options,
								makeDefElem("strategy", (Node *) makeString("file_copy"), -1));
	return result;
}

static void
process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree, ProcessUtilityContext context,
				ParamListInfo params, QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *parsetree = pstmt->utilityStmt;
	Oid			forget = InvalidOid;

	switch (nodeTag(parsetree))
	{
		case T_CreatedbStmt:
			{
				Oid			source;

				if (read_only_tree)
				{
					pstmt = copyObject(pstmt);
					parsetree = pstmt->utilityStmt;
					read_only_tree = false;
				}
				source = prepare_createdb((CreatedbStmt *) parsetree);
				if (OidIsValid(source))
					flush_database(source);
				break;
			}
		case T_DropdbStmt:
			forget = get_database_oid(((DropdbStmt *) parsetree)->dbname, true);
			break;
		case T_AlterDatabaseStmt:
			foreach_node(DefElem, option, ((AlterDatabaseStmt *) parsetree)->options)
			{
				if (strcmp(option->defname, "tablespace") == 0)
				{
					forget = get_database_oid(((AlterDatabaseStmt *) parsetree)->dbname, true);
					if (OidIsValid(forget))
						flush_database(forget);
				}
			}
			break;
		default:
			break;
	}

	ls_horizon_enter_utility();
	if (previous_hook)
		previous_hook(pstmt, query, read_only_tree, context, params, env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query, read_only_tree, context, params, env, dest, qc);
	ls_horizon_leave_utility(IsA(parsetree, TransactionStmt));

	if (OidIsValid(forget))
		ls_rel_forget_database(ls_shared->store, forget);
}

void
ls_utility_install_hooks(void)
{
	previous_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
