/*
 * ls_table.h - what the floors above use of the table access method.
 */
#ifndef LS_TABLE_H
#define LS_TABLE_H

#include "postgres.h"

#include "access/tableam.h"
#include "catalog/objectaccess.h"
#include "nodes/nodes.h"

/* ---- ls_table_handler.c */
extern const TableAmRoutine ls_table_routine;

/* ---- ls_publication.c: leanstore tables are not published */

/* After a utility statement: an error if it has left a leanstore table in a publication. */
extern void ls_publication_check(const Node *parsetree);

/* From the object access hook. */
extern void ls_publication_note_access(ObjectAccessType access, Oid class_id, Oid object_id,
									   int sub_id);

#endif							/* LS_TABLE_H */
