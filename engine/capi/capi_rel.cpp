// Relations.
#include "capi/wall.hpp"
#include "store/relation.hpp"
#include "store/store_process.hpp"

using namespace ls;

extern "C" {

ls_status ls_rel_open(ls_worker *worker, const ls_rel_key *key, const char *path, ls_rel_kind kind, bool logged,
                      ls_rel **rel, ls_error *err) noexcept {
  *rel = nullptr;
  return wall::call(err, [&] {
    FileSlot *slot = nullptr;
    LS_TRY(relation_open(wall::worker(worker), *key, path, kind, logged, &slot));
    *rel = reinterpret_cast<ls_rel *>(slot);
    return kOk;
  });
}

bool ls_rel_is(const ls_rel *rel, const ls_rel_key *key) noexcept {
  return relation_is(*reinterpret_cast<const FileSlot *>(rel), *key);
}

void ls_rel_forget(ls_store *store, const ls_rel_key *key) noexcept {
  wall::call_sure([&] { store_process(*store).pool.forget_file(*key); });
}

ls_status ls_database_close(ls_worker *worker, uint32_t database, ls_error *err) noexcept {
  return wall::call(err, [&] { return store_close_database(wall::worker(worker), database); });
}

ls_status ls_rel_get_info(ls_worker *worker, ls_rel *rel, ls_rel_info *info, ls_error *err) noexcept {
  return wall::call(err, [&] { return relation_info(wall::worker(worker), wall::file(rel), info); });
}

ls_status ls_rel_check(ls_worker *worker, ls_rel *rel, ls_check_result *result, ls_error *err) noexcept {
  return wall::call(err, [&] { return relation_check(wall::worker(worker), wall::file(rel), result); });
}

}  // extern "C"
