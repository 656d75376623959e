/*
 * ls_executor_reset.c - a state lets go of all that it holds, and takes it again.
 *
 * What ends with an execution: scans, bitmaps, snapshots, references to relations and to
 * descriptors of their rows, memory of expressions.  What stays is what the executor built from
 * plan and catalogs, as it was before the first row: each node's fields of progress are set as
 * ExecInitNode() had left them.  ls_executor_cacheable.c and this file know the same nodes.
 */
#include "ls_executor_cache.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "nodes/tidbitmap.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* ----------------------------------------------------------------
 * what a state refers to
 * ----------------------------------------------------------------
 */

/* False: too many, or the relation may go with this transaction. */
static bool
note_relation(LsExecutorStateParts *parts, Relation relation, LOCKMODE lock)
{
	if (parts->n_relations == LS_STATE_MAX_RELATIONS ||
		relation->rd_createSubid != InvalidSubTransactionId ||
		relation->rd_newRelfilelocatorSubid != InvalidSubTransactionId ||
		relation->rd_droppedSubid != InvalidSubTransactionId)
		return false;
	parts->relations[parts->n_relations++] = (LsRestingRelation)
	{
		.oid = RelationGetRelid(relation),
		.lock = lock,
		.relation = relation,
		.descriptor = RelationGetDescr(relation)
	};
	return true;
}

static Relation
index_of_scan(const PlanState *node)
{
	if (IsA(node, IndexScanState))
		return ((const IndexScanState *) node)->iss_RelationDesc;
	if (IsA(node, IndexOnlyScanState))
		return ((const IndexOnlyScanState *) node)->ioss_RelationDesc;
	if (IsA(node, BitmapIndexScanState))
		return ((const BitmapIndexScanState *) node)->biss_RelationDesc;
	return NULL;
}

static bool
note_relations(LsExecutorStateParts *parts, EState *estate)
{
	ListCell   *cell;

	parts->n_relations = 0;
	for (Index i = 0; i < estate->es_range_table_size; i++)
	{
		if (estate->es_relations[i] != NULL &&
			!note_relation(parts, estate->es_relations[i], NoLock))
			return false;
	}
	for (int i = 0; i < parts->n_nodes; i++)
	{
		Relation	index = index_of_scan(parts->nodes[i]);

		const RangeTblEntry *entry;

		if (index == NULL)
			continue;
		entry = exec_rt_fetch(((Scan *) parts->nodes[i]->plan)->scanrelid, estate);
		if (!note_relation(parts, index, entry->rellockmode))
			return false;
	}
	foreach(cell, estate->es_opened_result_relations)
	{
		const ResultRelInfo *changed = lfirst(cell);

		if (changed->ri_AllNullSlot != NULL)	/* full of what was stored in it when it was made */
			return false;
		for (int i = 0; i < changed->ri_NumIndices; i++)
		{
			if (!note_relation(parts, changed->ri_IndexRelationDescs[i], RowExclusiveLock))
				return false;
		}
	}
	return true;
}

/* A descriptor with references is one of a relation's, which tells if it is still the same. */
static bool
descriptors_are_noted(const LsExecutorStateParts *parts, const EState *estate)
{
	ListCell   *cell;

	foreach(cell, estate->es_tupleTable)
	{
		const TupleTableSlot *slot = lfirst(cell);
		bool		found = slot->tts_tupleDescriptor == NULL ||
			slot->tts_tupleDescriptor->tdrefcount < 0;

		for (int i = 0; i < parts->n_relations && !found; i++)
			found = slot->tts_tupleDescriptor == parts->relations[i].descriptor;
		if (!found)
			return false;
	}
	return true;
}

/* ----------------------------------------------------------------
 * nodes
 * ----------------------------------------------------------------
 */

/* True, which ends the walk: there are too many. */
static bool
collect_node(PlanState *node, void *context)
{
	LsExecutorStateParts *parts = context;

	if (parts->n_nodes == LS_STATE_MAX_NODES)
		return true;
	parts->nodes[parts->n_nodes++] = node;
	return planstate_tree_walker(node, collect_node, parts);
}

static bool
collect_nodes(LsCachedState *kept, const QueryDesc *query)
{
	LsExecutorStateParts *parts;

	if (kept->parts != NULL)
		return true;
	parts = MemoryContextAllocZero(query->estate->es_query_cxt, sizeof(LsExecutorStateParts));
	if (collect_node(query->planstate, parts))
		return false;
	kept->parts = parts;
	return true;
}

/*
 * Another transaction changed a row meanwhile, and the plan was executed for that row: rare,
 * and a state of its own.
 */
static bool
has_rechecked(const LsExecutorStateParts *parts)
{
	for (int i = 0; i < parts->n_nodes; i++)
	{
		const PlanState *node = parts->nodes[i];

		if (IsA(node, ModifyTableState) &&
			((const ModifyTableState *) node)->mt_epqstate.recheckestate != NULL)
			return true;
		if (IsA(node, LockRowsState) &&
			((const LockRowsState *) node)->lr_epqstate.recheckestate != NULL)
			return true;
	}
	return false;
}

static void
rest_change(ModifyTableState *node)
{
	EvalPlanQualEnd(&node->mt_epqstate);
	node->mt_done = false;
	node->fireBSTriggers = true;
}

static void
rest_index_scan(IndexScanState *node)
{
	if (node->iss_ScanDesc != NULL)
		index_endscan(node->iss_ScanDesc);
	node->iss_ScanDesc = NULL;
	node->iss_RuntimeKeysReady = false;
	node->iss_ReachedEnd = false;
	memset(&node->iss_Instrument, 0, sizeof(node->iss_Instrument));
}

static void
rest_index_only_scan(IndexOnlyScanState *node)
{
	if (node->ioss_ScanDesc != NULL)
		index_endscan(node->ioss_ScanDesc);
	node->ioss_ScanDesc = NULL;
	if (node->ioss_VMBuffer != InvalidBuffer)
		ReleaseBuffer(node->ioss_VMBuffer);
	node->ioss_VMBuffer = InvalidBuffer;
	node->ioss_RuntimeKeysReady = false;
	memset(&node->ioss_Instrument, 0, sizeof(node->ioss_Instrument));
}

static void
rest_bitmap_index_scan(BitmapIndexScanState *node)
{
	index_endscan(node->biss_ScanDesc);
	node->biss_ScanDesc = NULL;
	node->biss_RuntimeKeysReady = false;
	node->biss_result = NULL;
	memset(&node->biss_Instrument, 0, sizeof(node->biss_Instrument));
}

static void
rest_bitmap_scan(BitmapHeapScanState *node)
{
	TableScanDesc scan = node->ss.ss_currentScanDesc;

	if (scan != NULL)
	{
		if (!tbm_exhausted(&scan->st.rs_tbmiterator))
			tbm_end_iterate(&scan->st.rs_tbmiterator);
		table_endscan(scan);
	}
	node->ss.ss_currentScanDesc = NULL;
	if (node->tbm != NULL)
		tbm_free(node->tbm);
	node->tbm = NULL;
	node->initialized = false;
	node->recheck = true;
	memset(&node->stats, 0, sizeof(node->stats));
}

static void
rest_scan(ScanState *node)
{
	if (node->ss_currentScanDesc != NULL)
		table_endscan(node->ss_currentScanDesc);
	node->ss_currentScanDesc = NULL;
}

static void
rest_node(PlanState *node)
{
	bms_free(node->chgParam);
	node->chgParam = NULL;
	switch (nodeTag(node))
	{
		case T_ModifyTableState:
			rest_change((ModifyTableState *) node);
			break;
		case T_LockRowsState:
			EvalPlanQualEnd(&((LockRowsState *) node)->lr_epqstate);
			break;
		case T_IndexScanState:
			rest_index_scan((IndexScanState *) node);
			break;
		case T_IndexOnlyScanState:
			rest_index_only_scan((IndexOnlyScanState *) node);
			break;
		case T_BitmapIndexScanState:
			rest_bitmap_index_scan((BitmapIndexScanState *) node);
			break;
		case T_BitmapHeapScanState:
			rest_bitmap_scan((BitmapHeapScanState *) node);
			break;
		case T_SeqScanState:
			rest_scan((ScanState *) node);
			break;
		case T_ValuesScanState:
			((ValuesScanState *) node)->curr_idx = -1;
			break;
		case T_ResultState:
			((ResultState *) node)->rs_done = false;
			((ResultState *) node)->rs_checkqual = ((ResultState *) node)->resconstantqual != NULL;
			break;
		case T_LimitState:
			((LimitState *) node)->lstate = LIMIT_INITIAL;
			((LimitState *) node)->subSlot = NULL;
			break;
		case T_NestLoopState:
			((NestLoopState *) node)->nl_NeedNewOuter = true;
			((NestLoopState *) node)->nl_MatchedOuter = false;
			break;
		case T_BitmapOrState:
		case T_BitmapAndState:
			break;
		default:
			elog(ERROR, "unexpected node in a state that is kept: %d", (int) nodeTag(node));
	}
}

/* What ExecInitNode() begins with a snapshot; other scans begin with their first row. */
static void
wake_bitmap_index_scan(BitmapIndexScanState *node)
{
	node->biss_ScanDesc = index_beginscan_bitmap(node->biss_RelationDesc,
		node->ss.ps.state->es_snapshot, &node->biss_Instrument, node->biss_NumScanKeys);
	if (node->biss_NumRuntimeKeys == 0 && node->biss_NumArrayKeys == 0)
		index_rescan(node->biss_ScanDesc, node->biss_ScanKeys, node->biss_NumScanKeys, NULL, 0);
}

/* ----------------------------------------------------------------
 * the whole state
 * ----------------------------------------------------------------
 */

static void
rest_slots(const EState *estate)
{
	ListCell   *cell;

	foreach(cell, estate->es_tupleTable)
	{
		TupleTableSlot *slot = lfirst(cell);

		ExecClearTuple(slot);
		if (slot->tts_tupleDescriptor != NULL)
			ReleaseTupleDesc(slot->tts_tupleDescriptor);
	}
}

static void
wake_slots(const EState *estate)
{
	ListCell   *cell;

	foreach(cell, estate->es_tupleTable)
	{
		const TupleTableSlot *slot = lfirst(cell);

		if (slot->tts_tupleDescriptor != NULL)
			PinTupleDesc(slot->tts_tupleDescriptor);
	}
}

static void
rest_expressions(EState *estate)
{
	ListCell   *cell;

	foreach(cell, estate->es_exprcontexts)
	{
		ExprContext *context = lfirst(cell);

		ReScanExprContext(context);
		context->ecxt_param_list_info = NULL;
		context->ecxt_scantuple = NULL;
		context->ecxt_innertuple = NULL;
		context->ecxt_outertuple = NULL;
	}
}

/*
 * In place of standard_ExecutorEnd(): all that the execution held is let go, and *kept has the
 * state.  False: nothing was done, for this state is not as others are.
 */
bool
ls_executor_state_reset(LsCachedState *kept, QueryDesc *query)
{
	EState	   *estate = query->estate;
	MemoryContext old_context;

	if (estate->es_jit != NULL || estate->es_query_dsa != NULL ||
		estate->es_trig_target_relations != NIL || estate->es_subplanstates != NIL ||
		estate->es_auxmodifytables != NIL || estate->es_tuple_routing_result_relations != NIL ||
		!collect_nodes(kept, query) || has_rechecked(kept->parts) ||
		!note_relations(kept->parts, estate) || !descriptors_are_noted(kept->parts, estate))
		return false;

	old_context = MemoryContextSwitchTo(estate->es_query_cxt);
	for (int i = 0; i < kept->parts->n_nodes; i++)
		rest_node(kept->parts->nodes[i]);
	rest_expressions(estate);
	rest_slots(estate);
	ls_executor_state_close(kept->parts, kept->parts->n_relations);
	UnregisterSnapshot(estate->es_snapshot);
	MemoryContextSwitchTo(old_context);

	estate->es_snapshot = NULL;
	estate->es_param_list_info = NULL;
	estate->es_sourceText = NULL;
	kept->estate = estate;
	kept->result = query->tupDesc;
	query->estate = NULL;
	query->planstate = NULL;
	query->tupDesc = NULL;
	query->totaltime = NULL;
	return true;
}

/* The first n. */
void
ls_executor_state_close(LsExecutorStateParts *parts, int n)
{
	while (n > 0)
		relation_close(parts->relations[--n].relation, NoLock);
}

/*
 * Opens what the state refers to, if it is all still the same; else nothing is open afterwards.
 * The tables are locked: what belongs to them is there.
 */
bool
ls_executor_state_open(LsCachedState *kept)
{
	for (int i = 0; i < kept->parts->n_relations; i++)
	{
		const LsRestingRelation *resting = &kept->parts->relations[i];
		Relation	relation = relation_open(resting->oid, resting->lock);

		if (relation == resting->relation && RelationGetDescr(relation) == resting->descriptor)
			continue;
		relation_close(relation, NoLock);
		ls_executor_state_close(kept->parts, i);
		return false;
	}
	return true;
}

/* As standard_ExecutorStart() would have left it.  Its relations are open. */
void
ls_executor_state_wake(LsCachedState *kept, QueryDesc *query, int eflags)
{
	EState	   *estate = kept->estate;
	const bool	changes = query->operation != CMD_SELECT;
	MemoryContext old_context;
	ListCell   *cell;

	kept->estate = NULL;
	query->estate = estate;
	query->planstate = kept->parts->nodes[0];
	query->tupDesc = kept->result;
	MemoryContextSetParent(estate->es_query_cxt, CurrentMemoryContext);
	old_context = MemoryContextSwitchTo(estate->es_query_cxt);

	estate->es_direction = ForwardScanDirection;
	estate->es_top_eflags = changes ? eflags : eflags | EXEC_FLAG_SKIP_TRIGGERS;
	estate->es_snapshot = RegisterSnapshot(query->snapshot);
	estate->es_param_list_info = query->params;
	estate->es_sourceText = query->sourceText;
	estate->es_output_cid =
		changes || query->plannedstmt->rowMarks != NIL ? GetCurrentCommandId(true) : (CommandId) 0;
	estate->es_processed = 0;
	estate->es_total_processed = 0;
	estate->es_finished = false;
	estate->es_use_parallel_mode = false;
	wake_slots(estate);
	foreach(cell, estate->es_exprcontexts)
		((ExprContext *) lfirst(cell))->ecxt_param_list_info = query->params;
	if (!(estate->es_top_eflags & EXEC_FLAG_SKIP_TRIGGERS))
		AfterTriggerBeginQuery();
	for (int i = 0; i < kept->parts->n_nodes; i++)
	{
		if (IsA(kept->parts->nodes[i], BitmapIndexScanState))
			wake_bitmap_index_scan((BitmapIndexScanState *) kept->parts->nodes[i]);
	}
	MemoryContextSwitchTo(old_context);
}
