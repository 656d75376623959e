/*
 * ls_table_handler.c - the table access method's routine.
 */
#include "postgres.h"

#include "ls_table_internal.h"

#include "fmgr.h"

PG_FUNCTION_INFO_V1(leanstore_tableam_handler);

const TableAmRoutine ls_table_routine = {
	.type = T_TableAmRoutine,

	.slot_callbacks = ls_slot_callbacks,

	.scan_begin = ls_scan_begin,
	.scan_end = ls_scan_end,
	.scan_rescan = ls_scan_rescan_table,
	.scan_getnextslot = ls_scan_getnextslot,

	.scan_set_tidrange = ls_scan_set_tidrange,
	.scan_getnextslot_tidrange = ls_scan_getnextslot_tidrange,

	.parallelscan_estimate = table_block_parallelscan_estimate,
	.parallelscan_initialize = ls_parallelscan_initialize,
	.parallelscan_reinitialize = table_block_parallelscan_reinitialize,

	.index_fetch_begin = ls_index_fetch_begin,
	.index_fetch_reset = ls_index_fetch_reset,
	.index_fetch_end = ls_index_fetch_end,
	.index_fetch_tuple = ls_index_fetch_tuple,

	.tuple_fetch_row_version = ls_tuple_fetch_row_version,
	.tuple_tid_valid = ls_tuple_tid_valid,
	.tuple_get_latest_tid = ls_tuple_get_latest_tid,
	.tuple_satisfies_snapshot = ls_tuple_satisfies_snapshot,
	.index_delete_tuples = ls_index_delete_tuples,

	.tuple_insert = ls_tuple_insert,
	.tuple_insert_speculative = ls_tuple_insert_speculative,
	.tuple_complete_speculative = ls_tuple_complete_speculative,
	.multi_insert = ls_multi_insert,
	.tuple_delete = ls_tuple_delete,
	.tuple_update = ls_tuple_update,
	.tuple_lock = ls_tuple_lock,

	.finish_bulk_insert = ls_finish_bulk_insert,

	.relation_set_new_filelocator = ls_relation_set_new_filelocator,
	.relation_nontransactional_truncate = ls_relation_nontransactional_truncate,
	.relation_copy_data = ls_relation_copy_data,
	.relation_copy_for_cluster = ls_relation_copy_for_cluster,
	.relation_vacuum = ls_relation_vacuum,
	.scan_analyze_next_block = ls_scan_analyze_next_block,
	.scan_analyze_next_tuple = ls_scan_analyze_next_tuple,
	.index_build_range_scan = ls_index_build_range_scan,
	.index_validate_scan = ls_index_validate_scan,

	.relation_size = ls_relation_size,
	.relation_needs_toast_table = ls_relation_needs_toast_table,
	.relation_toast_am = ls_relation_toast_am,
	.relation_fetch_toast_slice = ls_relation_fetch_toast_slice,

	.relation_estimate_size = ls_relation_estimate_size,

	.scan_bitmap_next_tuple = ls_scan_bitmap_next_tuple,
	.scan_sample_next_block = ls_scan_sample_next_block,
	.scan_sample_next_tuple = ls_scan_sample_next_tuple,
};

Datum
leanstore_tableam_handler(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&ls_table_routine);
}
