/*
 * ls_ddl.h - utility commands on leanstore tables and indexes.
 */
#ifndef LS_DDL_H
#define LS_DDL_H

#include "postgres.h"

/* ---- ls_utility.c */
extern void ls_utility_install_hooks(void);

#endif							/* LS_DDL_H */
