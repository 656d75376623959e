// prepared.hpp - transactions prepared for two-phase commit: they outlive their worker, and the
// start of the store.
//
//   slot state   from                 to
//   kFree        -                    kReserved   txn_prepare, by the transaction's worker
//   kReserved    txn_prepare          kHeld       txn_hand_over
//                                     kFree       prepared_give_up: it is rolled back after all
//   kHeld        its worker is free   kFinishing  prepared_finish, by the first worker to call it
//   kFinishing   changes undone       kEnded      the log says kTwoPhaseEnd; not active any more
//   kEnded       its file removed     kFree
//
// PREP-1  What undoes it, and its row locks, are in a durable file before the log says kTwoPhase,
//         or in the log until a checkpoint has made that (PFILE-2): the log is not kept for it.
//         From hand-over to end the log that recovery will read says kTwoPhase: each checkpoint
//         says so again (prepared_log_again) for those that have not ended, decided under
//         prepared_mutex.
// PREP-2  Active without interruption: the slot's tn is set before the worker's is cleared, and is
//         looked at after it.
// PREP-3  A row on which it has a lock may move on (RLOCK-4 in row_lock_table.hpp); a later start
//         follows from the row that the file names.  So ghosts stay that were left by transactions
//         that ran when the locks were collected, or later (keep).
// PREP-4  Whether it commits is the host's to know: it has recorded that before prepared_finish is
//         called, and any number of callers say the same.
#pragma once
#include <span>

#include "txn/worker.hpp"

namespace ls {

// Step 1: harden all changes and row locks as prepared.  Afterwards txn_hand_over, or txn_abort.
// LS_MANY_PREPARED: no free slot.  ending: what the host unlinks when the transaction ends.  The
// caller closes that before txn_hand_over (store/file_closer.hpp).
Status txn_prepare(Worker &w, u64 full_xid, std::span<const ls_ending_file> ending);
// Step 2, when the host has prepared it for good: the worker has no transaction any more.
void txn_hand_over(Worker &w);
// Parts of txn_abort: txn_prepare was called, and the worker's transaction is about to be undone,
// or has been.
void prepared_take_back(Worker &w);
void prepared_give_up(Worker &w);

// End a prepared transaction, by any worker, whatever that has open; done when it is finished
// already.  LS_INTERRUPTED: the worker was interrupted while another one does it.
Status prepared_finish(Worker &w, Tn tn, bool committed);

// Those that have been handed over and are active; as active_tns.
size_t prepared_tns(const TxnShared &t, Tn *out, size_t cap);
bool prepared_contains(const TxnShared &t, Tn tn);
// PREP-3: the smaller of `settled` and what has to be kept.
Tn prepared_keep(const TxnShared &t, Tn settled);

// PREP-1, for a checkpoint.  *n: how many.
Status prepared_log_again(LogAppender &log, const volatile int *interrupt, TxnShared &t, u32 *n);
// PFILE-2, for a checkpoint: before its redo point counts.
Status prepared_sync(TxnShared &t);
// At start: a transaction that was found prepared takes a slot.
Status prepared_restore(TxnShared &t, Tn tn, u64 full_xid, u32 next_seq);
// Append kTwoPhaseEnd; log space is reserved (kTwoPhaseRoom).
inline constexpr u32 kTwoPhaseRoom = 64;
Gsn log_two_phase_end(LogAppender &log, Tn tn, u64 full_xid, bool committed);

}  // namespace ls
