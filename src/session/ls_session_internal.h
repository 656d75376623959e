/*
 * ls_session_internal.h - what the files of session/ share.
 */
#ifndef LS_SESSION_INTERNAL_H
#define LS_SESSION_INTERNAL_H

#include "ls_session.h"

/* ---- ls_session.c */
extern void ls_assign_count_remote_waits(bool newval, void *extra);

#define LS_DIRECTORY "leanstore"

/* ---- ls_backup.c */

/* In a copy that has not recovered its engine yet. */
extern bool ls_backup_is_restored(void);

/* In the engine worker: all that was replayed is in the files of tables. */
extern void ls_backup_written(void);

/* ---- ls_descriptors.c: some of the process' file descriptors are the engine's from now on */
extern void ls_descriptors_reserve(void);

/* ---- ls_pages.c: count this worker's pages and log from now on; NULL: none */
extern void ls_pages_attach(const ls_worker *worker);

#endif							/* LS_SESSION_INTERNAL_H */
