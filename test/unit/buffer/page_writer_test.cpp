// What dirty means: while a copy of the page is on its way, when that fails, and after the page was
// freed.
#include "buffer/page_writer.hpp"

#include <filesystem>

#include "unit/base/failpoint_actions.hpp"
#include "unit/buffer/pool_fixture.hpp"
#include "unit/wal/log_fixture.hpp"

namespace ls::buffer_test {
namespace {

using Added = PageWriter::Added;
using Patience = PageWriter::Patience;

class PageWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    register_toy_tree();
    LS_ASSERT_OK(ToyTree::open(test_, worker_.ctx, 7, true, &file_));
    tree_ = std::make_unique<ToyTree>(worker_.ctx, *file_);
    LS_ASSERT_OK(tree_->add_leaves(20));
    flush();
    ASSERT_EQ(test_.pool().oldest_dirty(), ~Gsn{0});
  }
  void flush() { LS_ASSERT_OK(test_.pool().flush(worker_.ctx, ~Gsn{0}, false)); }
  Gsn increment(u32 leaf) {
    Gsn gsn = 0;
    LS_EXPECT_OK(tree_->increment(leaf, nullptr, &gsn));
    return gsn;
  }
  void harden() { ASSERT_TRUE(test_.log().wait_hardened(test_.log().last_gsn(), nullptr)); }
  ToyLeaf on_disk(PageNo page_no) {
    ToyLeaf leaf;
    std::ifstream in(test_.path("rel7"), std::ios::binary);
    in.seekg(u64{page_no} * kPageSize);
    in.read(reinterpret_cast<char *>(&leaf), sizeof leaf);
    return leaf;
  }

  TestPool test_{200};
  TestWorker worker_{test_, 0};
  FileSlot *file_ = nullptr;
  std::unique_ptr<ToyTree> tree_;
};

// PLACE-4; redo does so.
TEST_F(PageWriterTest, a_page_behind_the_end_makes_the_file_longer_by_a_whole_block) {
  const u32 leaf = tree_->frame_of(10)->page_no.load() % 2 == 0 ? 10 : 11;
  const PageNo page_no = tree_->frame_of(leaf)->page_no.load();
  ASSERT_EQ(page_no % 2, 0u);
  std::filesystem::resize_file(test_.path("rel7"), u64{page_no} * kPageSize);
  file_->pages_allocated.store(page_no);
  increment(leaf);
  flush();
  EXPECT_GT(std::filesystem::file_size(test_.path("rel7")), u64{page_no} * kPageSize);
  EXPECT_EQ(std::filesystem::file_size(test_.path("rel7")) % (2 * kPageSize), 0u);
}

// WRITE-4
TEST_F(PageWriterTest, a_change_during_the_write_makes_the_page_dirty_since_that_change) {
  Gsn first = increment(3);
  Frame *frame = tree_->frame_of(3);
  EXPECT_EQ(frame->dirty_since.load(), first);
  increment(3);
  EXPECT_EQ(frame->dirty_since.load(), first);
  EXPECT_EQ(test_.pool().oldest_dirty(), first);
  PageWriter writer(test_.pool());
  ASSERT_EQ(writer.add(frame, ~Gsn{0}, Patience::kWait), Added::kYes);
  Gsn later = increment(3);
  increment(3);
  EXPECT_EQ(test_.pool().oldest_dirty(), first) << "the copy is not durable yet";
  LS_ASSERT_OK(writer.write(nullptr));
  EXPECT_EQ(frame->dirty_since.load(), later);
  EXPECT_EQ(test_.pool().oldest_dirty(), later);
  EXPECT_EQ(on_disk(tree_->page_no_of(3)).value, 2u);
  flush();
  EXPECT_EQ(frame->dirty_since.load(), 0u);
  EXPECT_EQ(on_disk(tree_->page_no_of(3)).value, 4u);
}

TEST_F(PageWriterTest,
       a_write_or_sync_that_failed_before_any_page_was_touched_leaves_every_page_dirty_as_it_was) {
  Gsn first = increment(3);
  Gsn second = increment(4);
  for (FaultOp op : {FaultOp::kWrite, FaultOp::kSync}) {
    if (op == FaultOp::kSync) file_setup(test_.path("").c_str(), false, true, 32);
    fault_add({.op = op, .path_part = "doublewrite", .every = true});
    EXPECT_EQ(code(test_.pool().flush(worker_.ctx, ~Gsn{0}, false)), LS_IO_ERROR);
    increment(3);
    EXPECT_EQ(tree_->frame_of(3)->dirty_since.load(), first);
    EXPECT_EQ(tree_->frame_of(4)->dirty_since.load(), second);
    fault_clear();
  }
  flush();
  EXPECT_EQ(test_.pool().oldest_dirty(), ~Gsn{0});
}

// More often than there are areas of the doublewrite buffer.
TEST_F(PageWriterTest, a_full_disk_is_tried_again_until_there_is_room) {
  file_setup(test_.path("").c_str(), false, true, 32);
  Gsn first = increment(3);
  fault_add({.op = FaultOp::kWrite, .path_part = "rel7", .every = true, .error = ENOSPC});
  for (int i = 0; i < 10; i++)
    EXPECT_EQ(code(test_.pool().flush(worker_.ctx, ~Gsn{0}, false)), LS_NO_SPACE);
  EXPECT_EQ(tree_->frame_of(3)->dirty_since.load(), first);
  fault_clear();
  flush();
  EXPECT_EQ(on_disk(tree_->page_no_of(3)).value, 1u);
  EXPECT_FALSE(test_.pool().shared()->failure.noted(nullptr));
}

// What a failed sync was to make durable may be gone, and a sync that succeeds later says nothing
// about it.
TEST_F(PageWriterTest, after_a_failed_write_or_sync_of_a_page_nothing_is_written_any_more) {
  const FaultRule rules[] = {{.op = FaultOp::kWrite, .path_part = "rel7", .error = EIO},
                             {.op = FaultOp::kSync, .path_part = "rel7", .error = EIO},
                             {.op = FaultOp::kSync, .path_part = "rel7", .error = ENOSPC}};
  for (const FaultRule &rule : rules) {
    SCOPED_TRACE(static_cast<int>(rule.op));
    TestPool test(100, 8, true);
    TestWorker worker(test, 0);
    FileSlot *file;
    LS_ASSERT_OK(ToyTree::open(test, worker.ctx, 7, true, &file));
    ToyTree tree(worker.ctx, *file);
    LS_ASSERT_OK(tree.add_leaves(10));
    fault_add(rule);
    EXPECT_EQ(code(test.pool().flush(worker.ctx, ~Gsn{0}, false)), LS_IO_ERROR);
    EXPECT_EQ(last_error().status, LS_IO_ERROR) << "or it has no text (capi/api_call.hpp)";
    fault_clear();
    ls_error error;
    ASSERT_TRUE(test.pool().shared()->failure.noted(&error));
    EXPECT_EQ(error.sys_errno, rule.error);
    EXPECT_EQ(code(test.pool().flush(worker.ctx, ~Gsn{0}, false)), LS_IO_ERROR);
    EXPECT_NE(test.pool().oldest_dirty(), ~Gsn{0}) << "the log is kept";
  }
}

// WRITE-2
TEST_F(PageWriterTest, a_page_does_not_overtake_the_log) {
  test::StalledAppend stalled(test_.log(), 1);  // nothing behind it is hardened
  increment(3);
  Frame *frame = tree_->frame_of(3);
  {
    PageWriter writer(test_.pool());
    EXPECT_EQ(writer.add(frame, ~Gsn{0}, Patience::kTry), Added::kBusy);
    EXPECT_GT(writer.unhardened(), 0u);
    EXPECT_TRUE(writer.empty());
  }
  std::atomic<bool> flushed{false};
  std::thread flusher([&] {
    TestWorker worker(test_, 2);
    LS_EXPECT_OK(test_.pool().flush(worker.ctx, ~Gsn{0}, false));
    flushed.store(true);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(flushed.load());
  EXPECT_EQ(on_disk(tree_->page_no_of(3)).value, 0u);
  stalled.end();
  flusher.join();
  EXPECT_EQ(on_disk(tree_->page_no_of(3)).value, 1u);
  EXPECT_EQ(frame->dirty_since.load(), 0u);
}

// FRAME-4
TEST_F(PageWriterTest, a_freed_page_holds_the_log_back_until_its_last_image_is_written) {
  PageNo page_no = tree_->page_no_of(3);
  Gsn gsn = increment(3);
  u32 frames = file_->frames.load();
  LS_ASSERT_OK(tree_->remove_leaf(3));
  EXPECT_EQ(test_.pool().oldest_dirty(), gsn);
  EXPECT_EQ(file_->frames.load(), frames);
  flush();
  EXPECT_EQ(test_.pool().oldest_dirty(), ~Gsn{0});
  EXPECT_EQ(on_disk(page_no).value, 1u);
  EXPECT_EQ(on_disk(page_no).header.gsn, gsn);
  EXPECT_EQ(file_->frames.load(), frames - 1) << "written, the frame is free";
}

TEST_F(PageWriterTest, a_clean_page_is_freed_at_once) {
  u32 frames = file_->frames.load();
  LS_ASSERT_OK(tree_->remove_leaf(3));
  EXPECT_EQ(file_->frames.load(), frames - 1);
}

TEST_F(PageWriterTest, the_next_user_of_a_freed_page_takes_over_what_it_owes_the_log) {
  PageNo page_no = tree_->page_no_of(3);
  Gsn gsn = increment(3);
  LS_ASSERT_OK(tree_->remove_leaf(3));
  u32 frames = file_->frames.load();
  LS_ASSERT_OK(tree_->add_leaf(30));
  ASSERT_EQ(tree_->page_no_of(30), page_no);
  EXPECT_EQ(file_->frames.load(), frames);
  EXPECT_EQ(test_.pool().oldest_dirty(), gsn);
  EXPECT_EQ(tree_->frame_of(30)->dirty_since.load(), gsn);
  flush();
  EXPECT_EQ(on_disk(page_no).index, 30u);
  EXPECT_EQ(test_.pool().oldest_dirty(), ~Gsn{0});
}

// WRITE-3
TEST_F(PageWriterTest, an_image_on_its_way_is_not_overtaken_by_the_next_user_of_its_page) {
  PageNo page_no = tree_->page_no_of(3);
  increment(3);
  Frame *old_frame = tree_->frame_of(3);
  PageWriter first(test_.pool()), second(test_.pool());
  ASSERT_EQ(first.add(old_frame, ~Gsn{0}, Patience::kWait), Added::kYes);
  LS_ASSERT_OK(tree_->remove_leaf(3));
  LS_ASSERT_OK(tree_->add_leaf(30));
  ASSERT_EQ(tree_->page_no_of(30), page_no);
  Frame *new_frame = tree_->frame_of(30);
  ASSERT_NE(new_frame, old_frame);
  EXPECT_EQ(second.add(new_frame, ~Gsn{0}, Patience::kWait), Added::kBusy);
  u32 frames = file_->frames.load();
  LS_ASSERT_OK(first.write(nullptr));
  EXPECT_EQ(file_->frames.load(), frames - 1) << "the old frame goes when its write ends";
  EXPECT_NE(new_frame->dirty_since.load(), 0u);
  ASSERT_EQ(second.add(new_frame, ~Gsn{0}, Patience::kWait), Added::kYes);
  LS_ASSERT_OK(second.write(nullptr));
  EXPECT_EQ(on_disk(page_no).index, 30u);
}

// A: finishes the record, page still latched.  Checkpointer: scans.  A: marks the page.
TEST_F(PageWriterTest, race_scan_vs_mark_dirty_waits_for_the_mark) {
  ExclusiveGuard leaf = ExclusiveGuard::lock(test_.pool(), tree_->frame_of(3));
  LS_ASSERT_OK(worker_.log.reserve(64, nullptr));
  worker_.log.start(RecordKind::kSystem);
  Gsn gsn = worker_.log.finish();
  harden();
  Gsn oldest = 0;
  std::atomic<bool> flushed{false};
  std::thread checkpointer([&] {
    TestWorker worker(test_, 1);
    oldest = test_.pool().oldest_dirty();
    LS_EXPECT_OK(test_.pool().flush(worker.ctx, ~Gsn{0}, false));
    flushed.store(true);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(flushed.load());
  test_.pool().mark_dirty(leaf.frame(), gsn);
  Frame *frame = leaf.frame();
  leaf.reset();
  checkpointer.join();
  EXPECT_EQ(oldest, gsn);
  EXPECT_EQ(frame->dirty_since.load(), 0u);
}

TEST_F(PageWriterTest, flush_writes_what_it_is_asked_for_and_nothing_else) {
  FileSlot *unlogged, *versions;
  test_.create_file("rel8");
  LS_ASSERT_OK(test_.pool().open_file(worker_.ctx, {1, 99, 8, -1}, "rel8", LS_REL_TABLE, false, 0,
                                      ToyTree::format, &unlogged));
  LS_ASSERT_OK(ToyTree::open(test_, worker_.ctx, 9, false, &versions, 0, LS_REL_VERSIONS));
  Gsn old_gsn = increment(3), new_gsn = increment(4);
  auto dirty = [](FileSlot *slot) { return slot->meta.load()->dirty_since.load() != 0; };
  LS_ASSERT_OK(test_.pool().flush(worker_.ctx, old_gsn, false));
  EXPECT_EQ(tree_->frame_of(3)->dirty_since.load(), 0u);
  EXPECT_EQ(tree_->frame_of(4)->dirty_since.load(), new_gsn);
  EXPECT_TRUE(dirty(unlogged));
  LS_ASSERT_OK(test_.pool().flush_database(worker_.ctx, 99));
  EXPECT_FALSE(dirty(unlogged));
  EXPECT_EQ(tree_->frame_of(4)->dirty_since.load(), new_gsn);
  LS_ASSERT_OK(test_.pool().flush(worker_.ctx, ~Gsn{0}, true));
  EXPECT_EQ(test_.pool().oldest_dirty(), ~Gsn{0});
  EXPECT_TRUE(dirty(versions)) << "the version store is never flushed";
}

TEST_F(PageWriterTest, forgetting_a_file_waits_for_its_writes_and_drops_the_rest) {
  increment(3);
  Frame *frame = tree_->frame_of(3);
  PageWriter writer(test_.pool());
  ASSERT_EQ(writer.add(frame, ~Gsn{0}, Patience::kWait), Added::kYes);
  ASSERT_TRUE(pin_file(*file_, file_->file_no));
  std::atomic<bool> forgotten{false};
  std::thread forgetter([&] {
    test_.pool().forget_file(ToyTree::key_of(7));
    forgotten.store(true);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(forgotten.load()) << "a write is under way";
  unpin_file(*file_);
  forgetter.join();
  harden();
  u64 writes = test_.pool().stats().writes;
  LS_ASSERT_OK(writer.write(nullptr));
  EXPECT_EQ(test_.pool().stats().writes, writes) << "copied before, but not written any more";
  EXPECT_EQ(test_.pool().oldest_dirty(), ~Gsn{0}) << "a dropped file does not hold the log";
}

#if LS_FAILPOINTS
// WRITE-4
// Page writer: writes its copy in place.  A worker changes the page, a checkpointer looks for the
// oldest change.  Page writer: syncs.
TEST_F(PageWriterTest, race_change_and_scan_vs_sync_keep_both_marks) {
  const Gsn first = increment(3);
  Gsn later = 0;
  Frame *frame = tree_->frame_of(3);
  const PageNo page_no = tree_->page_no_of(3);
  test::OnceAt point(Failpoint::buffer_before_sync, [&] {
    EXPECT_EQ(on_disk(page_no).value, 1u);
    EXPECT_EQ(test_.pool().oldest_dirty(), first) << "written, but not durable";
    later = increment(3);
    EXPECT_EQ(test_.pool().oldest_dirty(), first);
  });
  flush();
  EXPECT_TRUE(point.reached());
  EXPECT_EQ(frame->dirty_since.load(), later);
  EXPECT_EQ(test_.pool().oldest_dirty(), later);
}
#endif

}  // namespace
}  // namespace ls::buffer_test
