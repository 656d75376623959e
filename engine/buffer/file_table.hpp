// file_table.hpp - the relation files the store has open, shared by all processes.
//
// A FileSlot is found by key (hash).  It lives until its file is forgotten, or closed so that
// another file can be opened.  Its meta frame stays resident while the slot is active (swip in the
// slot itself), so a descent starts without I/O.
//
// FileSlot state:  kUnused -> kOpening (opener, table mutex) -> kActive (opener)
//                  kActive -> kForgotten (forget); kOpening -> kForgotten when opening fails
//                  kActive -> kClosing (closer, table mutex: new uses wait)
//                  kClosing -> kClosed (closer: its pages are on disk)
//                  kClosing -> kActive when it is in use, or cannot be written
//                  kForgotten, kClosed -> kUnused (page provider, when the last frame of it is gone
//                  and no FileUse is left)
// In kForgotten its key is free for another slot.  In kClosing and kClosed it is not: a file that
// exists has one slot at a time.
// A file that was closed keeps its number when it is opened again: what refers to it by the number
// finds it (closed_files.hpp).
#pragma once
#include <atomic>

#include "base/status.hpp"
#include "buffer/frame.hpp"
#include "buffer/rereference.hpp"
#include "buffer/value_space.hpp"
#include "os/file.hpp"
#include "os/futex.hpp"

namespace ls {

enum class FileState : u32 { kUnused = 0, kOpening, kActive, kForgotten, kClosing, kClosed };

struct FileSlot;

// A file, wherever it is open now.  The slot is a guess: FileUse looks it up when it is wrong.
struct FileHandle {
  FileSlot *slot = nullptr;
  FileNo number = 0;
};

struct alignas(kCacheLine) FileSlot {
  std::atomic<FileState> state{FileState::kUnused};
  u32 index{0};
  std::atomic<FileNo> file_no{0};
  ls_rel_key key{};
  u8 kind{0};                        // ls_rel_kind
  std::atomic<bool> logged{false};   // set while opening
  char path[128]{};                  // first segment, relative to root_dir
  // Never null: an unused slot, or a forgotten one that has no frames any more, shows the pool's
  // empty meta page.
  std::atomic<Frame *> meta{nullptr};
  std::atomic<u32> frames{0};        // frames that hold pages of it
  std::atomic<u64> next_row_id{0};   // tables: next to hand out
  std::atomic<u64> row_id_reserved{0};  // logged reservation (MetaPage::row_id_high)
  std::atomic<Gsn> row_id_reserved_gsn{0};
  std::atomic<u64> row_id_durable{0};   // reservation known to be hardened
  // tables: rows that have left their leaves since it was opened
  std::atomic<u64> rows_gone{0};
  // Indexes: the table they were last used with (slot and number; 0: none yet), and its rows_gone
  // at the last sweep.
  std::atomic<u32> table_slot{0};
  std::atomic<FileNo> table_no{0};
  std::atomic<u64> rows_gone_swept{0};
  std::atomic<bool> stale_entries{false};   // indexes: MetaPage::stale_entries
  // recovery: the meta page is damaged in the file, and empty until its image comes by
  std::atomic<bool> meta_torn{false};
  std::atomic<Frame *> last_leaf{nullptr};  // version trees: where new entries mostly go; a guess
  std::atomic<u32> pages_allocated{0};  // physical pages of the file (fallocate'd)
  std::atomic<u32> pages_reserved{0};   // about to be taken (PageReservation)
  FutexMutex<LockRank::kFile> mutex;    // opening, extending the file, row id reservation
  FutexMutex<LockRank::kInnermost> end_mutex;   // the file gets longer
  std::atomic<u32> next_in_bucket{0};   // index + 1; under the table mutex
  // pins: batches writing or syncing the file, its extension; forget waits
  std::atomic<u32> writes{0};
  RereferenceRate rereference;                     // of its cool pages
  std::atomic<u64> last_used{0};        // PoolShared::use_clock when it was
  std::atomic<u32> further_uses{0};     // FileUses for which their workers' lines had no room
  bool dropping{false};                 // under the table mutex: forget is about to take it
  // pages written to it, counted before each write: a reader past the pool looks at it
  std::atomic<u64> page_writes{0};
  ValueSpace values;                    // LS_REL_VALUES
  FileRef ref() const { return FileRef{file_no.load(std::memory_order_relaxed), path}; }
};

// A tree of the store's own, which has places of its own and is never closed: no relation of the
// host has tablespace 0.
inline bool is_own(u32 kind, const ls_rel_key &key) {
  return kind == LS_REL_VERSIONS || key.tablespace == 0;
}
inline bool is_own(const FileSlot &file) { return is_own(file.kind, file.key); }

}  // namespace ls
