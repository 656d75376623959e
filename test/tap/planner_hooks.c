/*
 * planner_hooks.c - an extension that has a say in planning: it would rather have no index scans.
 */
#include "postgres.h"

#include "fmgr.h"
#include "nodes/pathnodes.h"
#include "optimizer/paths.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static void
rather_not(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	ListCell   *cell;

	foreach(cell, rel->pathlist)
	{
		Path	   *path = lfirst(cell);

		if (path->pathtype == T_IndexScan || path->pathtype == T_IndexOnlyScan)
			path->disabled_nodes++;
	}
}

void
_PG_init(void)
{
	set_rel_pathlist_hook = rather_not;
}
