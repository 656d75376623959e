/*
 * ls_backup.h - recognizes a data directory whose leanstore tables cannot be used.
 */
#ifndef LS_BACKUP_H
#define LS_BACKUP_H

/* In the postmaster, before the startup process: is the engine's store one that came with a backup? */
extern bool ls_backup_look(void);

/* An error if it is. */
extern void ls_backup_refuse(void);

#endif							/* LS_BACKUP_H */
