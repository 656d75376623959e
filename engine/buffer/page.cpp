// page.cpp - checksums, and what bytes from a file claim to be.
#include "buffer/page.hpp"

#include <cstring>
#include <iterator>

#include "base/crc32c.hpp"
#include "buffer/page_allocator.hpp"
#include "buffer/swip.hpp"

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

bool are_pages_of(const PageNo *pages, u32 n, PageNo page_count) {
  for (u32 i = 0; i < n; i++) {
    if (pages[i] == kMetaPageNo || pages[i] >= page_count) return false;
  }
  return true;
}

bool is_stored_swip(Swip swip, PageNo page_count) {
  const PageNo page_no = swip.page_no();
  return swip.raw == Swip::evicted(page_no).raw && are_pages_of(&page_no, 1, page_count);
}

const char *meta_fault(const MetaPage &meta) {
  if (meta.magic == kClaimMagic) return nullptr;
  if (meta.magic != kMetaMagic) return "not a meta page";
  const PageNo page_count = meta.page_count;
  if (page_count > kMostPages + kPagesForUndo) return "impossible number of pages";
  if (meta.height == 0 || meta.height > kMaxTreeHeight) return "impossible height";
  if (!is_stored_swip(Swip{meta.root}, page_count)) return "reference to the root is damaged";
  if (meta.trunk != 0 && !is_stored_swip(Swip{meta.trunk}, page_count))
    return "reference to a list of free pages is damaged";
  if (meta.free_count > std::size(meta.free_pages) || meta.free_total < meta.free_count ||
      meta.free_total >= page_count) {
    return "impossible number of free pages";
  }
  if (!are_pages_of(meta.free_pages, meta.free_count, page_count))
    return "a free page is not one of the file";
  // The first bit tells the form of the reservation (txn/row_ids.hpp).
  if (meta.row_id_high << 1 >> 1 > most_row_id_high(meta.kind)) return "row id beyond the last one";
  if (meta.stale_entries > 1) return "flag is neither 0 nor 1";
  return nullptr;
}

const char *trunk_fault(const TrunkPage &trunk, PageNo page_count) {
  if (trunk.count > std::size(trunk.pages)) return "too long a list of free pages";
  if (trunk.next != 0 && !is_stored_swip(Swip{trunk.next}, page_count))
    return "reference to a list of free pages is damaged";
  return are_pages_of(trunk.pages, trunk.count, page_count) ? nullptr
                                                            : "a free page is not one of the file";
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

bool is_any_meta(const u8 *page) {
  auto *meta = reinterpret_cast<const MetaPage *>(page);
  return meta->header.kind == PageKind::kMeta &&
         (meta->magic == kMetaMagic || meta->magic == kClaimMagic);
}

bool is_meta(const u8 *page, u32 kind) {
  return is_any_meta(page) && reinterpret_cast<const MetaPage *>(page)->kind == kind;
}

}  // namespace ls
