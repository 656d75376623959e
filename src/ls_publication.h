/*
 * ls_publication.h - leanstore tables are not published.
 */
#ifndef LS_PUBLICATION_H
#define LS_PUBLICATION_H

#include "nodes/nodes.h"

/* After a utility statement: an error if it has left a leanstore table in a publication. */
extern void ls_publication_check(const Node *parsetree);

#endif							/* LS_PUBLICATION_H */
