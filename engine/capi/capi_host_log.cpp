// The host's log as the engine's.
#include <memory>

#include "capi/api_call.hpp"
#include "os/futex.hpp"
#include "recovery/control_file.hpp"
#include "recovery/handover.hpp"
#include "recovery/relay_replay.hpp"
#include "recovery/values_replay.hpp"
#include "store/standby_apply.hpp"
#include "store/standby_follow.hpp"
#include "store/store_process.hpp"
#include "txn/prepared_file.hpp"
#include "wal/log_sink.hpp"

using namespace ls;

namespace {

// Of the one process that replays.
std::unique_ptr<RelayReplay> g_replay;
std::unique_ptr<ValuesReplay> g_values_replay;

void begin_replay(ls_store &store, bool restoring) {
  (void)store_process(store);  // sets the file layer up
  g_replay = std::make_unique<RelayReplay>(store.config.data_dir, store.config.log_segment_bytes,
                                           store.config.fsync, restoring);
}

// Of the thread that inserts states.
std::vector<u8> g_state;

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

ls_status ls_log_write_out(ls_worker *worker, ls_error *err) noexcept {
  return api::call(err, [&] { return write_out_all(api::worker(worker)); });
}

uint32_t ls_relay_sync(ls_store *store) noexcept {
  return api::call_sure([&] { return store_process(*store).log.request_relay_sync(); });
}

bool ls_relay_is_synced(const ls_store *store, uint32_t request) noexcept {
  return api::call_sure([&] {
    return store_process(*const_cast<ls_store *>(store)).log.relay_is_synced(request);
  });
}

void ls_name_places(ls_store *store, bool each_time) noexcept {
  api::call_sure([&] { store_process(*store).log.name_places(each_time); });
}

uint64_t ls_log_hardened(const ls_store *store) noexcept {
  return api::call_sure(
      [&] { return store_process(*const_cast<ls_store *>(store)).log.hardened(); });
}

void ls_restore_floor(ls_store *store, uint64_t gsn) noexcept {
  api::call_sure([&] { store_process(*store).restore_states.set_floor(gsn); });
}

bool ls_is_relation_file(const void *page) noexcept {
  return is_any_meta(static_cast<const u8 *>(page));
}

uint32_t ls_restore_state_ask(ls_store *store) noexcept {
  return api::call_sure([&] {
    const u32 request = store_process(*store).restore_states.ask();
    futex_wake_all(&store->checkpoint_requested);
    return request;
  });
}

void ls_restore_state_hurry(ls_store *store, uint32_t request) noexcept {
  api::call_sure([&] { store_process(*store).restore_states.hurry(request); });
}

ls_status ls_restore_state_take(ls_store *store, uint32_t request, ls_restore_state *state,
                                ls_error *err) noexcept {
  return api::call(err, [&] {
    ls_error why{};
    const bool done = store_process(*store).restore_states.take(request, &g_state, &why);
    *state = {done, g_state.data(), done ? g_state.size() : 0};
    if (!done || why.status == LS_OK) return kOk;
    set_last_error(why);
    return make_status(why.status);
  });
}

ls_status ls_restore_forget(ls_store *store, ls_error *err) noexcept {
  return api::call(err, [&] {
    (void)store_process(*store);  // sets the file layer up
    return restore_forget(store->config.data_dir);
  });
}

void ls_relay_replay_begin(ls_store *store, bool restoring) noexcept {
  api::call_sure([&] { begin_replay(*store, restoring); });
}

void ls_relay_replay_alone(ls_store *) noexcept {
  api::call_sure([] { g_replay->gather(); });
}

ls_status ls_relay_replay_state(ls_store *store, const void *bytes, size_t count,
                                ls_error *err) noexcept {
  return api::call(err, [&] {
    RestoreState state;
    LS_TRY(restore_state_unpack({static_cast<const u8 *>(bytes), count}, &state));
    const std::lock_guard lock(store->follow_mutex);
    LS_TRY(g_replay->restore(state));
    follow_note_replayed(*store, g_replay->position());
    return kOk;
  });
}

uint64_t ls_relay_replay_position(const ls_store *) noexcept {
  return api::call_sure([&] { return g_replay->position(); });
}

ls_status ls_standby_apply(ls_store *store, ls_standby_state *state, ls_error *err) noexcept {
  return api::call(err, [&] {
    return standby_apply(*store, {static_cast<const u8 *>(state->bytes), state->count},
                         state->position, state->stop, &state->log_bytes);
  });
}

ls_status ls_relay_replay_sync(ls_store *, ls_error *err) noexcept {
  return api::call(err, [&] { return g_replay->sync(); });
}

ls_status ls_relay_replay(ls_store *store, const void *bytes, size_t count, uint64_t position,
                          ls_error *err) noexcept {
  return api::call(err, [&] {
    // `join` sees the relay log and the position agree.
    const std::lock_guard lock(store->follow_mutex);
    LS_TRY(g_replay->add(position, {static_cast<const u8 *>(bytes), count}));
    follow_note_replayed(*store, g_replay->position());
    return kOk;
  });
}

ls_status ls_relay_replay_end(ls_store *, ls_error *err) noexcept {
  return api::call(err, [&] {
    const Status status = g_replay->finish();
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

ls_status ls_prepared_replay(ls_store *store, const ls_prepared_bytes *bytes,
                             ls_error *err) noexcept {
  return api::call(err, [&] {
    (void)store_process(*store);  // sets the file layer up
    return prepared_file_replay(
        store->txns->prepared_dir, bytes->full_xid, bytes->at,
        {static_cast<const u8 *>(bytes->bytes), bytes->count}, bytes->last);
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

ls_status ls_store_log_kind(ls_store *store, bool *exists, bool *host_log,
                            ls_error *err) noexcept {
  return api::call(err, [&] {
    ControlFile control{};
    LS_TRY(control_read(store->config.data_dir, &control, exists));
    *host_log = control.host_log != 0;
    return kOk;
  });
}

ls_status ls_store_leave(ls_store *store, const char *path, ls_error *err) noexcept {
  return api::call(err, [&] { return handover_leave(store->config.data_dir, path); });
}

ls_status ls_store_take(ls_store *store, const char *path, bool *taken, ls_error *err) noexcept {
  return api::call(err, [&] {
    (void)store_process(*store);  // sets the file layer up
    return handover_take(store->config.data_dir, path, store->config.log_segment_bytes, taken);
  });
}

}  // extern "C"
