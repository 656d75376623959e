/*
 * ls_planner.h - hooks of the planner.
 *
 * Returned is the place of what the hook calls.
 */
#ifndef LS_PLANNER_H
#define LS_PLANNER_H

#include "postgres.h"

#include "optimizer/plancat.h"
#include "optimizer/planner.h"

/* ---- ls_planner_info.c */
extern get_relation_info_hook_type *ls_planner_install_info_hook(void);

/* ---- ls_index_show.c */
extern planner_hook_type *ls_index_install_show_hook(void);

#endif							/* LS_PLANNER_H */
