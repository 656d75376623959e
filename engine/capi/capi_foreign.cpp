// Files of another store.
#include "capi/api_call.hpp"
#include "store/foreign_file.hpp"
#include "txn/row.hpp"

using namespace ls;

namespace {

ForeignFile &foreign_file(ls_foreign *foreign) { return *reinterpret_cast<ForeignFile *>(foreign); }

}  // namespace

extern "C" {

ls_status ls_foreign_open(ls_worker *worker, const char *path, ls_rel_kind kind,
                          ls_foreign **foreign, ls_error *err) noexcept {
  return api::call(err, [&]() -> Status {
    std::unique_ptr<ForeignFile> file;
    LS_TRY(ForeignFile::open(api::worker(worker).ctx, path, kind, &file));
    *foreign = reinterpret_cast<ls_foreign *>(file.release());
    return kOk;
  });
}

ls_status ls_foreign_next(ls_foreign *foreign, const ls_row **rows, uint32_t *count,
                          ls_error *err) noexcept {
  *count = 0;
  return api::call(err, [&]() -> Status {
    std::span<const ls_row> found;
    LS_TRY(foreign_file(foreign).next(&found));
    *rows = found.data();
    *count = static_cast<u32>(found.size());
    return kOk;
  });
}

ls_status ls_foreign_value(ls_foreign *foreign, ls_worker *worker, ls_rel *rel, const ls_row *row,
                           ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return value_adopt(w, file, foreign_file(foreign).ref(), *row);
  });
}

void ls_foreign_close(ls_foreign *foreign) noexcept { delete &foreign_file(foreign); }

}  // extern "C"
