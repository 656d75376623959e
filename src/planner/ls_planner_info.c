/*
 * ls_planner_info.c - what the planner is told of tables and our indexes.
 *
 * Where it asks "is it a btree" because only those had an order when it was written, the answer is
 * yes.  What an index costs: index/ls_index_cost.c.
 */
#include "postgres.h"

#include "ls_planner.h"
#include "index/ls_index.h"
#include "relation/ls_relation.h"

#include <math.h>

#include "access/itup.h"
#include "access/nbtree.h"
#include "access/xact.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_opfamily_d.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

get_relation_info_hook_type ls_planner_below_info = NULL;

/*
 * Two features of the planner are for btree by name:
 *
 * - row comparisons, (a, b) > (1, 2), by IndexOptInfo.relam, which means no more there than that
 *   the strategies are btree's;
 * - LIKE with the pattern operator classes, by the OID of their families.  Ours have the same
 *   operators.
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

static int32
width_of(Oid table, AttrNumber attno, const Expr *expr)
{
	Oid			type = exprType((const Node *) expr);
	int32		width = get_typlen(type);

	if (width <= 0 && attno > 0)
		width = get_attavgwidth(table, attno);
	return width > 0 ? width : get_typavgwidth(type, exprTypmod((const Node *) expr));
}

/* Of a btree with entries: the meta page and the root, which are one block with us. */
#define BTREE_LEAST_BLOCKS 2

/*
 * The blocks of a btree with these entries after a build: its meta page, leaves filled to 90 %, and
 * a root above more than one.  Ours are fewer: entries share their prefixes and have no headers.
 * The planner charges random_page_cost for each, so a look-up of many entries would look cheaper
 * than on heap, and one of few as dear; in memory an entry costs what it did (decision 0030).  A
 * btree keeps equal keys once, so this is known of unique indexes only.
 */
static BlockNumber
btree_blocks(Oid table, const IndexOptInfo *index)
{
	const double in_block = 0.9 *
							(BLCKSZ - SizeOfPageHeaderData - MAXALIGN(sizeof(BTPageOpaqueData)));
	Size		entry = sizeof(IndexTupleData);
	double		leaves;
	ListCell   *cell;

	foreach(cell, index->indextlist)
		entry += width_of(table, index->indexkeys[foreach_current_index(cell)],
						  lfirst_node(TargetEntry, cell)->expr);
	leaves = ceil(index->tuples * (MAXALIGN(entry) + sizeof(ItemIdData)) / in_block);
	return leaves <= 1 ? BTREE_LEAST_BLOCKS
					   : (BlockNumber) Min(leaves + 2, (double) MaxBlockNumber);
}

/*
 * Where one row is looked up in a small table the planner, which knows costs of pages only, reads
 * all rows.  At SERIALIZABLE a sequential scan locks the whole table, where a look-up would lock a
 * key (pgbench's branches: every transaction would wait for every other).  So there the planner
 * is told that the table is large enough for an index to win.
 */
#define MIN_PAGES_BY_INDEX 10

void
ls_planner_relation_info(PlannerInfo *root, Oid relation, bool inhparent, RelOptInfo *rel)
{
	bool		ours = false;
	ListCell   *cell;

	if (ls_planner_below_info != NULL)
		ls_planner_below_info(root, relation, inhparent, rel);

	/* the index of a TOAST table of ours is empty (row/ls_value.c) */
	if (unlikely(planner_rt_fetch(rel->relid, root)->relkind == RELKIND_TOASTVALUE) &&
		get_rel_relam(relation) == ls_table_am_oid())
		rel->indexlist = NIL;

	foreach(cell, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if (index->amcostestimate != ls_index_amcostestimate)
			continue;
		ours = true;
		present_as_btree(index);
		index->pages = Max(index->pages,
						   index->unique ? btree_blocks(relation, index) : BTREE_LEAST_BLOCKS);
	}
	if (ours && !inhparent && IsolationIsSerializable() && !XactReadOnly)
		rel->pages = Max(rel->pages, MIN_PAGES_BY_INDEX);
}
