// Large pages for the pool: the bytes stay, and memory that was never used stays unused.
#include "buffer/huge_pages.hpp"

#include <sys/mman.h>

#include <fstream>

#include "os/huge_page.hpp"
#include "unit/buffer/pool_fixture.hpp"

namespace ls::buffer_test {
namespace {

constexpr size_t kArenaBytes = 12 * kHugePage;

// Shared memory as the host maps it: from a multiple of the large page's size on.
class SharedArena {
 public:
  SharedArena() {
    whole_ = mmap(nullptr, kArenaBytes + kHugePage, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(whole_, MAP_FAILED);
    const size_t from = reinterpret_cast<size_t>(whole_);
    begin_ = reinterpret_cast<u8 *>((from + kHugePage - 1) / kHugePage * kHugePage);
    EXPECT_EQ(mmap(begin_, kArenaBytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              begin_);
  }
  ~SharedArena() { munmap(whole_, kArenaBytes + kHugePage); }
  u8 *begin() const { return begin_; }

  static bool is_resident(u8 *at) {
    unsigned char present = 0;
    EXPECT_EQ(mincore(reinterpret_cast<u8 *>(reinterpret_cast<size_t>(at) / kPageSize * kPageSize),
                      kPageSize, &present),
              0);
    return present & 1;
  }
  // Of the whole process, as the kernel says.
  static u64 large_kilobytes() {
    std::ifstream smaps("/proc/self/smaps");
    u64 sum = 0;
    for (std::string line; std::getline(smaps, line);) {
      if (line.rfind("ShmemPmdMapped:", 0) == 0)
        sum += std::stoull(line.substr(line.find(':') + 1));
    }
    return sum;
  }

 private:
  void *whole_;
  u8 *begin_;
};

TEST(HugePages, pages_in_use_keep_their_bytes_and_others_cost_nothing) {
  TestPool run(64);   // for its log
  SharedArena arena;
  PoolConfig config{8 * kHugePage, 8, 4};
  ASSERT_LE(BufferPool::arena_bytes(config), kArenaBytes);
  BufferPool::create(arena.begin(), config);
  BufferPool pool = BufferPool::attach(arena.begin(), run.log());

  constexpr u32 kUsed = 4 * kHugePage / kPageSize;
  for (u32 i = 0; i < kUsed; i++) {
    Frame *frame = free_list_pop(*pool.shared());
    ASSERT_EQ(pool.index_of(frame), i);   // what advance() relies on
    std::memset(pool.page(frame), static_cast<int>(i % 251 + 1), kPageSize);
  }
  u8 *unused = pool.page(pool.frame(pool.frame_count() - 1)) - kHugePage;
  ASSERT_FALSE(SharedArena::is_resident(unused));

  HugePages huge_pages(pool);
  while (huge_pages.advance()) {}
  for (u32 i = 0; i < kUsed; i++) {
    const u8 *page = pool.page(pool.frame(i));
    for (u32 at = 0; at < kPageSize; at += 97) ASSERT_EQ(page[at], i % 251 + 1) << i;
  }
  EXPECT_FALSE(SharedArena::is_resident(unused));
  // The second one of the arena lies in the middle of what is in use.
  if (make_huge_page(arena.begin() + 2 * kHugePage) != HugePageAnswer::kDone)
    GTEST_SKIP() << "this system has none to give";
  EXPECT_GT(SharedArena::large_kilobytes(), 0u);
}

// Addresses and places in the mapping differ in their last 21 bits.
TEST(HugePages, mapping_that_cannot_have_them_is_told) {
  constexpr size_t kBytes = 3 * kHugePage;
  void *whole = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(whole, MAP_FAILED);
  u8 *at =
      reinterpret_cast<u8 *>((reinterpret_cast<size_t>(whole) + kHugePage) / kHugePage * kHugePage);
  ASSERT_EQ(mmap(at - kPageSize, kHugePage + kPageSize, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            at - kPageSize);
  std::memset(at, 7, kHugePage);
  EXPECT_EQ(make_huge_page(at), HugePageAnswer::kNever);
  EXPECT_EQ(at[kHugePage - 1], 7);
  munmap(whole, kBytes);
}

}  // namespace
}  // namespace ls::buffer_test
