// version_trees.hpp - the store's own trees, in the directory "versions": files that do not outlive
// a start.
#pragma once
#include "store/store.hpp"

namespace ls {

// Unless it is there.
Status directory_make(const char *path);
// Versions, row locks and names of closed files of the last run go: this one does not need them.
Status version_trees_make(const ls_store &store);
Status version_trees_open(Ctx &ctx, ls_store &store);

}  // namespace ls
