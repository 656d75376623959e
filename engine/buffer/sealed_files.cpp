// sealed_files.cpp - seals set, looked for and taken off.
#include "buffer/sealed_files.hpp"

#include "buffer/insist.hpp"

namespace ls {

namespace {

const ClosedFileOps *sealed_files(const PoolShared &pool) {
  return pool.seals.load(std::memory_order_seq_cst) != 0 ? tree_ops().closed_files : nullptr;
}

// each(file) for those of `tn`; behind that the seal goes.
template <class Each>
void take_off(BufferPool &pool, Tn tn, const Each &each) {
  const ClosedFileOps *ops = sealed_files(*pool.shared());
  if (!ops) return;
  Ctx ctx;
  ctx.pool = &pool;
  std::vector<ls_ending_file> files;
  insist([&] { return ops->sealed_of(ctx, tn, &files); });
  for (const ls_ending_file &file : files) {
    each(file);
    insist([&] { return ops->unseal(ctx, tn, file.key); });
  }
}

}  // namespace

Status seal_files(Ctx &ctx, Tn tn, std::span<const ls_ending_file> files) {
  ctx.pool->shared()->seals.fetch_add(files.size(), std::memory_order_seq_cst);
  for (const ls_ending_file &file : files) LS_TRY(tree_ops().closed_files->seal(ctx, tn, file));
  return kOk;
}

Status check_seal(Ctx &ctx, const FileSlot &slot, bool by_number) {
  LS_ASSERT(file_is(slot, FileState::kOpening));   // SEAL-2
  const ClosedFileOps *ops = sealed_files(*ctx.pool->shared());
  if (!ops || is_own(slot)) return kOk;
  Tn tn;
  const Status status = ops->sealed_by(ctx, slot.key, &tn);
  if (code(status) == LS_NOT_FOUND) return kOk;
  LS_TRY(status);
  return fail_path(by_number ? LS_NOT_FOUND : LS_IN_USE, slot.path,
                   "its file was made or dropped by a prepared transaction");
}

void unseal_files(BufferPool &pool, Tn tn) {
  take_off(pool, tn, [](const ls_ending_file &) {});
}

void end_sealed_files(BufferPool &pool, Tn tn, bool committed) {
  take_off(pool, tn, [&](const ls_ending_file &file) {
    if (file.at_commit == committed) pool.forget_file(file.key);
  });
}

}  // namespace ls
