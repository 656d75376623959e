// Opening, using and forgetting relation files.
#include <array>

#include "buffer/file_use.hpp"
#include "unit/buffer/pool_fixture.hpp"

namespace ls::buffer_test {
namespace {

std::atomic<u32> formats{0};
Status counted_format(Ctx &ctx, FileSlot &file) {
  formats.fetch_add(1);
  return ToyTree::format(ctx, file);
}

class FileTableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    register_toy_tree();
    formats = 0;
  }
  Status open(Ctx &ctx, u32 relation, bool logged, FileSlot **file,
              ls_rel_kind kind = LS_REL_TABLE) {
    std::string name = "rel" + std::to_string(relation);
    if (!std::filesystem::exists(test_.path(name))) test_.create_file(name);
    return pool().open_file(ctx, ToyTree::key_of(relation), name.c_str(), kind, logged, 0,
                            counted_format, file);
  }
  bool becomes_unused(FileSlot *file) {
    for (int i = 0; i < 1000 && !file_is(*file, FileState::kUnused); i++) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return file_is(*file, FileState::kUnused);
  }
  BufferPool &pool() { return test_.pool(); }

  TestPool test_{200, 3};
  TestWorker worker_{test_, 0};
  FileSlot *file_ = nullptr;
};

TEST_F(FileTableTest, many_openers_get_one_slot_and_one_tree) {
  std::vector<FileSlot *> found(6);
  std::vector<std::thread> threads;
  for (u32 i = 0; i < 6; i++) {
    threads.emplace_back([&, i] {
      TestWorker worker(test_, i + 1);
      LS_EXPECT_OK(open(worker.ctx, 7, true, &found[i]));
    });
  }
  for (std::thread &t : threads) t.join();
  for (FileSlot *slot : found) EXPECT_EQ(slot, found[0]);
  EXPECT_EQ(formats.load(), 1u);
  EXPECT_EQ(pool().active_files(), 1u);
  EXPECT_EQ(pool().find_file(ToyTree::key_of(7)), found[0]);
  EXPECT_EQ(pool().find_file(ToyTree::key_of(8)), nullptr);
}

TEST_F(FileTableTest, opening_again_finds_the_tree_not_a_new_one) {
  LS_ASSERT_OK(open(worker_.ctx, 7, false, &file_));
  LS_ASSERT_OK(ToyTree(worker_.ctx, *file_).add_leaf(5));
  reinterpret_cast<MetaPage *>(pool().page(file_->meta.load()))->row_id_high = 4711;
  LS_ASSERT_OK(pool().flush(worker_.ctx, ~Gsn{0}, true));
  test_.crash();
  TestWorker worker(test_, 0);
  LS_ASSERT_OK(open(worker.ctx, 7, false, &file_));
  EXPECT_EQ(formats.load(), 1u);
  EXPECT_EQ(file_->next_row_id.load(), 4711u);
  u64 value;
  LS_EXPECT_OK(ToyTree(worker.ctx, *file_).read(5, &value));
}

TEST_F(FileTableTest, a_file_extended_but_never_written_is_formatted) {
  std::ofstream(test_.path("rel7"), std::ios::binary) << std::string(8 * kPageSize, '\0');
  LS_ASSERT_OK(open(worker_.ctx, 7, false, &file_));
  EXPECT_EQ(formats.load(), 1u);
}

TEST_F(FileTableTest, a_damaged_or_foreign_meta_page_is_corruption_and_leaves_nothing_behind) {
  LS_ASSERT_OK(open(worker_.ctx, 7, false, &file_));
  LS_ASSERT_OK(pool().flush(worker_.ctx, ~Gsn{0}, true));
  test_.crash();
  TestWorker worker(test_, 0);
  u64 free = pool().stats().free;
  EXPECT_EQ(code(open(worker.ctx, 7, false, &file_, LS_REL_INDEX)), LS_CORRUPT);
  EXPECT_EQ(last_error().page_no, 0u);
  std::fstream(test_.path("rel7"), std::ios::binary | std::ios::in | std::ios::out).put(77);
  EXPECT_EQ(code(open(worker.ctx, 7, false, &file_)), LS_CORRUPT);
  EXPECT_STREQ(last_error().path, "rel7");
  EXPECT_EQ(pool().stats().free, free);
  EXPECT_EQ(pool().active_files(), 0u);
  EXPECT_EQ(pool().shared()->leaving.load(), 0u);
}

TEST_F(FileTableTest, an_absent_file_is_not_found) {
  EXPECT_EQ(code(pool().open_file(worker_.ctx, ToyTree::key_of(9), "absent", LS_REL_TABLE, false, 0,
                                  counted_format, &file_)),
            LS_NOT_FOUND);
  EXPECT_EQ(formats.load(), 0u);
}

TEST_F(FileTableTest, failed_formatting_gives_everything_back) {
  test_.start_providers(1);
  u64 free = pool().stats().free;
  auto failing = [](Ctx &ctx, FileSlot &file) -> Status {
    LS_TRY(ToyTree::format(ctx, file));
    return fail(LS_NO_SPACE, "no room, says the test");
  };
  test_.create_file("rel7");
  EXPECT_EQ(code(pool().open_file(worker_.ctx, ToyTree::key_of(7), "rel7", LS_REL_TABLE, false, 0,
                                  failing, &file_)),
            LS_NO_SPACE);
  EXPECT_STREQ(last_error().message, "no room, says the test");
  for (int i = 0; i < 1000 && pool().stats().free < free; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(pool().stats().free, free);
  LS_EXPECT_OK(open(worker_.ctx, 7, false, &file_));
}

TEST_F(FileTableTest, a_full_table_is_a_limit_until_a_file_is_forgotten) {
  test_.start_providers(1);
  for (u32 i = 0; i < 3; i++) LS_ASSERT_OK(open(worker_.ctx, i, false, &file_));
  FileSlot *other;
  EXPECT_EQ(code(open(worker_.ctx, 3, false, &other)), LS_LIMIT);
  pool().forget_file(ToyTree::key_of(1));
  LS_EXPECT_OK(open(worker_.ctx, 3, false, &other));
  EXPECT_EQ(pool().active_files(), 3u);
}

TEST_F(FileTableTest, numbers_are_never_used_twice) {
  test_.start_providers(1);
  pool().set_next_file_no(40);
  pool().set_next_file_no(30);
  LS_ASSERT_OK(open(worker_.ctx, 7, true, &file_));
  FileNo first = file_->file_no;
  EXPECT_EQ(first, 40u);
  pool().forget_file(ToyTree::key_of(7));
  pool().forget_file(ToyTree::key_of(7));
  EXPECT_EQ(pool().find_file(ToyTree::key_of(7)), nullptr);
  FileSlot *again;
  LS_ASSERT_OK(open(worker_.ctx, 7, true, &again));
  EXPECT_EQ(again->file_no, first + 1);
  EXPECT_NE(again, file_) << "a slot is not reused while others are unused";
  EXPECT_TRUE(becomes_unused(file_));
  OptimisticGuard meta;
  EXPECT_EQ(pool().resolve_meta(*file_, meta), Step::kError);
  EXPECT_EQ(last_error().status, LS_NOT_FOUND);
}

// PLACE-4
TEST_F(FileTableTest, a_file_that_ends_in_a_block_is_made_longer) {
  test_.start_providers(1);
  LS_ASSERT_OK(open(worker_.ctx, 7, true, &file_));
  LS_ASSERT_OK(pool().flush(worker_.ctx, ~Gsn{0}, false));
  pool().forget_file(ToyTree::key_of(7));
  const u64 bytes = std::filesystem::file_size(test_.path("rel7"));
  ASSERT_EQ(bytes % (2 * kPageSize), 0u);
  std::filesystem::resize_file(test_.path("rel7"), bytes + kPageSize);
  LS_ASSERT_OK(open(worker_.ctx, 7, true, &file_));
  EXPECT_GT(std::filesystem::file_size(test_.path("rel7")), bytes + kPageSize);
  EXPECT_EQ(std::filesystem::file_size(test_.path("rel7")) % (2 * kPageSize), 0u);
}

// USE-1
TEST_F(FileTableTest, a_file_in_use_is_not_closed_and_one_being_closed_is_not_used) {
  PoolShared &shared = *pool().shared();
  FileSlot *other;
  LS_ASSERT_OK(open(worker_.ctx, 7, false, &file_));
  LS_ASSERT_OK(open(worker_.ctx, 8, false, &other));
  const FileHandle handle{file_, file_->file_no.load()};
  std::array<FileUse, FileUses::kCount> uses;
  for (FileUse &use : uses)
    ASSERT_TRUE(use.begin_open(worker_.ctx, {other, other->file_no.load()}));
  FileUse use;
  ASSERT_TRUE(use.begin_open(worker_.ctx, handle));
  // The closer meets it only after it has changed the state.
  EXPECT_EQ(file_->further_uses.load(), 1u) << "the worker's line is full";
  EXPECT_TRUE(begin_closing(shared, 3).empty());
  EXPECT_TRUE(file_is(*file_, FileState::kActive));
  use.end();
  ASSERT_EQ(begin_closing(shared, 3), std::vector<FileSlot *>{file_});
  EXPECT_FALSE(use.begin_open(worker_.ctx, handle));
  EXPECT_FALSE(file_in_use(shared, *file_)) << "what was announced in vain is left";
  end_closing(shared, *file_, false);
  EXPECT_TRUE(use.begin_open(worker_.ctx, handle));
}

// USE-2
TEST_F(FileTableTest, a_slot_gets_no_other_file_while_it_is_in_use) {
  test_.start_providers(1);
  LS_ASSERT_OK(open(worker_.ctx, 7, false, &file_));
  FileUse use;
  ASSERT_TRUE(use.begin_open(worker_.ctx, {file_, file_->file_no.load()}));
  pool().forget_file(ToyTree::key_of(7));
  for (int i = 0; i < 1000 && file_->frames.load() != 0; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_EQ(file_->frames.load(), 0u);
  finish_leaving(*pool().shared(), *file_);
  EXPECT_TRUE(file_is(*file_, FileState::kForgotten));
  for (u32 relation : {8, 9}) {
    FileSlot *other;
    LS_ASSERT_OK(open(worker_.ctx, relation, false, &other));
    EXPECT_NE(other, file_);
  }
  use.end();
  EXPECT_TRUE(becomes_unused(file_));
}

TEST_F(FileTableTest, a_descent_under_way_ends_when_its_file_is_forgotten) {
  LS_ASSERT_OK(open(worker_.ctx, 7, false, &file_));
  OptimisticGuard meta, root;
  ASSERT_EQ(pool().resolve_meta(*file_, meta), Step::kOk);
  pool().forget_file(ToyTree::key_of(7));
  Swip *location = swip_at(&reinterpret_cast<MetaPage *>(const_cast<u8 *>(meta.page()))->root);
  EXPECT_EQ(pool().resolve(worker_.ctx, meta, location, *file_, root), Step::kError);
  EXPECT_EQ(last_error().status, LS_NOT_FOUND);
  Frame *frame;
  EXPECT_EQ(code(pool().new_frame(worker_.ctx, *file_, kInvalidPageNo, PageKind::kLeaf, &frame)),
            LS_NOT_FOUND);
  EXPECT_EQ(code(pool().load_page(worker_.ctx, *file_, 1, &frame)), LS_NOT_FOUND);
}

TEST_F(FileTableTest, forgetting_a_database_forgets_its_files_only) {
  ls_rel_key elsewhere{1, 99, 5, -1};
  test_.create_file("rel5");
  LS_ASSERT_OK(open(worker_.ctx, 7, false, &file_));
  LS_ASSERT_OK(open(worker_.ctx, 8, false, &file_));
  LS_ASSERT_OK(pool().open_file(worker_.ctx, elsewhere, "rel5", LS_REL_TABLE, false, 0,
                                counted_format, &file_));
  LS_ASSERT_OK(pool().forget_database(worker_.ctx, 2));
  EXPECT_EQ(pool().find_file(ToyTree::key_of(7)), nullptr);
  EXPECT_EQ(pool().find_file(ToyTree::key_of(8)), nullptr);
  EXPECT_EQ(pool().find_file(elsewhere), file_);
}

TEST_F(FileTableTest, the_log_names_each_logged_file_before_it_is_used_and_at_checkpoints) {
  FileSlot *unlogged;
  LS_ASSERT_OK(open(worker_.ctx, 7, true, &file_));
  LS_ASSERT_OK(open(worker_.ctx, 8, false, &unlogged));
  FileNo file_no = file_->file_no;
  Gsn before = test_.log().last_gsn();
  LS_ASSERT_OK(pool().log_files(worker_.ctx));
  ASSERT_TRUE(test_.log().wait_hardened(test_.log().last_gsn(), nullptr));
  LogImage image = test_.crash();
  std::vector<Gsn> named;
  for (const LogEntry &entry : image.entries) {
    const LogRecord logged = entry.record();
    if (logged.kind != RecordKind::kFile) continue;
    FileRecord record;
    LogBytes path;
    ASSERT_EQ(load_file_record(logged, &record, &path), nullptr);
    EXPECT_EQ(record.file, file_no);
    EXPECT_EQ(record.relation, 7u);
    EXPECT_EQ(record.kind, LS_REL_TABLE);
    EXPECT_EQ(record.logged, 1);
    EXPECT_EQ(std::string(path.begin(), path.end()), "rel7");
    named.push_back(entry.gsn);
  }
  ASSERT_EQ(named.size(), 2u);
  EXPECT_EQ(named[0], 1u);
  EXPECT_GT(named[1], before);
}

}  // namespace
}  // namespace ls::buffer_test
