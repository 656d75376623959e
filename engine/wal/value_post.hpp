// value_post.hpp - bytes of values on their way into the host's log (ls_host_log in engine.h).
//
// A thread that may use the host's log inserts them itself.  One of the engine's hands them to the
// thread of its process that pumps (Log::pump), and waits until that has inserted them.
#pragma once
#include <span>

#include "base/status.hpp"
#include "leanstore/engine.h"
#include "wal/log.hpp"

namespace ls {

struct PostedValues {
  ls_rel_key relation;
  PageNo page;
  std::span<const u8> bytes;
};

// At return they are in the host's log.  LS_INTERRUPTED: they are not, for the log or the thread
// that waits is to stop.
Status post_values(Log &log, const PostedValues &values, const volatile int *interrupt);

// By the thread that pumps.
void insert_posted_values();

}  // namespace ls
