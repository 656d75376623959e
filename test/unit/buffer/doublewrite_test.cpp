// Power loss at every sector of every write of a batch: afterwards each page is the old or the new
// one, whole.
#include "buffer/doublewrite.hpp"

#include <cerrno>

#include "buffer/page_writer.hpp"

#include "unit/buffer/pool_fixture.hpp"

namespace ls::buffer_test {
namespace {

constexpr u32 kSector = 512;
constexpr u32 kSectors = kPageSize / kSector;

class DoublewriteTest : public ::testing::Test {
 protected:
  void SetUp() override { register_toy_tree(); }

  // Leaf 3 is on disk with value 1 and dirty with value 2; the pool's owner then loses power as
  // `rule` says.
  void lose_power_while_flushing(FaultRule rule, bool expect_failure = true) {
    TestWorker worker(test_, 0);
    FileSlot *file;
    LS_ASSERT_OK(ToyTree::open(test_, worker.ctx, 7, true, &file));
    ToyTree tree(worker.ctx, *file);
    u64 value = 0;
    if (!ok(tree.read(3, &value))) {
      LS_ASSERT_OK(tree.add_leaves(10));
    }
    page_no_ = tree.page_no_of(3);
    LS_ASSERT_OK(tree.increment(3, nullptr));
    LS_ASSERT_OK(test_.pool().flush(worker.ctx, ~Gsn{0}, false));
    LS_ASSERT_OK(tree.read(3, &old_value_));
    LS_ASSERT_OK(tree.increment(3, nullptr));
    ASSERT_TRUE(test_.log().wait_hardened(test_.log().last_gsn(), nullptr));
    rule.outcome = FaultOutcome::kCrash;
    fault_add(rule);
    Status status = test_.pool().flush(worker.ctx, ~Gsn{0}, false);
    EXPECT_EQ(ok(status), !expect_failure);
  }
  void restart() {
    fault_clear();
    test_.crash();
  }
  ToyLeaf on_disk() {
    alignas(8) u8 page[kPageSize];
    std::ifstream in(test_.path("rel7"), std::ios::binary);
    in.seekg(u64{page_no_} * kPageSize);
    in.read(reinterpret_cast<char *>(page), kPageSize);
    fault_ = page_fault(page, page_no_, ~Gsn{0});
    ToyLeaf leaf;
    std::memcpy(&leaf, page, sizeof leaf);
    return leaf;
  }

  TestPool test_{100, 8, true};
  PageNo page_no_ = 0;
  u64 old_value_ = 0;
  const char *fault_ = nullptr;
};

TEST_F(DoublewriteTest, a_page_torn_in_place_at_any_sector_comes_back_whole) {
  for (u32 sectors = 0; sectors <= kSectors; sectors++) {
    SCOPED_TRACE(sectors);
    lose_power_while_flushing(
        {.op = FaultOp::kWrite, .path_part = "rel7", .first_bytes = sectors * kSector});
    restart();
    ToyLeaf before = on_disk();
    bool torn = fault_ != nullptr;
    EXPECT_EQ(torn, sectors > 0 && sectors < kSectors);
    LS_ASSERT_OK(doublewrite_recover(test_.doublewrite().c_str()));
    ToyLeaf after = on_disk();
    EXPECT_EQ(fault_, nullptr);
    EXPECT_TRUE(after.whole());
    EXPECT_EQ(after.value, torn ? old_value_ + 1 : before.value);
    // A second recovery finds nothing to do.
    LS_ASSERT_OK(doublewrite_recover(test_.doublewrite().c_str()));
    EXPECT_EQ(on_disk().value, after.value);
  }
}

// The process died between write and sync: the page is whole in the page cache only, and its image
// must not go before it is durable.
TEST_F(DoublewriteTest, a_whole_page_is_synced_before_its_image_goes) {
  lose_power_while_flushing({.op = FaultOp::kWrite, .path_part = "rel7", .first_bytes = kPageSize});
  restart();
  EXPECT_EQ(on_disk().value, old_value_ + 1);
  EXPECT_EQ(fault_, nullptr);
  fault_add({.op = FaultOp::kSync, .path_part = "rel7", .error = EIO});
  EXPECT_EQ(code(doublewrite_recover(test_.doublewrite().c_str())), LS_IO_ERROR);
  fault_clear();
  // After that sync the page cache has nothing that another one would write.
  fault_add({.op = FaultOp::kWrite, .path_part = "rel7", .error = EIO});
  EXPECT_EQ(code(doublewrite_recover(test_.doublewrite().c_str())), LS_IO_ERROR)
      << "it is written again";
  fault_clear();
  LS_ASSERT_OK(doublewrite_recover(test_.doublewrite().c_str()));
}

// DBLW-1
TEST_F(DoublewriteTest, a_torn_copy_leaves_the_pages_alone) {
  for (u32 sectors = 0; sectors < 2 * kSectors; sectors++) {
    SCOPED_TRACE(sectors);
    lose_power_while_flushing(
        {.op = FaultOp::kWrite, .path_part = "doublewrite", .first_bytes = sectors * kSector});
    restart();
    EXPECT_EQ(on_disk().value, old_value_)
        << "nothing is written in place before the guard is durable";
    LS_ASSERT_OK(doublewrite_recover(test_.doublewrite().c_str()));
    EXPECT_EQ(on_disk().value, old_value_);
    EXPECT_EQ(fault_, nullptr);
  }
}

TEST_F(DoublewriteTest, power_loss_at_either_sync_is_survived) {
  for (const char *path : {"doublewrite", "rel7"}) {
    SCOPED_TRACE(path);
    lose_power_while_flushing({.op = FaultOp::kSync, .path_part = path});
    restart();
    LS_ASSERT_OK(doublewrite_recover(test_.doublewrite().c_str()));
    ToyLeaf leaf = on_disk();
    EXPECT_EQ(fault_, nullptr);
    EXPECT_EQ(leaf.value, std::string(path) == "rel7" ? old_value_ + 1 : old_value_);
  }
}

// The disk took a part of the page and then no more; others write more batches than there are
// areas; then the power fails.
// DBLW-4
TEST_F(DoublewriteTest, a_page_left_half_written_keeps_its_image_whatever_is_written_later) {
  for (int error : {EIO, ENOSPC}) {
    SCOPED_TRACE(error);
    TestWorker worker(test_, 0);
    FileSlot *file;
    LS_ASSERT_OK(ToyTree::open(test_, worker.ctx, 7, true, &file));
    ToyTree tree(worker.ctx, *file);
    if (error == EIO) {
      LS_ASSERT_OK(tree.add_leaves(10));
    }
    page_no_ = tree.page_no_of(3);
    LS_ASSERT_OK(test_.pool().flush(worker.ctx, ~Gsn{0}, false));
    LS_ASSERT_OK(tree.increment(3, nullptr));
    LS_ASSERT_OK(tree.read(3, &old_value_));
    fault_add({.op = FaultOp::kWrite, .path_part = "rel7", .error = error, .first_bytes = kSector});
    EXPECT_FALSE(ok(test_.pool().flush(worker.ctx, ~Gsn{0}, false)));
    fault_clear();
    PageWriter writer(test_.pool());
    for (u32 i = 0; i < 2 * kTearAreas; i++) {
      LS_ASSERT_OK(tree.increment(5, nullptr));
      ASSERT_EQ(writer.add(tree.frame_of(5), ~Gsn{0}, PageWriter::Patience::kWait),
                PageWriter::Added::kYes);
      (void)writer.write(nullptr);
    }
    restart();
    on_disk();
    EXPECT_NE(fault_, nullptr) << "the page is to be torn";
    LS_ASSERT_OK(doublewrite_recover(test_.doublewrite().c_str()));
    const ToyLeaf leaf = on_disk();
    ASSERT_EQ(fault_, nullptr);
    EXPECT_EQ(leaf.value, old_value_);
  }
}

// DBLW-2
TEST_F(DoublewriteTest, no_image_outlives_its_batch) {
  // The log write of a later record: everything of the flush is over by then.
  lose_power_while_flushing({.op = FaultOp::kWrite, .path_part = "no such file"}, false);
  restart();
  ToyLeaf good = on_disk();
  EXPECT_EQ(good.value, old_value_ + 1);
  {
    std::fstream out(test_.path("rel7"), std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(u64{page_no_} * kPageSize + 100);
    out.put(1);
  }
  LS_ASSERT_OK(doublewrite_recover(test_.doublewrite().c_str()));
  on_disk();
  EXPECT_STREQ(fault_, "checksum does not match")
      << "damage that is no torn write must be told, not hidden";
}

// Images made by hand.
struct Image {
  explicit Image(PageNo page_no, Gsn gsn, u64 value) {
    block.reset(std::aligned_alloc(kPageSize, kTearAreaBytes));
    std::memset(block.get(), 0, kTearAreaBytes);
    auto *leaf = reinterpret_cast<ToyLeaf *>(page());
    leaf->header.kind = PageKind::kLeaf;
    leaf->header.format = kPageFormat;
    leaf->header.page_no = page_no;
    leaf->header.gsn = gsn;
    leaf->set(page_no, value);
    page_seal(page());
  }
  u8 *page() { return static_cast<u8 *>(block.get()) + kTearHeaderPages * kPageSize; }
  PageWrite write(const char *path) {
    return {{1, path}, reinterpret_cast<PageHeader *>(page())->page_no, page()};
  }
  Memory block;
};

// DBLW-3
TEST_F(DoublewriteTest, of_several_images_the_newest_counts) {
  for (bool newest_first : {true, false}) {
    DoublewriteBuffer a(*test_.pool().shared()), b(*test_.pool().shared());
    Image old_image(2, 10, 100), new_image(2, 20, 200);
    PageWrite writes[] = {old_image.write("rel9"), new_image.write("rel9")};
    LS_ASSERT_OK(a.begin(static_cast<u8 *>((newest_first ? new_image : old_image).block.get()),
                         {&writes[newest_first], 1}, nullptr));
    LS_ASSERT_OK(b.begin(static_cast<u8 *>((newest_first ? old_image : new_image).block.get()),
                         {&writes[!newest_first], 1}, nullptr));
    std::string junk(3 * kPageSize, 'x');
    std::ofstream(test_.path("rel9"), std::ios::binary) << junk;
    LS_ASSERT_OK(doublewrite_recover(test_.doublewrite().c_str()));
    ToyLeaf leaf;
    std::ifstream in(test_.path("rel9"), std::ios::binary);
    in.seekg(2 * kPageSize);
    in.read(reinterpret_cast<char *>(&leaf), sizeof leaf);
    EXPECT_EQ(leaf.value, 200u);
  }
}

TEST_F(DoublewriteTest, pages_never_written_and_files_gone_are_not_brought_back) {
  DoublewriteBuffer guard(*test_.pool().shared());
  Image image(2, 10, 100);
  PageWrite write = image.write("rel9");
  LS_ASSERT_OK(guard.begin(static_cast<u8 *>(image.block.get()), {&write, 1}, nullptr));
  auto recover_leaves = [&](u64 bytes) {
    LS_ASSERT_OK(doublewrite_recover(test_.doublewrite().c_str()));
    if (!std::filesystem::exists(test_.path("rel9"))) return;
    EXPECT_EQ(std::filesystem::file_size(test_.path("rel9")), bytes);
    std::ifstream in(test_.path("rel9"), std::ios::binary);
    std::string content((std::istreambuf_iterator<char>(in)), {});
    EXPECT_EQ(content, std::string(bytes, '\0'));
  };
  recover_leaves(0);
  EXPECT_FALSE(std::filesystem::exists(test_.path("rel9")));
  for (u64 pages : {2u, 3u}) {  // short; long enough but zero there
    LS_ASSERT_OK(guard.begin(static_cast<u8 *>(image.block.get()), {&write, 1}, nullptr));
    std::ofstream(test_.path("rel9"), std::ios::binary) << std::string(pages * kPageSize, '\0');
    recover_leaves(pages * kPageSize);
  }
}

TEST_F(DoublewriteTest, no_doublewrite_file_is_no_error) {
  LS_EXPECT_OK(doublewrite_recover(test_.path("nothing").c_str()));
}

}  // namespace
}  // namespace ls::buffer_test
