/*
 * standby.h - a standby with tables that can be read (store/standby_follow.hpp): what the host
 * replays of its log is redone at once, while workers read.
 *
 * Units and conventions are those of engine.h.
 */
#ifndef LEANSTORE_STANDBY_H
#define LEANSTORE_STANDBY_H

#include "leanstore/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Instead of step 1 of recovery, by the process that will have the engine's threads: begin redoes
 * what the relay log has up to `position`, which ls_follow_replayed_to() gave; join catches up, and
 * lets workers in, which can only read, with snapshots that the host takes from then on.  Position
 * 0: LS_NOT_READY, unless the store was shut down and nothing has come since.  join: LS_LIMIT,
 * as of ls_follow_apply; it is called again when ls_follow_reached() is covered. */
LS_NODISCARD ls_status ls_follow_begin(ls_store *store, uint64_t position,
                                       ls_error *err) LS_NOEXCEPT;
LS_NODISCARD ls_status ls_follow_join(ls_store *store, ls_error *err) LS_NOEXCEPT;
/* The relay log has all before it; 0: nothing was replayed yet. */
uint64_t ls_follow_replayed_to(const ls_store *store) LS_NOEXCEPT;
/* By the same, behind ls_relay_replay(): redoes the round, if the store follows.  LS_CONFLICT: what
 * comes next may be needed by snapshots with an xmin at or below `conflict`; the host cancels those
 * of that database, and calls again with bytes 0 and the number in `resolved`.  Or, `asked` is not
 * 0: it says in `aborted` whether the host has forgotten that transaction as aborted, and calls
 * again.  LS_LIMIT: there is no place for another file, those that are open are in use or have
 * changes that are not covered; the host makes sure that its replay, begun anew, comes behind this
 * round before it lets readers in, covers up to `reached`, and calls again with bytes 0. */
typedef struct ls_follow {
  const void *round;
  size_t bytes;
  uint64_t resolved;
  bool aborted;
  uint64_t conflict;  /* out, as what follows */
  uint32_t database;
  uint64_t asked;
  uint64_t reached;
} ls_follow;
LS_NODISCARD ls_status ls_follow_apply(ls_store *store, ls_follow *follow,
                                       ls_error *err) LS_NOEXCEPT;
/* By the same: the files of a database are about to go, and no worker uses one. */
LS_NODISCARD ls_status ls_follow_forget_database(ls_store *store, uint32_t database,
                                                 ls_error *err) LS_NOEXCEPT;
bool ls_store_follows(const ls_store *store) LS_NOEXCEPT;
/* How far redo has come; and: pages may be written that have no later changes, for the host's
 * replay does not end before that any more. */
uint64_t ls_follow_reached(const ls_store *store) LS_NOEXCEPT;
void ls_follow_cover(ls_store *store, uint64_t gsn) LS_NOEXCEPT;
/* In a store that follows ls_rel_open() returns LS_END for a logged relation of which the file is
 * there but has no pages yet: nothing was ever in it.  A reader uses this handle instead, of a tree
 * of the store's own that is always empty, until the relation can be opened; there is one for
 * tables, for indexes and for values.  It is to be read only, and stays good after a promotion.
 * LS_INVALID: the store has never followed another one. */
LS_NODISCARD ls_status ls_rel_open_empty(ls_worker *worker, ls_rel_kind kind, ls_rel *rel,
                                         ls_error *err) LS_NOEXCEPT;
/* Instead of ls_standby_apply(), in the store that follows: its pages are written.  Another thread
 * covers meanwhile. */
LS_NODISCARD ls_status ls_follow_restart_point(ls_store *store, ls_standby_state *state,
                                               ls_error *err) LS_NOEXCEPT;
/* The same without a restart point; stop: as ls_standby_state::stop. */
LS_NODISCARD ls_status ls_follow_flush(ls_store *store, const volatile int *stop,
                                       ls_error *err) LS_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* LEANSTORE_STANDBY_H */
