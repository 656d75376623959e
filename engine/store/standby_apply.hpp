// standby_apply.hpp - a standby's restart point: the log that its host has replayed so far is
// redone, and recovery begins later from then on (docs/decisions/0046).
//
// A standby collects the relay log; recovery runs when it is promoted.  So that this does not have
// to begin where the standby was made, and the log does not grow for ever, the log is redone now
// and then up to a state (recovery/restore_state.hpp): what the original's checkpoint has written
// is written here.  Then the state is this store's control file.
//
// APPLY-1  The host's replay does not end before the place `to` of the log any more, for pages may
//          have changes up to it.
// APPLY-2  Redo reads the log from this store's redo position to `to`, which the state was inserted
//          behind.  So all that the original's checkpoint had written is in the pages, and they are
//          durable before the state is this store's control file.
// APPLY-3  The undo files that the state's list of long transactions names are made out of this
//          store's log, as the original has made its own, and are durable with the list before the
//          state counts.
// APPLY-4  A store that follows the log has redone it.  Its pages may have later changes, too,
//          which are covered before they are written (FLW-5 in standby_follow.hpp).
// Any end of it leaves what a crash leaves, and it can be repeated: redo passes over what is done
// (REDO-3).
#pragma once
#include "base/status.hpp"
#include "store/store.hpp"
#include "wal/log_bytes.hpp"

namespace ls {

// `store` is an arena of its own, of the same directory, in which nothing else is done; the store
// that workers are going to use has not begun its recovery.  stop: ends it with LS_INTERRUPTED.
// *log_bytes: that were redone; 0: the state is not newer than the control file.
Status standby_apply(ls_store &store, std::span<const u8> state, Lsn to, const volatile int *stop,
                     u64 *log_bytes);

// The same where readers are (standby_follow.hpp), by the process with the threads: what was redone
// is written, whatever the state.  Another thread covers meanwhile.
Status follow_restart_point(ls_store &store, std::span<const u8> state, Lsn to,
                            const volatile int *stop, u64 *log_bytes);

// All that was redone is in the files.
Status follow_flush(ls_store &store, const volatile int *stop);

}  // namespace ls
