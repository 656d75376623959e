/*
 * ls_plan.h - plans of look-ups by key are used again for other values.
 *
 * README.md tells why and when.  ls_plan_reuse.c has the hook and decides, ls_plan_cache.c keeps
 * plans, ls_plan_fingerprint.c tells which queries differ in their values only,
 * ls_plan_parameterize.c puts parameters in their place, and ls_plan_bounded.c tells whether a plan
 * is right for all values.
 */
#ifndef LS_PLAN_H
#define LS_PLAN_H

#include "ls_accel.h"

#include "lib/ilist.h"
#include "nodes/params.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/* A query with more is planned as always. */
#define LS_PLAN_MAX_VALUES 128

typedef struct LsPlanValue
{
	Datum		value;
	bool		is_null;
} LsPlanValue;

/* A query's values: constants of its text or of parameters; one parameter may be several. */
typedef struct LsQueryShape
{
	uint64		hash;			/* of all but the values */
	int			n_values;
	Node	   *nodes[LS_PLAN_MAX_VALUES];	/* Const or Param, as a walk finds them */
	LsPlanValue values[LS_PLAN_MAX_VALUES];
} LsQueryShape;

/*
 * A query with parameters in place of its values.  The first n_values stand for those of the
 * shape; behind them come expressions of values that the planner would have computed, as
 * (5)::bigint or ARRAY[1, 2].
 */
typedef struct LsParameterizedQuery
{
	Query	   *query;
	int			n_values;
	int			n_computed;
	Node	  **computed;		/* with constants for values */
	List	  **places;			/* for each value: Consts to set, in `computed` and in the plan */
	ParamListInfo estimates;
} LsParameterizedQuery;

/*
 * An upper bound of the rows that a plan reads: factor, times what lies between two values where it
 * reads a range.
 */
typedef struct LsRowBound
{
	double		factor;
	int			from;			/* number of a value, -1: no range */
	int			to;
	Oid			from_type;
	Oid			to_type;
} LsRowBound;

/*
 * What a plan depends on beside query and catalogs: it is made anew when one is changed.  Compared
 * as bytes.
 */
typedef struct LsPlannerSettings
{
	double		costs[10];
	int			numbers[8];
	bool		enabled[16];
} LsPlannerSettings;

/* Of a shape that was seen again.  `plan` is NULL where no plan is right for all values. */
typedef struct LsCachedPlan
{
	uint64		hash;			/* of the shape; key of the table */
	uint64		serial;			/* no two have the same */
	dlist_node	link;
	bool		valid;
	int			options;		/* of the planner */
	MemoryContext context;		/* of all that follows */
	Size		bytes;			/* of it */
	Query	   *blank;
	PlannedStmt *plan;
	LsParameterizedQuery parameterized;		/* its query and estimates are gone */
	LsRowBound	bound;
	double		rows_max;		/* the plan is right for as many rows, or less */
	double		rows_refused;	/* it was not right for as many; 0: unknown */
	List	   *relations;		/* what it depends on, as in PlannedStmt */
	List	   *items;
	LsPlannerSettings settings;
	int64		uses;
} LsCachedPlan;

/* ls_plan_fingerprint.c */
extern bool ls_query_shape(Query *query, int options, ParamListInfo params, LsQueryShape *shape);
extern Query *ls_query_copy(Query *query, int options, ParamListInfo params, LsQueryShape *shape);
extern Query *ls_query_blank(Query *query, int options, ParamListInfo params);
extern bool ls_query_is_like(Query *query, const LsQueryShape *shape, const Query *blank);

/* ls_plan_parameterize.c */
extern bool ls_query_parameterize(Query *query, int options, ParamListInfo params,
								  LsParameterizedQuery *parameterized);
extern int ls_value_of(const Node *node);
extern void ls_place_values(const LsParameterizedQuery *parameterized, const LsPlanValue *values,
							int n);
extern bool ls_compute_values(const LsParameterizedQuery *parameterized, LsPlanValue *values);
extern void ls_place_in_plan(PlannedStmt *plan, LsParameterizedQuery *parameterized);

/* ls_plan_bounded.c */
extern bool ls_plan_is_bounded(const PlannedStmt *plan, const LsParameterizedQuery *parameterized,
							   LsRowBound *bound);
extern double ls_plan_rows(const LsRowBound *bound, const LsPlanValue *values);

/* ls_plan_cache.c */
extern void ls_planner_settings(LsPlannerSettings *settings);
extern uint64 ls_plan_invalidations(void);
extern void ls_plan_prepare(void);
extern LsCachedPlan *ls_plan_find(uint64 hash);
extern LsCachedPlan *ls_plan_cache_put(uint64 hash, const LsCachedPlan *what);
extern void ls_plan_used(LsCachedPlan *kept);
extern void ls_plan_discard(void);
extern Size ls_plans_bytes(void);
extern void ls_plans_shrink(Size bytes);

/* ls_plan_reuse.c */
extern void ls_plan_install_hooks(const LsModule *host);

#endif
