// Pages for values, against a model: none is handed out twice, what is freed is used again, and
// runs beside each other become one.
#include "vlog/value_pages.hpp"

#include <random>

#include "os/fault.hpp"
#include "unit/txn/txn_fixture.hpp"

namespace ls::txn_test {
namespace {

class ValuePages : public TxnTest {
 protected:
  FileSlot &file{*engine.open("values", LS_REL_VALUES)};
  Ctx &ctx{engine.own().ctx};
  std::vector<bool> taken;

  ~ValuePages() override { fault_clear(); }
  ls_value_stats stats() {
    ls_value_stats now{};
    TXN_EXPECT_OK(value_pages_stats(file, &now));
    return now;
  }
  PageRuns take(u32 pages) {
    PageRuns runs;
    TXN_EXPECT_OK(take_value_pages(ctx, file, pages, &runs));
    EXPECT_EQ(runs.pages(), pages);
    mark(runs, true);
    return runs;
  }
  void give_back(const PageRuns &runs) {
    mark(runs, false);
    free_value_pages(ctx, file, {runs, 0});
  }
  void mark(const PageRuns &runs, bool as) {
    for (const PageRun &run : runs.all()) {
      if (run.end() > taken.size()) taken.resize(run.end());
      for (PageNo page = run.first; page < run.end(); page++) {
        EXPECT_NE(taken[page], as) << "page " << page;
        taken[page] = as;
      }
    }
  }
  u64 count_taken() const {
    return static_cast<u64>(std::count(taken.begin(), taken.end(), true));
  }
};

TEST_F(ValuePages, taken_and_freed_at_random) {
  std::mt19937_64 random(5);
  std::vector<PageRuns> held;
  u64 most = 0;
  for (int i = 0; i < 4000; i++) {
    if (held.empty() || random() % 100 < (i % 1000 < 500 ? 60u : 40u)) {
      held.push_back(take(static_cast<u32>(1 + random() % (random() % 8 == 0 ? 300 : 6))));
    } else {
      const size_t which = random() % held.size();
      give_back(held[which]);
      held[which] = held.back();
      held.pop_back();
    }
    if (HasFailure()) return;
    most = std::max(most, count_taken());
  }
  EXPECT_EQ(stats().pages - stats().free_pages, count_taken());
  EXPECT_LE(stats().pages, most * 3 / 2) << "holes are filled";
  while (!held.empty()) {
    give_back(held.back());
    held.pop_back();
  }
  const u64 pages = stats().pages;
  EXPECT_EQ(stats().free_pages, pages);
  const PageRuns all = take(static_cast<u32>(pages));
  EXPECT_EQ(all.count(), 1u) << "all are one run";
  EXPECT_EQ(stats().pages, pages);
  give_back(all);
  TXN_EXPECT_OK(cut_value_file(ctx, file));
  EXPECT_EQ(stats().pages, 0u);
  EXPECT_EQ(std::filesystem::file_size(engine.path() + "/values_fsm"), 0u);
}

TEST_F(ValuePages, a_full_disk_refuses_and_nothing_is_lost) {
  const PageRuns first = take(100), second = take(100);
  give_back(first);
  fault_add({.op = FaultOp::kExtend, .path_part = "values_fsm", .every = true, .error = ENOSPC});
  PageRuns runs;
  EXPECT_EQ(code(take_value_pages(ctx, file, 5000, &runs)), LS_NO_SPACE);
  EXPECT_EQ(stats().free_pages, 100u);
  EXPECT_EQ(code(take_free_value_pages(ctx, file, 101, &runs)), LS_NOT_FOUND);
  EXPECT_EQ(stats().free_pages, 100u);
  fault_clear();
  give_back(take(100));
  give_back(second);
}

TEST_F(ValuePages, fenced_pages_are_not_handed_out) {
  std::vector<PageRuns> held;
  for (int i = 0; i < 50; i++) held.push_back(take(4));
  for (size_t i = 0; i < held.size(); i += 2) give_back(held[i]);
  {
    ValuePagesFence fence(ctx, file);
    TXN_ASSERT_OK(fence.begin(100));
    for (PageRuns runs; ok(take_free_value_pages(ctx, file, 1, &runs));) {
      mark(runs, true);
      ASSERT_LT(runs[0].first, 100u);
    }
  }
  u32 behind = 0;
  for (PageRuns runs; ok(take_free_value_pages(ctx, file, 1, &runs)); behind++) mark(runs, true);
  EXPECT_EQ(behind, 48u);
  EXPECT_EQ(stats().free_pages, 0u);
}

}  // namespace
}  // namespace ls::txn_test
