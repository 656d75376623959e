// tree_damage_test.cpp - trees of which a page in the file has wrong bytes under a right checksum:
// each operation works or says that a page is damaged, and which.  LS_SEED=n, LS_MODEL_SECONDS=n:
// seeds.hpp.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "btree/read_ahead.hpp"
#include "model/damage.hpp"
#include "model/seeds.hpp"
#include "store/foreign_file.hpp"
#include "unit/btree/tree_helpers.hpp"
#include "unit/engine_fixture.hpp"

namespace ls {
namespace {

using namespace test;

constexpr u32 kTrees = 4, kFirstCopy = 100;

struct alignas(kPageSize) Page {
  u8 bytes[kPageSize];
};

class TreeDamage : public ::testing::Test {
 protected:
  TreeDamage() {
    for (u32 tree = 0; tree < kTrees; tree++)
      build(tree);
    EngineFixture::Worker worker(engine_, 0);
    engine_.flush(worker.ctx);
    for (u32 tree = 0; tree < kTrees; tree++)
      pages_.push_back(load(tree));
  }

  // 0: rows of a table; 1: an index without values; 2: long keys, three levels; 3: most of it free
  // again, in lists.
  static std::string key_of(u32 tree, u64 i) {
    if (tree == 1) return int_key(i * 7919 % 100003) + "row id";
    if (tree == 2)
      return std::string(100 + i * 7 % 60, static_cast<char>('a' + i % 7)) + int_key(i * 31);
    return int_key(i);
  }
  static std::string value_of(u32 tree, u64 i) {
    // Of a row: flags that it may have.
    return tree == 1 ? "" : std::string(tree == 3 ? 1500 : 40 + i % 30, LS_ROW_HAS_PREV);
  }
  static u64 entries_of(u32 tree) { return tree == 2 ? 1500 : tree == 3 ? 3000 : 4000; }

  void build(u32 tree) {
    EngineFixture::Worker worker(engine_, 0);
    TreeUser user(worker.ctx, *engine_.open(worker.ctx, tree, true));
    for (u64 i = 0; i < entries_of(tree); i++)
      ASSERT_TRUE(user.insert(key_of(tree, i), value_of(tree, i))) << last_error().message;
    for (u64 i = 0; tree == 3 && i + 100 < entries_of(tree); i++)
      ASSERT_TRUE(user.remove(key_of(tree, i))) << last_error().message;
  }
  std::string path_of(u32 relation) const {
    return engine_.directory() + "/" + EngineFixture::path_of(relation);
  }
  std::vector<Page> load(u32 relation) const {
    std::vector<Page> pages(std::filesystem::file_size(path_of(relation)) / kPageSize);
    std::ifstream(path_of(relation), std::ios::binary)
        .read(reinterpret_cast<char *>(pages.data()),
              static_cast<std::streamsize>(pages.size() * kPageSize));
    return pages;
  }
  void store(u32 relation, const std::vector<Page> &pages) const {
    std::ofstream(path_of(relation), std::ios::binary)
        .write(reinterpret_cast<const char *>(pages.data()),
               static_cast<std::streamsize>(pages.size() * kPageSize));
  }

  // A copy of the tree with the damage, used.
  void round(u32 tree, Damage &damage) {
    std::vector<Page> pages = pages_[tree];
    damage_one(pages, damage);
    const u32 relation = kFirstCopy + next_copy_++;
    const bool foreign = tree != 1 && damage.pick(4) == 0;
    if (foreign) {
      reinterpret_cast<MetaPage *>(pages[0].bytes)->store = {1, 2};
      page_seal(pages[0].bytes);
    }
    store(relation, pages);
    if (foreign) {
      adopt(EngineFixture::path_of(relation), pages.size());
    } else {
      EngineFixture::Worker worker(engine_, 0);
      FileSlot *file = nullptr;
      const bool logged = damage.pick(2);
      const std::string path = EngineFixture::path_of(relation);
      judge(engine_.pool().open_file(worker.ctx, EngineFixture::key_of(relation), path.c_str(),
                                     LS_REL_TABLE, logged, 0, BTree::format, &file));
      if (file) use(worker.ctx, *file, tree, damage);
    }
    engine_.pool().forget_file(EngineFixture::key_of(relation));
    std::filesystem::remove(path_of(relation));
  }

  // All rows, as of another store's file.
  void adopt(const std::string &path, size_t pages) {
    EngineFixture::Worker worker(engine_, 0);
    std::unique_ptr<ForeignFile> file;
    Status status = ForeignFile::open(worker.ctx, path.c_str(), LS_REL_TABLE, &file);
    judge(status);
    std::span<const ls_row> rows;
    size_t leaves = 0;
    for (; ok(status); leaves++) {
      status = file->next(&rows);
      judge(status);
      for (const ls_row &row : rows) ASSERT_LE(row.len, LS_MAX_ROW_BYTES);
    }
    EXPECT_LE(leaves, pages);
  }

  // Meta page, inner nodes and lists are few, and looked at more often than their share.
  static void damage_one(std::vector<Page> &pages, Damage &damage) {
    std::vector<u32> few;
    for (u32 i = 0; i < pages.size(); i++) {
      const PageKind kind = reinterpret_cast<const PageHeader *>(pages[i].bytes)->kind;
      if (kind == PageKind::kInner || kind == PageKind::kTrunk || kind == PageKind::kMeta)
        few.push_back(i);
    }
    const u32 victim = damage.pick(2) ? few[damage.pick(static_cast<u32>(few.size()))]
                                      : damage.pick(static_cast<u32>(pages.size()));
    u8 *page = pages[victim].bytes;
    if (victim == 0) {
      damage.bytes(
          {page + sizeof(PageHeader), offsetof(MetaPage, free_pages) + 64 - sizeof(PageHeader)});
    } else if (damage.pick(6) == 0) {
      // Another page of the same file, as if it were this one.
      std::memcpy(page, pages[damage.pick(static_cast<u32>(pages.size()))].bytes, kPageSize);
      reinterpret_cast<PageHeader *>(page)->page_no = victim;
    } else {
      damage.page(page);
    }
    page_seal(page);
  }

  void judge(Status status) {
    switch (code(status)) {
      case LS_OK: used_++; return;
      case LS_NOT_FOUND:
      case LS_TOO_LARGE:
      case LS_FOREIGN:
      case LS_NOT_ADOPTABLE:
      case LS_NO_SPACE:  // a meta page counts other pages
      case LS_NO_PAGES:
      case LS_END: return;
      case LS_CORRUPT:
        damaged_++;
        EXPECT_NE(last_error().path[0], '\0') << last_error().message;
        EXPECT_NE(last_error().page_no, kInvalidPageNo) << last_error().message;
        return;
      default: FAIL() << code(status) << ": " << last_error().message;
    }
  }

  void use(Ctx &ctx, FileSlot &file, u32 tree, Damage &damage) {
    BTree btree(ctx, file);
    for (u32 i = 0; i < 40; i++) {
      const std::string key = key_of(tree, damage.pick(static_cast<u32>(entries_of(tree)) + 20));
      u8 value[kPageSize];
      u32 bytes = 0;
      switch (damage.pick(8)) {
        case 0: scan(ctx, file, key, damage.pick(2)); break;
        case 1: remove(ctx, btree, file, key); break;
        case 2: {
          bool merged;
          judge(btree.x_merge(as_bytes(key), any_leaf, &merged));
          break;
        }
        case 3: judge(btree.lookup(as_bytes(key), value, sizeof value, &bytes)); break;
        default:
          put(ctx, btree, file, key + std::string(damage.pick(3), 'z'),
              std::string(damage.pick(200), 'n'));
      }
    }
    if (damage.pick(3) == 0) {
      BTree::CheckResult result;
      judge(btree.verify(&result, nullptr, nullptr));
    }
  }

  void put(Ctx &ctx, BTree &btree, FileSlot &file, const std::string &key,
           const std::string &value) {
    const u32 need =
        Node::most_entry_bytes(static_cast<u32>(key.size()), static_cast<u32>(value.size()));
    if (file.logged) judge(ctx.log->reserve(kMaxRecordBytes, ctx.interrupt));
    ExclusiveGuard leaf;
    BlindWrite blind{.kind = BlindWrite::Kind::kInsert, .value = as_bytes(value)};
    const Status status =
        btree.leaf_exclusive(as_bytes(key), need, leaf, nullptr, value.empty() ? &blind : nullptr);
    judge(status);
    if (!ok(status) || blind.done) return;
    Node *node = reinterpret_cast<Node *>(leaf.page());
    ASSERT_TRUE(node->covers(as_bytes(key)));
    (void)test::put(node, as_bytes(key), as_bytes(value));
    changed(ctx, file, leaf);
  }

  void remove(Ctx &ctx, BTree &btree, FileSlot &file, const std::string &key) {
    if (file.logged) judge(ctx.log->reserve(kMaxRecordBytes, ctx.interrupt));
    {
      ExclusiveGuard leaf;
      const Status status = btree.leaf_exclusive(as_bytes(key), 0, leaf);
      judge(status);
      if (!ok(status)) return;
      Node *node = reinterpret_cast<Node *>(leaf.page());
      const u16 from = node->position_of(as_bytes(key));
      while (node->count > from)
        node->remove(from);
      changed(ctx, file, leaf);
    }
    judge(btree.try_merge(as_bytes(key)));
  }

  // Nothing is redone here: any record will do.
  static void changed(Ctx &ctx, FileSlot &file, ExclusiveGuard &leaf) {
    Gsn gsn = 0;
    if (file.logged) {
      ctx.log->start(RecordKind::kSystem);
      ctx.log->op(file.file_no.load(), leaf.frame()->page_no.load(), kTestPut, {});
      gsn = ctx.log->finish();
    }
    ctx.pool->mark_dirty(leaf.frame(), gsn);
  }

  void scan(Ctx &ctx, FileSlot &file, std::string position, bool backward) {
    BTree btree(ctx, file);
    ReadAhead ahead(ctx, file);
    BTree::ParentHint hook{.parent = {}, .ahead = &ahead};
    const std::string end = backward ? "" : std::string(8, '\xff');
    hook.end = as_bytes(end);
    alignas(8) u8 page[kPageSize];
    const Node *node = reinterpret_cast<const Node *>(page);
    for (u32 leaves = 0; leaves < 60; leaves++) {
      const Status status = backward
                                ? btree.leaf_copy_before(as_bytes(position), false, page, &hook)
                                : btree.leaf_copy(as_bytes(position), page, &hook);
      judge(status);
      if (!ok(status)) return;
      ASSERT_EQ(node->verify(), nullptr);
      if (!backward && !node->has_upper) return;
      const std::string next = as_string(backward ? node->lower_fence() : node->upper_fence());
      ASSERT_TRUE(backward ? next < position : next > position);
      position = next;
    }
  }

  EngineFixture engine_{{.pool_bytes = u64{6} << 20}};
  std::vector<std::vector<Page>> pages_;
  u32 next_copy_ = 0;
  u64 used_ = 0, damaged_ = 0;
};

TEST_F(TreeDamage, a_damaged_page_is_named_or_can_be_used) {
  each_seed(16, [&](u64 seed) {
    Damage damage(seed);
    for (u32 tree = 0; tree < kTrees && !HasFatalFailure(); tree++)
      round(tree, damage);
    EXPECT_FALSE(HasFailure()) << "seed " << seed;
    return !HasFailure();
  });
  std::cout << used_ << " operations worked, " << damaged_ << " met damage\n";
  EXPECT_GT(used_, 0u);
  EXPECT_GT(damaged_, 0u);
}

}  // namespace
}  // namespace ls
