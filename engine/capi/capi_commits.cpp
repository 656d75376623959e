// Commits that the host may have lost.
#include <algorithm>
#include <cstdlib>

#include "capi/api_call.hpp"
#include "recovery/host_sync_point.hpp"
#include "store/store_process.hpp"

using namespace ls;

extern "C" {

uint64_t ls_commits_position(const ls_store *store) noexcept {
  return api::call_sure([&] { return store_process(*const_cast<ls_store *>(store)).log.end(); });
}

ls_status ls_host_sync_point(ls_store *store, uint64_t position, ls_error *err) noexcept {
  return api::call(err, [&] { return store_advance_sync_point(*store, position); });
}

ls_status ls_commits_behind(ls_store *store, ls_commit_behind **commits, size_t *n,
                            uint64_t *highest, ls_error *err) noexcept {
  *commits = nullptr;
  *n = 0;
  *highest = 0;
  return api::call(err, [&]() -> Status {
    (void)store_process(*store);  // sets the file layer up
    CommitsBehind behind;
    LS_TRY(commits_behind_note(store->config.data_dir, store->config.log_segment_bytes, &behind));
    *highest = behind.highest_full_xid;
    const size_t count = behind.commits.size();
    if (count == 0) return kOk;
    const size_t bytes = count * sizeof **commits;
    u8 *block = static_cast<u8 *>(std::malloc(bytes + behind.notes.size()));
    if (!block) return fail(LS_NO_MEMORY, "no memory for %zu transactions", count);
    u8 *notes = block + bytes;
    std::copy(behind.notes.begin(), behind.notes.end(), notes);
    *commits = reinterpret_cast<ls_commit_behind *>(block);
    for (size_t i = 0; i < count; i++) {
      const CommitsBehind::Commit &commit = behind.commits[i];
      (*commits)[i] = {commit.full_xid, notes + commit.note_at, commit.note_bytes};
    }
    *n = count;
    return kOk;
  });
}

}  // extern "C"
