// Commits that the host may have lost.
#include <algorithm>
#include <cstdlib>

#include "capi/wall.hpp"
#include "recovery/commit_note.hpp"
#include "store/store_process.hpp"

using namespace ls;

extern "C" {

uint64_t ls_commits_position(const ls_store *store) noexcept {
  return wall::call_sure([&] { return store_process(*const_cast<ls_store *>(store)).log.end(); });
}

ls_status ls_commits_note(ls_store *store, uint64_t position, ls_error *err) noexcept {
  return wall::call(err, [&] { return store_note_commits(*store, position); });
}

ls_status ls_commits_behind(ls_store *store, uint64_t **full_xids, size_t *n, uint64_t *highest, ls_error *err) noexcept {
  *full_xids = nullptr;
  *n = 0;
  *highest = 0;
  return wall::call(err, [&]() -> Status {
    (void)store_process(*store);  // sets the file layer up
    CommitsBehind behind;
    LS_TRY(commits_behind_note(store->config.data_dir, store->config.log_segment_bytes, &behind));
    *highest = behind.highest_full_xid;
    if (behind.full_xids.empty()) return kOk;
    const size_t bytes = behind.full_xids.size() * sizeof **full_xids;
    *full_xids = static_cast<uint64_t *>(std::malloc(bytes));
    if (!*full_xids) return fail(LS_NO_MEMORY, "no memory for %zu transactions", behind.full_xids.size());
    std::copy(behind.full_xids.begin(), behind.full_xids.end(), *full_xids);
    *n = behind.full_xids.size();
    return kOk;
  });
}

}  // extern "C"
