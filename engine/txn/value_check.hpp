// value_check.hpp - what rows say of pages against what is noted of them.
#pragma once
#include "txn/worker.hpp"

namespace ls {

// The rows of a file of values, ghosts that may be read included: no two values have a page unless
// they share all (VCLAIM-2), no page that a row names is free (VPAGES-1), and as many claims are
// noted as there are rows (VCLAIM-1); a candidate's pages are in use (VCLAIM-3).  LS_CORRUPT names
// file, page and value.  *compared: false where others changed claims all the time, or the rows of
// the file are not counted.
Status value_check_claims(Worker &w, FileSlot &file, bool *compared);

}  // namespace ls
