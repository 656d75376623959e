// doublewrite.cpp - areas written and synced; torn pages restored from them.
#include "buffer/doublewrite.hpp"

#include <fcntl.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/aligned_memory.hpp"
#include "base/check.hpp"
#include "base/copy_page.hpp"
#include "base/crc32c.hpp"
#include "base/interrupt.hpp"
#include "buffer/page_provider.hpp"

namespace ls {

namespace {

// File numbers of recovery's own, for the cache of descriptors: relation files have no number yet.
constexpr FileNo kFirstRecoveryFileNo = FileNo{1} << 63;

constexpr i64 kAreaPollUs = 1'000;

u32 header_pages(u32 bytes) { return (bytes + kPageSize - 1) / kPageSize; }

u32 header_crc(u8 *header, u32 bytes) {
  auto *h = reinterpret_cast<TearHeader *>(header);
  u32 stored = h->crc;
  h->crc = 0;
  u32 crc = crc32c(0, header, bytes);
  h->crc = stored;
  return crc;
}

}  // namespace

Status DoublewriteBuffer::open() {
  if (file_.is_open()) return kOk;
  const std::string path(pool_.doublewrite_path);
  const std::string directory = path.substr(0, path.rfind('/'));
  File file;
  LS_TRY(file.open(path.c_str(), O_CREAT));
  u64 bytes;
  LS_TRY(file.size(&bytes));
  // New: its name must be durable before anything relies on it.
  if (bytes == 0) LS_TRY(directory_sync(directory.c_str()));
  file_ = std::move(file);
  return kOk;
}

// There are as many as there are writers at a time, commonly; a further one waits for the end of a
// batch.
Status DoublewriteBuffer::take_area(const volatile int *interrupt) {
  const u32 first = pool_.tear_cursor.fetch_add(1, std::memory_order_relaxed);
  for (;;) {
    for (u32 i = 0; i < kTearAreas; i++) {
      area_ = (first + i) % kTearAreas;
      if (futex_try_lock(pool_.tear_areas[area_])) return kOk;
    }
    if (pool_.failure.noted(nullptr))
      return fail(LS_IO_ERROR, "pages cannot be written: an earlier write has failed");
    if (interrupt_pending(interrupt))
      return fail(LS_INTERRUPTED, "interrupted while waiting for a place in \"%s\"",
                  pool_.doublewrite_path);
    std::atomic<u32> never{0};
    futex_wait(&never, 0, kAreaPollUs);
  }
}

Status DoublewriteBuffer::begin(u8 *block, std::span<const PageWrite> writes,
                                const volatile int *interrupt) {
  LS_ASSERT(!writes.empty() && writes.size() <= kTearPages);
  LS_TRY(open());
  alignas(8) u8 header[kTearHeaderPages * kPageSize] = {};
  auto *h = reinterpret_cast<TearHeader *>(header);
  auto *entries = reinterpret_cast<TearEntry *>(header + sizeof(TearHeader));
  auto *paths = reinterpret_cast<TearPath *>(entries + writes.size());
  h->magic = kTearMagic;
  h->pages = static_cast<u32>(writes.size());
  for (size_t i = 0; i < writes.size(); i++) {
    LS_ASSERT(writes[i].buffer == block + (kTearHeaderPages + i) * kPageSize);
    u32 p = 0;
    while (p < h->paths && std::strcmp(paths[p].path, writes[i].file.path) != 0) p++;
    if (p == h->paths) std::strcpy(paths[h->paths++].path, writes[i].file.path);
    entries[i] = {writes[i].page, p,
                  reinterpret_cast<const PageHeader *>(writes[i].buffer)->checksum};
  }
  h->bytes = static_cast<u32>(reinterpret_cast<u8 *>(paths + h->paths) - header);
  h->crc = header_crc(header, h->bytes);
  u32 pages = header_pages(h->bytes);
  u8 *start = block + (kTearHeaderPages - pages) * kPageSize;
  std::memcpy(start, header, pages * kPageSize);

  LS_TRY(take_area(interrupt));
  Status status =
      file_.write_at(area_ * kTearAreaBytes, start, (pages + writes.size()) * kPageSize);
  if (ok(status)) status = file_.sync_data();
  if (!ok(status)) futex_unlock(pool_.tear_areas[area_]);
  return status;
}

void DoublewriteBuffer::end() {
  constexpr TearHeader kNone{};
  // Best effort (DBLW-2): an image that stays does no harm as long as its page is sound.
  LS_ASSERT(pool_.tear_areas[area_].load(std::memory_order_relaxed) != 0);   // DBLW-4
  (void)file_.write_at(area_ * kTearAreaBytes, &kNone, sizeof kNone);
  futex_unlock(pool_.tear_areas[area_]);
}

// ---- recovery

namespace {

struct Image {
  std::vector<u8> bytes;
  Gsn gsn;
};
using Images = std::map<std::pair<std::string, PageNo>, Image>;

// Collect the images of an area that verify (DBLW-1).
Status read_area(File &file, u32 area, Images *images) {
  std::vector<u8> bytes(kTearAreaBytes);
  size_t got;
  LS_TRY(file.read_at(area * kTearAreaBytes, bytes.data(), bytes.size(), &got));
  auto *h = reinterpret_cast<TearHeader *>(bytes.data());
  if (got < kPageSize || h->magic != kTearMagic || h->pages == 0 || h->pages > kTearPages ||
      h->paths > kTearPages)
    return kOk;
  if (h->bytes != sizeof(TearHeader) + h->pages * sizeof(TearEntry) + h->paths * sizeof(TearPath) ||
      h->bytes > got)
    return kOk;
  if (h->crc != header_crc(bytes.data(), h->bytes)) return kOk;
  auto *entries = reinterpret_cast<const TearEntry *>(bytes.data() + sizeof(TearHeader));
  auto *paths = reinterpret_cast<const TearPath *>(entries + h->pages);
  for (u32 i = 0; i < h->pages; i++) {
    const u8 *page = bytes.data() + u64{header_pages(h->bytes) + i} * kPageSize;
    if (page + kPageSize > bytes.data() + got || entries[i].path >= h->paths) continue;
    if (std::memchr(paths[entries[i].path].path, '\0', sizeof(TearPath)) == nullptr) continue;
    if (page_fault(page, entries[i].page_no, kLogEndUnknown)) continue;
    auto *header = reinterpret_cast<const PageHeader *>(page);
    if (header->checksum != entries[i].checksum) continue;
    Image &image = (*images)[{paths[entries[i].path].path, entries[i].page_no}];
    if (!image.bytes.empty() && image.gsn >= header->gsn) continue;  // DBLW-3
    image = {{page, page + kPageSize}, header->gsn};
  }
  return kOk;
}

// *present: the page exists, and has to be synced.  A whole one is written again as it is: the
// process may have died between its write and the sync, or because that failed, and then the page
// cache has it as clean and the disk does not have it.
Status restore(const FileRef &file, PageNo page_no, const Image &image, bool *present) {
  const AlignedPages buffer = allocate_pages(1);
  if (!buffer) return fail(LS_NO_MEMORY, "no memory for a page");
  Status status = file_read_page(file, page_no, buffer.get());
  // never written, or dropped
  if (code(status) == LS_END || code(status) == LS_NOT_FOUND) return kOk;
  LS_TRY(status);
  *present = true;
  if (page_fault(buffer.get(), page_no, kLogEndUnknown)) {
    copy_page(buffer.get(), image.bytes.data());
  }
  return file_write_page(file, page_no, buffer.get());
}

}  // namespace

Status doublewrite_recover(const char *path) {
  File file;
  Status status = file.open(path, 0);
  if (code(status) == LS_NOT_FOUND) return kOk;
  LS_TRY(status);
  Images images;
  for (u32 area = 0; area < kTearAreas; area++) LS_TRY(read_area(file, area, &images));
  FileNo file_no = kFirstRecoveryFileNo;
  std::string last;
  bool touched = false;
  // Ordered by path: one file after the other.
  for (auto it = images.begin(); ok(status) && it != images.end(); ++it) {
    const std::string &name = it->first.first;
    if (name != last) {
      if (touched) status = file_sync({file_no, last.c_str()});
      file_forget(file_no);
      touched = false;
      last = name;
    }
    if (ok(status))
      status = restore({file_no, name.c_str()}, it->first.second, it->second, &touched);
  }
  if (ok(status) && touched) status = file_sync({file_no, last.c_str()});
  file_forget(file_no);
  LS_TRY(status);
  // Every page is whole and durable now; the images are of no more use (DBLW-2).
  constexpr TearHeader kNone{};
  for (u32 area = 0; area < kTearAreas; area++) {
    LS_TRY(file.write_at(area * kTearAreaBytes, &kNone, sizeof kNone));
  }
  return file.sync_data();
}

}  // namespace ls
