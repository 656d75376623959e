/*
 * ls_index_cost.c - what the planner thinks of our indexes.
 *
 * They are ordered trees with the conditions, strategies and skipping of the
 * server's btree, so btree's estimate is ours: pages are counted in the server's blocks, of
 * which each holds two of the engine's, and so are levels.
 *
 * Plans shall be those that users know from heap.  Where two have nearly the same cost a
 * small difference decides, so there is none that has no reason in what is executed.
 */
#include "postgres.h"

#include "ls_index_internal.h"

#include "access/nbtree.h"
#include "access/stratnum.h"
#include "nodes/pathnodes.h"
#include "utils/index_selfuncs.h"
#include "utils/lsyscache.h"

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

/*
 * Children of an inner page of a btree on integers after a build: 8,152 bytes, filled to 70 %,
 * 20 bytes each.
 */
#define BTREE_FANOUT 285

/*
 * Levels above the leaves that a btree of as many blocks has.  The planner charges 50 operators for
 * each, for a search in a page of the server that is found, pinned and locked.  Our pages are
 * half as large, so there are more levels, and going down one takes a pointer and half a
 * search.  One level more would make each of 200 look-ups in a nested loop dearer, and tip
 * plans over.
 */
int
ls_index_amgettreeheight(Relation index)
{
	ls_rel_info info = tree_info(index);
	uint64		blocks = info.pages / 2;
	int			levels = 0;

	for (; blocks > 1; blocks = (blocks + BTREE_FANOUT - 1) / BTREE_FANOUT)
		levels++;
	return Min(levels, info.height > 0 ? (int) info.height - 1 : 0);
}

/* Is there a condition of equality for each column of a unique index? */
static bool
finds_one_row(const IndexPath *path)
{
	const IndexOptInfo *index = path->indexinfo;
	Bitmapset  *equal = NULL;

	if (!index->unique)
		return false;
	foreach_node(IndexClause, clause, path->indexclauses)
		foreach_node(RestrictInfo, condition,
					 clause->indexquals) if (IsA(condition->clause, OpExpr) &&
											 get_op_opfamily_strategy(((OpExpr *) condition->clause)
																		  ->opno,
																	  index->opfamily
																		  [clause->indexcol]) ==
												 BTEqualStrategyNumber)
			equal = bms_add_member(equal, clause->indexcol);
	return bms_num_members(equal) == index->nkeycolumns;
}

void
ls_index_amcostestimate(struct PlannerInfo *root, struct IndexPath *path, double loop_count,
						Cost *startup, Cost *total, Selectivity *selectivity, double *correlation,
						double *pages)
{
	double		rows = path->indexinfo->rel->tuples;

	btcostestimate(root, path, loop_count, startup, total, selectivity, correlation, pages);

	/*
	 * Without statistics the conditions alone would let several rows be fetched from a large
	 * table, and a bitmap scan look cheaper, which makes a bitmap for one row in each loop.  Heap
	 * takes such a table to be smaller than it is, and does not come to that.
	 */
	if (rows > 0 && finds_one_row(path))
		*selectivity = Min(*selectivity, 1.0 / rows);
}
