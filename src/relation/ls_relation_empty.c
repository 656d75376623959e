/*
 * ls_relation_empty.c - a file that its own transaction has made, or that no other session can see,
 * is emptied where it is.
 *
 * RelationTruncate() would write that to the server's WAL.  Replayed after a crash it would empty
 * the file once more, when the engine has long written to it what its own log does not need to
 * have any more.  Without WAL a crash leaves the file as it is: gone with its transaction, or as
 * the engine knows it under the number that it gets next.
 */
#include "postgres.h"

#include "ls_relation.h"
#include "session/ls_session.h"

#include "catalog/storage.h"
#include "storage/smgr.h"

void
ls_relation_empty(Relation rel)
{
	SMgrRelation reln;

	/* first: no page of the old tree may be written to the emptied file */
	(void) ls_reader();
	ls_relation_forget(&rel->rd_locator, rel->rd_backend);
	/* with wal_level = minimal the server must not copy pages of ours to its WAL */
	RelationPreTruncate(rel);
	reln = RelationGetSmgr(rel);
	for (ForkNumber fork = MAIN_FORKNUM; fork <= FSM_FORKNUM; fork++)
	{
		BlockNumber blocks = smgrexists(reln, fork) ? smgrnblocks(reln, fork) : 0;
		BlockNumber none = 0;

		if (blocks == 0)
			continue;
		smgrtruncate(reln, &fork, 1, &blocks, &none);
		/* old pages must not come back under the new ones */
		if (rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT)
			smgrimmedsync(reln, fork);
	}
}

/*
 * The engine gives a file its first pages when it opens it; to one of an earlier transaction redo
 * may still have to give them.
 */
bool
ls_relation_is_untouched(Relation rel)
{
	return (rel->rd_createSubid != InvalidSubTransactionId ||
			rel->rd_newRelfilelocatorSubid != InvalidSubTransactionId) &&
		smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM) == 0;
}
