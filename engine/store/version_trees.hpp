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
// On a standby: a tree of each kind of relation, in which there is nothing, for readers of those
// that have no pages yet.  Made and opened; they are never changed, and stay open until the store
// stops.
Status empty_trees_open(Ctx &ctx, const ls_store &store);
// Null: there is none.
FileSlot *empty_tree(const BufferPool &pool, ls_rel_kind kind);

}  // namespace ls
