// further_file.hpp - the file that a relation of values has besides the one with its tree: the
// host's fork "fsm", which the host unlinks, copies and counts with the relation.
#pragma once
#include <cstdio>

#include "buffer/file_table.hpp"

namespace ls {

class FurtherFile {
 public:
  explicit FurtherFile(const FileSlot &file) : FurtherFile(file.ref()) {}
  explicit FurtherFile(const FileRef &relation) : number_(relation.file_no | kFurtherFile) {
    std::snprintf(path_, sizeof path_, "%s_fsm", relation.path);
  }
  FileRef ref() const { return {number_, path_}; }

 private:
  FileNo number_;
  char path_[sizeof(FileSlot::path) + 4];
};

}  // namespace ls
