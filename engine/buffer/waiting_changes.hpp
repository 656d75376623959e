// waiting_changes.hpp - changes of leaves that are not in memory: logged already, made when somebody reads the leaf.
//
// Whoever wants to change an evicted leaf without having to look at it holds its parent exclusively, logs the change for that page, and
// adds it here.  Whoever swizzles the page holds the parent exclusively, too, and makes what waits for it, in order, before anybody
// sees the page: the operation of the log is done to its bytes, as redo would do it after a crash (TreeOps::redo).
//
// V1  A change is here from the moment its record is finished (the partition's mutex is held from before): so a scan that begins when
//     a record is hardened finds it here, or in a frame that was marked dirty before the change left (oldest_waiting).
// V2  What is here fits its page: who adds it knows the leaf's room (Swip::room), or the change takes none.
// V3  A frame that is in a tree has no change waiting: its parent's latch lies between.
//
// Changes lie in cells of frames taken from the free list, an eighth of the pool at most; a frame whose cells are all free goes back.
// Latch order: parent < partition mutex < frame that is not yet in a tree, log slot.
#pragma once
#include <span>
#include <vector>

#include "base/status.hpp"
#include "buffer/pool_shared.hpp"

namespace ls {

// In a cell; operands as in the log.
struct WaitingChange {
  WaitingChange *next;   // in the chain of its bucket, those of one page in the order of their records
  Gsn gsn;
  FileNo file_no;
  PageNo page_no;
  u32 file_slot;
  u16 bytes;
  u8 code;
  u8 operands[];
};
static_assert(sizeof(WaitingChange) == 40);

inline constexpr u32 kChangeUnit = 16;
inline constexpr u32 kMostChangeBytes = kMostChangeUnits * kChangeUnit - sizeof(WaitingChange);   // of operands

// The changes that wait for one page.
class WaitingLock {
 public:
  WaitingLock(PoolShared &pool, const FileSlot &file, PageNo page_no);
  ~WaitingLock() { partition_->mutex.unlock(); }
  WaitingLock(const WaitingLock &) = delete;
  WaitingLock &operator=(const WaitingLock &) = delete;

  // The first one, or null.
  const WaitingChange *first() const;
  const WaitingChange *after(const WaitingChange *change) const;
  // A cell for one more, not yet added; null: there is no room.
  WaitingChange *make(u8 code, u32 operand_bytes);
  void add(WaitingChange *change, Gsn gsn);
  void remove_all();

 private:
  bool is_of_page(const WaitingChange &change) const { return change.page_no == page_no_ && change.file_no == file_no_; }

  PoolShared &pool_;
  const FileSlot &file_;
  const FileNo file_no_;
  const PageNo page_no_;
  WaitingChange **head_;
  WaitingPartition *partition_;
};

// Does any change wait for the page?
bool changes_wait(PoolShared &pool, const FileSlot &file, PageNo page_no);
// Make the changes that wait for the page which was read into `frame`; the parent is latched exclusively, and nobody else knows the frame.
// LS_CORRUPT: one does not fit; the page is as it was, and all go on waiting.
Status make_waiting_changes(PoolShared &pool, FileSlot &file, Frame *frame);

// The least GSN of those whose file is in use, ~0 when none.
Gsn oldest_waiting(PoolShared &pool);

// A page for which changes wait, the first of them with its operands.
struct WaitingPage {
  u32 file_slot;
  FileNo file_no;
  PageNo page_no;
  std::vector<u8> operands;
};
// Those with a change of up_to or before, in the order of the files.
std::vector<WaitingPage> waiting_pages(PoolShared &pool, Gsn up_to);
// The file is gone, and nobody is in its tree any more.
void drop_waiting(PoolShared &pool, FileNo file_no);

}  // namespace ls
