/*
 * ls_index_handler.c - the index access method's routine.
 */
#include "postgres.h"

#include "ls_index_internal.h"

#include "access/stratnum.h"
#include "commands/vacuum.h"
#include "fmgr.h"

PG_FUNCTION_INFO_V1(leanstore_indexam_handler);

/* Strategies are numbered as btree's. */
static CompareType
translate_strategy(StrategyNumber strategy, Oid opfamily)
{
	switch (strategy)
	{
		case BTLessStrategyNumber:
			return COMPARE_LT;
		case BTLessEqualStrategyNumber:
			return COMPARE_LE;
		case BTEqualStrategyNumber:
			return COMPARE_EQ;
		case BTGreaterEqualStrategyNumber:
			return COMPARE_GE;
		case BTGreaterStrategyNumber:
			return COMPARE_GT;
		default:
			return COMPARE_INVALID;
	}
}

static StrategyNumber
translate_cmptype(CompareType cmptype, Oid opfamily)
{
	switch (cmptype)
	{
		case COMPARE_LT:
			return BTLessStrategyNumber;
		case COMPARE_LE:
			return BTLessEqualStrategyNumber;
		case COMPARE_EQ:
			return BTEqualStrategyNumber;
		case COMPARE_GE:
			return BTGreaterEqualStrategyNumber;
		case COMPARE_GT:
			return BTGreaterStrategyNumber;
		default:
			return InvalidStrategy;
	}
}

Datum
leanstore_indexam_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *routine = makeNode(IndexAmRoutine);

	routine->amstrategies = BTMaxStrategyNumber;
	routine->amsupport = 1;		/* comparison */
	routine->amcanorder = true;
	routine->amconsistentequality = true;
	routine->amconsistentordering = true;
	routine->amcanbackward = true;
	routine->amcanunique = true;
	routine->amcanmulticol = true;
	routine->amoptionalkey = true;
	routine->amsearcharray = true;
	routine->amsearchnulls = true;
	routine->amclusterable = true;
	routine->amcanparallel = true;
	routine->amcanbuildparallel = true;
	routine->amcaninclude = true;
	/* range locks, not predicate locks: the server shall not lock whole indexes for us */
	routine->ampredlocks = true;
	/* the table's VACUUM sweeps; dead entries need no help from parallel workers */
	routine->amparallelvacuumoptions = VACUUM_OPTION_NO_PARALLEL;
	routine->amkeytype = InvalidOid;

	routine->ambuild = ls_index_ambuild;
	routine->ambuildempty = ls_index_ambuildempty;
	routine->aminsert = ls_index_aminsert;
	routine->ambulkdelete = ls_index_ambulkdelete;
	routine->amvacuumcleanup = ls_index_amvacuumcleanup;
	routine->amcanreturn = ls_index_amcanreturn;
	routine->amcostestimate = ls_index_amcostestimate;
	routine->amgettreeheight = ls_index_amgettreeheight;
	routine->amoptions = ls_index_amoptions;
	routine->ambuildphasename = ls_index_ambuildphasename;
	routine->amvalidate = ls_index_amvalidate;
	routine->amadjustmembers = ls_index_amadjustmembers;
	routine->ambeginscan = ls_index_ambeginscan;
	routine->amrescan = ls_index_amrescan;
	routine->amgettuple = ls_index_amgettuple;
	routine->amgetbitmap = ls_index_amgetbitmap;
	routine->amendscan = ls_index_amendscan;
	routine->ammarkpos = ls_index_ammarkpos;
	routine->amrestrpos = ls_index_amrestrpos;
	routine->amestimateparallelscan = ls_index_amestimateparallelscan;
	routine->aminitparallelscan = ls_index_aminitparallelscan;
	routine->amparallelrescan = ls_index_amparallelrescan;
	routine->amtranslatestrategy = translate_strategy;
	routine->amtranslatecmptype = translate_cmptype;

	PG_RETURN_POINTER(routine);
}
