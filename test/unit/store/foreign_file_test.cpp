// The rows of a file that another store has written: all of them, each once; damage is named, and
// no reference leads the walk astray.
#include <iterator>

#include "os/fd_cache.hpp"
#include "unit/store/store_lives.hpp"

namespace ls::test {
namespace {

// A leaf each.
constexpr u32 kLong = 3000;
constexpr PageNo kMostPages = 10'000;

class ForeignFileTest : public StoreLives {
 protected:
  using Rows = std::map<u64, std::string>;

  // Deleted and moved rows stay in the file as ghosts: an old snapshot may see them.
  void fill_with_history(Session &s, u32 rows, u32 bytes) {
    ls_rel *rel = s.open(kTable);
    ASSERT_EQ(s.begin(), LS_OK) << s.err.message;
    u64 first = 0, moved_to = 0;
    std::vector<std::string> data;
    for (u32 i = 0; i < rows; i++) data.emplace_back(bytes, static_cast<char>('a' + i % 26));
    ASSERT_EQ(s.insert_many(rel, data, &first), LS_OK) << s.err.message;
    s.commit();

    HostSnapshot old;
    host_->take(&old, 0, 0);
    ASSERT_EQ(s.begin(), LS_OK) << s.err.message;
    for (u32 i = 0; i < rows; i += 10) {
      ASSERT_EQ(s.remove(rel, first + i), LS_OK) << s.err.message;
      ASSERT_EQ(s.update(rel, first + i + 1, [](const std::string &) { return "in place"; }),
                LS_OK);
      ASSERT_EQ(s.insert(rel, "moved " + std::to_string(i), &moved_to), LS_OK) << s.err.message;
      ASSERT_EQ(move(s, rel, first + i + 2, moved_to), LS_OK) << s.err.message;
    }
    s.commit();
    // Rolled back as a whole.
    ASSERT_EQ(s.begin(), LS_OK) << s.err.message;
    ASSERT_EQ(s.remove(rel, first + 3), LS_OK) << s.err.message;
    ASSERT_EQ(s.insert(rel, "never", &moved_to), LS_OK) << s.err.message;
    s.abort();

    rows_ = s.contents(rel);
    ls_check_result result;
    ASSERT_EQ(ls_rel_check(s.worker(), rel, &result, &err), LS_OK) << err.message;
    ghosts_ = result.ghosts;
    ls_rel_info info;
    ASSERT_EQ(ls_rel_get_info(s.worker(), rel, &info, &err), LS_OK) << err.message;
    height_ = info.height;
    ASSERT_EQ(ls_worker_checkpoint(store_, s.worker(), &err), LS_OK) << err.message;
    host_->release(old);
  }
  ls_status move(Session &s, ls_rel *rel, u64 from, u64 to) {
    HostSnapshot snapshot;
    host_->take(&snapshot, s.xid(), 1000);
    const ls_change change{from, &snapshot.s, nullptr, 1000, LS_LOCK_UPDATE};
    ls_conflict conflict{};
    const ls_status status = ls_row_delete(s.worker(), rel, &change, to, &conflict, &s.err);
    host_->release(snapshot);
    return status;
  }
  // All rows of the file, or as many as come before it fails.
  ls_status read(Session &s, u32 relation, Rows *found) {
    const std::string path = HostDirectory::relation_path(relation);
    ls_foreign *foreign = nullptr;
    ls_status status = ls_foreign_open(s.worker(), path.c_str(), LS_REL_TABLE, &foreign, &err);
    if (status != LS_OK) return status;
    const ls_row *rows = nullptr;
    u32 count = 0;
    u64 leaves = 0;
    while ((status = ls_foreign_next(foreign, &rows, &count, &err)) == LS_OK) {
      EXPECT_LT(leaves++, kMostPages);
      for (u32 i = 0; i < count; i++) {
        const std::string data(reinterpret_cast<const char *>(rows[i].data), rows[i].len);
        EXPECT_TRUE(found->empty() || found->rbegin()->first < rows[i].row_id);
        EXPECT_TRUE(found->emplace(rows[i].row_id, data).second) << "a row came twice";
      }
    }
    const ls_error first = err;
    EXPECT_EQ(ls_foreign_next(foreign, &rows, &count, &err), status) << "asked again";
    EXPECT_EQ(count, 0u);
    err = first;
    ls_foreign_close(foreign);
    return status;
  }
  void expect_damage(Session &s, PageNo page_no, const char *text) {
    Rows found;
    EXPECT_EQ(read(s, kTable, &found), LS_CORRUPT);
    EXPECT_EQ(err.page_no, page_no) << err.message;
    EXPECT_EQ(err.path, HostDirectory::relation_path(kTable));
    EXPECT_NE(std::string(err.message).find(text), std::string::npos) << err.message;
  }
  // With the page changed, and afterwards as it was.
  void with_page(PageNo page_no, const std::function<void(u8 *)> &change,
                 const std::function<void()> &work) {
    const std::string before = bytes();
    change_page(kTable, page_no, change);
    work();
    std::ofstream(file(kTable), std::ios::binary) << before;
  }
  std::string bytes() const {
    std::ifstream in(file(kTable), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Node *node(std::string &all, PageNo page_no) const {
    return reinterpret_cast<Node *>(all.data() + u64{page_no} * kPageSize);
  }
  PageNo root(std::string &all) const {
    return Swip{reinterpret_cast<MetaPage *>(all.data())->root}.page_no();
  }

  Rows rows_;
  u64 ghosts_ = 0;
  u32 height_ = 0;
};

TEST_F(ForeignFileTest, has_each_row_once_in_its_newest_version) {
  live([&](Session &s) { fill_with_history(s, 600, kLong); }, End::kClean);
  EXPECT_GE(height_, 3u);
  EXPECT_EQ(ghosts_, 120u) << "deleted and moved";
  lose_store();
  const std::string before = bytes();
  live(
      [&](Session &s) {
        const u32 descriptors = fd_cache_size();
        Rows found;
        EXPECT_EQ(read(s, kTable, &found), LS_END) << err.message;
        EXPECT_EQ(found, rows_);
        EXPECT_EQ(fd_cache_size(), descriptors);
        EXPECT_EQ(open(s, kTable), LS_FOREIGN);
      },
      End::kClean);
  EXPECT_EQ(bytes(), before);
}

TEST_F(ForeignFileTest, many_rows_of_a_leaf_come_together) {
  live([&](Session &s) { fill_with_history(s, 5000, 20); }, End::kClean);
  lose_store();
  live(
      [&](Session &s) {
        Rows found;
        EXPECT_EQ(read(s, kTable, &found), LS_END) << err.message;
        EXPECT_EQ(found, rows_);
      },
      End::kClean);
}

// The confirmation of a speculative insertion is not logged: a page that was written before it
// comes back with the flag.
TEST_F(ForeignFileTest, has_a_committed_row_that_was_inserted_speculatively) {
  u64 row_id = 0;
  live(
      [&](Session &s) {
        ls_rel *rel = s.open(kTable);
        ASSERT_EQ(s.begin(), LS_OK);
        LS_ASSERT_OK(ls_row_ids(s.worker(), rel, 1, &row_id, &err));
        const u8 data[] = {'r'};
        LS_ASSERT_OK(ls_row_insert(s.worker(), rel, row_id, 7, LS_ROW_SPECULATIVE, data, 1, &err));
        LS_ASSERT_OK(ls_worker_checkpoint(store_, s.worker(), &err));
        LS_ASSERT_OK(ls_row_finish_speculative(s.worker(), rel, row_id, 1, true, &err));
        s.commit();
      },
      End::kCrash);
  live([&](Session &s) { EXPECT_EQ(s.contents(s.open(kTable)).size(), 1u); }, End::kClean);
  lose_store();
  live(
      [&](Session &s) {
        Rows found;
        EXPECT_EQ(read(s, kTable, &found), LS_END) << err.message;
        EXPECT_EQ(found, (Rows{{row_id, "r"}}));
      },
      End::kClean);
}

TEST_F(ForeignFileTest, only_another_stores_file_has_any) {
  live(
      [&](Session &s) {
        Rows found;
        EXPECT_EQ(read(s, kTable, &found), LS_NOT_ADOPTABLE) << "empty";
        fill(s, kTable);
        EXPECT_EQ(read(s, kTable, &found), LS_NOT_ADOPTABLE) << "this store's";
        EXPECT_EQ(read(s, 1, &found), LS_NOT_FOUND);
        const ls_rel_key key = relation_key(kOther);
        const std::string path = HostDirectory::relation_path(kOther);
        ls_rel index;
        LS_ASSERT_OK(
            ls_rel_open(s.worker(), &key, path.c_str(), LS_REL_INDEX, true, &index, &err));
      },
      End::kClean);
  lose_store();
  live(
      [&](Session &s) {
        Rows found;
        EXPECT_EQ(read(s, kOther, &found), LS_CORRUPT) << "an index";
        EXPECT_EQ(err.page_no, kMetaPageNo);
      },
      End::kClean);
}

// Its pages were in the log only.
TEST_F(ForeignFileTest, a_file_that_was_only_claimed_has_none) {
  live([&](Session &s) { fill(s, kTable); }, End::kCrash);
  lose_store();
  live(
      [&](Session &s) {
        Rows found;
        EXPECT_EQ(read(s, kTable, &found), LS_NOT_ADOPTABLE);
        EXPECT_NE(std::string(err.message).find("log"), std::string::npos) << err.message;
      },
      End::kClean);
}

// ADOPT-1
TEST_F(ForeignFileTest, a_damaged_page_is_named) {
  live([&](Session &s) { fill_with_history(s, 600, kLong); }, End::kClean);
  lose_store();
  std::string all = bytes();
  const PageNo top = root(all);
  const PageNo inner = node(all, top)->child(1)->page_no();
  const PageNo leaf = node(all, inner)->child(0)->page_no();
  ASSERT_TRUE(node(all, leaf)->is_leaf);
  live(
      [&](Session &s) {
        for (PageNo page_no : {kMetaPageNo, top, inner, leaf}) {
          std::string flipped = all;
          flipped[u64{page_no} * kPageSize + 2000] ^= 0x10;
          std::ofstream(file(kTable), std::ios::binary) << flipped;
          expect_damage(s, page_no, "checksum");
        }
        std::ofstream(file(kTable), std::ios::binary) << all;
        with_page(
            leaf, [](u8 *page) { reinterpret_cast<Node *>(page)->count = 0x7fff; },
            [&] { expect_damage(s, leaf, "too many slots"); });
        with_page(
            leaf,
            [](u8 *page) { reinterpret_cast<Node *>(page)->value_data(0)[6] = LS_ROW_MOVED; },
            [&] { expect_damage(s, leaf, "forward pointer"); });
        with_page(
            leaf, [](u8 *page) { reinterpret_cast<Node *>(page)->value_data(0)[6] = 0x80; },
            [&] { expect_damage(s, leaf, "unknown flags"); });
        with_page(
            leaf, [](u8 *page) { std::memset(page, 0, kPageSize); },
            [&] { expect_damage(s, leaf, "format"); });
        std::string holed = all;
        holed.replace(u64{leaf} * kPageSize, kPageSize, kPageSize, '\0');
        std::ofstream(file(kTable), std::ios::binary) << holed;
        expect_damage(s, leaf, "never written");
        std::ofstream(file(kTable), std::ios::binary) << all.substr(0, u64{leaf} * kPageSize);
        Rows found;
        EXPECT_EQ(read(s, kTable, &found), LS_CORRUPT) << "the file is too short";
        std::ofstream(file(kTable), std::ios::binary) << all;
        found.clear();
        EXPECT_EQ(read(s, kTable, &found), LS_END) << err.message;
        EXPECT_EQ(found, rows_);
      },
      End::kClean);
}

// Whatever a reference leads to, the walk ends there, or the page is the right one.
// ADOPT-2
TEST_F(ForeignFileTest, references_that_lead_back_are_damage) {
  live([&](Session &s) { fill_with_history(s, 600, kLong); }, End::kClean);
  lose_store();
  std::string all = bytes();
  const PageNo top = root(all);
  const PageNo inner = node(all, top)->child(1)->page_no();
  const PageNo leaf = node(all, inner)->child(0)->page_no();
  const auto refer = [](u16 child, PageNo to) {
    return [=](u8 *page) {
      reinterpret_cast<Node *>(page)->child(child)->raw = Swip::evicted(to).raw;
    };
  };
  live(
      [&](Session &s) {
        // To the page itself, its parent, the leaf beside, one far away, one of another level.
        with_page(inner, refer(1, inner), [&] { expect_damage(s, inner, "level"); });
        with_page(inner, refer(1, top), [&] { expect_damage(s, top, "level"); });
        with_page(inner, refer(1, leaf), [&] { expect_damage(s, leaf, "fences"); });
        with_page(top, refer(0, inner), [&] { expect_damage(s, inner, "fences"); });
        with_page(top, refer(1, leaf), [&] { expect_damage(s, leaf, "level"); });
        with_page(inner, refer(1, kMetaPageNo), [&] { expect_damage(s, inner, "reference"); });
        with_page(inner, refer(1, 0x7fffffff), [&] { expect_damage(s, inner, "reference"); });
        with_page(
            kMetaPageNo,
            [&](u8 *page) {
              reinterpret_cast<MetaPage *>(page)->root = Swip::evicted(inner).raw;
            },
            [&] { expect_damage(s, inner, "not the root"); });
      },
      End::kClean);
}

}  // namespace
}  // namespace ls::test
