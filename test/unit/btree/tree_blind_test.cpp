// tree_blind_test.cpp - changes of leaves that are not in memory: nothing is read for them,
// all readers see them, no crash loses them.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "btree/read_ahead.hpp"
#include "btree/tree_redo.hpp"
#include "buffer/change_buffer.hpp"
#include "os/fault.hpp"
#include "unit/btree/tree_helpers.hpp"
#include "unit/engine_fixture.hpp"
#include "wal/log_bytes.hpp"

namespace ls {
namespace {

using test::as_bytes;
using test::EngineFixture;
using test::int_key;
using test::Model;
using test::TreeUser;

constexpr u32 kRelation = 16384;
#if defined(__SANITIZE_THREAD__)
constexpr int kScale = 1;
#else
constexpr int kScale = 4;
#endif

// As index entries are inserted: blind where that is possible, else by hand with the same record.
Status change(TreeUser &user, BlindWrite::Kind kind, const std::string &key,
              const std::string &value, bool *blind) {
  LogAppender &log = *user.ctx.log;
  LS_TRY(log.reserve(kMaxRecordBytes / 2, nullptr));
  BlindWrite change{kind, as_bytes(value)};
  ExclusiveGuard leaf;
  const u32 need =
      kind == BlindWrite::Kind::kInsert
          ? Node::most_entry_bytes(static_cast<u32>(key.size()), static_cast<u32>(value.size()))
          : 0;
  LS_TRY(user.tree.leaf_exclusive(as_bytes(key), need, leaf, nullptr, &change));
  *blind = change.done;
  if (change.done) return kOk;
  Node *node = reinterpret_cast<Node *>(leaf.page());
  const u8 op = kind == BlindWrite::Kind::kInsert ? kTreeInsert : kTreeOverwrite;
  LogPacker packed;
  packed.number(key.size());
  log.start(RecordKind::kSystem);
  log.op(user.file.file_no.load(), node->header.page_no, op, packed, as_bytes(key),
         as_bytes(value));
  if (!ok(BTree::redo(op, as_bytes(test::as_string(packed) + key + value), leaf.page(),
                      node->header.page_no))) {
    log.abandon();
    return make_status(LS_CORRUPT);
  }
  user.ctx.pool->mark_dirty(leaf.frame(), log.finish());
  return kOk;
}

class TreeBlindTest : public testing::Test {
 protected:
  explicit TreeBlindTest(u64 frames = 512)
      : engine_({.pool_bytes = frames * kPageSize, .compressed_cache_percent = 0}) {}
  ~TreeBlindTest() override { fault_clear(); }

  void SetUp() override { open(); }
  void open() {
    worker_ = std::make_unique<EngineFixture::Worker>(engine_, 0);
    file_ = engine_.open(worker_->ctx, kRelation, true);
    user_ = std::make_unique<TreeUser>(worker_->ctx, *file_);
  }
  // Every leaf out of memory.
  void begin_anew() {
    user_.reset();
    worker_.reset();
    engine_.stop();
    engine_.restart();
    open();
  }
  bool insert(const std::string &key, const std::string &value = "") {
    bool blind = false;
    const Status status = change(*user_, BlindWrite::Kind::kInsert, key, value, &blind);
    EXPECT_EQ(code(status), LS_OK) << last_error().message;
    model_.emplace(key, value);
    return blind;
  }
  bool overwrite(const std::string &key, const std::string &value) {
    bool blind = false;
    const Status status = change(*user_, BlindWrite::Kind::kOverwrite, key, value, &blind);
    EXPECT_EQ(code(status), LS_OK) << last_error().message;
    model_[key] = value;
    return blind;
  }
  u64 waiting() { return engine_.pool().stats().change_buffer_pending; }
  u64 reads() { return engine_.pool().stats().reads; }
  void check_all() {
    EXPECT_TRUE(test::same(user_->scan(), model_));
    EXPECT_EQ(waiting(), 0u) << "a scan has met all leaves";
    BTree::CheckResult result;
    EXPECT_TRUE(user_->verify(&result));
  }
  std::string path() const { return engine_.directory() + "/" + EngineFixture::path_of(kRelation); }

  EngineFixture engine_;
  std::unique_ptr<EngineFixture::Worker> worker_;
  std::unique_ptr<TreeUser> user_;
  FileSlot *file_ = nullptr;
  Model model_;
};

TEST_F(TreeBlindTest, an_evicted_leaf_is_not_read_for_an_insertion_and_has_it_when_it_is) {
  // Half full leaves, which are uniform.
  for (u64 i = 0; i < 40'000; i++) insert(int_key(3 * i));
  for (u64 i = 0; i < 40'000; i += 2) {
    ASSERT_TRUE(user_->remove(int_key(3 * i)));
    model_.erase(int_key(3 * i));
  }
  // The room of a leaf is known when it was evicted in this life.
  begin_anew();
  EXPECT_FALSE(insert(int_key(1))) << "nothing is known of its room";
  check_all();
  u32 blind = 0;
  const u64 before = reads();
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; i++) blind += insert(int_key(random() % 120'000));
  EXPECT_LT(blind, 300u) << "all leaves are in memory";
  EXPECT_LT(reads(), before + 150);
  check_all();
}

// A tree four times the pool.
class TreeBlindLargeTest : public TreeBlindTest {
 protected:
  static constexpr u64 kKeys = 60'000;
  TreeBlindLargeTest() : TreeBlindTest(128) {}
  static std::string value_of(u64 key, u64 version) {
    std::string value = int_key(version) + int_key(key * 0x9e3779b97f4a7c15 + version);
    value.resize(24, static_cast<char>('a' + version % 26));
    return value;
  }
  void fill() {
    for (u64 i = 0; i < kKeys; i++) ASSERT_TRUE(ok(change_at(3 * i, 0)));
  }
  Status change_at(u64 key, u64 version) {
    bool blind;
    model_[int_key(key)] = value_of(key, version);
    return change(*user_, BlindWrite::Kind::kInsert, int_key(key), value_of(key, version), &blind);
  }
};

TEST_F(TreeBlindLargeTest, overwriting_reads_nothing) {
  fill();
  std::mt19937_64 random(2);
  const u64 before = reads();
  u32 blind = 0;
  for (int i = 0; i < 1000; i++) {
    const u64 key = 3 * (random() % kKeys);
    blind += overwrite(int_key(key), value_of(key, 1 + static_cast<u64>(i)));
  }
  EXPECT_GT(blind, 300u);
  EXPECT_LT(reads() - before, 1000 - blind + 50);
  EXPECT_GT(waiting(), 0u);
  // One of them, then all.
  for (const auto &[key, value] :
       Model(std::next(model_.begin(), 500), std::next(model_.begin(), 600)))
    EXPECT_EQ(user_->lookup(key), value);
  check_all();
}

TEST_F(TreeBlindLargeTest, insertions_fill_leaves_up_and_then_split_them) {
  fill();
  std::mt19937_64 random(3);
  u32 blind = 0;
  const u64 splits = engine_.pool().stats().splits;
  for (int i = 0; i < 20'000; i++) {
    const u64 key = random() % (3 * kKeys);
    if (model_.count(int_key(key))) {
      // There already: it stays what it is.
      bool b;
      ASSERT_TRUE(ok(change(*user_, BlindWrite::Kind::kInsert, int_key(key), "another value", &b)));
      continue;
    }
    blind += insert(int_key(key), value_of(key, 0));
  }
  EXPECT_GT(blind, 1000u);
  EXPECT_GT(engine_.pool().stats().splits, splits + 20);
  check_all();
}

// CHBUF-2
TEST_F(TreeBlindLargeTest, what_may_not_fit_does_not_wait) {
  // Keys alone: uniform leaves, for which a value or another length is too much.
  for (u64 i = 0; i < 200'000; i++) insert(int_key(i * 1000));
  begin_anew();
  check_all();
  // Two hundred leaves, by a key that is not there yet.
  auto key_in = [](u64 leaf, u64 nth) { return int_key(leaf * 1'000'000 + 500 + nth); };
  u32 blind = 0, different = 0;
  // What the page writers evict decides how many of these leaves are known and not in memory.
  for (u64 round = 0; blind <= 10 && round < 20; round++) {
    // leaves come and go: room is known now
    for (u64 i = 0; i < 200'000; i += 250) EXPECT_EQ(user_->lookup(int_key(i * 1000)), "");
    for (u64 leaf = 0; leaf < 200; leaf += 4) blind += insert(key_in(leaf, round));
  }
  for (u64 leaf = 0; leaf < 200; leaf += 4) {
    different += insert(key_in(leaf + 1, 0), "value");
    different += insert(key_in(leaf + 2, 0) + "longer");
    different += insert(key_in(leaf + 3, 0) + std::string(600, 'x'), std::string(600, 'y'));
  }
  EXPECT_GT(blind, 10u);
  EXPECT_EQ(different, 0u);
  check_all();
}

TEST_F(TreeBlindLargeTest, scans_that_read_ahead_see_what_waits) {
  fill();
  std::mt19937_64 random(4);
  for (int round = 1; round <= 4; round++) {
    for (int i = 0; i < 300; i++) {
      const u64 key = 3 * (random() % kKeys);
      overwrite(int_key(key), value_of(key, static_cast<u64>(round)));
    }
    ASSERT_GT(waiting(), 0u);
    ReadAhead ahead(worker_->ctx, *file_);
    BTree::ParentHint hook{.parent = {}, .ahead = &ahead};
    const std::string end(8, '\xff');
    hook.end = as_bytes(end);
    alignas(8) u8 page[kPageSize];
    const Node *node = reinterpret_cast<const Node *>(page);
    Model seen;
    for (std::string position;; position = test::as_string(node->upper_fence())) {
      ASSERT_TRUE(ok(user_->tree.leaf_copy(as_bytes(position), page, &hook)))
          << last_error().message;
      u8 key[kMaxKeyBytes];
      for (u16 i = 0; i < node->count; i++)
        seen[test::as_string({key, node->copy_key(i, key)})] = test::as_string(node->value(i));
      if (!node->has_upper) break;
    }
    EXPECT_TRUE(test::same(seen, model_));
  }
  EXPECT_GT(engine_.pool().stats().reads_ahead, 0u);
}

TEST_F(TreeBlindLargeTest, a_flush_makes_what_waits_and_the_log_is_kept_until_then) {
  fill();
  engine_.flush(worker_->ctx);
  std::mt19937_64 random(5);
  const Gsn before = engine_.log().last_gsn();
  for (int i = 0; i < 500; i++) {
    const u64 key = 3 * (random() % kKeys);
    overwrite(int_key(key), value_of(key, 7));
  }
  ASSERT_GT(waiting(), 100u);
  const Gsn oldest = oldest_buffered_change(*engine_.pool().shared());
  EXPECT_GT(oldest, before);
  EXPECT_LE(engine_.pool().oldest_dirty(), oldest);
  ASSERT_TRUE(engine_.log().wait_hardened(engine_.log().last_gsn(), nullptr));
  // Only what is older than that.
  LS_CHECK(ok(engine_.pool().flush(worker_->ctx, oldest, true)), "flush");
  EXPECT_GT(oldest_buffered_change(*engine_.pool().shared()), oldest);
  engine_.flush(worker_->ctx);
  EXPECT_EQ(waiting(), 0u);
  EXPECT_EQ(engine_.pool().oldest_dirty(), ~Gsn{0});
  begin_anew();
  check_all();
}

// Else the host would copy files without these changes.
TEST_F(TreeBlindLargeTest, a_flush_of_a_database_waits_for_a_file_that_is_being_closed) {
  fill();
  for (u64 i = 0; i < 300; i++) overwrite(int_key(3 * (i * 197 % kKeys)), value_of(i, 9));
  ASSERT_GT(waiting(), 0u);
  PoolShared &pool = *engine_.pool().shared();
  ASSERT_EQ(begin_closing(pool, 1), std::vector<FileSlot *>{file_});
  EngineFixture::Worker other(engine_, 1);
  volatile u32 waits_for = 0;
  other.ctx.waits.word = &waits_for;
  other.ctx.waits.codes[LS_WAIT_OPEN_RELATION] = 7;
  std::atomic<bool> done{false};
  std::thread flush([&] {
    const u32 database = EngineFixture::key_of(kRelation).database;
    EXPECT_TRUE(ok(engine_.pool().flush_database(other.ctx, database))) << last_error().message;
    done = true;
  });
  while (!done && __atomic_load_n(&waits_for, __ATOMIC_RELAXED) != 7) std::this_thread::yield();
  EXPECT_FALSE(done);
  EXPECT_GT(waiting(), 0u);
  end_closing(pool, *file_, false);   // as when it cannot be written
  flush.join();
  EXPECT_EQ(waiting(), 0u);
  check_all();
}

TEST_F(TreeBlindLargeTest, what_waits_is_dropped_with_its_file) {
  fill();
  for (u64 i = 0; i < 300; i++) overwrite(int_key(3 * (i * 197 % kKeys)), value_of(i, 9));
  ASSERT_GT(waiting(), 0u);
  user_.reset();
  engine_.pool().forget_file(EngineFixture::key_of(kRelation));
  for (int i = 0; i < 2000 && waiting() > 0; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(waiting(), 0u);
  EXPECT_EQ(engine_.pool().shared()->change_buffer_frames.load(), 0u);
}

TEST_F(TreeBlindLargeTest, on_a_damaged_page_it_waits_until_that_is_whole_again) {
  fill();
  engine_.flush(worker_->ctx);
  std::string key;
  for (u64 i = 0; key.empty() && i < kKeys; i++) {
    if (overwrite(int_key(3 * i), value_of(3 * i, 3))) key = int_key(3 * i);
  }
  const std::vector<ChangeBufferPage> pages =
      change_buffer_pages(*engine_.pool().shared(), ~Gsn{0});
  ASSERT_EQ(pages.size(), 1u);
  auto flip = [&] {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(pages[0].page_no * i64{kPageSize} + 2000);
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(pages[0].page_no * i64{kPageSize} + 2000);
    file.put(byte);
  };
  flip();
  EXPECT_EQ(user_->lookup(key), "(not found)");
  EXPECT_EQ(last_error().status, LS_CORRUPT);
  EXPECT_EQ(last_error().page_no, pages[0].page_no);
  EXPECT_EQ(code(engine_.pool().flush(worker_->ctx, ~Gsn{0}, true)), LS_OK) << "others are written";
  EXPECT_EQ(waiting(), 1u);
  EXPECT_LE(engine_.pool().oldest_dirty(), oldest_buffered_change(*engine_.pool().shared()));
  flip();
  EXPECT_EQ(user_->lookup(key), model_[key]);
  check_all();
}

// A change that does not keep its promise is found when the page is read, and does no harm to it.
TEST_F(TreeBlindLargeTest, a_broken_promise_is_reported_and_hurts_nobody_else) {
  fill();
  u64 at = 1;
  bool blind = false;
  while (!blind)
    ASSERT_TRUE(
        ok(change(*user_, BlindWrite::Kind::kOverwrite, int_key(at += 3), value_of(0, 0), &blind)));
  EXPECT_EQ(user_->lookup(int_key(at)), "(not found)");
  EXPECT_EQ(last_error().status, LS_CORRUPT);
  EXPECT_EQ(user_->lookup(int_key(3 * (kKeys - 1))), value_of(3 * (kKeys - 1), 0));
  ChangeBufferLock(*engine_.pool().shared(), *file_,
                   change_buffer_pages(*engine_.pool().shared(), ~Gsn{0})[0].page_no)
      .remove_all();
  check_all();
}

// ---- together

constexpr u32 kThreads = 4;
constexpr u64 kSpan = 30'000;

void work(EngineFixture &engine, FileSlot &file, u32 thread, std::atomic<u64> *blind_total,
          Model *model) {
  EngineFixture::Worker worker(engine, thread + 1);
  TreeUser user(worker.ctx, file);
  std::mt19937_64 random(thread + 11);
  u64 blind_count = 0;
  for (int step = 0; step < 6'000 * kScale && !testing::Test::HasFailure(); step++) {
    const std::string key = int_key(random() % kSpan * kThreads + thread);
    const auto it = model->find(key);
    bool blind = false;
    if (it == model->end()) {
      const std::string value(8 + random() % 40, static_cast<char>('a' + random() % 26));
      ASSERT_EQ(code(change(user, BlindWrite::Kind::kInsert, key, value, &blind)), LS_OK)
          << last_error().message;
      (*model)[key] = value;
    } else if (const u64 what = random() % 16; what < 8) {
      std::string value(it->second.size(), static_cast<char>('A' + random() % 26));
      ASSERT_EQ(code(change(user, BlindWrite::Kind::kOverwrite, key, value, &blind)), LS_OK)
          << last_error().message;
      it->second = value;
    } else if (what < 12) {
      ASSERT_EQ(user.lookup(key), it->second);
    } else {
      ASSERT_TRUE(user.remove(key)) << last_error().message;
      model->erase(it);
    }
    blind_count += blind;
  }
  *blind_total += blind_count;
}

TEST(TreeBlind, changes_of_many_where_every_leaf_comes_and_goes) {
  EngineFixture engine({.pool_bytes = 160 * kPageSize, .page_providers = 1});
  Model all;
  {
    EngineFixture::Worker main(engine, 0);
    FileSlot *file = engine.open(main.ctx, kRelation, true);
    std::atomic<u64> blind{0};
    Model models[kThreads];
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (u32 t = 0; t < kThreads; t++)
      threads.emplace_back([&, t] { work(engine, *file, t, &blind, &models[t]); });
    // Flushes, scans and merges beside them.
    std::thread flusher([&] {
      EngineFixture::Worker worker(engine, kThreads + 1);
      while (!stop.load()) {
        EXPECT_EQ(code(engine.pool().flush(worker.ctx, engine.log().hardened(), false)), LS_OK)
            << last_error().message;
        u64 merged;
        EXPECT_EQ(code(BTree::merge_sparse_leaves(worker.ctx, test::any_leaf, &merged)), LS_OK);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
    for (std::thread &t : threads) t.join();
    stop.store(true);
    flusher.join();
    for (Model &model : models) all.merge(model);
    TreeUser user(main.ctx, *file);
    EXPECT_TRUE(test::same(user.scan(), all));
    BTree::CheckResult result;
    EXPECT_TRUE(user.verify(&result));
    EXPECT_GT(blind.load(), 1000u);
    EXPECT_EQ(engine.pool().stats().change_buffer_inserts, blind.load());
  }
  engine.stop();
  engine.restart();
  EngineFixture::Worker main(engine, 0);
  EXPECT_TRUE(test::same(TreeUser(main.ctx, *engine.open(main.ctx, kRelation, true)).scan(), all));
}

}  // namespace
}  // namespace ls
