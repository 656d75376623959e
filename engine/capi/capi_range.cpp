// Range locks.
#include "capi/api_call.hpp"
#include "range/range_locks.hpp"

using namespace ls;

namespace {

RangeLocks locks_of(ls_worker *worker) {
  return {*api::worker(worker).ranges, api::worker(worker).slot};
}

}  // namespace

extern "C" {

ls_status ls_range_lock(ls_worker *worker, const ls_rel_key *tree, ls_bytes from, ls_bytes to,
                        ls_range_mode mode, ls_range_owner owner, ls_range_owner *holder,
                        ls_error *err) noexcept {
  return api::call(err, [&] {
    if (owner.number == 0 || owner.slot >= api::worker(worker).txns->slots - kEngineSlots)
      return fail(LS_INVALID, "range lock: no owner %u in worker slot %u", owner.number,
                  owner.slot);
    RangeRequest request{.tree = range_tree(*tree),
                         .from = {from.data, from.len},
                         .to = {to.data, to.data ? to.len : 0},
                         .to_end = to.data == nullptr,
                         .mode = mode == LS_RANGE_EXCLUSIVE ? kRangeExclusive : kRangeShared,
                         .owner = {owner.slot, owner.number}};
    RangeOwner in_the_way;
    Status status = locks_of(worker).lock(request, &in_the_way);
    if (code(status) == LS_LOCKED) *holder = {in_the_way.slot, in_the_way.number};
    return status;
  });
}

void ls_range_withdraw(ls_worker *worker) noexcept {
  api::call_sure([&] { locks_of(worker).withdraw(); });
}

void ls_range_unlock_all(ls_worker *worker, ls_range_owner owner) noexcept {
  api::call_sure([&] { locks_of(worker).unlock_all({owner.slot, owner.number}); });
}

size_t ls_range_list(const ls_store *store, ls_range_info *out, size_t cap) noexcept {
  return RangeLocks::list(*store->ranges, out, cap);
}

}  // extern "C"
