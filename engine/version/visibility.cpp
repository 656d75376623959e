// visibility.cpp - one header judged against one snapshot.
#include "version/visibility.hpp"

#include <algorithm>

namespace ls {

bool writer_visible(const RowHeader &header, const ls_snapshot &snapshot, Tn base) {
  const Tn tn = header.tn();
  if (tn < base) return true;
  if (tn == snapshot.own_tn) return !header.has(LS_ROW_SPECULATIVE) && header.cid < snapshot.curcid;
  if (tn < snapshot.xmin) return true;
  if (tn >= snapshot.xmax) return false;
  return !std::binary_search(snapshot.running, snapshot.running + snapshot.n_running, tn);
}

static Judgement judge_now(const RowHeader &header, const Viewer &viewer, Tn running_tn) {
  const Tn tn = header.tn();
  if (running_tn != 0) return {tn == running_tn ? Verdict::kOlder : Verdict::kVisible, false};
  const bool own = tn != 0 && tn == viewer.snapshot->own_tn;
  const bool asked = !own && tn >= viewer.finished_below;
  const bool active = asked && viewer.active.contains(viewer.active.arg, tn);
  const bool ghost = header.has(LS_ROW_GHOST);
  if (viewer.snapshot->kind == LS_SNAPSHOT_DIRTY) {
    // The host learns from the writer's TN that the version, or its deletion, is not certain yet.
    return {ghost && !active ? Verdict::kGone : Verdict::kVisible, asked && !active};
  }
  if (active) return {Verdict::kOlder, false};
  return {ghost ? Verdict::kGone : Verdict::kVisible, asked};
}

Judgement judge(const RowHeader &header, const Viewer &viewer, Tn running_tn) {
  switch (viewer.snapshot->kind) {
    case LS_SNAPSHOT_MVCC:
      if (!writer_visible(header, *viewer.snapshot, viewer.base)) return {Verdict::kOlder, false};
      return {header.has(LS_ROW_GHOST) ? Verdict::kGone : Verdict::kVisible, false};
    case LS_SNAPSHOT_SELF:
    case LS_SNAPSHOT_DIRTY:
      return judge_now(header, viewer, running_tn);
    case LS_SNAPSHOT_ANY:
      break;
  }
  return {Verdict::kVisible, false};
}

}  // namespace ls
