// foreign_file.hpp - the rows of a table's file that another store has written
// (docs/decisions/0021).
//
// Such a file is never opened in the pool: its positions and transaction numbers mean nothing here.
// It is read beside the pool, by page numbers as they are on disk, and nothing is written to it.
//
// ADOPT-1  Nothing is taken from a page before all has been looked at that can be wrong with it:
//          checksum and place (page_fault), contents (stored_page_fault), and that it is the child
//          that its parent says (child_fault).
// ADOPT-2  The walk ends.  A child's level is one below its parent's, so at most kMaxTreeHeight
//          pages are held.  Its fences are those beside the reference to it, and no two of the tree
//          share a level and a fence, so each page is met once, however the references run.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "buffer/pool.hpp"

namespace ls {

class ForeignFile {
 public:
  // LS_NOT_ADOPTABLE: the file is this store's, or has none of its pages.
  static Status open(Ctx &ctx, const char *path, ls_rel_kind kind,
                     std::unique_ptr<ForeignFile> *file);
  ForeignFile(Ctx &ctx, const char *path);
  ~ForeignFile();
  ForeignFile(const ForeignFile &) = delete;
  ForeignFile &operator=(const ForeignFile &) = delete;

  // The rows of the next leaf, in order of their ids: newest versions that are not deleted, perhaps
  // none.  Of ls_row only row_id, data and len mean something.  Valid until the next call.  LS_END.
  Status next(std::span<const ls_row> *rows);
  const FileRef &ref() const { return file_; }

 private:
  // A page above the leaves, and which of its children comes next.
  struct Place {
    alignas(8) u8 page[kPageSize];
    u32 child;
  };

  Status open_meta(ls_rel_kind kind);
  Status read(PageNo page_no);
  Status damaged(PageNo page_no, const char *fault) const;
  static const Swip *next_child(Place &place);
  Status take_rows();

  Ctx &ctx_;
  const std::string path_;
  const FileRef file_;
  PageNo page_count_ = 0;
  std::vector<Place> places_;           // from the meta page down
  alignas(kPageSize) u8 page_[kPageSize];   // read last
  std::vector<ls_row> rows_;
};

}  // namespace ls
