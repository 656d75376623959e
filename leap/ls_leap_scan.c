/*
 * ls_leap_scan.c - leap.scans = all: a scan that names no keys reads the rows of all nodes.
 *
 * The planner gets one path for such a scan, "Leap Scan".  It asks all other nodes at once for the
 * columns that are needed, reads this node's rows by a sequential scan meanwhile, and then takes
 * the others' as they come.  There is no snapshot across nodes: each tells the rows that it owns
 * when its statement begins there, so a row that moves meanwhile may be seen twice, or not.  Within
 * one scan of a statement rows of other nodes are read once, and kept for when it is scanned again.
 *
 * Another node reads its rows in the caller's role, as a call runs there (ls_leap_delegate.c), and
 * as leap.scans = local does.  Conditions go there if they mean the same there; all are checked
 * here again.
 *
 * A plan that was made before leap.scans became all, or was all, is made again: leap_scan_set().
 */
#include "ls_leap.h"

#include "libpq-fe.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/explain.h"
#include "commands/explain_format.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "optimizer/restrictinfo.h"
#include "parser/parse_relation.h"
#include "rewrite/rewriteManip.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/pg_locale.h"
#include "utils/plancache.h"
#include "utils/portal.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/tuplestore.h"
#include "utils/typcache.h"

/* What it costs to ask, and to get a row: as for foreign tables. */
#define STARTUP_COST 100.0
#define ROW_COST 0.2
/* Rows that a node takes out of its cursor at a time. */
#define BATCH 256

static set_rel_pathlist_hook_type below_pathlist = NULL;
static get_relation_info_hook_type below_info = NULL;

/* --- Which conditions may be sent --- */

static bool
is_built_in(Oid id)
{
	return id < FirstGenbkiObjectId;
}

/*
 * Text is compared as the other node's collation says, which may be another one; but "=" of
 * deterministic ones means the same bytes everywhere.
 */
static bool
depends_on_collation(Node *node, Oid function)
{
	Oid			collation = exprInputCollation(node);

	if (!OidIsValid(collation))
		return false;
	return (function != F_TEXTEQ && function != F_TEXTNE) ||
		!get_collation_isdeterministic(collation);
}

static bool
is_relabelled_safely(RelabelType *node)
{
	return is_built_in(node->resulttype) && node->resultcollid == exprCollation((Node *) node->arg);
}

static bool
is_own_column(Var *var, Index relid)
{
	return var->varno == relid && var->varlevelsup == 0 && var->varattno > 0 &&
		is_built_in(var->vartype) &&
		(!OidIsValid(var->varcollid) || get_collation_isdeterministic(var->varcollid));
}

/* A node of an expression that another node would not have, or compute as this one does. */
static bool
is_not_sendable(Node *node, void *relid)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_List:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
			break;
		case T_Var:
			return !is_own_column((Var *) node, *(Index *) relid);
		case T_Const:
			return !is_built_in(((Const *) node)->consttype);
		case T_Param:
			return ((Param *) node)->paramkind != PARAM_EXTERN ||
				!is_built_in(((Param *) node)->paramtype);
		case T_RelabelType:
			if (!is_relabelled_safely((RelabelType *) node))
				return true;
			break;
		case T_ArrayExpr:
			if (!is_built_in(((ArrayExpr *) node)->array_typeid))
				return true;
			break;
		case T_FuncExpr:
			if (!is_built_in(((FuncExpr *) node)->funcid) ||
				depends_on_collation(node, ((FuncExpr *) node)->funcid))
				return true;
			break;
		case T_OpExpr:
		case T_DistinctExpr:
			set_opfuncid((OpExpr *) node);
			if (!is_built_in(((OpExpr *) node)->opno) ||
				depends_on_collation(node, ((OpExpr *) node)->opfuncid))
				return true;
			break;
		case T_ScalarArrayOpExpr:
			set_sa_opfuncid((ScalarArrayOpExpr *) node);
			if (!is_built_in(((ScalarArrayOpExpr *) node)->opno) ||
				depends_on_collation(node, ((ScalarArrayOpExpr *) node)->opfuncid))
				return true;
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, is_not_sendable, relid);
}

/* A condition that would tell of rows that another one hides is not sent without it. */
static bool
is_sendable(RestrictInfo *condition, RelOptInfo *rel)
{
	return !condition->pseudoconstant && restriction_is_securely_promotable(condition, rel) &&
		!is_not_sendable((Node *) condition->clause, &rel->relid) &&
		!contain_mutable_functions((Node *) condition->clause);
}

/* --- Planning --- */

static Plan *make_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *targets,
					   List *conditions, List *plans);
static Node *make_state(CustomScan *plan);

static const CustomPathMethods path_methods = {
	.CustomName = "Leap Scan",
	.PlanCustomPath = make_plan,
};

static const CustomScanMethods scan_methods = {
	.CustomName = "Leap Scan",
	.CreateCustomScanState = make_state,
};

bool
leap_is_scan(Plan *plan)
{
	return IsA(plan, CustomScan) && ((CustomScan *) plan)->methods == &scan_methods;
}

/* The leap table, if the planner is to know that it is on all nodes. */
static LeapMember *
table_of_all(Oid relation)
{
	if (leap_scans != LEAP_SCANS_ALL || leap_is_inside())
		return NULL;
	return leap_member_of(relation);
}

/* Is the index, if it is unique, so over all nodes? */
static bool
is_unique_everywhere(IndexOptInfo *index, LeapMember *member)
{
	for (int i = 0; i < member->columns; i++)
	{
		bool		found = false;

		for (int j = 0; j < index->nkeycolumns; j++)
			found |= index->indexkeys[j] == member->attnum[i];
		if (!found)
			return false;
	}
	return true;
}

/* This node's figures stand for those of each.  What is unique on one node may be twice on two. */
static void
tell_of_relation(PlannerInfo *root, Oid relation, bool inhparent, RelOptInfo *rel)
{
	LeapMember *member;
	ListCell   *cell;
	int		   *nodes;

	if (below_info)
		below_info(root, relation, inhparent, rel);
	member = inhparent ? NULL : table_of_all(relation);
	if (member == NULL)
		return;
	rel->tuples *= leap_other_nodes(&nodes) + 1;
	foreach(cell, rel->indexlist)
	{
		IndexOptInfo *index = lfirst(cell);

		index->unique = index->unique && is_unique_everywhere(index, member);
	}
}

/* Does the statement change the table's rows, lock them, or need to find them again? */
static bool
has_marks(PlannerInfo *root, Index relid)
{
	ListCell   *cell;

	if (relid == root->parse->resultRelation || bms_is_member(relid, root->all_result_relids))
		return true;
	foreach(cell, root->rowMarks)
		if (((PlanRowMark *) lfirst(cell))->rti == relid)
			return true;
	return false;
}

static void
add_scan_path(RelOptInfo *rel)
{
	CustomPath *path = makeNode(CustomPath);
	int		   *nodes;
	int			others = leap_other_nodes(&nodes);
	double		own = rel->tuples / (others + 1);
	double		sent = rel->rows * others / (others + 1);

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.rows = rel->rows;
	path->path.startup_cost = STARTUP_COST + rel->baserestrictcost.startup;
	path->path.total_cost = path->path.startup_cost + seq_page_cost * rel->pages + ROW_COST * sent +
		(cpu_tuple_cost + rel->baserestrictcost.per_tuple) * (own + sent);
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &path_methods;
	rel->pathlist = list_make1(path);
	rel->partial_pathlist = NIL;
	rel->consider_parallel = false;
}

static void
set_paths(PlannerInfo *root, RelOptInfo *rel, Index relid, RangeTblEntry *entry)
{
	LeapMember *member;

	if (below_pathlist)
		below_pathlist(root, rel, relid, entry);
	if (entry->rtekind != RTE_RELATION || entry->relkind != RELKIND_RELATION || entry->inh ||
		entry->tablesample || entry->perminfoindex == 0 || IS_DUMMY_REL(rel))
		return;
	member = table_of_all(entry->relid);
	if (member && !has_marks(root, relid) &&
		!leap_names_keys(member, relid, extract_actual_clauses(rel->baserestrictinfo, false)))
		add_scan_path(rel);
}

/*
 * Columns by number: of the conditions, and of what is above the scan, which the list of targets
 * need not show, since a projection may replace it later.  Rows of other nodes have no ctid and
 * the like.
 */
static List *
needed_columns(Oid relation, RelOptInfo *info, List *conditions)
{
	Relation	rel = table_open(relation, NoLock);
	Bitmapset  *attributes = NULL;
	List	   *columns = NIL;
	int			attribute = -1;
	bool		is_whole;

	pull_varattnos((Node *) info->reltarget->exprs, info->relid, &attributes);
	pull_varattnos((Node *) conditions, info->relid, &attributes);
	is_whole = bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, attributes);
	while ((attribute = bms_next_member(attributes, attribute)) >= 0)
	{
		int			number = attribute + FirstLowInvalidHeapAttributeNumber;

		if (number < 0 && number != TableOidAttributeNumber)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("rows of leap table \"%s\" on other nodes have no system columns",
							RelationGetRelationName(rel)),
					 errhint("Set leap.scans to local for the rows that this node owns.")));
	}
	for (int i = 1; i <= RelationGetDescr(rel)->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(RelationGetDescr(rel), i - 1);

		if (!column->attisdropped && column->attgenerated != ATTRIBUTE_GENERATED_VIRTUAL &&
			(is_whole || bms_is_member(i - FirstLowInvalidHeapAttributeNumber, attributes)))
			columns = lappend_int(columns, i);
	}
	table_close(rel, NoLock);
	return columns;
}

static Plan *
make_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *targets, List *conditions,
		  List *plans)
{
	CustomScan *scan = makeNode(CustomScan);
	List	   *clauses = extract_actual_clauses(conditions, false);
	List	   *sent = NIL;
	ListCell   *cell;

	foreach(cell, conditions)
		if (is_sendable(lfirst(cell), rel))
			sent = lappend(sent, copyObject(((RestrictInfo *) lfirst(cell))->clause));
	/* Numbers of tables change when the plan is finished; not of what is private. */
	ChangeVarNodes((Node *) sent, (int) rel->relid, 1, 0);
	scan->scan.plan.targetlist = targets;
	scan->scan.plan.qual = clauses;
	scan->scan.scanrelid = rel->relid;
	scan->flags = path->flags;
	scan->methods = &scan_methods;
	scan->custom_private = list_make2(needed_columns(root->simple_rte_array[rel->relid]->relid,
													 rel, clauses), sent);
	return &scan->scan.plan;
}

/* --- What is sent --- */

/* Parameters become their values, where there are values. */
static Node *
with_values(Node *node, void *params)
{
	ParamListInfo list = params;

	if (node == NULL)
		return NULL;
	if (IsA(node, Param) && list && ((Param *) node)->paramid <= list->numParams)
	{
		Param	   *param = (Param *) node;
		ParamExternData space;
		ParamExternData *value = list->paramFetch ?
			list->paramFetch(list, param->paramid, false, &space) :
			&list->params[param->paramid - 1];
		int16		length;
		bool		by_value;

		if (value->ptype != param->paramtype)
			elog(ERROR, "leap: parameter %d has another type than was planned", param->paramid);
		get_typlenbyval(param->paramtype, &length, &by_value);
		return (Node *) makeConst(param->paramtype, param->paramtypmod, param->paramcollid, length,
								  value->isnull ? (Datum) 0 :
								  datumCopy(value->value, by_value, length),
								  value->isnull, by_value);
	}
	return expression_tree_mutator(node, with_values, params);
}

/* Conditions as another node reads them: built-in names, ISO dates, all digits. */
static char *
conditions_text(List *conditions, Relation rel, ParamListInfo params)
{
	int			level;
	char	   *text;

	if (conditions == NIL)
		return "";
	level = NewGUCNestLevel();
	RestrictSearchPath();
	(void) set_config_option("datestyle", "ISO", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
	(void) set_config_option("intervalstyle", "postgres", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("extra_float_digits", "3", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	text = deparse_expression(with_values((Node *) make_ands_explicit(conditions), params),
							  deparse_context_for(RelationGetRelationName(rel),
												  RelationGetRelid(rel)), false, false);
	AtEOXact_GUC(false, level);
	return text;
}

/* --- Execution --- */

typedef struct LeapScanState
{
	CustomScanState css;
	int			columns;		/* that are needed */
	AttrNumber *attnum;
	char	   *conditions;
	const char *role;			/* that reads on the other nodes */
	TupleDesc	desc;			/* of these columns, as they come */
	FmgrInfo	input;
	Datum	   *values;
	bool	   *nulls;
	MemoryContext row_context;	/* of the row that came last */
	int			nodes;
	LeapStream *streams;
	bool		is_open;		/* the other nodes have been asked */
	bool		own_is_done;
	bool		kept_is_done;
	TableScanDesc own;
	TupleTableSlot *own_slot;
	Tuplestorestate *kept;
	TupleTableSlot *kept_slot;
	uint64		own_rows;
} LeapScanState;

static void begin_scan(CustomScanState *node, EState *estate, int flags);
static TupleTableSlot *execute_scan(CustomScanState *node);
static void end_scan(CustomScanState *node);
static void scan_again(CustomScanState *node);
static void explain_scan(CustomScanState *node, List *ancestors, ExplainState *es);

static const CustomExecMethods exec_methods = {
	.CustomName = "Leap Scan",
	.BeginCustomScan = begin_scan,
	.ExecCustomScan = execute_scan,
	.EndCustomScan = end_scan,
	.ReScanCustomScan = scan_again,
	.ExplainCustomScan = explain_scan,
};

static Node *
make_state(CustomScan *plan)
{
	LeapScanState *state = palloc0(sizeof(LeapScanState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;
	return (Node *) state;
}

/*
 * The role that reads: of a view it is the view's owner.  It is told when the statement starts, as
 * the rights to this node's table are: a cursor may be read in another role.
 */
static const char *
role_name(LeapScanState *state)
{
	EState	   *estate = state->css.ss.ps.state;
	Index		relid = ((Scan *) state->css.ss.ps.plan)->scanrelid;
	RTEPermissionInfo *info = getRTEPermissionInfo(estate->es_rteperminfos,
												   exec_rt_fetch(relid, estate));

	return GetUserNameFromId(OidIsValid(info->checkAsUser) ? info->checkAsUser : GetUserId(),
							 false);
}

/* However the executor's state goes, after an error as well. */
static void
close_streams(void *argument)
{
	LeapScanState *state = argument;

	leap_streams_close(state->streams, state->nodes);
}

static void
begin_scan(CustomScanState *node, EState *estate, int flags)
{
	LeapScanState *state = (LeapScanState *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	Relation	rel = node->ss.ss_currentRelation;
	List	   *columns = linitial(plan->custom_private);
	MemoryContextCallback *callback = palloc(sizeof(MemoryContextCallback));
	int		   *others;

	state->columns = list_length(columns);
	state->attnum = palloc(sizeof(AttrNumber) * (state->columns + 1));
	state->desc = CreateTemplateTupleDesc(state->columns);
	for (int i = 0; i < state->columns; i++)
	{
		state->attnum[i] = (AttrNumber) list_nth_int(columns, i);
		TupleDescCopyEntry(state->desc, (AttrNumber) (i + 1), RelationGetDescr(rel),
						   state->attnum[i]);
	}
	state->values = palloc(sizeof(Datum) * (state->columns + 1));
	state->nulls = palloc(sizeof(bool) * (state->columns + 1));
	state->conditions = conditions_text(lsecond(plan->custom_private), rel,
										estate->es_param_list_info);
	state->nodes = leap_other_nodes(&others);
	state->streams = palloc0(sizeof(LeapStream) * (state->nodes + 1));
	for (int i = 0; i < state->nodes; i++)
		state->streams[i].node = others[i];
	if (flags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	state->role = role_name(state);
	state->desc = BlessTupleDesc(state->desc);
	fmgr_info(F_RECORD_IN, &state->input);
	state->own_slot = table_slot_create(rel, NULL);
	state->kept_slot = MakeSingleTupleTableSlot(state->desc, &TTSOpsMinimalTuple);
	state->row_context = AllocSetContextCreate(estate->es_query_cxt, "leap row",
											   ALLOCSET_DEFAULT_SIZES);
	callback->func = close_streams;
	callback->arg = state;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, callback);
}

static char *
columns_text(LeapScanState *state, Relation rel)
{
	ArrayBuildState *names = initArrayResult(TEXTOID, CurrentMemoryContext, false);
	Oid			output;
	bool		varlena;

	for (int i = 0; i < state->columns; i++)
		names = accumArrayResult(names, CStringGetTextDatum(NameStr(
									TupleDescAttr(RelationGetDescr(rel),
												  state->attnum[i] - 1)->attname)),
								 false, TEXTOID, CurrentMemoryContext);
	getTypeOutputInfo(TEXTARRAYOID, &output, &varlena);
	return OidOutputFunctionCall(output, makeArrayResult(names, CurrentMemoryContext));
}

/* Asks the other nodes, and begins the scan of the own rows. */
static void
open_scan(LeapScanState *state)
{
	EState	   *estate = state->css.ss.ps.state;
	Relation	rel = state->css.ss.ss_currentRelation;
	MemoryContext before = MemoryContextSwitchTo(estate->es_query_cxt);
	const char *param[4];

	param[0] = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
										  RelationGetRelationName(rel));
	param[1] = state->role;
	param[2] = columns_text(state, rel);
	param[3] = state->conditions;
	leap_streams_open(state->streams, state->nodes,
					  "SELECT leap.peer_scan($1, $2, $3::text[], $4)", lengthof(param), param);
	state->own = table_beginscan(rel, estate->es_snapshot, 0, NULL);
	state->kept = tuplestore_begin_heap(false, false, work_mem);
	state->kept_is_done = true;
	state->is_open = true;
	MemoryContextSwitchTo(before);
}

/* The needed columns of a row are put into their places of the table's row. */
static TupleTableSlot *
show_row(LeapScanState *state, const Datum *values, const bool *nulls)
{
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	for (int i = 0; i < slot->tts_tupleDescriptor->natts; i++)
		slot->tts_isnull[i] = true;
	for (int i = 0; i < state->columns; i++)
	{
		slot->tts_values[state->attnum[i] - 1] = values[i];
		slot->tts_isnull[state->attnum[i] - 1] = nulls[i];
	}
	slot->tts_tableOid = RelationGetRelid(state->css.ss.ss_currentRelation);
	return ExecStoreVirtualTuple(slot);
}

static TupleTableSlot *
own_row(LeapScanState *state)
{
	TupleTableSlot *slot = state->own_slot;

	if (!table_scan_getnextslot(state->own, ForwardScanDirection, slot))
		return NULL;
	for (int i = 0; i < state->columns; i++)
		state->values[i] = slot_getattr(slot, state->attnum[i], &state->nulls[i]);
	state->own_rows++;
	return show_row(state, state->values, state->nulls);
}

/* A row of another node that came before the scan began anew. */
static TupleTableSlot *
kept_row(LeapScanState *state)
{
	TupleTableSlot *slot = state->kept_slot;

	if (!tuplestore_gettupleslot(state->kept, true, false, slot))
		return NULL;
	slot_getallattrs(slot);
	return show_row(state, slot->tts_values, slot->tts_isnull);
}

static TupleTableSlot *
fetched_row(LeapScanState *state)
{
	MemoryContext before = MemoryContextSwitchTo(state->row_context);
	LeapStream *stream;

	MemoryContextReset(state->row_context);
	stream = leap_streams_next(state->streams, state->nodes);
	if (stream && state->columns > 0)
	{
		HeapTupleData tuple;
		HeapTupleHeader row = DatumGetHeapTupleHeader(
			InputFunctionCall(&state->input, PQgetvalue(stream->result, stream->row, 0),
							  state->desc->tdtypeid, state->desc->tdtypmod));

		tuple.t_len = HeapTupleHeaderGetDatumLength(row);
		ItemPointerSetInvalid(&tuple.t_self);
		tuple.t_tableOid = InvalidOid;
		tuple.t_data = row;
		heap_deform_tuple(&tuple, state->desc, state->values, state->nulls);
	}
	MemoryContextSwitchTo(before);
	if (stream == NULL)
		return NULL;
	stream->row++;
	stream->rows++;
	tuplestore_putvalues(state->kept, state->desc, state->values, state->nulls);
	return show_row(state, state->values, state->nulls);
}

static TupleTableSlot *
next_row(ScanState *node)
{
	LeapScanState *state = (LeapScanState *) node;
	TupleTableSlot *slot = NULL;

	if (!state->is_open)
		open_scan(state);
	if (!state->own_is_done)
		slot = own_row(state);
	if (slot)
		return slot;
	state->own_is_done = true;
	if (!state->kept_is_done)
		slot = kept_row(state);
	if (slot)
		return slot;
	state->kept_is_done = true;
	slot = fetched_row(state);
	return slot ? slot : ExecClearTuple(node->ss_ScanTupleSlot);
}

/* Each row is checked by all conditions in any case. */
static bool
recheck(ScanState *node, TupleTableSlot *slot)
{
	return true;
}

static TupleTableSlot *
execute_scan(CustomScanState *node)
{
	return ExecScan(&node->ss, next_row, recheck);
}

static void
scan_again(CustomScanState *node)
{
	LeapScanState *state = (LeapScanState *) node;

	ExecScanReScan(&node->ss);
	if (!state->is_open)
		return;
	table_rescan(state->own, NULL);
	tuplestore_rescan(state->kept);
	state->own_is_done = state->kept_is_done = false;
}

static void
end_scan(CustomScanState *node)
{
	LeapScanState *state = (LeapScanState *) node;

	leap_streams_close(state->streams, state->nodes);
	if (state->own)
		table_endscan(state->own);
	if (state->kept)
		tuplestore_end(state->kept);
	if (state->own_slot)
		ExecDropSingleTupleTableSlot(state->own_slot);
	if (state->kept_slot)
		ExecDropSingleTupleTableSlot(state->kept_slot);
}

static void
explain_scan(CustomScanState *node, List *ancestors, ExplainState *es)
{
	LeapScanState *state = (LeapScanState *) node;
	TupleDesc	desc = RelationGetDescr(node->ss.ss_currentRelation);
	List	   *nodes = NIL;
	List	   *columns = NIL;

	for (int i = 0; i < state->nodes; i++)
	{
		const char *name = leap_node_name(state->streams[i].node);

		nodes = lappend(nodes, es->analyze ?
						psprintf("%s (rows=" UINT64_FORMAT ")", name, state->streams[i].rows) :
						pstrdup(name));
	}
	for (int i = 0; i < state->columns; i++)
		columns = lappend(columns, NameStr(TupleDescAttr(desc, state->attnum[i] - 1)->attname));
	ExplainPropertyList("Nodes Asked", nodes, es);
	ExplainPropertyList("Columns Asked For", columns, es);
	if (state->conditions[0])
		ExplainPropertyText("Condition Sent", state->conditions, es);
	if (es->analyze)
		ExplainPropertyUInteger("Own Rows Read", NULL, state->own_rows, es);
}

/* --- The other node's side --- */

/* A scan that a node reads for another one. */
typedef struct PeerScan
{
	Oid			role;
	Portal		portal;
	MemoryContext context;		/* of the rows taken last */
	Datum	   *rows;
	uint64		count;
	uint64		at;
} PeerScan;

/* What runs as the caller's role, which it cannot leave. */
typedef struct AsRole
{
	Oid			user;
	int			security;
	int			level;
} AsRole;

static void
enter_role(AsRole *before, Oid role)
{
	GetUserIdAndSecContext(&before->user, &before->security);
	SetUserIdAndSecContext(role, before->security | SECURITY_LOCAL_USERID_CHANGE);
	before->level = NewGUCNestLevel();
	RestrictSearchPath();
	(void) set_config_option("leap.scans", "local", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	SPI_connect();
}

static void
leave_role(AsRole *before)
{
	SPI_finish();
	AtEOXact_GUC(false, before->level);
	SetUserIdAndSecContext(before->user, before->security);
}

/* The statement, in which no names are taken from the other node as they are. */
static char *
make_select(Oid relation, ArrayType *columns, const char *conditions)
{
	StringInfoData sql;
	Datum	   *column;
	int			n;

	deconstruct_array(columns, TEXTOID, -1, false, TYPALIGN_INT, &column, NULL, &n);
	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT ROW(");
	for (int i = 0; i < n; i++)
		appendStringInfo(&sql, "%st.%s", i > 0 ? ", " : "",
						 quote_identifier(TextDatumGetCString(column[i])));
	appendStringInfo(&sql, ")::pg_catalog.text FROM ONLY %s t",
					 quote_qualified_identifier(get_namespace_name(get_rel_namespace(relation)),
												get_rel_name(relation)));
	if (conditions[0])
		appendStringInfo(&sql, " WHERE %s", conditions);
	return sql.data;
}

/* The rows that are here are meant, even if conditions or a policy name keys. */
static Portal
open_cursor(Oid relation, const char *sql)
{
	SPIPlanPtr	plan = SPI_prepare(sql, 0, NULL);
	Portal		portal;

	if (plan == NULL)
		elog(ERROR, "leap: no plan: %s", SPI_result_code_string(SPI_result));
	PG_TRY();
	{
		leap_read_for_peer = relation;
		portal = SPI_cursor_open(NULL, plan, NULL, NULL, true);
	}
	PG_FINALLY();
	{
		leap_read_for_peer = InvalidOid;
	}
	PG_END_TRY();
	PinPortal(portal);
	return portal;
}

static PeerScan *
begin_peer_scan(FunctionCallInfo fcinfo)
{
	Oid			relation = DatumGetObjectId(DirectFunctionCall1(regclassin,
										CStringGetDatum(text_to_cstring(PG_GETARG_TEXT_PP(0)))));
	PeerScan   *scan = palloc0(sizeof(PeerScan));
	AsRole		before;

	scan->role = get_role_oid(text_to_cstring(PG_GETARG_TEXT_PP(1)), false);
	check_can_set_role(GetUserId(), scan->role);
	if (leap_member_of(relation) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is no leap table", get_rel_name(relation))));
	scan->context = AllocSetContextCreate(CurrentMemoryContext, "leap rows",
										  ALLOCSET_DEFAULT_SIZES);
	enter_role(&before, scan->role);
	scan->portal = open_cursor(relation, make_select(relation, PG_GETARG_ARRAYTYPE_P(2),
													 text_to_cstring(PG_GETARG_TEXT_PP(3))));
	leave_role(&before);
	return scan;
}

/* Takes more rows out of the cursor; the last time there are none, and it is closed. */
static void
fetch_batch(PeerScan *scan)
{
	AsRole		before;

	MemoryContextReset(scan->context);
	enter_role(&before, scan->role);
	SPI_cursor_fetch(scan->portal, true, BATCH);
	scan->count = SPI_processed;
	scan->at = 0;
	scan->rows = MemoryContextAlloc(scan->context, sizeof(Datum) * BATCH);
	for (uint64 i = 0; i < scan->count; i++)
	{
		bool		null;
		Datum		row = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &null);
		MemoryContext inner = MemoryContextSwitchTo(scan->context);

		scan->rows[i] = PointerGetDatum(DatumGetTextPCopy(row));
		MemoryContextSwitchTo(inner);
	}
	if (scan->count == 0)
	{
		UnpinPortal(scan->portal);
		SPI_cursor_close(scan->portal);
	}
	leave_role(&before);
}

PG_FUNCTION_INFO_V1(leap_peer_scan);

/*
 * leap.peer_scan(table, role, columns, conditions): the rows that are here, as texts of rows, as a
 * role sees them.  One at a time: the requester reads as fast as it wants.
 */
Datum
leap_peer_scan(PG_FUNCTION_ARGS)
{
	FuncCallContext *call;
	PeerScan   *scan;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext before;

		call = SRF_FIRSTCALL_INIT();
		before = MemoryContextSwitchTo(call->multi_call_memory_ctx);
		call->user_fctx = begin_peer_scan(fcinfo);
		MemoryContextSwitchTo(before);
	}
	call = SRF_PERCALL_SETUP();
	scan = call->user_fctx;
	if (scan->at == scan->count)
		fetch_batch(scan);
	if (scan->count == 0)
		SRF_RETURN_DONE(call);
	SRF_RETURN_NEXT(call, scan->rows[scan->at++]);
}

/* --- The setting --- */

/*
 * The planner's hooks are there from the first time that a session has all: what else has a say in
 * planning may keep other modules from keeping plans.  Plans of before are made anew.
 */
void
leap_scan_set(int scans)
{
	static bool is_installed = false;

	if (scans == LEAP_SCANS_ALL && !is_installed)
	{
		below_pathlist = set_rel_pathlist_hook;
		set_rel_pathlist_hook = set_paths;
		below_info = get_relation_info_hook;
		get_relation_info_hook = tell_of_relation;
		is_installed = true;
	}
	if ((scans == LEAP_SCANS_ALL) != (leap_scans == LEAP_SCANS_ALL))
		ResetPlanCache();
}

void
leap_scan_install(void)
{
	RegisterCustomScanMethods(&scan_methods);
}
