// pool_shared.hpp - the part of the pool that lies in the arena, and the free list of frames.
//
// Layout of the arena: PoolShared | frames | file slots | hash heads | I/O partitions | pages (4
// KiB aligned).  Every process sees the arena at the same address, so pointers in it are plain.
// There is one frame more than frame_count: the empty meta page (FileSlot::meta of slots that have
// no file), which is never on the free list and never changed.
#pragma once
#include <atomic>
#include <span>
#include <vector>

#include "base/failure.hpp"
#include "buffer/file_table.hpp"
#include "buffer/frame.hpp"
#include "buffer/sparse_leaves.hpp"
#include "os/futex.hpp"

namespace ls {

struct Ctx;
class BufferPool;
struct BufferedChange;
struct ChangeChunk;

// One bucket chain and its neighbours; io_stage.hpp.
struct alignas(kCacheLine) IoPartition {
  FutexMutex<LockRank::kIoStage> mutex;
};

// Some of the buckets of the change buffer; change_buffer.hpp.
inline constexpr u32 kMostChangeUnits = 32;   // of the size of a cell
inline constexpr u32 kChangeBufferPartitions = 16;
struct alignas(kCacheLine) ChangeBufferPartition {
  FutexMutex<LockRank::kPartition> mutex;
  ChangeChunk *chunks[kMostChangeUnits];   // with free cells, by their size
};

// Some of the buckets of compressed pages; compressed_cache.hpp.
inline constexpr u32 kCompressedPartitions = 16;
struct alignas(kCacheLine) CompressedPartition {
  FutexMutex<LockRank::kPartition> mutex;
  u32 chunks;            // with free cells: frame + 1
  u32 oldest, newest;    // pages: cell + 1
};

// The files that a worker uses now; file_use.hpp.
struct alignas(kCacheLine) FileUses {
  static constexpr u32 kCount = kCacheLine / sizeof(u32);
  std::atomic<u32> slots[kCount];   // index + 1; 0: none
};

inline constexpr u32 kCounterStripes = 64;
// Counted without read-modify-write: two workers on one stripe may lose a count, never a cache
// line.
struct alignas(kCacheLine) PoolCounters {
  std::atomic<u64> hits{0};
  std::atomic<u64> restarts{0};
  std::atomic<u64> splits{0};
  std::atomic<u64> merges{0};
};

// Areas of the doublewrite buffer that may be in use at the same time: page providers,
// checkpointer, a host's flush.
inline constexpr u32 kTearAreas = 4;

// Of pages that were freed (last_images.hpp).
struct DroppedImages {
  std::atomic<u32> now;        // recovery undoes
  // their first change that may be missing on disk; the end of undo, 0: none
  std::atomic<Gsn> from, to;
};

struct PoolShared {
  u32 frame_count;
  u32 low_water;       // page providers start below
  u32 high_water;      // and stop above
  u32 max_files;
  u32 file_mask;       // heads of the file hash - 1
  u32 io_mask;         // heads of the I/O stage - 1
  u32 partition_mask;
  u32 change_buffer_mask;    // heads of buffered changes - 1
  u32 compressed_mask;     // heads of compressed pages - 1
  u32 most_compressed_frames;
  StoreId store;       // set by recovery before files are opened
  std::atomic<bool> following;   // logged files are followed (followed_pages.hpp)
  char doublewrite_path[640];
  Frame *frames;
  u8 *pages;
  FileSlot *files;
  std::atomic<u32> *file_heads;    // index + 1; under table_mutex
  std::atomic<u32> *io_heads;      // index + 1; under the partition's mutex
  IoPartition *partitions;
  BufferedChange **change_buffer_heads;   // under the partition's mutex
  ChangeBufferPartition *change_buffer_partitions;
  u32 *compressed_heads;               // cell + 1; under the partition's mutex
  CompressedPartition *compressed_partitions;

  // Free list: a stack, head = tag << 32 | index + 1.  The tag makes a pop fail when its `next` has
  // become stale.
  alignas(kCacheLine) std::atomic<u64> free_head;
  std::atomic<u32> free_count;
  std::atomic<u32> free_waiters;
  std::atomic<u32> free_event;       // futex: workers that wait for a frame
  alignas(kCacheLine) std::atomic<u32> provider_sleepers;
  std::atomic<u32> provider_event;   // futex: page providers
  std::atomic<u32> leaving;          // slots in state kForgotten or kClosed

  alignas(kCacheLine) FutexMutex<LockRank::kFileTable> table_mutex;  // file table
  std::atomic<u32> open_event;       // futex: a slot left kOpening
  std::atomic<FileNo> next_file_no;
  std::atomic<u32> active_files;
  // under table_mutex: where the search for an unused slot begins
  u32 slot_cursor;
  u32 own_open;                      // under table_mutex: of own_files
  u32 own_files;                     // places for trees of the store's own (is_own)
  FileUses *uses;                    // by worker slot
  u32 use_lines;
  std::atomic<u64> use_clock;        // goes on with each opening
  std::atomic<u32> has_closer;       // a thread closes files
  std::atomic<u32> closer_event;     // futex: that thread
  std::atomic<u64> files_closed;     // ever, so that others could be opened
  std::atomic<u32> closed_tree;      // closed_files.hpp: slot index + 1; 0: there is none
  std::atomic<u64> closed_names;     // in it, ever: 0 is the usual case
  std::atomic<u64> seals;            // in it, too (sealed_files.hpp), ever
  std::atomic<u32> value_tree;       // vlog/value_tree.hpp: slot index + 1; 0: there is none
  std::atomic<u64> value_files;      // in it, ever: their numbers

  // one provider at a time clears out forgotten files; only tried
  FutexMutex<LockRank::kLongAction> sweep_mutex;
  std::atomic<u32> tear_areas[kTearAreas];   // claimed by a batch: futex words
  std::atomic<u32> tear_cursor;
  Failure failure;                   // of page writes: nothing is written any more

  FutexMutex<LockRank::kLongAction> scan_mutex;  // one BufferPool::oldest_dirty at a time
  // the oldest mark that has moved since it began (note_moved); 0: no scan is under way
  std::atomic<Gsn> moved_since;
  FutexMutex<LockRank::kInnermost> flush_mutex;
  u32 flushes;                       // under way
  std::atomic<Gsn> flush_bound;      // what they write, the page providers write as well
  DroppedImages dropped_images;

  alignas(kCacheLine) std::atomic<u64> change_buffer_count;   // buffered changes
  std::atomic<u64> change_buffer_inserts;          // ever
  std::atomic<u32> change_buffer_frames;   // that hold them

  alignas(kCacheLine) std::atomic<u64> compressed_count;    // compressed pages
  std::atomic<u64> compressed_dirty;     // of them: the file does not have them
  std::atomic<u64> decompressed, outlived;   // ever: wanted again, and gone as the oldest
  std::atomic<u32> compressed_frames;    // that hold them

  RereferenceRate rereference;                  // of all cool pages
  SparseLeaves sparse_leaves;
  std::atomic<u64> reads, writes, evictions;
  // of the reads: those made before they were wanted, and how many times some were begun
  std::atomic<u64> reads_ahead, batches_ahead;
  PoolCounters counters[kCounterStripes];

  Frame *empty_meta() { return frames + frame_count; }
};

// For tables of pages.
inline u64 hash_page(FileNo file_no, PageNo page_no) {
  const u64 h = (file_no * 0xbf58476d1ce4e5b9ull + page_no) * 0x9e3779b97f4a7c15ull;
  return h ^ h >> 32;
}

// ---- free_list.cpp
// A free frame, or null.  It stays in state kFree and belongs to the caller.
Frame *free_list_pop(PoolShared &pool);
// Waits for the page providers; LS_NO_FRAMES, LS_INTERRUPTED.  No latch held.
Status free_list_take(Ctx &ctx, PoolShared &pool, Frame **frame);
// The frame holds nothing (kFree), and no swip and no table refers to it.
void free_list_push(PoolShared &pool, Frame *frame);
// A free frame for something else than a page, latched exclusively, or null: `borrowed` counts
// those of that sort, `most` at a time.  Its state stays kFree.
Frame *borrow_frame(PoolShared &pool, std::atomic<u32> &borrowed, u32 most);
void return_frame(PoolShared &pool, std::atomic<u32> &borrowed, Frame *frame);
void wake_providers(PoolShared &pool);

// ---- pool.cpp
// A frame from the free list becomes the (unread) page: kLoading.  False when the file has been
// forgotten.
bool claim_frame(PoolShared &pool, FileSlot &file, Frame *frame, PageNo page_no);
// Undo of claim_frame, and the end of every page in memory: to the free list.  The caller alone
// refers to the frame.
void release_frame(PoolShared &pool, Frame *frame);
// Changed since; exclusive latch held.
void note_dirty(Frame *frame, Gsn since);
// A mark of that file goes from one place to another: it is in the new one already, and still in
// the old one.
void note_moved(PoolShared &pool, const FileSlot &file, Gsn since);

// ---- resolve.cpp
// As BufferPool::load_page, but a page that is not on disk comes as zeros.
Status load_or_zero(BufferPool &pool, Ctx &ctx, FileSlot &file, PageNo page_no, Frame **frame,
                    bool *absent);
// The same into a frame that is the caller's alone.
Status read_or_zero(BufferPool &pool, Ctx &ctx, FileSlot &file, PageNo page_no, Frame *frame,
                    bool *absent);
// A frame of zeros for the page, whatever is on disk; as load_or_zero.
Status load_zero(Ctx &ctx, FileSlot &file, PageNo page_no, Frame **frame);

// ---- file_table.cpp
// What the meta page says about row ids.
void take_meta(FileSlot &file, const struct MetaPage &meta);
// Keeps the file from being forgotten while it is written: forget waits.  False: it is forgotten
// already.
bool pin_file(FileSlot &file, FileNo file_no);
void unpin_file(FileSlot &file);
// The same for a block of code.
class FilePin {
 public:
  FilePin(FileSlot &file, FileNo file_no) : file_(pin_file(file, file_no) ? &file : nullptr) {}
  ~FilePin() {
    if (file_) unpin_file(*file_);
  }
  FilePin(const FilePin &) = delete;
  FilePin &operator=(const FilePin &) = delete;
  bool pinned() const { return file_ != nullptr; }

 private:
  FileSlot *file_;
};
inline bool file_is(const FileSlot &file, FileState state) {
  return file.state.load(std::memory_order_acquire) == state;
}
// Are its pages worth something: read, changed, written?
inline bool has_pages(FileState state) {
  return state == FileState::kActive || state == FileState::kClosing;
}
inline bool has_pages(const FileSlot &file) {
  return has_pages(file.state.load(std::memory_order_acquire));
}
// Are its frames to be dropped?
inline bool is_leaving(const FileSlot &file) {
  const FileState state = file.state.load(std::memory_order_acquire);
  return state == FileState::kForgotten || state == FileState::kClosed;
}
// Is the file of that number still in that slot?  For tables of what belongs to pages that are in
// no frame.
inline bool is_in_use(const PoolShared &pool, u32 file_slot, FileNo file_no) {
  const FileSlot &file = pool.files[file_slot];
  return file.file_no.load(std::memory_order_relaxed) == file_no && has_pages(file);
}
// A forgotten or closed slot becomes unused when its last frame and its last use are gone.
void finish_leaving(PoolShared &pool, FileSlot &file);
// Mark idle ones as kClosing, those that were unused for longest, `most` at most.  By one thread.
std::vector<FileSlot *> begin_closing(PoolShared &pool, u32 most);
// Of these files those that are open and not in use.  *busy: another one is not closed.
std::vector<FileSlot *> begin_closing(PoolShared &pool, std::span<const ls_ending_file> files,
                                      bool *busy);
// Written: its pages are on disk, and it is closed.  Else it stays open.
void end_closing(PoolShared &pool, FileSlot &file, bool written);
void wake_closer(PoolShared &pool);
// How many places for relations are free, or about to be.
u32 free_places(const PoolShared &pool);
// So many are to be.
u32 places_kept_free(const PoolShared &pool);
// What is kept of a file that is being closed.
struct ClosedFile closing_name(const FileSlot &file);
// In use now?  Sequentially consistent (USE-1 in file_use.hpp).
bool file_in_use(const PoolShared &pool, const FileSlot &file);

}  // namespace ls
