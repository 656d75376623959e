// page_image.cpp - what of a page goes into the log, and a page made of it.
#include "buffer/page_image.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/copy_page.hpp"
#include "buffer/page_allocator.hpp"

namespace ls {

namespace {

struct ImageHead {
  PageKind kind;
  u8 format;
  u16 gap_begin;
};
static_assert(sizeof(ImageHead) == 4);

std::span<const u8> head_bytes(const ImageHead &head) {
  return {reinterpret_cast<const u8 *>(&head), sizeof head};
}

constexpr PageGap kNoGap{kPageSize, kPageSize};

PageGap gap_of(const u8 *page) {
  switch (reinterpret_cast<const PageHeader *>(page)->kind) {
    case PageKind::kMeta: {
      const u32 free_count = reinterpret_cast<const MetaPage *>(page)->free_count;
      LS_ASSERT(free_count <= kMaxFreeList);
      return {static_cast<u16>(offsetof(MetaPage, free_pages) + free_count * sizeof(PageNo)),
              offsetof(MetaPage, stale_entries)};
    }
    case PageKind::kTrunk: {
      const u32 count = reinterpret_cast<const TrunkPage *>(page)->count;
      return {static_cast<u16>(offsetof(TrunkPage, pages) + count * sizeof(PageNo)), kPageSize};
    }
    case PageKind::kFree: return {sizeof(PageHeader), kPageSize};
    case PageKind::kLeaf:
    case PageKind::kInner: return tree_ops().gap ? tree_ops().gap(page) : kNoGap;
  }
  return kNoGap;
}

void add_op(LogAppender &log, const FileSlot &file, const u8 *page) {
  const auto *header = reinterpret_cast<const PageHeader *>(page);
  const PageGap gap = gap_of(page);
  LS_ASSERT(sizeof(PageHeader) <= gap.begin && gap.begin <= gap.end && gap.end <= kPageSize);
  const ImageHead head{header->kind, header->format, gap.begin};
  log.op(file.file_no.load(std::memory_order_relaxed), header->page_no, kPageImage,
         head_bytes(head), {page + sizeof *header, gap.begin - sizeof *header},
         {page + gap.end, kPageSize - gap.end});
}

}  // namespace

Gsn log_page_image(LogAppender &log, const FileSlot &file, const u8 *page) {
  LS_ASSERT(file.logged);
  alignas(kCacheLine) u8 copy[kPageSize];
  if (reinterpret_cast<const PageHeader *>(page)->kind != PageKind::kLeaf) {
    copy_page(copy, page);
    page = copy;
    store_references(copy);
  }
  log.start(RecordKind::kSystem);
  add_op(log, file, page);
  return log.finish();
}

void log_free_image(LogAppender &log, const FileSlot &file, PageNo page_no) {
  const ImageHead head{PageKind::kFree, kPageFormat, sizeof(PageHeader)};
  log.op(file.file_no.load(std::memory_order_relaxed), page_no, kPageImage, head_bytes(head));
}

Status page_image_redo(std::span<const u8> operands, u8 *page, PageNo page_no) {
  const auto bad = [page_no] {
    return fail(LS_CORRUPT, "image of page %u in the log is damaged", page_no);
  };
  ImageHead head;
  if (operands.size() < sizeof head) return bad();
  std::memcpy(&head, operands.data(), sizeof head);
  operands = operands.subspan(sizeof head);
  if (head.gap_begin < sizeof(PageHeader) || !is_page_format(head.format)) return bad();
  const size_t low = head.gap_begin - sizeof(PageHeader);
  if (low > operands.size() || operands.size() > kPageSize - sizeof(PageHeader)) return bad();
  const std::span<const u8> high = operands.subspan(low);
  std::memset(page + sizeof(PageHeader), 0, kPageSize - sizeof(PageHeader));
  std::copy_n(operands.data(), low, page + sizeof(PageHeader));
  std::copy(high.begin(), high.end(), page + kPageSize - high.size());
  auto *header = reinterpret_cast<PageHeader *>(page);
  header->kind = head.kind;
  header->format = head.format;
  header->zero = 0;
  header->page_no = page_no;
  header->reserved = 0;
  const auto fault = tree_ops().fault;
  return fault && fault(page, kInvalidPageNo) ? bad() : kOk;
}

}  // namespace ls
