// Rollback restores bytes exactly, to any savepoint, in tables that do not fit the pool.
#include <random>

#include "buffer/page_allocator.hpp"
#include "unit/txn/txn_fixture.hpp"

namespace ls::txn_test {
namespace {

// Values of all rows, but for the lock bits (generation, LOCKED).
std::map<u64, std::string> raw_rows(Engine &engine, FileSlot &file) {
  struct Out { std::map<u64, std::string> rows; } out;
  BTree tree(engine.own().ctx, file);
  BTree::CheckResult result{};
  // Leaves are copied one by one.
  alignas(8) u8 leaf[kPageSize];
  u8 from[kMaxKeyBytes];
  u32 from_bytes = 0;
  for (bool more = true; more;) {
    TXN_EXPECT_OK(tree.leaf_copy(Bytes(from, from_bytes), leaf));
    const Node *node = reinterpret_cast<const Node *>(leaf);
    for (u16 i = 0; i < node->count; i++) {
      u8 key[kMaxKeyBytes];
      node->copy_key(i, key);
      const Bytes v = node->value(i);
      RowHeader h = RowHeader::load(v.data());
      h = RowHeader::make(h.tn(), h.flags() & ~LS_ROW_LOCKED, 0, h.cid, h.seq);
      std::string value(reinterpret_cast<const char *>(&h), sizeof h);
      value.append(reinterpret_cast<const char *>(v.data()) + sizeof h, v.size() - sizeof h);
      out.rows[decode_row_key(key)] = value;
    }
    more = node->has_upper;
    from_bytes = static_cast<u32>(node->upper_fence().size());
    if (from_bytes > 0) std::memcpy(from, node->upper_fence().data(), from_bytes);
  }
  (void)result;
  return out.rows;
}

TEST(Rollback, restores_bytes_exactly) {
  Engine engine;
  Host host(engine);
  FileSlot &table = *engine.open("table");
  Session a(engine, host, 0);
  a.begin();
  for (u64 i = 1; i <= 100; i++)
    TXN_ASSERT_OK(a.insert(table, i, std::string(i * 7 % 300, 'a') + std::to_string(i)));
  a.commit();
  a.begin();
  for (u64 i = 1; i <= 100; i += 5) TXN_ASSERT_OK(a.update(table, i, "second"));
  a.commit();
  std::mt19937_64 rng(7);
  for (int round = 0; round < 20; round++) {
    a.begin();
    std::vector<std::pair<u32, std::map<u64, std::string>>> savepoints;
    u64 next_id = 1000;
    for (int i = 0; i < 120; i++) {
      if (i % 30 == 0) savepoints.emplace_back(txn_savepoint(a.worker()), raw_rows(engine, table));
      const u64 row = 1 + rng() % 100;
      const std::string data(rng() % 1500, static_cast<char>('a' + rng() % 26));
      switch (rng() % 5) {
        case 0: {
          const Status s = a.remove(table, row, rng() % 2 ? row + 5000 : 0);
          ASSERT_TRUE(ok(s) || code(s) == LS_INVISIBLE) << code(s);
          break;
        }
        case 1:
          TXN_ASSERT_OK(a.insert(table, next_id += rng() % 2 + 1, data));
          break;
        case 2: {
          const Status s = a.lock(table, row, static_cast<ls_lock_mode>(rng() % 4));
          ASSERT_TRUE(ok(s) || code(s) == LS_INVISIBLE) << code(s);
          break;
        }
        default: {
          const Status s = a.update(table, row, data);
          ASSERT_TRUE(ok(s) || code(s) == LS_INVISIBLE) << code(s);
        }
      }
    }
    while (savepoints.size() > 1) {
      if (rng() % 2) {
        txn_rollback_to(a.worker(), savepoints.back().first);
        ASSERT_EQ(raw_rows(engine, table), savepoints.back().second) << "round " << round;
      }
      savepoints.pop_back();
    }
    a.abort();
    ASSERT_EQ(raw_rows(engine, table), savepoints.front().second) << "round " << round;
    engine.verify(table);
  }
}

TEST(Rollback, pool_much_smaller_than_the_transaction) {
  Engine engine({.frames = 128});
  Host host(engine);
  FileSlot &table = *engine.open("table");
  Session a(engine, host, 0), b(engine, host, 1);
  constexpr u64 kRows = 600;
  a.begin();
  for (u64 i = 1; i <= kRows; i++)
    TXN_ASSERT_OK(a.insert(table, i, std::string(1000, 'a') + std::to_string(i)));
  a.commit();
  const auto before = b.contents(table);
  a.begin();
  for (u64 i = 1; i <= kRows; i++)
    TXN_ASSERT_OK(a.update(table, i, std::string(1100, 'b') + std::to_string(i)));
  EXPECT_EQ(b.contents(table), before)
      << "older versions are read back from the version store's files";
  EXPECT_GT(engine.pool().stats().evictions, 100u) << "otherwise this test proves nothing";
  a.abort();
  EXPECT_EQ(b.contents(table), before);
  engine.verify(table);
}

// TXN-2
TEST(Rollback, undo_entries_are_gone_and_seq_goes_on) {
  Engine engine;
  Host host(engine);
  FileSlot &table = *engine.open("table");
  Session a(engine, host, 0);
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "one"));
  a.commit();
  a.begin();
  const u32 savepoint = txn_savepoint(a.worker());
  TXN_ASSERT_OK(a.update(table, 1, "two"));
  const u32 used = a.worker().next_seq;
  txn_rollback_to(a.worker(), savepoint);
  EXPECT_EQ(a.worker().next_seq, used);
  alignas(8) u8 out[kPageSize];
  const VersionEntry *entry;
  EXPECT_EQ(code(version_store(a.worker(), a.tn()).get({a.tn(), savepoint}, out, &entry)),
            LS_NOT_FOUND);
  TXN_ASSERT_OK(a.update(table, 1, "three"));
  TXN_EXPECT_OK(version_store(a.worker(), a.tn()).get({a.tn(), used}, out, &entry));
  a.commit();
  EXPECT_EQ(a.read(table, 1), "three");
}

u32 page_count(Engine &engine, FileSlot &file) {
  SharedGuard guard = SharedGuard::lock(engine.pool(), file.meta.load());
  return reinterpret_cast<const MetaPage *>(guard.page())->page_count;
}

TEST(Rollback, goes_on_in_a_file_that_takes_no_more_pages) {
  Engine engine;
  Host host(engine);
  FileSlot &table = *engine.open("table");
  Session a(engine, host, 0), b(engine, host, 1);
  const std::string first(1000, 'a');
  a.begin();
  for (u64 i = 1; i <= 20; i++) TXN_ASSERT_OK(a.insert(table, i * 100, first));
  a.commit();
  a.begin();
  for (u64 i = 1; i <= 20; i++) TXN_ASSERT_OK(a.update(table, i * 100, "short"));
  const u32 most = page_count(engine, table);
  most_pages.store(most);
  // What the updates have left free is taken by others.
  b.begin();
  for (u64 i = 1; i <= 20; i++) {
    Status status = kOk;
    for (u64 id = i * 100 + 1; ok(status); id++) {
      status = b.insert(table, id, std::string(150, 'b'));
    }
    ASSERT_EQ(code(status), LS_NO_PAGES) << last_error().message;
  }
  b.commit();
  EXPECT_LE(page_count(engine, table), most);
  a.abort();
  EXPECT_GT(page_count(engine, table), most);
  most_pages.store(kMostPages);
  for (u64 i = 1; i <= 20; i++) EXPECT_EQ(b.read(table, i * 100), first);
  engine.verify(table);
}

}  // namespace
}  // namespace ls::txn_test
