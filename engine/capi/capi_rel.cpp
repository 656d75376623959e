// Relations.
#include "capi/api_call.hpp"
#include "store/relation.hpp"
#include "store/store_process.hpp"
#include "txn/row_vacuum.hpp"
#include "txn/rows_there.hpp"

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

bool ls_rel_is_known(ls_store *store, const ls_rel_key *key) noexcept {
  return api::call_sure([&] { return store_process(*store).pool.find_file(*key) != nullptr; });
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

ls_status ls_rel_vacuum(ls_worker *worker, ls_rel *rel, ls_vacuum *state, ls_error *err) noexcept {
  state->waits = false;
  state->rows = state->ghosts = state->blocks = state->looked_at = state->clean = 0;
  state->not_vouched = state->visible = state->rows_looked_at = state->bytes = 0;
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return row_vacuum(w, file, state);
  });
}

ls_status ls_rel_vouch(ls_worker *worker, ls_rel *rel, ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    row_vouch(w, file);
    return kOk;
  });
}

bool ls_row_known(const ls_store *store, const ls_rel *rel, uint64_t row_id,
                  ls_row_fact fact) noexcept {
  using enum BlockFact;
  const u32 facts = fact == LS_ROWS_CLEAN     ? block_facts({kClean})
                    : fact == LS_ROWS_FULL    ? block_facts({kFull})
                    : fact == LS_ROWS_VOUCHED ? block_facts({kVouched})
                                              : block_facts({kFull, kVouched});
  return store->txns->row_blocks.known(rel->number, LS_REL_TABLE, row_id, facts);
}

bool ls_row_vouched(const ls_store *store, const ls_rel *rel, uint64_t row_id,
                    uint64_t vouches) noexcept {
  const RowBlocks &blocks = store->txns->row_blocks;
  // In this order: BLK-5.
  return blocks.known(rel->number, LS_REL_TABLE, row_id, block_facts({BlockFact::kVouched})) &&
         blocks.vouches(rel->number) == vouches;
}

bool ls_rows_look_around(ls_worker *worker, ls_rel *rel, uint64_t row_id) noexcept {
  bool visible = false;
  (void)api::call_in(worker, rel, nullptr, [&](Worker &w, FileSlot &file) {
    visible = row_look_around(w, file, row_id);
    return kOk;
  });
  return visible;
}

ls_status ls_rows_note_there(ls_worker *worker, ls_rel *rel, uint64_t row_id, ls_rows_there *there,
                             ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return note_rows_there(w, file, row_id, there);
  });
}

ls_status ls_rows_gone(ls_worker *worker, ls_rel *rel, uint64_t *gone, uint64_t *mark,
                       ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &, FileSlot &file) {
    const u64 swept = file.rows_gone_swept.load(std::memory_order_relaxed);
    // One more, so that 0 says that they never were.
    *mark = file.rows_gone.load(std::memory_order_relaxed) + 1;
    *gone = swept == 0 ? UINT64_MAX : *mark - swept;
    return kOk;
  });
}

ls_status ls_rows_swept(ls_worker *worker, ls_rel *rel, uint64_t mark, ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &, FileSlot &file) {
    file.rows_gone_swept.store(mark, std::memory_order_relaxed);
    return kOk;
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
