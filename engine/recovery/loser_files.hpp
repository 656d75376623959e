// loser_files.hpp - the relations of changes that are undone, as the log numbers their files.
#pragma once
#include <unordered_map>

#include "buffer/file_use.hpp"
#include "recovery/log_analysis.hpp"
#include "txn/worker.hpp"

namespace ls {

// Found by their keys: a row that carries the loser's (tn, seq) is the one it has changed, however
// often its file was closed and opened since.
class LoserFiles {
 public:
  LoserFiles(Worker &w, const LogAnalysis &analysis) : w_(w), analysis_(analysis) {}

  // *found null: the host has dropped the file.
  Status find(FileNo file_no, const FileHandle **found);

 private:
  Status open(const LoggedFile &file, FileHandle *out);

  Worker &w_;
  const LogAnalysis &analysis_;
  std::unordered_map<FileNo, FileHandle> files_;   // number 0: gone
};

}  // namespace ls
