// awaited_images.cpp - the table of damaged pages.
#include "recovery/awaited_images.hpp"

namespace ls {

void AwaitedImages::add(FileNo file, PageNo page) {
  const std::lock_guard guard(mutex_);
  pages_.try_emplace({file, page}, last_error());
}

bool AwaitedImages::contains(FileNo file, PageNo page) const {
  const std::lock_guard guard(mutex_);
  return pages_.contains({file, page});
}

void AwaitedImages::remove(FileNo file, PageNo page) {
  const std::lock_guard guard(mutex_);
  pages_.erase({file, page});
}

Status AwaitedImages::all_came(const RecoveryFiles &files) const {
  const std::lock_guard guard(mutex_);
  for (const auto &[place, error] : pages_) {
    const auto file = files.find(place.first);
    if (file == files.end() || file->second.state == RecoveryFile::State::kGone) continue;
    set_last_error(error);
    return make_status(error.status);
  }
  for (const auto &[number, file] : files) {
    if (file.state == RecoveryFile::State::kOpen &&
        file.slot->meta_torn.load(std::memory_order_relaxed))
      return fail_page(file.slot->path, kMetaPageNo, "checksum does not match");
  }
  return kOk;
}

}  // namespace ls
