// tree_test.cpp - one worker and one tree: what goes in comes out, in order, whatever splits,
// merges, evictions and restarts come between.
#include "btree/tree.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <string>

#include "unit/btree/tree_helpers.hpp"
#include "unit/engine_fixture.hpp"

namespace ls {
namespace {

using test::EngineFixture;
using test::int_key;
using test::TreeUser;

TEST(Tree, new_tree_is_an_empty_leaf) {
  EngineFixture engine;
  EngineFixture::Worker worker(engine, 0);
  BTree tree(worker.ctx, *engine.open(worker.ctx, 1, true));
  BTree::CheckResult result;
  ASSERT_EQ(code(tree.verify(&result, nullptr, nullptr)), LS_OK) << last_error().message;
  EXPECT_EQ(result.pages, 2u);
  EXPECT_EQ(result.leaf_pages, 1u);
  EXPECT_EQ(result.entries, 0u);
  u8 out[8];
  u32 bytes;
  EXPECT_EQ(code(tree.lookup(test::as_bytes("x"), out, 8, &bytes)), LS_NOT_FOUND);
}

TEST(Tree, ascending_keys_fill_their_pages) {
  EngineFixture engine({.pool_bytes = u64{8} << 20});
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, true));
  std::string value(100, 'v');
  constexpr u64 kCount = 5000;
  for (u64 i = 0; i < kCount; i++) ASSERT_TRUE(user.insert(test::int_key(i), value));
  BTree::CheckResult result;
  ASSERT_TRUE(user.verify(&result));
  EXPECT_EQ(result.entries, kCount);
  // 110 to 114 bytes an entry: 34 in a page
  EXPECT_LT(result.leaf_pages, kCount / 33);
  EXPECT_GT(result.inner_pages, 0u);
}

// Sessions with row ids of their own, orders of many districts: each run goes on in the middle of
// the tree, a few keys at a time.
TEST(Tree, ascending_runs_beside_each_other_fill_their_pages) {
  EngineFixture engine({.pool_bytes = u64{16} << 20});
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, true));
  constexpr u64 kRuns = 40, kCount = 40000;
  const std::string value(40, 'v');
  std::mt19937_64 random(5);
  u64 next[kRuns]{};
  for (u64 count = 0; count < kCount;) {
    const u64 run = random() % kRuns;
    for (u64 n = 1 + random() % 12; n > 0; n--, count++)
      ASSERT_TRUE(user.insert(int_key(run << 32 | next[run]++), value));
  }
  BTree::CheckResult result;
  ASSERT_TRUE(user.verify(&result));
  // 51 to 55 bytes an entry: at least 72 in a full page; and where two runs meet, a page that is
  // not.
  EXPECT_LT(result.leaf_pages, kCount / 72 * 21 / 20 + kRuns);
}

// Keys that happen to follow one another are no run.
TEST(Tree, random_keys_leave_two_thirds_full_pages) {
  EngineFixture engine({.pool_bytes = u64{16} << 20});
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, true));
  const std::string value(40, 'v');
  std::mt19937_64 random(6);
  constexpr u64 kCount = 40000;
  for (u64 i = 0; i < kCount; i++) ASSERT_TRUE(user.insert(int_key(random()), value));
  BTree::CheckResult result;
  ASSERT_TRUE(user.verify(&result));
  EXPECT_LT(result.leaf_pages, kCount / (72 * 2 / 3));
}

TEST(Tree, look_ups_near_the_last_one_notice_what_has_changed) {
  EngineFixture engine({.pool_bytes = u64{8} << 20});
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, true));
  test::Model model;
  std::mt19937_64 random(3);
  BTree::LeafFinger last;
  for (u64 step = 0; step < 20000; step++) {
    const u64 number = step / 40 % 100 * 50 + random() % 60;  // stays around, then moves on
    const std::string key = int_key(number);
    const std::string value(random() % 200, static_cast<char>('a' + step % 26));
    if (random() % 3 == 0) {
      ASSERT_TRUE(user.upsert(key, value));
      model[key] = value;
    } else if (random() % 8 == 0 && model.erase(key)) {
      ASSERT_TRUE(user.remove(key));
    }
    u8 out[kPageSize];
    u32 bytes;
    const Status s = user.tree.lookup_near(test::as_bytes(key), &last, out, sizeof out, &bytes);
    const auto it = model.find(key);
    ASSERT_EQ(code(s), it == model.end() ? LS_NOT_FOUND : LS_OK);
    if (it != model.end()) {
      ASSERT_EQ(std::string(out, out + bytes), it->second);
    }
  }
}

// Whatever frame is guessed, of this tree or another, in use or not, the leaf is the one of the
// key.
TEST(Tree, a_guessed_leaf_is_taken_only_if_it_is_the_right_one) {
  EngineFixture engine({.pool_bytes = u64{4} << 20});
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, true)),
      other(worker.ctx, *engine.open(worker.ctx, 2, true));
  const std::string value(100, 'v');
  for (u64 i = 0; i < 10'000; i++) {
    ASSERT_TRUE(user.insert(test::int_key(i), value));
    ASSERT_TRUE(other.insert(test::int_key(i), value));
  }
  std::mt19937_64 random(5);
  BufferPool &pool = *worker.ctx.pool;
  u32 right = 0;
  Frame *last = nullptr;
  for (u32 i = 0; i < 20'000; i++) {
    const u64 number = random() % 10'000;
    Frame *guess = i % 2 ? last : pool.frame(static_cast<u32>(random() % pool.frame_count()));
    for (const u64 key : {number, number + 1}) {
      ExclusiveGuard leaf;
      ASSERT_EQ(code(user.tree.leaf_exclusive(test::as_bytes(test::int_key(key)), 0, leaf, guess)),
                LS_OK);
      const Node *node = reinterpret_cast<const Node *>(leaf.page());
      ASSERT_EQ(leaf.frame()->file_no.load(), user.tree.file().file_no.load());
      ASSERT_TRUE(node->is_leaf && node->covers(test::as_bytes(test::int_key(key))));
      right += leaf.frame() == guess;
      guess = last = leaf.frame();
      leaf.reset_unchanged();
    }
  }
  EXPECT_GT(right, 15'000u) << "neighbours mostly share a leaf";
}

// Index scans go from row to row: the entry beside the last one is looked at first.
TEST(Tree, look_ups_that_go_from_neighbour_to_neighbour) {
  EngineFixture engine({.pool_bytes = u64{8} << 20});
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, true));
  constexpr u64 kCount = 3000;
  for (u64 i = 0; i < kCount; i++) ASSERT_TRUE(user.insert(int_key(2 * i), std::to_string(i)));
  BTree::LeafFinger last;
  auto look = [&](const std::string &key) {
    u8 out[kPageSize];
    u32 bytes;
    const Status s = user.tree.lookup_near(test::as_bytes(key), &last, out, sizeof out, &bytes);
    EXPECT_TRUE(ok(s) || code(s) == LS_NOT_FOUND);
    return ok(s) ? std::string(out, out + bytes) : "-";
  };
  for (u64 i = 0; i < kCount; i++) {
    ASSERT_EQ(look(int_key(2 * i)), std::to_string(i));
    if (i % 7 == 0) {
      ASSERT_EQ(look(int_key(2 * i + 1)), "-");
    }
    // Behind the leaf's prefix it looks like the neighbour.
    if (i % 5 == 0) {
      ASSERT_EQ(look(int_key((u64{1} << 56) + 2 * i + 2)), "-");
      ASSERT_EQ(look(int_key(2 * i)), std::to_string(i));
      ASSERT_EQ(look(int_key(2 * i + 2).substr(0, 7)), "-");
    }
  }
  for (u64 i = kCount; i-- > 0;) ASSERT_EQ(look(int_key(2 * i)), std::to_string(i));
}

TEST(Tree, entry_too_large_for_any_page_is_refused) {
  EngineFixture engine;
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, true));
  for (u64 i = 0; i < 10; i++) ASSERT_TRUE(user.insert(test::int_key(i), std::string(700, 'x')));
  ExclusiveGuard leaf;
  EXPECT_EQ(code(user.tree.leaf_exclusive(test::as_bytes(test::int_key(5)), kPageSize, leaf)),
            LS_TOO_LARGE);
  EXPECT_FALSE(leaf);
  std::string long_key(kMaxKeyBytes + 1, 'k');
  EXPECT_EQ(code(user.tree.leaf_exclusive(test::as_bytes(long_key), 0, leaf)), LS_TOO_LARGE);
  BTree::CheckResult result;
  ASSERT_TRUE(user.verify(&result));
  EXPECT_EQ(result.entries, 10u);
}

TEST(Tree, largest_rows_find_their_place) {
  EngineFixture engine;
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, true));
  std::string row(16 + LS_MAX_ROW_BYTES, 'r');
  for (u64 i = 0; i < 200; i++)
    ASSERT_TRUE(user.insert(test::int_key(i * 0x0101010101010101u), i % 3 ? row : "small"));
  BTree::CheckResult result;
  ASSERT_TRUE(user.verify(&result));
  EXPECT_EQ(result.entries, 200u);
  for (u64 i = 0; i < 200; i++)
    ASSERT_EQ(user.lookup(test::int_key(i * 0x0101010101010101u)), i % 3 ? row : "small");
}

TEST(Tree, walking_by_fences_meets_every_leaf_both_ways) {
  EngineFixture engine;
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, false));
  test::Model model;
  for (u64 i = 0; i < 2000; i++) {
    std::string key = test::int_key(i * 7919 % 100000);
    model[key] = "value" + std::to_string(i);
    ASSERT_TRUE(user.insert(key, model[key]));
  }
  EXPECT_TRUE(test::same(user.scan(), model));
  EXPECT_TRUE(test::same(user.scan_backward(), model));
  alignas(8) u8 page[kPageSize];
  EXPECT_EQ(code(user.tree.leaf_copy_before({}, false, page)), LS_END);
}

TEST(Tree, removing_everything_gives_the_pages_back) {
  for (bool logged : {true, false}) {
    EngineFixture engine;
    EngineFixture::Worker worker(engine, 0);
    TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, logged));
    constexpr u64 kCount = 6000;
    for (u64 i = 0; i < kCount; i++)
      ASSERT_TRUE(user.insert(test::int_key(i * 31 % kCount), std::string(120, 'v')));
    BTree::CheckResult full, empty;
    ASSERT_TRUE(user.verify(&full));
    ASSERT_GT(full.inner_pages, 1u) << "three levels are wanted";
    for (u64 i = 0; i < kCount; i++) ASSERT_TRUE(user.remove(test::int_key(i * 17 % kCount)));
    ASSERT_TRUE(user.verify(&empty));
    EXPECT_EQ(empty.entries, 0u);
    EXPECT_LE(empty.pages, 3u);
    EXPECT_GE(empty.free_pages, full.pages - 3);
    // and they are used again
    for (u64 i = 0; i < kCount; i++)
      ASSERT_TRUE(user.insert(test::int_key(i), std::string(120, 'w')));
    BTree::CheckResult again;
    ASSERT_TRUE(user.verify(&again));
    EXPECT_LE(again.pages + again.free_pages, full.pages + 3);
  }
}

// A root that a tree no longer needs refers to a child that has gone elsewhere, and the frame of
// that child may be another page when the old root is written: redo would read a damaged node.  And
// if the log did not have the change then, the old root would be the root after a crash.
TEST(Tree, a_page_given_back_is_written_as_a_free_one_behind_the_log) {
  EngineFixture engine({.page_providers = 0});
  EngineFixture::Worker worker(engine, 0);
  FileSlot *file = engine.open(worker.ctx, 1, true);
  TreeUser user(worker.ctx, *file);
  constexpr u64 kCount = 500;
  for (u64 i = 0; i < kCount; i++) ASSERT_TRUE(user.insert(int_key(i), std::string(120, 'v')));
  engine.flush(worker.ctx);
  alignas(kPageSize) u8 page[kPageSize];
  const auto header = reinterpret_cast<const PageHeader *>(page);
  const auto load = [&](PageNo page_no) {
    std::ifstream in(engine.directory() + "/" + EngineFixture::path_of(1), std::ios::binary);
    in.seekg(std::streamoff{page_no} * std::streamoff{kPageSize});
    in.read(reinterpret_cast<char *>(page), kPageSize);
  };
  load(kMetaPageNo);
  const PageNo root = Swip{reinterpret_cast<const MetaPage *>(page)->root}.page_no();
  load(root);
  ASSERT_EQ(header->kind, PageKind::kInner);
  const auto height = [&] {
    const ExclusiveGuard meta = ExclusiveGuard::lock(engine.pool(), file->meta.load());
    return reinterpret_cast<const MetaPage *>(meta.page())->height;
  };
  for (u64 i = 0; height() > 1; i++) ASSERT_TRUE(user.remove(int_key(i)));
  const Gsn freed = engine.log().last_gsn();
  engine.flush(worker.ctx);
  load(root);
  EXPECT_EQ(header->kind, PageKind::kFree);
  EXPECT_EQ(header->gsn, freed) << "it is written when the log is, up to there";
}

struct Seen {
  std::vector<std::string> keys;
  size_t stop_at = ~size_t{0};
};
bool see(void *arg, Bytes key, Bytes) {
  Seen *seen = static_cast<Seen *>(arg);
  if (seen->keys.size() == seen->stop_at) return false;
  seen->keys.push_back(test::as_string(key));
  return true;
}

TEST(Tree, remove_before_takes_exactly_what_is_below_the_bound) {
  EngineFixture engine;
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, false, LS_REL_VERSIONS));
  constexpr u64 kCount = 20000;
  for (u64 i = 0; i < kCount; i++) ASSERT_TRUE(user.insert(test::int_key(i), std::string(60, 'v')));
  BTree::CheckResult before;
  ASSERT_TRUE(user.verify(&before));
  u64 next = 0, removed = 0;
  for (u64 bound : {u64{1}, u64{10}, u64{700}, u64{701}, u64{9000}, u64{19990}, kCount, kCount}) {
    Seen seen;
    u64 count = 0;
    ASSERT_EQ(code(user.tree.remove_before(test::as_bytes(test::int_key(bound)), ~0u, &seen, see,
                                           &count)),
              LS_OK);
    removed += count;
    ASSERT_EQ(seen.keys.size(), count);
    for (const std::string &key : seen.keys) ASSERT_EQ(key, test::int_key(next++));
    ASSERT_EQ(next, bound);
    BTree::CheckResult result;
    ASSERT_TRUE(user.verify(&result));
    ASSERT_EQ(result.entries, kCount - bound);
    // as many leaves as the rest needs, and a few that could not be merged
    ASSERT_LE(result.leaf_pages, before.leaf_pages * (kCount - bound) / kCount + 4);
  }
  EXPECT_EQ(removed, kCount);
}

TEST(Tree, remove_before_stops_where_it_is_told_to) {
  EngineFixture engine;
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, false, LS_REL_VERSIONS));
  for (u64 i = 0; i < 3000; i++) ASSERT_TRUE(user.insert(test::int_key(i), std::string(60, 'v')));
  Seen seen;
  seen.stop_at = 100;
  u64 removed = 0;
  ASSERT_EQ(
      code(user.tree.remove_before(test::as_bytes(test::int_key(2000)), ~0u, &seen, see, &removed)),
      LS_OK);
  EXPECT_EQ(seen.keys.size(), 100u);
  EXPECT_LE(removed, 100u);
  EXPECT_EQ(user.scan().size(), 3000 - removed);
  removed = 0;
  seen = {};
  ASSERT_EQ(
      code(user.tree.remove_before(test::as_bytes(test::int_key(2000)), 2, &seen, see, &removed)),
      LS_OK);
  EXPECT_GT(removed, 0u);
  EXPECT_LT(removed, 200u);
}

TEST(Tree, pages_come_back_after_a_restart) {
  EngineFixture engine({.pool_bytes = 64 * kPageSize});
  test::Model model;
  for (int run = 0; run < 3; run++) {
    {
      EngineFixture::Worker worker(engine, 0);
      TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, true));
      ASSERT_TRUE(test::same(user.scan(), model));
      for (u64 i = 0; i < 1500; i++) {
        std::string key = test::int_key((i * 7919 + static_cast<u64>(run) * 331) % 50000);
        if (model.count(key)) {
          ASSERT_TRUE(user.remove(key));
          model.erase(key);
        } else {
          model[key] = std::string(20 + i % 200, static_cast<char>('a' + run));
          ASSERT_TRUE(user.insert(key, model[key]));
        }
      }
      BTree::CheckResult result;
      ASSERT_TRUE(user.verify(&result));
    }
    engine.stop();
    engine.restart();
  }
}

TEST(Tree, verify_reports_damage_with_its_page) {
  EngineFixture engine;
  EngineFixture::Worker worker(engine, 0);
  FileSlot *file = engine.open(worker.ctx, 1, true);
  TreeUser user(worker.ctx, *file);
  for (u64 i = 0; i < 3000; i++) ASSERT_TRUE(user.insert(test::int_key(i), std::string(60, 'v')));
  BTree::CheckResult result;
  ASSERT_TRUE(user.verify(&result));
  {
    // a page number handed out that nothing uses
    ExclusiveGuard meta = ExclusiveGuard::lock(engine.pool(), file->meta.load());
    reinterpret_cast<MetaPage *>(meta.page())->page_count++;
  }
  EXPECT_EQ(code(user.tree.verify(&result, nullptr, nullptr)), LS_CORRUPT);
  EXPECT_NE(std::string(last_error().message).find("neither in use nor free"), std::string::npos)
      << last_error().message;
  {
    ExclusiveGuard meta = ExclusiveGuard::lock(engine.pool(), file->meta.load());
    reinterpret_cast<MetaPage *>(meta.page())->page_count--;
  }
  ASSERT_TRUE(user.verify(&result));
  u32 page_no;
  {
    // keys out of order
    ExclusiveGuard leaf;
    ASSERT_EQ(code(user.tree.leaf_exclusive(test::as_bytes(test::int_key(1000)), 0, leaf)), LS_OK);
    Node *node = reinterpret_cast<Node *>(leaf.page());
    std::swap(node->slots[1], node->slots[2]);
    page_no = node->header.page_no;
  }
  EXPECT_EQ(code(user.tree.verify(&result, nullptr, nullptr)), LS_CORRUPT);
  EXPECT_EQ(last_error().page_no, page_no);
  {
    ExclusiveGuard leaf;
    ASSERT_EQ(code(user.tree.leaf_exclusive(test::as_bytes(test::int_key(1000)), 0, leaf)), LS_OK);
    Node *node = reinterpret_cast<Node *>(leaf.page());
    std::swap(node->slots[1], node->slots[2]);
    // good in itself, but not what the parent's separators say
    u8 fence[kMaxKeyBytes];
    u16 bytes = node->copy_key(static_cast<u16>(node->count - 1), fence);
    node->truncate_right(static_cast<u16>(node->count - 1), {fence, bytes});
    ASSERT_EQ(node->verify(), nullptr);
  }
  EXPECT_EQ(code(user.tree.verify(&result, nullptr, nullptr)), LS_CORRUPT);
}

TEST(Tree, forgotten_file_is_not_found) {
  EngineFixture engine;
  EngineFixture::Worker worker(engine, 0);
  TreeUser user(worker.ctx, *engine.open(worker.ctx, 1, true));
  for (u64 i = 0; i < 1000; i++) ASSERT_TRUE(user.insert(test::int_key(i), std::string(60, 'v')));
  engine.pool().forget_file(EngineFixture::key_of(1));
  alignas(8) u8 page[kPageSize];
  EXPECT_EQ(code(user.tree.leaf_copy({}, page)), LS_NOT_FOUND);
  ExclusiveGuard leaf;
  EXPECT_EQ(code(user.tree.leaf_exclusive(test::as_bytes("k"), 0, leaf)), LS_NOT_FOUND);
  EXPECT_EQ(code(user.tree.try_merge(test::as_bytes("k"))), LS_NOT_FOUND);
}

}  // namespace
}  // namespace ls
