// Judging headers: every kind of snapshot against writers before, in and after it.
#include "version/visibility.hpp"

#include <gtest/gtest.h>

#include <set>

namespace ls {
namespace {

constexpr Tn kBase = 100;
const u64 kRunning[] = {110, 115};

ls_snapshot mvcc(Tn own, u32 curcid) {
  ls_snapshot s{};
  s.kind = LS_SNAPSHOT_MVCC;
  s.xmin = 110;
  s.xmax = 120;
  s.running = kRunning;
  s.n_running = 2;
  s.own_tn = own;
  s.curcid = curcid;
  return s;
}

RowHeader header(Tn tn, u8 flags = 0, u32 cid = 0) { return RowHeader::make(tn, flags, 0, cid, 1); }

bool contains(const void *arg, Tn tn) {
  return static_cast<const std::set<Tn> *>(arg)->contains(tn);
}

Viewer viewer(const ls_snapshot &s, const std::set<Tn> &active, Tn finished_below = kBase) {
  return {&s, kBase, finished_below, {&active, contains}};
}

// VIS-1
TEST(Visibility, mvcc_sees_what_had_ended_when_it_was_taken) {
  const ls_snapshot s = mvcc(0, 0);
  EXPECT_TRUE(writer_visible(header(0), s, kBase)) << "undone to a version of an earlier run";
  EXPECT_TRUE(writer_visible(header(99), s, kBase));
  EXPECT_TRUE(writer_visible(header(109), s, kBase));
  EXPECT_FALSE(writer_visible(header(110), s, kBase));
  EXPECT_TRUE(writer_visible(header(111), s, kBase));
  EXPECT_FALSE(writer_visible(header(115), s, kBase));
  EXPECT_TRUE(writer_visible(header(119), s, kBase));
  EXPECT_FALSE(writer_visible(header(120), s, kBase));
}

TEST(Visibility, mvcc_sees_own_changes_of_earlier_commands) {
  const ls_snapshot s = mvcc(117, 5);
  EXPECT_TRUE(writer_visible(header(117, 0, 4), s, kBase));
  EXPECT_FALSE(writer_visible(header(117, 0, 5), s, kBase));
  EXPECT_FALSE(writer_visible(header(117, LS_ROW_SPECULATIVE, 4), s, kBase))
      << "the cid is a token";
}

TEST(Visibility, mvcc_verdicts) {
  const ls_snapshot s = mvcc(0, 0);
  const std::set<Tn> active;
  const Viewer v = viewer(s, active);
  EXPECT_EQ(judge(header(109), v, 0).verdict, Verdict::kVisible);
  EXPECT_EQ(judge(header(109, LS_ROW_GHOST), v, 0).verdict, Verdict::kGone);
  EXPECT_EQ(judge(header(115, LS_ROW_GHOST), v, 0).verdict, Verdict::kOlder);
  EXPECT_FALSE(judge(header(111), v, 0).recheck) << "a snapshot's answer does not change";
}

// VIS-2
TEST(Visibility, self_asks_who_is_active_now) {
  ls_snapshot s = mvcc(117, 0);
  s.kind = LS_SNAPSHOT_SELF;
  const std::set<Tn> active{115, 117};
  const Viewer v = viewer(s, active);
  EXPECT_EQ(judge(header(115), v, 0).verdict, Verdict::kOlder);
  EXPECT_EQ(judge(header(117, 0, 9), v, 0).verdict, Verdict::kVisible) << "own, any command";
  EXPECT_FALSE(judge(header(117), v, 0).recheck);
  EXPECT_EQ(judge(header(117, LS_ROW_GHOST), v, 0).verdict, Verdict::kGone);
  const Judgement ended = judge(header(116), v, 0);
  EXPECT_EQ(ended.verdict, Verdict::kVisible);
  EXPECT_TRUE(ended.recheck) << "it may have been undone since";
  EXPECT_FALSE(judge(header(116), viewer(s, active, 117), 0).recheck);
}

TEST(Visibility, self_skips_every_version_of_the_running_writer) {
  ls_snapshot s = mvcc(0, 0);
  s.kind = LS_SNAPSHOT_SELF;
  // it has ended meanwhile: its versions must not be mixed with the verdict on the newest
  const std::set<Tn> active;
  const Viewer v = viewer(s, active);
  EXPECT_EQ(judge(header(115), v, 115).verdict, Verdict::kOlder);
  EXPECT_EQ(judge(header(112), v, 115).verdict, Verdict::kVisible);
}

TEST(Visibility, dirty_takes_the_newest_unless_surely_deleted) {
  ls_snapshot s = mvcc(117, 0);
  s.kind = LS_SNAPSHOT_DIRTY;
  const std::set<Tn> active{115, 117};
  const Viewer v = viewer(s, active);
  EXPECT_EQ(judge(header(115), v, 0).verdict, Verdict::kVisible);
  EXPECT_EQ(judge(header(115, LS_ROW_GHOST), v, 0).verdict, Verdict::kVisible);
  EXPECT_EQ(judge(header(117, LS_ROW_GHOST), v, 0).verdict, Verdict::kGone);
  EXPECT_EQ(judge(header(116, LS_ROW_GHOST), v, 0).verdict, Verdict::kGone);
  EXPECT_TRUE(judge(header(116, LS_ROW_GHOST), v, 0).recheck)
      << "the deletion may have been undone since";
  EXPECT_FALSE(judge(header(115), v, 0).recheck);
}

TEST(Visibility, any_takes_everything) {
  ls_snapshot s = mvcc(0, 0);
  s.kind = LS_SNAPSHOT_ANY;
  const std::set<Tn> active;
  EXPECT_EQ(judge(header(130, LS_ROW_GHOST), viewer(s, active), 0).verdict, Verdict::kVisible);
}

TEST(Visibility, fast_bound_is_for_mvcc_only) {
  ls_snapshot s = mvcc(0, 0);
  EXPECT_EQ(visible_below(s, kBase), 110u);
  EXPECT_EQ(visible_below(s, 115), 115u);
  s.kind = LS_SNAPSHOT_SELF;
  EXPECT_EQ(visible_below(s, kBase), 0u);
}

}  // namespace
}  // namespace ls
