#include "capi/wall.hpp"

namespace ls::wall {

void report(Status status, ls_error *err) {
  if (!err) return;
  // Expected outcomes of row operations come without details; what the thread remembers may be older.
  if (last_error().status == code(status)) {
    *err = last_error();
    return;
  }
  *err = ls_error{code(status), 0, UINT32_MAX, "", ""};
}

}  // namespace ls::wall
