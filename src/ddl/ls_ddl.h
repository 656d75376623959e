/*
 * ls_ddl.h - utility commands on leanstore tables and indexes.
 */
#ifndef LS_DDL_H
#define LS_DDL_H

#include "postgres.h"

#include "catalog/objectaccess.h"
#include "executor/executor.h"
#include "tcop/utility.h"

/* ---- ls_utility.c: hooks, and what each calls */
extern void ls_utility_process(PlannedStmt *pstmt, const char *query, bool read_only_tree,
							   ProcessUtilityContext context, ParamListInfo params,
							   QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc);
extern ProcessUtility_hook_type ls_utility_below_process;
extern void ls_utility_object_access(ObjectAccessType access, Oid class_id, Oid object_id,
									 int sub_id, void *arg);
extern object_access_hook_type ls_utility_below_access;

/* ---- ls_upgrade_notes.c: the hook of a server that pg_upgrade has started */
extern void ls_upgrade_notes_start(QueryDesc *query, int eflags);
extern ExecutorStart_hook_type ls_upgrade_notes_below_start;

#endif							/* LS_DDL_H */
