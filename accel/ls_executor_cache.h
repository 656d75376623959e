/*
 * ls_executor_cache.h - what the executor builds for a plan is used again when the plan is executed
 * again.
 *
 * README.md tells why and when.  ls_executor_cache.c has the executor's hooks and the states that a
 * session keeps, ls_executor_cacheable.c tells for which plans, and ls_executor_reset.c lets go of
 * all that a state holds and takes it again.
 */
#ifndef LS_EXECUTOR_CACHE_H
#define LS_EXECUTOR_CACHE_H

#include "ls_accel.h"

#include "executor/execdesc.h"
#include "lib/ilist.h"
#include "nodes/execnodes.h"
#include "nodes/params.h"
#include "nodes/plannodes.h"

/* Tables and indexes, each time it is opened. */
#define LS_STATE_MAX_RELATIONS 16
#define LS_STATE_MAX_NODES 16

/* What a state that rests points to and does not hold. */
typedef struct LsRestingRelation
{
	Oid			oid;
	LOCKMODE	lock;			/* to open it with */
	Relation	relation;
	TupleDesc	descriptor;
} LsRestingRelation;

typedef struct LsExecutorStateParts
{
	int			n_nodes;		/* the root first, then children behind their parents */
	PlanState  *nodes[LS_STATE_MAX_NODES];
	int			n_relations;
	LsRestingRelation relations[LS_STATE_MAX_RELATIONS];
} LsExecutorStateParts;

/* The user and the parameters that a state was built for. */
typedef struct LsExecutorStateMaker
{
	Oid			user;			/* may execute the functions in it */
	ParamCompileHook compile;	/* built the reading of parameters into it; NULL: the executor */
	void	   *compiled_for;	/* its expression in PL/pgSQL */
} LsExecutorStateMaker;

/*
 * Of a plan in the server's plan cache.  `estate` is NULL unless a state rests here: an
 * execution takes it along.
 */
typedef struct LsCachedState
{
	const PlannedStmt *plan;	/* key of the table */
	bool		looked_at;
	bool		fits;
	int			starts;			/* as always */
	int			rests;			/* of this state */
	int64		uses;			/* of all states of the plan */
	const EState *running;		/* of the execution that was started last; may have gone */
	uint64		changes;		/* of catalogs, that this session knew of when the state was made */
	LsExecutorStateMaker maker;
	dlist_node	link;			/* only if a state rests here */
	EState	   *estate;
	Size		bytes;			/* of its memory, when it was measured last */
	TupleDesc	result;
	LsExecutorStateParts *parts;		/* in its memory; NULL: not collected yet */
} LsCachedState;

/* ls_executor_cacheable.c */
extern bool ls_executor_state_is_cacheable(const PlannedStmt *plan);

/* ls_executor_reset.c */
extern bool ls_executor_state_reset(LsCachedState *kept, QueryDesc *query);
extern bool ls_executor_state_open(LsCachedState *kept);
extern void ls_executor_state_close(LsExecutorStateParts *parts, int n);
extern void ls_executor_state_wake(LsCachedState *kept, QueryDesc *query, int eflags);

/* ls_executor_cache.c */
extern void ls_executor_state_install_hooks(const LsModule *host);
extern Size ls_states_bytes(void);
extern void ls_states_shrink(Size bytes);

#endif
