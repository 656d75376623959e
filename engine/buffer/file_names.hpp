// file_names.hpp - for the log: the relations of files (PLACE-1 in wal/changed_places.hpp).
#pragma once
#include "buffer/pool.hpp"
#include "wal/changed_places.hpp"

namespace ls {

// Of those that are open.  A page that was changed and is not yet in its file keeps that open,
// unless it was dropped.
class PoolFileNames final : public FileNames {
 public:
  explicit PoolFileNames(BufferPool &pool) : pool_(pool) {}
  bool find(FileNo number, ls_rel_key *relation) const override;

 private:
  BufferPool &pool_;
};

}  // namespace ls
