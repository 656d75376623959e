#include "buffer/page.hpp"

#include <cstring>

#include "base/crc32c.hpp"

namespace ls {

u32 page_checksum(const u8 *page) {
  constexpr size_t kField = offsetof(PageHeader, checksum);
  constexpr u32 kZero = 0;
  u32 crc = crc32c(0, page, kField);
  crc = crc32c(crc, &kZero, sizeof kZero);
  return crc32c(crc, page + kField + sizeof kZero, kPageSize - kField - sizeof kZero);
}

void page_seal(u8 *page) {
  auto *header = reinterpret_cast<PageHeader *>(page);
  header->zero = 0;
  header->checksum = page_checksum(page);
}

const char *page_fault(const u8 *page, PageNo page_no, Gsn log_end) {
  auto *header = reinterpret_cast<const PageHeader *>(page);
  if (header->checksum != page_checksum(page)) return "checksum does not match";
  if (!is_page_format(header->format)) return "unknown page format";
  if (header->page_no != page_no) return "page belongs to another place in the file";
  if (header->gsn > log_end) return "page is ahead of the log, which is another or an older one";
  return nullptr;
}

void page_claim(u8 *page, u32 kind, const StoreId &store) {
  std::memset(page, 0, kPageSize);
  auto *meta = reinterpret_cast<MetaPage *>(page);
  meta->header.kind = PageKind::kMeta;
  meta->header.format = kPageFormat;
  meta->header.page_no = kMetaPageNo;
  meta->magic = kClaimMagic;
  meta->kind = kind;
  meta->store = store;
  page_seal(page);
}

bool is_meta(const u8 *page, u32 kind) {
  auto *meta = reinterpret_cast<const MetaPage *>(page);
  return meta->header.kind == PageKind::kMeta && meta->kind == kind &&
         (meta->magic == kMetaMagic || meta->magic == kClaimMagic);
}

}  // namespace ls
