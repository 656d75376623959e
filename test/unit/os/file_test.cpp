// file_test.cpp - relation files, plain files and batches of writes, buffered and direct.
#include "os/file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "os/fault.hpp"
#include "os/fd_cache.hpp"
#include "unit/os/temp_directory.hpp"

namespace ls {
namespace {

struct alignas(kPageSize) Page {
  u8 bytes[kPageSize];
};

class FileTest : public testing::TestWithParam<bool> {
 protected:
  FileTest() { file_setup(directory_.path().c_str(), GetParam(), true, 8); }
  ~FileTest() override {
    for (FileNo no = 1; no < 200; no++) file_forget(no);
    fault_clear();
    file_setup(".", false, true, 256);
  }

  FileRef make(FileNo no, const char *name) {
    std::ofstream(directory_ / name).flush();
    return {no, name};
  }
  static Page page_of(u8 fill) {
    Page page;
    std::memset(page.bytes, fill, kPageSize);
    return page;
  }
  void expect_page(const FileRef &file, PageNo no, u8 fill) {
    Page page{};
    ASSERT_TRUE(ok(file_read_page(file, no, page.bytes))) << last_error().message;
    EXPECT_EQ(std::memcmp(page.bytes, page_of(fill).bytes, kPageSize), 0) << "page " << no;
  }
  ls_status read_status(const FileRef &file, PageNo no) {
    Page page;
    return code(file_read_page(file, no, page.bytes));
  }

  test::TempDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(Io, FileTest, testing::Bool(),
                         [](const auto &info) { return info.param ? "direct" : "buffered"; });

TEST_P(FileTest, a_file_begins_with_what_it_is_given) {
  const FileRef file = make(1, "a");
  Page pages[2] = {page_of(7), page_of(0)};
  const std::span<const u8> bytes(pages[0].bytes, sizeof pages);
  ASSERT_TRUE(ok(file_begin(file, bytes))) << last_error().message;
  u32 n;
  ASSERT_TRUE(ok(file_pages(file, &n)));
  EXPECT_EQ(n, 2u);
  expect_page(file, 0, 7);
  EXPECT_EQ(read_status(file, 1), LS_END) << "a page of zeros was never written";
  // What comes later goes past the page cache, perhaps, and is what is read.
  ASSERT_TRUE(ok(file_write_page(file, 0, page_of(8).bytes)));
  ASSERT_TRUE(ok(file_extend(file, 4)));
  ASSERT_TRUE(ok(file_write_page(file, 1, page_of(9).bytes)));
  ASSERT_TRUE(ok(file_sync(file)));
  expect_page(file, 0, 8);
  expect_page(file, 1, 9);

  EXPECT_EQ(code(file_begin({2, "none"}, bytes)), LS_NOT_FOUND) << "the host makes the file";
  fault_add({.op = FaultOp::kWrite, .path_part = "b", .nth = 1, .error = ENOSPC});
  EXPECT_EQ(code(file_begin(make(3, "b"), bytes)), LS_NO_SPACE);
  EXPECT_EQ(fault_hits(), 1u);
  ASSERT_TRUE(ok(file_begin(make(3, "b"), bytes))) << "and again";
  expect_page({3, "b"}, 0, 7);
}

TEST_P(FileTest, pages_come_back) {
  FileRef file = make(1, "a");
  ASSERT_TRUE(ok(file_extend(file, 8)));
  for (u8 i = 0; i < 8; i++) ASSERT_TRUE(ok(file_write_page(file, i, page_of(i + 1).bytes)));
  for (u8 i = 0; i < 8; i++) expect_page(file, i, i + 1);
  u32 pages;
  ASSERT_TRUE(ok(file_pages(file, &pages)));
  EXPECT_EQ(pages, 8u);
  EXPECT_TRUE(ok(file_sync(file)));
}

TEST_P(FileTest, unaligned_buffers_are_fine) {
  FileRef file = make(1, "a");
  ASSERT_TRUE(ok(file_extend(file, 2)));
  std::vector<u8> buffer(kPageSize + 1);
  u8 *unaligned = buffer.data() + (reinterpret_cast<uintptr_t>(buffer.data()) % 2 == 0);
  std::memset(unaligned, 0x77, kPageSize);
  ASSERT_TRUE(ok(file_write_page(file, 1, unaligned)));
  std::memset(unaligned, 0, kPageSize);
  ASSERT_TRUE(ok(file_read_page(file, 1, unaligned)));
  EXPECT_EQ(unaligned[0], 0x77);
  EXPECT_EQ(unaligned[kPageSize - 1], 0x77);
}

TEST_P(FileTest, what_was_never_written_is_the_end) {
  FileRef file = make(1, "a");
  EXPECT_EQ(read_status(file, 0), LS_END);
  ASSERT_TRUE(ok(file_extend(file, 4)));
  ASSERT_TRUE(ok(file_write_page(file, 2, page_of(9).bytes)));
  EXPECT_EQ(read_status(file, 1), LS_END) << "allocated only";
  EXPECT_EQ(read_status(file, 4), LS_END) << "behind the end";
  EXPECT_EQ(read_status(file, kPagesPerSegment + 5), LS_END) << "in a segment that does not exist";
  ASSERT_EQ(truncate((directory_ / "a").c_str(), 3 * kPageSize - 100), 0);
  EXPECT_EQ(read_status(file, 2), LS_END) << "partly there";
}

TEST_P(FileTest, an_absent_file_is_not_found) {
  FileRef file{1, "nowhere/a"};
  u32 pages;
  EXPECT_EQ(read_status(file, 0), LS_NOT_FOUND);
  EXPECT_EQ(read_status(file, kPagesPerSegment), LS_NOT_FOUND);
  EXPECT_EQ(code(file_pages(file, &pages)), LS_NOT_FOUND);
  EXPECT_EQ(code(file_extend(file, 1)), LS_NOT_FOUND) << "the host creates the first segment";
  EXPECT_EQ(code(file_write_page(file, 0, page_of(1).bytes)), LS_NOT_FOUND);
  EXPECT_EQ(code(file_sync(file)), LS_NOT_FOUND);
}

TEST_P(FileTest, shrinking_empties_the_segments_behind) {
  const FileRef file = make(1, "shrinks");
  // Sparse, so that the test needs no gigabyte.
  const auto most_of_a_segment = static_cast<off_t>(kSegmentBytes - kPageSize);
  ASSERT_EQ(truncate((directory_ / "shrinks").c_str(), most_of_a_segment), 0);
  u32 pages = 0;
  ASSERT_TRUE(ok(file_extend(file, kPagesPerSegment + 3)));
  for (const u32 to : {kPagesPerSegment + 5, kPagesPerSegment + 2, kPagesPerSegment, 8u, 0u}) {
    ASSERT_TRUE(ok(file_shrink(file, to)));
    ASSERT_TRUE(ok(file_pages(file, &pages)));
    EXPECT_EQ(pages, std::min(to, kPagesPerSegment + 3));
  }
  ASSERT_EQ(truncate((directory_ / "shrinks").c_str(), most_of_a_segment), 0);
  ASSERT_TRUE(ok(file_extend(file, kPagesPerSegment + 1)));
  ASSERT_TRUE(ok(file_pages(file, &pages)));
  EXPECT_EQ(pages, kPagesPerSegment + 1);
}

TEST_P(FileTest, extending_never_shrinks_and_allocates) {
  FileRef file = make(1, "a");
  ASSERT_TRUE(ok(file_extend(file, 100)));
  ASSERT_TRUE(ok(file_extend(file, 10)));
  struct stat st;
  ASSERT_EQ(stat((directory_ / "a").c_str(), &st), 0);
  EXPECT_EQ(st.st_size, 100 * kPageSize);
  EXPECT_GE(st.st_blocks * 512, 100 * kPageSize) << "space is really allocated";
}

TEST_P(FileTest, a_segment_is_full_before_the_next_begins) {
  FileRef file = make(1, "a");
  // Sparse, so that the test needs no gigabyte.
  ASSERT_EQ(truncate((directory_ / "a").c_str(), static_cast<off_t>(kSegmentBytes - kPageSize)), 0);
  ASSERT_TRUE(ok(file_extend(file, kPagesPerSegment + 3)));
  struct stat first, second;
  ASSERT_EQ(stat((directory_ / "a").c_str(), &first), 0);
  ASSERT_EQ(stat((directory_ / "a.1").c_str(), &second), 0);
  EXPECT_EQ(static_cast<u64>(first.st_size), kSegmentBytes);
  EXPECT_EQ(second.st_size, 3 * kPageSize);
  EXPECT_EQ(second.st_mode & 0777, 0600u);
  for (PageNo no : {kPagesPerSegment - 1, kPagesPerSegment, kPagesPerSegment + 2}) {
    ASSERT_TRUE(ok(file_write_page(file, no, page_of(static_cast<u8>(no % 250 + 1)).bytes)));
  }
  for (PageNo no : {kPagesPerSegment - 1, kPagesPerSegment, kPagesPerSegment + 2}) {
    expect_page(file, no, static_cast<u8>(no % 250 + 1));
  }
  u32 pages;
  ASSERT_TRUE(ok(file_pages(file, &pages)));
  EXPECT_EQ(pages, kPagesPerSegment + 3);
  EXPECT_TRUE(ok(file_sync(file)));
}

TEST_P(FileTest, an_unlinked_file_can_still_be_used_until_forgotten) {
  FileRef file = make(1, "a");
  ASSERT_TRUE(ok(file_extend(file, 1)));
  ASSERT_TRUE(ok(file_write_page(file, 0, page_of(5).bytes)));
  ASSERT_EQ(unlink((directory_ / "a").c_str()), 0);
  expect_page(file, 0, 5);
  file_forget(1);
  EXPECT_EQ(read_status(file, 0), LS_NOT_FOUND);
}

TEST_P(FileTest, the_same_path_under_a_new_number_is_a_new_file) {
  FileRef file = make(1, "a");
  ASSERT_TRUE(ok(file_extend(file, 1)));
  ASSERT_TRUE(ok(file_write_page(file, 0, page_of(5).bytes)));
  ASSERT_EQ(unlink((directory_ / "a").c_str()), 0);
  FileRef successor = make(2, "a");
  EXPECT_EQ(read_status(successor, 0), LS_END);
}

TEST_P(FileTest, descriptors_are_bounded) {
  std::vector<std::string> names;
  for (int i = 0; i < 40; i++) names.push_back("f" + std::to_string(i));
  for (FileNo i = 0; i < 40; i++) {
    FileRef file = make(i + 1, names[i].c_str());
    ASSERT_TRUE(ok(file_extend(file, 1)));
    ASSERT_TRUE(ok(file_write_page(file, 0, page_of(static_cast<u8>(i + 1)).bytes)));
    EXPECT_LE(fd_cache_size(), 8u);
  }
  for (FileNo i = 0; i < 40; i++) expect_page({i + 1, names[i].c_str()}, 0, static_cast<u8>(i + 1));
  EXPECT_EQ(fd_cache_size(), 8u);
}

TEST_P(FileTest, threads_share_the_cache) {
  std::vector<std::string> names;
  for (FileNo i = 0; i < 16; i++) {
    names.push_back("f" + std::to_string(i));
    ASSERT_TRUE(ok(file_extend(make(i + 1, names[i].c_str()), 1)));
  }
  for (FileNo i = 0; i < 16; i++) {
    ASSERT_TRUE(
        ok(file_write_page({i + 1, names[i].c_str()}, 0, page_of(static_cast<u8>(i + 1)).bytes)));
  }
  std::vector<std::thread> threads;
  for (u32 t = 0; t < 3; t++) {
    threads.emplace_back([&, t] {
      for (u32 i = 0; i < 300; i++) {
        FileNo no = (i * 7 + t * 5) % 16;
        Page page;
        ASSERT_TRUE(ok(file_read_page({no + 1, names[no].c_str()}, 0, page.bytes)));
        ASSERT_EQ(page.bytes[100], no + 1);
        if (i % 20 == 0) file_forget(no + 1);
      }
    });
  }
  for (std::thread &t : threads) t.join();
}

TEST_P(FileTest, a_child_process_begins_with_an_empty_cache) {
  FileRef file = make(1, "a");
  ASSERT_TRUE(ok(file_extend(file, 1)));
  ASSERT_TRUE(ok(file_write_page(file, 0, page_of(3).bytes)));
  ASSERT_GE(fd_cache_size(), 1u);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Page page;
    bool good =
        fd_cache_size() == 0 && ok(file_read_page(file, 0, page.bytes)) && page.bytes[0] == 3;
    _exit(good ? 0 : 1);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_P(FileTest, a_batch_is_written_whole) {
  FileRef a = make(1, "a"), b = make(2, "b");
  ASSERT_TRUE(ok(file_extend(a, 64)));
  ASSERT_TRUE(ok(file_extend(b, 64)));
  std::vector<Page> pages(100);
  std::vector<PageWrite> writes;
  for (u32 i = 0; i < 100; i++) {
    std::memset(pages[i].bytes, static_cast<int>(i + 1), kPageSize);
    writes.push_back({i % 2 ? a : b, i / 2, pages[i].bytes});
  }
  IoRing *ring = io_ring_create(16);  // several turns of the ring
  ASSERT_TRUE(ok(io_write_pages(ring, writes)));
  io_ring_destroy(ring);
  for (u32 i = 0; i < 100; i++) expect_page(i % 2 ? a : b, i / 2, static_cast<u8>(i + 1));
  ASSERT_TRUE(ok(io_write_pages(nullptr, writes))) << "without a ring";
}

TEST_P(FileTest, a_batch_tells_which_write_failed) {
  FileRef a = make(1, "a"), gone{2, "gone"};
  ASSERT_TRUE(ok(file_extend(a, 4)));
  Page one = page_of(1), two = page_of(2), three = page_of(3);
  std::vector<PageWrite> writes{{a, 0, one.bytes}, {gone, 0, two.bytes}, {a, 1, three.bytes}};
  IoRing *ring = io_ring_create(8);
  EXPECT_EQ(code(io_write_pages(ring, writes)), LS_NOT_FOUND);
  EXPECT_TRUE(ok(writes[0].status));
  EXPECT_EQ(code(writes[1].status), LS_NOT_FOUND);
  EXPECT_TRUE(ok(writes[2].status));
  expect_page(a, 1, 3);
  fault_add({.op = FaultOp::kWrite, .path_part = "a", .nth = 2, .error = EIO});
  writes = {{a, 0, two.bytes}, {a, 1, two.bytes}, {a, 2, two.bytes}};
  EXPECT_EQ(code(io_write_pages(ring, writes)), LS_IO_ERROR);
  EXPECT_EQ(code(writes[1].status), LS_IO_ERROR);
  EXPECT_TRUE(ok(writes[2].status));
  fault_clear();
  expect_page(a, 1, 3);
  expect_page(a, 2, 2);
  io_ring_destroy(ring);
}

TEST_P(FileTest, faults_hit_the_call_they_were_made_for) {
  FileRef file = make(1, "a"), other = make(2, "b");
  ASSERT_TRUE(ok(file_extend(file, 4)));
  ASSERT_TRUE(ok(file_extend(other, 4)));
  Page page = page_of(1);
  fault_add({.op = FaultOp::kWrite, .path_part = "a", .nth = 2, .error = EIO});
  EXPECT_TRUE(ok(file_write_page(file, 0, page.bytes)));
  EXPECT_TRUE(ok(file_write_page(other, 0, page.bytes)));
  EXPECT_EQ(code(file_write_page(file, 1, page.bytes)), LS_IO_ERROR);
  EXPECT_EQ(last_error().sys_errno, EIO);
  EXPECT_TRUE(ok(file_write_page(file, 1, page.bytes)));
  EXPECT_EQ(fault_hits(), 1u);
  fault_clear();
  fault_add({.op = FaultOp::kExtend, .path_part = "a", .nth = 1, .every = true, .error = ENOSPC});
  EXPECT_EQ(code(file_extend(file, 8)), LS_NO_SPACE);
  EXPECT_EQ(code(file_extend(file, 8)), LS_NO_SPACE);
  fault_add({.op = FaultOp::kSync, .path_part = "", .error = EIO});
  EXPECT_EQ(code(file_sync(file)), LS_IO_ERROR);
  fault_add({.op = FaultOp::kRead, .path_part = "", .error = EIO});
  EXPECT_EQ(read_status(file, 0), LS_IO_ERROR);
  fault_clear();
  EXPECT_TRUE(ok(file_extend(file, 8)));
  expect_page(file, 0, 1);
}

TEST_P(FileTest, out_of_descriptors_closes_some) {
  FileRef a = make(1, "a"), b = make(2, "b"), c = make(3, "c");
  for (const FileRef &file : {a, b}) ASSERT_TRUE(ok(file_extend(file, 1)));
  u32 before = fd_cache_size();
  fault_add({.op = FaultOp::kOpen, .path_part = "/c", .error = EMFILE});
  EXPECT_TRUE(ok(file_extend(c, 1)));
  EXPECT_EQ(fd_cache_size(), before / 2 + 1);
}

TEST_P(FileTest, a_torn_write_leaves_its_first_bytes) {
  FileRef file = make(1, "a");
  ASSERT_TRUE(ok(file_extend(file, 1)));
  ASSERT_TRUE(ok(file_write_page(file, 0, page_of(1).bytes)));
  bool crashed = false;
  fault_add({.op = FaultOp::kWrite,
             .path_part = "a",
             .outcome = FaultOutcome::kCrash,
             .first_bytes = 1000,
             .on_crash = [&] { crashed = true; }});
  EXPECT_EQ(code(file_write_page(file, 0, page_of(2).bytes)), LS_IO_ERROR);
  EXPECT_TRUE(crashed);
  EXPECT_EQ(read_status(file, 0), LS_IO_ERROR) << "nothing works after a crash";
  fault_clear();
  Page page;
  ASSERT_TRUE(ok(file_read_page(file, 0, page.bytes)));
  EXPECT_EQ(page.bytes[999], 2);
  EXPECT_EQ(page.bytes[1000], 1);
  fault_add({.op = FaultOp::kWrite,
             .path_part = "a",
             .outcome = FaultOutcome::kSucceed,
             .first_bytes = 10});
  EXPECT_TRUE(ok(file_write_page(file, 0, page_of(3).bytes))) << "a lost write says nothing";
  ASSERT_TRUE(ok(file_read_page(file, 0, page.bytes)));
  EXPECT_EQ(page.bytes[9], 3);
  EXPECT_EQ(page.bytes[10], 2);
}

class PlainFileTest : public testing::Test {
 protected:
  // another test may have turned syncing off
  PlainFileTest() { file_setup(".", false, true, 256); }
  ~PlainFileTest() override { fault_clear(); }
  std::string contents(const std::string &name) {
    std::ifstream in(directory_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::span<const u8> bytes(const std::string &s) {
    return {reinterpret_cast<const u8 *>(s.data()), s.size()};
  }
  test::TempDirectory directory_;
};

TEST_F(PlainFileTest, reads_and_writes_at_offsets) {
  File file;
  EXPECT_EQ(code(file.open((directory_ / "x").c_str(), 0)), LS_NOT_FOUND);
  ASSERT_TRUE(ok(file.open((directory_ / "x").c_str(), O_CREAT)));
  ASSERT_TRUE(ok(file.write_at(10, "hello", 5)));
  char buffer[20] = "";
  size_t got;
  ASSERT_TRUE(ok(file.read_at(10, buffer, 20, &got)));
  EXPECT_EQ(std::string(buffer, got), "hello");
  u64 size;
  ASSERT_TRUE(ok(file.size(&size)));
  EXPECT_EQ(size, 15u);
  ASSERT_TRUE(ok(file.truncate(12)));
  ASSERT_TRUE(ok(file.size(&size)));
  EXPECT_EQ(size, 12u);
  EXPECT_TRUE(ok(file.sync_data()));
  File moved = std::move(file);
  EXPECT_FALSE(file.is_open());
  EXPECT_TRUE(moved.is_open());
  struct stat st;
  ASSERT_EQ(stat(moved.path(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST_F(PlainFileTest, atomic_write_keeps_the_old_contents_when_it_fails) {
  std::string path = directory_ / "control";
  ASSERT_TRUE(ok(file_write_atomically(path.c_str(), bytes("first"))));
  EXPECT_EQ(contents("control"), "first");
  for (FaultOp op : {FaultOp::kOpen, FaultOp::kWrite, FaultOp::kSync, FaultOp::kRename}) {
    fault_add(
        {.op = op, .path_part = "control", .outcome = FaultOutcome::kCrash, .first_bytes = 3});
    EXPECT_EQ(code(file_write_atomically(path.c_str(), bytes("second"))), LS_IO_ERROR);
    fault_clear();
    EXPECT_EQ(contents("control"), "first") << "operation " << static_cast<int>(op);
  }
  ASSERT_TRUE(ok(file_write_atomically(path.c_str(), bytes("second"))));
  EXPECT_EQ(contents("control"), "second");
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST_F(PlainFileTest, directories_are_listed_and_files_removed) {
  for (const char *name : {"a", "b", "c"}) std::ofstream(directory_ / name).flush();
  std::set<std::string> names;
  auto collect = [](void *arg, const char *name) {
    return static_cast<std::set<std::string> *>(arg)->insert(name).second;
  };
  ASSERT_TRUE(ok(directory_list(directory_.path().c_str(), collect, &names)));
  EXPECT_EQ(names, (std::set<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(ok(file_unlink((directory_ / "a").c_str())));
  EXPECT_TRUE(ok(file_unlink((directory_ / "a").c_str()))) << "absent is fine";
  EXPECT_TRUE(ok(file_rename((directory_ / "b").c_str(), (directory_ / "d").c_str())));
  EXPECT_TRUE(ok(directory_sync(directory_.path().c_str())));
  names.clear();
  ASSERT_TRUE(ok(directory_list(directory_.path().c_str(), collect, &names)));
  EXPECT_EQ(names, (std::set<std::string>{"c", "d"}));
  EXPECT_EQ(code(directory_list((directory_ / "none").c_str(), collect, &names)), LS_IO_ERROR);
}

}  // namespace
}  // namespace ls
