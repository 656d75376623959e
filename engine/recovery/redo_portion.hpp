// redo_portion.hpp - a part of the log, by page: what redo can do with the frames there are.
//
// An operation changes one page and looks at no other, so the order of the log matters among the operations of a page only: pages can
// be taken in the order of their files, and by several threads.
#pragma once
#include <span>
#include <vector>

#include "buffer/recovery_pages.hpp"
#include "recovery/redo.hpp"

namespace ls {

struct RedoOp {
  const LogEntry *entry;
  Tn tn;               // of the record's transaction
  const u8 *operands;
  u32 page;            // index into RecoveryPages
  u16 bytes;           // of operands
  u8 code;
};
static_assert(sizeof(RedoOp) == 32 && kMaxRecordBytes <= UINT16_MAX);

class RedoPortion {
 public:
  RedoPortion(Ctx &ctx, const LogImage &image, const LogAnalysis &analysis, RecoveryFiles &files, RecoveryPages &pages)
      : ctx_(ctx), image_(image), analysis_(analysis), files_(files), pages_(pages) {}

  // Whole records from *next on, as many as their pages find frames and as a portion may have; *next: the first one left.  *no_room: it
  // ended for want of frames.
  Status collect(size_t *next, bool *no_room);

  // The pages that are touched, in the order of their files.
  std::span<const u32> pages() const { return order_; }
  // What is to be done to one of them, in the order of the log.
  std::span<const RedoOp> ops(u32 page) const { return {sorted_.data() + first_[page], first_[page + 1] - first_[page]}; }
  Lsn reached() const { return reached_; }

 private:
  Status add(const LogEntry &entry, const LogRecord &record, Tn tn, bool *no_room);
  Status open_file(FileNo file_no, RecoveryFile &file, bool *no_room);
  void sort();

  Ctx &ctx_;
  const LogImage &image_;
  const LogAnalysis &analysis_;
  RecoveryFiles &files_;
  RecoveryPages &pages_;
  std::vector<RedoOp> ops_, sorted_;
  std::vector<u32> first_;   // by page: its place in sorted_
  std::vector<u32> order_;
  Lsn reached_ = 0;
};

}  // namespace ls
