// handover.hpp - a store that was shut down goes on in another directory: of a host that has got
// its relation files, and none of its log (docs/decisions/0047).
//
// Of such a store nothing is needed but its numbers: identity, GSN, place in the log, TNs and their
// eras.  These are a state to restore (restore_state.hpp), in a file that the host hands on.
//
// HAND-1  Only a store that was shut down, with no transaction prepared, leaves a state: every page
//         is in its file then, and no log is needed.
// HAND-2  What the receiving store has of its own is forgotten: it must have no relations, which is
//         the host's to know, and must not need its log, which is looked at here.
// HAND-3  The control file goes first and comes last.  After a crash between the two the state is
//         taken again.
#pragma once
#include "base/status.hpp"
#include "base/types.hpp"

namespace ls {

// Of the store in data_dir, to `path`, durable.  LS_INVALID: it was not shut down.
Status handover_leave(const char *data_dir, const char *path);
// *taken: the store in data_dir is the one of `path` from now on, with log segments of that size;
// false: it was that one before, and is as it was.  LS_INVALID: its own log is needed.  LS_CORRUPT:
// the state is damaged, or of another version.
Status handover_take(const char *data_dir, const char *path, u64 segment_bytes, bool *taken);

}  // namespace ls
