// change_buffer.hpp - the change buffer: changes of leaves that are not in memory, logged already,
// made when a reader brings the leaf in.  Some are of this start, others recovery has put off.
//
// A worker that wants to change an evicted leaf without having to look at it holds its parent
// exclusively, logs the change for that page, and adds it here.  A reader that swizzles the page
// holds the parent exclusively, too.  Before any other actor sees the page it makes what waits for
// it, in order: the operation of the log is done to its bytes, as redo would do it after a crash
// (TreeOps::redo).
//
// CHBUF-1  A change is here from the moment its record is finished (the partition's mutex is held
//          from before): so a scan that begins when a record is hardened finds it here, or in a
//          frame that was marked dirty before the change left (oldest_buffered_change).
// CHBUF-2  What is here fits its page: the worker that adds it knows the leaf's free space
//          (Swip::free_space), or the change takes none.
// CHBUF-3  A frame that is in a tree has no buffered change: its parent's latch lies between.
// CHBUF-4  What recovery puts off (recovery/redo.hpp) is here before the first reader comes, and
//          leaves the fences of its leaf as they are in the file, which the parent knows.
//
// Changes lie in cells of frames taken from the free list, an eighth of the pool at most; a frame
// goes back when all its cells are free.  Latch order: parent < partition mutex < frame that is not
// yet in a tree, log slot.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "buffer/pool.hpp"

namespace ls {

// In a cell; operands as in the log, and behind them the transaction, if it has one.
struct BufferedChange {
  // in the chain of its bucket, those of one page in the order of their records
  BufferedChange *next;
  Gsn gsn;
  FileNo file_no;
  PageNo page_no;
  u32 file_slot;
  u16 bytes;   // of operands
  u8 code;
  u8 has_tn;
  u8 operands[];
  PageOperation operation() const;
};
inline constexpr u32 kChangeHeadBytes = 36;
static_assert(offsetof(BufferedChange, operands) == kChangeHeadBytes);

inline constexpr u32 kChangeUnit = 16;
// of operands and transaction
inline constexpr u32 kMostChangeBytes = kMostChangeUnits * kChangeUnit - kChangeHeadBytes;

// The buffered changes of one page.
class ChangeBufferLock {
 public:
  ChangeBufferLock(PoolShared &pool, const FileSlot &file, PageNo page_no);
  ~ChangeBufferLock() { partition_->mutex.unlock(); }
  ChangeBufferLock(const ChangeBufferLock &) = delete;
  ChangeBufferLock &operator=(const ChangeBufferLock &) = delete;

  // The first one, or null.
  const BufferedChange *first() const;
  const BufferedChange *after(const BufferedChange *change) const;
  // A cell for one more, not yet added; null: there is no room.
  BufferedChange *make(u8 code, u32 operand_bytes, Tn tn = 0);
  void add(BufferedChange *change, Gsn gsn);
  // One that was made and is not added.
  void give_back(BufferedChange *change);
  void remove_all();

 private:
  bool is_of_page(const BufferedChange &change) const {
    return change.page_no == page_no_ && change.file_no == file_no_;
  }

  PoolShared &pool_;
  const FileSlot &file_;
  const FileNo file_no_;
  const PageNo page_no_;
  BufferedChange **head_;
  ChangeBufferPartition *partition_;
};

// Has the page buffered changes?
bool has_buffered_changes(PoolShared &pool, const FileSlot &file, PageNo page_no);
// Make the buffered changes of the page which was read into `frame`; the parent is latched
// exclusively, and no other actor knows the frame (recovery has no parents yet).  Where an image of
// the page is due it follows in the log (IMG-1), for which room is reserved: reserve_for_changes().
// LS_CORRUPT: one does not fit; the page is as it was, and all go on waiting.
Status apply_buffered_changes(Ctx &ctx, FileSlot &file, Frame *frame);
// A reader is about to bring in the page, no latch held.  What is buffered meanwhile changes its
// parent.
Status reserve_for_changes(Ctx &ctx, const FileSlot &file, PageNo page_no);

inline u32 most_change_buffer_frames(const PoolShared &pool) { return pool.frame_count / 8; }

// The least GSN of those of files in use, ~0 when none.
Gsn oldest_buffered_change(PoolShared &pool);

// A page with buffered changes, the first of them with its operands.
struct ChangeBufferPage {
  u32 file_slot;
  FileNo file_no;
  PageNo page_no;
  u8 code;
  std::vector<u8> operands;
};
// Those with a change of up_to or before, in the order of the files.
std::vector<ChangeBufferPage> change_buffer_pages(PoolShared &pool, Gsn up_to);
// The file is gone, and no worker is in its tree any more.
void drop_buffered_changes(PoolShared &pool, FileNo file_no);

}  // namespace ls
