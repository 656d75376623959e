// index_clean.hpp - dead entries of one leaf, for those who need room there.
#pragma once
#include "index/index.hpp"

namespace ls {

// The leaf of `key` is about to be split: remove its entries whose rows are gone for good, if a few looked at first make it likely
// that there are some.
Status clean_full_leaf(Worker &w, const IndexAt &at, Bytes key, u32 *removed);

}  // namespace ls
