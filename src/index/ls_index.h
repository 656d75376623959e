/*
 * ls_index.h - shared by the files of the index access method.
 *
 * An entry of an index on a leanstore table is  key | row id -> payload  in the
 * engine's tree (engine.h, "index entries").  The key is normalized
 * (key/ls_key.h).  The payload holds the columns that the key can not give back:
 * INCLUDE columns, key columns whose encoding loses something, and those that
 * have labels for keys (ls_index_label.h).
 */
#ifndef LS_INDEX_H
#define LS_INDEX_H

#include "ls.h"
#include "key/ls_key.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/relscan.h"
#include "nodes/execnodes.h"
#include "optimizer/plancat.h"
#include "optimizer/planner.h"
#include "tcop/utility.h"

/* The row id as it stands behind the key of an entry. */
static inline void
ls_index_put_row_id(uint64 row_id, uint8 out[LS_ENTRY_ROW_ID_BYTES])
{
	for (int i = LS_ENTRY_ROW_ID_BYTES - 1; i >= 0; i--, row_id >>= 8)
		out[i] = (uint8) row_id;
}

/* What the columns of an index are; made once per relcache entry. */
typedef struct LsIndexShape
{
	int			n_columns;		/* all of them */
	int			n_keys;
	LsKeyColumn *keys;			/* one more: the rest of a long key (ls_index_long.c) */
	int			n_labels;		/* key columns with labels */
	bool		can_be_long;	/* keys may be longer than LS_LONG_KEY_BYTES */
	int			n_stored;		/* columns in the payload ... */
	AttrNumber *stored;			/* ... which ones, ascending, 1-based */
	TupleDesc	payload;		/* NULL when there are none */
} LsIndexShape;

/* ---- ls_index_shape.c */

/* Valid as long as the relation is open. */
extern const LsIndexShape *ls_index_shape(Relation index);

/*
 * The bytes of an entry.  A key is valid until the next one is formed, a payload is in
 * the current memory context.  Errors name the index and the limit when the
 * entry is too large (ERRCODE_PROGRAM_LIMIT_EXCEEDED).  The key of an index with labels
 * has to be found (ls_index_label.h).
 */
extern ls_bytes ls_index_form_key(Relation index, const Datum *values, const bool *isnull);
extern bool ls_index_key_is_long(Relation index, const Datum *values, const bool *isnull);
extern void ls_index_check_key_size(Relation index, uint32 len);
extern ls_bytes ls_index_form_payload(Relation index, ls_bytes key, const Datum *values, const bool *isnull);

/* All columns of an entry again; by-reference values are in the current memory context. */
extern void ls_index_deform(Relation index, const ls_index_entry *entry, Datum *values, bool *isnull);

/* The value of one key column (0-based) that is in the payload, and is not NULL. */
extern Datum ls_index_stored_value(Relation index, const ls_index_entry *entry, int column);

/* The tree of an index, and that of its table (LsRelation of ls_relation.c has to be asked each time). */
extern ls_rel *ls_index_tree(Relation index);

/*
 * ---- ls_index_long.c: keys that are too long for an entry
 *
 * Of a key of more than so many bytes an entry has these, and then a label for the rest; its
 * payload has all columns.  Two separators and the largest payload, which is btree's, fit a page beside it.
 * Indexes with labels for columns have no long keys.
 */
#define LS_LONG_KEY_BYTES 384

/* So many are enough for the key of an entry, until labels have grown. */
#define LS_LONG_ENTRY_BYTES (LS_LONG_KEY_BYTES + 16)

/* Is this key, or this entry's, a long one? */
static inline bool
ls_index_is_long(const LsIndexShape *shape, uint32 key_len)
{
	return shape->n_labels == 0 && key_len > LS_LONG_KEY_BYTES;
}

/* The label of the rest, as a column. */
static inline const LsKeyColumn *
ls_index_rest(const LsIndexShape *shape)
{
	return &shape->keys[shape->n_keys];
}

/* The whole key of an entry; valid until the next key is formed. */
extern ls_bytes ls_index_whole_key(Relation index, const ls_index_entry *entry);

/*
 * What a place among whole keys is among entries: the first or, `behind`, the end of those that it
 * may be among.
 */
extern bool ls_index_clip_place(const LsIndexShape *shape, StringInfo place, bool behind);

/* ---- ls_index_insert.c */
extern bool ls_index_aminsert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation table,
							  IndexUniqueCheck check, bool unchanged, IndexInfo *info);

/* Insert an entry into an index that is not unique. */
extern void ls_index_insert_entry(Relation index, Relation table, const Datum *values, const bool *isnull, uint64 row_id);

/* ---- ls_index_stale.c */

/* May an update leave entries of this index behind, and the row where it is? */
extern bool ls_index_can_be_stale(Relation index);

/* Has it some?  To be asked after an entry or a row was read: the index is marked before it gets the first. */
extern bool ls_index_has_stale(Relation index);

/*
 * The indexes, opened, that need another entry for a row when these columns change (in pull_varattnos()'s numbers), if
 * the row can stay; *possible false: it can not.
 */
extern List *ls_index_open_rekeyed(Relation table, const Bitmapset *changed, bool *possible);
extern void ls_index_close_rekeyed(List *rekeyed);

/* An entry of this index is about to become stale. */
extern void ls_index_expect_stale(Relation index);

/* The values of an index on plain columns. */
extern void ls_index_key_columns(Relation index, Relation table, HeapTuple tuple, Datum *values, bool *isnull);

/* Can a row get these values and stay where it is?  Long keys do not become stale. */
extern bool ls_index_can_rekey(const List *rekeyed, Relation table, HeapTuple old, HeapTuple new);

/* Is this the key of the version in the slot? */
extern bool ls_index_is_key_of(Relation index, ls_bytes key, TupleTableSlot *slot);

/* The version in the slot was found through the entry that the scan has returned last: has it another key? */
struct LsIndexScan;
extern bool ls_index_entry_is_stale(struct LsIndexScan *so, Relation table, TupleTableSlot *slot);

/* Has the row's newest version this key? */
extern bool ls_index_row_has_key(Relation index, Relation table, ls_bytes key, uint64 row_id);

/* Remove an entry that has another key than its row, if nobody needs it any more. */
extern bool ls_index_remove_stale(Relation index, Relation table, ls_bytes key, uint64 row_id);

/* This transaction has just made an entry stale: remove it when that is possible. */
extern void ls_index_note_left_behind(Relation index, Relation table, ls_bytes key, uint64 row_id);

/* ---- ls_index_build.c */
extern IndexBuildResult *ls_index_ambuild(Relation table, Relation index, IndexInfo *info);
extern void ls_index_ambuildempty(Relation index);
extern char *ls_index_ambuildphasename(int64 phase);

/* Raise an error if this is not a leanstore table. */
extern void ls_index_require_table(Relation table);

/* ---- ls_index_vacuum.c */
extern IndexBulkDeleteResult *ls_index_ambulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
													IndexBulkDeleteCallback callback, void *state);
extern IndexBulkDeleteResult *ls_index_amvacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats);

/* ---- ls_index_enum.c */
typedef struct LsEnumPositions LsEnumPositions;

/* Around ALTER TYPE ... ADD VALUE; NULL: nothing to check afterwards. */
extern LsEnumPositions *ls_index_before_alter_enum(AlterEnumStmt *stmt);
extern void ls_index_after_alter_enum(const LsEnumPositions *before);

/* Keep the enums in the keys of an index that is being built as they are. */
extern void ls_index_lock_enums(Relation index);

/* ---- ls_index_options.c: storage parameters, operator class validation */
#define LS_INDEX_DEFAULT_FILLFACTOR 90

typedef struct LsIndexOptions
{
	int32		vl_len_;		/* varlena header (do not touch directly!) */
	int			fillfactor;
} LsIndexOptions;

extern void ls_index_define_options(void);
extern bytea *ls_index_amoptions(Datum reloptions, bool validate);
extern bool ls_index_amvalidate(Oid opclass);
extern void ls_index_amadjustmembers(Oid opfamily, Oid opclass, List *operators, List *functions);

/* ---- ls_index_text.c */
#define LS_IMPLICIT_AM NULL		/* in IndexStmt.accessMethod: to be chosen */

/* Does the CREATE INDEX at this place name an access method?  Also true when there is no such text. */
extern bool ls_index_text_names_am(const char *query, int location, int len);

/* The indexes of CREATE SCHEMA are created one by one later on, far from their text. */
extern void ls_index_mark_schema_elements(CreateSchemaStmt *schema, const char *query, int location, int len);

/* ---- ls_index_choose.c */
static inline bool
ls_is_named(const char *name, const char *am)
{
	return name != NULL && strcmp(name, am) == 0;
}

/*
 * Are the indexes of this table leanstore indexes?  Those of a partition and of its parents have to be of one access
 * method, so what holds for the root holds for all.
 */
extern bool ls_index_table_suits(Relation rel);

/* Options that only btree has are a wish for btree. */
extern bool ls_index_options_suit(List *options);

/* The access method of CREATE INDEX; of a constraint, in a column of that name or NULL; of what CREATE TABLE makes. */
extern void ls_index_choose(IndexStmt *stmt, const PlannedStmt *pstmt, const char *query, ProcessUtilityContext context);
extern void ls_index_choose_for_constraint(Relation rel, const AlterTableStmt *stmt, Constraint *constraint,
										   const char *only_column, const char *query);
extern void ls_index_choose_for_table(CreateStmt *stmt);

/* ---- ls_index_utility.c */

/* May the statement have to be changed?  Then it has to be a copy that the caller owns. */
extern bool ls_index_concerns(const Node *stmt);

/* What is left to do when the server has executed it. */
typedef struct LsIndexAfterwards
{
	List	   *statements;		/* to be executed */
	Oid			new_table;		/* has become a leanstore table */
} LsIndexAfterwards;

extern void ls_index_prepare_statement(PlannedStmt *pstmt, const char *query, ProcessUtilityContext context,
									   LsIndexAfterwards *after);
extern void ls_index_finish_statement(const LsIndexAfterwards *after, const char *query);
extern bool ls_index_is_ours(Oid relid);

/* ---- ls_index_class.c: which operator class stands for which */

/* Its comparison procedure; InvalidOid: it has none. */
extern Oid	ls_index_class_comparison(Oid opclass);

/* Can a column be in an index with this operator class (of ours)?  It has to compare. */
extern bool ls_index_has_order(Oid opclass);

/*
 * The class of that access method that orders the same type in the same way; InvalidOid: there is
 * none.
 */
extern Oid	ls_index_class_of(Oid opclass, Oid am);

/*
 * The class of ours for a column of this type for which none is named; InvalidOid: there is none
 * that compares as btree's would.
 */
extern Oid	ls_index_default_class(Oid type);

/* Schema and name, for statements. */
extern List *ls_index_class_name(Oid opclass);

/*
 * The classes named for columns (IndexElem) become those of another access method.  False: one has
 * no such.
 */
extern bool ls_index_translate_classes(List *elements, Oid from_am, Oid to_am);

/*
 * A new relation: if it is an index of ours, an error when the server has taken a class for it that
 * is not right.
 */
extern void ls_index_check_classes(Oid relid);

/* ---- ls_index_class_copy.c: a class of ours for each btree class of extensions and users */
extern void ls_index_copy_classes(void);

/* Before CREATE OPERATOR CLASS ... USING leanstore: a copy that is in the way goes. */
extern void ls_index_make_way(const CreateOpClassStmt *stmt);

/* After a utility statement. */
extern void ls_index_after_class_statement(const Node *stmt);

/* ---- ls_index_replace.c */

/*
 * All leanstore indexes of the table become btree indexes; an error, if one can not.  Btree indexes become
 * leanstore indexes, where that can be: all, or with leanstore.replace_btree off those of constraints, which can not
 * name an access method.  build: they are built, for the server is not about to.
 */
extern void ls_index_replace_ours(Oid table, bool build);
extern void ls_index_replace_btree(Oid table, bool build);

/*
 * The keys that have a leanstore index.  As long as they are expected, an index that the server
 * makes for one of them becomes a leanstore index; returned are those expected before.
 */
extern List *ls_index_note_keys(Oid table, bool with_children, LOCKMODE lockmode);
extern List *ls_index_expect_keys(List *keys);

/* A new relation. */
extern void ls_index_take_over_key(Oid relid);

/* ---- ls_index_show.c */

/* Returned is the place of what it calls. */
extern planner_hook_type *ls_index_install_show_hook(void);

/* ---- ls_index_scan.c */
extern IndexScanDesc ls_index_ambeginscan(Relation index, int nkeys, int norderbys);
extern void ls_index_amrescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys);
extern bool ls_index_amgettuple(IndexScanDesc scan, ScanDirection direction);
extern int64 ls_index_amgetbitmap(IndexScanDesc scan, TIDBitmap *bitmap);
extern void ls_index_amendscan(IndexScanDesc scan);
extern void ls_index_ammarkpos(IndexScanDesc scan);
extern void ls_index_amrestrpos(IndexScanDesc scan);
extern bool ls_index_amcanreturn(Relation index, int column);

/* ---- ls_index_parallel.c */
extern Size ls_index_amestimateparallelscan(Relation index, int nkeys, int norderbys);
extern void ls_index_aminitparallelscan(void *target);
extern void ls_index_amparallelrescan(IndexScanDesc scan);

/* ---- ls_index_cost.c */
struct PlannerInfo;
struct IndexPath;
extern void ls_index_amcostestimate(struct PlannerInfo *root, struct IndexPath *path, double loop_count,
									Cost *startup, Cost *total, Selectivity *selectivity, double *correlation,
									double *pages);
extern int	ls_index_amgettreeheight(Relation index);
/* Returned is the place of what it calls. */
extern get_relation_info_hook_type *ls_index_install_planner_hook(void);

#endif							/* LS_INDEX_H */
