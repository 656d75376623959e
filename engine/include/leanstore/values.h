/*
 * values.h - the files that large values lie in: what is in them, and how the engine makes those
 * with much free space shorter (txn/value_keeper.hpp).
 *
 * Units and conventions are those of engine.h.
 */
#ifndef LEANSTORE_VALUES_H
#define LEANSTORE_VALUES_H

#include "leanstore/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The further file with the pages of values, since the file was opened. */
typedef struct ls_value_stats {
  uint64_t pages, free_pages; /* of 4 KiB; what is free is known when all rows are counted */
  uint64_t lost_pages;        /* free ones that are found again at the next start */
  uint64_t written_pages, moved_pages; /* by workers; from the end of the file to free ones */
  uint64_t shared_values, shared_pages; /* now, beside the first with the same bytes, of each */
  bool counted;
} ls_value_stats;
LS_NODISCARD ls_status ls_value_get_stats(ls_worker *worker, ls_rel *rel, ls_value_stats *stats,
                                          ls_error *err) LS_NOEXCEPT;

/* What a file becomes shorter for, and how fast; the engine begins with the defaults.  By any
 * process at any time: it counts from the next piece of work on. */
typedef struct ls_value_moves {
  uint64_t bytes_per_second; /* moved at most; 0: nothing is moved */
  uint32_t write_percent;    /* of all that is written while others write, moved values at most */
  uint32_t free_percent;     /* of what is in use: so much has to be free */
} ls_value_moves;
#define LS_DEFAULT_VALUE_MOVES {UINT64_C(64) << 20, 50, 20}
void ls_set_value_moves(ls_store *store, const ls_value_moves *moves) LS_NOEXCEPT;

/* What the engine does to which file now.  Rows are looked at in the order of their row ids. */
typedef enum ls_value_phase {
  LS_VALUES_IDLE,     /* nothing: the rest says nothing */
  LS_VALUES_COUNTING, /* the rows of a file that was opened, so that its free pages are known */
  LS_VALUES_MOVING    /* values from its end to free pages */
} ls_value_phase;
typedef struct ls_value_progress {
  ls_value_phase phase;
  ls_rel_key key;
  uint64_t row_id, end_row_id; /* those before the first are done; of those before the second */
  uint64_t moved_bytes;        /* in this pass */
  uint64_t target_bytes;       /* MOVING: how long the file is to be */
} ls_value_progress;
void ls_value_get_progress(const ls_store *store, ls_value_progress *progress) LS_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
