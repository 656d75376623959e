// What a transaction has logged, and an index that it has built, also where that has changed no
// row, is in the host's log before the host's record of it.
#include "unit/index/index_fixture.hpp"
#include "unit/store/store_lives.hpp"
#include "unit/wal/host_pump.hpp"

namespace ls::test {
namespace {

class IndexInHostLog : public StoreLives {
 protected:
  static constexpr u32 kIndex = 16430, kTable = 16431;
  static constexpr u64 kEntries = 300;

  IndexInHostLog() {
    config_.host_log = true;
    directory_.create_file(kIndex);
    directory_.create_file(kTable);
  }

  // A life that ends as a crash of the host does: what it has not flushed is lost.
  void live_with_host(const std::function<void(Session &)> &work) {
    StoreLife store(config_);
    host_log_.crash();
    ls_relay_replay_begin(store.store(), false);
    for (u64 i = host_log_.redo(); i < host_log_.log().size(); i++) {
      const MemoryHost::Record &record = host_log_.log()[i];
      LS_ASSERT_OK(ls_relay_replay(store.store(), record.bytes.data(), record.bytes.size(),
                                   record.position, &err));
    }
    LS_ASSERT_OK(ls_relay_replay_end(store.store(), &err));
    host_log_.checkpoint();
    pump_.emplace(store.store(), host_log_);
    LS_ASSERT_OK(store.recover(next_xid_));
    Host host(store.store(), next_xid_);
    {
      Session s(store.store(), &host, 0);
      work(s);
    }
    next_xid_ = host.next_xid() + 100;
    if (!pump_) pump_.emplace(store.store(), host_log_);
    LS_ASSERT_OK(ls_store_abandon(store.store(), &err));
    pump_.reset();
  }

  void build(Session &s) {
    ls_index_build *build = nullptr;
    LS_ASSERT_OK(ls_index_build_open(s.worker(), s.open(kIndex, true, LS_REL_INDEX), 90, &build,
                                     &err));
    for (u64 i = 0; i < kEntries; i++)
      LS_ASSERT_OK(ls_index_build_add(build, to_bytes(entry_of(number_key(i), i + 1)), {}, &err));
    LS_ASSERT_OK(ls_index_build_finish(build, &err));
  }

  MemoryHost host_log_;
  std::optional<HostPump> pump_;
};

TEST_F(IndexInHostLog, a_build_is_written_out_without_changed_rows) {
  live_with_host([&](Session &s) {
    // Else it would be written by the pump in the end.
    pump_.reset();
    LS_ASSERT_OK(s.begin());
    build(s);
    ASSERT_FALSE(ls_txn_has_log(s.worker()));
    u64 end = 1;
    LS_ASSERT_OK(ls_txn_write_out(s.worker(), s.xid(), &end, &err));
    EXPECT_EQ(end, 0u) << "nothing that the host would have to flush by itself";
    host_log_.flush_some(host_log_.size());   // with the host's own record, which comes now
    host_log_.lose_what_follows();
    s.commit_unhardened();
  });
  live_with_host([&](Session &s) {
    IndexScanner scanner(s.worker(), s.open(kIndex, true, LS_REL_INDEX));
    scanner.range("", std::nullopt);
    u64 n = 0;
    while (scanner.next()) n++;
    EXPECT_EQ(n, kEntries);
  });
}

// The wait for room in the log's files can be interrupted, and is begun again where that meant
// something else.
TEST_F(IndexInHostLog, a_transaction_that_is_written_out_once_more_logs_nothing_more) {
  live_with_host([&](Session &s) {
    ls_rel *table = s.open(kTable);
    LS_ASSERT_OK(s.begin());
    u64 id;
    LS_ASSERT_OK(s.insert(table, "row", &id));
    pump_.reset();
    u64 end = 0, again = 0;
    LS_ASSERT_OK(ls_txn_write_out(s.worker(), s.xid(), &end, &err));
    EXPECT_GT(end, 0u);
    const u64 records = host_log_.size();
    LS_ASSERT_OK(ls_txn_write_out(s.worker(), s.xid(), &again, &err));
    EXPECT_EQ(again, end);
    EXPECT_EQ(host_log_.size(), records);
    s.commit_unhardened();
  });
}

TEST_F(IndexInHostLog, nothing_is_written_out_for_a_transaction_that_has_logged_nothing) {
  live_with_host([&](Session &s) {
    build(s);
    u64 end;
    LS_ASSERT_OK(ls_txn_write_out(s.worker(), 0, &end, &err));
    pump_.reset();
    const u64 records = host_log_.size();
    LS_ASSERT_OK(s.begin());
    LS_ASSERT_OK(ls_txn_write_out(s.worker(), s.xid(), &end, &err));
    EXPECT_EQ(end, 0u);
    EXPECT_EQ(host_log_.size(), records);
    s.commit_unhardened();
  });
}

}  // namespace
}  // namespace ls::test
