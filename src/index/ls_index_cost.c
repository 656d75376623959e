/*
 * ls_index_cost.c - what the planner thinks of our indexes.
 *
 * They are ordered trees with the conditions, strategies and skipping of the
 * server's btree, so btree's estimate is ours: pages are counted in the server's blocks, of
 * which each holds two of the engine's, and the height is the tree's.  Where the
 * planner asks "is it a btree" because only those had an order when it was written,
 * the answer is yes.
 */
#include "ls_index.h"

#include "ls_table.h"
#include "plan/ls_plan.h"

#include "access/xact.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_opfamily_d.h"
#include "nodes/pathnodes.h"
#include "optimizer/plancat.h"
#include "utils/index_selfuncs.h"

static get_relation_info_hook_type previous_relation_info_hook = NULL;

static ls_rel_info
tree_info(Relation index)
{
	ls_rel_info info;
	ls_error	error;
	ls_status	status;

	LS_CALL(status, ls_rel_get_info(ls_reader(), ls_index_tree(index), &info, &error));
	ls_check(status, error, index);
	return info;
}

/* Levels above the leaves. */
int
ls_index_amgettreeheight(Relation index)
{
	uint32		height = tree_info(index).height;

	return height > 0 ? height - 1 : 0;
}

void
ls_index_amcostestimate(struct PlannerInfo *root, struct IndexPath *path, double loop_count,
						Cost *startup, Cost *total, Selectivity *selectivity, double *correlation, double *pages)
{
	btcostestimate(root, path, loop_count, startup, total, selectivity, correlation, pages);
}

/*
 * Two features of the planner are for btree by name:
 *
 * - row comparisons, (a, b) > (1, 2), by IndexOptInfo.relam, which means no more there than that the strategies
 *   are btree's;
 * - LIKE with the pattern operator classes, by the OID of their families.  Ours have the same operators.
 */
static void
present_as_btree(IndexOptInfo *index)
{
	index->relam = BTREE_AM_OID;
	for (int i = 0; index->sortopfamily != NULL && i < index->nkeycolumns; i++)
		if (index->sortopfamily[i] == TEXT_PATTERN_BTREE_FAM_OID ||
			index->sortopfamily[i] == BPCHAR_PATTERN_BTREE_FAM_OID)
			index->opfamily[i] = index->sortopfamily[i];
}

/*
 * Where one row is looked up in a small table the planner, which knows costs of pages only, reads all rows. Two
 * times that is not wanted, and the table is told to be large enough that an index wins:
 *
 * - at SERIALIZABLE, where a sequential scan locks the whole table, and who looks up one row of a table that others write
 *   would rather lock a key (pgbench's branches: without this every transaction waits for every other);
 * - where the plan is made to be used again, when the table may be larger.  A look-up is quicker even among 50 rows (3.5
 *   instead of 4.7 microseconds).
 */
#define MIN_PAGES_BY_INDEX 10

static void
relation_info(PlannerInfo *root, Oid relation, bool inhparent, RelOptInfo *rel)
{
	bool		ours = false;
	ListCell   *cell;

	if (previous_relation_info_hook != NULL)
		previous_relation_info_hook(root, relation, inhparent, rel);

	foreach(cell, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if (index->amcostestimate != ls_index_amcostestimate)
			continue;
		ours = true;
		present_as_btree(index);
	}
	if (ours && !inhparent && (ls_planning_to_reuse() || (IsolationIsSerializable() && !XactReadOnly)))
		rel->pages = Max(rel->pages, MIN_PAGES_BY_INDEX);
}

bool
ls_index_planner_hook_is_alone(void)
{
	return get_relation_info_hook == relation_info && previous_relation_info_hook == NULL;
}

void
ls_index_install_planner_hook(void)
{
	previous_relation_info_hook = get_relation_info_hook;
	get_relation_info_hook = relation_info;
}
