/*
 * ls_publication.h - leanstore tables are not published.
 */
#ifndef LS_PUBLICATION_H
#define LS_PUBLICATION_H

#include "ls.h"

#include "catalog/objectaccess.h"
#include "nodes/nodes.h"

/* After a utility statement: an error if it has left a leanstore table in a publication. */
extern void ls_publication_check(const Node *parsetree);

/* From the object access hook. */
extern void ls_publication_note_access(ObjectAccessType access, Oid class_id, Oid object_id,
									   int sub_id);

/* An error if the table is published. */
extern void ls_publication_refuse_change(Relation rel);

/* Rows of this table are about to be changed. */
static inline void
ls_publication_check_change(Relation rel)
{
	const LsRelCache *cache = rel->rd_amcache;

	if (unlikely(cache == NULL || !cache->unpublished))
		ls_publication_refuse_change(rel);
}

#endif							/* LS_PUBLICATION_H */
