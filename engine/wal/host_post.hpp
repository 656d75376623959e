// host_post.hpp - what gets into the host's log beside rounds (ls_host_log in engine.h): bytes of
// values, files of prepared transactions.
//
// A thread that may use the host's log inserts them itself.  One of the engine's hands them to the
// thread of its process that pumps (Log::pump), and waits until that has inserted them.
#pragma once
#include <functional>

#include "base/status.hpp"
#include "leanstore/engine.h"
#include "wal/log.hpp"

namespace ls {

// Made of std::ref: then it takes no memory, which a value that is half written could lack.
using HostInsert = std::function<void(const ls_host_log &)>;

// At return `insert` has been called.  LS_INTERRUPTED: it has not, and will not be, for the log or
// the thread that waits is to stop.
Status post_to_host(Log &log, const HostInsert &insert, const volatile int *interrupt);

// By the thread that pumps.
void insert_posted();

}  // namespace ls
