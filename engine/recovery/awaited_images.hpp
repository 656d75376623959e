// awaited_images.hpp - damaged pages that redo has met, until their images come by.
//
// Each has an operation in the log that needs the page, and none before that has all of it.  In a
// copy of a store's files that is so for pages that were written while it was made: the image comes
// later in the log (wal/image_horizon.hpp), and nothing before that is needed.
#pragma once
#include <map>
#include <mutex>
#include <utility>

#include "recovery/redo.hpp"

namespace ls {

class AwaitedImages {
 public:
  // last_error() says what is wrong with it; the first time counts.
  void add(FileNo file, PageNo page);
  bool contains(FileNo file, PageNo page) const;
  void remove(FileNo file, PageNo page);
  // At the end of the log.  LS_CORRUPT: one has not come, of a file that is there.
  Status all_came(const RecoveryFiles &files) const;

 private:
  using Place = std::pair<FileNo, PageNo>;
  mutable std::mutex mutex_;
  std::map<Place, ls_error> pages_;   // under mutex_
};

}  // namespace ls
