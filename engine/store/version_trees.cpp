// version_trees.cpp - the files of version trees, row locks, closed files and values, made and
// opened.
#include "store/version_trees.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "btree/tree.hpp"
#include "os/file.hpp"
#include "store/store_process.hpp"

namespace ls {

namespace {

constexpr u32 kLockTree = kMaxVersionTrees;  // its place behind the version trees in keys
constexpr u32 kClosedTree = kLockTree + 1;
constexpr u32 kValueTree = kClosedTree + 1;
constexpr const char *kFurtherNames[kFurtherTrees] = {"locks", "closed", "values"};

std::string directory_of(const ls_store &store) {
  return std::string(store.config.data_dir) + "/versions";
}

// No relation of the host has tablespace 0.
Status open_tree(Ctx &ctx, const ls_store &store, u32 number, const std::string &name, u32 *index) {
  const std::string path = directory_of(store) + "/" + name;
  const ls_rel_key key{0, 0, number + 1, -1};
  FileSlot *slot = nullptr;
  LS_TRY(ctx.pool->open_file(ctx, key, path.c_str() + std::strlen(store.config.root_dir) + 1,
                             LS_REL_VERSIONS, false, 0, BTree::format, &slot));
  *index = slot->index;
  return kOk;
}

}  // namespace

Status directory_make(const char *path) {
  if (::mkdir(path, 0700) == 0 || errno == EEXIST) return kOk;
  return fail_errno(errno, path, "could not create directory");
}

Status version_trees_make(const ls_store &store) {
  const std::string directory = directory_of(store);
  LS_TRY(directory_make(directory.c_str()));
  std::vector<std::string> names;
  LS_TRY(directory_names(directory.c_str(), &names));
  for (const std::string &name : names) LS_TRY(file_unlink((directory + "/" + name).c_str()));
  const u32 trees = store.config.version_trees;
  for (u32 i = 0; i < trees + kFurtherTrees; i++) {
    const std::string name = i < trees ? std::to_string(i) : kFurtherNames[i - trees];
    File file;
    LS_TRY(file.open((directory + "/" + name).c_str(), O_CREAT | O_EXCL));
  }
  return kOk;
}

Status version_trees_open(Ctx &ctx, ls_store &store) {
  TxnShared &txns = *store.txns;
  PoolShared &pool = *ctx.pool->shared();
  for (u32 i = 0; i < store.config.version_trees; i++)
    LS_TRY(open_tree(ctx, store, i, std::to_string(i), &txns.version_file[i]));
  LS_TRY(open_tree(ctx, store, kLockTree, kFurtherNames[0], &txns.lock_file));
  u32 closed, values;
  LS_TRY(open_tree(ctx, store, kClosedTree, kFurtherNames[1], &closed));
  pool.closed_tree.store(closed + 1, std::memory_order_release);
  LS_TRY(open_tree(ctx, store, kValueTree, kFurtherNames[2], &values));
  pool.value_tree.store(values + 1, std::memory_order_release);
  return kOk;
}

}  // namespace ls
