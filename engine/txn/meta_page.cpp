// meta_page.cpp - the meta page, latched.
#include "txn/meta_page.hpp"

#include "base/check.hpp"
#include "buffer/page.hpp"

namespace ls {

Status latch_meta(Worker &w, FileSlot &file, ExclusiveGuard *meta) {
  *meta = ExclusiveGuard::lock(*w.pool, file.meta.load(std::memory_order_acquire));
  const MetaPage *page = reinterpret_cast<const MetaPage *>(meta->page());
  if (has_pages(file) && page->magic == kMetaMagic &&
      meta->frame()->file_no.load(std::memory_order_relaxed) ==
          file.file_no.load(std::memory_order_relaxed)) {
    LS_ASSERT(meta->frame()->page_no.load(std::memory_order_relaxed) == kMetaPageNo);
    return kOk;
  }
  meta->reset_unchanged();
  return fail(LS_NOT_FOUND, "relation file \"%s\" was dropped", file.path);
}

}  // namespace ls
