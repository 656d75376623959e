/*
 * ls_planner.h - hooks of the planner.
 *
 * Of each the function and the place of what it calls.
 */
#ifndef LS_PLANNER_H
#define LS_PLANNER_H

#include "postgres.h"

#include "optimizer/plancat.h"
#include "optimizer/planner.h"

/* ---- ls_planner_info.c */
extern void ls_planner_relation_info(PlannerInfo *root, Oid relation, bool inhparent,
									 RelOptInfo *rel);
extern get_relation_info_hook_type ls_planner_below_info;

/* ---- ls_index_show.c */
extern PlannedStmt *ls_index_show_plan(Query *query, const char *text, int options,
									   ParamListInfo params);
extern planner_hook_type ls_index_show_below_plan;

#endif							/* LS_PLANNER_H */
