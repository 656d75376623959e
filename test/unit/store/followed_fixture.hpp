// followed_fixture.hpp - a copy of a store that follows the original's log round by round.
#pragma once
#include "leanstore/standby.h"
#include "store/standby_follow.hpp"
#include "unit/recovery/restore_fixture.hpp"

namespace ls::test {

using Rows = std::map<u64, std::string>;

class FollowedFiles : public RestoreTest {
 protected:
  using Work = std::function<void(StoreLife &, Host &)>;
  // The original works a little, a copy is made of it, and it goes on.
  void live_and_copy(const Work &then) {
    live_and_copy([&](StoreLife &store, Host &host) {
      ImageClient(store, host, 0, GetParam()).work(20);
    }, [] {}, then);
  }
  void live_and_copy(const Work &first, const std::function<void()> &copy_more, const Work &then) {
    live(kImageXid, false, [&](StoreLife &store, Host &host) {
      std::thread([&] {
        host_log_.use();
        first(store, host);
      }).join();
      take_state(store);
      copy(store);
      copy_more();
      copied_tn_ = host.next_xid() + ls_store_tn_offset(store.store());
      copied_at_ = host_log_.size();
      std::thread([&] {
        host_log_.use();
        then(store, host);
      }).join();
      next_tn_ = host.next_xid() + ls_store_tn_offset(store.store());
    });
  }

  // ---- the standby

  // more: so many rounds are replayed while it begins.
  void begin(StoreLife &store, u64 more_rounds = 0) { begin(store, copied_at_, more_rounds); }
  // from: it begins when the host's log is replayed so far, or a little further.
  void begin(StoreLife &store, u64 from, u64 more_rounds) {
    LS_ASSERT_OK(ls_restore_forget(store.store(), &err));
    ls_relay_replay_begin(store.store(), true);
    for (at_ = redo_; at_ < std::max({from, copied_at_, state_at_ + 1}); at_++) {
      if (at_ == state_at_)
        LS_ASSERT_OK(ls_relay_replay_state(store.store(), state_.data(), state_.size(), &err));
      add(store.store(), at_);
    }
    const u64 position = ls_relay_replay_position(store.store());
    LS_ASSERT_OK(ls_follow_begin(store.store(), position, &err));
    for (u64 n = 0; n < more_rounds && more(); n++) add(store.store(), at_++);
    ls_status status;
    while ((status = ls_follow_join(store.store(), &err)) == LS_LIMIT) {
      limits_++;
      ls_follow_cover(store.store(), ls_follow_reached(store.store()));
    }
    LS_ASSERT_OK(status);
  }

  // One round of the host's log.  Conflicts are those of snapshots that there are not.
  void follow(ls_store *store, bool cover = true) {
    LS_ASSERT_OK(redo_round(store));
    if (cover) ls_follow_cover(store, ls_follow_reached(store));
  }
  ls_status redo_round(ls_store *store) {
    add(store, at_);
    const MemoryHost::Record &record = host_log_.log()[at_++];
    if (record.prepared.full_xid != 0) return LS_OK;
    ls_follow follow{record.bytes.data(), record.bytes.size(), 0, false, 0, 0, 0, 0};
    ls_status status;
    while ((status = ls_follow_apply(store, &follow, &err)) == LS_CONFLICT || status == LS_LIMIT) {
      conflicts_ += status == LS_CONFLICT && follow.conflict != 0;
      if (status == LS_CONFLICT) newest_conflict_ = std::max(newest_conflict_, follow.conflict);
      limits_ += status == LS_LIMIT;
      if (status == LS_LIMIT) ls_follow_cover(store, follow.reached);
      follow = {nullptr, 0, status == LS_CONFLICT ? follow.conflict : 0, false, 0, 0, 0, 0};
    }
    return status;
  }
  bool more() const { return at_ < host_log_.log().size() && !HasFailure(); }

  // Sees all transactions before.
  static ls_snapshot snapshot_at(u64 tn) {
    ls_snapshot s{};
    s.kind = LS_SNAPSHOT_MVCC;
    s.xmin = s.xmax = tn;
    s.curcid = ~0u;
    return s;
  }
  ls_snapshot snapshot() const { return snapshot_at(next_tn_); }

  ls_status open(ls_worker *worker, u32 relation, ls_rel_kind kind, ls_rel *rel) {
    const ls_rel_key key = relation_key(relation);
    const std::string path = HostDirectory::relation_path(relation);
    ls_error error{};
    return ls_rel_open(worker, &key, path.c_str(), kind, true, rel, &error);
  }

  using RestoreTest::contents;
  Rows contents(ls_worker *worker, ls_rel *rel) { return contents(worker, rel, snapshot()); }

  u64 entries(ls_worker *worker, ls_rel *index) {
    ls_index_scan *scan = nullptr;
    ls_error error{};
    EXPECT_EQ(ls_index_scan_open(worker, index, &scan, &error), LS_OK) << error.message;
    if (!scan) return 0;
    ls_status status = ls_index_scan_range(scan, {nullptr, 0}, {nullptr, 0}, false, &error);
    u64 found = 0;
    ls_index_entry entry;
    while (status == LS_OK) {
      status = ls_index_scan_next(scan, &entry, &error);
      found += status == LS_OK;
    }
    EXPECT_EQ(status, LS_END) << to_text(status, error);
    ls_index_scan_close(scan);
    return found;
  }

  void expect_nothing_in(ls_worker *worker, ls_rel *rel, ls_rel_kind kind) {
    ls_rel_info info{};
    LS_EXPECT_OK(ls_rel_get_info(worker, rel, &info, &err));
    EXPECT_EQ(info.height, 1u);
    ls_check_result check{};
    LS_EXPECT_OK(ls_rel_check(worker, rel, &check, &err));
    EXPECT_EQ(check.rows + check.ghosts, 0u);
    EXPECT_TRUE(ls_rel_is_open(rel));
    if (kind == LS_REL_INDEX) {
      EXPECT_EQ(entries(worker, rel), 0u);
      return;
    }
    EXPECT_TRUE(contents(worker, rel).empty());
    alignas(8) u8 buffer[LS_ROW_BUFFER_BYTES];
    ls_row row{};
    const ls_snapshot now = snapshot();
    EXPECT_EQ(ls_row_fetch(worker, rel, 1, &now, buffer, &row, nullptr, &err), LS_NOT_FOUND);
    if (kind != LS_REL_VALUES) return;
    u8 byte;
    const ls_value_slice first{1, 1, 0, 1};
    EXPECT_EQ(ls_value_read(worker, rel, &first, &byte, &err), LS_NOT_FOUND);
  }

  u64 copied_at_ = 0, copied_tn_ = 0, next_tn_ = 0;
  u64 conflicts_ = 0, limits_ = 0;
  u64 newest_conflict_ = 0;
  u64 at_ = 0;   // of the host's log, what comes next
};

}  // namespace ls::test
