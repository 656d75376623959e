// redo_portion.hpp - a part of the log, by page: what redo can do with the frames there are.
//
// An operation changes one page and looks at no other, so the order of the log matters among the
// operations of a page only: pages can be taken in the order of their files, and by several
// threads.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "buffer/recovery_pages.hpp"
#include "recovery/redo.hpp"

namespace ls {

struct RedoOp {
  Gsn gsn;             // of the record
  Lsn lsn;             // of its round
  Tn tn;               // of the record's transaction
  const u8 *operands;  // in the log reader's memory
  u32 page;            // index into RecoveryPages
  u16 bytes;           // of operands
  u8 code;
};
static_assert(sizeof(RedoOp) == 40 && kMaxRecordBytes <= UINT16_MAX);

class RedoPortion {
 public:
  // Without changes of pages before redo_gsn (REDO-4).
  // undo: gets the changes that may have to be undone, these too.
  RedoPortion(Ctx &ctx, LogReader &log, const LogAnalysis &analysis, RecoveryFiles &files,
              RecoveryPages &pages, Gsn redo_gsn, UndoSpool &undo);

  // The next whole records, as many as their pages find frames and as a portion may have.
  // *no_room: it ended for want of frames, or of places for files, maybe before the first;
  // *end: there are none behind.
  Status collect(bool *no_room, bool *end);

  // The pages that are touched, in the order of their files.  Of one that is free in the end, and
  // for which changes are put off, there may be no operation.
  std::span<const u32> pages() const { return order_; }
  // What is to be done to one of them, in the order of the log.
  std::span<const RedoOp> ops(u32 page) const {
    return {sorted_.data() + first_[page], first_[page + 1] - first_[page]};
  }
  // Was it given back?  Then no parent leads a reader to it, and nothing of it can be put off.
  bool is_freed(u32 page) const { return page < freed_.size() && freed_[page]; }
  Lsn reached() const { return reached_; }
  // It ended because no more files can be open at a time.
  bool files_full() const { return files_full_; }

 private:
  Status add(const LogEntry &entry, const LogRecord &record, Tn tn, bool *no_room);
  bool note_freed(FileSlot &file, PageNo page_no);
  Status open_file(FileNo file_no, RecoveryFile &file, bool *no_room);
  void sort();

  Ctx &ctx_;
  LogReader &log_;
  const LogAnalysis &analysis_;
  RecoveryFiles &files_;
  RecoveryPages &pages_;
  const Gsn redo_gsn_;
  UndoSpool &undo_;
  LogRowOwners owners_;
  std::optional<Tn> owner_;   // of the record that comes next, once it has been asked for
  const size_t most_ops_, most_operand_bytes_;
  size_t operand_bytes_ = 0;
  std::vector<RedoOp> ops_, sorted_;
  std::vector<u32> first_;   // by page: its place in sorted_
  std::vector<u32> order_;
  std::vector<bool> freed_;   // by page
  Lsn reached_ = 0;
  bool files_full_ = false;
};

}  // namespace ls
