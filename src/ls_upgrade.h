/*
 * ls_upgrade.h - pg_upgrade is refused.
 */
#ifndef LS_UPGRADE_H
#define LS_UPGRADE_H

/* In a server that pg_upgrade has started: no query where there are leanstore tables. */
extern void ls_upgrade_install_hook(void);
/* There, no file of a leanstore table is made or opened. */
extern void ls_upgrade_refuse(const char *table);

#endif
