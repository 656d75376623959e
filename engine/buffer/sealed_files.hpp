// sealed_files.hpp - the relation files that a prepared transaction has made or dropped.
//
// When such a transaction ends, the host unlinks those that it has dropped, or those that it has
// made, and tells the store afterwards, perhaps much later.  A page that was written in between
// would meet a file that is gone.  So these files are closed, and stay closed, from PREPARE to the
// transaction's end in the store.
//
//   SEAL-1  A sealed file is not open.  LS_IN_USE to an actor that has its name.  To one that has
//           only its number it is like one that was dropped: LS_NOT_FOUND.
//   SEAL-2  First the seal is there, then the file is closed (store/file_closer.hpp).  An actor
//           that opens it looks for the seal while the slot is kOpening: it finds it, or the closer
//           finds the slot.
//   SEAL-3  The transaction's slot is claimed before its seals go, and its TN leaves the slot
//           behind that (txn/prepared.cpp).  So an actor that has met a seal, and has the
//           transaction ended, finds none.
//
// Seals are in the tree of closed files (btree/closed_files.hpp).  After a start recovery sets them
// anew, from the prepared transaction's file.
#pragma once
#include <span>
#include <vector>

#include "buffer/pool.hpp"

namespace ls {

// Repeatable.
Status seal_files(Ctx &ctx, Tn tn, std::span<const ls_ending_file> files);
// Of the file that is in `slot`, which is kOpening: LS_IN_USE, or LS_NOT_FOUND for an opener that
// has its number.
Status check_seal(Ctx &ctx, const FileSlot &slot, bool by_number);
// The transaction goes on.  Cannot be refused.
void unseal_files(BufferPool &pool, Tn tn);
// It has ended, and the host has unlinked what it unlinks: that is forgotten.  Cannot be refused.
void end_sealed_files(BufferPool &pool, Tn tn, bool committed);

}  // namespace ls
