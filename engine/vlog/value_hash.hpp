// value_hash.hpp - a hash of a value's bytes, by which equal ones are found.
//
// Rows keep it, so it stays as it is: values with another one would not be found again.  Bytes with
// one hash are compared, so all that a bad one does is to cost a comparison.
#pragma once
#include "base/types.hpp"

namespace ls {

// Never 0.  Four lanes of multiply-and-fold, as in wyhash.
u64 value_hash(const u8 *data, size_t bytes);

}  // namespace ls
