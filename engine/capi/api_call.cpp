// api_call.cpp - a status of the engine as the error of its caller.
#include "capi/api_call.hpp"

namespace ls::api {

void report(Status status, ls_error *err) {
  if (!err) return;
  // Expected outcomes of row operations come without details; what the thread remembers may be
  // older.
  if (last_error().status == code(status)) {
    *err = last_error();
    return;
  }
  // Look-ups end so: not all of its bytes are worth writing.
  err->status = code(status);
  err->sys_errno = 0;
  err->page_no = UINT32_MAX;
  err->path[0] = err->message[0] = '\0';
}

}  // namespace ls::api
