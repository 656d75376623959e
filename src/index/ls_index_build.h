/*
 * ls_index_build.h - what the processes that build an index together share.
 */
#ifndef LS_INDEX_BUILD_H
#define LS_INDEX_BUILD_H

#include "ls_index_sort.h"

#include "access/tableam.h"
#include "nodes/execnodes.h"
#include "storage/dsm.h"
#include "storage/shm_toc.h"

/* One process' part: rows read, entries sorted. */
typedef struct LsIndexBuild
{
	Relation	table;
	Relation	index;
	IndexInfo  *info;
	LsIndexSort *sort;
	LsOrderLabelSort *labels;		/* in place of it, of an index that has some */
	MemoryContext row_context;
	LsIndexOrder *order;		/* NULL: it depends on no collation of libc */
	StringInfoData last_entry;	/* to be compared with the next one: key and row id, */
	StringInfoData last_payload;	/* and payload */
	StringInfoData last_long;	/* the last long key, */
	StringInfoData long_entry;	/* and what it was as an entry */
	double		rows;
	double		entries;
} LsIndexBuild;

extern void ls_index_build_begin(LsIndexBuild *b, Relation table, Relation index, IndexInfo *info,
								 int kilobytes);
/* scan: the process' part of a parallel scan, or NULL for a scan of the whole table. */
extern void ls_index_build_scan(LsIndexBuild *b, bool progress, TableScanDesc scan);
extern void ls_index_build_end(LsIndexBuild *b);

/* ls_index_build_parallel.c: the workers, as their leader sees them. */
typedef struct LsIndexBuildTeam LsIndexBuildTeam;

/* Launch as many as info says; NULL when there are none to be had. */
extern LsIndexBuildTeam *ls_index_build_team(Relation table, Relation index, IndexInfo *info);
/* Processes that share the memory, the leader included. */
extern int	ls_index_build_team_size(const LsIndexBuildTeam *team);
/* Read and sort together with them: the leader's build then is that of all. */
extern void ls_index_build_team_scan(LsIndexBuildTeam *team, LsIndexBuild *b);
extern void ls_index_build_team_end(LsIndexBuildTeam *team);

extern PGDLLEXPORT void ls_index_build_worker(dsm_segment *seg, shm_toc *toc);

#endif							/* LS_INDEX_BUILD_H */
