// host_watch.hpp - what a process asks while it waits long: whether there is still a reason to.
//
// Waits that may not be refused (the end of a transaction, a lock in shared memory) rely on the
// engine's threads, and if those have died on the host's restart of everything.  When both are gone
// nothing ends such a wait.
#pragma once

namespace ls {

// Of this process; null: none.  It does not return when it is to end.
using HostWatch = void (*)();
void set_host_watch(HostWatch watch);
void watch_host();

}  // namespace ls
