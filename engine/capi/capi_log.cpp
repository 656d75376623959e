// The log, for inspection.
#include <algorithm>

#include "buffer/pool_shared.hpp"
#include "capi/api_call.hpp"
#include "recovery/log_inspect.hpp"
#include "store/store_process.hpp"

using namespace ls;

namespace {

LogInspector &inspector(ls_log_scan *scan) { return *reinterpret_cast<LogInspector *>(scan); }

LogInspector::Files open_files(const BufferPool &pool) {
  LogInspector::Files files;
  for (u32 i = 0; i < pool.shared()->max_files; i++) {
    const FileSlot &file = pool.file(i);
    if (has_pages(file)) files[file.file_no.load(std::memory_order_relaxed)] = file.key;
  }
  return files;
}

}  // namespace

extern "C" {

ls_status ls_log_scan_open(ls_store *store, uint64_t from, uint64_t to, ls_log_scan **scan,
                           ls_error *err) noexcept {
  return api::call(err, [&]() -> Status {
    if (store_state(*store) != StoreState::kReady)
      return fail(LS_NOT_READY, "the storage engine has not finished recovery");
    StoreProcess &process = store_process(*store);
    const LogConfig config = log_config(store->config);
    LS_TRY(process.log.complete_relay());
    *scan = reinterpret_cast<ls_log_scan *>(
        new LogInspector(open_files(process.pool), config.dir, config.segment_bytes, from,
                         std::min<Lsn>(to, process.log.end())));
    return kOk;
  });
}

ls_status ls_log_scan_next(ls_log_scan *scan, ls_log_item *item, ls_error *err) noexcept {
  return api::call(err, [&] { return inspector(scan).next(item); });
}

void ls_log_scan_close(ls_log_scan *scan) noexcept { delete &inspector(scan); }

}  // extern "C"
