// file_names.cpp - by looking at all files: a writer of the log remembers what it has found.
#include "buffer/file_names.hpp"

namespace ls {

bool PoolFileNames::find(FileNo number, ls_rel_key *relation) const {
  for (u32 i = 0; i < pool_.shared()->max_files; i++) {
    FileSlot &file = pool_.file(i);
    if (file.file_no.load(std::memory_order_relaxed) != number) continue;
    const FilePin pin(file, number);
    if (!pin.pinned()) continue;
    *relation = file.key;
    return true;
  }
  return false;
}

}  // namespace ls
