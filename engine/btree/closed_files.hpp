// closed_files.hpp - the names of relation files that were closed: a tree like the version store,
// unlogged and not recovered.
//
// Undo entries, row locks and handles of the host name a file by its number.  So a file keeps its
// number while the store runs, and what has nothing but the number finds key and path here.
//
//   'n' number   ->  ClosedFile
//   'k' key      ->  number
//   's' key      ->  TN: the file is sealed by that prepared transaction (buffer/sealed_files.hpp)
//   't' TN, key  ->  1 byte: kGoesAtCommit, kGoesAtRollback
// Numbers and keys are big endian, so the files of a database are neighbours, and so are those of a
// transaction.
//
// CLOSED-1  The closer writes an entry while its file is kClosing.  The entry stays when the file
//           is opened again, and goes when the file is dropped.  Bound: one entry for each relation
//           that exists and was closed once, on disk.
// CLOSED-2  An entry goes before the slot of a dropped file does (BufferPool::forget_file).  A
//           worker that opens a file by its number looks here again while the slot is kOpening: it
//           finds nothing, or it was earlier, and the drop finds the slot.
#pragma once
#include <vector>

#include "btree/tree.hpp"
#include "buffer/closed_file.hpp"

namespace ls {

const ClosedFileOps &closed_file_ops();

}  // namespace ls
