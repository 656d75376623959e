// free_runs.cpp - three entries for each run of free pages.
#include "vlog/free_runs.hpp"

#include <bit>
#include <cstring>

#include "base/check.hpp"

namespace ls {

namespace {

constexpr u32 kPrefixBytes = 8 + 1;   // file and kind

u32 class_of(u32 pages) { return static_cast<u32>(std::bit_width(pages)) - 1; }
// Of which every run has so many pages.
u32 class_for(u32 pages) { return static_cast<u32>(std::bit_width(pages - 1)); }

BTree tree_of(Ctx &ctx) {
  const u32 place = ctx.pool->shared()->value_tree.load(std::memory_order_acquire);
  LS_CHECK(place != 0, "there is no tree of free pages");
  return BTree(ctx, ctx.pool->file(place - 1));
}

Bytes bytes_of(const u32 &pages) {
  return Bytes(reinterpret_cast<const u8 *>(&pages), sizeof pages);
}

}  // namespace

struct FreeRuns::Key {
  u8 bytes[kPrefixBytes + 5];
  u32 length;

  Key(FileNo file_no, char kind, PageNo page) : length(kPrefixBytes + 4) {
    begin(file_no, kind);
    put_page(kPrefixBytes, page);
  }
  Key(FileNo file_no, u32 size_class, PageNo page) : length(kPrefixBytes + 5) {
    begin(file_no, 's');
    bytes[kPrefixBytes] = static_cast<u8>(size_class);
    put_page(kPrefixBytes + 1, page);
  }
  operator Bytes() const { return Bytes(bytes, length); }

 private:
  void begin(FileNo file_no, char kind) {
    const u64 be = __builtin_bswap64(file_no);
    std::memcpy(bytes, &be, sizeof be);
    bytes[8] = static_cast<u8>(kind);
  }
  void put_page(u32 at, PageNo page) {
    const u32 be = __builtin_bswap32(page);
    std::memcpy(bytes + at, &be, sizeof be);
  }
};

FreeRuns::FreeRuns(Ctx &ctx, FileNo file_no) : tree_(tree_of(ctx)), file_no_(file_no) {}

Status FreeRuns::find(char kind, PageNo page, u32 *pages) {
  alignas(8) u8 out[sizeof *pages];
  u32 bytes = 0;
  LS_TRY(tree_.lookup(Key(file_no_, kind, page), out, sizeof out, &bytes));
  if (bytes != sizeof out) return fail(LS_CORRUPT, "an entry of free pages is damaged");
  std::memcpy(pages, out, sizeof out);
  return kOk;
}

Status FreeRuns::put(PageRun run) {
  LS_ASSERT(run.pages > 0);
  LS_TRY(put_entry(tree_, Key(file_no_, 'f', run.first), bytes_of(run.pages)));
  LS_TRY(put_entry(tree_, Key(file_no_, 'l', run.end()), bytes_of(run.pages)));
  return put_entry(tree_, Key(file_no_, class_of(run.pages), run.first), bytes_of(run.pages));
}

Status FreeRuns::remove(PageRun run) {
  LS_TRY(remove_entry(tree_, Key(file_no_, class_of(run.pages), run.first)));
  LS_TRY(remove_entry(tree_, Key(file_no_, 'l', run.end())));
  return remove_entry(tree_, Key(file_no_, 'f', run.first));
}

Status FreeRuns::add(PageRun run) {
  u32 pages;
  Status status = find('l', run.first, &pages);
  if (ok(status)) {
    const PageRun before{run.first - pages, pages};
    LS_TRY(remove(before));
    run = {before.first, before.pages + run.pages};
  } else if (code(status) != LS_NOT_FOUND) {
    return status;
  }
  status = find('f', run.end(), &pages);
  if (ok(status)) {
    LS_TRY(remove({run.end(), pages}));
    run.pages += pages;
  } else if (code(status) != LS_NOT_FOUND) {
    return status;
  }
  return put(run);
}

Status FreeRuns::take_found(const FoundEntry &found, u32 most, PageRun *run) {
  PageNo first;
  u32 pages;
  if (found.key_bytes != kPrefixBytes + 5 || found.value_bytes != sizeof pages)
    return fail(LS_CORRUPT, "an entry of free pages is damaged");
  std::memcpy(&first, found.key + kPrefixBytes + 1, sizeof first);
  first = __builtin_bswap32(first);
  std::memcpy(&pages, found.value, sizeof pages);
  LS_TRY(remove({first, pages}));
  *run = {first, pages < most ? pages : most};
  return pages > most ? put({first + most, pages - most}) : kOk;
}

Status FreeRuns::take(u32 pages, PageRun *run) {
  FoundEntry found;
  LS_TRY(first_entry(tree_, Key(file_no_, class_for(pages), 0), kPrefixBytes, &found));
  return take_found(found, pages, run);
}

Status FreeRuns::take_smaller(u32 pages, PageRun *run) {
  FoundEntry found;
  LS_TRY(last_entry_before(tree_, Key(file_no_, class_for(pages), 0), kPrefixBytes, &found));
  return take_found(found, pages, run);
}

Status FreeRuns::take_behind(PageNo first, PageRun *run) {
  FoundEntry found;
  LS_TRY(last_entry_before(tree_, Key(file_no_, 'f', kInvalidPageNo), kPrefixBytes, &found));
  if (found.key_bytes != kPrefixBytes + 4 || found.value_bytes != sizeof run->pages)
    return fail(LS_CORRUPT, "an entry of free pages is damaged");
  std::memcpy(&run->first, found.key + kPrefixBytes, sizeof run->first);
  run->first = __builtin_bswap32(run->first);
  std::memcpy(&run->pages, found.value, sizeof run->pages);
  return run->first >= first ? remove(*run) : make_status(LS_NOT_FOUND);
}

Status FreeRuns::take_last(PageNo end, u32 least, PageRun *run) {
  u32 pages;
  LS_TRY(find('l', end, &pages));
  if (pages < least) return make_status(LS_NOT_FOUND);
  *run = {end - pages, pages};
  return remove(*run);
}

Status FreeRuns::clear() {
  for (const char kind : {'f', 'l', 's'}) {
    for (;;) {
      FoundEntry found;
      const Status status = first_entry(tree_, Key(file_no_, kind, 0), kPrefixBytes, &found);
      if (code(status) == LS_NOT_FOUND) break;
      LS_TRY(status);
      LS_TRY(remove_entry(tree_, Bytes(found.key, found.key_bytes)));
    }
  }
  return kOk;
}

}  // namespace ls
