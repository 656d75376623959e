/*
 * ls_inspect.h - what the server's side is told of the functions that look inside.
 */
#ifndef LS_INSPECT_H
#define LS_INSPECT_H

#include "postgres.h"

/* ---- ls_page_tools.c: pageinspect and its like are refused for leanstore relations */
extern void ls_page_tools_install_hooks(void);

#endif							/* LS_INSPECT_H */
