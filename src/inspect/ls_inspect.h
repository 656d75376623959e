/*
 * ls_inspect.h - what the server's side is told of the functions that look inside.
 */
#ifndef LS_INSPECT_H
#define LS_INSPECT_H

#include "postgres.h"

#include "fmgr.h"

/*
 * ---- ls_page_tools.c: pageinspect and its like are refused for leanstore relations
 *
 * Hooks, and what each calls.
 */
extern bool ls_page_tools_needs_fmgr(Oid function);
extern needs_fmgr_hook_type ls_page_tools_below_needs;
extern void ls_page_tools_fmgr(FmgrHookEventType event, FmgrInfo *flinfo, Datum *private);
extern fmgr_hook_type ls_page_tools_below_fmgr;

#endif							/* LS_INSPECT_H */
