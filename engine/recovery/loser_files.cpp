// loser_files.cpp - relations found by their keys, once each.
#include "recovery/loser_files.hpp"

#include "btree/tree.hpp"

namespace ls {

Status LoserFiles::find(FileNo file_no, const FileHandle **found) {
  const auto [at, is_new] = files_.try_emplace(file_no);
  const auto file = analysis_.files.find(file_no);
  if (is_new && file != analysis_.files.end()) LS_TRY(open(file->second, &at->second));
  *found = at->second.number != 0 ? &at->second : nullptr;
  return kOk;
}

// Redo has left it open if the log has something about it.
Status LoserFiles::open(const LoggedFile &file, FileHandle *out) {
  const ls_rel_kind kind = static_cast<ls_rel_kind>(file.record.kind);
  const FileSlot *found = w_.pool->find_file(file.key());
  const bool open = found && found->kind == kind;
  u32 pages = 0;
  Status status = open ? kOk : file_pages({file.record.file, file.path.c_str()}, &pages);
  if (open || (ok(status) && pages > 0))
    status = w_.pool->open_handle(w_.ctx, file.key(), file.path.c_str(), kind, true, BTree::format,
                                  out);
  // Another store's file has nothing of this log's transactions.
  const bool gone = code(status) == LS_NOT_FOUND || code(status) == LS_FOREIGN;
  return gone ? kOk : status;
}

}  // namespace ls
