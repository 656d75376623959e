// The host's log as the engine's.
#include <memory>

#include "capi/api_call.hpp"
#include "recovery/control_file.hpp"
#include "recovery/relay_replay.hpp"
#include "recovery/values_replay.hpp"
#include "store/store_process.hpp"
#include "wal/log_sink.hpp"

using namespace ls;

namespace {

// Of the one process that replays.
std::unique_ptr<RelayReplay> g_replay;
std::unique_ptr<ValuesReplay> g_values_replay;

RelayReplay &replay_of(ls_store &store) {
  (void)store_process(store);  // sets the file layer up
  if (!g_replay)
    g_replay = std::make_unique<RelayReplay>(store.config.data_dir, store.config.log_segment_bytes,
                                             store.config.fsync);
  return *g_replay;
}

}  // namespace

extern "C" {

void ls_host_log_use(const ls_host_log *log) noexcept { use_host_log(log); }

// A failure is the store's, as one of the committer thread is in the other mode.
ls_status ls_host_log_pump(ls_store *store, uint32_t wait_us, ls_error *err) noexcept {
  return api::call(err, [&] {
    const Status status = store_process(*store).log.pump(wait_us);
    if (!ok(status)) store_fail(*store, status);
    return status;
  });
}

void ls_host_log_flushed(ls_worker *worker) noexcept {
  api::call_sure([&] { api::worker(worker).log.log().note_flushed(); });
}

ls_status ls_txn_write_out(ls_worker *worker, uint64_t full_xid, uint64_t *end,
                           ls_error *err) noexcept {
  return api::call(err, [&] { return txn_write_out(api::worker(worker), full_xid, end); });
}

uint32_t ls_relay_sync(ls_store *store) noexcept {
  return api::call_sure([&] { return store_process(*store).log.request_relay_sync(); });
}

bool ls_relay_is_synced(const ls_store *store, uint32_t request) noexcept {
  return api::call_sure([&] {
    return store_process(*const_cast<ls_store *>(store)).log.relay_is_synced(request);
  });
}

ls_status ls_relay_replay(ls_store *store, const void *bytes, size_t count, uint64_t position,
                          ls_error *err) noexcept {
  return api::call(err, [&] {
    return replay_of(*store).add(position, {static_cast<const u8 *>(bytes), count});
  });
}

ls_status ls_relay_replay_end(ls_store *store, ls_error *err) noexcept {
  return api::call(err, [&] {
    const Status status = replay_of(*store).finish();
    g_replay.reset();
    g_values_replay.reset();
    return status;
  });
}

ls_status ls_values_replay(ls_store *store, const ls_value_bytes *values, bool *there,
                           ls_error *err) noexcept {
  return api::call(err, [&] {
    (void)store_process(*store);  // sets the file layer up
    if (!g_values_replay)
      g_values_replay = std::make_unique<ValuesReplay>(store->config.root_dir);
    return g_values_replay->write(
        values->path, values->page, {static_cast<const u8 *>(values->bytes), values->count}, there);
  });
}

ls_status ls_store_log_fits(ls_store *store, bool *fits, ls_error *err) noexcept {
  return api::call(err, [&] {
    ControlFile control;
    bool exists;
    LS_TRY(control_read(store->config.data_dir, &control, &exists));
    *fits = !exists || log_fits(control, store->config.host_log);
    return kOk;
  });
}

}  // extern "C"
