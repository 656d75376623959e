// crash_after.hpp - a life of a store that ends by dying, in a child, and what it does meanwhile.
#pragma once
#include "unit/recovery/child_process.hpp"
#include "unit/store/store_fixture.hpp"

namespace ls::test {

// Start, do something, die.  True when nothing failed before.
inline bool crash_after(const ls_config &config, u64 next_xid,
                        const std::function<void(StoreLife &, Host &)> &work,
                        const StoreLife::Decide &decide = {}) {
  return in_child([&] {
    ls_error err{};
    StoreLife store(config);
    LS_ASSERT_OK(store.recover(next_xid, decide));
    Host host(store.store(), next_xid);
    work(store, host);
    if (::testing::Test::HasFailure()) _exit(3);
    die_at_once();   // before the store would be shut down
  });
}

// The last thing in `work` where a session has a transaction open: that would be rolled back on the
// way out, and may come to the log before the death.
inline void crash_now() {
  if (::testing::Test::HasFailure()) _exit(3);
  die_at_once();
}

inline u64 insert_row(Session &s, ls_rel *rel, const std::string &text) {
  u64 id = 0;
  EXPECT_EQ(s.insert(rel, text, &id), LS_OK) << s.err.message;
  return id;
}

inline void commit_row(Session &s, ls_rel *rel, const std::string &text = "row") {
  EXPECT_EQ(s.begin(), LS_OK) << s.err.message;
  insert_row(s, rel, text);
  s.commit();
}

}  // namespace ls::test
