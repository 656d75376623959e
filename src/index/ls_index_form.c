/*
 * ls_index_form.c - how an index encodes strings under collations of libc: chosen when it is built,
 * and recorded.
 *
 * The record is in pg_index.indoption, beside what the server keeps there of each key column
 * (DESC, NULLS FIRST): what the bits mean is up to the access method.  0 is what indexes have that
 * are older than all this, and those that no such collation concerns; other columns have labels
 * then. The row of pg_index is changed in the transaction that builds the file, so the two always
 * belong together.  Only ALTER TABLE ... TYPE gives the file of an index to a new row.
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "session/ls_session.h"
#include "relation/ls_relation.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#define FORM_SHIFT 2

StaticAssertDecl(FORM_SHIFT + LS_KEY_FORM_BITS <= 16, "a form fits beside the server's bits");
StaticAssertDecl((LS_INDEX_ORDER_OPTIONS >> FORM_SHIFT) == 0, "no bit is the server's");

static int2vector *
options_of(HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;

	return (int2vector *) DatumGetPointer(heap_getattr(tuple, Anum_pg_index_indoption, desc,
													   &isnull));
}

/* The relcache's copy of the options stays as it is when the row changes. */
void
ls_index_recorded_forms(Relation index, uint16 *forms)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(RelationGetRelid(index)));
	const int2vector *options;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", RelationGetRelid(index));
	options = (const int2vector *) DatumGetPointer(
		SysCacheGetAttrNotNull(INDEXRELID, tuple, Anum_pg_index_indoption));
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		forms[i] = (uint16) options->values[i] >> FORM_SHIFT;
	ReleaseSysCache(tuple);
}

static void
record_forms(Oid index, const uint16 *forms)
{
	Relation	pg_index = table_open(IndexRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(INDEXRELID, ObjectIdGetDatum(index));
	int2vector *options;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", index);
	options = options_of(tuple, RelationGetDescr(pg_index));
	for (int i = 0; i < options->dim1; i++)
		options->values[i] = (int16) ((options->values[i] & LS_INDEX_ORDER_OPTIONS) |
									  forms[i] << FORM_SHIFT);
	CatalogTupleUpdate(pg_index, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(pg_index, RowExclusiveLock);
	CommandCounterIncrement();
}

void
ls_index_choose_forms(Relation index)
{
	int			n_keys = IndexRelationGetNumberOfKeyAttributes(index);
	uint16		recorded[INDEX_MAX_KEYS];
	uint16		chosen[INDEX_MAX_KEYS];
	const uint16 *upgraded = ls_upgrade_forms(RelationGetRelid(index));

	ls_index_recorded_forms(index, recorded);
	for (int i = 0; i < n_keys; i++)
		chosen[i] = upgraded != NULL
			? upgraded[i]
			: ls_key_choose_form(index_getprocid(index, i + 1, 1), ls_index_key_type(index, i),
								 index->rd_indcollation[i]);
	if (memcmp(recorded, chosen, n_keys * sizeof(uint16)) != 0)
		record_forms(RelationGetRelid(index), chosen);
}

/* ---- files that go from an index to another one ----------------------------- */

/* The last version of a row that this transaction has deleted. */
static bool
is_deleted_here(HeapTuple tuple)
{
	HeapTupleHeader header = tuple->t_data;

	return !(header->t_infomask & (HEAP_XMAX_INVALID | HEAP_XMAX_IS_MULTI)) &&
		!HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask) &&
		ItemPointerEquals(&header->t_ctid, &tuple->t_self) &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmax(header));
}

/* The index with this file that has just been dropped. */
static Oid
dropped_index_of_file(Relation index)
{
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	Oid			found = InvalidOid;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_class_reltablespace, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(index->rd_rel->reltablespace));
	ScanKeyInit(&keys[1], Anum_pg_class_relfilenode, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(index->rd_rel->relfilenode));
	scan = systable_beginscan(pg_class, ClassTblspcRelfilenodeIndexId, true, SnapshotAny, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (form->oid != RelationGetRelid(index) && form->relam == index->rd_rel->relam &&
			form->relpersistence == index->rd_rel->relpersistence && is_deleted_here(tuple))
			found = form->oid;
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	return found;
}

/* *forms: of an index that this transaction has dropped; false: they are all 0. */
static bool
dropped_forms(Oid index, uint16 *forms)
{
	Relation	pg_index = table_open(IndexRelationId, AccessShareLock);
	bool		any = false;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_index_indexrelid,
				BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(index));
	scan = systable_beginscan(pg_index, IndexRelidIndexId, true, SnapshotAny, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		if (is_deleted_here(tuple))
		{
			const int2vector *options = options_of(tuple, RelationGetDescr(pg_index));

			for (int i = 0; i < options->dim1; i++)
			{
				forms[i] = (uint16) options->values[i] >> FORM_SHIFT;
				any |= forms[i] != 0;
			}
		}
	systable_endscan(scan);
	table_close(pg_index, AccessShareLock);
	return any;
}

void
ls_index_copy_forms(Oid from, Oid to)
{
	Relation	index = index_open(from, AccessShareLock);
	uint16		forms[INDEX_MAX_KEYS];

	ls_index_recorded_forms(index, forms);
	index_close(index, NoLock);
	record_forms(to, forms);
}

void
ls_index_take_over_forms(Relation index)
{
	Oid			before = dropped_index_of_file(index);
	uint16		forms[INDEX_MAX_KEYS];

	if (OidIsValid(before) && dropped_forms(before, forms))
	{
		CommandCounterIncrement();	/* so that the new row is there */
		record_forms(RelationGetRelid(index), forms);
	}
}
