// store_sync_point.cpp - how far the host's own log has come (recovery/host_sync_point.hpp).
#include "recovery/host_sync_point.hpp"
#include "store/store_process.hpp"
#include "txn/row.hpp"

namespace ls {

namespace {

HostSyncPoint note_at(const ls_store &store, Lsn position) {
  HostSyncPoint note{};
  note.position = position;
  note.run = store.run;
  note.tn_offset = store.txns->tn_offset.load(std::memory_order_relaxed);
  return note;
}

}  // namespace

Status store_begin_sync_points(ls_store &store) {
  const Lsn position = store_process(store).log.end();
  LS_TRY(host_sync_point_replace(store.config.data_dir, note_at(store, position)));
  store.noted.store(position, std::memory_order_release);
  return kOk;
}

// The log is let go of when the file says so: the next start, which reads the file, finds what is
// behind it.
Status store_advance_sync_point(ls_store &store, Lsn position) {
  const Lsn noted = store.noted.load(std::memory_order_relaxed);
  if (store_state(store) != StoreState::kReady || noted == kNothingNoted)
    return fail(LS_INVALID, "the store takes no notes of commits");
  if (position < noted || position > store_process(store).log.end())
    return fail(LS_INVALID, "position %llu is not behind the last note",
                static_cast<unsigned long long>(position));
  LS_TRY(host_sync_point_update(store.config.data_dir, note_at(store, position)));
  store.noted.store(position, std::memory_order_release);
  return kOk;
}

}  // namespace ls
