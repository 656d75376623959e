/*
 * ls_pin.h - snapshots that backends have for long, told to the engine exactly.
 */
#ifndef LS_PIN_H
#define LS_PIN_H

#include "ls.h"

#include "nodes/nodes.h"

/*
 * What snapshots a backend may have or take, in order: one that allows more goes before one that
 * allows less.
 */
typedef enum LsSnapshotUse
{
	LS_BETWEEN_COMMANDS,
	LS_READING,
	LS_CHANGING,
	LS_ANY_SNAPSHOTS
} LsSnapshotUse;

/* A pin as the engine worker reads it. */
typedef struct LsPin
{
	ls_plain_snapshot snapshot;
	uint64	   *running;		/* room for ls_max_running() */
} LsPin;

extern Size ls_pin_shmem_size(void);
extern void ls_pin_shmem_init(void);
extern void ls_pin_install_hooks(void);

/* How many processes may have a pin. */
extern uint32 ls_pin_slots(void);

/* False: that process has none. */
extern bool ls_pin_read(uint32 proc, LsPin *pin);

/* Call before taking a snapshot by other means than a query's. */
extern void ls_pin_withdraw(void);

/* A snapshot is about to be used: raises an error if versions that it sees may have gone. */
extern void ls_pin_check(Snapshot snapshot);

/* Around every utility command; the result goes into the second call. */
extern LsSnapshotUse ls_pin_enter_utility(Node *statement);
extern void ls_pin_leave_utility(LsSnapshotUse found, Node *statement, bool succeeded);
extern void ls_pin_at_eoxact(void);

#endif
