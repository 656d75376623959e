// pages.hpp - pages for fuzzers: each in memory of its own, so that the address sanitizer sees what
// is beside it; and sound ones of each kind, made by the engine.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "btree/node.hpp"
#include "btree/tree_redo.hpp"
#include "fuzz/fuzz.hpp"
#include "version/row_header.hpp"

namespace ls::fuzz {

struct alignas(64) PageBytes {
  u8 bytes[kPageSize] = {};
  Node *node() { return reinterpret_cast<Node *>(bytes); }
};
using PagePtr = std::unique_ptr<PageBytes>;

inline PagePtr make_page() { return std::make_unique<PageBytes>(); }
inline PagePtr copy_page_of(const void *bytes) {
  PagePtr page = make_page();
  std::memcpy(page->bytes, bytes, kPageSize);
  return page;
}

inline bool lies_in(const void *page, Bytes bytes) {
  const u8 *begin = static_cast<const u8 *>(page);
  return bytes.empty() ||
         (bytes.data() >= begin && bytes.data() + bytes.size() <= begin + kPageSize);
}
// Reads all of it.
inline u8 touch(Bytes bytes) {
  u8 all = 0;
  for (u8 byte : bytes) all ^= byte;
  return all;
}

inline std::string big_endian(u64 number) {
  number = __builtin_bswap64(number);
  return {reinterpret_cast<const char *>(&number), sizeof number};
}

inline PagePtr sample_node(bool leaf, u32 entries, std::string (*key)(u32 i), u32 value_bytes,
                           bool last = false) {
  PagePtr page = make_page();
  Node *node = page->node();
  const std::string low = big_endian(1000), high = big_endian(1 << 20);
  node->init(leaf, leaf ? 0 : 1, bytes_of(low), last ? Bytes{} : bytes_of(high), !last);
  node->header.page_no = 7;
  if (!leaf) node->upper_child = Swip::evicted(5).raw;
  for (u32 i = 0; i < entries; i++) {
    Buffer value(value_bytes + (value_bytes > 40 ? i % 5 : 0));
    const RowHeader header = RowHeader::make(500 + i, 0, 0, 0, i);
    if (value.size() >= sizeof header) header.store(value.data());
    const u64 child = Swip::evicted(10 + i).raw;
    const std::string bytes = key(i);
    node->insert(bytes_of(bytes), leaf ? Bytes(value) : bytes_of(child));
  }
  return page;
}

inline PagePtr sample_meta() {
  PagePtr page = make_page();
  auto *meta = reinterpret_cast<MetaPage *>(page->bytes);
  format_meta(meta, {LS_REL_TABLE, 1, {1, 2}});
  meta->header.page_no = kMetaPageNo;
  meta->page_count = 90;
  meta->free_total = meta->free_count = 40;
  for (PageNo i = 0; i < 40; i++) meta->free_pages[i] = 20 + i;
  return page;
}

inline PagePtr sample_trunk() {
  PagePtr page = make_page();
  auto *trunk = reinterpret_cast<TrunkPage *>(page->bytes);
  trunk->header.kind = PageKind::kTrunk;
  trunk->header.format = kPageFormat;
  trunk->header.page_no = 7;
  trunk->next = Swip::evicted(8).raw;
  trunk->count = 30;
  for (PageNo i = 0; i < 30; i++) trunk->pages[i] = 20 + i;
  return page;
}

// Each layout of leaves, few entries and many; inner nodes; the other kinds of pages.
inline std::vector<std::pair<std::string, PagePtr>> sample_pages() {
  const auto dense = [](u32 i) { return big_endian(5120 + i); };
  const auto sparse = [](u32 i) { return big_endian(1001 + i * 3571 % 1000000); };
  const auto entry = [](u32 i) { return big_endian(1001 + i * 3571 % 1000000) + "rowid"; };
  const auto mixed = [](u32 i) {
    return big_endian(1001 + i * 977 % 9000) + std::string(i % 13, static_cast<char>('a' + i % 3));
  };
  std::vector<std::pair<std::string, PagePtr>> pages;
  pages.emplace_back("dense", sample_node(true, 40, dense, 30));
  pages.emplace_back("dense_few", sample_node(true, 3, dense, 60));
  pages.emplace_back("dense_last", sample_node(true, 20, dense, 24, true));
  pages.emplace_back("sparse", sample_node(true, 50, sparse, 24));
  pages.emplace_back("uniform", sample_node(true, 200, entry, 0));
  pages.emplace_back("uniform_few", sample_node(true, 5, entry, 0));
  pages.emplace_back("slots", sample_node(true, 60, mixed, 20));
  pages.emplace_back("slots_few", sample_node(true, 4, mixed, 0));
  pages.emplace_back("empty", sample_node(true, 0, mixed, 0));
  pages.emplace_back("inner", sample_node(false, 60, mixed, 0));
  pages.emplace_back("inner_few", sample_node(false, 2, sparse, 0));
  pages.emplace_back("meta", sample_meta());
  pages.emplace_back("trunk", sample_trunk());
  return pages;
}

}  // namespace ls::fuzz
