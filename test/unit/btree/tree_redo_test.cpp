// tree_redo_test.cpp - what is on disk at any moment, plus the log, is the tree: pages as the pool
// happened to write them, records applied page by page, then the raw pages are walked and compared
// with the history up to the end of the log.
#include "btree/tree_redo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "btree/stored_page.hpp"
#include "buffer/page_allocator.hpp"
#include "unit/btree/tree_helpers.hpp"
#include "unit/engine_fixture.hpp"

namespace ls {
namespace {

using test::EngineFixture;
using test::Model;
using test::TreeUser;

struct alignas(kPageSize) Page {
  u8 bytes[kPageSize] = {};
  Node *node() { return reinterpret_cast<Node *>(bytes); }
  const MetaPage *meta() const { return reinterpret_cast<const MetaPage *>(bytes); }
};

// The file as recovery would rebuild it.
struct Replayed {
  std::vector<Page> pages;
  LogImage log;
  u64 applied = 0, skipped = 0;

  void load(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    Page page;
    while (in.read(reinterpret_cast<char *>(page.bytes), kPageSize)) {
      const u32 page_no = static_cast<u32>(pages.size());
      const bool written = page.node()->header.checksum != 0;
      const char *fault = written ? stored_page_fault(page.bytes, kInvalidPageNo) : nullptr;
      ASSERT_EQ(fault, nullptr) << fault << ", page " << page_no;
      pages.push_back(page);
    }
  }

  void apply(FileNo file_no) {
    for (const LogEntry &entry : log.entries) {
      const LogRecord record = entry.record();
      if (record.kind != RecordKind::kSystem) continue;
      for (Bytes left = record.body; !left.empty();) {
        LogOp op;
        ASSERT_EQ(load_op(&left, &op), nullptr);
        if (op.file == file_no) apply_op(record.gsn, op);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }

  // Records of several operations on one page (the meta page) all count: none or all of them are on
  // disk.
  void apply_op(Gsn gsn, const LogOp &op) {
    if (op.page >= pages.size()) pages.resize(op.page + 1);
    u8 *page = pages[op.page].bytes;
    PageHeader &header = pages[op.page].node()->header;
    if (header.gsn >= gsn && !(header.gsn == gsn && replayed_gsn.count({op.page, gsn}))) {
      skipped++;
      return;
    }
    if (op_family(op.code) == kOpRow) test::test_redo(op.code, op.operands, page);
    else
      ASSERT_EQ(code(BTree::redo(op.code, op.operands, page, op.page)), LS_OK)
          << last_error().message << " gsn " << gsn;
    header.gsn = gsn;
    replayed_gsn[{op.page, gsn}] = true;
    applied++;
  }
  std::map<std::pair<PageNo, Gsn>, bool> replayed_gsn;

  void walk(PageNo page_no, u32 level, Model *content, std::vector<bool> *used) {
    ASSERT_LT(page_no, pages.size());
    ASSERT_FALSE((*used)[page_no]);
    (*used)[page_no] = true;
    Node *node = pages[page_no].node();
    const char *wrong = node->verify();
    ASSERT_EQ(wrong, nullptr) << "page " << page_no << ": " << wrong;
    ASSERT_EQ(node->header.page_no, page_no);
    ASSERT_EQ(node->level, level);
    u8 key[kMaxKeyBytes];
    for (u16 i = 0; i < node->count && node->is_leaf; i++)
      (*content)[test::as_string({key, node->copy_key(i, key)})] = test::as_string(node->value(i));
    for (u16 i = 0; i <= node->count && !node->is_leaf; i++) {
      Swip swip = *node->child(i);
      ASSERT_TRUE(swip.is_evicted());
      walk(swip.page_no(), level - 1, content, used);
      if (::testing::Test::HasFatalFailure()) return;
      Node *child = pages[swip.page_no()].node();
      std::string lower =
          i == 0 ? test::as_string(node->lower_fence())
                 : test::as_string({key, node->copy_key(static_cast<u16>(i - 1), key)});
      ASSERT_EQ(test::as_string(child->lower_fence()), lower);
    }
  }

  Model content() {
    Model all;
    EXPECT_FALSE(pages.empty());
    if (pages.empty()) return all;
    const MetaPage *meta = pages[0].meta();
    EXPECT_EQ(meta->magic, kMetaMagic);
    std::vector<bool> used(std::max<size_t>(pages.size(), meta->page_count));
    walk(Swip{meta->root}.page_no(), meta->height - 1, &all, &used);
    u32 in_use = static_cast<u32>(std::count(used.begin(), used.end(), true)) + 1;
    EXPECT_EQ(in_use + meta->free_total, meta->page_count);
    return all;
  }
};

void read_whole_log(const EngineFixture &engine, LogImage *image) {
  Status status =
      read_log(engine.log_directory().c_str(), engine.options().log_segment_bytes, 0, 0, *image);
  ASSERT_EQ(code(status), LS_OK) << last_error().message;
}

void change_at_random(TreeUser &user, std::mt19937_64 &random, u64 keys, bool shrinks,
                      Model *model) {
  std::string key = test::int_key(random() % keys);
  if (random() % 4 == 0) key += std::string(random() % 40, static_cast<char>('a' + random() % 3));
  if (shrinks && !model->empty()) {
    auto it = model->lower_bound(key);
    if (it == model->end()) it = model->begin();
    ASSERT_TRUE(user.remove(it->first)) << last_error().message;
    model->erase(it);
    return;
  }
  if (random() % 60 == 0) {
    bool merged;
    ASSERT_EQ(code(user.tree.x_merge(test::as_bytes(key), test::any_leaf, &merged)), LS_OK)
        << last_error().message;
  }
  std::string value(random() % 400, static_cast<char>(random()));
  ASSERT_TRUE(user.upsert(key, value)) << last_error().message;
  (*model)[key] = value;
}

// Rounds of the log and writes of pages at random moments, then a crash: the log's prefix decides.
TEST(TreeRedo, any_mixture_of_written_pages_and_log_gives_the_logs_prefix) {
  u64 applied = 0, skipped = 0;
  for (u64 seed = 1; seed <= 6; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    EngineFixture engine({.pool_bytes = u64{4} << 20,
                          .log_buffer_bytes = 1 << 20,
                          .page_providers = 0,
                          .committer = false});
    EngineFixture::Worker worker(engine, 0);
    FileSlot *file = engine.open(worker.ctx, 1, true);
    FileNo file_no = file->file_no.load();
    TreeUser user(worker.ctx, *file);
    user.keep_history = true;
    Model model;
    u64 wrote;
    for (int step = 0; step < 3000; step++) {
      change_at_random(user, random, 3000, step / 700 % 2 == 1, &model);
      if (HasFatalFailure()) return;
      if (random() % 300 != 0 && step % 1000 != 500) continue;
      ASSERT_EQ(code(engine.log().commit_round(&wrote)), LS_OK);
      Gsn up_to = random() % (engine.log().hardened() + 1);
      if (random() % 2) {
        ASSERT_EQ(code(engine.pool().flush(worker.ctx, up_to, false)), LS_OK)
            << last_error().message;
      }
    }
    engine.crash();

    Replayed replayed;
    read_whole_log(engine, &replayed.log);
    replayed.load(engine.directory() + "/" + EngineFixture::path_of(1));
    replayed.apply(file_no);
    if (HasFatalFailure()) return;
    Model expected;
    for (const TreeUser::Change &change : user.history)
      if (change.gsn <= replayed.log.complete_gsn) TreeUser::apply(change, expected);
    EXPECT_TRUE(expected != model) << "the last changes were not to be hardened";
    EXPECT_TRUE(test::same(replayed.content(), expected));
    applied += replayed.applied;
    skipped += replayed.skipped;
  }
  EXPECT_GT(applied, 1000u);
  EXPECT_GT(skipped, 1000u) << "some pages were written";
}

// Several workers, a page provider that writes and evicts all the time; everything was hardened at
// the crash.
TEST(TreeRedo, concurrent_changes_replay_to_what_the_workers_left) {
  constexpr u64 kThreads = 4;
  EngineFixture engine({.pool_bytes = 128 * kPageSize});
  FileNo file_no;
  std::vector<Model> models(kThreads);
  {
    EngineFixture::Worker main_worker(engine, 15);
    FileSlot *file = engine.open(main_worker.ctx, 1, true);
    file_no = file->file_no.load();
    std::vector<std::thread> threads;
    std::atomic<u64> writers{kThreads};
    for (u64 t = 0; t < kThreads; t++) {
      threads.emplace_back([&, t] {
        EngineFixture::Worker worker(engine, static_cast<u32>(t));
        TreeUser user(worker.ctx, *file);
        std::mt19937_64 random(t + 5);
        for (int step = 0; step < 1500 && !HasFatalFailure(); step++) {
          std::string key = test::int_key(random() % 1000 * kThreads + t);
          if (step / 500 == 1 && !models[t].empty()) {
            key = models[t].begin()->first;
            ASSERT_TRUE(user.remove(key)) << last_error().message;
            models[t].erase(key);
          } else {
            models[t][key] = std::string(random() % 500, static_cast<char>('a' + t));
            ASSERT_TRUE(user.upsert(key, models[t][key])) << last_error().message;
          }
        }
        writers--;
      });
    }
    u64 x_merged = 0;
    threads.emplace_back([&] {
      EngineFixture::Worker worker(engine, 8);
      BTree tree(worker.ctx, *file);
      std::mt19937_64 random(99);
      for (int i = 0; (i < 3000 || writers.load() > 0) && !HasFatalFailure(); i++) {
        bool merged;
        ASSERT_EQ(code(tree.x_merge(test::as_bytes(test::int_key(random() % (1000 * kThreads))),
                                    test::any_leaf, &merged)),
                  LS_OK)
            << last_error().message;
        x_merged += merged;
      }
    });
    for (auto &thread : threads) thread.join();
    EXPECT_GT(x_merged, 10u);
    // Some of them, where the page provider has had no time.
    const Gsn half = engine.log().hardened() / 2;
    ASSERT_EQ(code(engine.pool().flush(main_worker.ctx, half, false)), LS_OK);
  }
  engine.crash();
  Replayed replayed;
  read_whole_log(engine, &replayed.log);
  replayed.load(engine.directory() + "/" + EngineFixture::path_of(1));
  replayed.apply(file_no);
  Model expected;
  for (Model &model : models) expected.merge(model);
  EXPECT_TRUE(test::same(replayed.content(), expected));
  EXPECT_GT(replayed.skipped, 100u);
}

// More free pages than the meta page lists: trunks come and go between the writes.
TEST(TreeRedo, trees_that_grow_and_shrink_beyond_the_free_list_replay) {
  constexpr u64 kCount = 4500;
  EngineFixture engine({.pool_bytes = u64{2} << 20});
  FileNo file_no;
  Model model;
  {
    EngineFixture::Worker worker(engine, 0);
    FileSlot *file = engine.open(worker.ctx, 1, true);
    file_no = file->file_no.load();
    TreeUser user(worker.ctx, *file);
    std::string value(1200, 'v');
    for (u64 i = 0; i < kCount; i++)
      ASSERT_TRUE(user.insert(test::int_key(i), value)) << last_error().message;
    for (u64 i = 0; i < kCount; i++)
      ASSERT_TRUE(user.remove(test::int_key(i))) << last_error().message;
    BTree::CheckResult result;
    ASSERT_TRUE(user.verify(&result));
    ASSERT_GT(result.free_pages, 1300u);
    for (u64 i = 0; i < kCount / 2; i++) {
      ASSERT_TRUE(user.insert(test::int_key(i), value)) << last_error().message;
      model[test::int_key(i)] = value;
    }
    ASSERT_TRUE(user.verify(&result));
    EXPECT_LT(result.free_pages, 1000u) << "free pages were used again";
  }
  engine.crash();
  Replayed replayed;
  read_whole_log(engine, &replayed.log);
  replayed.load(engine.directory() + "/" + EngineFixture::path_of(1));
  replayed.apply(file_no);
  EXPECT_TRUE(test::same(replayed.content(), model));
}

TEST(TreeRedo, operations_that_do_not_fit_the_page_are_refused) {
  Page page;
  page.node()->init(true, 0, {}, {}, false);
  page.node()->insert(test::as_bytes("k"), test::as_bytes("v"));
  Page before = page;
  u16 position = 7;
  auto operands = [&](const std::string &rest) {
    return std::string(reinterpret_cast<char *>(&position), sizeof position) + rest;
  };
  for (u8 op = kOpTree; op < kOpTree + 16; op++) {
    for (const std::string &bytes :
         {std::string(), operands(""), operands("separator"), operands(std::string(5000, 'x'))}) {
      if (op == kTreeImage && bytes.size() > kPageSize) continue;
      // a key of seven bytes: that one fits
      if (op == kTreeInsert && bytes == operands("separator")) continue;
      Page target = page;
      EXPECT_EQ(code(BTree::redo(op, test::as_bytes(bytes), target.bytes, 5)), LS_CORRUPT)
          << op << " " << bytes.size();
      if (op != kTreeImage) {
        EXPECT_EQ(std::memcmp(target.bytes, before.bytes, kPageSize), 0);
      }
    }
  }
  EXPECT_EQ(code(BTree::redo(kTreeImage, test::as_bytes(std::string(5000, 'x')), page.bytes, 5)),
            LS_CORRUPT);
}

// Found by test/fuzz/redo_fuzz.cpp.
TEST(TreeRedo, a_root_that_the_file_cannot_have_is_refused) {
  Page page;
  const auto redo = [&](u8 op, const auto &operands) {
    return code(BTree::redo(op, operand(operands), page.bytes, kMetaPageNo));
  };
  FormatOperands format{LS_REL_TABLE, kMostPages + kPagesForUndo, {1, 2}};
  EXPECT_EQ(redo(kTreeFormat, format), LS_CORRUPT);
  format.root = 3;
  EXPECT_EQ(redo(kTreeFormat, format), LS_OK);
  EXPECT_EQ(redo(kTreeRoot, RootOperands{4, 1}), LS_CORRUPT) << "behind the end";
  EXPECT_EQ(redo(kTreeRoot, RootOperands{2, 1}), LS_OK);
  EXPECT_EQ(meta_fault(*reinterpret_cast<MetaPage *>(page.bytes)), nullptr);
}

}  // namespace
}  // namespace ls
