// redo_page.hpp - what the log says about one page, done to it.
#pragma once
#include "recovery/redo_portion.hpp"

namespace ls {

// `ops`: all of a portion on that page, which has been read.  *truncated: it is of a file that the
// host has truncated (REDO-2); only said where started_empty.  LS_CORRUPT names page and record.
Status redo_page(BufferPool &pool, const RecoveryPages::Page &page, bool started_empty,
                 std::span<const RedoOp> ops, RedoStats *stats, bool *truncated);

// One operation, to a page that is latched and older.  LS_CORRUPT names page and record.
Status redo_op(const RedoOp &op, const FileSlot &file, u8 *page, PageNo page_no);
// REDO-5: has it all of the page?
bool is_whole_page(u8 code);
// Is there an operation that has?
bool have_whole_page(std::span<const RedoOp> ops);
// A page that must wait has its image in the log: nothing of what it was, and what waits for it, is
// needed.
void begin_anew(BufferPool &pool, RecoveryPages::Page *page);

// Is the page damaged, or does something wait for it in the change buffer?
bool must_wait(BufferPool &pool, const RecoveryPages::Page &page);
// Reads a damaged page once more: the last error says what is wrong with it.
Status read_damaged(Ctx &ctx, const RecoveryPages::Page &page);
// Could all of them have been made without reading the leaf, in the first place?
bool are_blind(std::span<const RedoOp> ops);
// Could all of them be made later, when the leaf is read (CHBUF-4)?
bool can_wait(std::span<const RedoOp> ops);
// They go into the change buffer, all or none.  False: there is no room.
bool let_wait(BufferPool &pool, const RecoveryPages::Page &page, std::span<const RedoOp> ops);

// Those of BTree, which know the operations of rows and indexes, too.
TreeOps redo_tree_ops();

}  // namespace ls
