// api_call.hpp - what every function of engine.h does around its one call into the engine.
#pragma once
#include "base/check.hpp"
#include "base/status.hpp"
#include "buffer/file_use.hpp"
#include "store/store.hpp"
#include "sync/hybrid_latch.hpp"
#include "txn/row_scan.hpp"

namespace ls::api {

// The opaque types are the engine's own.
inline Worker &worker(ls_worker *w) { return *reinterpret_cast<Worker *>(w); }
inline const Worker &worker(const ls_worker *w) { return *reinterpret_cast<const Worker *>(w); }
inline RowScan &scan(ls_scan *s) { return *reinterpret_cast<RowScan *>(s); }

void report(Status status, ls_error *err);

// Run `body`; nothing is thrown, nothing stays latched.
template <typename Body>
ls_status call(ls_error *err, Body &&body) noexcept {
  const Status status = with_memory(body);
  LS_ASSERT(latches_held() == 0);
  if (!ok(status)) report(status, err);
  return code(status);
}

// The file of a handle, in use for the length of a call.
class RelUse {
 public:
  Status begin(ls_worker *w, ls_rel *rel) {
    FileHandle file{static_cast<FileSlot *>(rel->slot), rel->number};
    const Status status = use_.begin(worker(w).ctx, &file);
    rel->slot = file.slot;
    return status;
  }
  FileSlot &file() const { return use_.file(); }
  const FileUse &use() const { return use_; }

 private:
  FileUse use_;
};

// Run `body(worker, file)`.
template <typename Body>
ls_status call_in(ls_worker *w, ls_rel *rel, ls_error *err, Body &&body) noexcept {
  return call(err, [&]() -> Status {
    RelUse use;
    LS_TRY(use.begin(w, rel));
    return body(worker(w), use.file());
  });
}

// For functions that cannot fail: memory that they might need in vain ends the process tree.
template <typename Body>
auto call_sure(Body &&body) noexcept {
  struct CheckAtEnd {
    ~CheckAtEnd() { LS_ASSERT(latches_held() == 0); }
  } check;
  return body();
}

}  // namespace ls::api
