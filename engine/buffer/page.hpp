// page.hpp - the first 24 bytes of every page, and the meta page (docs/file-format.md).
#pragma once
#include "base/types.hpp"
#include "leanstore/engine.h"

namespace ls {

enum class PageKind : u8 { kFree = 0, kMeta = 1, kLeaf = 2, kInner = 3, kTrunk = 4 };
// 2: a leaf may be uniform, 3: or dense (btree/node.hpp); else as 1.
inline constexpr u8 kPageFormat = 3;
inline constexpr u8 kDenseLeafFormat = 3, kUniformLeafFormat = 2, kOldestPageFormat = 1;
constexpr bool is_page_format(u8 format) {
  return format >= kOldestPageFormat && format <= kPageFormat;
}

struct PageHeader {
  Gsn gsn;         // of the last logged change; 0 in trees that are not logged
  u32 checksum;    // crc32c of the page with this field zero
  PageKind kind;
  u8 format;
  // bytes 14..15 stay zero: PostgreSQL's tools then take the block as new (design.md section 2)
  u16 zero;
  PageNo page_no;  // its own place: detects misdirected writes
  u32 reserved;
};
static_assert(sizeof(PageHeader) == 24 && offsetof(PageHeader, zero) == 14);

// Page 0 of each relation file.  Holds the root and the free space of its file.  Changed under its
// frame's exclusive latch; as parent of the root it comes first in latch order.
struct MetaPage {
  PageHeader header;
  u32 magic;
  u32 kind;             // ls_rel_kind
  StoreId store;        // the store that the positions in this file belong to
  u64 root;             // Swip
  // pages ever handed out, this one included: numbers below are in use or free
  PageNo page_count;
  u32 height;           // 1: the root is a leaf; kMaxTreeHeight at most
  u64 row_id_high;      // rows: ids below may be in use (the page allocator reserves ahead)
  u64 trunk;            // Swip of the first trunk page (more free page numbers), 0: none
  u32 free_total;       // free pages including those in trunks and trunks themselves
  u32 free_count;       // entries of free_pages
  PageNo free_pages[960];
  // index: 1 when an entry may have a key that its row has no more (index_stale.hpp)
  u32 stale_entries;
};
static_assert(sizeof(MetaPage) <= kPageSize);
// Far above any tree of 2^32 pages; bounds a descent over moving bytes.
inline constexpr u32 kMaxTreeHeight = 64;
inline constexpr u32 kMetaMagic = 0x4c534d32;  // "LSM2"
// Of a claim: what a file of a logged relation has for a meta page until its first one is written.
// It says to which store the file belongs, and that its pages are in that store's log.  It lies
// within the first sector, so it does not tear.
inline constexpr u32 kClaimMagic = 0x4c53434c;  // "LSCL"

// Files with rows, of tables and of values; the others are trees of entries.
constexpr bool has_rows(u32 kind) { return kind == LS_REL_TABLE || kind == LS_REL_VALUES; }

// Of MetaPage::row_id_high: reservations go less than two steps beyond the last id
// (txn/row_ids.hpp).
inline constexpr u64 kMostRowIdHigh = LS_MAX_ROW_ID, kMostPlaceHigh = u64{1} << 62;
constexpr u64 most_row_id_high(u32 kind) {
  return kind == LS_REL_VALUES ? kMostPlaceHigh : kMostRowIdHigh;
}

// A free page that lists free pages.
struct TrunkPage {
  PageHeader header;
  u64 next;             // Swip, 0: last
  u32 count;
  u32 reserved;
  PageNo pages[1000];
};
static_assert(sizeof(TrunkPage) <= kPageSize);

// crc32c (hardware where there is one), checksum field taken as zero
u32 page_checksum(const u8 *page);
void page_seal(u8 *page);           // make it ready for the disk
// What is wrong with a page just read: null when nothing is.  log_end: the last position of the
// log; a page that is ahead of it was written by another store, or the log was replaced by an older
// one.
constexpr Gsn kLogEndUnknown = ~Gsn{0};  // positions are not compared with the log
const char *page_fault(const u8 *page, PageNo page_no, Gsn log_end);
// The same of what is in a meta page (or a claim), and in a list of free pages; page_count: of the
// file.
const char *meta_fault(const MetaPage &meta);
const char *trunk_fault(const TrunkPage &trunk, PageNo page_count);
// Are all of them numbers that a file with so many pages can have given out?
bool are_pages_of(const PageNo *pages, u32 n, PageNo page_count);
// Make a sealed claim of a page.
void page_claim(u8 *page, u32 kind, const StoreId &store);
// May this be the meta page of a file of that kind, or a claim?
bool is_meta(const u8 *page, u32 kind);
bool is_any_meta(const u8 *page);   // of whatever kind

}  // namespace ls
