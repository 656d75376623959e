// A standby with tables that can be read.
#include "capi/api_call.hpp"
#include "leanstore/standby.h"
#include "store/relation.hpp"
#include "store/standby_apply.hpp"
#include "store/standby_follow.hpp"
#include "store/store_process.hpp"

using namespace ls;

extern "C" {

ls_status ls_follow_begin(ls_store *store, uint64_t position, ls_error *err) noexcept {
  return api::call(err, [&] { return follow_begin(*store, position); });
}

ls_status ls_follow_join(ls_store *store, ls_error *err) noexcept {
  return api::call(err, [&] { return follow_join(*store); });
}

ls_status ls_rel_open_empty(ls_worker *worker, ls_rel_kind kind, ls_rel *rel,
                            ls_error *err) noexcept {
  *rel = {};
  return api::call(err, [&] {
    FileHandle file;
    LS_TRY(relation_open_empty(api::worker(worker), kind, &file));
    *rel = {file.slot, file.number};
    return kOk;
  });
}

uint64_t ls_follow_replayed_to(const ls_store *store) noexcept {
  return store->replayed_to.load(std::memory_order_acquire);
}

ls_status ls_follow_apply(ls_store *store, ls_follow *follow, ls_error *err) noexcept {
  return api::call(err, [&] {
    FollowRound round{
        .round = {static_cast<const u8 *>(follow->round), follow->bytes},
        .resolved = follow->resolved,
        .aborted = follow->aborted};
    const Status status = follow_round(*store, &round);
    follow->conflict = round.conflict.newest;
    follow->database = round.conflict.database;
    follow->asked = round.conflict.asked;
    follow->reached = round.reached;
    return status;
  });
}

ls_status ls_follow_forget_database(ls_store *store, uint32_t database, ls_error *err) noexcept {
  return api::call(err, [&] { return follow_forget_database(*store, database); });
}

bool ls_store_follows(const ls_store *store) noexcept {
  return store_state(*store) == StoreState::kFollowing;
}

ls_status ls_follow_restart_point(ls_store *store, ls_standby_state *state,
                                  ls_error *err) noexcept {
  return api::call(err, [&] {
    return follow_restart_point(*store, {static_cast<const u8 *>(state->bytes), state->count},
                                state->position, state->stop, &state->log_bytes);
  });
}

ls_status ls_follow_flush(ls_store *store, const volatile int *stop, ls_error *err) noexcept {
  return api::call(err, [&] { return follow_flush(*store, stop); });
}

uint64_t ls_follow_reached(const ls_store *store) noexcept { return follow_reached(*store); }

void ls_follow_cover(ls_store *store, uint64_t gsn) noexcept {
  api::call_sure([&] { follow_cover(*store, gsn); });
}

}  // extern "C"
