/*
 * ls_upgrade.c - refuses pg_upgrade for clusters with leanstore tables.
 *
 * pg_upgrade gives the old cluster's relation files to the new one.  The positions in
 * leanstore files belong to the log of the old cluster, so the new one cannot use them.
 * pg_upgrade starts both servers in a mode of its own.  The old one then answers
 * no query in a database that has leanstore tables, so that a run ends while pg_upgrade
 * still checks, with --check as well.
 */
#include "postgres.h"

#include "ls_session.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"

ExecutorStart_hook_type ls_upgrade_below_start = NULL;

/* The name of a leanstore table of this database; NULL: it has none. */
static const char *
any_table(void)
{
	Oid			am = get_table_am_oid("leanstore", true);
	const char *name = NULL;
	Relation	pg_class;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	if (!OidIsValid(am))
		return NULL;
	pg_class = table_open(RelationRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_class_relam, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(am));
	scan = systable_beginscan(pg_class, InvalidOid, false, NULL, 1, &key);
	while (name == NULL && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		/* a partitioned table only says what its partitions are to be */
		if (form->relkind != RELKIND_PARTITIONED_TABLE)
			name = pstrdup(NameStr(form->relname));
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	return name;
}

static void
refuse(const char *table)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("pg_upgrade cannot take over leanstore tables"),
			 errdetail("Database \"%s\" has leanstore table \"%s\".",
					   get_database_name(MyDatabaseId), table),
			 errhint("Dump the leanstore tables with pg_dump, drop them, run pg_upgrade, "
					 "and restore them.")));
}

void
ls_upgrade_executor_start(QueryDesc *query, int eflags)
{
	static bool looked = false;

	if (!looked)
	{
		const char *table = any_table();

		if (table != NULL)
			refuse(table);
		looked = true;
	}
	if (ls_upgrade_below_start)
		ls_upgrade_below_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

void
ls_upgrade_refuse(const char *table)
{
	if (IsBinaryUpgrade)
		refuse(table);
}
