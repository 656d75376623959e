// What the host sees of a worker's waits.  (Log space: log_appender_test.cpp.)
#include "base/wait_report.hpp"

#include "os/fault.hpp"
#include "unit/store/store_fixture.hpp"

namespace ls::test {
namespace {

constexpr u32 kTable = 16500;
constexpr u32 kCodes[LS_WAITS] = {101, 102, 103};

TEST(WaitReport, waits_within_waits_and_nobody_who_asks) {
  u32 word = 7;
  HostWaits host{&word, {}};
  std::copy(kCodes, kCodes + LS_WAITS, host.codes);
  {
    WaitReport outer(&host, LS_WAIT_PAGE_FRAME);
    EXPECT_EQ(word, 103u);
    {
      WaitReport inner(&host, LS_WAIT_LOG_SPACE);
      EXPECT_EQ(word, 101u);
    }
    EXPECT_EQ(word, 103u);
  }
  EXPECT_EQ(word, 7u);
  const HostWaits unset;
  WaitReport nobody(nullptr, LS_WAIT_PAGE_READ), nowhere(&unset, LS_WAIT_PAGE_READ);
  EXPECT_EQ(word, 7u);
}

TEST(WaitReport, reading_a_page) {
  TempDirectory temp;
  HostDirectory directory(temp.path());
  directory.create_file(kTable);
  const ls_config config = small_config(temp.path());
  ls_error err{};
  u64 row = 0;
  {
    StoreLife store(config);
    LS_ASSERT_OK(store.recover(10));
    Host host(store.store(), 10);
    Session s(store.store(), &host, 0);
    ASSERT_EQ(s.begin(), LS_OK);
    ASSERT_EQ(s.insert(s.open(kTable), "row", &row), LS_OK);
    s.commit();
  }
  StoreLife store(config);
  LS_ASSERT_OK(store.recover(100));
  Host host(store.store(), 100);
  Session s(store.store(), &host, 0);
  u32 word = 0, seen = 0;
  ls_worker_report_waits(s.worker(), &word, kCodes);
  ls_rel *rel = s.open(kTable);
  FaultRule look;
  look.op = FaultOp::kRead;
  look.path_part = HostDirectory::relation_path(kTable);
  look.outcome = FaultOutcome::kCrash;
  look.on_crash = [&] { seen = word; };
  fault_add(look);
  std::string data;
  EXPECT_EQ(s.fetch(rel, row, &data), LS_IO_ERROR);
  fault_clear();
  EXPECT_EQ(seen, kCodes[LS_WAIT_PAGE_READ]);
  EXPECT_EQ(word, 0u);
  EXPECT_EQ(s.fetch(rel, row, &data), LS_OK) << s.err.message;
  EXPECT_EQ(data, "row");
}

}  // namespace
}  // namespace ls::test
