/*
 * ls_table.h - what the floors above use of the table access method.
 */
#ifndef LS_TABLE_H
#define LS_TABLE_H

#include "postgres.h"

#include "access/tableam.h"

/* ---- ls_table_handler.c */
extern const TableAmRoutine ls_table_routine;

#endif							/* LS_TABLE_H */
