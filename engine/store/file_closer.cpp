// file_closer.cpp - which files are idle, and the steps that close them.
#include "store/file_closer.hpp"

#include <algorithm>
#include <vector>

#include "buffer/closed_file.hpp"
#include "txn/row.hpp"

namespace ls {

namespace {

// What is being closed: it stays open unless close() has done with it.
class Closing {
 public:
  Closing(PoolShared &pool, u32 most) : pool_(pool), files_(begin_closing(pool, most)) {}
  ~Closing() {
    for (FileSlot *file : files_) end_closing(pool_, *file, false);
  }
  Closing(const Closing &) = delete;
  Closing &operator=(const Closing &) = delete;

  const std::vector<FileSlot *> &files() const { return files_; }
  void keep(FileSlot *file) { end(file, false); }
  void close(FileSlot *file) { end(file, true); }

 private:
  void end(FileSlot *file, bool written) {
    std::erase(files_, file);
    end_closing(pool_, *file, written);
  }

  PoolShared &pool_;
  std::vector<FileSlot *> files_;
};

Status seal(Worker &w, Closing &closing) {
  const std::vector<FileSlot *> files = closing.files();
  for (FileSlot *file : files) {
    if (has_rows(file->kind)) LS_TRY(row_ids_seal(w, *file));
  }
  return kOk;
}

}  // namespace

Status close_idle_files(Worker &w, u32 most, u32 *closed) {
  *closed = 0;
  BufferPool &pool = *w.pool;
  Closing closing(*pool.shared(), most);
  if (closing.files().empty()) return kOk;
  LS_TRY(seal(w, closing));
  LS_TRY(pool.flush_closing(w.ctx));
  const std::vector<const FileSlot *> unclean = pool.unclean_closing();
  const std::vector<FileSlot *> files = closing.files();
  for (FileSlot *file : files) {
    if (std::find(unclean.begin(), unclean.end(), file) != unclean.end()) {
      closing.keep(file);
      continue;
    }
    LS_TRY(tree_ops().closed_files->put(w.ctx, closing_name(*file)));
    if (file->logged) LS_TRY(pool.log_closing(w.ctx, *file));
    closing.close(file);
    (*closed)++;
  }
  return kOk;
}

}  // namespace ls
