// version_trees.cpp - the files of version trees, row locks, closed files and values, and of empty
// trees, made and opened.
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

struct EmptyTree {
  ls_rel_kind kind;
  const char *name;
};
constexpr EmptyTree kEmpty[kEmptyTrees] = {
    {LS_REL_TABLE, "no_rows"}, {LS_REL_INDEX, "no_entries"}, {LS_REL_VALUES, "no_values"}};
constexpr u32 kFirstEmptyTree = kValueTree + 1;   // in keys

std::string directory_of(const ls_store &store) {
  return std::string(store.config.data_dir) + "/versions";
}

// No relation of the host has tablespace 0.
ls_rel_key key_of(u32 number) { return {0, 0, number + 1, -1}; }

Status open_tree(Ctx &ctx, const ls_store &store, u32 number, const EmptyTree &tree, u32 *index) {
  const std::string path = directory_of(store) + "/" + tree.name;
  FileSlot *slot = nullptr;
  LS_TRY(ctx.pool->open_file(ctx, key_of(number),
                             path.c_str() + std::strlen(store.config.root_dir) + 1, tree.kind,
                             false, 0, BTree::format, &slot));
  *index = slot->index;
  return kOk;
}

Status open_tree(Ctx &ctx, const ls_store &store, u32 number, const std::string &name, u32 *index) {
  return open_tree(ctx, store, number, {LS_REL_VERSIONS, name.c_str()}, index);
}

Status make_file(const ls_store &store, const std::string &name) {
  File file;
  return file.open((directory_of(store) + "/" + name).c_str(), O_CREAT | O_EXCL);
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
    LS_TRY(make_file(store, i < trees ? std::to_string(i) : kFurtherNames[i - trees]));
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

Status empty_trees_open(Ctx &ctx, const ls_store &store) {
  for (u32 i = 0; i < kEmptyTrees; i++) {
    u32 index;
    LS_TRY(make_file(store, kEmpty[i].name));
    LS_TRY(open_tree(ctx, store, kFirstEmptyTree + i, kEmpty[i], &index));
  }
  return kOk;
}

FileSlot *empty_tree(const BufferPool &pool, ls_rel_kind kind) {
  for (u32 i = 0; i < kEmptyTrees; i++) {
    if (kEmpty[i].kind == kind) return pool.find_file(key_of(kFirstEmptyTree + i));
  }
  return nullptr;
}

}  // namespace ls
