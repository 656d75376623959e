/*
 * ls_index_internal.h - what the files of the index access method share.
 */
#ifndef LS_INDEX_INTERNAL_H
#define LS_INDEX_INTERNAL_H

#include "ls_index.h"

#include "access/amapi.h"

/* The row id as it stands behind the key of an entry. */
static inline void
ls_index_put_row_id(uint64 row_id, uint8 out[LS_ENTRY_ROW_ID_BYTES])
{
	for (int i = LS_ENTRY_ROW_ID_BYTES - 1; i >= 0; i--, row_id >>= 8)
		out[i] = (uint8) row_id;
}

/* ---- ls_index_shape.c */
extern bool ls_index_key_is_long(Relation index, const Datum *values, const bool *isnull);
extern void ls_index_check_key_size(Relation index, uint32 len);

/* In the current memory context. */
extern ls_bytes ls_index_form_payload(Relation index, ls_bytes key, const Datum *values,
									  const bool *isnull);

/* The value of one key column (0-based) that is in the payload, and is not NULL. */
extern Datum ls_index_stored_value(Relation index, const ls_index_entry *entry, int column);

/* What the key column (0-based) is for its keys. */
extern Oid	ls_index_key_type(Relation index, int column);

/* ---- ls_index_form.c: how strings are encoded under collations of libc */

/* Of each key column, as recorded. */
extern void ls_index_recorded_forms(Relation index, uint16 *forms);

/* Of an index that is going to be built: choose and record them. */
extern void ls_index_choose_forms(Relation index);

/* A new index, with a file perhaps that another one had until now. */
extern void ls_index_take_over_forms(Relation index);

/* ---- ls_index_long.c */

/* So many are enough for the key of an entry, until labels have grown. */
#define LS_LONG_ENTRY_BYTES (LS_LONG_KEY_BYTES + 16)

/* The whole key of an entry; valid until the next key is formed. */
extern ls_bytes ls_index_whole_key(Relation index, const ls_index_entry *entry);

/*
 * What a place among whole keys is among entries: the first or, `behind`, the end of those that it
 * may be among.
 */
extern bool ls_index_clip_place(const LsIndexShape *shape, StringInfo place, bool behind);

/* ---- ls_index_stale.c */

/* Has the row's newest version this key? */
extern bool ls_index_row_has_key(Relation index, Relation table, ls_bytes key, uint64 row_id);

/* Remove an entry that has another key than its row, if no snapshot needs it any more. */
extern bool ls_index_remove_stale(Relation index, Relation table, ls_bytes key, uint64 row_id);

/* ---- ls_index_build.c */
extern IndexBuildResult *ls_index_ambuild(Relation table, Relation index, IndexInfo *info);
extern void ls_index_ambuildempty(Relation index);
extern char *ls_index_ambuildphasename(int64 phase);

/* ---- ls_index_vacuum.c */
extern IndexBulkDeleteResult *ls_index_ambulkdelete(IndexVacuumInfo *info,
													IndexBulkDeleteResult *stats,
													IndexBulkDeleteCallback callback, void *state);
extern IndexBulkDeleteResult *ls_index_amvacuumcleanup(IndexVacuumInfo *info,
													   IndexBulkDeleteResult *stats);

/* ---- ls_index_options.c: storage parameters, operator class validation */
#define LS_INDEX_DEFAULT_FILLFACTOR 90

typedef struct LsIndexOptions
{
	int32		vl_len_;		/* varlena header (do not touch directly!) */
	int			fillfactor;
} LsIndexOptions;

extern bytea *ls_index_amoptions(Datum reloptions, bool validate);
extern bool ls_index_amvalidate(Oid opclass);
extern void ls_index_amadjustmembers(Oid opfamily, Oid opclass, List *operators, List *functions);

/* ---- ls_index_scan.c */
extern IndexScanDesc ls_index_ambeginscan(Relation index, int nkeys, int norderbys);
extern void ls_index_amrescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys,
							  int norderbys);
extern bool ls_index_amgettuple(IndexScanDesc scan, ScanDirection direction);
extern int64 ls_index_amgetbitmap(IndexScanDesc scan, TIDBitmap *bitmap);
extern void ls_index_amendscan(IndexScanDesc scan);
extern void ls_index_ammarkpos(IndexScanDesc scan);
extern void ls_index_amrestrpos(IndexScanDesc scan);
extern bool ls_index_amcanreturn(Relation index, int column);

/* Remove the entry of a row that is dead to all snapshots. */
extern void ls_index_remove_dead(Relation index, Relation table, ls_bytes key, uint64 row_id);

/* ---- ls_index_parallel.c */
extern Size ls_index_amestimateparallelscan(Relation index, int nkeys, int norderbys);
extern void ls_index_aminitparallelscan(void *target);
extern void ls_index_amparallelrescan(IndexScanDesc scan);

/* ---- ls_index_cost.c */
extern int	ls_index_amgettreeheight(Relation index);

#endif							/* LS_INDEX_INTERNAL_H */
