/*
 * ls_descriptors.c - the engine's file descriptors are counted among the server's.
 *
 * In each process the engine keeps up to 64 segments of relation files open, and has up
 * to 8 queues of reads.  The server closes files of its own when they and those that are
 * reserved come near the limit of the process.  What is not reserved is missing for
 * the next file that any code in the process opens, and not all code that opens one can wait
 * for another to go.
 */
#include "postgres.h"

#include "ls_session_internal.h"

#include "storage/fd.h"

#define DESCRIPTORS 72			/* kMaxDescriptors and PageReads::kMostRings of the engine */

void
ls_descriptors_reserve(void)
{
	static bool reserved = false;

	if (reserved)
		return;

	/*
	 * Where a process may have very few the server's own files still get a half, and the
	 * engine finds out by itself that there are no more: it closes one to open another.
	 */
	for (int i = 0; i < Min(DESCRIPTORS, max_safe_fds / 2); i++)
		ReserveExternalFD();
	reserved = true;
}
