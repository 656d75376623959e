// The version store: overwriting, ranges of a transaction taken back, bounds between transactions.
#include "version/version_store.hpp"

#include "unit/txn/txn_fixture.hpp"

namespace ls::txn_test {
namespace {

class VersionStoreTest : public ::testing::Test {
 protected:
  Engine engine;
  VersionStore store{version_store(engine.own(), 2)};

  void put(Tn tn, u32 seq, const std::string &payload) {
    VersionEntry entry{};
    entry.op = VersionOp::kUpdate;
    entry.row_id = seq;
    entry.payload_bytes = static_cast<u32>(payload.size());
    TXN_EXPECT_OK(store.put({tn, seq}, entry, bytes_of(payload)));
  }
  std::string get(Tn tn, u32 seq) {
    alignas(8) u8 out[kPageSize];
    const VersionEntry *entry = nullptr;
    const Status s = store.get({tn, seq}, out, &entry);
    if (code(s) == LS_NOT_FOUND) return "-";
    EXPECT_TRUE(ok(s)) << last_error().message;
    return std::string(reinterpret_cast<const char *>(out) + sizeof *entry, entry->payload_bytes);
  }
  std::vector<u32> take_back(Tn tn, u32 from, u32 before) {
    std::vector<u32> seqs;
    alignas(8) u8 leaf[kPageSize];
    TXN_EXPECT_OK(store.take_back(tn, from, before, leaf, &seqs,
                                  [](void *arg, u32 seq, const VersionEntry &entry, Bytes) {
                                    EXPECT_EQ(entry.row_id, seq);
                                    static_cast<std::vector<u32> *>(arg)->push_back(seq);
                                    return kOk;
                                  }));
    return seqs;
  }
};

// Small transactions: a reader that looks for their entries mostly comes to the leaf at once.
TEST_F(VersionStoreTest, the_leaf_of_an_entry_is_remembered) {
  constexpr Tn kTransactions = 1500;
  u32 right = 0, all = 0;
  std::vector<VersionLocator> entries;
  for (Tn tn = 2; tn < 2 + kTransactions; tn++) {
    VersionStore own = version_store(engine.own(), tn);
    for (u32 seq = 1; seq <= 3; seq++) {
      VersionEntry entry{};
      entry.op = VersionOp::kUpdate;
      TXN_ASSERT_OK(own.put({tn, seq}, entry, {}));
      entries.push_back({tn, seq});
    }
  }
  for (const VersionLocator &at : entries) {
    VersionStore own = version_store(engine.own(), at.tn);
    BTree::PageStamp seen;
    TXN_ASSERT_OK(own.tree().read_leaf(
        VersionKey(at.tn, at.seq), BTree::Aim::kAt, [](const Node &) {}, &seen));
    right += own.guess(at) == seen.frame;
    all++;
  }
  EXPECT_GT(right, all * 8 / 10);
}

// VER-4
TEST_F(VersionStoreTest, a_run_stands_for_its_entries) {
  constexpr u32 kFirst = 3 * kVersionRun;
  put(2, kFirst - 1, "before");
  VersionEntry run{};
  run.op = VersionOp::kDelete;
  run.run = 40;
  run.row_id = kFirst;
  TXN_ASSERT_OK(store.put({2, kFirst}, run, {}));
  put(2, kFirst + kVersionRun, "behind");
  alignas(8) u8 out[kPageSize];
  const VersionEntry *entry = nullptr;
  for (u32 i = 0; i < run.run; i++) {
    TXN_ASSERT_OK(store.get({2, kFirst + i}, out, &entry));
    EXPECT_EQ(entry->row_id, kFirst + i);
    EXPECT_EQ(entry->op, VersionOp::kDelete);
  }
  for (u32 seq : {kFirst + 40, kFirst + kVersionRun + 1, kFirst - 2})
    EXPECT_EQ(get(2, seq), "-") << seq;
  EXPECT_EQ(get(4, kFirst + 1), "-") << "another transaction's";
  std::vector<u32> all;
  TXN_ASSERT_OK(store.for_each(2, &all, [](void *arg, u32 seq, const VersionEntry &e, Bytes) {
    EXPECT_EQ(e.row_id, seq);
    static_cast<std::vector<u32> *>(arg)->push_back(seq);
    return kOk;
  }));
  ASSERT_EQ(all.size(), 42u);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  std::vector<u32> back = take_back(2, kFirst, ~u32{0});
  std::reverse(back.begin(), back.end());
  all.erase(all.begin());
  EXPECT_EQ(back, all);
  EXPECT_EQ(get(2, kFirst + 3), "-");
  EXPECT_EQ(get(2, kFirst - 1), "before");
}

TEST_F(VersionStoreTest, keys_sort_by_transaction_and_sequence) {
  std::string last;
  for (Tn tn : {Tn{0}, Tn{255}, Tn{256}, Tn{1} << 40, (Tn{1} << 48) - 1}) {
    for (u32 seq : {0u, 1u, 127u, 128u, 129u, 383u, 384u, 0x407fu, 0x4080u, 0x4081u, 0x10000u,
                    0x1000000u, UINT32_MAX}) {
      const VersionKey key(tn, seq);
      const std::string bytes(key.bytes, key.bytes + key.length);
      if (!last.empty()) {
        EXPECT_LT(last, bytes) << tn << " " << seq;
      }
      last = bytes;
      VersionLocator at;
      ASSERT_TRUE(decode_version_key(key, &at));
      EXPECT_EQ(at.tn, tn);
      EXPECT_EQ(at.seq, seq);
    }
  }
}

TEST_F(VersionStoreTest, damaged_keys_are_refused) {
  const VersionKey good(1000, 1);
  VersionLocator at;
  for (u8 first : {0x80, 0xbf, 0xc0, 0xc1, 0xff}) {
    for (size_t bytes = 0; bytes <= 12; bytes++) {
      std::vector<u8> key(good.bytes, good.bytes + kVersionTnBytes);
      key.resize(kVersionTnBytes + 13);
      key[kVersionTnBytes] = first;
      const size_t right = first < 0x80 ? 1 : first < 0xc0 ? 2 : first == 0xc0 ? 5 : 99;
      EXPECT_EQ(decode_version_key(Bytes(key.data(), kVersionTnBytes + bytes), &at),
                bytes == right);
    }
  }
  EXPECT_FALSE(decode_version_key(Bytes(), &at));
}

TEST_F(VersionStoreTest, overwrites_also_the_largest_entries) {
  const std::string large(LS_MAX_ROW_BYTES, 'l');
  put(10, 1, large);
  put(10, 1, std::string(LS_MAX_ROW_BYTES, 'm'));
  put(10, 2, large);
  put(10, 1, "small");
  put(10, 1, large);
  EXPECT_EQ(get(10, 1), large);
  EXPECT_EQ(get(10, 2), large);
  EXPECT_EQ(get(10, 3), "-");
}

TEST_F(VersionStoreTest, takes_back_exactly_the_range_newest_first) {
  constexpr u32 kN = 1000;
  for (u32 seq = 1; seq <= kN; seq++) {
    for (const Tn tn : {10, 12, 14}) put(tn, seq, std::string(seq % 100, 'x'));
  }
  const auto seqs = take_back(12, 400, kN + 1);
  ASSERT_EQ(seqs.size(), kN - 399);
  EXPECT_TRUE(std::is_sorted(seqs.rbegin(), seqs.rend()));
  EXPECT_EQ(seqs.front(), kN);
  EXPECT_EQ(seqs.back(), 400u);
  EXPECT_EQ(get(12, 400), "-");
  EXPECT_EQ(get(12, kN), "-");
  EXPECT_EQ(get(12, 399), std::string(99, 'x'));
  EXPECT_EQ(get(10, kN), "");
  EXPECT_EQ(get(14, 1), "x");
  EXPECT_TRUE(take_back(12, 400, kN + 1).empty());
  EXPECT_EQ(take_back(12, 0, kN + 1).size(), 399u);
  EXPECT_EQ(take_back(16, 0, kN + 1).size(), 0u);
  EXPECT_EQ(take_back(8, 0, kN + 1).size(), 0u) << "before everything";
  EXPECT_EQ(engine.verify(store.tree().file()), 2u * kN);
}

TEST_F(VersionStoreTest, gaps_left_by_emptied_leaves_do_not_end_the_walk) {
  for (u32 seq = 1; seq <= 300; seq++) put(10, seq, std::string(500, 'x'));
  EXPECT_EQ(take_back(10, 100, 200).size(), 100u);
  EXPECT_EQ(take_back(10, 0, 301).size(), 200u);
  EXPECT_EQ(engine.verify(store.tree().file()), 0u);
}

TEST_F(VersionStoreTest, damaged_values_are_recognised) {
  VersionEntry entry{};
  Bytes payload;
  u8 value[sizeof(VersionEntry) + 4] = {};
  EXPECT_FALSE(parse_version(Bytes(value, 10), &entry, &payload));
  EXPECT_FALSE(parse_version(Bytes(value, sizeof value), &entry, &payload)) << "no operation";
  entry.op = VersionOp::kUpdate;
  entry.payload_bytes = 4;
  std::memcpy(value, &entry, sizeof entry);
  EXPECT_TRUE(parse_version(Bytes(value, sizeof value), &entry, &payload));
  EXPECT_EQ(payload.size(), 4u);
  EXPECT_FALSE(parse_version(Bytes(value, sizeof value - 1), &entry, &payload));
}

// VER-3
TEST_F(VersionStoreTest, chain_ends_where_everybody_sees_the_version) {
  const RowHeader with = RowHeader::make(50, LS_ROW_HAS_PREV, 0, 0, 3);
  EXPECT_EQ(older_needed(with, 50).tn, 50u);
  EXPECT_EQ(older_needed(with, 50).seq, 3u);
  EXPECT_FALSE(older_needed(with, 51));
  EXPECT_FALSE(older_needed(RowHeader::make(50, 0, 0, 0, 3), 50));
}

}  // namespace
}  // namespace ls::txn_test
