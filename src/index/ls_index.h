/*
 * ls_index.h - what the floors above use of the index access method: entries of an index, indexes
 * of rows that are updated or found, and operator classes.
 *
 * An entry of an index on a leanstore table is  key | row id -> payload  in the
 * engine's tree (engine.h, "index entries").  The key is normalized
 * (key/ls_key.h).  The payload holds the columns that the key can not give back:
 * INCLUDE columns, key columns with an encoding that loses something, and those that
 * have labels for keys (ls_order_label.h).
 */
#ifndef LS_INDEX_H
#define LS_INDEX_H

#include "key/ls_key.h"
#include "session/ls_session.h"

#include "access/genam.h"
#include "access/htup.h"
#include "access/relscan.h"
#include "catalog/pg_index.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"

/* What the columns of an index are; made once per relcache entry. */
typedef struct LsIndexShape
{
	int			n_columns;		/* all of them */
	int			n_keys;
	LsKeyColumn *keys;			/* one more: the rest of a long key (ls_index_long.c) */
	uint16	   *forms;			/* as recorded: how keys encode strings (ls_index_form.c) */
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
 * The key of an entry, valid until the next one is formed.  Errors name the index and the limit
 * when it is too large (ERRCODE_PROGRAM_LIMIT_EXCEEDED).  The key of an index with labels
 * has to be found (ls_order_label.h).
 */
extern ls_bytes ls_index_form_key(Relation index, const Datum *values, const bool *isnull);

/* All columns of an entry again; by-reference values are in the current memory context. */
extern void ls_index_deform(Relation index, const ls_index_entry *entry, Datum *values,
							bool *isnull);

/* The tree of an index (LsRelCache of relation/ has to be asked each time). */
extern ls_rel *ls_index_tree(Relation index);

/*
 * ---- ls_index_long.c: keys that are too long for an entry
 *
 * Of a key of more than so many bytes an entry has these, and then a label for the rest; its
 * payload has all columns.  Two separators and the largest payload, which is btree's, fit a page
 * beside it.  Indexes with labels for columns have no long keys.
 */
#define LS_LONG_KEY_BYTES 384

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

/* ---- ls_index_form.c: what the server has in pg_index.indoption; other bits are ours */
#define LS_INDEX_ORDER_OPTIONS (INDOPTION_DESC | INDOPTION_NULLS_FIRST)

/* The one takes over the file of the other one, which has the same columns. */
extern void ls_index_copy_forms(Oid from, Oid to);

/*
 * ---- ls_index_order.c: do entries order as the comparison procedures do, where that depends on
 * collations of libc?
 */
typedef struct LsIndexOrder LsIndexOrder;

/* NULL: it does not. */
extern LsIndexOrder *ls_index_order_begin(Relation index);

/* Of two neighbours: the number of the first column that is not in order; 0: all are. */
extern int	ls_index_order_wrong(LsIndexOrder *order, const ls_index_entry *last,
								 const ls_index_entry *entry);
extern void ls_index_order_end(LsIndexOrder *order);

/* ---- ls_order_label_check.c: all entries of an index with labels, one after the other */
typedef struct LsOrderLabelCheck LsOrderLabelCheck;

extern LsOrderLabelCheck *ls_order_label_check_begin(Relation index);
extern void ls_order_label_check_entry(LsOrderLabelCheck *check, const ls_index_entry *entry);
extern void ls_order_label_check_end(LsOrderLabelCheck *check);

/* ---- ls_index_insert.c */
extern bool ls_index_aminsert(Relation index, Datum *values, bool *isnull, ItemPointer tid,
							  Relation table, IndexUniqueCheck check, bool unchanged,
							  IndexInfo *info);

/* Insert an entry into an index that is not unique. */
extern void ls_index_insert_entry(Relation index, Relation table, const Datum *values,
								  const bool *isnull, uint64 row_id);

/*
 * ---- what a fetch of rows is told by the scan of a leanstore index that it fetches for
 *
 * The table access method makes it: it lies at the beginning of its own struct.
 */
typedef struct LsIndexFetch
{
	IndexFetchTableData base;
	bool		locks;			/* the index locks the ranges that it reads (SERIALIZABLE) */
	bool		index_only;		/* the rows are not wanted, only whether they are there */
	bool		visible;		/* to all: the row of the entry returned last */
	const struct LsIndexScan *scan; /* valid if index_only */
	struct LsIndexScan *entries;	/* the scan, if its entries may be stale */
} LsIndexFetch;

/* ---- ls_index_vacuum.c */

/* How many rows of the table have gone since the index was last swept; UINT64_MAX: not known. */
extern uint64 ls_index_rows_gone_since(Relation index, Relation table);

/*
 * VACUUM's part in an index: a sweep, unless it is swept, and stale entries are looked for, if
 * there may be any.  there may be NULL.  *complete: every entry that leads to a row that no
 * snapshot sees changed (LS_ROWS_CLEAN) is right.  Without a sweep the number of entries is not
 * known.
 */
extern struct IndexBulkDeleteResult *ls_index_clean(struct IndexVacuumInfo *info, bool swept,
													ls_rows_there *there, bool *complete);

/* ---- ls_index_stale.c */

/* May an update leave entries of this index behind, and the row where it is? */
extern bool ls_index_can_be_stale(Relation index);

/*
 * Has it some?  To be asked after an entry or a row was read: the index is marked before it gets
 * the first.
 */
extern bool ls_index_has_stale(Relation index);

/* For ls_row_vouched(), of the entry that the scan has returned last. */
extern uint64 ls_index_scan_vouched(const struct LsIndexScan *scan);

/* The same of the index of a scan, where it can have some. */
extern bool ls_index_scan_has_stale(const struct LsIndexScan *scan);

/*
 * The indexes, opened, that need another entry for a row when these columns change (in
 * pull_varattnos()'s numbers), if the row can stay; *possible false: it can not.
 */
extern List *ls_index_open_rekeyed(Relation table, const Bitmapset *changed, bool *possible);
extern void ls_index_close_rekeyed(List *rekeyed);

/* An entry of this index is about to become stale. */
extern void ls_index_expect_stale(Relation index);

/* The values of an index on plain columns. */
extern void ls_index_key_columns(Relation index, Relation table, HeapTuple tuple, Datum *values,
								 bool *isnull);

/* Can a row get these values and stay where it is?  Long keys do not become stale. */
extern bool ls_index_can_rekey(const List *rekeyed, Relation table, HeapTuple old, HeapTuple new);

/* Is this the key of the version in the slot? */
extern bool ls_index_is_key_of(Relation index, ls_bytes key, TupleTableSlot *slot);

/*
 * The version in the slot was found through the entry that the scan has returned last: has it
 * another key?
 */
struct LsIndexScan;
extern bool ls_index_entry_is_stale(struct LsIndexScan *so, Relation table, TupleTableSlot *slot);

/* This transaction has just made an entry stale: remove it when that is possible. */
extern void ls_index_note_left_behind(Relation index, Relation table, ls_bytes key, uint64 row_id);

/* ---- ls_index_build.c: raise an error if this is not a leanstore table */
extern void ls_index_require_table(Relation table);

/* ---- ls_index_class.c: which operator class stands for which */

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

/* ---- ls_index_options.c */
extern void ls_index_define_options(void);

/* ---- ls_index_cost.c */
struct PlannerInfo;
struct IndexPath;
extern void ls_index_amcostestimate(struct PlannerInfo *root, struct IndexPath *path,
									double loop_count, Cost *startup, Cost *total,
									Selectivity *selectivity, double *correlation, double *pages);

#endif							/* LS_INDEX_H */
