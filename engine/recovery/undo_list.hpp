// undo_list.hpp - undo/list.<gsn>: the transactions of which a checkpoint has left the undo in undo
// files, as they were at that GSN.
//
// ULIST-1  The control file names the list that counts (undo_gsn).  It was durable before, and so
//          was what it says of the undo files.
// ULIST-2  Of a transaction in the list the files have everything that it has logged up to the
//          list's GSN; what came behind is in the log, its end included.
// ULIST-3  The list also names the relation files of these changes: the log need not, any more.
#pragma once
#include <map>
#include <set>

#include "recovery/log_analysis.hpp"
#include "txn/undo_file.hpp"

namespace ls {

struct LongTransaction {
  LoggedTxn txn;
  LogSlotRun place;        // where it logs
  Gsn first_gsn = 0;       // it had logged nothing before
  UndoEnd undo;            // of its file; nothing: it has none
  std::set<FileNo> files;
};

struct UndoList {
  Gsn gsn = 0;
  std::map<Tn, LongTransaction> txns;
  std::map<FileNo, LoggedFile> files;
  bool empty() const { return txns.empty(); }
};

// The analysis begins with what the list knows.
void analyse_list(const UndoList &list, LogAnalysis *out);
// The one of that GSN; 0: there is none.
Status analyse_listed(const char *directory, Gsn gsn, LogAnalysis *out);

std::string undo_list_name(Gsn gsn);
// LS_CORRUPT names the file: absent, damaged, of another version.
Status undo_list_read(const char *directory, Gsn gsn, UndoList *out);
// Durable at return, and so are the names of files made in the directory before.
Status undo_list_write(const char *directory, const UndoList &list);

// Removes what is in the directory but for the list and its transactions' files.
Status undo_files_clean(const char *directory, const UndoList &list);

}  // namespace ls
