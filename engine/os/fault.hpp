// fault.hpp - makes chosen system calls on files fail: for tests only.  Off (one relaxed load per
// call) until the first rule is added.  Rules are private to the process and thread-safe.
//
// Matching: operation kind and a part of the path.  A rule acts on its `nth` matching call, counted
// from when it was added, and with `every` on all later ones too.  The first acting rule decides.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <string>

#include "base/types.hpp"

namespace ls {

enum class FaultOp : u8 { kOpen, kRead, kWrite, kSync, kExtend, kRename, kUnlink };

enum class FaultOutcome : u8 {
  kFail,     // report `error`
  kSucceed,  // report success although only `first_bytes` were written (or nothing was synced)
  // power loss: call on_crash, then every operation on any path fails with EIO until fault_clear
  kCrash,
};

struct FaultRule {
  FaultOp op;
  std::string path_part;     // "" matches every path
  u64 nth = 1;
  bool every = false;
  FaultOutcome outcome = FaultOutcome::kFail;
  int error = 5;             // EIO
  u64 first_bytes = 0;       // of a write: this many reach the file all the same
  std::function<void()> on_crash{};
};

void fault_add(FaultRule rule);
void fault_clear();          // all rules and the "crashed" state
u64 fault_hits();            // calls that a rule acted on since the last fault_clear

inline std::atomic<bool> fault_rules_exist{false};
// Tests add rules before they start what shall fail, so relaxed will do.
inline bool fault_active() { return fault_rules_exist.load(std::memory_order_relaxed); }

// Told of every call that is really made and changes a file, right before and right after: for
// simulators of power loss.  (Writes that go through io_uring are not seen: add a rule, it may be
// one that matches nothing.)
struct FileCall {
  FaultOp op;              // kOpen: only with O_CREAT
  int fd = -1;             // kWrite, kSync, kExtend
  const char *path = "";   // kOpen, kRename, kUnlink
  const char *to = "";     // kRename
  u64 offset = 0;          // kWrite
  size_t bytes = 0;
};
class FileObserver {
 public:
  virtual ~FileObserver() = default;
  virtual u64 before(const FileCall &call) = 0;   // returns what after() gets
  virtual void after(const FileCall &call, u64 token, bool success) = 0;
};
// Set before the threads start of which it shall see the calls.
inline std::atomic<FileObserver *> file_observer{nullptr};

// For the callers of system calls: what happens to this one.
struct FaultDecision {
  bool hit = false;
  FaultOutcome outcome = FaultOutcome::kFail;
  int error = 0;
  u64 first_bytes = 0;
  std::function<void()> on_crash{};
};
FaultDecision fault_decide(FaultOp op, const char *path);

}  // namespace ls
