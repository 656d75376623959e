// crash_parent.hpp - the parent's side: runs lives, remembers what a client knows, judges what
// recovery has kept.
#pragma once
#include <cstdlib>
#include <filesystem>

#include "unit/recovery/crash_child.hpp"

namespace ls::test {

inline std::string describe(const MarkerId &id) {
  return "life " + std::to_string(id.life) + " worker " + std::to_string(id.worker) + " number " +
         std::to_string(id.number);
}

inline CrashHarness::CrashHarness(const std::string &root) : directory_(root) {}

inline std::string CrashHarness::live(const LifePlan &plan) {
  if (const char *keep = std::getenv("LS_CRASH_KEEP")) {
    std::filesystem::path copy =
        std::filesystem::path(keep) / ("life" + std::to_string(known_.life));
    std::filesystem::remove_all(copy);
    std::filesystem::copy(root(), copy, std::filesystem::copy_options::recursive);
  }
  int ends[2];
  if (pipe(ends) != 0) return "pipe failed";
  present_.clear();
  recovered_ = false;
  operations_ = 0;
  fflush(nullptr);
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    CrashChild(plan, known_, directory_, ends[1]).run();
  }
  close(ends[1]);
  std::string wrong;
  Report r;
  // A report is one atomic write, but a read may return less than it asks for only at the end.
  while (read(ends[0], &r, sizeof r) == static_cast<ssize_t>(sizeof r)) {
    std::string more = take(r);
    if (wrong.empty()) wrong = more;
  }
  close(ends[0]);
  waitpid(child, &wait_status_, 0);
  known_.life++;
  bool shut_down = WIFEXITED(wait_status_) && WEXITSTATUS(wait_status_) == 0;
  bool killed = WIFSIGNALED(wait_status_) && WTERMSIG(wait_status_) == SIGKILL;
  bool as_planned =
      plan.end == LifePlan::End::kShutdown && !plan.kill_after_us ? shut_down : shut_down || killed;
  if (wrong.empty() && !as_planned)
    wrong = "the child ended with wait status " + std::to_string(wait_status_);
  return wrong;
}

inline std::string CrashHarness::take(const Report &r) {
  switch (r.kind) {
    case ReportKind::kAcknowledged:
      known_.acknowledged.insert(r.marker.id);
      return {};
    case ReportKind::kDecided:
      known_.decided.insert(r.marker.id);
      known_.committed_xids.insert(r.value);
      known_.max_committed_xid = std::max(known_.max_committed_xid, r.value);
      return {};
    case ReportKind::kXidLimit:
      known_.next_xid = std::max(known_.next_xid, r.value);
      return {};
    case ReportKind::kBuilt:
      known_.built_index = static_cast<u32>(r.value);
      return {};
    case ReportKind::kPresent:
      present_[r.marker.id] = r.marker;
      return {};
    case ReportKind::kRecovered:
      recovered_ = true;
      operations_ = r.value;
      return judge();
  }
  return "unknown report";
}

inline std::string CrashHarness::judge() {
  for (const MarkerId &id : known_.acknowledged)
    if (!present_.contains(id)) return "an acknowledged commit is lost: " + describe(id);
  for (const MarkerId &id : known_.decided)
    if (!present_.contains(id)) return "a commit that the host's log has is lost: " + describe(id);
  std::set<MarkerId> old;
  for (auto &[id, m] : present_) {
    if (m.two_phase && !known_.decided.contains(id))
      return "a commit that the host's log has not is there: " + describe(id);
    if (id.life < known_.settled_lives) old.insert(id);
  }
  for (const MarkerId &id : known_.settled)
    if (!old.contains(id)) return "a transaction that survived a recovery is lost: " + describe(id);
  for (const MarkerId &id : old)
    if (!known_.settled.contains(id))
      return "a transaction that a recovery has dropped is back: " + describe(id);
  known_.settled.clear();
  for (auto &[id, m] : present_) known_.settled.insert(id);
  known_.settled_lives = known_.life;
  return {};
}

}  // namespace ls::test
