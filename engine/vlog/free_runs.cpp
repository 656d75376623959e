// free_runs.cpp - three entries for each run of free pages.
#include "vlog/free_runs.hpp"

#include <bit>
#include <cstring>

#include "base/check.hpp"

namespace ls {

namespace {

u32 class_of(u32 pages) { return static_cast<u32>(std::bit_width(pages)) - 1; }
// Of which every run has so many pages.
u32 class_for(u32 pages) { return static_cast<u32>(std::bit_width(pages - 1)); }

Bytes bytes_of(const u32 &pages) {
  return Bytes(reinterpret_cast<const u8 *>(&pages), sizeof pages);
}

}  // namespace

FreeRuns::FreeRuns(Ctx &ctx, u64 file) : tree_(value_tree(ctx)), file_(file) {}

ValueKey FreeRuns::key(char kind, PageNo page) const { return ValueKey(file_, kind).page(page); }

ValueKey FreeRuns::key(u32 size_class, PageNo page) const {
  return ValueKey(file_, 's').size_class(size_class).page(page);
}

Status FreeRuns::find(char kind, PageNo page, u32 *pages) {
  alignas(8) u8 out[sizeof *pages];
  u32 bytes = 0;
  LS_TRY(tree_.lookup(key(kind, page), out, sizeof out, &bytes));
  if (bytes != sizeof out) return fail(LS_CORRUPT, "an entry of free pages is damaged");
  std::memcpy(pages, out, sizeof out);
  return kOk;
}

Status FreeRuns::put(PageRun run) {
  LS_ASSERT(run.pages > 0);
  LS_TRY(put_entry(tree_, key('f', run.first), bytes_of(run.pages)));
  LS_TRY(put_entry(tree_, key('l', run.end()), bytes_of(run.pages)));
  return put_entry(tree_, key(class_of(run.pages), run.first), bytes_of(run.pages));
}

Status FreeRuns::remove(PageRun run) {
  LS_TRY(remove_entry(tree_, key(class_of(run.pages), run.first)));
  LS_TRY(remove_entry(tree_, key('l', run.end())));
  return remove_entry(tree_, key('f', run.first));
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

Status FreeRuns::run_of(const FoundEntry &found, PageRun *run) {
  if (found.key_bytes != ValueKey::kPrefixBytes + 4 || found.value_bytes != sizeof run->pages)
    return fail(LS_CORRUPT, "an entry of free pages is damaged");
  std::memcpy(&run->first, found.key + ValueKey::kPrefixBytes, sizeof run->first);
  run->first = __builtin_bswap32(run->first);
  std::memcpy(&run->pages, found.value, sizeof run->pages);
  return kOk;
}

Status FreeRuns::take_found(const FoundEntry &found, u32 most, PageRun *run) {
  PageNo first;
  u32 pages;
  if (found.key_bytes != ValueKey::kPrefixBytes + 5 || found.value_bytes != sizeof pages)
    return fail(LS_CORRUPT, "an entry of free pages is damaged");
  std::memcpy(&first, found.key + ValueKey::kPrefixBytes + 1, sizeof first);
  first = __builtin_bswap32(first);
  std::memcpy(&pages, found.value, sizeof pages);
  LS_TRY(remove({first, pages}));
  *run = {first, pages < most ? pages : most};
  return pages > most ? put({first + most, pages - most}) : kOk;
}

Status FreeRuns::take(u32 pages, PageRun *run) {
  FoundEntry found;
  LS_TRY(first_entry(tree_, key(class_for(pages), 0), ValueKey::kPrefixBytes, &found));
  return take_found(found, pages, run);
}

Status FreeRuns::take_smaller(u32 pages, PageRun *run) {
  FoundEntry found;
  LS_TRY(last_entry_before(tree_, key(class_for(pages), 0), ValueKey::kPrefixBytes, &found));
  return take_found(found, pages, run);
}

Status FreeRuns::take_behind(PageNo first, PageRun *run) {
  FoundEntry found;
  LS_TRY(last_entry_before(tree_, key('f', kInvalidPageNo), ValueKey::kPrefixBytes, &found));
  LS_TRY(run_of(found, run));
  return run->first >= first ? remove(*run) : make_status(LS_NOT_FOUND);
}

Status FreeRuns::take_last(PageNo end, u32 least, PageRun *run) {
  u32 pages;
  LS_TRY(find('l', end, &pages));
  if (pages < least) return make_status(LS_NOT_FOUND);
  *run = {end - pages, pages};
  return remove(*run);
}

Status FreeRuns::next(PageNo from, PageRun *run) {
  FoundEntry found;
  LS_TRY(first_entry(tree_, key('f', from), ValueKey::kPrefixBytes, &found));
  return run_of(found, run);
}

}  // namespace ls
