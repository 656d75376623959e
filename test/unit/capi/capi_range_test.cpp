// Range locks through the C API: bounds, owners, statuses.
#include "unit/store/store_fixture.hpp"

namespace ls::test {
namespace {

ls_bytes text(const char *s) {
  return {reinterpret_cast<const u8 *>(s), static_cast<u32>(std::strlen(s))};
}

TEST(CapiRange, locks_waits_and_releases) {
  TempDirectory temp;
  HostDirectory directory(temp.path());
  StoreLife store(small_config(temp.path()));
  ls_error err{};
  LS_ASSERT_OK(store.recover(10));
  ls_worker *a = nullptr, *b = nullptr;
  LS_ASSERT_OK(ls_worker_attach(store.store(), 0, &a, &err));
  LS_ASSERT_OK(ls_worker_attach(store.store(), 1, &b, &err));
  const ls_rel_key table = relation_key(16600), other = relation_key(16601);
  const ls_range_owner of_a{0, 7}, of_b{1, 3};
  ls_range_owner holder{};
  const ls_bytes end{nullptr, 0};

  LS_EXPECT_OK(ls_range_lock(a, &table, text(""), end, LS_RANGE_SHARED, of_a, &holder, &err));
  LS_EXPECT_OK(
      ls_range_lock(b, &table, text("k"), text("p"), LS_RANGE_SHARED, of_b, &holder, &err));
  LS_EXPECT_OK(
      ls_range_lock(b, &other, text("k"), text("p"), LS_RANGE_EXCLUSIVE, of_b, &holder, &err));
  EXPECT_EQ(ls_range_lock(b, &table, text("m"), text("n"), LS_RANGE_EXCLUSIVE, of_b, &holder, &err),
            LS_LOCKED);
  EXPECT_EQ(holder.slot, 0u);
  EXPECT_EQ(holder.number, 7u);

  ls_range_info info[8];
  ASSERT_EQ(ls_range_list(store.store(), info, 8), 4u);
  u32 granted = 0, to_end = 0;
  for (u32 i = 0; i < 4; i++) granted += info[i].granted, to_end += info[i].to_end;
  EXPECT_EQ(granted, 3u);
  EXPECT_EQ(to_end, 1u);
  EXPECT_EQ(ls_range_list(store.store(), nullptr, 0), 4u);

  ls_range_withdraw(b);
  EXPECT_EQ(ls_range_list(store.store(), info, 8), 3u);
  EXPECT_EQ(ls_range_lock(b, &table, text("m"), text("n"), LS_RANGE_EXCLUSIVE, of_b, &holder, &err),
            LS_LOCKED);
  ls_range_unlock_all(a, of_a);
  LS_EXPECT_OK(
      ls_range_lock(b, &table, text("m"), text("n"), LS_RANGE_EXCLUSIVE, of_b, &holder, &err));
  ls_range_unlock_all(a, of_b);
  EXPECT_EQ(ls_range_list(store.store(), info, 8), 0u) << "by whichever worker";

  EXPECT_EQ(ls_range_lock(b, &table, text("m"), end, LS_RANGE_SHARED, {999, 1}, &holder, &err),
            LS_INVALID);
  EXPECT_EQ(ls_range_lock(b, &table, text("m"), end, LS_RANGE_SHARED, {1, 0}, &holder, &err),
            LS_INVALID);
  ls_worker_detach(a);
  ls_worker_detach(b);
}

}  // namespace
}  // namespace ls::test
