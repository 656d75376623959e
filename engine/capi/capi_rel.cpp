// Relations.
#include "capi/api_call.hpp"
#include "store/relation.hpp"
#include "store/store_process.hpp"

using namespace ls;

extern "C" {

ls_status ls_rel_open(ls_worker *worker, const ls_rel_key *key, const char *path, ls_rel_kind kind,
                      bool logged, ls_rel *rel, ls_error *err) noexcept {
  *rel = {};
  return api::call(err, [&] {
    FileHandle file;
    LS_TRY(relation_open(api::worker(worker), *key, path, kind, logged, &file));
    *rel = {file.slot, file.number};
    return kOk;
  });
}

bool ls_rel_is_open(const ls_rel *rel) noexcept {
  if (rel->slot == nullptr) return false;
  return relation_is_open({static_cast<FileSlot *>(rel->slot), rel->number});
}

void ls_rel_forget(ls_store *store, const ls_rel_key *key) noexcept {
  api::call_sure([&] { store_process(*store).pool.forget_file(*key); });
}

ls_status ls_database_close(ls_worker *worker, uint32_t database, ls_error *err) noexcept {
  return api::call(err, [&] { return store_close_database(api::worker(worker), database); });
}

ls_status ls_rel_get_info(ls_worker *worker, ls_rel *rel, ls_rel_info *info,
                          ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return relation_info(w, file, info);
  });
}

ls_status ls_rel_purge(ls_worker *worker, ls_rel *rel, uint64_t row_id, uint64_t *end_row,
                       ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return relation_purge(w, file, row_id, end_row);
  });
}

ls_status ls_rel_cut(ls_worker *worker, ls_rel *rel, bool look, uint64_t *before, uint64_t *after,
                     ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return relation_cut(w, file, look, before, after);
  });
}

ls_status ls_rel_check(ls_worker *worker, ls_rel *rel, ls_check_result *result,
                       ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return relation_check(w, file, result);
  });
}

}  // extern "C"
